//! The journal of definitions: what is to survive a restart is answered once it is durable, in the order of the requests.

use super::*;
use broker::limits::{DEFINITIONS_PER_BATCH_MAX, DEFINITIONS_UNDURABLE_MAX};

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
fn a_deletion_of_what_another_client_deletes_is_answered_once_that_is_durable() {
    for (mut world, one, other) in journaled() {
        world.command(one, queue("q", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        world.sent(one);
        for client in [one, other] {
            let delete = queue::Delete { queue: short("q"), if_unused: true, if_empty: true, no_wait: false };
            world.command(client, delete);
        }
        assert_eq!((world.sent(one), world.sent(other)), (String::new(), String::new()));
        assert!(!world.shards[other.0].0.may_read(other.1), "its next command waits");
        let version = world.shards[0].1.journal.expect("it was journaled");
        world.report_definitions(version);
        world.exchange_batches();
        assert_eq!((world.sent(one), world.sent(other)), ("delete-ok 0".into(), "delete-ok 0".into()));
        assert!(world.shards[other.0].0.may_read(other.1));
    }
}

/// All of its consumers are cancelled before the deletion is durable. Behind `queue.delete-ok`, the client is told of them a turn's
/// worth at a time, and its next command waits for all.
#[test]
fn a_client_that_deletes_the_queue_of_very_many_consumers_is_told_in_turns() {
    const CONSUMERS: usize = 20_000;
    for (mut world, one, _) in journaled() {
        world.command(one, queue("q", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        for number in 0..CONSUMERS {
            consume(&mut world, one, "q", &number.to_string(), true);
        }
        world.sent(one);
        let delete = queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false };
        world.command(one, delete);
        while world.run_deferred() {}
        world.exchange_batches();
        assert_eq!(world.sent(one), "");
        world.runs_deferred = false;
        world.shards[one.0].0.start_turn();
        let version = world.shards[0].1.journal.expect("it was journaled");
        world.report_definitions(version);
        world.exchange_batches();
        let (mut sent, mut turns) = (world.sent(one), 0);
        assert!(sent.starts_with("delete-ok 0 | cancel "), "{}", &sent[..sent.len().min(100)]);
        assert!(!world.shards[one.0].0.may_read(one.1), "its next command waits");
        while world.run_deferred() {
            sent = format!("{sent} | {}", world.sent(one));
            turns += 1;
        }
        let told = sent.split(" | ").filter(|text| text.starts_with("cancel ")).count();
        assert!(told == CONSUMERS && turns > 0, "{told} in {turns} more turns");
        assert!(world.shards[one.0].0.may_read(one.1));
    }
}

/// Declares queues whose client awaits no reply, in one run.
fn declare_run(world: &mut BrokerWorld, client: WorldConnection, queues: &[(String, bool)]) {
    let (broker, recorder) = &mut world.shards[client.0];
    for (at, (name, durable)) in queues.iter().enumerate() {
        let read = broker.command(client.1, ChannelNumber(1), queue(name, *durable, true).into(), recorder);
        let is_full = at + 1 == DEFINITIONS_PER_BATCH_MAX;
        assert_eq!(read, Ok(if is_full { ReadControl::Pause } else { ReadControl::Batch }));
    }
    broker.flush_definitions(client.1, recorder);
    world.exchange_batches();
}

#[test]
fn declarations_without_a_reply_become_durable_while_their_client_goes_on_and_a_reply_behind_them_waits() {
    for (mut world, one, _) in journaled() {
        world.command(one, queue("first", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        assert_eq!(world.sent(one), "declare-ok first 0/0");
        declare_run(&mut world, one, &["a", "b", "c"].map(|name| (name.to_owned(), true)));
        assert!(world.shards[one.0].0.may_read(one.1), "nobody waits for them");
        world.command(one, queue("a", true, false));
        world.report_definitions(3);
        world.exchange_batches();
        assert_eq!(world.sent(one), "", "the last one is not durable");
        world.report_definitions(4);
        world.exchange_batches();
        assert_eq!(world.sent(one), "declare-ok a 0/0");
    }
}

#[test]
fn a_refusal_in_a_run_waits_for_what_is_before_it() {
    for (mut world, one, _) in journaled() {
        world.command(one, queue("first", true, false));
        world.report_definitions(1);
        world.exchange_batches();
        world.sent(one);
        declare_run(&mut world, one, &[("a".to_owned(), true), ("a".to_owned(), false)]);
        assert_eq!((world.sent(one).as_str(), world.shards[one.0].0.may_read(one.1)), ("", false));
        world.report_definitions(2);
        world.exchange_batches();
        assert!(world.sent(one).starts_with("refused PRECONDITION_FAILED - inequivalent arg 'durable'"));
    }
}

#[test]
fn a_client_that_awaits_no_reply_is_not_read_while_too_much_is_not_durable() {
    let runs = DEFINITIONS_UNDURABLE_MAX / DEFINITIONS_PER_BATCH_MAX as u64;
    let mut world = BrokerWorld::new(1, LIMIT);
    world.shards[0].1.journal = Some(0);
    let client = world.connect(0, 1);
    world.command(client, queue("first", true, false));
    world.report_definitions(1);
    for run in 0..=runs {
        assert!(world.shards[0].0.may_read(client.1), "run {run}");
        let names = (0..DEFINITIONS_PER_BATCH_MAX).map(|at| (format!("{run}-{at}"), true));
        declare_run(&mut world, client, &names.collect::<Vec<_>>());
    }
    assert!(!world.shards[0].0.may_read(client.1));
    world.report_definitions(DEFINITIONS_PER_BATCH_MAX as u64);
    assert!(!world.shards[0].0.may_read(client.1));
    world.report_definitions(1 + DEFINITIONS_PER_BATCH_MAX as u64);
    assert!(world.shards[0].0.may_read(client.1));
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
