//! Which federated queues want messages of their upstreams, as every shard knows it.

use super::policies::policies;
use super::*;

const FEDERATED: &[&str] = &["fed ^q 0 federation-upstream=up"];

/// Whether a queue wants messages; all shards say the same.
fn wants(world: &BrokerWorld, name: &str) -> bool {
    let of = |shard: usize| {
        let broker = &world.shards[shard].0;
        let vhost = broker.catalog().vhost_by_name("/").expect("a virtual host");
        broker.wants_messages(broker.catalog().queue(vhost, name.as_bytes()).expect("a queue"))
    };
    let all: Vec<bool> = (0..world.shards.len()).map(of).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    all[0]
}

fn limit(world: &mut BrokerWorld, at: WorldConnection, prefetch_count: u16) {
    world.command(at, basic::Qos { prefetch_size: 0, prefetch_count, global: false });
    world.sent(at);
}

fn consume_with(world: &mut BrokerWorld, at: WorldConnection, name: &str, tag: &str, priority: i32) {
    let table = Table::default().with("x-priority", Value::I32(priority)).expect("a short name").to_bytes();
    let (queue, consumer_tag, arguments) = (short(name), short(tag), TableRef::new(&table));
    let (no_local, no_ack, exclusive, no_wait) = (false, false, false, false);
    world.command(at, basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
}

fn ack(world: &mut BrokerWorld, at: WorldConnection, tag: u64) {
    world.command(at, basic::Ack { delivery_tag: DeliveryTag(tag), multiple: true });
}

fn wanting(world: &BrokerWorld) -> Vec<usize> {
    let count = |counts: [(&'static str, usize); 18]| {
        counts.into_iter().find(|(what, _)| what.starts_with("queues that want")).expect("it is counted").1
    };
    world.shards.iter().map(|(broker, _)| count(broker.census())).collect()
}

#[test]
fn a_federated_queue_wants_messages_while_a_consumer_would_take_them_and_none_waits() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        declare(world, owner, "other", &[]);
        policies(world, FEDERATED);
        assert!(!wants(world, "q"), "nobody consumes");
        limit(world, consumer, 2);
        consume(world, consumer, "q", "c", false);
        consume(world, consumer, "other", "o", false);
        assert!(wants(world, "q") && !wants(world, "other"), "the other one is not federated");
        world.publish(publisher, "", "q", "a");
        assert!(wants(world, "q"), "one more would be taken");
        world.publish(publisher, "", "q", "b");
        assert!(!wants(world, "q"), "the consumer has all that it may");
        world.publish(publisher, "", "q", "c");
        ack(world, consumer, 1);
        assert!(!wants(world, "q"), "the next has waited here");
        ack(world, consumer, 2);
        assert!(wants(world, "q"));
        cancel(world, consumer, "c");
        assert!(!wants(world, "q"), "it has left");
        world.publish(publisher, "", "q", "d");
        consume(world, consumer, "q", "c", true);
        assert!(wants(world, "q"), "it took what waited");
        world.command(owner, queue::Purge { queue: short("q"), no_wait: false });
        assert!(wants(world, "q"));
        world.disconnect(consumer);
        assert!(!wants(world, "q"));
    });
}

#[test]
fn consumers_of_links_want_nothing_of_other_links() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        policies(world, FEDERATED);
        consume_with(world, consumer, "q", "link", -1);
        assert!(!wants(world, "q"));
        limit(world, publisher, 1);
        consume_with(world, publisher, "q", "client", 0);
        assert!(wants(world, "q"));
        // The client is full: the link would take more, and is not served by another.
        world.publish(owner, "", "q", "a");
        assert!(!wants(world, "q"));
        world.publish(owner, "", "q", "b");
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/2", "the link has it");
        ack(world, publisher, 1);
        assert!(wants(world, "q"));
    });
}

#[test]
fn what_a_queue_wants_ends_with_its_policy_and_with_the_queue() {
    on_one_and_on_three(|world, owner, _, consumer| {
        declare(world, owner, "q", &[]);
        consume(world, consumer, "q", "c", false);
        assert!(!wants(world, "q"));
        policies(world, FEDERATED);
        assert!(wants(world, "q"), "it has a consumer already");
        policies(world, &["fed ^q 0 federation-upstream-set=all max-length=7"]);
        assert!(wants(world, "q"));
        policies(world, &["plain ^q 0 max-length=7"]);
        assert!(!wants(world, "q"));
        policies(world, &[]);
        policies(world, FEDERATED);
        assert!(wanting(world).iter().all(|count| *count == 1));
        world.command(owner, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false });
        assert!(wanting(world).iter().all(|count| *count == 0), "it is gone: {:?}", wanting(world));
    });
}
