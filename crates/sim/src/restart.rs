//! Starts of a broker after it has ended: with disks that cannot be read, that were damaged, or that are as they were left.
//!
//! A start is refused if and only if the damage says so. Then either a backup is restored, or the store is written anew without
//! what is missing, which is named, and the broker starts with that.

use crate::reshard_plan::{ReshardOutcome, ReshardPlan};
use crate::restart_plan::RestartPlan;
use crate::world::SimulatedWorld;
use disk::SimulatedDisk;
use simdisks::BrokerDisks;
use simdisks::footer_checks;
use simdisks::{DamageKind, PlacedDamage};
use simdisks::{LogSurvey, LostRecords, log_of, outcome_of, survey};
use splitmix::SplitMix64;
use store::limits::BLOCK_BYTES;
use store::{Block, Damage, LogId, OnDamage};

/// A violation: a start that should have been refused.
const STARTS_DAMAGED: &str = "it starts, and its disks are damaged";

/// Damages a place of a disk, which has this index. Most hit a frame of its log.
fn damage_disk(
    at: usize,
    disk: &mut SimulatedDisk,
    survey: &LogSurvey,
    log: LogId,
    chance: &mut SplitMix64,
) -> Option<(PlacedDamage, String)> {
    let frames = survey.frames();
    let roll = chance.below(10);
    let (segment, block, bits) = if roll < 8 && !frames.is_empty() {
        let frame = &frames[chance.below(frames.len() as u64) as usize];
        let block = chance.below(frame.header.blocks().into()) as u32;
        (frame.segment, Block(frame.block.0 + block), (frame.header.bytes as usize * 8).clamp(512, BLOCK_BYTES * 8))
    } else {
        let written = disk.written_blocks(log);
        let &(segment, block) = written.get(chance.below(written.len().max(1) as u64) as usize)?;
        (segment, block, BLOCK_BYTES * 8)
    };
    if roll == 0 {
        disk.truncate(segment, block);
        let place = PlacedDamage { disk: at, segment, block, kind: DamageKind::CutSegment };
        return Some((place, format!("{segment} ends before block {}", block.0)));
    }
    let bit = chance.below(bits as u64) as usize;
    disk.flip_bit(segment, block, bit);
    let place = PlacedDamage { disk: at, segment, block, kind: DamageKind::FlippedBit };
    Some((place, format!("{segment} has bit {bit} of block {} flipped", block.0)))
}

impl SimulatedWorld {
    /// A broker whose process is gone starts again. Returns what damage has cost it.
    pub fn restart_broker(&mut self, broker: usize, plan: RestartPlan) -> LostRecords {
        self.pass(plan.down_us);
        let Some(disks) = self.brokers[broker].disks.clone() else { return LostRecords::default() };
        for _ in 0..plan.damages {
            self.damage_one(&disks);
        }
        if plan.is_unreadable {
            self.refuse_unreadable(broker, &disks);
        }
        self.spoil_footers(broker, &disks);
        let lost = self.start_damaged(broker, &disks, plan);
        lost.unwrap_or_else(|violation| {
            self.trace.fail(format!("broker {broker}: {violation}"));
            LostRecords::default()
        })
    }

    fn damage_one(&mut self, disks: &BrokerDisks) {
        let at = self.chance.below(disks.count() as u64) as usize;
        let Some(disk) = disks.all().nth(at) else { return };
        let log = log_of(disks, at);
        let Ok(survey) = survey(disks, at, disk) else { return };
        let chance = &mut self.chance;
        if let Some((place, what)) = disk.with(|disk| damage_disk(at, disk, &survey, log, chance)) {
            self.tally.damages += 1;
            self.damage.add(place);
            self.trace.note(|| format!("disk {at} is damaged: {what}"));
        }
    }

    /// Some footers are not what was written. The start by them is compared with one without them, and then is made.
    fn spoil_footers(&mut self, broker: usize, disks: &BrokerDisks) {
        // Drawn apart, so that the rest of a run does not depend on how many footers there are.
        let life = u64::from(self.brokers[broker].lives);
        let chance = SplitMix64::new(self.settings.seed ^ life << 40 ^ 0xF007);
        let Some(spoiled) = self.stale_footers.spoil(disks, chance) else { return };
        self.tally.spoiled_footers += spoiled;
        if spoiled > 0 {
            self.trace.note(|| format!("{spoiled} footers are damaged or stale"));
        }
        if let Some(violation) = footer_checks::violation(disks) {
            self.trace.fail(format!("broker {broker}: {violation}"));
        }
    }

    /// The broker starts, or says why not.
    fn start(&mut self, broker: usize) -> Result<(), String> {
        let options = self.broker_options(broker);
        let started = self.brokers[broker].restart(&options, self.clock.now);
        match &started {
            Ok(()) => self.trace.note(|| format!("broker {broker} has recovered")),
            Err(why) => {
                self.tally.refused_starts += 1;
                self.trace.note(|| format!("broker {broker} does not start: {why}"));
            }
        }
        started
    }

    /// A start that cannot read the disks is refused, and changes nothing.
    fn refuse_unreadable(&mut self, broker: usize, disks: &BrokerDisks) {
        if !disks.all().any(|disk| disk.peek(|disk| disk.used_bytes() > 0)) {
            return;
        }
        disks.set_unreadable(true);
        if self.start(broker).is_ok() {
            self.trace.fail(format!("broker {broker} starts, and cannot read its disks"));
        }
        disks.set_unreadable(false);
    }

    /// Starts as often as damage demands. `Err` names a violation.
    fn start_damaged(&mut self, broker: usize, disks: &BrokerDisks, plan: RestartPlan) -> Result<LostRecords, String> {
        let mut surveys = Vec::new();
        for (at, disk) in disks.all().enumerate() {
            if disk.peek(|disk| disk.damage().is_empty()) {
                surveys.push(None);
                continue;
            }
            // The survey says what a start finds that reads everything. One by footers does not read what is not alive, and so
            // does not find damage there.
            disk.with(SimulatedDisk::lose_footers);
            let survey = survey(disks, at, disk)?;
            if let Some(violation) = survey.violation() {
                return Err(format!("disk {at}: {violation}"));
            }
            surveys.push(Some(survey));
        }
        self.damage.decide(&mut self.tally.outcomes, |place| outcome_of(disks, &surveys, place))?;
        let is_reported = |survey: &Option<LogSurvey>| survey.as_ref().is_some_and(LogSurvey::is_reported);
        let is_refused = surveys.iter().any(is_reported);
        let definitions = surveys.pop().flatten();
        if definitions.is_none() || is_refused {
            match self.start(broker) {
                Ok(()) if is_refused => return Err(STARTS_DAMAGED.into()),
                Err(why) if !is_refused => return Err(format!("it cannot start again: {why}")),
                Ok(()) => return Ok(take_losses(&surveys, disks)),
                Err(_) => {}
            }
        }
        // Without all its definitions a broker has none: those come from a backup.
        disks.definitions.with(SimulatedDisk::repair);
        let is_beyond_repair = |survey: &LogSurvey| survey.reported.is_err();
        if plan.restores_backup || surveys.iter().flatten().any(is_beyond_repair) {
            self.trace.note(|| format!("a backup of broker {broker} is restored"));
            disks.messages.iter().for_each(|disk| disk.with(SimulatedDisk::repair));
            surveys.clear();
        }
        if surveys.iter().any(is_reported) {
            let found = self.lose_damaged(broker, disks, plan.reshard)?;
            for (at, survey) in surveys.iter().enumerate() {
                let expected = survey.as_ref().map(|survey| survey.reported.clone());
                let expected = expected.unwrap_or(Ok(Vec::new()))?;
                if found[at] != expected {
                    return Err(format!("disk {at}: {:?} is reported, and {expected:?} is missing", found[at]));
                }
            }
            self.tally.lossy_starts += 1;
        }
        self.start(broker).map_err(|why| format!("it cannot start without what was damaged: {why}"))?;
        Ok(take_losses(&surveys, disks))
    }

    /// The store is written anew without what is damaged, and for another number of shards if that was planned. If that comes to
    /// nothing the old store is what it was: the next start is refused as before, and the store is written once more. Returns the
    /// damage of each log that was passed over.
    fn lose_damaged(
        &mut self,
        broker: usize,
        disks: &BrokerDisks,
        reshard: Option<ReshardPlan>,
    ) -> Result<Vec<Vec<Damage>>, String> {
        let cannot = |why: String| format!("the store cannot be written anew without what is damaged: {why}");
        let shards = self.settings.shards[broker];
        let plan = reshard.unwrap_or_else(|| ReshardPlan { shards, ..ReshardPlan::draw(shards, &mut self.chance) });
        if let Some(found) = self.write_anew(broker, disks, plan, OnDamage::Skip).map_err(cannot)? {
            return Ok(found);
        }
        if self.start(broker).is_ok() {
            return Err(STARTS_DAMAGED.into());
        }
        let outcome = ReshardOutcome::Done { power_fails: self.chance.permille(500) };
        let found = self.write_anew(broker, disks, ReshardPlan { outcome, ..plan }, OnDamage::Skip).map_err(cannot)?;
        found.ok_or_else(|| cannot("nothing prevents it, and it is not done".to_owned()))
    }
}

/// The broker has started without what is lost.
fn take_losses(surveys: &[Option<LogSurvey>], disks: &BrokerDisks) -> LostRecords {
    let mut lost = LostRecords::default();
    for (survey, disk) in surveys.iter().zip(disks.all()) {
        let Some(survey) = survey else { continue };
        disk.with(|disk| survey.accept_cut(disk));
        lost.add(survey.lost_records());
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Mode, Settings};
    use disk::{Disk, DiskFaults};
    use simdisks::CrashKind;
    use simdisks::store_tag;
    use store::limits::SEGMENT_BYTES_MIN;
    use store::{LogEnd, LogWriter, Position, QueueCursor, QueueUid};

    /// Writes a log of so many groups to an empty disk.
    fn write_log(disk: &mut SimulatedDisk, groups: u64) {
        let mut writer = LogWriter::new(LogEnd::empty(store_tag(), LogId(0)), SEGMENT_BYTES_MIN);
        for position in 0..groups {
            let mut queue = QueueCursor::new(QueueUid(7));
            writer.append(|group| group.settled(&mut queue, Position(position), 1));
            while !writer.is_idle() {
                while let Some(request) = writer.poll(0, true) {
                    disk.submit(request);
                }
                disk.set_now(disk.due_us().expect("something is under way"));
                disk.poll().map(|completion| writer.complete(completion, 0));
            }
        }
        disk.finish();
    }

    #[test]
    fn a_start_without_what_is_damaged_leaves_no_damage_to_the_one_after_it() {
        let mut refused_again = 0;
        for seed in 0..30 {
            let mut world = SimulatedWorld::new(Settings::of(Mode::Durable, seed), false);
            world.crash_broker(0, CrashKind::Exit);
            let disks = world.brokers[0].disks.clone().expect("it has a store");
            disks.messages[0].with(|disk| {
                disk.set_faults(DiskFaults::default());
                write_log(disk, 4);
            });
            let frame = survey(&disks, 0, &disks.messages[0]).expect("a log").frames()[1];
            disks.messages[0].with(|disk| disk.flip_bit(frame.segment, frame.block, 300));
            world.restart_broker(0, RestartPlan::default());
            let refused = world.tally.refused_starts;
            assert_eq!((world.tally.lossy_starts, refused > 0), (1, true), "seed {seed}");
            // A new store that did not come to take the place of the old one has changed nothing.
            refused_again += u64::from(refused > 1);
            // It has written nothing yet.
            world.crash_broker(0, CrashKind::Kill);
            world.restart_broker(0, RestartPlan::default());
            assert_eq!((world.tally.lossy_starts, world.tally.refused_starts), (1, refused), "seed {seed}");
            let disks = world.brokers[0].disks.as_ref().expect("it has a store");
            assert!(!disks.is_damaged(), "seed {seed}");
            assert_eq!(world.trace.into_parts().0, None, "seed {seed}");
        }
        assert!((1..30).contains(&refused_again), "{refused_again}");
    }
}
