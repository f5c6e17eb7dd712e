//! Measures how soon bindings are propagated: many at once over one route, and single ones to a broker three routes away.
//!
//! Argument: the number of bindings. The time that the client needs to bind does not count.

#[path = "../tests/brokers/mod.rs"]
#[expect(dead_code, reason = "tests need more")]
mod brokers;

use brokers::{TestBroker, eventually, pull};
use client::{QueueOptions, Table};
use federation::RouteKind;
use std::time::Instant;

const BINDINGS: usize = 100_000;
/// Bindings one after the other, of which the median and the largest are told.
const LATE: usize = 200;

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn main() {
    let many = std::env::args().nth(1).map_or(BINDINGS, |many| many.parse().expect("how many bindings"));
    let brokers = ["a", "b", "c", "d"].map(|name| TestBroker::start(name, 1));
    for broker in &brokers {
        broker.declare("trades", "topic");
    }
    let [a, b, c, d] = &brokers;
    let bindings = |broker: &TestBroker| {
        let look = |catalog: &catalog::Catalog| {
            let vhost = catalog.vhost_by_name("/").expect("it is there");
            catalog.exchange(vhost, b"trades").map_or(0, |exchange| catalog.bindings_from(exchange).count())
        };
        broker.server.admin().with_catalog(look).expect("it runs")
    };
    let (mut client, channel) = d.client();
    client.declare_queue(channel, "many", &QueueOptions::default()).expect("a queue");
    for number in 0..many {
        client
            .bind_queue_unanswered(channel, "many", "trades", &format!("key.{number}"), &Table::new())
            .expect("bound");
    }
    client.bind_queue(channel, "many", "trades", "last", &Table::new()).expect("bound");
    let began = Instant::now();
    d.route(c, pull("trades", RouteKind::Dynamic));
    println!("{} bindings mirrored by a new route: {:.3} s", bindings(c), began.elapsed().as_secs_f64());
    c.route(b, pull("trades", RouteKind::Dynamic));
    b.route(a, pull("trades", RouteKind::Dynamic));
    println!("{} of them three brokers away: {:.3} s in all", bindings(a), began.elapsed().as_secs_f64());
    let mut took: Vec<f64> = Vec::new();
    for number in 0..LATE {
        let before = bindings(a);
        let began = Instant::now();
        client.bind_queue(channel, "many", "trades", &format!("late.{number}"), &Table::new()).expect("bound");
        eventually("it is at the root", || bindings(a) > before, String::new);
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    println!(
        "one more, three brokers away: median {:.1} ms, largest {:.1} ms of {LATE} (with the client's own wait and a look at the definitions)",
        took[LATE / 2],
        took[LATE - 1]
    );
    drop(client);
    brokers.into_iter().for_each(TestBroker::stop);
}
