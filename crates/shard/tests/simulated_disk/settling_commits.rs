//! Transactions that hold acknowledgements alone: an answered commit is on the disk, whenever the power fails.

use super::client::StoredClient;
use super::{Chance, OPTIONS, World, surviving_disk};
use std::collections::BTreeSet;
use wire::DeliveryTag;
use wire::method::{basic, tx};

const MESSAGES: u64 = 12;
/// Exchanges between a commit and its answer, and some more.
const EXCHANGES_MAX: u64 = 8;

/// A client whose channel has transactions.
fn connect(world: &mut World) -> StoredClient {
    world.shared.assign_connection().expect("there is room");
    let mut client = StoredClient::connect(&mut world.shard, 1 << 20, world.now);
    client.transacts = true;
    world.until(&mut client, "a channel", StoredClient::is_open);
    client
}

/// What a client has done when the power fails.
#[derive(Default)]
struct Acknowledged {
    /// By commits that were answered.
    answered: BTreeSet<u64>,
    /// By the one that was not, if there is one.
    unanswered: BTreeSet<u64>,
}

/// Gets messages and acknowledges some of them, commit by commit, until the power fails: at the answer to one, or soon before.
fn acknowledge(world: &mut World, chance: &mut Chance) -> Acknowledged {
    let mut client = connect(world);
    let mut done = Acknowledged::default();
    let commits = 1 + chance.below(4);
    let mut got = 0;
    for commit in 1..=commits {
        for _ in 0..1 + chance.below(3) {
            client.get("q", false);
            world.until(&mut client, "a message", |client| client.got.len() > got);
            got += 1;
            // The tags of a channel count its deliveries.
            if chance.below(4) > 0 {
                client.method(basic::Ack { delivery_tag: DeliveryTag(got as u64), multiple: false });
                done.unanswered.insert(client.got[got - 1].0);
            }
        }
        client.method(tx::Commit {});
        if commit == commits && chance.below(2) == 0 {
            (0..chance.below(EXCHANGES_MAX)).for_each(|_| world.exchange(&mut client));
        } else {
            world.until(&mut client, "an answer", |client| client.committed == commit);
        }
        if client.committed == commit {
            done.answered.append(&mut done.unanswered);
        }
    }
    done
}

#[test]
fn acknowledgements_of_an_answered_commit_are_there_whenever_the_power_fails() {
    let (mut answered, mut unanswered, mut kept) = (0, 0, 0);
    for seed in 0..200 {
        let mut chance = Chance(seed);
        let mut world = World::start(surviving_disk(seed), OPTIONS);
        let mut publisher = world.connect();
        (1..=MESSAGES).for_each(|number| publisher.publish("q", number, 100));
        world.until(&mut publisher, "confirms", |client| client.confirmed == MESSAGES);
        let done = acknowledge(&mut world, &mut chance);
        world.disk.lock().expect("nobody panics with it").cut_power();
        world.restart();
        let mut client = world.connect();
        let found: BTreeSet<u64> = world.drain(&mut client, true).into_iter().map(|(number, _)| number).collect();
        let again: Vec<_> = done.answered.intersection(&found).collect();
        assert!(again.is_empty(), "seed {seed}: {again:?} are there again, and their commit was answered");
        let gone = done.unanswered.difference(&found).count();
        assert!(gone == 0 || gone == done.unanswered.len(), "seed {seed}: a commit is whole, or nothing of it is");
        let lost = (1..=MESSAGES).filter(|number| !found.contains(number) && !done.answered.contains(number));
        assert_eq!(lost.filter(|number| !done.unanswered.contains(number)).count(), 0, "seed {seed}: nothing is lost");
        answered += done.answered.len();
        unanswered += done.unanswered.len();
        kept += done.unanswered.intersection(&found).count();
    }
    assert!(answered > 300 && unanswered > 50 && kept > 0, "{answered} answered, {kept} of {unanswered} kept");
}
