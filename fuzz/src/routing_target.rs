//! The target `routing`: whatever is defined and published, routing is bounded work and right.
//!
//! Enters: steps, each a byte that says which and what it is about: bindings of topics, headers, direct, fanout and
//!         consistent-hash exchanges and between them, messages, removals.
//! Leaves: nothing, or a panic.
//! Owns:   the bound, and a naive reading of topics, against which the catalog's is held.
//! Never:  looks at a clock: what counts is what the catalog says that it did.
//!
//! The bound follows from how routes are found. A key visits each node of a trie once and looks there for each of its
//! different words, and the nodes are the words of the patterns at most. A message with headers looks at each of them once
//! for itself, and at each header of each binding at most once more. All else is a binding looked at, or a queue found.

use crate::steps::Steps;
use crate::tables::{headers_only, table};
use catalog::{
    Catalog, CatalogLimits, Definition, ExchangeId, ExchangeKind, KeyedRoute, Name, QueueRoute, ShardId, VhostId,
    default_definitions,
};
use std::collections::BTreeSet;
use wire::{RawProperties, Table, TableRef, Value};

/// Units that any route or definition may cost.
const WORK_MIN: u64 = 64;
/// Units for each thing that the bound counts.
const WORK_EACH: u64 = 3;
const QUEUES: u8 = 16;
/// Exchanges, and what their types are; more than one of those in which bindings to others matter.
const EXCHANGES: [(&str, ExchangeKind); 7] = [
    ("t", ExchangeKind::Topic),
    ("u", ExchangeKind::Topic),
    ("h", ExchangeKind::Headers),
    ("i", ExchangeKind::Headers),
    ("d", ExchangeKind::Direct),
    ("f", ExchangeKind::Fanout),
    ("c", ExchangeKind::ConsistentHash),
];
/// Bytes of a step that are letters of a key or pattern.
const LETTERS: &[u8; 8] = b"ab..*#a#";

impl<'a> Steps<'a> {
    /// A table, and its bytes; an empty one where these are none.
    fn table(&mut self) -> Option<(Table, &'a [u8])> {
        let length = usize::from(u16::from_be_bytes([self.byte()? & 7, self.byte()?]));
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        Some(TableRef::new(bytes).to_table().map_or((Table::new(), &[]), |table| (table, bytes)))
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        Some(self.bytes()?.iter().map(|byte| LETTERS[usize::from(byte % 8)]).collect())
    }
}

/// A binding that is there.
#[derive(Clone, PartialEq)]
struct Bound {
    exchange: usize,
    to: Target,
    key: Vec<u8>,
    arguments: Table,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Queue(u8),
    Exchange(usize),
}

struct Definitions {
    catalog: Catalog,
    vhost: VhostId,
    bound: Vec<Bound>,
}

/// Panics if a route costs more than the definitions and the message justify, or leads elsewhere than it should.
pub fn check(bytes: &[u8]) {
    let mut steps = Steps(bytes);
    let mut made = Definitions::new();
    while let Some(step) = steps.byte() {
        if made.step(step, &mut steps).is_none() {
            return;
        }
    }
}

impl Definitions {
    fn new() -> Self {
        let mut catalog = Catalog::new(CatalogLimits { cached_routes_max: 4, ..CatalogLimits::default() });
        for definition in default_definitions() {
            catalog.execute(&definition).expect("the first definitions");
        }
        let vhost = catalog.vhost_by_name("/").expect("the default virtual host");
        let mut made = Self { catalog, vhost, bound: Vec::new() };
        (0..EXCHANGES.len()).for_each(|exchange| made.declare_exchange(exchange));
        (0..QUEUES).for_each(|queue| made.declare_queue(queue));
        made
    }

    fn declare_exchange(&mut self, exchange: usize) {
        let (name, kind) = EXCHANGES[exchange];
        let (vhost, name, arguments) = (self.vhost, Name::from(name), Table::new());
        let (durable, auto_delete, internal) = (false, false, false);
        self.execute(&Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments }, 0);
    }

    fn declare_queue(&mut self, queue: u8) {
        let (vhost, name, arguments, home) = (self.vhost, queue_name(queue), Table::new(), ShardId(0));
        let (server_named, durable, exclusive, auto_delete) = (false, false, None, false);
        let declare =
            Definition::DeclareQueue { vhost, name, server_named, durable, exclusive, auto_delete, arguments, home };
        self.execute(&declare, 0);
    }

    /// Executes a definition that is about so much, and answers whether it was taken.
    fn execute(&mut self, definition: &Definition, size: u64) -> bool {
        self.catalog.take_work();
        let is_taken = self.catalog.execute(definition).is_ok();
        let work = self.catalog.take_work();
        assert!(work <= WORK_MIN + WORK_EACH * size, "{work} units for {definition:?}, which is about {size}");
        is_taken
    }

    /// Takes one step. `None` at the end.
    fn step(&mut self, step: u8, steps: &mut Steps<'_>) -> Option<()> {
        let exchange = usize::from(step / 8) % EXCHANGES.len();
        match step % 8 {
            0 | 1 => {
                let to = steps.byte()?;
                let to = match to % 4 {
                    0 => Target::Exchange(usize::from(to / 4) % EXCHANGES.len()),
                    _ => Target::Queue(to / 4 % QUEUES),
                };
                let key = match EXCHANGES[exchange].1 {
                    ExchangeKind::ConsistentHash => (1 + to_number(steps.bytes()?) % 5).to_string().into_bytes(),
                    _ => steps.key()?,
                };
                let arguments = match EXCHANGES[exchange].1 {
                    ExchangeKind::Headers => steps.table()?.0,
                    _ => Table::new(),
                };
                self.bind(Bound { exchange, to, key, arguments });
            }
            2 => {
                let number = usize::from(steps.byte()?);
                if !self.bound.is_empty() {
                    let bound = self.bound.remove(number % self.bound.len());
                    let size = size(&bound);
                    let unbind = self.definition(&bound, false);
                    assert!(self.execute(&unbind, size), "what was bound can be unbound");
                }
            }
            3 => self.remove(steps.byte()?),
            4 | 5 => {
                let key = steps.key()?;
                self.publish(exchange, &[&key], &Table::new(), &[]);
            }
            6 => {
                let keys: Vec<Vec<u8>> = (0..steps.byte()? % 16).map_while(|_| steps.key()).collect();
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                self.publish(exchange, &keys, &Table::new(), &[]);
            }
            _ => {
                let (headers, bytes) = steps.table()?;
                self.publish(exchange, &[b"a"], &headers, bytes);
            }
        }
        Some(())
    }

    fn definition(&self, bound: &Bound, is_new: bool) -> Definition {
        let (vhost, exchange) = (self.vhost, Name::from(EXCHANGES[bound.exchange].0));
        let (routing_key, arguments, session) = (bound.key.as_slice().into(), bound.arguments.clone(), None);
        match bound.to {
            Target::Queue(queue) => {
                let queue = queue_name(queue);
                match is_new {
                    true => Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session },
                    false => Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session },
                }
            }
            Target::Exchange(to) => {
                let (source, destination) = (exchange, Name::from(EXCHANGES[to].0));
                match is_new {
                    true => Definition::BindExchange { vhost, source, destination, routing_key, arguments },
                    false => Definition::UnbindExchange { vhost, source, destination, routing_key, arguments },
                }
            }
        }
    }

    fn bind(&mut self, bound: Bound) {
        let count = self.catalog.bindings_count();
        let bind = self.definition(&bound, true);
        if self.execute(&bind, size(&bound)) && self.catalog.bindings_count() > count {
            self.bound.push(bound);
        }
    }

    /// A queue or an exchange goes, and comes again without its bindings.
    fn remove(&mut self, what: u8) {
        let gone = match what % 2 {
            0 => Target::Exchange(usize::from(what / 2) % EXCHANGES.len()),
            _ => Target::Queue(what / 2 % QUEUES),
        };
        let goes = |bound: &Bound| bound.to == gone || gone == Target::Exchange(bound.exchange);
        let size = self.bound.iter().filter(|bound| goes(bound)).map(size).sum();
        self.bound.retain(|bound| !goes(bound));
        let vhost = self.vhost;
        match gone {
            Target::Queue(queue) => {
                self.execute(&Definition::DeleteQueue { vhost, name: queue_name(queue), session: None }, size);
                self.declare_queue(queue);
            }
            Target::Exchange(exchange) => {
                let name = Name::from(EXCHANGES[exchange].0);
                self.execute(&Definition::DeleteExchange { vhost, name, if_unused: false }, size);
                self.declare_exchange(exchange);
            }
        }
        assert_eq!(self.catalog.bindings_count(), self.bound.len());
    }

    fn publish(&mut self, exchange: usize, keys: &[&[u8]], headers: &Table, bytes: &[u8]) {
        let (properties, name) = (headers_only(bytes), EXCHANGES[exchange].0);
        let properties = RawProperties::new(&properties);
        let from = self.catalog.exchange(self.vhost, name.as_bytes()).expect("it is there");
        let bound = self.bound_of_route(keys, headers.len() + bytes.len() / 8);
        self.catalog.take_work();
        let route = match keys {
            [key] => self.catalog.route(from, key, properties),
            keys => self.catalog.route_all(from, keys, properties),
        };
        let work = self.catalog.take_work();
        assert!(work <= bound, "{work} units, {bound} are the most: {name} {keys:?} {headers:?}");
        let found = self.queues(&route);
        assert_eq!(found, self.in_pieces(from, keys, properties), "all at once and one after another");
        if EXCHANGES[exchange].1 == ExchangeKind::Topic
            && self.bound.iter().all(|bound| bound.exchange != exchange || matches!(bound.to, Target::Queue(_)))
        {
            let mine = self.bound.iter().filter(|bound| bound.exchange == exchange);
            let mine = mine.filter(|bound| keys.iter().any(|key| matches(&words(&bound.key), &words(key))));
            let expect: BTreeSet<String> = mine
                .map(|bound| match bound.to {
                    Target::Queue(queue) => queue_name(queue).to_string(),
                    Target::Exchange(_) => unreachable!("there are queues only"),
                })
                .collect();
            assert_eq!(found, expect, "{keys:?}");
        }
    }

    /// What a route by these keys may cost, with so much in its headers.
    fn bound_of_route(&self, keys: &[&[u8]], headers: usize) -> u64 {
        let everything: u64 = self.bound.iter().map(size).sum();
        let words: u64 = keys.iter().map(|key| words(key).len() as u64 + 1).sum();
        let of_keys = words + words * everything;
        WORK_MIN + WORK_EACH * (EXCHANGES.len() as u64 * (1 + words) + of_keys + headers as u64)
    }

    fn in_pieces(&mut self, from: ExchangeId, keys: &[&[u8]], properties: RawProperties<'_>) -> BTreeSet<String> {
        let mut search = KeyedRoute::new(from, keys.iter().copied());
        loop {
            if let Some(route) = self.catalog.continue_route(&mut search, properties, 1) {
                return self.queues(&route);
            }
        }
    }

    fn queues(&self, route: &QueueRoute) -> BTreeSet<String> {
        let name =
            |id| self.catalog.queue_definition(id).expect("routes lead to queues that are there").name.to_string();
        route.queues.iter().map(|queue| name(queue.id)).collect()
    }
}

/// How much there is of a binding: itself, its words, its arguments.
fn size(bound: &Bound) -> u64 {
    let arguments = bound.arguments.len() + bound.arguments.heap_bytes() / 16;
    (1 + words(&bound.key).len() + arguments) as u64
}

fn queue_name(queue: u8) -> Name {
    Name::from(&*format!("q{queue}"))
}

fn to_number(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

fn words(text: &[u8]) -> Vec<&[u8]> {
    if text.is_empty() { Vec::new() } else { text.split(|byte| *byte == b'.').collect() }
}

/// Whether a pattern matches a key, by a table of which beginnings of both go together.
fn matches(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
    let mut row = vec![false; key.len() + 1];
    row[0] = true;
    for word in pattern {
        let mut next = vec![false; key.len() + 1];
        for at in 0..=key.len() {
            next[at] = match *word {
                b"#" => row[at] || (at > 0 && next[at - 1]),
                word => at > 0 && row[at - 1] && (word == b"*" || word == key[at - 1]),
            };
        }
        row = next;
    }
    row[key.len()]
}

/// A step: its kind and exchange, then what it says.
fn step(kind: u8, exchange: u8, rest: &[&[u8]]) -> Vec<u8> {
    [&[exchange * 8 + kind][..], &rest.concat()].concat()
}

fn letters(text: &str) -> Vec<u8> {
    let letter = |byte| LETTERS.iter().position(|letter| *letter == byte).expect("a letter of keys") as u8;
    std::iter::once(text.len() as u8).chain(text.bytes().map(letter)).collect()
}

fn sized(table: &[u8]) -> Vec<u8> {
    [&(table.len() as u16).to_be_bytes()[..], table].concat()
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let (to_q1, to_q2) = ([4 + 1], [8 + 1]);
    let many = |count: usize, value: Value| -> Vec<u8> {
        let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        table(&names.iter().map(|name| (name.as_str(), value.clone())).collect::<Vec<_>>())
    };
    let mut topics = Vec::new();
    let mut level = vec![String::new()];
    for _ in 0..4 {
        let longer = |before: &String| ["a", "*", "#"].map(|word| format!("{before}{word}."));
        level = level.iter().flat_map(longer).collect();
        for pattern in &level {
            topics.extend(step(0, 0, &[&to_q1, &letters(pattern.trim_end_matches('.'))]));
        }
    }
    topics.extend(step(4, 0, &[&letters(&["a"; 40].join("."))]));
    let tails: Vec<u8> = ["a", "*", "#", "a.#", "#.a", "*.#", "#.*"]
        .iter()
        .flat_map(|start| step(0, 0, &[&to_q1, &letters(&format!("{start}.#.a.a.a.a.a.a.a.a.a.a.b"))]))
        .chain(step(4, 0, &[&letters(&["a"; 80].join("."))]))
        .chain(step(6, 0, &[&[3], &letters("a.b"), &letters("a.a"), &letters("")]))
        .collect();
    let mut headers = Vec::new();
    for mode in ["any", "all", "any-with-x", "all-with-x"] {
        let asked = [table(&[("x-match", Value::text(mode))]), many(40, Value::U8(1))].concat();
        headers.extend(step(0, 2, &[&to_q1, &letters("a"), &sized(&asked)]));
        headers.extend(step(0, 3, &[&to_q2, &letters(""), &sized(&table(&[("x-match", Value::text(mode))]))]));
    }
    headers.extend(step(7, 2, &[&sized(&many(80, Value::U8(0)))]));
    headers.extend(step(7, 2, &[&sized(&many(80, Value::U8(1)))]));
    headers.extend(step(2, 0, &[&[3]]));
    headers.extend(step(7, 2, &[&sized(&many(3, Value::Void))]));
    let graph = [
        step(0, 5, &[&[0], &letters("a")]),
        step(0, 5, &[&[8], &letters("")]),
        step(0, 0, &[&[24], &letters("#")]),
        step(0, 6, &[&to_q1, &[1, 3]]),
        step(0, 6, &[&to_q2, &[1, 4]]),
        step(0, 6, &[&to_q2, &[1, 2]]),
        step(0, 2, &[&to_q2, &letters("b"), &sized(&[])]),
        step(6, 5, &[&[4], &letters("a"), &letters("b"), &letters("a"), &letters("")]),
        step(3, 0, &[&[2]]),
        step(4, 5, &[&letters("a.b")]),
        step(3, 0, &[&[5]]),
        step(4, 5, &[&letters("a.b")]),
    ]
    .concat();
    [("topics", topics), ("tails", tails), ("headers", headers), ("graph", graph), ("empty", Vec::new())]
        .map(|(name, bytes)| (name.to_owned(), bytes))
        .into()
}
