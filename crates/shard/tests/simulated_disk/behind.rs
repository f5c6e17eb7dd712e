//! A disk that is behind: who is read meanwhile, and how much may wait.

use super::*;
use store::limits::{PENDING_BYTES_HARD_MAX, PENDING_BYTES_MAX};

/// Messages of this size: a few are much.
const MESSAGE_BYTES: usize = 60_000;

impl World {
    /// The disk does nothing for longer than a test lasts, or goes on.
    fn set_stands_still(&mut self, stands_still: bool) {
        let slow = if stands_still { 1 } else { 0 };
        self.disk.lock().expect("nobody panics with it").set_faults(DiskFaults { slow, ..DiskFaults::default() });
        if !stands_still {
            // What it was asked for is due.
            self.now += Duration::from_secs(10);
        }
    }

    fn pending_bytes(&self) -> usize {
        self.shard.store_metrics().expect("it has a store").messages.log.pending_bytes as usize
    }
}

#[test]
fn while_the_disk_stands_still_who_adds_little_to_it_is_served() {
    let mut world = World::start(surviving_disk(16), OPTIONS);
    let (mut flood, mut other) = (world.connect_over(4 << 20), world.connect());
    world.set_stands_still(true);
    let mut number = 0;
    while world.pending_bytes() < PENDING_BYTES_MAX {
        (0..20).for_each(|_| flood.publish("q", number, MESSAGE_BYTES));
        number += 20;
        world.exchange(&mut flood);
        assert!(number < 1_000, "the disk never falls behind");
    }
    let held_at = world.pending_bytes();
    for answered in 1..=50 {
        (0..20).for_each(|_| flood.publish("q", number, MESSAGE_BYTES));
        // Its own messages wait for the disk behind the others, and it is read on.
        other.publish("q", number, 100);
        other.get("q", true);
        number += 20;
        world.exchange_all([&mut flood, &mut other]);
        assert_eq!((other.got.len(), other.confirmed), (answered, 0), "the disk stands still");
    }
    assert!(world.pending_bytes() < held_at + 50 * 200, "who has filled it is not read");
    assert!(!flood.has_sent_all());
    // What it took out unwritten need not be.
    world.set_stands_still(false);
    world.until(&mut other, "all confirms", |client| client.confirmed == 50);
    while !flood.has_sent_all() {
        world.exchange(&mut flood);
    }
}

#[test]
fn of_all_together_no_more_waits_for_the_disk_than_the_hard_limit() {
    let mut world = World::start(surviving_disk(17), OPTIONS);
    let mut clients: Vec<StoredClient> = (0..90).map(|_| world.connect()).collect();
    world.set_stands_still(true);
    const EACH: u64 = 10;
    for number in 0..EACH {
        for client in &mut clients {
            client.publish("q", number, MESSAGE_BYTES);
            world.exchange(client);
        }
    }
    let pending_bytes = world.pending_bytes();
    let limit = PENDING_BYTES_HARD_MAX + shard::limits::TURN_BYTES;
    assert!(pending_bytes > PENDING_BYTES_MAX, "those who had added little were read: {pending_bytes}");
    assert!(pending_bytes <= limit, "{pending_bytes} bytes wait, of {limit}");
    // Each of them has its turn when the disk goes on.
    world.set_stands_still(false);
    for client in &mut clients {
        world.until(client, "all confirms", |client| client.confirmed == EACH);
    }
}
