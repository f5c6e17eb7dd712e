//! Consumers whose users lose the permission to read their queues.

use super::*;
use catalog::{Definition, Permission};

pub fn permit(world: &mut BrokerWorld, permission: Permission) {
    let (broker, recorder) = &mut world.shards[0];
    let definition = Definition::SetPermission { user: "guest".into(), vhost: "/".into(), permission };
    broker.define_as_operator(definition, recorder).expect("it is taken");
}

/// One review on each shard. Returns how many consumers were cancelled.
fn review(world: &mut BrokerWorld) -> usize {
    let mut cancelled = 0;
    for (broker, recorder) in &mut world.shards {
        broker.take_access_change();
        if broker.reviews_consumers() {
            cancelled += broker.review_consumers(recorder);
        }
    }
    cancelled
}

#[test]
fn a_consumer_that_may_no_longer_read_its_queue_is_cancelled_and_others_stay() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for queue in ["kept", "lost"] {
            declare(world, owner, queue, &[]);
            consume(world, consumer, queue, queue, false);
        }
        assert_eq!(world.sent(consumer), "consume-ok kept | consume-ok lost");
        world.publish(publisher, "", "lost", "before");
        assert_eq!(world.sent(consumer), "lost#1=before");
        permit(world, Permission { read: "^kept$".to_owned(), ..Permission::all() });
        world.exchange_batches();
        assert_eq!(review(world), 1);
        world.exchange_batches();
        assert_eq!(world.sent(consumer), "cancel lost");
        assert_eq!(review(world), 0, "it is complete");
        assert!(world.shards.iter().all(|(broker, _)| !broker.reviews_consumers()));
        world.publish(publisher, "", "lost", "after");
        world.publish(publisher, "", "kept", "after");
        assert_eq!(world.sent(consumer), "kept#2=after");
        assert_eq!(
            (counts(world, owner, "lost"), counts(world, owner, "kept")),
            ("declare-ok lost 1/0".into(), "declare-ok kept 0/1".into())
        );
    });
}

#[test]
fn a_consumer_is_not_cancelled_before_its_client_knows_of_it() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let [owner, consumer] = [(0, 1), (1, 2)].map(|(shard, slot)| world.connect(shard, slot));
    declare(&mut world, owner, "q", &[]);
    let (queue, consumer_tag, arguments) = (short("q"), short("c"), TableRef::EMPTY);
    let (no_local, no_ack, exclusive, no_wait) = (false, true, false, false);
    let _paused = world.command_only(
        consumer,
        basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments },
    );
    permit(&mut world, Permission { read: String::new(), ..Permission::all() });
    world.carry_batch(0, 1);
    assert_eq!(review(&mut world), 0, "the queue has not answered");
    assert!(world.shards[1].0.reviews_consumers());
    world.exchange_batches();
    assert_eq!(review(&mut world), 1);
    world.exchange_batches();
    assert_eq!(world.sent(consumer), "consume-ok c | cancel c");
    assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 0/0");
}
