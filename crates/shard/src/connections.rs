//! The connection table of a shard: slots, the list of connections that wait for a turn, and timers.

use crate::closed_traffic::ClosedTraffic;
use crate::connection::{Connection, ConnectionChanges, ConnectionPhase};
use crate::limits::CLOSE_TIMEOUT;
use crate::timers::ConnectionTimers;
use broker::ConnectionSlot;
use session::BodyRoom;
use slab::Pool;
use std::time::{Duration, Instant};

/// The connections of one shard by slot.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<ConnectionSlot>,
    serial: u32,
    /// Connections that wait for a turn, each at most once (`Connection::is_queued`).
    ready: Vec<ConnectionSlot>,
    /// Those of them that wait until the disk has taken what they have published.
    held: Vec<ConnectionSlot>,
    /// The previous list of turns, kept for its capacity.
    spare: Vec<ConnectionSlot>,
    timers: ConnectionTimers,
    /// Memory of all connections for bodies in which nothing has arrived.
    body_room: BodyRoom,
    /// By slot and serial number.
    pub changes: ConnectionChanges,
    /// Of those that are gone.
    pub closed_traffic: ClosedTraffic,
}

impl Connections {
    /// The slot that the next connection gets.
    pub fn next_slot(&self) -> ConnectionSlot {
        self.free.last().copied().unwrap_or(ConnectionSlot::new(self.slots.len() as u32))
    }

    /// Puts a connection into the next slot, with a timer for its deadline.
    pub fn insert(&mut self, mut connection: Box<Connection>) -> ConnectionSlot {
        let slot = self.next_slot();
        self.free.pop();
        self.serial = self.serial.wrapping_add(1);
        connection.serial = self.serial;
        let deadline = connection.deadline;
        let index = slot.index();
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.changes.note((slot, connection.serial));
        self.slots[index] = Some(connection);
        self.set_timer(slot, deadline);
        slot
    }

    /// Takes a connection out; its slot is free.
    pub fn remove(&mut self, slot: ConnectionSlot) -> Option<Box<Connection>> {
        let connection = self.slots.get_mut(slot.index())?.take()?;
        self.replace_room(connection.body_room, BodyRoom::default());
        self.changes.note_gone((slot, connection.serial));
        self.free.push(slot);
        Some(connection)
    }

    #[inline]
    pub fn get(&self, slot: ConnectionSlot) -> Option<&Connection> {
        self.slots.get(slot.index())?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, slot: ConnectionSlot) -> Option<&mut Connection> {
        self.slots.get_mut(slot.index())?.as_deref_mut()
    }

    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Slots that were ever in use.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// A connection has taken so much of the shard's time.
    pub fn add_work(&mut self, slot: ConnectionSlot, worked: Duration) {
        if let Some(connection) = self.get_mut(slot) {
            connection.time.worked += worked;
        }
    }

    /// A connection has changed: whoever knew it as it was is to be told.
    #[inline]
    pub fn note_change(&mut self, slot: ConnectionSlot) {
        if let Some((connection, changes)) = self.get_with_changes(slot) {
            connection.note_change(slot, changes);
        }
    }

    /// Every slot that was ever in use.
    pub fn slots(&self) -> impl Iterator<Item = ConnectionSlot> + use<> {
        (0..self.slots.len() as u32).map(ConnectionSlot::new)
    }

    /// Gives a connection a turn, unless it is queued for one already.
    pub fn enqueue(&mut self, slot: ConnectionSlot) {
        if let Some(connection) = self.get_mut(slot)
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.ready.push(slot);
        }
    }

    /// Whether any connection is queued for a turn, and not held for the disk.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether any is held for the disk.
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// A connection whose turn it is has none before the disk has room.
    pub fn hold(&mut self, slot: ConnectionSlot) {
        if let Some(connection) = self.get_mut(slot) {
            connection.has_unparsed = true;
        }
        self.held.push(slot);
    }

    /// The disk has room: those that were held have the first turns, as they have waited longest.
    pub fn release_held(&mut self) {
        self.ready.splice(0..0, self.held.drain(..));
    }

    /// Takes the list of turns; connections that are queued from now on wait for the next one.
    pub fn start_turns(&mut self) -> Vec<ConnectionSlot> {
        std::mem::replace(&mut self.ready, std::mem::take(&mut self.spare))
    }

    /// Starts the turn of a connection of the list. False if it is gone.
    pub fn start_turn(&mut self, slot: ConnectionSlot) -> bool {
        self.get_mut(slot).map(|connection| connection.is_queued = false).is_some()
    }

    /// These turns have not begun: they are the first of the next ones.
    pub fn postpone_turns(&mut self, turns: &[ConnectionSlot]) {
        self.ready.splice(0..0, turns.iter().copied());
    }

    /// Gives the list of turns back, for its capacity.
    pub fn finish_turns(&mut self, mut turns: Vec<ConnectionSlot>) {
        turns.clear();
        self.spare = turns;
    }

    /// Notes what a connection has reserved for bodies, at the end of its turn.
    #[inline]
    pub fn note_body_room(&mut self, slot: ConnectionSlot) {
        if let Some(Some(connection)) = self.slots.get_mut(slot.index()) {
            let room = connection.inbound.body_room();
            let before = std::mem::replace(&mut connection.body_room, room);
            connection.note_change(slot, &mut self.changes);
            self.replace_room(before, room);
        }
    }

    /// A connection, and where its changes are noted.
    #[inline]
    pub fn get_with_changes(&mut self, slot: ConnectionSlot) -> Option<(&mut Connection, &mut ConnectionChanges)> {
        let connection = self.slots.get_mut(slot.index())?.as_deref_mut()?;
        Some((connection, &mut self.changes))
    }

    #[inline]
    fn replace_room(&mut self, before: BodyRoom, after: BodyRoom) {
        let all = &mut self.body_room;
        all.spare_bytes = all.spare_bytes - before.spare_bytes + after.spare_bytes;
        all.untouched_bytes = all.untouched_bytes - before.untouched_bytes + after.untouched_bytes;
    }

    /// Memory of all connections for bodies in which nothing has arrived.
    pub fn body_room(&self) -> BodyRoom {
        self.body_room
    }

    /// Gives back what memory for bodies was touched before and where nothing has arrived.
    pub fn give_back_room(&mut self, pool: &Pool) {
        let is_given = |room: BodyRoom| room.spare_bytes > room.untouched_bytes;
        if !is_given(self.body_room) {
            return;
        }
        for slot in self.slots() {
            if let Some(Some(connection)) = self.slots.get_mut(slot.index())
                && is_given(connection.body_room)
            {
                connection.inbound.give_back_room(pool);
                self.note_body_room(slot);
            }
        }
    }

    /// Sets the timer of a connection, which replaces the one set before.
    pub fn set_timer(&mut self, slot: ConnectionSlot, at: Instant) {
        if let Some(Some(connection)) = self.slots.get_mut(slot.index()) {
            connection.timer_at = Some(at);
            self.timers.set(at, slot, connection.serial);
        }
    }

    /// Enters a phase that must be over within [`CLOSE_TIMEOUT`].
    pub fn enter_closing_phase(&mut self, slot: ConnectionSlot, phase: ConnectionPhase, now: Instant) {
        if let Some(connection) = self.get_mut(slot) {
            connection.phase = phase;
            connection.deadline = now + CLOSE_TIMEOUT;
            self.note_change(slot);
            self.set_timer(slot, now + CLOSE_TIMEOUT);
        }
    }

    /// The next connection whose timer has expired.
    pub fn next_expired(&mut self, now: Instant) -> Option<ConnectionSlot> {
        while let Some((at, slot, serial)) = self.timers.next_due(now) {
            if let Some(connection) = self.get_mut(slot)
                && connection.serial == serial
                && connection.timer_at == Some(at)
            {
                connection.timer_at = None;
                return Some(slot);
            }
        }
        None
    }

    /// When the next timer expires at the earliest.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }
}

#[cfg(test)]
mod tests {
    use super::Connections;
    use crate::connection::Connection;
    use crate::test_clock::some_instant;
    use broker::ConnectionSlot;
    use link::sim::{SimOptions, pair};
    use session::{Inbound, SessionLimits};
    use std::time::{Duration, Instant};

    fn connection(deadline: Instant) -> Box<Connection> {
        let (_near, far, _cable) = pair(&SimOptions::faultless());
        Box::new(Connection::new(Box::new(far), Inbound::client(&SessionLimits::default()), deadline, deadline))
    }

    #[test]
    fn slots_are_reused_with_another_serial_number() {
        let now = some_instant();
        let mut connections = Connections::default();
        let [zero, one, two] = [0, 1, 2].map(ConnectionSlot::new);
        assert_eq!([0, 1].map(|_| connections.insert(connection(now))), [zero, one]);
        let first = connections.remove(zero).expect("it is there");
        assert!(
            connections.remove(zero).is_none()
                && connections.get(zero).is_none()
                && connections.get_mut(zero).is_none()
        );
        assert_eq!((connections.len(), connections.next_slot()), (1, zero));
        assert!(connections.slots().eq([zero, one]));
        assert_eq!(connections.insert(connection(now)), zero);
        assert_ne!(connections.get(zero).expect("it is there").serial, first.serial);
        assert_eq!((connections.len(), connections.next_slot()), (2, two));
    }

    #[test]
    fn a_connection_has_one_turn_however_often_it_is_enqueued() {
        let now = some_instant();
        let mut connections = Connections::default();
        let [one, gone] = [0, 1].map(|_| connections.insert(connection(now)));
        [one, gone, one, ConnectionSlot::new(7)].into_iter().for_each(|slot| connections.enqueue(slot));
        assert!(connections.has_ready());
        let turns = connections.start_turns();
        assert_eq!(turns, [one, gone]);
        connections.remove(gone);
        assert!(connections.start_turn(one) && !connections.start_turn(gone));
        assert!(!connections.has_ready());
        connections.enqueue(one);
        connections.finish_turns(turns);
        assert_eq!(connections.start_turns(), [one], "in its turn it was enqueued for the next");
    }

    #[test]
    fn connections_that_are_held_keep_their_turns_and_are_first_when_they_are_released() {
        let now = some_instant();
        let mut connections = Connections::default();
        let [one, two, three] = [0, 1, 2].map(|_| connections.insert(connection(now)));
        [one, two].into_iter().for_each(|slot| connections.enqueue(slot));
        let turns = connections.start_turns();
        turns.iter().for_each(|&slot| connections.hold(slot));
        connections.finish_turns(turns);
        assert_eq!((connections.has_ready(), connections.has_held()), (false, true));
        [one, three].into_iter().for_each(|slot| connections.enqueue(slot));
        connections.release_held();
        assert!(!connections.has_held());
        assert_eq!(connections.start_turns(), [one, two, three]);
    }

    #[test]
    fn only_the_last_timer_of_a_connection_that_is_there_expires() {
        let now = some_instant();
        let [soon, later] = [1, 2].map(|seconds| now + Duration::from_secs(seconds));
        let mut connections = Connections::default();
        let [one, gone] = [0, 1].map(|_| connections.insert(connection(soon)));
        assert_eq!((connections.next_timer(), connections.next_expired(now)), (Some(soon), None));
        connections.set_timer(one, later);
        connections.remove(gone);
        let other = connections.insert(connection(later));
        assert_eq!((gone, connections.next_expired(soon)), (other, None), "replaced, gone");
        let mut expired = [connections.next_expired(later), connections.next_expired(later)];
        expired.sort();
        assert_eq!((expired, connections.next_expired(later)), ([Some(one), Some(other)], None));
        assert_eq!(connections.next_timer(), None);
    }
}
