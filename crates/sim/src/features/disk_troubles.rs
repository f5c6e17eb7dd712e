//! Troubles of the disks while the broker runs: one fails, one is full for a while or until it is made room.
//!
//! A disk that fails ends the broker. One that is full holds publishers back, and nobody else.

use super::FeatureWorkload;
use crate::broker_disks::{BrokerDisks, DiskSpace, FailingRequest};
use crate::world::SimulatedWorld;
use store::limits::SEGMENT_BYTES_MIN;

/// Most microseconds for which a disk is full that has room again by itself.
const FULL_US_MAX: u64 = 60_000;

/// What is wrong with the disks now.
#[derive(Default)]
pub struct DiskTroubles {
    /// A disk fails when it is asked for the wrong thing.
    may_fail: bool,
    full: Option<FullDisk>,
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
        self.may_fail || disks.is_damaged()
    }

    /// No disk fails any more when it is asked for something.
    pub fn forget_failure(&mut self) {
        self.may_fail = false;
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

    /// The disk that was full has room again if it is time.
    pub fn make_room_in_time(&mut self, world: &mut SimulatedWorld) {
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

    /// A new phase begins: what did not fail until now does not fail any more, and there is room.
    pub fn end_disk_troubles(&mut self, world: &mut SimulatedWorld) {
        let Some(disks) = disks(world) else { return };
        disks.heal();
        self.troubles.forget_failure();
        self.make_room(world);
    }

    /// The rest of the run has disks that keep what they are given. What they had not kept is not read any more.
    pub fn mend_disks(&mut self, world: &mut SimulatedWorld) {
        self.end_disk_troubles(world);
        self.note_damage(world);
        disks(world).iter().for_each(BrokerDisks::mend);
    }
}
