//! Ends of the broker: it loses its power, is killed, is asked to stop or loses a disk; then it starts again with what its disks
//! have, and all clients are gone.

use super::durable_settings::DurableSettings;
use super::live_damage::LiveDamage;
use super::survival::InterruptedCommit;
use super::{FeatureWorkload, ModelTime};
use crate::error_lines;
use crate::limits::{ENDING_ROUNDS_MAX, LEAVING_ROUNDS_MAX};
use crate::simulated_client::{ClientChannel, ClientRequest, ConnectionState, SimulatedClient};
use crate::world::SimulatedWorld;
use broker::limits::WORK_PER_TURN;
use simdisks::CrashKind;

/// Of a thousand crashes, how many are followed by another one before anybody connects.
const CRASH_AGAIN_PERMILLE: u32 = 150;
/// Rounds in which clients go on as if nothing had happened, once the broker closes their connections.
const UNAWARE_ROUNDS: u32 = 8;

/// Why a broker closes all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// It was asked to stop.
    Stop,
    /// A disk has failed.
    DiskFailure,
}

impl EndReason {
    /// What clients are told.
    pub fn text(self) -> &'static str {
        match self {
            EndReason::Stop => "CONNECTION_FORCED - broker is shutting down",
            EndReason::DiskFailure => "INTERNAL_ERROR - the broker's disk has failed",
        }
    }
}

/// Whether a client does not know that its broker ends.
fn is_unaware(client: &SimulatedClient) -> bool {
    client.state == ConnectionState::Open && !client.cut
}

impl FeatureWorkload {
    /// The broker may crash in the middle of everything. Returns whether it has.
    pub fn may_crash(&mut self, world: &mut SimulatedWorld) -> bool {
        let Some(durable) = self.settings.durable else { return false };
        let mut channels = world.clients.iter().flat_map(|client| &client.channels);
        let is_committing = channels.any(|channel| interrupted_commit(channel).is_some());
        let has_committed = std::mem::take(&mut self.model.has_committed);
        let commit_permille = if is_committing || has_committed { durable.commit_crash_permille } else { 0 };
        let crashes = world.chance.permille(durable.crash_permille + commit_permille);
        if crashes {
            self.end_broker(world, &durable);
        }
        crashes
    }

    /// The broker may crash after a rest.
    pub fn may_crash_at_rest(&mut self, world: &mut SimulatedWorld) {
        let Some(durable) = self.settings.durable else { return };
        if self.model.rested > 0 && world.chance.permille(durable.rest_crash_permille) {
            self.end_broker(world, &durable);
        }
    }

    fn end_broker(&mut self, world: &mut SimulatedWorld, durable: &DurableSettings) {
        if world.chance.permille(durable.stop_permille) {
            self.leave_broker(world, EndReason::Stop);
        } else {
            world.tally.crashes += 1;
            let kind = durable.draw_crash(&mut world.chance);
            self.restart_broker(world, kind, false);
        }
        let again = world.chance.permille(CRASH_AGAIN_PERMILLE);
        if again && !world.trace.has_failed() {
            self.end_broker(world, durable);
        }
    }

    /// The broker has ended because of a disk, if it has.
    pub fn check_disk_failure(&mut self, world: &mut SimulatedWorld) {
        let broker = &world.brokers[0];
        let Some(why) = broker.shared.disk_failure().filter(|_| self.ending.is_none()).map(str::to_owned) else {
            return;
        };
        if !broker.disks.as_ref().is_some_and(|disks| self.troubles.may_fail(disks)) {
            return world.trace.fail(format!("the broker ends, and no disk has failed: {why}"));
        }
        world.trace.note(|| format!("the broker ends: {why}"));
        world.tally.spill_failures += u64::from(self.troubles.is_spill_failing());
        self.leave_broker(world, EndReason::DiskFailure);
    }

    /// Whether a queue is closed, as a disk cannot read its messages. Clients are not asked what they make of it: the broker is
    /// killed at the end of the step.
    pub fn has_closed_queue(&self, world: &SimulatedWorld) -> bool {
        self.ending.is_none() && world.brokers[0].has_closed_queue()
    }

    /// A broker closes queues only where a disk cannot read their messages.
    fn check_why_queues_are_closed(&self, world: &mut SimulatedWorld) {
        let may_fail = world.brokers[0].disks.as_ref().is_some_and(|disks| self.troubles.may_fail(disks));
        if world.brokers[0].has_closed_queue() && !may_fail && !self.live_damage.is_remembered() {
            world.trace.fail("a queue is closed, and no disk has failed".to_owned());
        }
    }

    /// Kills a broker that has closed a queue.
    pub fn check_closed_queues(&mut self, world: &mut SimulatedWorld) {
        if !self.has_closed_queue(world) {
            return;
        }
        self.check_why_queues_are_closed(world);
        if world.trace.has_failed() {
            return;
        }
        world.trace.note(|| "a queue is closed".to_owned());
        world.tally.disk_failures += 1;
        world.tally.spill_failures += u64::from(self.troubles.is_spill_failing());
        self.restart_broker(world, CrashKind::Kill, false);
    }

    /// The broker closes all connections and ends by itself, and starts again. Nothing that is sent meanwhile is confirmed.
    fn leave_broker(&mut self, world: &mut SimulatedWorld, reason: EndReason) {
        (self.ending, world.is_ending) = (Some(reason), true);
        for client in &mut world.clients {
            client.release();
            // Who has not logged in is told nothing.
            client.cut |= client.state != ConnectionState::Open;
        }
        if reason == EndReason::Stop {
            world.brokers[0].drain(world.clock.now);
        }
        for shard in 0..world.brokers[0].shards.len() {
            world.brokers[0].wake(shard, |_| ());
            world.brokers[0].run_shard(shard, world.clock.now);
        }
        self.model.ended = self.model.tick();
        self.part_from_clients(world);
        self.check_why_queues_are_closed(world);
        if world.trace.has_failed() {
            return;
        }
        let mut order: Vec<usize> = (0..world.brokers[0].shards.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, world.chance.below(at as u64 + 1) as usize);
        }
        let took_us = world.brokers[0].finish(&order, world.clock.now);
        world.pass(took_us);
        // The disk may have failed meanwhile: status 1 all the same.
        let has_failed = world.brokers[0].shared.disk_failure().is_some();
        match (reason, has_failed) {
            (EndReason::Stop, false) => {
                world.tally.clean_stops += 1;
                // What one shard has sent to another may not have arrived, and what has no room is not written.
                if order.len() == 1 && !self.troubles.is_full() {
                    self.model.store_at_stop();
                }
            }
            _ => world.tally.disk_failures += 1,
        }
        let has_written = reason == EndReason::Stop && !has_failed && !self.troubles.is_full();
        self.restart_broker(world, CrashKind::Exit, has_written);
        (self.ending, self.model.ended, world.is_ending) = (None, ModelTime::MAX, false);
    }

    /// Clients learn that the broker ends, and go.
    fn part_from_clients(&mut self, world: &mut SimulatedWorld) {
        let mut left = LEAVING_ROUNDS_MAX;
        for round in 0..ENDING_ROUNDS_MAX {
            if world.trace.has_failed() {
                return;
            }
            if round < UNAWARE_ROUNDS {
                self.turn(world).act_unaware();
                world.clients.iter_mut().for_each(SimulatedClient::release);
            }
            world.advance(self);
            if round < UNAWARE_ROUNDS || world.clients.iter().any(is_unaware) {
                continue;
            }
            // The broker waits for the last of them for some time, and then ends all the same.
            left -= 1;
            if world.brokers[0].shared.connections() == 0 || left == 0 {
                return;
            }
        }
        let uid = world.clients.iter().find(|client| is_unaware(client)).map(|client| client.uid);
        world.trace.fail(format!("the broker ends, and client {uid:?} is not told"));
    }

    /// The broker's process is gone; it starts again. `has_written`: it has written everything that it had.
    fn restart_broker(&mut self, world: &mut SimulatedWorld, kind: CrashKind, has_written: bool) {
        let Some(durable) = self.settings.durable else { return };
        self.model.now_us = world.clock.us();
        let loss = self.draw_loss(world, kind, has_written);
        world.tally.relaxed_ends += u64::from(loss.is_some());
        let mut clients = std::mem::take(&mut world.clients);
        let channels = clients.iter().flat_map(|client| &client.channels);
        // A commit is whole on each shard by itself, and so is what one turn does of it.
        let is_whole = world.settings.shards == [1] && world.settings.limits.work_per_turn == WORK_PER_TURN;
        let commits = channels.filter(|_| is_whole).filter_map(interrupted_commit).collect();
        clients.iter_mut().for_each(|client| self.model.end_connection(client));
        world.tally.doubtful += self.model.crash(commits, loss);
        drop(clients);
        world.crash_broker(0, kind);
        // What the broker has said until its end is about the failure that was.
        self.check_damage_lines(world);
        self.troubles.forget_failure();
        self.troubles.forget_spills();
        self.live_damage.end_flips(&mut world.tally, &mut world.damage);
        self.live_damage = LiveDamage::default();
        let mut plan = durable.draw_restart(&mut world.chance);
        if let Some(reshard) = durable.draw_reshard(world.settings.shards[0], &mut world.chance) {
            self.make_room(world);
            plan.reshard = (!world.reshard_broker(0, reshard)).then_some(reshard);
        }
        let written_anew = world.tally.lossy_starts;
        let lost = world.restart_broker(0, plan);
        if world.tally.lossy_starts > written_anew {
            // Its disks are other ones, which have room.
            self.make_room(world);
        }
        self.begin_sync_watch(world);
        // A start in spite of damage says more than a scrub would.
        error_lines::take();
        if !lost.is_empty() {
            let owed = self.model.lose(&lost, &world.brokers[0]);
            world.tally.lost += owed.messages;
            world.tally.lost_unproven += owed.unproven;
        }
    }
}

/// The commit that a channel waits for.
fn interrupted_commit(channel: &ClientChannel) -> Option<InterruptedCommit> {
    let pending = channel.pending.as_ref()?;
    let acknowledged = channel.unproven_settlements.iter().filter(|(.., rejected)| !rejected);
    (pending.request == ClientRequest::Commit).then(|| {
        let acknowledged = acknowledged.map(|&(queue, message, _)| (queue, message)).collect();
        InterruptedCommit::new(channel.committing.clone(), acknowledged)
    })
}
