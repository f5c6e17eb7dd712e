//! The limits of the catalog, and how they depend on each other.
//!
//! Leaves: constants, and the limits that an operator may change.
//! Owns:   every bound on what peers can make the catalog hold.

/// Bytes of a name or routing key: they travel as short strings (AMQP 0-9-1 §4.2.5.3).
pub const NAME_BYTES_MAX: usize = wire::limits::SHORT_STR_BYTES_MAX;

/// Words of a topic routing key: 254 dots between 255 empty words is the worst that fits.
pub(crate) const TOPIC_WORDS_MAX: usize = NAME_BYTES_MAX + 1;

/// Encoded bytes of the arguments of one exchange, queue or binding. A harrier bound: RabbitMQ has none but the frame.
pub const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;

/// Weight of a binding to a consistent-hash exchange. A weight costs nothing here; RabbitMQ makes a bucket for each unit of it.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000_000;

/// How often a message may return to a quorum queue that says nothing else (RabbitMQ 4).
pub(crate) const QUORUM_DELIVERY_LIMIT: u32 = 20;

/// Milliseconds for which a message can be delayed; what asks for more is not delayed (the longest timer of RabbitMQ's plugin).
pub(crate) const DELAY_MS_MAX: u32 = u32::MAX;

/// Bytes of a pattern of names as written.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Bytes of a pattern of names once compiled.
pub const PATTERN_COMPILED_BYTES_MAX: usize = 1 << 20;

/// Bytes of the table of a pattern of names; one whose table is larger is searched for.
pub(crate) const PATTERN_TABLE_BYTES_MAX: usize = 16 << 10;

/// States of a pattern that is searched for: so many a byte of a name may visit.
pub(crate) const PATTERN_STATES_MAX: u32 = 4096;

/// States of all such patterns of the policies of a virtual host, [`SEARCH_STATES_EACH`] more for each: to hold one name against them is
/// one piece of work, of some 10 ms.
pub(crate) const POLICY_STATES_MAX: u64 = 8192;

/// Bytes in which a pattern that is searched for remembers what it has seen, for each thread.
pub(crate) const SEARCH_CACHE_BYTES_MAX: usize = 256 << 10;

/// Topic permissions of one user: they are looked through.
pub(crate) const TOPIC_PERMISSIONS_MAX: usize = 256;

/// Policies of all vhosts together, those of operators included: each queue that is declared is held against those of its vhost.
pub(crate) const POLICIES_MAX: usize = 4096;

/// Units of work that it is to set one policy: to check and keep it, and to drop one of those before. Patterns were compiled before.
pub(crate) const POLICY_WORK: u64 = 10;
/// Bytes of a message's headers that an exchange looks through for one of them with one unit of work.
pub const HEADER_BYTES_SEARCHED_PER_WORK: usize = 64;

/// Bytes of a password, so that comparing one is bounded.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// KiB of memory that the proof of one Argon2 password may take; as many as there are provers take it at once.
pub(crate) const ARGON2_MEMORY_KIB_MAX: u32 = 64 * 1024;

/// Rounds of an Argon2 password.
pub(crate) const ARGON2_ROUNDS_MAX: u32 = 10;

/// Lanes of an Argon2 password.
pub(crate) const ARGON2_LANES_MAX: u32 = 4;

/// Costs of Argon2 hashes that a refused login is made to take, whoever it was for. It takes one hash of each.
pub(crate) const PASSWORD_COSTS_MAX: usize = 4;

/// Changes of watched bindings that are kept until somebody takes them; beyond, he is told to look at all bindings anew.
pub const BINDING_CHANGES_MAX: usize = 64 * 1024;

/// Bytes of their routing keys and arguments.
pub(crate) const BINDING_CHANGE_BYTES_MAX: usize = 16 << 20;

/// Steps that the execution of one definition takes at most: bindings that go, queues and so on. What is left is done by
/// [`Definition::Finish`](crate::Definition::Finish), about 2 ms at a time.
pub const DEFINITION_STEPS_MAX: u64 = 2_500;

/// Steps that one queue or exchange counts for that goes, besides its bindings: what its home has to do about it, too.
pub const REMOVAL_STEPS: u64 = 10;

/// Steps that one queue or exchange counts for that is held against policies: its home has it do something else.
pub(crate) const RENEWAL_STEPS: u64 = 10;

/// Bytes of names that are held against a table in one step. A name counts for half as many more.
pub(crate) const TABLE_BYTES_A_STEP: u64 = 128;

/// States that the bytes of a name visit in one step. A pattern that is searched for counts for [`SEARCH_STATES_EACH`] more.
pub(crate) const SEARCH_STATES_A_STEP: u64 = 32;

/// What a pattern that is searched for costs at each byte beside its states, in states.
pub(crate) const SEARCH_STATES_EACH: u64 = 64;

/// Bytes of arguments that count for one step when they go: they may be many small allocations.
pub(crate) const ARGUMENT_BYTES_A_STEP: usize = 64;

/// How often the least work of a piece of a divided search is doubled: once each time that definitions have set it back, so that
/// changes that never end do not keep a message from its queues.
pub(crate) const SEARCH_DOUBLINGS_MAX: u32 = 32;

/// Units of work after which a divided search walks the bindings that it has selected, before it selects more: what it selects anew if
/// one of them goes.
pub(crate) const SELECTION_WORK_MAX: u64 = 1024;

/// Entries of scratch that routing keeps from one message to the next.
pub(crate) const SCRATCH_ENTRIES_MAX: usize = 64 * 1024;

/// Places in the filter that keeps keys seen once out of a full route cache.
pub(crate) const SEEN_ONCE_PLACES: usize = 16 * 1024;

/// How much a catalog may hold. One replica lives on every shard, so these count once per shard.
#[derive(Clone, Debug)]
pub struct CatalogLimits {
    /// Virtual hosts.
    pub vhosts_max: usize,
    /// Exchanges over all virtual hosts, the predeclared ones included.
    pub exchanges_max: usize,
    /// Queues over all virtual hosts.
    pub queues_max: usize,
    /// Bindings over all virtual hosts; those to the default exchange are implicit and cost nothing.
    pub bindings_max: usize,
    pub users_max: usize,
    /// Routing keys whose routes are remembered.
    pub cached_routes_max: usize,
    /// Bytes of these keys and routes.
    pub cached_route_bytes_max: usize,
    /// Names whose permission is remembered.
    pub cached_permissions_max: usize,
    /// Queues declared as `quorum` or `stream` are classic ones, and may have the arguments of those types. Otherwise a quorum queue
    /// must be one that it can be, and streams are refused.
    pub queue_types_as_classic: bool,
    /// Seed of every hash. A broker draws it at random, so that no peer can aim at collisions.
    pub hash_seed: u64,
}

/// How much of the broker's memory definitions may take, and what they take beside the bytes of one catalog.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionShare {
    /// Bytes from which on exchanges, queues and bindings are refused that do not exist yet.
    pub bytes_max: usize,
    /// Shards with a catalog.
    pub replicas: usize,
    /// Bytes of a queue on its home.
    pub queue_bytes: usize,
}

impl DefinitionShare {
    /// That of a catalog that refuses nothing: one that follows another.
    pub(crate) const UNLIMITED: Self = Self { bytes_max: usize::MAX, replicas: 1, queue_bytes: 0 };
}

impl Default for CatalogLimits {
    fn default() -> Self {
        Self {
            vhosts_max: 4096,
            exchanges_max: 1_000_000,
            queues_max: 2_000_000,
            bindings_max: 16_000_000,
            users_max: 100_000,
            cached_routes_max: 64 * 1024,
            cached_route_bytes_max: 16 << 20,
            cached_permissions_max: 16 * 1024,
            queue_types_as_classic: false,
            hash_seed: 0x6861_7272_6965_7221,
        }
    }
}

// The filter's index is a mask over a hash.
const _: () = assert!(SEEN_ONCE_PLACES.is_power_of_two());
// A word count fits the byte in which the trie keeps a depth, for keys have at most 256 words and depth 0 is the root.
const _: () = assert!(TOPIC_WORDS_MAX <= 256);
