//! The connections of this shard: their sessions, the responses they await, and whether they may be read.

use crate::channel::not_open;
use crate::deferred_work::{DeferredLists, DeferredWork};
use crate::effects::Effects;
use crate::fence::FenceId;
use crate::ids::{ChannelKey, ConnectionSlot, SessionIdentity};
use crate::limits::{NOTICE_WORK, PLACES_PER_WORK};
use crate::publisher_release::{PublisherRelease, ReleaseCause};
use crate::session_state::{DefinitionBatch, PendingCommand, ReadControl, SessionLogin, SessionState};
use catalog::{QueueId, Refusal, SessionId, ShardId, VhostId};
use queues::{Requester, WorkBudget};
use std::collections::{BTreeSet, VecDeque};
use wire::ChannelNumber;
use wire::ShortStr;
use wire::method::{Method, connection};

/// The sessions of this shard, by the slots of their connections.
pub(crate) struct Sessions {
    shard: ShardId,
    table: Vec<Option<Box<SessionState>>>,
    /// Work that the turns of connections have left undone.
    pub deferred: DeferredLists,
    /// The broker is over its memory limit.
    memory_alarm: bool,
    /// The disk of the store is nearly full.
    disk_alarm: bool,
    /// Virtual hosts that have reached their quotas.
    full_vhosts: BTreeSet<VhostId>,
    /// The place of the table at which sessions are next told of a change of these.
    next_review: usize,
    /// Places whose sessions are yet to be told.
    to_review: usize,
    /// Publishers that queues let continue.
    releases: VecDeque<PublisherRelease>,
    last_request: u32,
    pub opened: u64,
    pub closed: u64,
}

impl Sessions {
    pub fn new(shard: ShardId) -> Self {
        Sessions {
            shard,
            table: Vec::new(),
            deferred: DeferredLists::default(),
            memory_alarm: false,
            disk_alarm: false,
            full_vhosts: BTreeSet::new(),
            next_review: 0,
            to_review: 0,
            releases: VecDeque::new(),
            last_request: 0,
            opened: 0,
            closed: 0,
        }
    }

    #[inline]
    pub fn get(&self, slot: ConnectionSlot) -> Option<&SessionState> {
        self.table.get(slot.index())?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, slot: ConnectionSlot) -> Option<&mut SessionState> {
        self.table.get_mut(slot.index())?.as_deref_mut()
    }

    pub fn len(&self) -> usize {
        self.table.iter().flatten().count()
    }

    /// A connection has logged in and opened its virtual host.
    pub fn open(&mut self, slot: ConnectionSlot, login: SessionLogin, vhost_is_full: bool) {
        self.insert(slot, Box::new(SessionState::new(login, vhost_is_full)));
        self.opened += 1;
    }

    fn insert(&mut self, slot: ConnectionSlot, session: Box<SessionState>) {
        let index = slot.index();
        if self.table.len() <= index {
            if self.to_review > 0 {
                self.to_review += index + 1 - self.table.len();
            }
            self.table.resize_with(index + 1, || None);
        }
        assert!(self.table[index].is_none(), "the slot's earlier connection was closed");
        self.table[index] = Some(session);
    }

    pub fn close(&mut self, slot: ConnectionSlot) -> Option<Box<SessionState>> {
        let session = self.table.get_mut(slot.index())?.take()?;
        self.closed += 1;
        Some(session)
    }

    /// Takes the session of a connection that leaves this shard: it goes on elsewhere.
    pub fn depart(&mut self, slot: ConnectionSlot) -> Option<Box<SessionState>> {
        self.table.get_mut(slot.index())?.take()
    }

    /// A session comes from another shard.
    pub fn arrive(&mut self, slot: ConnectionSlot, session: Box<SessionState>) {
        self.insert(slot, session);
    }

    /// Another shard has answered a fence, whose connection may be gone.
    pub fn note_fence(&mut self, fence: FenceId, from: ShardId, version: u64) {
        let session = self.get_mut(fence.session.slot).filter(|session| session.identity.session == fence.session);
        if let Some(asked) = session.and_then(|session| session.fence.as_mut()) {
            asked.answer(fence.number, from, version);
        }
    }

    /// A session, which is new, is of a link to another broker.
    pub fn mark_link(&mut self, slot: ConnectionSlot, link: u32) {
        let Some(Some(session)) = self.table.get_mut(slot.index()) else { return };
        (session.is_link, session.link) = (true, Some(link));
        if session.deferred.is_none() {
            session.deferred = self.deferred.attach(link, slot);
        }
    }

    /// Adds a channel to its session. Returns whether there is such a session.
    pub fn attach_channel(&mut self, slot: ConnectionSlot, number: ChannelNumber, key: ChannelKey) -> bool {
        let Some(session) = self.get_mut(slot) else { return false };
        let earlier = session.channels.insert(number, key);
        assert!(earlier.is_none(), "the session opens a channel once");
        true
    }

    /// Removes a channel from its session, with the batch of definitions that it left.
    pub fn detach_channel(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
    ) -> Option<(ChannelKey, Option<Box<DefinitionBatch>>)> {
        let session = self.get_mut(slot)?;
        let key = session.channels.remove(number)?;
        if session.pending.as_ref().is_some_and(|pending| pending.channel == number) {
            session.pending = None;
        }
        Some((key, session.definition_batch.take_if(|batch| batch.channel == number)))
    }

    #[inline]
    pub fn channel_key(&self, slot: ConnectionSlot, number: ChannelNumber) -> Option<ChannelKey> {
        self.get(slot)?.channel(number)
    }

    /// Whose session it is.
    pub fn identity(&self, slot: ConnectionSlot) -> Result<SessionIdentity, Refusal> {
        self.get(slot).map(|session| session.identity).ok_or_else(not_open)
    }

    /// The session's id; that of nobody once the connection is gone.
    pub fn session_id(&self, slot: ConnectionSlot) -> SessionId {
        let nobody = SessionId { shard: self.shard, slot, serial: 0 };
        self.get(slot).map_or(nobody, |session| session.identity.session)
    }

    /// A number for a request to another shard; zero is nobody's.
    pub fn next_request(&mut self) -> u32 {
        self.last_request = self.last_request.wrapping_add(1).max(1);
        self.last_request
    }

    /// Holds a session's later commands back until the response to this one has come.
    pub fn await_response(&mut self, slot: ConnectionSlot, command: PendingCommand) {
        if let Some(session) = self.get_mut(slot) {
            assert!(session.pending.is_none(), "a connection waits for one response at a time");
            session.pending = Some(command);
        }
    }

    /// The command that waits for the response to a request, unless its session or channel is gone.
    pub fn pending(&mut self, requester: Requester) -> Option<&mut PendingCommand> {
        let session = self.get_mut(requester.session.slot)?;
        let is_same = session.identity.session == requester.session;
        session.pending.as_mut().filter(|pending| is_same && pending.request == requester.request)
    }

    /// Takes that command: its response is here.
    pub fn take_pending(&mut self, requester: Requester) -> Option<PendingCommand> {
        self.pending(requester)?;
        self.get_mut(requester.session.slot)?.pending.take()
    }

    /// Leaves work of a connection for later turns. The connection is not read until it is done.
    pub fn defer(&mut self, slot: ConnectionSlot, work: DeferredWork) {
        let Some(Some(session)) = self.table.get_mut(slot.index()) else {
            let key = self.deferred.open(None);
            return self.deferred.push(key, work);
        };
        let key = *session.deferred.get_or_insert_with(|| self.deferred.open(Some(slot)));
        self.deferred.push(key, work);
    }

    /// Leaves a publish of a connection, or the rest of one. One of a list whose work is being done stays there, before the rest of
    /// that, whether or not its connection is still there.
    pub fn defer_publish(&mut self, slot: ConnectionSlot, work: DeferredWork) {
        match self.deferred.running() {
            Some(key) => self.deferred.push(key, work),
            None => self.defer(slot, work),
        }
    }

    /// The deferred work of a connection is done: it continues.
    pub fn end_deferral<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        if let Some(session) = self.get_mut(slot) {
            session.deferred = None;
            fx.resume(slot);
        }
    }

    /// Whether the connection's next command may be read.
    #[inline]
    pub fn may_read(&self, slot: ConnectionSlot) -> bool {
        match self.table.get(slot.index()) {
            Some(Some(session)) => {
                session.pending.is_none()
                    && session.deferred.is_none()
                    && session.blocked_by.is_none()
                    && session.throttled_by.is_none()
                    && !session.awaits_memory
                    && !((self.memory_alarm || self.disk_alarm || session.vhost_is_full) && session.has_published)
            }
            _ => true,
        }
    }

    /// The same, as commands answer it.
    #[inline]
    pub fn read_control(&self, slot: ConnectionSlot) -> ReadControl {
        if self.may_read(slot) { ReadControl::Continue } else { ReadControl::Pause }
    }

    /// Whether an alarm is on, or a virtual host is full: publishers may have to wait.
    #[inline]
    pub fn is_alarmed(&self) -> bool {
        self.memory_alarm || self.disk_alarm || !self.full_vhosts.is_empty()
    }

    pub fn memory_alarm(&self) -> bool {
        self.memory_alarm
    }

    /// The broker is over its memory limit, or below it again. [`send_notices`](Self::send_notices) tells the sessions.
    pub fn set_memory_alarm(&mut self, on: bool) {
        if std::mem::replace(&mut self.memory_alarm, on) != on {
            self.review_all();
        }
    }

    pub fn disk_alarm(&self) -> bool {
        self.disk_alarm
    }

    /// The disk of the store is nearly full, or has space again. [`send_notices`](Self::send_notices) tells the sessions.
    pub fn set_disk_alarm(&mut self, on: bool) {
        if std::mem::replace(&mut self.disk_alarm, on) != on {
            self.review_all();
        }
    }

    /// A virtual host has reached its quota, or is below it again. [`send_notices`](Self::send_notices) tells its sessions.
    pub fn set_vhost_full(&mut self, vhost: VhostId, full: bool) {
        let has_changed = if full { self.full_vhosts.insert(vhost) } else { self.full_vhosts.remove(&vhost) };
        if has_changed {
            self.review_all();
        }
    }

    /// All sessions are to be told of a change. A review that is under way goes round once more from where it is, so that changes
    /// that follow one another keep nobody waiting.
    fn review_all(&mut self) {
        self.to_review = self.table.len();
    }

    /// Publishers that wait for a queue continue. [`send_notices`](Self::send_notices) tells them.
    pub fn release(&mut self, release: PublisherRelease) {
        if !release.slots.is_empty() {
            self.releases.push_back(release);
        }
    }

    /// Whether sessions are yet to be told that they must wait, or continue.
    #[inline]
    pub fn has_notices(&self) -> bool {
        self.to_review > 0 || !self.releases.is_empty()
    }

    /// Tells sessions that they must wait, or continue, as far as the budget of the turn allows.
    #[inline]
    pub fn send_notices<E: Effects>(&mut self, work: &mut WorkBudget, fx: &mut E) {
        if self.has_notices() {
            self.send_some_notices(work, fx);
        }
    }

    #[cold]
    fn send_some_notices<E: Effects>(&mut self, work: &mut WorkBudget, fx: &mut E) {
        while !work.is_spent()
            && let Some(release) = self.releases.front_mut()
        {
            let (queue, cause) = (release.queue, release.cause);
            match release.slots.pop_first() {
                Some(slot) => work.draw(self.release_one(slot, queue, cause, fx)),
                None => _ = self.releases.pop_front(),
            }
        }
        let mut free_places = 0;
        while self.to_review > 0 && !work.is_spent() {
            self.to_review -= 1;
            let place = if self.next_review < self.table.len() { self.next_review } else { 0 };
            self.next_review = place + 1;
            match self.table.get_mut(place) {
                Some(Some(session)) => {
                    session.vhost_is_full = self.full_vhosts.contains(&session.identity.vhost);
                    session.awaits_memory &= self.memory_alarm;
                    work.draw(self.review_one(ConnectionSlot::new(place as u32), fx));
                }
                _ => {
                    free_places += 1;
                    if free_places % PLACES_PER_WORK == 0 {
                        work.draw(1);
                    }
                }
            }
        }
    }

    /// Tells a session what has changed. Returns the work of that.
    fn review_one<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) -> usize {
        let was_told = self.get(slot).is_some_and(|session| session.blocked_notified);
        let work = self.notify_blocked(slot, fx);
        if !was_told && self.get(slot).is_some_and(|session| session.has_published) && self.may_read(slot) {
            // It may have had to wait before it was told, and is not to be told any more.
            fx.resume(slot);
        }
        work
    }

    /// A queue lets a publisher continue, if it still waits for that. Returns the work of that.
    fn release_one<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        queue: QueueId,
        cause: ReleaseCause,
        fx: &mut E,
    ) -> usize {
        let Some(session) = self.get_mut(slot) else { return 1 };
        match cause {
            ReleaseCause::Drained if session.blocked_by == Some(queue) => {
                session.blocked_by = None;
                self.notify_blocked(slot, fx)
            }
            ReleaseCause::CaughtUp if session.throttled_by == Some(queue) => {
                self.end_throttle(slot, fx);
                1
            }
            ReleaseCause::Drained | ReleaseCause::CaughtUp => 1,
        }
    }

    /// Holds a connection back until the memory alarm is over: its next command takes memory.
    pub fn await_memory<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        assert!(self.memory_alarm, "only the end of the alarm lets it continue");
        if let Some(session) = self.get_mut(slot) {
            session.awaits_memory = true;
            let _one = self.notify_blocked(slot, fx);
        }
    }

    /// Whether a connection is not read because of the memory alarm.
    pub fn is_blocked_by_memory(&self, slot: ConnectionSlot) -> bool {
        self.memory_alarm && self.get(slot).is_some_and(|session| session.has_published || session.awaits_memory)
    }

    /// Sends `connection.blocked` or `connection.unblocked` if that has changed. Returns the work of that.
    pub fn notify_blocked<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) -> usize {
        let (memory_alarm, disk_alarm) = (self.memory_alarm, self.disk_alarm);
        let Some(session) = self.get_mut(slot) else { return 1 };
        let reason = session.blocked_reason(memory_alarm, disk_alarm);
        if reason.is_some() == session.blocked_notified {
            return 1;
        }
        session.blocked_notified = reason.is_some();
        let is_told = session.capabilities.connection_blocked;
        if is_told {
            let method = match reason {
                Some(reason) => Method::ConnectionBlocked(connection::Blocked { reason: ShortStr::literal(reason) }),
                None => Method::ConnectionUnblocked(connection::Unblocked {}),
            };
            fx.reply(slot, ChannelNumber::CONNECTION, method);
        }
        if reason.is_none() {
            fx.resume(slot);
        }
        if is_told { NOTICE_WORK } else { 1 }
    }

    /// A throttled publisher continues.
    pub fn end_throttle<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        if let Some(session) = self.get_mut(slot)
            && session.throttled_by.take().is_some()
        {
            fx.resume(slot);
        }
    }

    /// Whether a connection is blocked and has queues of its own: if its client is gone, nobody can empty them, and it would
    /// stay blocked for ever.
    pub fn is_blocked_by_own_queues(&self, slot: ConnectionSlot) -> bool {
        self.get(slot).is_some_and(|session| {
            session.owns_queues && (session.blocked_by.is_some() || self.is_blocked_by_memory(slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{PublisherRelease, ReleaseCause, Sessions, WorkBudget};
    use crate::ids::ConnectionSlot;
    use crate::limits::NOTICE_WORK;
    use crate::session_state::{ClientCapabilities, PendingCommand, PendingReply, SessionLogin};
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, SessionId, ShardId, UserId, VhostId};
    use queues::Requester;
    use std::collections::BTreeSet;
    use wire::ChannelNumber;

    fn sessions(connections: u32) -> Sessions {
        let mut sessions = Sessions::new(ShardId(0));
        for number in 0..connections {
            let slot = ConnectionSlot::new(number);
            let session = SessionId { shard: ShardId(0), slot, serial: 9 };
            let capabilities = ClientCapabilities { consumer_cancel_notify: true, connection_blocked: number != 2 };
            sessions.open(slot, SessionLogin { session, user: UserId(0), vhost: VhostId(number), capabilities }, false);
        }
        sessions
    }

    #[test]
    fn publishers_are_notified_when_they_are_blocked_and_when_they_continue() {
        let mut sessions = sessions(4);
        let (mut fx, mut work) = (RecordedEffects::default(), WorkBudget::new(1_000));
        for slot in [0, 2].map(ConnectionSlot::new) {
            sessions.get_mut(slot).expect("open").has_published = true;
        }
        for _ in 0..2 {
            sessions.set_memory_alarm(true);
            sessions.send_notices(&mut work, &mut fx);
        }
        assert_eq!(fx.take(), "0: connection.blocked");
        assert_eq!([0, 1, 2].map(|slot| sessions.may_read(ConnectionSlot::new(slot))), [false, true, false]);
        sessions.set_vhost_full(VhostId(0), true);
        sessions.set_memory_alarm(false);
        sessions.send_notices(&mut work, &mut fx);
        assert_eq!(fx.take(), "2: resume", "the virtual host of 0 is full");
        sessions.set_vhost_full(VhostId(0), false);
        sessions.send_notices(&mut work, &mut fx);
        assert_eq!(fx.take(), "0: connection.unblocked | 0: resume | 2: resume");
        let queue = QueueId { index: 3, serial: 1 };
        sessions.get_mut(ConnectionSlot::new(1)).expect("open").blocked_by = Some(queue);
        let _one = sessions.notify_blocked(ConnectionSlot::new(1), &mut fx);
        let release = |sessions: &mut Sessions, fx: &mut RecordedEffects, queue| {
            let slots = [ConnectionSlot::new(1)].into();
            sessions.release(PublisherRelease { queue, cause: ReleaseCause::Drained, slots });
            sessions.send_notices(&mut WorkBudget::new(100), fx);
            assert!(!sessions.has_notices());
        };
        release(&mut sessions, &mut fx, QueueId { index: 4, serial: 1 });
        assert!(!sessions.may_read(ConnectionSlot::new(1)));
        release(&mut sessions, &mut fx, queue);
        assert_eq!(fx.take(), "1: connection.blocked | 1: connection.unblocked | 1: resume");
        assert!(sessions.may_read(ConnectionSlot::new(1)) && !sessions.is_alarmed());
    }

    /// Changes that follow one another before all sessions are told: each ends up as the last one wants it, and none waits for
    /// ever that has waited without being told.
    #[test]
    fn very_many_sessions_are_told_in_turns() {
        const SESSIONS: u32 = 300;
        let mut sessions = sessions(SESSIONS);
        let (mut fx, mut work) = (RecordedEffects::default(), WorkBudget::new(10 * NOTICE_WORK as u32));
        let slots = || (0..SESSIONS).map(ConnectionSlot::new);
        slots().for_each(|slot| sessions.get_mut(slot).expect("open").has_published = true);
        let mut turn = |sessions: &mut Sessions| {
            work.start_turn();
            sessions.send_notices(&mut work, &mut fx);
            assert!(work.most() < 11 * NOTICE_WORK as u64, "{} units", work.most());
            fx.take()
        };
        sessions.set_memory_alarm(true);
        assert!(slots().all(|slot| !sessions.may_read(slot)), "it holds at once");
        assert_eq!(turn(&mut sessions).matches("connection.blocked").count(), 10);
        // It is over, and those that were not told go on as well.
        sessions.set_memory_alarm(false);
        let mut sent = String::new();
        let mut turns = 0;
        while sessions.has_notices() {
            sent += &turn(&mut sessions);
            sent += " | ";
            turns += 1;
        }
        assert_eq!(sent.matches("connection.unblocked").count(), 10);
        assert!(slots().all(|slot| sent.contains(&format!("{}: resume", slot.index()))), "{sent}");
        assert!(turns >= 2, "{turns} turns");
        // Sessions that come meanwhile are told, too, and keep no other from being told.
        sessions.set_disk_alarm(true);
        let mut told = turn(&mut sessions);
        let slot = ConnectionSlot::new(SESSIONS);
        let session = SessionId { shard: ShardId(0), slot, serial: 9 };
        let capabilities = ClientCapabilities { consumer_cancel_notify: true, connection_blocked: true };
        sessions.open(slot, SessionLogin { session, user: UserId(0), vhost: VhostId(7), capabilities }, false);
        sessions.get_mut(slot).expect("open").has_published = true;
        while sessions.has_notices() {
            told += &turn(&mut sessions);
        }
        assert_eq!(told.matches("connection.blocked").count(), SESSIONS as usize, "all but one that cannot be told");
    }

    #[test]
    fn publishers_of_a_queue_that_has_drained_continue_in_turns() {
        let mut sessions = sessions(100);
        let (mut fx, mut work) = (RecordedEffects::default(), WorkBudget::new(10 * NOTICE_WORK as u32));
        let queue = QueueId { index: 3, serial: 1 };
        let slots: BTreeSet<_> = (0..100).map(ConnectionSlot::new).collect();
        for &slot in &slots {
            sessions.get_mut(slot).expect("open").blocked_by = Some(queue);
            let _one = sessions.notify_blocked(slot, &mut fx);
        }
        drop(fx.take());
        sessions.release(PublisherRelease { queue, cause: ReleaseCause::Drained, slots });
        let mut turns = 0;
        while sessions.has_notices() {
            work.start_turn();
            sessions.send_notices(&mut work, &mut fx);
            turns += 1;
        }
        assert_eq!(fx.take().matches("resume").count(), 100);
        assert!(turns >= 10 && work.most() < 11 * NOTICE_WORK as u64, "{turns} turns, {} units", work.most());
        assert!((0..100).map(ConnectionSlot::new).all(|slot| sessions.may_read(slot)));
    }

    #[test]
    fn a_response_finds_its_command_only_while_session_and_channel_are_there() {
        let mut sessions = sessions(1);
        let session = sessions.session_id(ConnectionSlot::new(0));
        let wait = |sessions: &mut Sessions| {
            let request = sessions.next_request();
            let command =
                PendingCommand { channel: ChannelNumber(5), method: (0, 0), request, reply: PendingReply::Commit };
            sessions.await_response(ConnectionSlot::new(0), command);
            Requester { session, channel: ChannelNumber(5), request }
        };
        let requester = wait(&mut sessions);
        let other = Requester { session: SessionId { serial: 8, ..session }, ..requester };
        assert!(!sessions.may_read(ConnectionSlot::new(0)) && sessions.take_pending(other).is_none());
        assert!(sessions.take_pending(requester).is_some() && sessions.take_pending(requester).is_none());
        let requester = wait(&mut sessions);
        let mut keys: slotmap::SlotMap<crate::ids::ChannelKey, ()> = slotmap::SlotMap::with_key();
        assert!(
            sessions.attach_channel(ConnectionSlot::new(0), ChannelNumber(5), keys.insert(()))
                && !sessions.attach_channel(ConnectionSlot::new(1), ChannelNumber(5), keys.insert(()))
        );
        assert!(
            sessions.detach_channel(ConnectionSlot::new(0), ChannelNumber(5)).is_some()
                && sessions.detach_channel(ConnectionSlot::new(0), ChannelNumber(5)).is_none()
        );
        assert!(sessions.take_pending(requester).is_none() && sessions.may_read(ConnectionSlot::new(0)));
        assert!(
            sessions.close(ConnectionSlot::new(0)).is_some()
                && sessions.close(ConnectionSlot::new(0)).is_none()
                && sessions.len() == 0
        );
    }
}
