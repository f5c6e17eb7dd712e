//! The connection table of a shard: slots, whose turn it is to be read, and timers.
//!
//! Enters: connections and the instants at which they must be looked at.  Leaves: slots that are due for a turn or whose timer expired.
//! Owns:   every connection of the shard, the free slots, the list of turns, the timers.

use crate::connection::{Connection, Phase};
use crate::limits::FAREWELL;
use crate::timers::Timers;
use broker::Slot;
use std::time::Instant;

/// The connections of one shard by slot.
#[derive(Default)]
pub(crate) struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<Slot>,
    serial: u32,
    /// Connections to read in the next turns, each at most once (`Connection::queued`).
    ready: Vec<Slot>,
    /// The capacity of the list of turns before, for the next one.
    spare: Vec<Slot>,
    timers: Timers,
}

impl Connections {
    /// The slot that the next connection gets.
    pub fn next_slot(&self) -> Slot {
        self.free.last().copied().unwrap_or(self.slots.len() as Slot)
    }

    /// Puts a connection into the next slot, with a timer for its deadline.
    pub fn insert(&mut self, mut connection: Box<Connection>) -> Slot {
        let slot = self.next_slot();
        self.free.pop();
        self.serial = self.serial.wrapping_add(1);
        connection.serial = self.serial;
        let deadline = connection.deadline;
        let index = slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(connection);
        self.set_timer(slot, deadline);
        slot
    }

    /// Takes a connection out; its slot is free.
    pub fn remove(&mut self, slot: Slot) -> Option<Box<Connection>> {
        let connection = self.slots.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(connection)
    }

    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&Connection> {
        self.slots.get(slot as usize)?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Every slot that was ever in use.
    pub fn slots(&self) -> std::ops::Range<Slot> {
        0..self.slots.len() as Slot
    }

    /// Gives a connection a turn, unless it is queued for one already.
    pub fn enqueue(&mut self, slot: Slot) {
        if let Some(connection) = self.get_mut(slot)
            && !std::mem::replace(&mut connection.queued, true)
        {
            self.ready.push(slot);
        }
    }

    /// Whether any connection is queued for a turn.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the list of turns; connections that are queued from now on wait for the next one.
    pub fn start_turns(&mut self) -> Vec<Slot> {
        std::mem::replace(&mut self.ready, std::mem::take(&mut self.spare))
    }

    /// Starts the turn of a connection of the list. False if it is gone.
    pub fn start_turn(&mut self, slot: Slot) -> bool {
        self.get_mut(slot).map(|connection| connection.queued = false).is_some()
    }

    /// Gives the list of turns back, for its capacity.
    pub fn finish_turns(&mut self, mut turns: Vec<Slot>) {
        turns.clear();
        self.spare = turns;
    }

    /// Sets the timer of a connection, which replaces the one set before.
    pub fn set_timer(&mut self, slot: Slot, at: Instant) {
        if let Some(Some(connection)) = self.slots.get_mut(slot as usize) {
            connection.timer_at = Some(at);
            self.timers.set(at, slot, connection.serial);
        }
    }

    /// A phase begins that must be over soon.
    pub fn limit_phase(&mut self, slot: Slot, phase: Phase, now: Instant) {
        if let Some(connection) = self.get_mut(slot) {
            connection.phase = phase;
            connection.deadline = now + FAREWELL;
            self.set_timer(slot, now + FAREWELL);
        }
    }

    /// The next connection whose timer has expired.
    pub fn next_expired(&mut self, now: Instant) -> Option<Slot> {
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
