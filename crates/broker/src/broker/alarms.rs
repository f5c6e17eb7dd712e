//! Alarms: memory, the disk or a virtual host is full, and publishers must wait.
//!
//! An alarm holds at once. Sessions are told as far as the budget of the turn allows, the others in turns of their own: each
//! that is told is another send.

use super::Broker;
use crate::effects::Effects;
use crate::ids::ConnectionSlot;
use catalog::VhostId;

impl Broker {
    /// The broker is over its memory limit, or below it again.
    pub fn set_memory_alarm<E: Effects>(&mut self, on: bool, fx: &mut E) {
        self.sessions.set_memory_alarm(on);
        self.send_notices(fx);
    }

    /// Dead letters that several queues would get wait from now on, or not any more: so much is used beyond the memory limit. They
    /// are routed all the same if messages leave the memory.
    pub fn hold_dead_letters(&mut self, on: bool) {
        let dispatcher = &mut self.data.dispatcher;
        let must_hold = on && !dispatcher.flow.is_paging();
        dispatcher.queues.housekeeping.dead_letters.set_holding(must_hold);
    }

    /// The store's disk is nearly full, or has space again: publishers are blocked, or continue.
    pub fn set_disk_alarm<E: Effects>(&mut self, on: bool, fx: &mut E) {
        if !on {
            // What the store refused meanwhile has raised the bytes beyond which it is asked.
            self.data.dispatcher.queues.housekeeping.paging.retry();
        }
        self.sessions.set_disk_alarm(on);
        self.send_notices(fx);
    }

    /// Whether the disk alarm is on.
    pub fn disk_alarm(&self) -> bool {
        self.sessions.disk_alarm()
    }

    /// Whether publishers are blocked because memory or the disk is low, or a virtual host is full.
    pub fn is_alarmed(&self) -> bool {
        self.sessions.is_alarmed()
    }

    /// Whether the memory alarm is on.
    pub fn memory_alarm(&self) -> bool {
        self.sessions.memory_alarm()
    }

    /// The virtual hosts with a quota: the bytes that wait in their queues here, and those that may wait in all of them.
    pub fn vhost_quotas(&self) -> impl Iterator<Item = (VhostId, u64, u64)> {
        self.data.dispatcher.queues.housekeeping.quotas.iter()
    }

    /// A virtual host has reached its quota, or is below it again: its publishers are blocked, or continue.
    pub fn set_vhost_full<E: Effects>(&mut self, vhost: VhostId, full: bool, fx: &mut E) {
        if self.data.dispatcher.queues.housekeeping.quotas.set_full(vhost, full) {
            self.sessions.set_vhost_full(vhost, full);
            self.send_notices(fx);
        }
    }

    /// Whether a virtual host has reached its quota.
    pub fn is_vhost_full(&self, vhost: VhostId) -> bool {
        self.data.dispatcher.queues.housekeeping.quotas.is_full(vhost)
    }

    /// Whether a connection is blocked and has queues of its own: if its client is gone, nobody can empty them.
    pub fn is_blocked_by_own_queues(&self, slot: ConnectionSlot) -> bool {
        self.sessions.is_blocked_by_own_queues(slot)
    }

    /// Tells sessions that they must wait, or continue, as far as the budget of the turn allows.
    pub(super) fn send_notices<E: Effects>(&mut self, fx: &mut E) {
        self.sessions.send_notices(&mut self.data.dispatcher.work, fx);
    }
}
