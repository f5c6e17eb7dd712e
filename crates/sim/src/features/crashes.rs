//! Crashes: the broker loses its power or is killed, starts again with what its disks have, and all clients are gone.

use super::FeatureWorkload;
use super::durable_settings::DurableSettings;
use super::survival::InterruptedCommit;
use crate::simulated_client::{ClientChannel, ClientRequest};
use crate::world::SimulatedWorld;
use broker::limits::WORK_PER_TURN;

/// Of a thousand crashes, how many are followed by another one before anybody connects.
const CRASH_AGAIN_PERMILLE: u32 = 150;
/// Most microseconds for which the broker is down: some messages expire meanwhile.
const DOWN_US_MAX: u64 = 50_000;

impl FeatureWorkload {
    /// The broker may crash in the middle of everything. Returns whether it has.
    pub fn may_crash(&mut self, world: &mut SimulatedWorld) -> bool {
        let Some(durable) = self.settings.durable else { return false };
        let crashes = world.chance.permille(durable.crash_permille);
        if crashes {
            self.crash(world, &durable);
        }
        crashes
    }

    /// The broker may crash after a rest.
    pub fn may_crash_at_rest(&mut self, world: &mut SimulatedWorld) {
        let Some(durable) = self.settings.durable else { return };
        if self.model.period > 0 && world.chance.permille(durable.rest_crash_permille) {
            self.crash(world, &durable);
        }
    }

    fn crash(&mut self, world: &mut SimulatedWorld, durable: &DurableSettings) {
        let kind = durable.draw_crash(&mut world.chance);
        let mut clients = std::mem::take(&mut world.clients);
        let channels = clients.iter().flat_map(|client| &client.channels);
        // A commit is whole on each shard by itself, and so is what one turn does of it.
        let is_whole = world.settings.shards == [1] && world.settings.limits.work_per_turn == WORK_PER_TURN;
        let commits = channels.filter(|_| is_whole).filter_map(interrupted_commit).collect();
        clients.iter_mut().for_each(|client| self.model.end_connection(client));
        self.model.crash(commits);
        drop(clients);
        let down_us = world.chance.below(DOWN_US_MAX);
        world.crash_broker(0, kind, down_us);
        let again = world.chance.permille(CRASH_AGAIN_PERMILLE);
        if again && !world.trace.has_failed() {
            self.crash(world, durable);
        }
    }
}

/// The commit that a channel waits for.
fn interrupted_commit(channel: &ClientChannel) -> Option<InterruptedCommit> {
    let pending = channel.pending.as_ref()?;
    let acknowledged = channel.unproven_settlements.iter().filter(|(.., rejected)| !rejected);
    (pending.request == ClientRequest::Commit).then(|| InterruptedCommit {
        publishes: channel.committing.clone(),
        acknowledged: acknowledged.map(|&(queue, message, _)| (queue, message)).collect(),
    })
}
