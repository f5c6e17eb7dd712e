//! Troubles of the disks while the broker runs: one fails, one is full for a while or until it is made room.
//!
//! A disk that fails ends the broker. One that is full holds publishers back, and nobody else.

use super::FeatureWorkload;
use crate::world::SimulatedWorld;
use simdisks::{BrokerDisks, DiskSpace, FailingRequest};
use store::limits::SEGMENT_BYTES_MIN;

/// Most microseconds for which a disk is full that has room again by itself.
const FULL_US_MAX: u64 = 60_000;

/// What is wrong with the disks now.
#[derive(Default)]
pub struct DiskTroubles {
    /// A disk fails when it is asked for the wrong thing.
    may_fail: bool,
    full: Option<FullDisk>,
    /// The shard whose disk fails that has what leaves its memory.
    failing_spill: Option<usize>,
    /// The same where such a disk is full: nobody is held back by it, as messages stay in memory.
    full_spill: Option<FullDisk>,
}

#[derive(Clone, Copy)]
struct FullDisk {
    disk: usize,
    /// When it has room again by itself.
    until_us: Option<u64>,
}

impl DiskTroubles {
    /// Whether a disk is full and stays so.
    pub fn stays_full(&self) -> bool {
        self.full.is_some_and(|full| full.until_us.is_none())
    }

    /// Whether a disk is full.
    pub fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Whether the broker may end because of its disks.
    pub fn may_fail(&self, disks: &BrokerDisks) -> bool {
        self.may_fail || self.failing_spill.is_some() || disks.is_damaged()
    }

    /// Whether a disk fails that has what leaves the memory.
    pub fn is_spill_failing(&self) -> bool {
        self.failing_spill.is_some()
    }

    /// No disk fails any more when it is asked for something.
    pub fn forget_failure(&mut self) {
        (self.may_fail, self.failing_spill) = (false, None);
    }

    /// The disks are new that have what leaves the memory.
    pub fn forget_spills(&mut self) {
        self.full_spill = None;
    }
}

fn disks(world: &SimulatedWorld) -> Option<BrokerDisks> {
    world.brokers[0].disks.clone()
}

impl FeatureWorkload {
    /// A disk may begin to fail, or to be full.
    pub fn draw_disk_troubles(&mut self, world: &mut SimulatedWorld) {
        let Some(durable) = self.settings.durable else { return };
        let Some(disks) = disks(world) else { return };
        if world.chance.permille(durable.error_permille) && !self.troubles.may_fail {
            let (disk, request) =
                (world.chance.below(disks.count() as u64) as usize, FailingRequest::draw(&mut world.chance));
            disks.fail(disk, request);
            self.troubles.may_fail = true;
            world.trace.note(|| format!("disk {disk} fails: {request:?}"));
        }
        if world.chance.permille(durable.full_permille) && self.troubles.full.is_none() {
            let disk = world.chance.below(disks.count() as u64) as usize;
            let left = [0, 0, SEGMENT_BYTES_MIN, 2 * SEGMENT_BYTES_MIN][world.chance.below(4) as usize];
            let us = world.chance.below(FULL_US_MAX);
            let until_us = world.chance.permille(500).then(|| world.clock.us() + us);
            disks.set_space(disk, DiskSpace::Left(left));
            self.troubles.full = Some(FullDisk { disk, until_us });
            world.tally.full_disks += 1;
            world.trace.note(|| format!("disk {disk} has {left} bytes left, until {until_us:?}"));
        }
    }

    /// A disk of messages that leave the memory may begin to fail, or to be full.
    pub fn draw_spill_troubles(&mut self, world: &mut SimulatedWorld) {
        let Some(durable) = self.settings.durable else { return };
        let Some(disks) = disks(world) else { return };
        let (errors, fills) = (durable.spill_error_permille, durable.spill_full_permille);
        if errors > 0 && self.troubles.failing_spill.is_none() && world.chance.permille(errors) {
            let shard = world.chance.below(disks.spills.len() as u64) as usize;
            let request = FailingRequest::draw(&mut world.chance);
            disks.fail_spill(shard, request);
            self.troubles.failing_spill = Some(shard);
            world.trace.note(|| format!("the spill disk of shard {shard} fails: {request:?}"));
        }
        if fills > 0 && self.troubles.full_spill.is_none() && world.chance.permille(fills) {
            let disk = world.chance.below(disks.spills.len() as u64) as usize;
            let us = world.chance.below(FULL_US_MAX);
            let until_us = world.chance.permille(500).then(|| world.clock.us() + us);
            disks.set_spill_space(disk, DiskSpace::Left(0));
            self.troubles.full_spill = Some(FullDisk { disk, until_us });
            world.tally.full_spills += 1;
            world.trace.note(|| format!("the spill disk of shard {disk} is full, until {until_us:?}"));
        }
    }

    /// The disk that was full has room again if it is time.
    pub fn make_room_in_time(&mut self, world: &mut SimulatedWorld) {
        let now_us = world.clock.us();
        if self.troubles.full_spill.is_some_and(|full| full.until_us.is_some_and(|until_us| until_us <= now_us)) {
            self.make_spill_room(world);
        }
        let is_over = |full: FullDisk| full.until_us.is_some_and(|until_us| until_us <= world.clock.us());
        if self.troubles.full.is_some_and(is_over) {
            self.make_room(world);
        }
    }

    /// The disk that was full has room again.
    pub fn make_room(&mut self, world: &mut SimulatedWorld) {
        let (Some(full), Some(disks)) = (self.troubles.full.take(), disks(world)) else { return };
        disks.set_space(full.disk, DiskSpace::Ample);
        world.trace.note(|| format!("disk {} has room again", full.disk));
    }

    /// The disk that was full of messages that leave the memory has room again.
    pub fn make_spill_room(&mut self, world: &mut SimulatedWorld) {
        let (Some(full), Some(disks)) = (self.troubles.full_spill.take(), disks(world)) else { return };
        disks.set_spill_space(full.disk, DiskSpace::Ample);
        world.trace.note(|| format!("the spill disk of shard {} has room again", full.disk));
    }

    /// A new phase begins: what did not fail until now does not fail any more, and there is room.
    pub fn end_disk_troubles(&mut self, world: &mut SimulatedWorld) {
        let Some(disks) = disks(world) else { return };
        disks.heal();
        self.troubles.forget_failure();
        self.make_room(world);
        self.make_spill_room(world);
    }

    /// The rest of the run has disks that keep what they are given. What they had not kept is not read any more.
    pub fn mend_disks(&mut self, world: &mut SimulatedWorld) {
        self.end_disk_troubles(world);
        self.note_damage(world);
        disks(world).iter().for_each(BrokerDisks::mend);
    }
}
