//! Limits of definitions files.
//!
//! Leaves: constants.
//! Owns:   what is read at most.

/// Bytes of a file: a million queues with bindings have about a half of it.
pub const FILE_BYTES_MAX: usize = 512 << 20;

/// Faults that are told at once; there may be one for each of many queues.
pub const FAULTS_MAX: usize = 100;

/// Bytes of one piece of a journal's entry, as a log takes it.
pub const JOURNAL_PIECE_BYTES_MAX: usize = 48 << 10;

/// Bytes of an entry of the journal that is read: more than the largest definitions file can make of its policies.
pub(crate) const JOURNAL_ENTRY_BYTES_MAX: usize = 1 << 30;

/// Bytes of records that one step of a snapshot makes, unless one alone has more.
pub(crate) const SNAPSHOT_STEP_BYTES: usize = 32 << 10;

/// Places of the catalog's tables that one step of a snapshot looks at.
pub const SNAPSHOT_STEP_PLACES: u32 = 1_024;

/// Keys of an object among which a key is looked for one by one, to see whether it is there twice; beyond, by its hash, so that
/// reading takes no longer than the text is long.
pub(crate) const KEYS_COMPARED_MAX: usize = 16;
