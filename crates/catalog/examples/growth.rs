//! How long bindings take while their tables grow: nanoseconds of each on average, and the longest thousand of them.
//!
//! Leaves: a line for each type of exchange.
//! Owns:   the cases.
//!
//! `cargo run --release -p harrier-catalog --example growth`
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

mod support;

use catalog::{Definition, Name};
use std::time::{Duration, Instant};
use wire::{Table, Value};

const BINDINGS: usize = 1_000_000;
/// Bindings that are made between two looks at the clock.
const PART: usize = 1_000;

fn numbered(number: usize) -> Table {
    Table::new().with("number", Value::I32(number as i32)).expect("a short name")
}

fn main() {
    for (exchange, name) in [("amq.direct", "direct"), ("amq.topic", "topic"), ("amq.headers", "headers")] {
        let (mut catalog, vhost) = support::catalog_with_vhost();
        let queue = Name::from("q");
        support::declare_queue(&mut catalog, vhost, queue.clone(), false);
        let exchange = Name::from(exchange);
        let (mut all, mut most, mut work) = (Duration::ZERO, Duration::ZERO, 0);
        for first in (0..BINDINGS).step_by(PART) {
            let definitions: Vec<Definition> = (first..first + PART)
                .map(|number| Definition::BindQueue {
                    vhost,
                    exchange: exchange.clone(),
                    queue: queue.clone(),
                    routing_key: format!("key.{number}").as_bytes().into(),
                    arguments: if name == "headers" { numbered(number) } else { Table::new() },
                    session: None,
                })
                .collect();
            let start = Instant::now();
            for definition in &definitions {
                catalog.execute(definition).expect("a binding");
            }
            let took = start.elapsed();
            work += catalog.take_work();
            all += took;
            most = most.max(took);
        }
        let (each, most) = (all.as_nanos() as usize / BINDINGS, most.as_secs_f64() * 1e3);
        let units = work as f64 / BINDINGS as f64;
        println!(
            "{name}: {each} ns and {units:.1} units of work a binding, {most:.2} ms for the longest {PART} of them"
        );
    }
}
