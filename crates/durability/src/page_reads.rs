//! Pages that queues want back: what of each the two logs of a shard have is put together, and handed over in the order in which
//! it was asked for.

use crate::limits::PAGE_READS_MAX;
use crate::logged_message::QueuedMessage;
use crate::spill::Spill;
use queues::{PagedMessage, QueuePosition};
use std::collections::VecDeque;
use std::ops::Range;
use store::{FetchId, Fetched, FetchedMessage, MessageLog, Position, QueueUid};

/// A page that is wanted.
struct PageRead {
    id: FetchId,
    queue: QueueUid,
    wanted: Range<Position>,
    /// What the log has of it; `None` until that is known.
    logged: Option<Vec<FetchedMessage<QueuedMessage>>>,
    /// The same of the spill log.
    spilled: Option<Vec<FetchedMessage<QueuedMessage>>>,
}

impl PageRead {
    fn is_whole(&self) -> bool {
        self.logged.is_some() && self.spilled.is_some()
    }
}

/// A page that is there.
pub struct ReadPage {
    pub queue: QueueUid,
    pub first: QueuePosition,
    pub messages: Vec<PagedMessage>,
}

#[derive(Default)]
pub(crate) struct PageReads {
    reads: VecDeque<PageRead>,
    /// How many of them, from the first on, the logs know of.
    begun: usize,
    next_id: u64,
}

impl PageReads {
    pub fn push(&mut self, queue: QueueUid, wanted: Range<Position>) {
        let id = FetchId(self.next_id);
        self.next_id += 1;
        self.reads.push_back(PageRead { id, queue, wanted, logged: None, spilled: None });
    }

    /// Asks the logs for the next ones: a few at a time, as what they have waits in memory for the first.
    pub fn begin(&mut self, log: &mut MessageLog<QueuedMessage>, spill: Option<&mut Spill>) {
        let Some(spill) = spill else { return };
        while self.begun < PAGE_READS_MAX
            && let Some(read) = self.reads.get_mut(self.begun)
        {
            let spilled = spill.alive_within(read.queue, read.wanted.clone());
            if spilled.is_empty() || !spill.fetch(read.id, read.queue, read.wanted.clone()) {
                read.spilled = Some(Vec::new());
            }
            // What was spilled is not looked for among other messages.
            log.fetch(read.id, read.queue, read.wanted.clone(), spilled);
            self.begun += 1;
        }
    }

    fn find(&mut self, id: FetchId) -> Option<&mut PageRead> {
        self.reads.iter_mut().take(self.begun).find(|read| read.id == id)
    }

    pub fn on_logged(&mut self, fetched: Fetched<QueuedMessage>) {
        if let Some(read) = self.find(fetched.id) {
            read.logged = Some(fetched.messages);
        }
    }

    pub fn on_spilled(&mut self, fetched: Fetched<QueuedMessage>) {
        if let Some(read) = self.find(fetched.id) {
            read.spilled = Some(fetched.messages);
        }
    }

    /// Whether both logs have answered for the first page: one read may have been enough for more pages than a tick takes.
    #[inline]
    pub fn has_page(&self) -> bool {
        self.reads.front().is_some_and(PageRead::is_whole)
    }

    /// The first page, if both logs have answered. The spill log is done with it.
    pub fn take(&mut self, log: &mut MessageLog<QueuedMessage>, spill: &mut Spill) -> Option<ReadPage> {
        let PageRead { queue, wanted, logged, spilled, .. } = self.reads.pop_front_if(|read| read.is_whole())?;
        self.begun -= 1;
        let mut spilled = spilled.unwrap_or_default();
        if !spilled.is_empty() {
            spill.settle(queue, wanted.start, wanted.end.0 - wanted.start.0);
            // What happened to a message is known where it is durable.
            spilled.iter_mut().for_each(|message| message.found = log.history_of(queue, message.position));
        }
        let mut found = logged.unwrap_or_default();
        found.append(&mut spilled);
        found.sort_by_key(|message| message.position);
        let messages = found.into_iter().map(|FetchedMessage { position, message, found }| PagedMessage {
            position: QueuePosition(position.0),
            message: message.0,
            redelivered: found.is_redelivered(),
            times_returned: found.times_returned,
        });
        Some(ReadPage { queue, first: QueuePosition(wanted.start.0), messages: messages.collect() })
    }

    /// Bytes of what waits to be handed over.
    pub fn heap_bytes(&self) -> usize {
        let waiting =
            self.reads.iter().take(self.begun).flat_map(|read| [&read.logged, &read.spilled]).flatten().flatten();
        let messages: usize = waiting.map(|fetched| store::LoggedMessage::bytes(&fetched.message)).sum();
        messages + self.reads.len() * size_of::<PageRead>()
    }
}
