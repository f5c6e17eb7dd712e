//! Bytes of definitions: what the catalog counts, against what it has from the allocator.
//!
//! Enters: queues, exchanges and bindings of every kind.  Leaves: two numbers of bytes a case, printed, at most 20 % apart.
//! Owns:   the allocator of this program, which counts. It has one test, for all threads share that.

mod script;

use cap::Cap;
use catalog::{ApplyTo, Definition, Policy};
use script::{RoutingScript, session, table};
use std::alloc::System;
use wire::{Properties, RawProperties, ShortString, Table, Value};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Bytes of a catalog that are not counted whatever is in it.
const UNCOUNTED_BYTES_MAX: usize = 1_000;

/// A case: what it is called, and how it is made.
type BytesCase = (&'static str, fn(&mut RoutingScript));

fn arguments(number: usize, bytes: usize) -> Table {
    let text = "x".repeat(bytes);
    let nested = Table::new().with("n", Value::I32(number as i32)).expect("a short name");
    let names = ["a", "some-longer-name", "another-name-that-is-longer"];
    let entry = |name: &str| (ShortString::try_from(name).expect("short"), Value::text(&text));
    let last = (ShortString::try_from("nested").expect("short"), Value::Table(nested));
    names.into_iter().map(entry).chain([last]).collect()
}

fn bind(script: &mut RoutingScript, exchange: &str, key: &str, arguments: Table) {
    let bind = Definition::BindQueue {
        vhost: script.vhost,
        exchange: exchange.into(),
        queue: "q".into(),
        routing_key: key.as_bytes().into(),
        arguments,
        session: None,
    };
    script.execute(&bind).expect("a binding");
}

fn queues(script: &mut RoutingScript, count: usize, arguments: impl Fn(usize) -> Table, is_exclusive: bool) {
    for number in 0..count {
        let declare = Definition::DeclareQueue {
            vhost: script.vhost,
            name: (&*format!("a-queue-{number}")).into(),
            server_named: false,
            durable: false,
            exclusive: is_exclusive.then(|| session(number as u32 % 64)),
            auto_delete: false,
            arguments: arguments(number),
            home: catalog::ShardId(0),
        };
        script.execute(&declare).expect("a queue");
    }
}

const CASES: &[BytesCase] = &[
    ("plain queues", |script| queues(script, 20_000, |_| Table::new(), false)),
    ("exclusive queues, each routed to", |script| {
        queues(script, 20_000, |_| Table::new(), true);
        for number in 0..20_000 {
            script.route("", &format!("a-queue-{number}"), &[]);
        }
    }),
    ("queues of which most are deleted", |script| {
        queues(script, 20_000, |_| Table::new(), false);
        (100..20_000).for_each(|number| _ = script.run(&format!("delete-queue a-queue-{number}")));
    }),
    ("queues with small arguments", |script| queues(script, 5_000, |number| arguments(number, 5), false)),
    ("queues with large arguments", |script| queues(script, 300, |number| arguments(number, 19_000), false)),
    ("exchanges", |script| {
        for number in 0..20_000 {
            let kind = ["direct", "topic", "x-consistent-hash", "headers"][number % 4];
            script.run(&format!("exchange an-exchange-{number} {kind} alternate-exchange=another-one-of-this-name"));
        }
    }),
    ("direct bindings", |script| {
        (0..50_000).for_each(|n| bind(script, "amq.direct", &format!("key-{n}"), Table::new()))
    }),
    ("topic bindings", |script| {
        (0..50_000).for_each(|n| bind(script, "amq.topic", &format!("a.{}.*.key-{n}.#", n % 100), Table::new()));
    }),
    ("headers bindings, all", |script| {
        (0..20_000).for_each(|n| bind(script, "amq.headers", "", arguments(n, 10)));
    }),
    ("headers bindings, any of many", |script| {
        for number in 0..100 {
            let entries: Vec<String> = (0..500).map(|entry| format!("{number}-{entry}=void")).collect();
            let all = entries.iter().map(String::as_str).chain(["x-match=any"]);
            bind(script, "amq.headers", "", table(all));
        }
    }),
    ("consistent-hash bindings", |script| {
        script.run("exchange x x-consistent-hash");
        queues(script, 5_000, |_| Table::new(), false);
        (0..5_000).for_each(|n| drop(script.run(&format!("bind x {} a-queue-{n}", n % 50 + 1))));
    }),
    ("remembered routes", |script| {
        queues(script, 200, |_| Table::new(), false);
        for number in 0..20_000 {
            let (one, other) = (number % 200, (number / 200 + number + 1) % 200);
            script.run(&format!("bind amq.direct {number} a-queue-{one}; bind amq.direct {number} a-queue-{other}"));
            script.route("amq.direct", &number.to_string(), &[]);
        }
    }),
    ("policies", |script| {
        let definition = |number: usize| {
            let table = Table::new().with("max-length", Value::I32(number as i32)).expect("a short name");
            table.with("dead-letter-routing-key", Value::text(&"k".repeat(200))).expect("a short name")
        };
        let policy = |number: usize| Policy {
            vhost: "/".into(),
            name: (&*format!("a-policy-{number}")).into(),
            pattern: ".*".into(),
            apply_to: ApplyTo::Queues,
            priority: number as i64,
            definition: definition(number),
        };
        let (policies, operator_policies) = ((0..4_000).map(policy).collect(), [].into());
        script.execute(&Definition::SetPolicies { policies, operator_policies }).expect("policies");
    }),
    ("a message with many headers", |script| {
        (0..9_000).for_each(|n| bind(script, "amq.headers", "", table([&*format!("h{n}=1")])));
        let headers: Vec<String> = (0..4_000).map(|n| format!("m{n}=1")).collect();
        let headers = Some(table(headers.iter().map(String::as_str)));
        let bytes = Properties { headers, ..Properties::default() }.to_bytes();
        let id = script.catalog.exchange(script.vhost, b"amq.headers").expect("predeclared");
        script.catalog.route(id, b"", RawProperties::new(&bytes));
    }),
];

#[test]
fn bytes_are_what_the_allocator_has_given() {
    let mut broken = Vec::new();
    for (name, make) in CASES {
        let start = ALLOCATOR.allocated();
        let mut script = RoutingScript::new();
        script.run("queue q");
        let (before, counted_before) = (ALLOCATOR.allocated(), script.catalog.bytes());
        make(&mut script);
        let (given, counted) = (ALLOCATOR.allocated() - before, script.catalog.bytes() - counted_before);
        println!("{given:>9} bytes given, {counted:>9} counted: {name}");
        if given.abs_diff(counted) * 5 > given {
            broken.push(format!("{name}: {given} bytes given, {counted} counted"));
        }
        // What is removed is counted no more, but for what tables and scratch keep.
        let vhost = "/".into();
        // The outcome names what went, which is not the catalog's.
        let mut unfinished = script.execute(&Definition::DeleteVhost { name: vhost }).expect("there is one").unfinished;
        while unfinished {
            unfinished = script.execute(&Definition::Finish).expect("the rest").unfinished;
        }
        let (given, counted) = (ALLOCATOR.allocated() - start, script.catalog.bytes());
        println!("{given:>9} bytes given, {counted:>9} counted: without them");
        // A catalog without anything has a few allocations that are not counted.
        if given.abs_diff(counted).saturating_sub(UNCOUNTED_BYTES_MAX) * 5 > given {
            broken.push(format!("{name}, removed: {given} bytes given, {counted} counted"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
