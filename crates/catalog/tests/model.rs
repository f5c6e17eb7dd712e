//! Random definitions against a model that is too simple to be wrong, and replicas against each other.
//!
//! Enters: random commands on a few names.  Leaves: agreement, or a short command list that breaks it.
//! Owns:   the model: lists of exchanges, queues and bindings, and a recursive matcher.

mod script;

use catalog::{CatalogLimits, RemovedQueue};
use proptest::prelude::*;
use script::RoutingScript;
use std::collections::BTreeSet;

/// AMQP 0-9-1 §3.1.3.3, word by word.
fn matches(pattern: &[&str], key: &[&str]) -> bool {
    match pattern {
        [] => key.is_empty(),
        ["#", rest @ ..] => (0..=key.len()).any(|taken| matches(rest, &key[taken..])),
        [word, rest @ ..] => key.first().is_some_and(|first| *word == "*" || word == first) && matches(rest, &key[1..]),
    }
}

fn words(text: &str) -> Vec<&str> {
    if text.is_empty() { Vec::new() } else { text.split('.').collect() }
}

fn word() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just("a"), 3 => Just("b"), 1 => Just("c"), 1 => Just("")]
}

fn key() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 0..6).prop_map(|words| words.join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![3 => word(), 1 => Just("*"), 2 => Just("#")], 0..6)
        .prop_map(|words| words.join("."))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// The trie finds what a plain matcher finds, while patterns come and go.
    #[test]
    fn topics_match(steps in prop::collection::vec((pattern(), any::<bool>()), 1..24), keys in prop::collection::vec(key(), 1..12)) {
        let mut script = RoutingScript::new();
        let mut bound = BTreeSet::new();
        for (pattern, add) in steps {
            let quoted = if pattern.is_empty() { "''" } else { &pattern };
            // A queue for each pattern, so that the answer tells which matched.
            let queue = format!("<{pattern}>");
            if add {
                script.run(&format!("queue {queue}; bind amq.topic {quoted} {queue}"));
                bound.insert(pattern);
            } else if let Some(pattern) = bound.pop_first() {
                let quoted = if pattern.is_empty() { "''" } else { &pattern };
                script.run(&format!("unbind amq.topic {quoted} <{pattern}>"));
            }
            for key in &keys {
                let mut expected: Vec<String> = bound.iter().filter(|pattern| matches(&words(pattern), &words(key))).map(|pattern| format!("<{pattern}>")).collect();
                expected.sort_unstable();
                let expected = if expected.is_empty() { "-".to_owned() } else { expected.join(" ") };
                prop_assert_eq!(script.route("amq.topic", key, &[]), expected, "{}", key);
            }
        }
    }
}

const EXCHANGES: [(&str, &str); 6] =
    [("d", "direct"), ("e", "direct"), ("f", "fanout"), ("g", "fanout"), ("t", "topic"), ("u", "topic")];
const QUEUES: [&str; 3] = ["p", "q", "r"];
const PATTERNS: [&str; 5] = ["a", "a.b", "#", "a.*", "b"];
const KEYS: [&str; 4] = ["a", "b", "a.b", "c"];

#[derive(Clone, Debug)]
enum ModelStep {
    Exchange { exchange: usize, auto_delete: bool, alternate: Option<usize> },
    Queue { queue: usize, session: Option<u32> },
    Bind { source: usize, to: usize, pattern: usize, bind: bool },
    DeleteExchange { exchange: usize },
    DeleteQueue { queue: usize },
    Gone { session: u32 },
}

fn step() -> impl Strategy<Value = ModelStep> {
    let exchange = 0..EXCHANGES.len();
    prop_oneof![
        3 => (exchange.clone(), any::<bool>(), prop::option::of(exchange.clone())).prop_map(|(exchange, auto_delete, alternate)| ModelStep::Exchange { exchange, auto_delete, alternate }),
        2 => (0..QUEUES.len(), prop::option::of(1..3u32)).prop_map(|(queue, session)| ModelStep::Queue { queue, session }),
        12 => (exchange.clone(), 0..EXCHANGES.len() + QUEUES.len(), 0..PATTERNS.len(), prop::bool::weighted(0.7)).prop_map(|(source, to, pattern, bind)| ModelStep::Bind { source, to, pattern, bind }),
        1 => exchange.prop_map(|exchange| ModelStep::DeleteExchange { exchange }),
        1 => (0..QUEUES.len()).prop_map(|queue| ModelStep::DeleteQueue { queue }),
        1 => (1..3u32).prop_map(|session| ModelStep::Gone { session }),
    ]
}

impl ModelStep {
    fn command(&self) -> String {
        match *self {
            Self::Exchange { exchange, auto_delete, alternate } => {
                let (name, kind) = EXCHANGES[exchange];
                let auto_delete = if auto_delete { "auto-delete" } else { "" };
                let alternate =
                    alternate.map(|at| format!("alternate-exchange={}", EXCHANGES[at].0)).unwrap_or_default();
                format!("exchange {name} {kind} {auto_delete} {alternate}")
            }
            Self::Queue { queue, session } => {
                format!(
                    "queue {} {}",
                    QUEUES[queue],
                    session.map(|session| format!("session={session}")).unwrap_or_default()
                )
            }
            Self::Bind { source, to, pattern, bind } => {
                let verb = if bind { "bind" } else { "unbind" };
                let (source, pattern) = (EXCHANGES[source].0, PATTERNS[pattern]);
                match to.checked_sub(EXCHANGES.len()) {
                    None => format!("{verb}-exchange {source} {pattern} {}", EXCHANGES[to].0),
                    Some(queue) => format!("{verb} {source} {pattern} {}", QUEUES[queue]),
                }
            }
            Self::DeleteExchange { exchange } => format!("delete-exchange {}", EXCHANGES[exchange].0),
            Self::DeleteQueue { queue } => format!("delete-queue {}", QUEUES[queue]),
            Self::Gone { session } => format!("gone {session}"),
        }
    }
}

#[derive(Clone, Default)]
struct ReferenceModel {
    /// Auto-delete and alternate of those that are there.
    exchanges: [Option<(bool, Option<usize>)>; EXCHANGES.len()],
    queues: [Option<Option<u32>>; QUEUES.len()],
    /// Source, destination (queues behind exchanges), pattern.
    bindings: BTreeSet<(usize, usize, usize)>,
}

impl ReferenceModel {
    fn step(&mut self, step: &ModelStep) {
        match *step {
            ModelStep::Exchange { exchange, auto_delete, alternate } => {
                self.exchanges[exchange].get_or_insert((auto_delete, alternate));
            }
            ModelStep::Queue { queue, session } => {
                self.queues[queue].get_or_insert(session);
            }
            ModelStep::Bind { source, to, pattern, bind: true } => {
                let there = match to.checked_sub(EXCHANGES.len()) {
                    None => self.exchanges[to].is_some(),
                    Some(queue) => self.queues[queue].is_some(),
                };
                if there && self.exchanges[source].is_some() {
                    self.bindings.insert((source, to, pattern));
                }
            }
            ModelStep::Bind { source, to, pattern, bind: false } => {
                self.unbind(|binding| *binding == (source, to, pattern))
            }
            ModelStep::DeleteExchange { exchange } => self.delete_exchange(exchange),
            ModelStep::DeleteQueue { queue } => self.delete_queue(queue),
            ModelStep::Gone { session } => {
                for queue in 0..QUEUES.len() {
                    if self.queues[queue] == Some(Some(session)) {
                        self.delete_queue(queue);
                    }
                }
            }
        }
    }

    fn unbind(&mut self, goes: impl Fn(&(usize, usize, usize)) -> bool) {
        let sources: BTreeSet<usize> =
            self.bindings.iter().filter(|binding| goes(binding)).map(|binding| binding.0).collect();
        self.bindings.retain(|binding| !goes(binding));
        for source in sources {
            let bound = self.bindings.iter().any(|binding| binding.0 == source);
            if !bound && self.exchanges[source].is_some_and(|(auto_delete, _)| auto_delete) {
                self.delete_exchange(source);
            }
        }
    }

    fn delete_exchange(&mut self, exchange: usize) {
        self.exchanges[exchange] = None;
        self.bindings.retain(|binding| binding.0 != exchange);
        self.unbind(|binding| binding.1 == exchange);
    }

    fn delete_queue(&mut self, queue: usize) {
        self.queues[queue] = None;
        self.unbind(|binding| binding.1 == queue + EXCHANGES.len());
    }

    fn route(&self, from: usize, key: &str) -> String {
        let mut seen = BTreeSet::from([from]);
        let mut to_visit = vec![from];
        let mut queues = BTreeSet::new();
        while let Some(at) = to_visit.pop() {
            let found: Vec<usize> = self
                .bindings
                .iter()
                .filter(|(source, _, pattern)| {
                    *source == at
                        && match EXCHANGES[at].1 {
                            "direct" => PATTERNS[*pattern] == key,
                            "fanout" => true,
                            _ => matches(&words(PATTERNS[*pattern]), &words(key)),
                        }
                })
                .map(|binding| binding.1)
                .collect();
            let alternate = self.exchanges[at].and_then(|(_, alternate)| alternate).filter(|_| found.is_empty());
            for to in found.into_iter().chain(alternate) {
                match to.checked_sub(EXCHANGES.len()) {
                    Some(queue) => drop(queues.insert(QUEUES[queue])),
                    None if self.exchanges[to].is_some() && seen.insert(to) => to_visit.push(to),
                    None => {}
                }
            }
        }
        if queues.is_empty() { "-".into() } else { queues.into_iter().collect::<Vec<_>>().join(" ") }
    }
}

fn agree(steps: &[ModelStep], limits: CatalogLimits) -> Result<(), TestCaseError> {
    let mut script = RoutingScript::with(limits);
    let mut model = ReferenceModel::default();
    for step in steps {
        script.run(&step.command());
        model.step(step);
        for (at, (exchange, _)) in EXCHANGES.iter().enumerate() {
            let id = script.catalog.exchange(script.vhost, exchange.as_bytes());
            prop_assert_eq!(id.is_some(), model.exchanges[at].is_some(), "{} after {:?}", exchange, step);
            if id.is_none() {
                continue;
            }
            for key in KEYS {
                prop_assert_eq!(
                    script.route(exchange, key, &[]),
                    model.route(at, key),
                    "{} {} after {:?}",
                    exchange,
                    key,
                    step
                );
            }
        }
        for (at, queue) in QUEUES.iter().enumerate() {
            let id = script.catalog.queue(script.vhost, queue.as_bytes());
            prop_assert_eq!(id.is_some(), model.queues[at].is_some(), "{} after {:?}", queue, step);
        }
        prop_assert_eq!(script.catalog.bindings_count(), model.bindings.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// After every definition every key goes where the model says: nothing remembered outlives its truth.
    #[test]
    fn routes_agree_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        agree(&steps, CatalogLimits::default())?;
    }

    /// The same with a memory of routes so small that it is always full.
    #[test]
    fn routes_agree_with_a_full_cache(steps in prop::collection::vec(step(), 1..40)) {
        agree(&steps, CatalogLimits { cached_routes_max: 3, ..CatalogLimits::default() })?;
    }

    /// Replicas that execute the same definitions have the same ids, outcomes and versions, though one of them routes
    /// messages in between and their hashes differ.
    #[test]
    fn replicas_are_alike(steps in prop::collection::vec(step(), 1..60)) {
        let mut one = RoutingScript::new();
        let mut two = RoutingScript::with(CatalogLimits { hash_seed: 7, cached_routes_max: 2, ..CatalogLimits::default() });
        for step in steps {
            let command = step.command();
            let definition = one.definition(&command.split_whitespace().collect::<Vec<_>>()).expect("commands of steps are definitions");
            let (left, right) = (one.execute(&definition), two.execute(&definition));
            prop_assert_eq!(&left, &right, "{:?}", step);
            for RemovedQueue { id, .. } in left.map(|executed| executed.queues_removed).unwrap_or_default() {
                prop_assert!(one.catalog.queue_definition(id).is_none());
                prop_assert!(!one.catalog.is_declared_ahead(id));
            }
            for (exchange, _) in EXCHANGES {
                if one.catalog.exchange(one.vhost, exchange.as_bytes()).is_some() {
                    two.route(exchange, "a.b", &[]);
                }
            }
            prop_assert_eq!(one.catalog.version(), two.catalog.version());
            let ids = |script: &RoutingScript| script.catalog.queues().map(|(id, _)| id).collect::<Vec<_>>();
            prop_assert_eq!(ids(&one), ids(&two));
            let ids = |script: &RoutingScript| script.catalog.exchanges().map(|(id, _)| id).collect::<Vec<_>>();
            prop_assert_eq!(ids(&one), ids(&two));
        }
    }
}
