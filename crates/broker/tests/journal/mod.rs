//! The journal of definitions: what is to survive a restart is answered once it is durable, in the order of the requests.

use super::*;

/// Worlds whose definitions are journaled: with one shard, and with connections of shard 0 and of another one.
fn journaled() -> impl Iterator<Item = (BrokerWorld, WorldConnection, WorldConnection)> {
    [(1, [0, 0]), (2, [0, 1]), (2, [1, 0]), (3, [1, 2])].into_iter().map(|(shards, homes)| {
        let mut world = BrokerWorld::new(shards, LIMIT);
        world.shards[0].1.journal = Some(0);
        let (one, other) = (world.connect(homes[0], 1), world.connect(homes[1], 2));
        (world, one, other)
    })
}

fn queue(name: &str, durable: bool, no_wait: bool) -> queue::Declare<'_> {
    let (passive, exclusive, auto_delete, arguments) = (false, false, false, TableRef::new(&[]));
    queue::Declare { queue: short(name), passive, durable, exclusive, auto_delete, no_wait, arguments }
}

#[test]
fn a_durable_queue_is_answered_once_it_is_durable() {
    for (mut world, one, _) in journaled() {
        world.command(one, queue("q", true, false));
        assert_eq!(world.sent(one), "");
        assert!(!world.shards[one.0].0.may_read(one.1), "its next command waits");
        world.report_definitions(0);
        world.exchange_batches();
        assert_eq!(world.sent(one), "", "an earlier version is durable");
        world.report_definitions(1);
        world.exchange_batches();
        assert_eq!(world.sent(one), "declare-ok q 0/0");
        assert!(world.shards[one.0].0.may_read(one.1));
        let versions = world.shards.iter().map(|(broker, _)| broker.definitions_version());
        assert_eq!(versions.collect::<Vec<_>>(), vec![1; world.shards.len()]);
    }
}

#[test]
fn outcomes_come_in_the_order_of_the_requests() {
    for (mut world, one, other) in journaled() {
        world.command(one, queue("q", true, false));
        world.command(other, queue("t", false, false));
        assert_eq!(
            (world.sent(one), world.sent(other)),
            (String::new(), String::new()),
            "what was asked for later waits, too"
        );
        world.report_definitions(2);
        world.exchange_batches();
        assert_eq!((world.sent(one), world.sent(other)), ("declare-ok q 0/0".into(), "declare-ok t 0/0".into()));
        // Nothing that is journaled is before this one.
        world.command(other, queue("u", false, false));
        assert_eq!(world.sent(other), "declare-ok u 0/0");
    }
}

#[test]
fn a_queue_that_is_declared_again_is_answered_once_it_is_durable() {
    for (mut world, one, other) in journaled() {
        world.command(one, queue("q", true, false));
        world.command(other, queue("q", true, false));
        assert_eq!((world.sent(one), world.sent(other)), (String::new(), String::new()));
        world.report_definitions(1);
        world.exchange_batches();
        assert_eq!((world.sent(one), world.sent(other)), ("declare-ok q 0/0".into(), "declare-ok q 0/0".into()));
    }
}

#[test]
fn a_deletion_is_answered_once_it_is_durable() {
    for (mut world, one, _) in journaled() {
        world.command(one, queue("q", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        world.sent(one);
        let delete = queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false };
        world.command(one, delete);
        assert_eq!(world.sent(one), "");
        let version = world.shards[0].1.journal.expect("it was journaled");
        world.report_definitions(version);
        world.exchange_batches();
        assert_eq!(world.sent(one), "delete-ok 0");
    }
}

#[test]
fn declarations_without_a_reply_share_one_wait() {
    for (mut world, one, _) in journaled() {
        world.command(one, queue("first", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        assert_eq!(world.sent(one), "declare-ok first 0/0");
        let (a, b, c) = (queue("a", true, true), queue("b", true, true), queue("c", true, true));
        for declare in [a, b, c] {
            let (broker, recorder) = &mut world.shards[one.0];
            let read = broker.command(one.1, ChannelNumber(1), declare.into(), recorder);
            assert_eq!(read, Ok(ReadControl::Batch));
        }
        let (broker, recorder) = &mut world.shards[one.0];
        broker.flush_definitions(one.1, recorder);
        world.exchange_batches();
        assert!(!world.shards[one.0].0.may_read(one.1), "the connection waits for all of them");
        world.report_definitions(3);
        world.exchange_batches();
        assert!(!world.shards[one.0].0.may_read(one.1), "the last one is not durable");
        world.report_definitions(4);
        world.exchange_batches();
        assert!(world.shards[one.0].0.may_read(one.1));
    }
}

#[test]
fn a_refusal_behind_what_is_journaled_waits_with_it() {
    for (mut world, one, other) in journaled() {
        world.command(one, queue("q", true, false));
        world.command(other, queue("q", false, false));
        assert_eq!(world.sent(other), "", "what it was refused for may not be there after a restart");
        world.report_definitions(1);
        world.exchange_batches();
        assert_eq!(
            world.sent(other),
            "refused PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but \
             current is 'true'"
        );
    }
}
