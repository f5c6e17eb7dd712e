//! Nanoseconds per route: repeated keys, keys in turn, keys that are new every time.
//!
//! Leaves: a line a case, the median of several runs.
//! Owns:   the cases.
//!
//! `cargo run --release -p harrier-catalog --example routes`
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

mod support;

use catalog::{Catalog, Definition, ExchangeKind, Name, Password, Permission, PermissionKind, Resource, VhostId};
use std::{hint::black_box, time::Instant};
use wire::{RawProperties, Table};

const ROUNDS: usize = 1_000_000;
const RUNS: usize = 7;

struct RoutingSetup {
    catalog: Catalog,
    vhost: VhostId,
}

impl RoutingSetup {
    fn new() -> Self {
        let (mut catalog, vhost) = support::catalog_with_vhost();
        for number in 0..64 {
            let name = (&*format!("q{number}")).into();
            support::declare_queue(&mut catalog, vhost, name, false);
        }
        Self { catalog, vhost }
    }

    fn bind(&mut self, exchange: &str, queue: &str, key: &str) {
        let definition = Definition::BindQueue {
            vhost: self.vhost,
            exchange: exchange.into(),
            queue: queue.into(),
            routing_key: key.as_bytes().into(),
            arguments: Table::new(),
            session: None,
        };
        self.catalog.execute(&definition).expect("a binding");
    }

    fn measure(&mut self, case: &str, exchange: &str, keys: &[String]) {
        let id = self.catalog.exchange(self.vhost, exchange.as_bytes()).expect("predeclared");
        let mut runs: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                let mut at = 0;
                for _ in 0..ROUNDS {
                    black_box(self.catalog.route(id, keys[at].as_bytes(), RawProperties::EMPTY));
                    at += 1;
                    if at == keys.len() {
                        at = 0;
                    }
                }
                start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        println!("{:>8.1} ns  {case}", runs[RUNS / 2]);
    }
}

fn one(key: &str) -> Vec<String> {
    vec![key.to_owned()]
}

fn main() {
    let mut made = RoutingSetup::new();
    made.measure("default exchange, one key", "", &one("q7"));
    made.bind("amq.direct", "q1", "stock.ibm");
    made.measure("direct, one key to one queue", "amq.direct", &one("stock.ibm"));
    for number in 0..32 {
        made.bind("amq.fanout", &format!("q{number}"), "");
    }
    made.measure("fanout to 32, one key", "amq.fanout", &one("stock.ibm"));
    let in_turn: Vec<String> = (0..1000).map(|number| format!("stock.nasdaq.{number}")).collect();
    made.measure("fanout to 32, 1,000 keys in turn", "amq.fanout", &in_turn);

    made.bind("amq.topic", "q0", "stock.nasdaq.*");
    made.measure("topic, 1 pattern, one key", "amq.topic", &one("stock.nasdaq.1"));
    made.measure("topic, 1 pattern, 1,000 keys in turn", "amq.topic", &in_turn);
    for number in 0..1023 {
        made.bind("amq.topic", &format!("q{}", number % 64), &format!("other.{number}.*.#"));
    }
    made.measure("topic, 1,024 patterns, one key", "amq.topic", &one("stock.nasdaq.1"));
    made.measure("topic, 1,024 patterns, 1,000 keys in turn", "amq.topic", &in_turn);
    let many: Vec<String> = (0..ROUNDS).map(|number| format!("stock.nasdaq.{number}")).collect();
    made.measure("topic, 1,024 patterns, 1,000,000 keys in turn (one match)", "amq.topic", &many);
    for number in 0..1_000_000 {
        made.bind("amq.topic", "q5", &format!("stock.lse.{number}"));
    }
    made.measure("topic, 1,001,024 patterns, one key", "amq.topic", &one("stock.nasdaq.1"));
    let many: Vec<String> = (0..ROUNDS).map(|number| format!("stock.lse.{number}")).collect();
    made.measure("topic, 1,001,024 patterns, 1,000,000 keys in turn (one match)", "amq.topic", &many);
    for number in 0..1024 {
        made.bind("amq.topic", &format!("q{}", number % 64), &format!("#.w{number}.#"));
    }
    let many: Vec<String> = (0..ROUNDS).map(|number| format!("w{}.x.{number}", number % 1024)).collect();
    made.measure("topic, 1,024 patterns #.w.# more, 1,000,000 keys in turn", "amq.topic", &many);

    let user = Name::from("u");
    let put = Definition::PutUser {
        name: user.clone(),
        password: Password::plain("p"),
        tags: Vec::new(),
        loopback_only: false,
    };
    made.catalog.execute(&put).expect("a user");
    let permission = Permission { configure: "^u-".into(), write: "^(amq\\.|u-)".into(), read: ".*".into() };
    let set = Definition::SetPermission { user, vhost: "/".into(), permission };
    made.catalog.execute(&set).expect("a permission");
    let id = made.catalog.authenticate(b"u", b"p", true).expect("a login");
    for (case, operation) in
        [("permission, .*", PermissionKind::Read), ("permission, a pattern, one name", PermissionKind::Write)]
    {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let checked = made.catalog.check(id, made.vhost, operation, Resource::Exchange, black_box(b"amq.topic"));
            checked.expect("permitted");
        }
        println!("{:>8.1} ns  {case}", start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64);
    }
    black_box(ExchangeKind::Direct);
}
