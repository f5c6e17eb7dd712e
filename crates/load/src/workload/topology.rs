//! The queues and bindings of a workload, and the queues that each routing key reaches.
//!
//! Expands `{consumer}`, `{pick}`, `{symbol}` and `{publisher}`. Its routing model decides which messages count as lost.

use std::collections::HashMap;

use super::random::{RngPurpose, rng, sample_symbols};
use super::spec::{QueueSource, WorkloadBinding, WorkloadExchangeType, WorkloadSpec};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadQueue {
    /// Its name, without the run's prefix.
    pub name: String,
    /// Exchange and key.
    pub bindings: Vec<(usize, String)>,
    /// Whether its consumers answer.
    pub answers: bool,
}

/// All queues: the shared ones first, then the exclusive ones, group by group.
#[derive(Clone, Debug)]
pub struct WorkloadTopology {
    pub queues: Vec<WorkloadQueue>,
    /// The first exclusive queue of each group of consumers.
    first_own: Vec<usize>,
}

impl WorkloadTopology {
    /// Expands a workload.
    pub fn of(spec: &WorkloadSpec) -> Self {
        let mut queues: Vec<WorkloadQueue> = Vec::new();
        for (index, shared) in spec.queues.iter().enumerate() {
            queues.push(WorkloadQueue {
                name: shared.name.clone(),
                bindings: shared.bindings.iter().map(|binding| (binding.exchange, binding.key.clone())).collect(),
                answers: spec
                    .consumers
                    .iter()
                    .any(|group| group.from == QueueSource::Shared(index) && group.answer.is_some()),
            });
        }
        let mut first_own = Vec::with_capacity(spec.consumers.len());
        let mut who = 0;
        for group in &spec.consumers {
            first_own.push(queues.len());
            for consumer in 0..group.count {
                who += 1;
                if let QueueSource::Own { bindings, picks: count, picks_of } = &group.from {
                    let picked = sample_symbols(&mut rng(spec.seed, RngPurpose::Picks, who), *count, *picks_of);
                    queues.push(WorkloadQueue {
                        name: format!("{}.{consumer}", group.name),
                        bindings: bindings.iter().flat_map(|binding| expand(binding, consumer, &picked)).collect(),
                        answers: group.answer.is_some(),
                    });
                }
            }
        }
        Self { queues, first_own }
    }

    /// The queue of a consumer.
    pub(crate) fn queue_of(&self, spec: &WorkloadSpec, group: usize, consumer: usize) -> usize {
        match spec.consumers[group].from {
            QueueSource::Shared(queue) => queue,
            QueueSource::Own { .. } => self.first_own[group] + consumer,
        }
    }

    /// The queues that a key reaches through an exchange, without an index.
    #[cfg(test)]
    fn reached(&self, spec: &WorkloadSpec, exchange: usize, key: &str) -> Vec<u32> {
        let kind = spec.exchanges[exchange].kind;
        let matches = |(at, binding): &(usize, String)| {
            *at == exchange
                && match kind {
                    WorkloadExchangeType::Fanout => true,
                    WorkloadExchangeType::Direct => binding == key,
                    WorkloadExchangeType::Topic => topic_matches(binding, key),
                }
        };
        let all = self.queues.iter().enumerate();
        all.filter(|(_, queue)| queue.bindings.iter().any(matches)).map(|(index, _)| index as u32).collect()
    }
}

fn expand(binding: &WorkloadBinding, consumer: usize, picked: &[usize]) -> Vec<(usize, String)> {
    let key = binding.key.replace("{consumer}", &consumer.to_string());
    if !key.contains("{pick}") {
        return vec![(binding.exchange, key)];
    }
    picked.iter().map(|pick| (binding.exchange, key.replace("{pick}", &pick.to_string()))).collect()
}

/// The routing keys of one group of publishers, and the queues they reach.
#[derive(Clone, Debug)]
pub(crate) struct RoutingKeys {
    keys: Vec<Box<str>>,
    routes: Vec<Box<[u32]>>,
    symbols: usize,
    /// Whether each publisher has its own keys, and the first publisher of this process.
    own: bool,
    first: usize,
}

impl RoutingKeys {
    pub fn of(spec: &WorkloadSpec, topology: &WorkloadTopology, group: usize, from: usize, to: usize) -> Self {
        let publishers = &spec.publishers[group];
        let own = publishers.key.contains("{publisher}");
        let index = RouteIndex::of(spec, topology, publishers.exchange);
        let mut keys = Vec::new();
        for publisher in if own { from..to } else { from..from + 1 } {
            let key = publishers.key.replace("{publisher}", &publisher.to_string());
            if key.contains("{symbol}") {
                keys.extend(
                    (0..publishers.symbols).map(|symbol| key.replace("{symbol}", &symbol.to_string()).into_boxed_str()),
                );
            } else {
                keys.push(key.into_boxed_str());
            }
        }
        let routes = keys.iter().map(|key| index.reached(key)).collect();
        Self { keys, routes, symbols: publishers.symbols, own, first: from }
    }

    /// The number of a publisher's key for a symbol.
    #[inline]
    pub fn number(&self, publisher: usize, symbol: usize) -> usize {
        if self.own { (publisher - self.first) * self.symbols + symbol } else { symbol }
    }

    #[inline]
    pub fn key(&self, number: usize) -> &str {
        &self.keys[number]
    }

    /// The queues that it reaches.
    #[inline]
    pub fn route(&self, number: usize) -> &[u32] {
        &self.routes[number]
    }

    /// A key that does not reach exactly one answering queue.
    pub(crate) fn without_one_answer(&self, topology: &WorkloadTopology) -> Option<(&str, usize)> {
        self.keys.iter().zip(&self.routes).find_map(|(key, route)| {
            let answering = route.iter().filter(|&&queue| topology.queues[queue as usize].answers).count();
            (answering != 1).then_some((&**key, answering))
        })
    }
}

/// An index of one exchange's bindings.
struct RouteIndex<'a> {
    exact: HashMap<&'a str, Vec<u32>>,
    patterns: Vec<(&'a str, u32)>,
    all: Vec<u32>,
}

impl<'a> RouteIndex<'a> {
    fn of(spec: &WorkloadSpec, topology: &'a WorkloadTopology, exchange: usize) -> Self {
        let mut index = Self { exact: HashMap::new(), patterns: Vec::new(), all: Vec::new() };
        for (number, queue) in topology.queues.iter().enumerate() {
            for (_, key) in queue.bindings.iter().filter(|(at, _)| *at == exchange) {
                match spec.exchanges[exchange].kind {
                    WorkloadExchangeType::Fanout => index.all.push(number as u32),
                    WorkloadExchangeType::Topic if is_pattern(key) => index.patterns.push((key, number as u32)),
                    _ => index.exact.entry(key).or_default().push(number as u32),
                }
            }
        }
        index
    }

    fn reached(&self, key: &str) -> Box<[u32]> {
        let mut reached = self.all.clone();
        reached.extend(self.exact.get(key).into_iter().flatten());
        reached.extend(self.patterns.iter().filter(|(pattern, _)| topic_matches(pattern, key)).map(|(_, queue)| queue));
        reached.sort_unstable();
        reached.dedup();
        reached.into_boxed_slice()
    }
}

/// Whether a topic binding holds a wildcard.
pub(crate) fn is_pattern(key: &str) -> bool {
    key.split('.').any(|word| word == "*" || word == "#")
}

/// Whether a topic pattern matches a key (AMQP 0-9-1 §3.1.3.3): `*` is one word, `#` any number of them.
pub(crate) fn topic_matches(pattern: &str, key: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('.').collect();
    let key: Vec<&str> = key.split('.').collect();
    words_match(&pattern, &key)
}

fn words_match(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        (["#", rest @ ..], _) => (0..=key.len()).any(|skipped| words_match(rest, &key[skipped..])),
        ([word, rest @ ..], [first, others @ ..]) if *word == "*" || word == first => words_match(rest, others),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::shipped;

    #[test]
    fn patterns() {
        for (pattern, key, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.*", "a.b", true),
            ("a.*", "a", false),
            ("a.*", "a.b.c", false),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("a.#", "a", true),
            ("a.#.c", "a.c", true),
            ("a.#.c", "a.b.b.c", true),
            ("a.#.c", "a.b", false),
            ("*.b.#", "a.b", true),
            ("#.#", "a", true),
            ("*", "", true),
        ] {
            assert_eq!(topic_matches(pattern, key), expected, "{pattern} {key}");
        }
    }

    #[test]
    fn the_index_finds_what_the_slow_way_finds() {
        for (name, spec) in shipped::all() {
            let topology = WorkloadTopology::of(&spec);
            let mut reached_any = false;
            for (group, publishers) in spec.publishers.iter().enumerate() {
                let keys = RoutingKeys::of(&spec, &topology, group, 0, publishers.count);
                for number in (0..keys.keys.len()).step_by(keys.keys.len().div_ceil(200)) {
                    let expected = topology.reached(&spec, publishers.exchange, keys.key(number));
                    assert_eq!(keys.route(number), expected, "{name}: {}", keys.key(number));
                    reached_any |= !expected.is_empty();
                }
                if publishers.reply_exchange.is_some() {
                    assert_eq!(keys.without_one_answer(&topology), None, "{name}");
                }
            }
            assert!(reached_any, "{name}");
        }
    }
}
