//! The store of a shard as its broker sees it: what it was told, as text, and what it would restore.

use catalog::QueueUid;
use queues::{AppendResult, BodyRef, Message, QueuePosition};
use std::collections::BTreeMap;

/// A message that would be restored.
struct LiveMessage {
    message: Message,
    was_delivered: bool,
    times_returned: u32,
}

/// Unless it is on, everything is durable at once and nothing is noted, as on a shard without a store.
#[derive(Default)]
pub struct RecordedStore {
    pub is_on: bool,
    /// What it was told.
    pub told: Vec<String>,
    live: BTreeMap<(QueueUid, QueuePosition), LiveMessage>,
    ticket: u64,
    /// Everything up to this ticket is durable.
    durable: u64,
    /// It was told of what is gone since it gave out its last ticket.
    has_forgotten: bool,
    in_commit: bool,
}

fn body(message: &Message) -> String {
    match message.content().body {
        BodyRef::Small(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        BodyRef::Large(slice) => format!("{} bytes", slice.len()),
    }
}

/// A position as text: its priority level, unless it is the lowest, and its number.
fn place(queue: QueueUid, position: QueuePosition) -> String {
    let number = position.0 & ((1 << 56) - 1);
    match position.level() {
        0 => format!("{}@{number}", queue.number()),
        level => format!("{}@{level}:{number}", queue.number()),
    }
}

impl RecordedStore {
    pub fn last_ticket(&self) -> u64 {
        self.ticket
    }

    pub fn note_durable(&mut self, ticket: u64) {
        self.durable = self.durable.max(ticket);
    }

    /// The messages that it would restore: `!` follows one that was handed out, and the number of times that it was returned.
    pub fn live(&self) -> String {
        let messages = self.live.iter().map(|(&(queue, position), live)| {
            let again = if live.was_delivered { "!" } else { "" };
            let returned = if live.times_returned > 0 { format!("x{}", live.times_returned) } else { String::new() };
            format!("{}={}{again}{returned}", place(queue, position), body(&live.message))
        });
        messages.collect::<Vec<_>>().join(" ")
    }

    /// Everything that it would restore.
    pub fn take_live(&mut self) -> Vec<(QueueUid, QueuePosition, Message)> {
        let live = std::mem::take(&mut self.live).into_iter();
        live.map(|((queue, position), live)| (queue, position, live.message)).collect()
    }

    fn next_ticket(&mut self) -> AppendResult {
        self.ticket += 1;
        self.has_forgotten = false;
        AppendResult::Pending(self.ticket)
    }

    pub fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult {
        if !self.is_on {
            return AppendResult::Durable;
        }
        self.told.push(format!("append {}={}", place(queue, position), body(&message)));
        let live = LiveMessage { message, was_delivered: false, times_returned: 0 };
        let earlier = self.live.insert((queue, position), live);
        assert!(earlier.is_none(), "a position has one message");
        // The messages of a commit are durable with its end.
        if self.in_commit { AppendResult::Pending(self.ticket + 1) } else { self.next_ticket() }
    }

    pub fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult {
        let mut of_first = None;
        for (at, message) in (0..).zip(messages) {
            // Those of a commit have tickets of their own, too, and are durable with its end.
            self.ticket += u64::from(at > 0 && self.in_commit);
            let result = self.append(queue, QueuePosition(first.0 + at), message.clone());
            let of_first = *of_first.get_or_insert(result);
            assert_eq!(result, of_first.of_next(at), "tickets of a run follow one another");
        }
        of_first.expect("a run has messages")
    }

    pub fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        if !self.is_on {
            return;
        }
        self.told.push(format!("forget {}+{count}", place(queue, first)));
        self.has_forgotten = true;
        for position in first.0..first.0 + u64::from(count) {
            self.live.remove(&(queue, QueuePosition(position)));
        }
    }

    pub fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        for at in first.0..first.0 + u64::from(count) {
            if let Some(live) = self.live.get_mut(&(queue, QueuePosition(at))) {
                live.was_delivered = true;
            }
        }
    }

    pub fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32) {
        if let Some(live) = self.live.get_mut(&(queue, position)) {
            live.times_returned = times;
        }
    }

    pub fn begin_commit(&mut self) {
        if self.is_on {
            assert!(!std::mem::replace(&mut self.in_commit, true), "commits do not nest");
            self.told.push("begin".into());
        }
    }

    pub fn end_commit(&mut self) -> AppendResult {
        if !self.is_on {
            return AppendResult::Durable;
        }
        assert!(std::mem::take(&mut self.in_commit), "a commit has begun");
        self.told.push("end".into());
        self.next_ticket()
    }

    pub fn settled(&mut self) -> AppendResult {
        let is_durable = self.durable == self.ticket && !self.has_forgotten;
        if is_durable { AppendResult::Durable } else { self.next_ticket() }
    }

    pub fn await_durable(&mut self, ticket: u64) {
        if self.is_on {
            self.told.push(format!("await {ticket}"));
        }
    }

    pub fn drop_queue(&mut self, queue: QueueUid) {
        if self.is_on {
            self.told.push(format!("drop {}", queue.number()));
            self.live.retain(|&(of, _), _| of != queue);
        }
    }
}
