//! Bytes per binding and per queue: what a large catalog costs.
//!
//! Enters: nothing, or the name of one case.  Leaves: a line a case, from the resident memory of a process of its own.
//! Owns:   the cases.
//!
//! `cargo run --release -p harrier-catalog --example bytes`

mod support;

use catalog::{Catalog, Definition, ExchangeKind, Name, VhostId};
use std::{fs, hint::black_box, process::Command};
use wire::Table;

/// A case: its name, how many things it makes, and how.
type MemoryCase = (&'static str, usize, fn(&mut AllocatedBytes, usize));

const CASES: &[MemoryCase] = &[
    ("topic: a.b.N to one queue", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Topic, 1, count, |n| format!("stock.nasdaq.{n:07}"))
    }),
    ("topic: a.N.*.c to 1,000 queues", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Topic, 1000, count, |n| format!("market.{n:07}.*.trade"))
    }),
    ("topic: N.M.#, 1,000 x 1,000", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Topic, 1, count, |n| format!("{:04}.{:04}.#", n / 1000, n % 1000))
    }),
    ("topic: one pattern to 1,000,000 queues, with the queues", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Topic, count, count, |_| "a.*.c".into())
    }),
    ("topic: 60-byte keys, all words different", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Topic, 1, count, |n| format!("a{n:018}.b{n:018}.c{n:018}"))
    }),
    ("direct: 20-byte keys to one queue", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Direct, 1, count, |n| format!("routing-key-{n:08}"))
    }),
    ("fanout: to one exchange's worth of keys", 1_000_000, |made, count| {
        made.bind(ExchangeKind::Fanout, 1, count, |n| format!("key-{n:08}"))
    }),
    ("queue: 20-byte names", 100_000, |made, count| made.queues(count)),
    ("queue: 20-byte names, each routed to once", 100_000, |made, count| {
        made.queues(count);
        let id = made.catalog.exchange(made.vhost, b"").expect("predeclared");
        for number in 0..count {
            black_box(made.catalog.route(id, queue_name(number).as_bytes(), wire::RawProperties::EMPTY));
        }
    }),
];

struct AllocatedBytes {
    catalog: Catalog,
    vhost: VhostId,
}

fn queue_name(number: usize) -> Name {
    Name::from(&*format!("queue-number-{number:07}"))
}

impl AllocatedBytes {
    fn queues(&mut self, count: usize) {
        for number in 0..count {
            support::declare_queue(&mut self.catalog, self.vhost, queue_name(number), true);
        }
    }

    fn bind(&mut self, kind: ExchangeKind, queues: usize, count: usize, key: fn(usize) -> String) {
        self.queues(queues);
        let exchange = Name::from(&*format!("amq.{kind}"));
        for number in 0..count {
            let definition = Definition::BindQueue {
                vhost: self.vhost,
                exchange: exchange.clone(),
                queue: queue_name(number % queues),
                routing_key: key(number).as_bytes().into(),
                arguments: Table::new(),
                session: None,
            };
            self.catalog.execute(&definition).expect("a binding");
        }
    }
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

fn main() {
    let program = std::env::current_exe().expect("this program has a path");
    match std::env::args().nth(1) {
        None => {
            println!("{:>9}  {:>9}  {:>8}  case", "count", "MiB", "bytes each");
            for (name, ..) in CASES {
                let status = Command::new(&program).arg(name).status().expect("this program starts");
                assert!(status.success(), "{name}: {status}");
            }
        }
        Some(wanted) => {
            let (name, count, make) = CASES.iter().find(|(name, ..)| *name == wanted).expect("a known case");
            let (catalog, vhost) = support::catalog_with_vhost();
            let mut made = AllocatedBytes { catalog, vhost };
            let before = resident_bytes();
            make(&mut made, *count);
            let bytes = resident_bytes() - before;
            println!(
                "{count:>9}  {:>9.1}  {:>8.1}    {name}",
                bytes as f64 / 1_048_576.0,
                bytes as f64 / *count as f64
            );
            black_box(made);
        }
    }
}
