//! The settings of a run whose broker has a store: how durable its definitions and messages are, what its disks do to it,
//! when it crashes and stops.

use super::durable_focus::DurableFocus;
use crate::reshard_plan::ReshardPlan;
use crate::restart_plan::RestartPlan;
use disk::DiskFaults;
use durability::StoreSync;
use simdisks::{CrashKind, DiskOptions};
use splitmix::SplitMix64;
use std::fmt::{self, Display, Formatter};
use store::ScrubOptions;
use store::limits::SEGMENT_BYTES_MIN;

/// Most microseconds for which the broker is down: some messages expire meanwhile.
const DOWN_US_MAX: u64 = 50_000;
/// Bytes that a scrub reads in a second: so many that it goes round a few segments between two rests.
const SCRUB_BYTES_PER_S: u64 = 256 << 20;
/// Times after which a disk is synced, in lives that sync later.
const SYNC_INTERVALS_US: [u64; 3] = [1_000, 10_000, 50_000];
/// Most places of the disks that are damaged at once.
const DAMAGES_MAX: u64 = 3;

/// What is drawn for a run with a store alone.
#[derive(Clone, Copy, Default, Debug)]
pub struct DurableSettings {
    /// Of a thousand new queues and exchanges, how many are durable.
    pub definition_permille: u32,
    /// Of a thousand messages, how many are persistent.
    pub message_permille: u32,
    /// In how many of a thousand steps the broker crashes.
    pub crash_permille: u32,
    /// After how many of a thousand rests it does.
    pub rest_crash_permille: u32,
    /// Of a thousand crashes, how many are power cuts.
    pub power_cut_permille: u32,
    /// A disk request in so many takes seconds; none if zero.
    pub slow_once_in: u32,
    /// Of a thousand steps with a commit under way, in how many the broker crashes.
    pub commit_crash_permille: u32,
    /// Of a thousand publishes, how many go to a queue whose declaration is not answered.
    pub early_permille: u32,
    /// Most microseconds by which a write of definitions takes longer.
    pub journal_lag_us: u32,
    /// The same of messages.
    pub message_lag_us: u32,
    /// Of a thousand ends of the broker, how many are asked for.
    pub stop_permille: u32,
    /// In how many of a thousand steps a disk begins to fail.
    pub error_permille: u32,
    /// In how many of a thousand steps a disk becomes full.
    pub full_permille: u32,
    /// Before how many of a thousand starts disks are damaged.
    pub damage_permille: u32,
    /// At how many of a thousand starts they cannot be read at first.
    pub unreadable_permille: u32,
    /// A write in so many is reported done and was not; none if zero.
    pub lost_once_in: u32,
    /// A write in so many is reported done and lies elsewhere; none if zero.
    pub astray_once_in: u32,
    /// Before how many of a thousand starts the number of shards changes.
    pub reshard_permille: u32,
    /// Of a thousand publishes, how many have tens of kilobytes; of those in a commit, how many if that is more.
    pub large_permille: u32,
    /// Milliseconds from one scrub of the logs to the next; none if zero.
    pub scrub_ms: u32,
    /// In how many of a thousand steps something is damaged that was written.
    pub flip_permille: u32,
    /// In how many of a thousand steps a disk begins to fail that has what leaves the memory.
    pub spill_error_permille: u32,
    /// In how many of a thousand steps such a disk becomes full.
    pub spill_full_permille: u32,
    /// Of a thousand lives, how many have another `store_sync` than `always`.
    pub relaxed_permille: u32,
    /// What the run has much of.
    pub focus: DurableFocus,
}

impl DurableSettings {
    /// The settings of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0xD15C);
        // A run with every fault a little has few in which one meets much else.
        let has_faults = !seed.is_multiple_of(3);
        let mut scrub_chance = SplitMix64::new(seed ^ 0x5C20B);
        let mut one_of = |values: [u32; 4]| values[chance.below(4) as usize];
        let settings = DurableSettings {
            definition_permille: one_of([500, 800, 800, 1_000]),
            message_permille: one_of([500, 800, 800, 1_000]),
            crash_permille: one_of([0, 3, 8, 25]),
            rest_crash_permille: one_of([0, 300, 600, 1_000]),
            power_cut_permille: one_of([0, 500, 500, 1_000]),
            slow_once_in: one_of([0, 0, 300, 40]),
            commit_crash_permille: one_of([0, 0, 50, 200]),
            early_permille: one_of([0, 20, 50, 150]),
            journal_lag_us: one_of([0, 0, 5_000, 40_000]),
            stop_permille: one_of([0, 0, 200, 600]),
            reshard_permille: one_of([0, 0, 150, 500]),
            message_lag_us: one_of([0, 0, 0, 10_000]),
            ..DurableSettings::default()
        };
        let scrub_ms = scrub_chance.below(4) as u32 * 400 % 1_200;
        let flip_permille = [0, 5, 20][scrub_chance.below(3) as usize];
        let relaxed_permille = [0, 0, 400, 1_000][SplitMix64::new(seed ^ 0x57AC).below(4) as usize];
        let settings = DurableSettings { scrub_ms, relaxed_permille, ..settings };
        if !has_faults {
            return settings;
        }
        let settings = DurableSettings {
            flip_permille: if scrub_ms > 0 { flip_permille } else { 0 },
            error_permille: one_of([0, 0, 2, 6]),
            full_permille: one_of([0, 0, 4, 12]),
            damage_permille: one_of([0, 0, 200, 500]),
            unreadable_permille: one_of([0, 0, 0, 200]),
            lost_once_in: one_of([0, 0, 0, 150]),
            astray_once_in: one_of([0, 0, 0, 150]),
            ..settings
        };
        // What a disk had been given and has not is damage, or was not synced: the model is to know which.
        let is_damaged = settings.flip_permille + settings.lost_once_in + settings.astray_once_in > 0;
        let mut spill_chance = SplitMix64::new(seed ^ 0x5B111);
        DurableSettings {
            relaxed_permille: if is_damaged { 0 } else { relaxed_permille },
            spill_error_permille: [0, 0, 20, 60][spill_chance.below(4) as usize],
            spill_full_permille: [0, 0, 5, 20][spill_chance.below(4) as usize],
            ..settings
        }
    }

    /// What confirms wait for in a life of the broker, of which this is the number.
    pub fn store_sync(&self, seed: u64, life: u32) -> StoreSync {
        let mut chance = SplitMix64::new(seed ^ u64::from(life) << 40 ^ 0x57AC);
        if !chance.permille(self.relaxed_permille) {
            return StoreSync::Always;
        }
        match chance.below(3) {
            0 => StoreSync::Never,
            _ => StoreSync::Later { interval_us: SYNC_INTERVALS_US[chance.below(3) as usize] },
        }
    }

    /// The disks keep what they are given.
    pub fn without_troubles(&mut self) {
        (self.error_permille, self.full_permille, self.damage_permille, self.unreadable_permille) = (0, 0, 0, 0);
        (self.lost_once_in, self.astray_once_in, self.flip_permille) = (0, 0, 0);
        (self.spill_error_permille, self.spill_full_permille) = (0, 0);
    }

    /// How the disks are while they have power. Half of the runs in which they become full say so before they are.
    pub fn disk_options(&self) -> DiskOptions {
        let good = DiskFaults { slow: self.slow_once_in, ..DiskFaults::default() };
        DiskOptions {
            messages: DiskFaults {
                lost_write: self.lost_once_in,
                misdirected_write: self.astray_once_in,
                lag_us_max: self.message_lag_us,
                ..good
            },
            definitions: DiskFaults { lag_us_max: self.journal_lag_us, ..good },
            scrub: (self.scrub_ms > 0).then_some(ScrubOptions {
                bytes_per_s: SCRUB_BYTES_PER_S,
                interval_us: u64::from(self.scrub_ms) * 1_000,
            }),
            free_limit: if self.full_permille.is_multiple_of(12) { 0 } else { SEGMENT_BYTES_MIN },
        }
    }

    /// How the next crash comes.
    pub fn draw_crash(&self, chance: &mut SplitMix64) -> CrashKind {
        if chance.permille(self.power_cut_permille) { CrashKind::PowerCut } else { CrashKind::Kill }
    }

    /// The number of shards of the next life, where it is not to be the old one.
    pub fn draw_reshard(&self, old: u16, chance: &mut SplitMix64) -> Option<ReshardPlan> {
        chance.permille(self.reshard_permille).then(|| ReshardPlan::draw(old, chance))
    }

    /// What happens until the next start.
    pub fn draw_restart(&self, chance: &mut SplitMix64) -> RestartPlan {
        let down_us = chance.below(DOWN_US_MAX);
        let damages = if chance.permille(self.damage_permille) { 1 + chance.below(DAMAGES_MAX) as u32 } else { 0 };
        RestartPlan {
            down_us,
            damages,
            is_unreadable: chance.permille(self.unreadable_permille),
            restores_backup: chance.permille(500),
            reshard: None,
        }
    }
}

impl Display for DurableSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let DurableSettings { definition_permille, message_permille, crash_permille, .. } = self;
        let DurableSettings { rest_crash_permille, power_cut_permille, slow_once_in, commit_crash_permille, .. } = self;
        writeln!(
            f,
            "durable: definitions {definition_permille}, messages {message_permille}; crashes: {crash_permille} of steps, \
             {commit_crash_permille} of those with a commit, {rest_crash_permille} of rests, {power_cut_permille} of them \
             power cuts; a request in {slow_once_in} is slow"
        )?;
        let DurableSettings { early_permille, journal_lag_us, stop_permille, error_permille, full_permille, .. } = self;
        let DurableSettings { damage_permille, unreadable_permille, lost_once_in, astray_once_in, .. } = self;
        let DurableSettings {
            reshard_permille,
            large_permille,
            focus,
            message_lag_us,
            scrub_ms,
            flip_permille,
            relaxed_permille,
            ..
        } = self;
        let DurableSettings { spill_error_permille, spill_full_permille, .. } = self;
        write!(
            f,
            "publishes to queues that are being declared: {early_permille}, definitions up to {journal_lag_us} us late, \
             messages {message_lag_us}; \
             stops: {stop_permille} of ends; disks: failures {error_permille} of steps, full {full_permille}, those for what leaves the memory {spill_error_permille} and \
             {spill_full_permille}; before starts: \
             damaged {damage_permille}, unreadable {unreadable_permille}; a write in {lost_once_in} is lost, one in \
             {astray_once_in} goes astray; another number of shards: {reshard_permille}; large messages: {large_permille}; \
             a scrub every {scrub_ms} ms, damage meanwhile {flip_permille} of steps; lives that do not always sync: \
             {relaxed_permille}; focus: {focus}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{CrashKind, DurableSettings};
    use splitmix::SplitMix64;

    #[test]
    fn seeds_draw_runs_with_and_without_crashes_of_both_kinds() {
        let drawn: Vec<_> = (0..200).map(DurableSettings::draw).collect();
        let count = |is: &dyn Fn(&DurableSettings) -> bool| drawn.iter().filter(|one| is(one)).count();
        for part in [
            count(&|one| one.crash_permille == 0),
            count(&|one| one.rest_crash_permille == 0),
            count(&|one| one.slow_once_in > 0),
            count(&|one| one.power_cut_permille == 1_000),
            count(&|one| one.stop_permille > 0),
            count(&|one| one.journal_lag_us > 0),
            count(&|one| one.error_permille > 0),
            count(&|one| one.full_permille > 0),
            count(&|one| one.damage_permille > 0),
            count(&|one| one.reshard_permille > 0),
            count(&|one| one.scrub_ms > 0),
            count(&|one| one.flip_permille > 0),
            count(&|one| one.relaxed_permille > 0),
            count(&|one| one.spill_error_permille > 0),
            count(&|one| one.spill_full_permille > 0),
        ] {
            assert!((25..150).contains(&part), "{part}");
        }
        for part in [
            count(&|one| one.unreadable_permille > 0),
            count(&|one| one.lost_once_in > 0),
            count(&|one| one.astray_once_in > 0),
        ] {
            assert!((10..70).contains(&part), "{part}");
        }
        let (only_cuts, mut chance) = (drawn.iter().find(|one| one.power_cut_permille == 1_000), SplitMix64::new(1));
        assert_eq!(only_cuts.map(|one| one.draw_crash(&mut chance)), Some(CrashKind::PowerCut));
    }

    #[test]
    fn one_run_in_three_has_disks_that_keep_what_they_were_given() {
        let drawn = (0..300).map(DurableSettings::draw);
        let sound = drawn.filter(|one| {
            one.error_permille
                + one.full_permille
                + one.spill_error_permille
                + one.spill_full_permille
                + one.damage_permille
                + one.lost_once_in
                + one.astray_once_in
                == 0
                && one.flip_permille == 0
        });
        assert!((100..180).contains(&sound.count()));
    }
}
