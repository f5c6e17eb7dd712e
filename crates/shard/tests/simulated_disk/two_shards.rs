//! Two shards, of which one sleeps: what its clients learn of the other one's disk.

use super::{
    OPTIONS, PATIENCE, SEGMENT_BYTES, StoredClient, SurvivingDisk, first_catalog, new_shard_of, some_instant,
    surviving_disk,
};
use durability::{LogSource, MessageStore};
use shard::{Mailbox, Shard, ShardWaker, SharedState, WakeTarget};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use store::{LogId, OnDamage};

struct CountedWakes(Arc<AtomicU32>);

impl WakeTarget for CountedWakes {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn open_store(shard: &mut Shard, disk: &SurvivingDisk, log: LogId, now: Instant) {
    let mut reader = disk.lock().expect("nobody panics with it");
    let segments = reader.segments(log);
    let (on_damage, paging_threshold) = (OnDamage::Fail, 0);
    let source = LogSource { reader: &mut *reader, store: super::STORE, log, segments, on_damage, paging_threshold };
    let recovered = shard.recover_messages(source, now).expect("nothing is there");
    drop(reader);
    shard.set_store(MessageStore::new(recovered, Box::new(disk.clone()), OPTIONS));
}

#[test]
fn a_shard_that_sleeps_tells_its_publishers_that_the_disk_of_another_one_is_full_and_has_space_again() {
    let (began, shared) = (some_instant(), Arc::new(SharedState::new(2, 1 << 30, 100)));
    let wakes = [0, 1].map(|_| Arc::new(AtomicU32::new(0)));
    let wakers = wakes.each_ref().map(|wakes| ShardWaker::new(Box::new(CountedWakes(Arc::clone(wakes)))));
    let mut mailboxes = Mailbox::connect(&wakers).into_iter();
    let disks = [5, 6].map(surviving_disk);
    disks[0].lock().expect("nobody panics with it").set_capacity(2 * SEGMENT_BYTES);
    let mut shards = [0, 1].map(|number| {
        let mailbox = mailboxes.next().expect("mail for each");
        let mut shard = new_shard_of([number, 2], began, &shared, first_catalog(), mailbox);
        open_store(&mut shard, &disks[usize::from(number)], LogId(number.into()), began);
        shard
    });
    let mut clients = [0, 1].map(|at: usize| {
        assert_eq!(shared.assign_connection(), Some(catalog::ShardId(at as u16)));
        StoredClient::connect(&mut shards[at], 1 << 20, began)
    });
    let mut now = began;
    let mut exchange = |clients: &mut [StoredClient; 2], shards: &mut [Shard; 2], of: std::ops::Range<usize>| {
        now += Duration::from_micros(100);
        for at in of {
            disks[at].lock().expect("nobody panics with it").set_now((now - began).as_micros() as u64);
            clients[at].send(&mut shards[at]);
            shards[at].tick(now);
            clients[at].read();
        }
    };
    while !clients.iter().all(StoredClient::is_open) {
        exchange(&mut clients, &mut shards, 0..2);
    }
    clients[1].publish("q", 1, 100);
    for _ in 0..PATIENCE {
        if clients[1].confirmed == 1 {
            break;
        }
        exchange(&mut clients, &mut shards, 0..2);
    }
    assert_eq!((clients[1].confirmed, shards[1].has_messages()), (1, false));

    for is_full in [true, false] {
        wakers[1].will_sleep();
        let before = wakes[1].load(Ordering::Relaxed);
        if !is_full {
            disks[0].lock().expect("nobody panics with it").set_capacity(1 << 40);
        }
        let mut number = 1;
        for _ in 0..PATIENCE {
            if clients[0].blocked.is_some() == is_full {
                break;
            }
            if is_full {
                number += 1;
                clients[0].publish("q", number, 50_000);
            }
            exchange(&mut clients, &mut shards, 0..1);
        }
        assert_eq!(clients[0].blocked.is_some(), is_full);
        let woken = wakes[1].load(Ordering::Relaxed) - before;
        assert_eq!((woken, shards[1].has_messages()), (1, true), "{is_full}");
        exchange(&mut clients, &mut shards, 1..2);
        assert_eq!(clients[1].blocked.is_some(), is_full);
    }
}
