//! How long a change of policies takes: every queue is held against them.
//!
//! Leaves: milliseconds, and nanoseconds per declaration under the same policies.
//! Owns:   100,000 queues and ten policies, of which the last matches most.
//!
//! `cargo run --release -p harrier-catalog --example policies`
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

mod support;

use catalog::{ApplyTo, Definition, Policy};
use std::time::Instant;
use wire::{Table, Value};

const QUEUES: u32 = 100_000;

fn main() {
    let (mut catalog, vhost) = support::catalog_with_vhost();
    for (case, from) in [("without policies", 0), ("with ten policies", QUEUES)] {
        if from > 0 {
            let policy = |number: i64| Policy {
                vhost: "/".into(),
                name: (&*format!("p{number}")).into(),
                pattern: if number == 0 { r"^orders\.".into() } else { format!(r"^other-{number}\.[a-z]+").into() },
                apply_to: ApplyTo::Queues,
                priority: number,
                definition: Table::new().with("max-length", Value::I64(1_000)).expect("short"),
            };
            let policies = (0..10).map(policy).collect();
            let definition = Definition::SetPolicies { policies, operator_policies: [].into() };
            let start = Instant::now();
            let changed = catalog.execute(&definition).expect("sound").queues_changed.len();
            println!("{:>8.1} ms  ten policies come over {changed} queues", start.elapsed().as_secs_f64() * 1e3);
        }
        let start = Instant::now();
        for number in from..from + QUEUES {
            let name = (&*format!("orders.{number}")).into();
            support::declare_queue(&mut catalog, vhost, name, false);
        }
        println!("{:>8.1} ns  a declaration {case}", start.elapsed().as_secs_f64() * 1e9 / f64::from(QUEUES));
    }
}
