//! Transactions of very many operations: settled, committed, rolled back and dropped in turns.

use super::divided::{bodies, turns};
use super::{WORK_MAX, census, is_served, world};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{ack, consume, declare};
use broker::limits::{COMMITTED_PUBLISH_WORK, WORK_PER_TURN};
use wire::method::tx;

const MANY: usize = WORK_PER_TURN as usize * 2;

/// A client in a transaction with very many deliveries that are not settled.
fn client() -> (BrokerWorld, WorldConnection, WorldConnection) {
    let (mut world, client, bystander) = world();
    declare(&mut world, client, "q");
    consume(&mut world, client, "q", "c", false);
    (0..MANY).for_each(|_| _ = world.publish(client, "", "q", "m"));
    world.command(client, tx::Select {});
    world.sent(client);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    (world, client, bystander)
}

fn most(world: &BrokerWorld) -> u64 {
    world.shards[0].0.counters().work_per_turn_max
}

fn unsettled_and_ready(world: &BrokerWorld) -> (u64, usize) {
    let queue = world.shards[0].0.queues().find(|queue| &*queue.name == "q").expect("there");
    (queue.unsettled, queue.ready.len())
}

/// Acknowledges all of them in the transaction, which takes several turns.
fn ack_all(world: &mut BrokerWorld, client: WorldConnection, bystander: WorldConnection) {
    ack(world, client, MANY as u64, true);
    assert!(!world.shards[0].0.may_read(client.1), "nothing overtakes it");
    assert!(turns(world, bystander) >= 1);
    assert!(world.shards[0].0.may_read(client.1));
}

#[test]
fn very_many_deliveries_are_settled_by_a_commit_in_turns() {
    let (mut world, client, bystander) = client();
    ack_all(&mut world, client, bystander);
    assert_eq!(unsettled_and_ready(&world), (MANY as u64, 0), "they wait for the commit");
    world.command(client, tx::Commit {});
    assert_eq!(world.sent(client), "", "it is not done yet");
    assert!(turns(&mut world, bystander) >= 1);
    assert_eq!((world.sent(client).as_str(), unsettled_and_ready(&world)), ("tx.commit-ok", (0, 0)));
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn very_many_publishes_that_nobody_gets_are_committed_in_turns() {
    let (mut world, client, bystander) = world();
    world.command(client, tx::Select {});
    (0..MANY).for_each(|_| _ = world.publish(client, "", "nowhere", "m"));
    world.sent(client);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.command(client, tx::Commit {});
    assert_eq!(world.sent(client), "", "it is not done yet");
    assert!(turns(&mut world, bystander) >= MANY * COMMITTED_PUBLISH_WORK / WORK_PER_TURN as usize - 1);
    assert_eq!(world.sent(client), "tx.commit-ok");
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn a_long_transaction_is_rolled_back_in_turns() {
    let (mut world, client, bystander) = client();
    ack_all(&mut world, client, bystander);
    (0..MANY).for_each(|_| _ = world.publish(client, "", "by", "dropped"));
    world.shards[0].0.start_turn();
    world.command(client, tx::Rollback {});
    assert_eq!(world.sent(client), "", "it is not done yet");
    assert!(!world.shards[0].0.may_read(client.1));
    assert!(turns(&mut world, bystander) >= 3);
    assert_eq!((world.sent(client).as_str(), unsettled_and_ready(&world)), ("tx.rollback-ok", (MANY as u64, 0)));
    // They are unsettled again, each under its tag.
    world.shards[0].0.start_turn();
    ack(&mut world, client, MANY as u64, true);
    turns(&mut world, bystander);
    world.command(client, tx::Commit {});
    turns(&mut world, bystander);
    assert_eq!((world.sent(client).as_str(), unsettled_and_ready(&world)), ("tx.commit-ok", (0, 0)));
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn what_a_lost_client_had_in_a_long_transaction_returns_in_turns() {
    for is_channel in [true, false] {
        let (mut world, client, bystander) = client();
        ack_all(&mut world, client, bystander);
        (0..MANY).for_each(|_| _ = world.publish(client, "", "by", "dropped"));
        let (broker, recorder) = &mut world.shards[0];
        broker.start_turn();
        if is_channel {
            broker.close_channel(client.1, wire::ChannelNumber(1), recorder);
        } else {
            broker.close_session(client.1, recorder);
        }
        assert!(turns(&mut world, bystander) >= 4);
        assert_eq!(unsettled_and_ready(&world), (0, MANY));
        assert_eq!((census(&world, "deferred work"), bodies(&mut world, bystander, "by").len()), (0, 0));
        assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
    }
}

#[test]
fn a_settlement_of_a_transaction_whose_channel_is_closed_meanwhile_returns_everything() {
    let (mut world, client, bystander) = client();
    ack(&mut world, client, MANY as u64, true);
    assert!(!world.shards[0].0.may_read(client.1), "it is not done yet");
    world.disconnect(client);
    is_served(&mut world, bystander);
    turns(&mut world, bystander);
    assert_eq!(unsettled_and_ready(&world), (0, MANY));
    assert_eq!((census(&world, "deferred work"), census(&world, "channels")), (0, 1), "the bystander's");
}
