//! Policies: what an operator says of many queues and exchanges at once (RabbitMQ extension).
//!
//! Enters: policies as they are written; names.  Leaves: what they come to for one queue or exchange, or what is wrong with one.
//! Owns:   the keys of a policy, which of several counts, and how it goes with one of the operator's own.

use crate::{
    arguments::shown,
    heap::{allocated, shared},
    ids::VhostId,
    limits::{NAME_BYTES_MAX, POLICY_STATES_MAX, SEARCH_STATES_A_STEP, SEARCH_STATES_EACH, TABLE_BYTES_A_STEP},
    name::Name,
    policy_pattern::PolicyPattern,
    queue_type::QUEUE_TYPE,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use wire::{Table, Value};

/// To what a policy applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyTo {
    /// Queues and exchanges.
    #[default]
    All,
    /// Of every type.
    Queues,
    Exchanges,
    ClassicQueues,
    QuorumQueues,
    /// Queues that were declared as streams, where they become classic ones.
    Streams,
}

impl ApplyTo {
    const EACH: [Self; 6] =
        [Self::All, Self::Queues, Self::Exchanges, Self::ClassicQueues, Self::QuorumQueues, Self::Streams];

    /// All names, for a fault.
    pub const NAMES: &str = "all, queues, exchanges, classic_queues, quorum_queues or streams";

    /// As RabbitMQ names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Queues => "queues",
            Self::Exchanges => "exchanges",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
        }
    }

    /// What a name of RabbitMQ means.
    pub fn parse(name: &str) -> Option<Self> {
        Self::EACH.into_iter().find(|apply_to| apply_to.name() == name)
    }
}

/// A policy as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Where it applies.
    pub vhost: Name,
    /// Its name, which no other policy of this vhost has.
    pub name: Name,
    /// In the names of what it applies to.
    pub pattern: PolicyPattern,
    pub apply_to: ApplyTo,
    /// Of several that match, the one with the highest priority counts; of equal ones, the first by name.
    pub priority: i64,
    /// What it says: `message-ttl` and so on.
    pub definition: Table,
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// Which part of it: `pattern`, `definition`, `definition.message-ttl`.
    pub key: String,
    pub why: String,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for PolicyFault {}

/// What a key's value may be.
#[derive(Clone, Copy)]
enum PolicyValueKind {
    /// A whole number, at least this.
    Number(i64),
    /// The name of an exchange, or a routing key.
    Name,
    Choice(&'static [&'static str]),
    /// Whatever RabbitMQ makes of it: it has no effect here.
    Anything,
}

struct PolicyKey {
    name: &'static str,
    takes: PolicyValueKind,
    /// An operator policy may say it; then the lesser number counts.
    operators: bool,
    effect: bool,
    /// Classic queues do not know it: RabbitMQ applies no part of a policy that has it to one.
    other_types: bool,
}

const fn key(name: &'static str, takes: PolicyValueKind) -> PolicyKey {
    PolicyKey { name, takes, operators: false, effect: true, other_types: false }
}

const fn number(name: &'static str, least: i64) -> PolicyKey {
    PolicyKey { operators: true, ..key(name, PolicyValueKind::Number(least)) }
}

const fn idle(name: &'static str, takes: PolicyValueKind) -> PolicyKey {
    PolicyKey { effect: false, ..key(name, takes) }
}

const fn of_other_types(key: PolicyKey) -> PolicyKey {
    PolicyKey { other_types: true, ..key }
}

const MESSAGE_TTL: &str = "message-ttl";
const EXPIRES: &str = "expires";
const MAX_LENGTH: &str = "max-length";
const MAX_LENGTH_BYTES: &str = "max-length-bytes";
const OVERFLOW: &str = "overflow";
const DELIVERY_LIMIT: &str = "delivery-limit";
const DEAD_LETTERS: &str = "dead-letter-exchange";
const ALTERNATE: &str = "alternate-exchange";

/// The keys that name upstreams.
pub const FEDERATION_KEYS: [&str; 3] =
    ["federation-upstream", "federation-upstream-set", "federation-upstream-pattern"];

/// Every key of RabbitMQ 3.10, those of its mirrored queues and of federation included.
const KEYS: &[PolicyKey] = &[
    number(MESSAGE_TTL, 0),
    number(EXPIRES, 1),
    number(MAX_LENGTH, 0),
    number(MAX_LENGTH_BYTES, 0),
    key(OVERFLOW, PolicyValueKind::Choice(&["drop-head", "reject-publish", "reject-publish-dlx"])),
    key(DEAD_LETTERS, PolicyValueKind::Name),
    key("dead-letter-routing-key", PolicyValueKind::Name),
    of_other_types(number(DELIVERY_LIMIT, 0)),
    key(ALTERNATE, PolicyValueKind::Name),
    idle("queue-mode", PolicyValueKind::Choice(&["default", "lazy"])),
    idle("queue-version", PolicyValueKind::Number(1)),
    PolicyKey { effect: false, ..number("max-in-memory-length", 0) },
    PolicyKey { effect: false, ..number("max-in-memory-bytes", 0) },
    of_other_types(idle("dead-letter-strategy", PolicyValueKind::Choice(&["at-most-once", "at-least-once"]))),
    of_other_types(idle("max-age", PolicyValueKind::Anything)),
    of_other_types(idle("stream-max-segment-size-bytes", PolicyValueKind::Number(0))),
    of_other_types(idle("queue-leader-locator", PolicyValueKind::Anything)),
    of_other_types(idle("initial-cluster-size", PolicyValueKind::Number(0))),
    idle("queue-master-locator", PolicyValueKind::Anything),
    idle("ha-mode", PolicyValueKind::Anything),
    idle("ha-params", PolicyValueKind::Anything),
    idle("ha-sync-mode", PolicyValueKind::Anything),
    idle("ha-sync-batch-size", PolicyValueKind::Anything),
    idle("ha-promote-on-shutdown", PolicyValueKind::Anything),
    idle("ha-promote-on-failure", PolicyValueKind::Anything),
    // Those who make links of them read them.
    key(FEDERATION_KEYS[0], PolicyValueKind::Anything),
    key(FEDERATION_KEYS[1], PolicyValueKind::Anything),
    key(FEDERATION_KEYS[2], PolicyValueKind::Anything),
];

fn known(name: &str) -> Option<&'static PolicyKey> {
    KEYS.iter().find(|key| key.name == name)
}

impl PolicyValueKind {
    fn check(self, value: &Value) -> Result<(), String> {
        let integer = value.as_i64();
        match self {
            PolicyValueKind::Anything => Ok(()),
            PolicyValueKind::Number(least) if integer.is_some_and(|number| number >= least) => Ok(()),
            PolicyValueKind::Number(least) => Err(match integer {
                Some(number) => format!("{least} is the least, not {number}"),
                None => format!("a whole number is needed, not {}", shown_typed(value)),
            }),
            PolicyValueKind::Name => match value.as_str() {
                Some(text) if text.len() <= NAME_BYTES_MAX => Ok(()),
                Some(text) => Err(format!("{NAME_BYTES_MAX} bytes are the most, not {}", text.len())),
                None => Err(format!("a string is needed, not {}", shown_typed(value))),
            },
            PolicyValueKind::Choice(known) if value.as_str().is_some_and(|text| known.contains(&text)) => Ok(()),
            PolicyValueKind::Choice(known) => Err(format!("it takes {}, not {}", known.join(", "), shown_typed(value))),
        }
    }
}

fn shown_typed(value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("'{text}'"),
        None => shown(value).into_owned(),
    }
}

impl Policy {
    /// Checks it, as one of the operator's own or not.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, operator: bool) -> Result<(), PolicyFault> {
        self.compile(operator).map(drop)
    }

    /// Keys that RabbitMQ knows and that have no effect here, and those with which it applies to no classic queue.
    pub fn oddities(&self) -> Vec<String> {
        self.keys().filter_map(|key| match (key.effect, key.other_types) {
            (false, _) => Some(format!("{} has no effect in this broker", key.name)),
            (true, true) => Some(format!(
                "{} is not for classic queues: like RabbitMQ's, the policy applies to none, only to queues declared as \
                 another type",
                key.name
            )),
            (true, false) => None,
        })
        .collect()
    }

    fn compile(&self, operator: bool) -> Result<CompiledPolicy, PolicyFault> {
        let fault = |key: &str, why: String| Err(PolicyFault { key: key.to_owned(), why });
        if self.name.is_empty() {
            return fault("name", "a policy needs a name".to_owned());
        }
        if let Err(why) = self.pattern.compiled() {
            return fault("pattern", why.to_owned());
        }
        if self.definition.is_empty() {
            return fault("definition", "it says nothing".to_owned());
        }
        for (name, value) in self.definition.iter() {
            let name = String::from_utf8_lossy(name.as_bytes());
            let at = format!("definition.{name}");
            let Some(key) = known(&name) else {
                return fault(&at, format!("a policy has no such key; there are {}", list_of(|key| key.effect)));
            };
            if operator && !key.operators {
                let may = list_of(|key| key.operators && key.effect);
                return fault(&at, format!("an operator policy cannot say that; it has {may}"));
            }
            if let Err(why) = key.takes.check(value) {
                return fault(&at, why);
            }
        }
        let of_other_types = self.keys().any(|key| key.other_types);
        Ok(CompiledPolicy { written: self.clone(), of_other_types })
    }

    fn keys(&self) -> impl Iterator<Item = &'static PolicyKey> {
        self.definition.iter().filter_map(|(name, _)| known(name.to_str().ok()?))
    }
}

fn list_of(wanted: impl Fn(&PolicyKey) -> bool) -> String {
    KEYS.iter().filter(|key| wanted(key)).map(|key| key.name).collect::<Vec<_>>().join(", ")
}

/// A policy, ready for use.
#[derive(Clone)]
struct CompiledPolicy {
    written: Policy,
    of_other_types: bool,
}

impl CompiledPolicy {
    /// Whether it is for something of this name: `what` is the only one that names its type alone.
    fn is_for(&self, what: ApplyTo, name: &str) -> bool {
        let is_of_type = match self.written.apply_to {
            ApplyTo::All => true,
            ApplyTo::Queues => what != ApplyTo::Exchanges,
            one => one == what,
        };
        is_of_type
            && (!self.of_other_types || what != ApplyTo::ClassicQueues)
            && self.written.pattern.is_in(name.as_bytes())
    }
}

/// What policies come to for a queue or an exchange.
#[derive(Debug, PartialEq)]
pub struct EffectivePolicy {
    /// The policy that counts.
    pub policy: Option<Name>,
    /// The operator's that counts.
    pub operator_policy: Option<Name>,
    /// What both say together.
    pub definition: Table,
}

impl EffectivePolicy {
    fn of(policy: Option<&Policy>, operator: Option<&Policy>) -> Self {
        let mut definition = policy.map(|policy| policy.definition.clone()).unwrap_or_default();
        for (key, value) in operator.iter().flat_map(|policy| policy.definition.iter()) {
            let own = key.to_str().ok().and_then(|key| definition.get(key)).and_then(Value::as_i64);
            if own.is_none_or(|own| value.as_i64().is_some_and(|number| number < own)) {
                definition.set(key.to_owned(), value.clone());
            }
        }
        EffectivePolicy {
            policy: policy.map(|policy| policy.name.clone()),
            operator_policy: operator.map(|policy| policy.name.clone()),
            definition,
        }
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.definition.get(key)?.as_i64().and_then(|number| u64::try_from(number).ok())
    }

    pub(crate) fn text(&self, key: &str) -> Option<&[u8]> {
        self.definition.get(key)?.as_bytes()
    }

    /// Whether it says that upstreams supply what is under it.
    pub(crate) fn federates(&self) -> bool {
        FEDERATION_KEYS.iter().any(|key| self.definition.get(key).is_some())
    }

    pub(crate) fn has_dead_letters(&self) -> bool {
        self.definition.get(DEAD_LETTERS).is_some()
    }

    /// Where messages go for which an exchange finds no place.
    pub(crate) fn alternate(&self) -> Option<&[u8]> {
        self.text(ALTERNATE)
    }
}

/// The policies of one vhost, those that count first in front.
#[derive(Clone, Default)]
pub(crate) struct PolicyTable {
    policies: Vec<CompiledPolicy>,
    operator: Vec<CompiledPolicy>,
    /// How many patterns of them are tables.
    tables: u64,
    /// States of the others, some more for each.
    search_states: u64,
    /// What pairs of them come to: queues under the same ones share it.
    pairs: BTreeMap<(usize, usize), Arc<EffectivePolicy>>,
}

/// Which place of a pair stands for no policy.
const NO_POLICY: usize = usize::MAX;

impl PolicyTable {
    /// The policies of each vhost, those of the operator's own with `true`.
    ///
    /// # Errors
    /// The first that is wrong, and what is.
    pub fn by_vhost<'a>(
        all: impl IntoIterator<Item = (VhostId, &'a Policy, bool)>,
    ) -> Result<BTreeMap<VhostId, PolicyTable>, (&'a Policy, PolicyFault)> {
        let mut tables: BTreeMap<VhostId, PolicyTable> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for (vhost, policy, is_operator) in all {
            let compiled = policy.compile(is_operator).map_err(|fault| (policy, fault))?;
            if !names.insert((vhost, is_operator, &policy.name)) {
                let why = format!("there are two of the name '{}' in virtual host '{}'", policy.name, policy.vhost);
                return Err((policy, PolicyFault { key: "name".to_owned(), why }));
            }
            let table = tables.entry(vhost).or_default();
            table.count(policy).map_err(|fault| (policy, fault))?;
            if is_operator { &mut table.operator } else { &mut table.policies }.push(compiled);
        }
        for list in tables.values_mut().flat_map(|table| [&mut table.policies, &mut table.operator]) {
            list.sort_by(|one, other| {
                let priorities = other.written.priority.cmp(&one.written.priority);
                priorities.then_with(|| one.written.name.cmp(&other.written.name))
            });
        }
        Ok(tables)
    }

    /// Bytes of the policies as they are written; what a regular expression becomes is not known.
    pub fn bytes(&self) -> usize {
        let bytes = |(policy, _): (&Policy, bool)| {
            size_of::<CompiledPolicy>()
                + shared(policy.name.len())
                + allocated(policy.pattern.len())
                + policy.definition.heap_bytes()
        };
        self.iter().map(bytes).sum()
    }

    /// As they are written, with whether it is the operator's.
    pub fn iter(&self) -> impl Iterator<Item = (&Policy, bool)> {
        let policies = self.policies.iter().map(|policy| (&policy.written, false));
        policies.chain(self.operator.iter().map(|policy| (&policy.written, true)))
    }

    /// Counts what one more costs.
    fn count(&mut self, policy: &Policy) -> Result<(), PolicyFault> {
        let states = policy.pattern.states();
        if states == 0 {
            self.tables += 1;
            return Ok(());
        }
        self.search_states += u64::from(states) + SEARCH_STATES_EACH;
        if self.search_states > POLICY_STATES_MAX {
            let why = format!(
                "too complex: the policies of virtual host '{}' have {} states together, and {POLICY_STATES_MAX} are the most",
                policy.vhost, self.search_states
            );
            return Err(PolicyFault { key: "pattern".to_owned(), why });
        }
        Ok(())
    }

    /// Steps of holding one name against all of them.
    pub fn steps(&self, name: &str) -> u64 {
        let bytes = name.len() as u64;
        let tables = self.tables * (TABLE_BYTES_A_STEP / 2 + bytes);
        tables.div_ceil(TABLE_BYTES_A_STEP) + (self.search_states * bytes).div_ceil(SEARCH_STATES_A_STEP)
    }

    /// What they come to for a queue.
    pub fn of_queue(&mut self, name: &str, arguments: Option<&Table>) -> Option<Arc<EffectivePolicy>> {
        // As it was declared, even if it became a classic queue.
        let what = match arguments.and_then(|arguments| arguments.get(QUEUE_TYPE)).and_then(Value::as_str) {
            None | Some("classic") => ApplyTo::ClassicQueues,
            Some("quorum") => ApplyTo::QuorumQueues,
            Some(_) => ApplyTo::Streams,
        };
        self.of(what, name)
    }

    /// What they come to for an exchange.
    pub fn of_exchange(&mut self, name: &str) -> Option<Arc<EffectivePolicy>> {
        self.of(ApplyTo::Exchanges, name)
    }

    fn of(&mut self, what: ApplyTo, name: &str) -> Option<Arc<EffectivePolicy>> {
        let first = |list: &[CompiledPolicy]| list.iter().position(|policy| policy.is_for(what, name));
        let pair = (first(&self.policies), first(&self.operator));
        if pair == (None, None) {
            return None;
        }
        let written = |list: &[CompiledPolicy], at: Option<usize>| at.map(|at| list[at].written.clone());
        let key = (pair.0.unwrap_or(NO_POLICY), pair.1.unwrap_or(NO_POLICY));
        let effective = self.pairs.entry(key).or_insert_with(|| {
            let (policy, operator) = (written(&self.policies, pair.0), written(&self.operator, pair.1));
            Arc::new(EffectivePolicy::of(policy.as_ref(), operator.as_ref()))
        });
        Some(Arc::clone(effective))
    }
}
