//! What an end of the broker may take back of its promises with a `store_sync` other than `always`: what each shard confirmed
//! last; and whether the broker writes and syncs in time.
//!
//! The disk is the witness of what is synced. Of what a broker has not written it says itself how much that is.

use super::FeatureWorkload;
use super::shadow_model::ShadowModel;
use crate::simulated_broker::SimulatedBroker;
use crate::world::SimulatedWorld;
use durability::StoreSync;
use simdisks::CrashKind;
use std::collections::BTreeMap;
use std::ops::Range;

/// Steps in a row in which something was to be asked of a disk, and nothing was: by then every shard has had its turn.
const OVERDUE_STEPS_MAX: u32 = 100;
/// How long a message is not written that nobody waits for, and as long again.
const UNWRITTEN_US_MAX: u64 = 2 * store::limits::LAZY_WRITE_US;

/// The promises of a log that outlast the end of the broker: those made until then, in simulated time.
#[derive(Clone, Copy, Debug)]
pub struct DurableUntil {
    /// The shard that has it, if it is known.
    pub shard: Option<usize>,
    /// Confirms of messages.
    pub messages_us: u64,
    /// Answers to purges, and to commits of acknowledgements.
    pub settlements_us: u64,
}

/// What an end of the broker takes back.
pub struct CrashLoss {
    /// Of each queue that the broker had.
    pub queues: BTreeMap<usize, DurableUntil>,
    /// Of all others.
    pub least: DurableUntil,
}

impl CrashLoss {
    /// What outlasts it of a queue's promises.
    pub fn of(&self, queue: usize) -> DurableUntil {
        self.queues.get(&queue).copied().unwrap_or(self.least)
    }

    /// By what each shard keeps.
    fn new(kept: &[DurableUntil], broker: &SimulatedBroker, model: &ShadowModel) -> Self {
        let mut queues = BTreeMap::new();
        for (node, &kept) in broker.shards.iter().zip(kept) {
            for queue in node.shard.broker().queues() {
                let known = model.queues.iter().rposition(|known| *known.name == *queue.name);
                known.into_iter().for_each(|at| _ = queues.insert(at, kept));
            }
        }
        let least = |of: fn(&DurableUntil) -> u64| kept.iter().map(of).min().unwrap_or(0);
        let least = DurableUntil {
            shard: None,
            messages_us: least(|kept| kept.messages_us),
            settlements_us: least(|kept| kept.settlements_us),
        };
        CrashLoss { queues, least }
    }
}

/// What is known of one shard's log in this life.
#[derive(Clone, Copy, Default)]
struct WatchedLog {
    /// Until when everything that was confirmed is written.
    written_us: u64,
    /// Since when no disk has anything to do, and the last of what was not written then. What came later may wait for longer, so
    /// that a log in which something is always unwritten is no fault, and one that keeps a single message is.
    unwritten_since: Option<(u64, u64)>,
    /// Steps in a row in which something was due and nothing was asked for.
    overdue_steps: u32,
}

/// What is known of the logs of a broker that does not always sync.
#[derive(Default)]
pub struct SyncWatch(Vec<WatchedLog>);

/// Bytes of messages that a shard has not written.
fn unwritten_bytes(broker: &SimulatedBroker, shard: usize) -> usize {
    let mut census = broker.shards[shard].shard.effects().store_census();
    census.find_map(|(what, bytes)| what.contains("to be written").then_some(bytes)).unwrap_or(0)
}

/// The last entry that was unwritten at a time, until all that were unwritten then are written or settled: then those that are
/// unwritten now.
fn next_unwritten(since: Option<(u64, u64)>, unwritten: &Range<u64>, now_us: u64) -> Option<(u64, u64)> {
    let last = unwritten.end.checked_sub(1).filter(|_| !unwritten.is_empty())?;
    since.filter(|(_, last)| unwritten.contains(last)).or(Some((now_us, last)))
}

impl FeatureWorkload {
    /// A life of the broker begins: what its disks have is durable.
    pub fn begin_sync_watch(&mut self, world: &SimulatedWorld) {
        let broker = &world.brokers[0];
        self.model.confirms_unwritten = broker.store_sync == StoreSync::Never;
        let log = WatchedLog { written_us: world.clock.us(), ..WatchedLog::default() };
        self.syncs = SyncWatch(vec![log; broker.shards.len()]);
    }

    /// The broker asks for what is due, and what it has written counts.
    pub fn check_syncs(&mut self, world: &mut SimulatedWorld) {
        let broker = &world.brokers[0];
        let (Some(disks), now_us) = (&broker.disks, world.clock.us()) else { return };
        if broker.store_sync == StoreSync::Always || broker.shared.disk_failure().is_some() {
            return;
        }
        let is_defining = disks.definitions.peek(|disk| disk.awaited() > 0);
        for (shard, log) in self.syncs.0.iter_mut().enumerate() {
            let disk = &disks.messages[shard];
            let is_overdue = match broker.store_sync {
                StoreSync::Always => false,
                StoreSync::Later { interval_us } => {
                    let is_due = |since_us: u64| since_us + interval_us <= now_us;
                    disk.peek(|disk| disk.unsynced_since_us().is_some_and(is_due) && !disk.is_syncing())
                }
                StoreSync::Never => {
                    let is_written = unwritten_bytes(broker, shard) == 0 && !disk.peek(|disk| disk.is_writing());
                    if is_written {
                        log.written_us = now_us;
                    }
                    let is_idle = !is_defining
                        && disk.peek(|disk| disk.awaited() == 0)
                        && !broker.shards[shard].shard.broker().disk_alarm();
                    let unwritten = broker.shards[shard].shard.effects().unwritten_entries();
                    log.unwritten_since = next_unwritten(log.unwritten_since, &unwritten, now_us).filter(|_| is_idle);
                    log.unwritten_since.is_some_and(|(since_us, _)| since_us + UNWRITTEN_US_MAX <= now_us)
                }
            };
            log.overdue_steps = if is_overdue { log.overdue_steps + 1 } else { 0 };
            if log.overdue_steps > OVERDUE_STEPS_MAX {
                let sync = broker.store_sync;
                let bytes = unwritten_bytes(broker, shard);
                let what =
                    format!("shard {shard} neither writes nor syncs what is due: {sync:?}, {bytes} bytes unwritten");
                return world.trace.fail(what);
            }
        }
    }

    /// What the end of the broker takes back, if it may. `has_written`: it has written everything that it had.
    pub fn draw_loss(&self, world: &SimulatedWorld, kind: CrashKind, has_written: bool) -> Option<CrashLoss> {
        let broker = &world.brokers[0];
        let disks = broker.disks.as_ref()?;
        let now_us = world.clock.us();
        let kept = self.syncs.0.iter().zip(&disks.messages).enumerate().map(|(shard, (log, disk))| {
            let until_us = match broker.store_sync {
                StoreSync::Always => None,
                StoreSync::Later { .. } => {
                    let (unsynced, lost) = disk.peek(|disk| (disk.unsynced_since_us(), disk.lost_since_us()));
                    let since_us = unsynced.filter(|_| kind == CrashKind::PowerCut).into_iter().chain(lost).min();
                    since_us.map(|since_us| (since_us.saturating_sub(1), since_us.saturating_sub(1)))
                }
                // A settlement has no bytes that would have to be written.
                StoreSync::Never => (!has_written).then_some((log.written_us, self.model.stored_us)),
            };
            (shard, until_us)
        });
        let kept: Vec<_> = kept.collect();
        kept.iter().any(|(_, until_us)| until_us.is_some()).then(|| {
            let kept = kept.into_iter().map(|(shard, until_us)| {
                let (messages_us, settlements_us) = until_us.unwrap_or((now_us, now_us));
                DurableUntil { shard: Some(shard), messages_us, settlements_us }
            });
            CrashLoss::new(&kept.collect::<Vec<_>>(), broker, &self.model)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::next_unwritten;

    #[test]
    fn a_log_that_keeps_one_entry_is_late_and_one_that_takes_other_ones_is_not() {
        let first = next_unwritten(None, &(4..9), 100);
        assert_eq!(first, Some((100, 8)));
        // Some were settled and others came: one of those is still there.
        assert_eq!(next_unwritten(first, &(8..20), 200), first);
        assert_eq!(next_unwritten(first, &(9..20), 300), Some((300, 19)));
        assert_eq!(next_unwritten(first, &(9..9), 300), None);
    }
}
