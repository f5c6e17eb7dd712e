//! Fetches of a log that settles messages while somebody waits for them.

use crate::messages::Message;
use crate::world::{LOG, STORE};
use disk::{Disk, DiskFaults, SimulatedDisk};
use store::limits::SEGMENT_BYTES_MIN;
use store::{FetchId, MessageLog, MessageLogOptions, Position, QueueUid, RecoveredLog};

const QUEUE: QueueUid = QueueUid(1);

/// A log of which nothing is recovered, as pages are spilled to: what is settled is not written.
struct VolatileLog {
    log: MessageLog<Message>,
    disk: SimulatedDisk,
}

impl VolatileLog {
    /// With one message, which is written.
    fn new() -> VolatileLog {
        let options = MessageLogOptions { segment_bytes: SEGMENT_BYTES_MIN, is_volatile: true };
        let log = MessageLog::new(RecoveredLog::empty(STORE, LOG), options);
        let mut this = VolatileLog { log, disk: SimulatedDisk::new(1, DiskFaults::default()) };
        let ticket = this.log.append(QUEUE, Position(1), Message::new(1, 100));
        this.log.await_durable(ticket);
        this.run();
        this
    }

    fn submit(&mut self, now_us: u64) {
        while let Some(request) = self.log.poll(now_us) {
            self.disk.submit(request);
        }
    }

    /// Until there is nothing more to do, now or later.
    fn run(&mut self) {
        let mut now_us = 0;
        loop {
            self.submit(now_us);
            let next_us = [self.disk.due_us(), self.log.timer_us()].into_iter().flatten().min();
            let Some(next_us) = next_us else { return };
            now_us = now_us.max(next_us);
            self.disk.set_now(now_us);
            while let Some(completion) = self.disk.poll() {
                let _durable = self.log.complete(completion, now_us);
            }
        }
    }
}

#[test]
fn a_fetch_is_answered_although_all_that_it_waits_for_is_settled_before_it_is_read() {
    type Settle = fn(&mut MessageLog<Message>);
    let ways: [Settle; 2] = [|log| log.settle(QUEUE, Position(1), 1), |log| log.drop_queue(QUEUE)];
    for settle in ways {
        let mut world = VolatileLog::new();
        world.log.fetch(FetchId(0), QUEUE, Position(1)..Position(2), Vec::new());
        assert!(world.log.take_fetched(Message::read).is_none() && !world.log.has_fetched(), "it is not read");
        settle(&mut world.log);
        world.run();
        assert!(world.log.has_fetched(), "nobody would ask for the answer");
        let fetched = world.log.take_fetched(Message::read).expect("an answer");
        assert_eq!((fetched.id, fetched.messages.len()), (FetchId(0), 0));
    }
}

#[test]
fn messages_that_were_read_back_are_counted() {
    let mut world = VolatileLog::new();
    assert_eq!(world.log.metrics().messages_fetched, 0);
    world.log.fetch(FetchId(0), QUEUE, Position(1)..Position(2), Vec::new());
    world.run();
    let fetched = world.log.take_fetched(Message::read).expect("an answer");
    assert_eq!((fetched.messages.len(), world.log.metrics().messages_fetched), (1, 1));
}
