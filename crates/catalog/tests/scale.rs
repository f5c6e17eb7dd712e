//! Scale: what a million bindings and a hundred thousand queues cost.
//!
//! Leaves: bytes of each, printed, and held to their bounds.
//! Owns:   the bounds: 200 bytes a binding, 500 a queue.

use catalog::{Catalog, CatalogLimits, Definition, DefinitionOutcome, Name, ShardId};
use std::fs;
use wire::{RawProperties, Table};

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

#[test]
fn a_binding_costs_200_bytes_and_a_queue_500() {
    const QUEUES: usize = 100_000;
    const BINDINGS: usize = 1_000_000;
    let mut catalog = Catalog::new(CatalogLimits::default());
    let executed = catalog.execute(&Definition::CreateVhost { name: "/".into() }).expect("a vhost");
    let DefinitionOutcome::Vhost { id: vhost, .. } = executed.outcome else { panic!("{executed:?}") };
    let names: Vec<Name> = (0..QUEUES).map(|number| Name::from(&*format!("queue-number-{number:07}"))).collect();
    let before = resident_bytes();
    for name in &names {
        let definition = Definition::DeclareQueue {
            vhost,
            // A copy of its own, as a client's would be.
            name: Name::from(name.as_str()),
            server_named: false,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(0),
        };
        catalog.execute(&definition).expect("a queue");
    }
    let with_queues = resident_bytes();
    let exchange = Name::from("amq.topic");
    for number in 0..BINDINGS {
        let definition = Definition::BindQueue {
            vhost,
            exchange: exchange.clone(),
            queue: names[number % QUEUES].clone(),
            routing_key: format!("market.{number:07}.*.trade").as_bytes().into(),
            arguments: Table::new(),
            session: None,
        };
        catalog.execute(&definition).expect("a binding");
    }
    let per_queue = (with_queues - before) / QUEUES;
    let per_binding = (resident_bytes() - with_queues) / BINDINGS;
    println!("{per_queue} bytes a queue, {per_binding} bytes a binding");
    assert!(per_queue <= 500, "{per_queue} bytes a queue");
    assert!(per_binding <= 200, "{per_binding} bytes a binding");
    let id = catalog.exchange(vhost, b"amq.topic").expect("predeclared");
    for number in (0..BINDINGS).step_by(997) {
        let route = catalog.route(id, format!("market.{number:07}.x.trade").as_bytes(), RawProperties::EMPTY);
        assert_eq!(route.queues.len(), 1);
        let queue = catalog.queue_definition(route.queues[0].id).expect("there");
        assert_eq!(queue.name, names[number % QUEUES]);
    }
}
