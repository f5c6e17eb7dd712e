//! What a log of messages costs its shard: nanoseconds of appending, settling and encoding a message of 64 bytes.
//!
//! ```sh
//! cargo run --release -p harrier-store --example message_log
//! ```
//!
//! The disk is none: writes are done when they are asked for, and their bytes are looked at by nobody.
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use std::rc::Rc;
use std::time::Instant;
use store::{
    Completion, LogId, LoggedMessage, MessageLog, MessageLogOptions, Position, QueueUid, RecoveredLog, Request,
    StoreTag, StoredMessage,
};

const MESSAGES: u64 = 4_000_000;
const BODY: [u8; 64] = [7; 64];
/// How often each is measured: the fastest counts.
const ROUNDS: usize = 5;

#[derive(Clone)]
struct MeasuredMessage(Rc<u64>);

impl LoggedMessage for MeasuredMessage {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: b"",
            routing_key: b"queue",
            properties: &[0x10, 0, 2],
            bcc: b"",
            arrived_us: *self.0,
            body: &BODY,
        }
    }

    fn bytes(&self) -> usize {
        BODY.len() + 40
    }

    fn is_same(&self, _: &Self) -> bool {
        false
    }
}

/// A log whose writes are done at once.
struct MeasuredLog {
    log: MessageLog<MeasuredMessage>,
    message: MeasuredMessage,
    written_bytes: u64,
}

impl MeasuredLog {
    fn new() -> Self {
        let log = MessageLog::new(RecoveredLog::empty(StoreTag(1), LogId(0)), MessageLogOptions::default());
        let mut log = MeasuredLog { log, message: MeasuredMessage(Rc::new(1_700_000_000_000_000)), written_bytes: 0 };
        log.write(0);
        log
    }

    /// The end of a tick.
    fn write(&mut self, now_us: u64) {
        while let Some(request) = self.log.poll(now_us) {
            let completion = match request {
                Request::Make { segment, .. } => Completion::Made { segment, result: Ok(()) },
                Request::Sync { segment } => Completion::Synced { segment, result: Ok(()) },
                Request::Remove { segment } => Completion::Removed { segment, result: Ok(()) },
                Request::WriteFooter { segment, .. } => Completion::FooterWritten { segment, result: Ok(()) },
                Request::Write { segment, group, .. } => {
                    self.written_bytes += group.bytes().len() as u64;
                    Completion::Written { segment, group, result: Ok(()) }
                }
                Request::Read { .. } => panic!("nothing is moved"),
            };
            self.log.complete(completion, now_us);
        }
        self.log.take_event();
    }
}

/// Ticks of `tick` messages: each is appended and, so many ticks later, settled in runs.
fn run(tick: u64, settle_behind: u64, queues: u64) -> (f64, u64) {
    let mut best = f64::MAX;
    let mut written_bytes = 0;
    for _ in 0..ROUNDS {
        let mut log = MeasuredLog::new();
        let begun = Instant::now();
        let mut ticket = None;
        for at in 0..MESSAGES / tick {
            for n in 0..tick {
                let number = at * tick + n;
                let (queue, position) = (QueueUid(1 + number % queues), Position(1 + number / queues));
                ticket = Some(log.log.append(queue, position, log.message.clone()));
            }
            if settle_behind == 0 {
                for queue in 0..queues {
                    log.log.settle(QueueUid(1 + queue), Position(1 + at * tick / queues), tick / queues);
                }
            }
            if let Some(ticket) = ticket {
                log.log.await_durable(ticket);
            }
            log.write(at);
            if settle_behind > 0 && at >= settle_behind {
                let first = (at - settle_behind) * tick;
                for queue in 0..queues {
                    log.log.settle(QueueUid(1 + queue), Position(1 + first / queues), tick / queues);
                }
            }
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e9 / MESSAGES as f64);
        written_bytes = log.written_bytes;
    }
    (best, written_bytes)
}

fn main() {
    println!("ns a message   bytes a message");
    for (what, tick, settle_behind, queues) in [
        ("appended, written, settled in runs of 100", 100, 1, 1),
        ("appended, written, settled in runs of 1,000", 1_000, 1, 1),
        ("the same in 10 queues by turns", 1_000, 1, 10),
        ("the same in 1,000 queues by turns", 1_000, 1, 1_000),
        ("settled before it is written, in runs of 100", 100, 0, 1),
        ("settled before it is written, one by one", 1, 0, 1),
        ("settled before it is written, in 1,000 queues", 1_000, 0, 1_000),
    ] {
        let (ns, bytes) = run(tick, settle_behind, queues);
        println!("{ns:12.1}   {:15.1}   {what}", bytes as f64 / MESSAGES as f64);
    }
}
