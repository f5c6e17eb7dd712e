//! A thousand brokers with a hundred thousand consumers: the effort, counted in events.

use desim::{AckMode, ArrivalProcess, Scenario, ServiceTimes, Straggler, TreeTopology, simulate};
use topology::Tree;

fn large(messages: u32) -> Scenario {
    let tree: Tree = "B-9B-90B-900B-100000C".parse().expect("a tree");
    let work = ServiceTimes { receive_ns: 1_000.0, to_broker_ns: 400.0, to_consumer_ns: 200.0 };
    let mut it = Scenario::new(TreeTopology::from_tree(&tree, |_, _| work).expect("a topology"), 1_024, messages);
    it.wire_bytes = 1_200.0;
    it
}

#[test]
fn a_batch_is_a_few_events_at_each_broker_however_many_consumers_it_has() {
    let it = large(20_000);
    assert_eq!((it.tree.brokers(), it.tree.consumers()), (1_000, 100_000));
    let outcome = simulate(&it).expect("an outcome");
    assert_eq!((outcome.delivered, outcome.missing), (20_000 * 100_000, 0));
    let batches = 20_000 / (desim::limits::BATCH_BYTES / 1_024) + 1;
    let each = outcome.events as f64 / f64::from(it.tree.brokers()) / batches as f64;
    assert!(each < 8.0, "{each} events for each broker and batch");
}

#[test]
fn everything_at_once_keeps_its_account() {
    let mut it = large(1_000);
    it.link.bits_per_s = Some(10_000_000_000);
    it.link.delay_ns = 50_000;
    (it.ack, it.credit, it.prefetch) = (AckMode::Confirm, Some(100), Some(100));
    it.arrivals = ArrivalProcess::Poisson(5_000.0);
    it.stragglers = vec![Straggler { consumer: None, per_s: 5_000.0 }; 500];
    let outcome = simulate(&it).expect("an outcome");
    assert_eq!((outcome.delivered, outcome.missing, outcome.redelivered), (1_000 * 100_000, 0, 0));
}
