//! The log of a shard's messages: what is appended is gathered, written in groups, and durable in its order.
//!
//! Enters: messages, settlements, commits; completions of the disk; the time.  Leaves: requests to the disk; tickets that are
//! durable.
//! Owns:   what is unwritten, and which messages of the log are alive.
//!
//! Entries wait in a list and are encoded at the end of a tick, when no write is under way. What is settled before that is
//! never written.

mod append;
mod damage;
mod encode;
mod fetch;
mod fetcher;
mod fetching;
mod group_hold;
mod mover;
mod pending;
mod pieces;
mod queues;
mod segment_frames;
mod segments;
mod tickets;

use crate::ids::{Position, QueueUid, SegmentNumber, Ticket};
use crate::limits::{
    LAZY_WRITE_BYTES, LAZY_WRITE_US, MARK_DELAY_US, MESSAGE_SPARE_SEGMENTS, PENDING_BYTES_HARD_MAX, PENDING_BYTES_MAX,
    SEGMENTS_UNMOVED,
};
use crate::log_event::LogEvent;
use crate::log_metrics::LogMetrics;
use crate::log_writer::LogWriter;
use crate::record::StoredMessage;
use crate::recovery::RecoveredLog;
use crate::request::{Completion, DiskError, Request};
use crate::scan::Damage;
use crate::scrub::{Scrub, ScrubOptions};
pub use damage::MessageDamage;
use encode::Settlements;
pub use fetch::{FetchId, Fetched, FetchedMessage};
use fetcher::Fetcher;
pub use fetching::LogShare;
use group_hold::GroupHold;
use mover::{MovedCounts, Mover};
use pending::{Entry, PendingList};
use queues::{PendingRun, QueueTable};
use segments::SegmentUses;
use std::collections::VecDeque;
use std::ops::Range;
use tickets::Tickets;

/// A message that can be written.
pub trait LoggedMessage {
    /// What is written of it.
    fn stored(&self) -> StoredMessage<'_>;

    /// The body alone.
    fn body(&self) -> &[u8] {
        self.stored().body
    }

    /// Bytes that it takes, in memory or in the log: those of its body, and as many more as one that differs in its body alone has.
    fn bytes(&self) -> usize;

    /// Whether the other one is this message, appended to another queue. It may be false for an equal one.
    fn is_same(&self, other: &Self) -> bool;
}

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub struct MessageLogOptions {
    pub segment_bytes: u64,
    /// Nothing of it is recovered: what is settled need not be written.
    pub is_volatile: bool,
}

impl Default for MessageLogOptions {
    fn default() -> Self {
        MessageLogOptions { segment_bytes: crate::limits::SEGMENT_BYTES_DEFAULT, is_volatile: false }
    }
}

/// What a message log's owner must know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageLogEvent {
    /// This ticket and those before it are durable.
    Durable(Ticket),
    /// No segment can be made: what is written fills the last one.
    NoSpace,
    /// There is space again.
    Space,
    /// The footer of a segment could not be written: the next start reads the segment.
    NoFooter(DiskError),
    /// Messages that are fetched cannot be read: the answer is without them.
    Damaged(MessageDamage),
    /// Messages that nobody fetches cannot be read: their segment was to be moved, and stays until they are settled.
    Lost(MessageDamage),
    /// The scrub has found damage. Messages that are alive and that it concerns are told by themselves.
    Scrubbed(Damage),
    /// The disk cannot read something. What that means for messages is told by itself.
    Unreadable(DiskError),
    /// The log cannot be written any more.
    Failed(DiskError),
}

/// Since when what has been unwritten.
#[derive(Default)]
struct Clocks {
    /// The last entry that was in the list at this time: one of those is still there.
    list: Option<(u64, u64)>,
    /// How far queues were handed out.
    seen_us: Option<u64>,
    /// Nothing waits for what may come.
    is_closing: bool,
}

impl Clocks {
    /// When something must be written, if nobody waits for it.
    fn due_us(&self) -> Option<u64> {
        let [list_delay_us, seen_delay_us] = if self.is_closing { [0, 0] } else { [LAZY_WRITE_US, MARK_DELAY_US] };
        let list_us = self.list.map(|(since_us, _)| since_us + list_delay_us);
        // It is written with the next group, or in place of a mark.
        let seen_us = self.seen_us.map(|since_us| since_us + seen_delay_us);
        [list_us, seen_us].into_iter().flatten().min()
    }
}

/// A log of messages.
pub struct MessageLog<M> {
    writer: LogWriter,
    list: PendingList<M>,
    queues: QueueTable,
    segments: SegmentUses,
    tickets: Tickets,
    settlements: Settlements,
    /// Levels whose messages were handed out: the log does not know how far.
    seen: VecDeque<(u32, u8)>,
    /// The entry that begins a commit without an end.
    open_commit: Option<u64>,
    /// The log ends within a commit: its last group does not have all of it.
    is_within_commit: bool,
    /// The oldest segment, while it is moved.
    mover: Option<Mover>,
    fetcher: Fetcher<M>,
    is_volatile: bool,
    moved: MovedCounts,
    /// The oldest segment, if something of it cannot be read and hence not be moved.
    unmovable: Option<SegmentNumber>,
    /// Messages that cannot be read, to be told.
    lost: VecDeque<MessageDamage>,
    scrub: Scrub,
    /// Places that were found to be damaged.
    damage_found: u64,
    /// The life before ended within a commit: the first group says so.
    has_aborted_commit: bool,
    clocks: Clocks,
    /// How long a group waits for more, although somebody waits for it.
    group_delay_us: u64,
    hold: GroupHold,
    event: Option<MessageLogEvent>,
    is_held: bool,
    has_failed: bool,
}

impl<M: LoggedMessage + Clone> MessageLog<M> {
    /// Goes on behind what was recovered.
    pub fn new(recovered: RecoveredLog, options: MessageLogOptions) -> Self {
        let mut segments = SegmentUses::recovered(&recovered.end.segments, &recovered.extents);
        let mut queues = QueueTable::default();
        for found in recovered.queues {
            let queue = queues.find_or_new(found.uid);
            for found in found.levels {
                found.live.iter().for_each(|run| segments.add_found(run));
                segments.count_runs(found.live.len() as isize);
                let level = queues.get(queue).level_or_new(found.number);
                level.live = found.live;
                level.seen_end = found.seen_end;
                level.returned = found.returned;
            }
        }
        let mut writer = LogWriter::new(recovered.end, options.segment_bytes);
        writer.set_spares(MESSAGE_SPARE_SEGMENTS);
        if !options.is_volatile {
            writer.write_footers(recovered.footers);
        }
        MessageLog {
            writer,
            list: PendingList::new(),
            queues,
            segments,
            tickets: Tickets::default(),
            settlements: Settlements::default(),
            seen: VecDeque::new(),
            open_commit: None,
            is_within_commit: false,
            mover: None,
            fetcher: Fetcher::default(),
            is_volatile: options.is_volatile,
            moved: MovedCounts::default(),
            unmovable: None,
            lost: VecDeque::new(),
            scrub: Scrub::default(),
            damage_found: 0,
            has_aborted_commit: recovered.has_open_commit,
            clocks: Clocks::default(),
            group_delay_us: 0,
            hold: GroupHold::default(),
            event: None,
            is_held: false,
            has_failed: false,
        }
    }

    /// What is written is durable in the sense of [`LogWriter::sync_later`].
    pub fn sync_later(&mut self, interval_us: u64) {
        self.writer.sync_later(interval_us);
    }

    /// A group that somebody waits for is held back so long, so that it has more.
    pub fn set_group_delay(&mut self, delay_us: u64) {
        self.group_delay_us = delay_us;
    }

    /// While it is held back nothing more is encoded, whoever waits for it. What is in groups is written and synced when it is due,
    /// and what is fetched is read.
    pub fn hold_writes(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// What sealed segments have is checked from now on; not any more without options.
    pub fn set_scrub(&mut self, options: Option<ScrubOptions>) {
        self.scrub.set_options(options);
    }

    /// The log ends: whatever is unwritten is due, also what comes to be from now on. If there was no space for it, it has one
    /// more try.
    pub fn close(&mut self) {
        self.clocks.is_closing = true;
        self.writer.retry_making();
        self.set_scrub(None);
    }

    /// The queue is done with `count` messages of one level from `first` on. Positions that are not in the log are no error.
    #[inline]
    pub fn settle(&mut self, queue: QueueUid, first: Position, count: u64) {
        let Some(queue) = self.queues.find(queue) else { return };
        let Some(level) = self.queues.get(queue).level(first.level()) else { return };
        let end = first.0.saturating_add(count);
        let first_unbegun = self.list.first_unbegun();
        let is_commit = self.open_commit.is_some();
        let settled_behind = self.list.last();
        let mut written = level.live.range_within(first.0, end);
        let (list, tickets) = (&mut self.list, &mut self.tickets);
        level.pending_within(first.0, end, first_unbegun, |run| {
            if is_commit {
                // It may turn out not to count: what it settles is written.
                let (from, to) = written.unwrap_or((run.first, 0));
                written = Some((from.min(run.first), to.max(run.first + run.count)));
            } else {
                take_unwritten(list, tickets, run, settled_behind);
            }
        });
        while let Some((&returned, _)) = level.returned.range(first.0..end).next() {
            level.returned.remove(&returned);
        }
        let Some((from, to)) = written else { return };
        // Without a next life whatever is settled may be given back at once, unless its commit does not count.
        let is_written = !self.is_volatile || is_commit;
        let by = if is_written { list.push_settled(queue, Position(from), to - from) } else { 0 };
        let segments = &mut self.segments;
        let change = level.live.remove(from, to, |run| segments.settle(&run, by));
        segments.count_runs(change);
    }

    /// The message, and those before it in its level, was handed to a consumer that must acknowledge it.
    #[inline]
    pub fn mark_delivered(&mut self, queue: QueueUid, position: Position) {
        let Some(queue) = self.queues.find(queue) else { return };
        let Some(level) = self.queues.get(queue).level(position.level()) else { return };
        if position.0 < level.seen_end {
            return;
        }
        level.seen_end = position.0 + 1;
        if !level.is_seen_dirty {
            level.is_seen_dirty = true;
            self.seen.push_back((queue, position.level()));
        }
    }

    /// The message was returned so many times.
    pub fn mark_returned(&mut self, queue: QueueUid, position: Position, times: u32) {
        let Some(queue) = self.queues.find(queue) else { return };
        self.queues.level(queue, position).returned.insert(position.0, times);
        self.list.push(Entry::Returned { queue, position, times });
    }

    /// What is appended and settled from here to [`MessageLog::end_commit`] counts as a whole or not at all. Commits do not
    /// nest.
    pub fn begin_commit(&mut self) {
        assert!(self.open_commit.is_none(), "a commit ends before the next one begins");
        self.open_commit = Some(self.list.push(Entry::CommitBegin));
    }

    /// Ends the commit. The ticket is durable when all of it is.
    pub fn end_commit(&mut self) -> Ticket {
        assert!(self.open_commit.take().is_some(), "a commit was begun");
        Ticket(self.list.push(Entry::CommitEnd))
    }

    /// The queue is gone, with every message of it.
    pub fn drop_queue(&mut self, queue: QueueUid) {
        let Some(queue) = self.queues.remove(queue) else { return };
        let first_unbegun = self.list.first_unbegun();
        let settled_behind = self.list.last();
        let entry = self.list.push(Entry::Dropped { queue });
        let Self { queues, list, tickets, segments, .. } = self;
        for level in &mut queues.get(queue).levels {
            level.pending_within(0, u64::MAX, first_unbegun, |run| {
                take_unwritten(list, tickets, run, settled_behind);
            });
            let change = level.live.remove(0, u64::MAX, |run| segments.settle(&run, entry));
            segments.count_runs(change);
        }
    }

    /// The ticket of what was appended or settled last; `None` if all of it was told to be durable.
    pub fn last_undurable(&self) -> Option<Ticket> {
        Some(Ticket(self.list.last())).filter(|last| !self.tickets.is_told(*last))
    }

    /// Somebody waits for this ticket: it is written at the end of the tick, if no write is under way.
    #[inline]
    pub fn await_durable(&mut self, ticket: Ticket) {
        self.tickets.wait_for(ticket);
    }

    /// What to ask the disk for; call it at the end of a tick until there is nothing, and [`MessageLog::take_event`] behind it.
    pub fn poll(&mut self, now_us: u64) -> Option<Request> {
        if self.has_failed {
            return None;
        }
        if self.writer.is_idle() {
            self.pass_over_unwritten();
            self.reclaim();
        }
        self.start_clocks(now_us);
        if !self.is_held && self.is_due(now_us) && self.writer.can_write() && !self.awaits_moving() {
            self.fill_group();
            if !self.writer.has_pending() {
                self.complete_tickets();
            }
            self.start_clocks(now_us);
        }
        if let Some(request) = self.mover.as_mut().and_then(|mover| mover.poll(&self.segments)) {
            return Some(request);
        }
        let Some(request) = self.writer.poll(now_us, true) else {
            return self.poll_reads(now_us).or_else(|| self.poll_scrub(now_us));
        };
        if let Request::Write { segment, block, group } = &request {
            self.segments.place(segment.number, *block, group.blocks());
            self.hold.on_write(now_us, self.list.last());
        }
        Some(request)
    }

    /// Handles a completion of this log's requests.
    pub fn complete(&mut self, completion: Completion, now_us: u64) -> Option<MessageLogEvent> {
        if self.has_failed {
            return None;
        }
        let completion = match completion {
            Completion::Read { segment, block, buffer, result } => {
                return self.on_read(segment, block, buffer, result).map(MessageLogEvent::Unreadable);
            }
            completion => completion,
        };
        if matches!(completion, Completion::Written { .. }) {
            self.fetcher.on_written();
        }
        match self.writer.complete(completion, now_us)? {
            LogEvent::Durable(_) => {
                let told = self.tickets.told();
                let durable = self.tickets.complete();
                self.hold.on_durable(now_us, self.tickets.told() - told, self.list.last());
                durable.map(MessageLogEvent::Durable)
            }
            LogEvent::NoSpace(_) => Some(MessageLogEvent::NoSpace),
            LogEvent::Space => Some(MessageLogEvent::Space),
            LogEvent::NoFooter(error) => Some(MessageLogEvent::NoFooter(error)),
            LogEvent::Failed(error) => Some(self.fail(error)),
        }
    }

    fn fail(&mut self, error: DiskError) -> MessageLogEvent {
        self.has_failed = true;
        MessageLogEvent::Failed(error)
    }

    /// What [`MessageLog::poll`] found: that something became durable without a write, as all of it was settled before, or
    /// that a segment is damaged; and what fetches found, before the fetch is answered. Call it until there is nothing.
    pub fn take_event(&mut self) -> Option<MessageLogEvent> {
        let event = self.event.take();
        event.or_else(|| self.take_damage())
    }

    /// When [`MessageLog::poll`] has something to do although nothing is appended and nothing completed.
    pub fn timer_us(&self) -> Option<u64> {
        if self.has_failed {
            return None;
        }
        let is_moving = self.mover.as_ref().is_some_and(Mover::is_ready);
        let write_us = match is_moving {
            true => Some(0),
            false => self.clocks.due_us().into_iter().chain(self.awaited_us()).min(),
        };
        let write_us = write_us.filter(|_| !self.is_held && self.writer.can_write() && !self.awaits_moving());
        [write_us, self.writer.timer_us(), self.fetcher.timer_us(), self.scrub_us()].into_iter().flatten().min()
    }

    /// When what somebody waits for has been held back long enough.
    fn awaited_us(&self) -> Option<u64> {
        let (since_us, _) = self.clocks.list.filter(|_| self.tickets.is_awaited())?;
        let held_us = self.hold.until_us(self.list.last()).unwrap_or(0);
        Some(held_us.max(since_us + self.group_delay_us))
    }

    /// Whether so much is unwritten that who has added much to it should not be read.
    pub fn is_congested(&self) -> bool {
        self.pending_bytes() >= PENDING_BYTES_MAX
    }

    /// Whether so much is unwritten that nobody should be read.
    pub fn is_overfull(&self) -> bool {
        self.pending_bytes() >= PENDING_BYTES_HARD_MAX
    }

    /// Bytes of messages that are unwritten.
    pub fn pending_bytes(&self) -> usize {
        self.list.bytes()
    }

    /// The tickets of what is unwritten, and of what was settled behind the first of it.
    pub fn unwritten(&self) -> Range<u64> {
        self.list.first()..self.list.last() + 1
    }

    /// Bytes of the messages that are alive in the log.
    pub fn live_bytes(&self) -> u64 {
        self.segments.live_bytes()
    }

    /// Bytes of the log's segments, without those made ahead.
    pub fn log_bytes(&self) -> u64 {
        self.segments.len() as u64 * self.writer.segment_bytes()
    }

    /// What has been written, and what the log holds.
    pub fn metrics(&self) -> LogMetrics {
        LogMetrics {
            messages_written: self.segments.added() - self.moved.messages,
            messages_moved: self.moved.messages,
            bytes_moved: self.moved.bytes,
            messages_fetched: self.fetcher.messages(),
            bytes_scrubbed: self.scrub.counts().bytes,
            scrubs_done: self.scrub.counts().passes,
            scrub_pass_bytes: self.scrub.counts().pass_bytes,
            damage_found: self.damage_found,
            log_bytes: self.log_bytes(),
            live_bytes: self.live_bytes(),
            pending_bytes: self.pending_bytes() as u64,
            ..self.writer.metrics()
        }
    }

    fn start_clocks(&mut self, now_us: u64) {
        let is_past = self.clocks.list.is_none_or(|(_, entry)| self.list.first() > entry);
        if self.list.is_empty() {
            self.clocks.list = None;
        } else if is_past {
            self.clocks.list = Some((now_us, self.list.last()));
        }
        match self.seen.is_empty() {
            true => self.clocks.seen_us = None,
            false => self.clocks.seen_us = self.clocks.seen_us.or(Some(now_us)),
        }
    }

    fn is_due(&self, now_us: u64) -> bool {
        if self.mover.as_ref().is_some_and(|mover| mover.is_ready() || mover.is_within_body()) {
            return true;
        }
        if self.list.is_empty() && self.seen.is_empty() {
            return false;
        }
        let is_awaited = !self.list.is_empty() && self.awaited_us().is_some_and(|awaited_us| awaited_us <= now_us);
        is_awaited
            || self.list.bytes() >= LAZY_WRITE_BYTES
            || self.list.body_at().is_some()
            || self.clocks.due_us().is_some_and(|due_us| due_us <= now_us)
    }

    /// Takes messages off the front of the list that were settled before they were written.
    fn pass_over_unwritten(&mut self) {
        while let Some(&Entry::Unwritten { settled_behind }) = self.list.front() {
            self.list.pop();
            self.tickets.pass_over(settled_behind);
        }
        // Those among them that were the first of the list have left it when they were settled.
        if self.tickets.has_passed() {
            self.complete_tickets();
        }
    }

    /// Retires the oldest segments if nothing of them is alive, and begins to move one where too much is dead. All that is in
    /// groups is durable.
    fn reclaim(&mut self) {
        while let Some((number, first)) = self.segments.first() {
            let is_moving = self.mover.as_ref().is_some_and(|mover| !mover.can_stop());
            let is_settled = first.messages == 0 && first.settled_by <= self.tickets.encoded();
            let is_last = self.writer.last_segment() == Some(number);
            let is_read = self.fetcher.is_reading(number);
            if !is_settled || is_last || is_moving || is_read || self.is_within_commit {
                break;
            }
            self.mover = None;
            self.segments.retire_first();
            self.writer.retire_before(SegmentNumber(number.0 + 1));
        }
        match &self.mover {
            Some(mover) if mover.is_done() => self.end_moving(),
            Some(_) => {}
            None => self.begin_moving(),
        }
    }

    fn begin_moving(&mut self) {
        let is_wasteful = self.segments.len() > SEGMENTS_UNMOVED && self.log_bytes() > 2 * self.live_bytes();
        let is_within = self.is_within_commit || self.list.body_at().is_some();
        let Some((number, first)) = self.segments.first().filter(|_| is_wasteful && !is_within) else { return };
        if first.messages > 0
            && self.unmovable != Some(number)
            && let Some(groups) = self.segments.groups_of_first()
        {
            let chain = self.writer.chain();
            self.mover = Mover::new(chain, number, groups, self.writer.segments());
        }
    }

    /// All of a segment was gone through. What is alive of it cannot be read.
    fn end_moving(&mut self) {
        let Some(mover) = self.mover.take() else { return };
        let left = self.segments.first().filter(|(number, _)| *number == mover.segment());
        if left.is_some_and(|(_, first)| first.messages > 0) {
            self.unmovable = Some(mover.segment());
            self.damage_found += 1;
            self.tell_lost(mover.groups());
        }
    }

    fn complete_tickets(&mut self) {
        if let Some(ticket) = self.tickets.complete() {
            self.event = Some(MessageLogEvent::Durable(ticket));
        }
    }
}

/// Messages are settled before they are written.
#[inline]
fn take_unwritten<M: LoggedMessage>(
    list: &mut PendingList<M>,
    tickets: &mut Tickets,
    run: PendingRun,
    settled_behind: u64,
) {
    for entry in run.entry..run.entry + run.count {
        if entry != list.first() {
            if let Some(message) = list.take_unwritten(entry, settled_behind) {
                list.subtract(message.bytes());
            }
            continue;
        }
        // Nothing before it waits to be written.
        match list.pop() {
            Some(Entry::Message { message, .. }) => {
                list.subtract(message.bytes());
                tickets.pass_over(settled_behind);
            }
            Some(Entry::Unwritten { settled_behind }) => tickets.pass_over(settled_behind),
            _ => unreachable!("the entry of a message"),
        }
    }
}
