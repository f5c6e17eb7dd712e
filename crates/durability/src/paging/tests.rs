use crate::message_store::{MessageStore, MessageStoreOptions, StoreSync};
use catalog::QueueUid;
use disk::{DiskFaults, SimulatedDisk};
use queues::{BodyRef, Content, Message, PagedMessage, QueuePosition};
use slab::{Pool, PoolOptions};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use store::limits::{SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MIN};
use store::{LogId, RecoveredLog, StoreTag};

/// A disk that a test keeps a hold of.
type HeldDisk = Arc<Mutex<SimulatedDisk>>;

fn held_disk(seed: u64) -> HeldDisk {
    Arc::new(Mutex::new(SimulatedDisk::new(seed, DiskFaults::default())))
}

struct PagingStore {
    store: MessageStore,
    disk: HeldDisk,
    /// Opened by the first page that needs it.
    spill: Arc<Mutex<Option<HeldDisk>>>,
    spill_capacity: u64,
    pool: Pool,
    now_us: u64,
}

const LOG: LogId = LogId(0);

fn queue(number: u64) -> QueueUid {
    QueueUid::new(number).expect("a number")
}

fn number_of(message: &Message) -> u64 {
    let BodyRef::Small(body) = message.content().body else { panic!("a small body") };
    u64::from_le_bytes(body[..8].try_into().expect("eight bytes"))
}

impl PagingStore {
    fn new() -> PagingStore {
        PagingStore::with_spill_capacity(u64::MAX)
    }

    fn with_spill_capacity(spill_capacity: u64) -> PagingStore {
        let disk = held_disk(1);
        let options = MessageStoreOptions {
            segment_bytes: SEGMENT_BYTES_MIN,
            sync: StoreSync::Always,
            group_delay_us: 0,
            disk_free_limit: 0,
        };
        let mut store = MessageStore::new(RecoveredLog::empty(StoreTag(3), LOG), Box::new(disk.clone()), options);
        let spill = Arc::new(Mutex::new(None));
        let opened = Arc::clone(&spill);
        store.set_spill(Box::new(move || {
            let disk = held_disk(2);
            disk.lock().expect("nobody panics with it").set_capacity(spill_capacity);
            *opened.lock().expect("nobody panics with it") = Some(disk.clone());
            Ok(Box::new(disk))
        }));
        let pool = Pool::new(PoolOptions::default());
        PagingStore { store, disk, spill, spill_capacity, pool, now_us: 1_000_000 }
    }

    fn spill(&self) -> Option<HeldDisk> {
        self.spill.lock().expect("nobody panics with it").clone()
    }

    fn message(&self, number: u64) -> Message {
        let mut body = number.to_le_bytes().to_vec();
        body.resize(500, number as u8);
        let body = BodyRef::Small(&body);
        Content { exchange: b"", routing_key: b"q", properties: &[0, 0], body, bcc: b"", arrived_us: number }
            .keep(&self.pool)
    }

    /// Appends messages whose bodies begin with their positions.
    fn append(&mut self, queue: QueueUid, positions: Range<u64>) {
        for position in positions {
            let message = self.message(position);
            self.store.append(queue, QueuePosition(position), message);
        }
    }

    fn page_out(&mut self, queue: QueueUid, positions: impl Iterator<Item = u64>) -> bool {
        let messages: Vec<(QueuePosition, Message)> =
            positions.map(|position| (QueuePosition(position), self.message(position))).collect();
        self.store.page_out(queue, &mut messages.iter().map(|(position, message)| (*position, message)))
    }

    /// Lets the disks work until nothing is due for a while.
    fn run(&mut self) {
        for _ in 0..2_000 {
            self.now_us += 1_000;
            self.store.complete(self.now_us);
            self.store.submit(0, self.now_us);
            for disk in [Some(self.disk.clone()), self.spill()].into_iter().flatten() {
                disk.lock().expect("nobody panics with it").set_now(self.now_us);
            }
        }
    }

    /// The messages of a page: each is the one that went out.
    fn page_in(&mut self, queue: QueueUid, positions: Range<u64>) -> Vec<PagedMessage> {
        self.store.page_in(queue, QueuePosition(positions.start), QueuePosition(positions.end));
        for _ in 0..3 {
            self.run();
            let PagingStore { store, pool, .. } = self;
            if let Some(page) = store.take_page(pool) {
                assert_eq!((page.queue.0, page.first.0), (queue.number(), positions.start));
                for PagedMessage { position, message, .. } in &page.messages {
                    assert_eq!(number_of(message), position.0);
                    assert_eq!(message.content().body.len(), 500);
                }
                return page.messages;
            }
        }
        panic!("the page is there");
    }

    fn positions_in(&mut self, queue: QueueUid, positions: Range<u64>) -> Vec<u64> {
        self.page_in(queue, positions).iter().map(|message| message.position.0).collect()
    }
}

#[test]
fn what_is_dense_in_the_log_is_not_written_again_and_comes_back_with_its_history() {
    let mut world = PagingStore::new();
    world.append(queue(5), 1..3_000);
    assert!(world.page_out(queue(5), 1..1_000), "before it is written");
    world.run();
    assert!(world.page_out(queue(5), 1_000..3_000));
    world.store.mark_delivered(queue(5), QueuePosition(4), 1);
    world.store.mark_returned(queue(5), QueuePosition(3), 2);
    world.store.forget(queue(5), QueuePosition(2), 1);
    let page = world.page_in(queue(5), 1..2_000);
    let positions: Vec<u64> = page.iter().map(|message| message.position.0).collect();
    assert_eq!(positions, (1..2_000).filter(|&position| position != 2).collect::<Vec<_>>());
    assert_eq!(page.iter().filter(|message| message.redelivered).count(), 3);
    assert_eq!(page.iter().map(|message| message.times_returned).collect::<Vec<_>>()[..3], [0, 2, 0]);
    assert!(world.spill().is_none(), "the spill log was not needed");
    assert_eq!(world.positions_in(queue(5), 1..5), [1, 3, 4], "they are in the log until they are forgotten");
}

#[test]
fn what_the_log_does_not_have_is_spilled_and_pages_are_put_together_in_their_order() {
    let mut world = PagingStore::new();
    let even = |position: &u64| position.is_multiple_of(2);
    for position in (1..2_000).filter(even) {
        world.append(queue(5), position..position + 1);
    }
    assert!(world.page_out(queue(5), 1..1_000));
    assert!(world.spill().is_some());
    world.run();
    assert!(world.page_out(queue(5), 1_000..2_000));
    assert_eq!(world.positions_in(queue(5), 1..1_000), (1..1_000).collect::<Vec<_>>());
    assert_eq!(world.positions_in(queue(5), 1_000..2_000), (1_000..2_000).collect::<Vec<_>>());
    let again = world.positions_in(queue(5), 1..2_000);
    assert_eq!(again, (1..2_000).filter(even).collect::<Vec<_>>(), "what was handed over is not in the spill log");
    // A message may go out again before the log has written that it did.
    for _ in 0..3 {
        assert!(world.page_out(queue(7), 10..30) && world.page_out(queue(7), 5..9));
        assert_eq!(world.positions_in(queue(7), 5..20), [5, 6, 7, 8].into_iter().chain(10..20).collect::<Vec<_>>());
        assert!(world.page_out(queue(7), 12..14));
        assert_eq!(world.positions_in(queue(7), 12..30), [12, 13].into_iter().chain(20..30).collect::<Vec<_>>());
    }
}

#[test]
fn queues_with_little_in_each_group_are_spilled_and_read_from_there() {
    let mut world = PagingStore::new();
    let queues: Vec<QueueUid> = (1..100).map(queue).collect();
    for position in 1..100 {
        for &queue in &queues {
            world.append(queue, position..position + 1);
        }
        world.run();
    }
    assert!(world.page_out(queues[40], 1..100));
    let spill = world.spill().expect("the queue has a hundredth of its groups");
    // What is in the log as well has its history there, and is not read from it.
    world.store.mark_delivered(queues[40], QueuePosition(1), 1);
    world.store.forget(queues[40], QueuePosition(50), 1);
    let segments = world.disk.lock().expect("nobody panics with it").segments(LOG);
    for number in segments {
        for block in 1..1_000 {
            world.disk.lock().expect("nobody panics with it").flip_bit(
                store::SegmentId { log: LOG, number },
                store::Block(block),
                3,
            );
        }
    }
    let page = world.page_in(queues[40], 1..100);
    assert_eq!(page.len(), 98);
    assert!(page[0].redelivered && !page[1].redelivered);
    assert!(!spill.lock().expect("nobody panics with it").segments(LOG).is_empty());
    let metrics = world.store.spill_metrics();
    assert!(metrics.log.messages_written > 0 && metrics.disk.segments_made > 0, "{metrics:?}");
    assert!(world.store.failure().is_none());
}

#[test]
fn what_is_forgotten_on_pages_does_not_come_back_and_takes_no_memory() {
    let mut world = PagingStore::new();
    world.append(queue(5), 1..100);
    assert!(world.page_out(queue(5), 1..200));
    world.run();
    assert!(world.page_out(queue(6), 1..200));
    world.store.forget_paged(queue(5), QueuePosition(1), QueuePosition(150));
    world.store.drop_queue(queue(6));
    assert_eq!(world.positions_in(queue(5), 1..300), (150..200).collect::<Vec<_>>());
    assert!(world.positions_in(queue(6), 1..300).is_empty());
    world.store.forget_paged(queue(5), QueuePosition(1), QueuePosition(200));
    world.run();
    assert!(world.store.heap_bytes() < 1_000, "{} bytes", world.store.heap_bytes());
}

#[test]
fn without_space_for_the_spill_log_messages_stay_in_memory_but_for_those_that_the_log_has() {
    let mut world = PagingStore::with_spill_capacity(SEGMENT_BYTES_DEFAULT / 2);
    assert!(world.page_out(queue(5), 1..10), "it is opened");
    world.run();
    assert!(!world.page_out(queue(5), 10..20), "{} bytes are not enough", world.spill_capacity);
    world.append(queue(5), 20..30);
    assert!(world.page_out(queue(5), 20..30));
    assert_eq!(world.positions_in(queue(5), 1..30), (1..10).chain(20..30).collect::<Vec<_>>());
    let spill = world.spill().expect("it was opened");
    spill.lock().expect("nobody panics with it").set_capacity(u64::MAX);
    world.run();
    assert!(world.page_out(queue(5), 10..20), "there is space again");
    assert!(world.store.failure().is_none());
}

/// Flips a bit in blocks of all segments.
fn flip(disk: &HeldDisk, blocks: Range<u32>) {
    let mut disk = disk.lock().expect("nobody panics with it");
    for number in disk.segments(LOG) {
        for block in blocks.clone() {
            disk.flip_bit(store::SegmentId { log: LOG, number }, store::Block(block), 900);
        }
    }
}

fn set_faults(disk: &HeldDisk, faults: DiskFaults) {
    disk.lock().expect("nobody panics with it").set_faults(faults);
}

/// What is damaged, as it is logged.
fn damage(store: &mut MessageStore) -> Vec<String> {
    store.take_damage().iter().map(ToString::to_string).collect()
}

#[test]
fn damage_and_errors_of_either_log_are_told_and_the_rest_goes_on() {
    for is_spilled in [false, true] {
        for is_flipped in [false, true] {
            let mut world = PagingStore::new();
            if !is_spilled {
                world.append(queue(5), 1..100);
            }
            assert!(world.page_out(queue(5), 1..100));
            world.run();
            let disk = if is_spilled { world.spill().expect("it was opened") } else { world.disk.clone() };
            if is_flipped {
                flip(&disk, 1..2);
            } else {
                set_faults(&disk, DiskFaults { read_error: 1, ..DiskFaults::default() });
            }
            assert!(world.page_in(queue(5), 1..100).len() < 99, "it cannot all be read");
            let found = damage(&mut world.store);
            let log = if is_spilled { "the spill log: " } else { "" };
            let expected = format!("{log}segment 1 of log 0 is damaged at block 1: of queue 5 messages 1 to ");
            assert!(found.iter().any(|damage| damage.starts_with(&expected)), "{found:?}");
            set_faults(&disk, DiskFaults::default());
            world.append(queue(6), 1..100);
            assert!(world.page_out(queue(6), 1..200));
            assert_eq!(world.positions_in(queue(6), 1..200), (1..200).collect::<Vec<_>>());
            assert_eq!((damage(&mut world.store), world.store.failure()), (Vec::new(), None));
        }
    }
}

#[test]
fn pages_that_one_read_has_are_announced_until_each_is_taken() {
    let mut world = PagingStore::new();
    world.append(queue(5), 1..1_000);
    assert!(world.page_out(queue(5), 1..1_000));
    world.run();
    let firsts = [1, 101, 201, 301];
    for first in firsts {
        world.store.page_in(queue(5), QueuePosition(first), QueuePosition(first + 100));
    }
    world.run();
    for first in firsts {
        assert!(world.store.has_pages(), "a shard that takes no more in its tick takes another one");
        let page = world.store.take_page(&world.pool).expect("it is there");
        assert_eq!((page.first.0, page.messages.len()), (first, 100));
    }
    assert!(!world.store.has_pages());
}
