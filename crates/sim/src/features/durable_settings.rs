//! The settings of a run whose broker has a store: how durable its definitions and messages are, how its disk is, when it
//! crashes.

use crate::broker_disks::CrashKind;
use disk::DiskFaults;
use link::sim::SplitMix64;
use std::fmt::{self, Display, Formatter};

/// What is drawn for a run with a store alone.
#[derive(Clone, Copy, Debug)]
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
}

impl DurableSettings {
    /// The settings of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0xD15C);
        let mut one_of = |values: [u32; 4]| values[chance.below(4) as usize];
        DurableSettings {
            definition_permille: one_of([500, 800, 800, 1_000]),
            message_permille: one_of([500, 800, 800, 1_000]),
            crash_permille: one_of([0, 3, 8, 25]),
            rest_crash_permille: one_of([0, 300, 600, 1_000]),
            power_cut_permille: one_of([0, 500, 500, 1_000]),
            slow_once_in: one_of([0, 0, 300, 40]),
        }
    }

    /// What goes wrong with the disk while it has power.
    pub fn disk_faults(&self) -> DiskFaults {
        DiskFaults { slow: self.slow_once_in, ..DiskFaults::default() }
    }

    /// How the next crash comes.
    pub fn draw_crash(&self, chance: &mut SplitMix64) -> CrashKind {
        if chance.permille(self.power_cut_permille) { CrashKind::PowerCut } else { CrashKind::Kill }
    }
}

impl Display for DurableSettings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let DurableSettings { definition_permille, message_permille, crash_permille, .. } = self;
        let DurableSettings { rest_crash_permille, power_cut_permille, slow_once_in, .. } = self;
        write!(
            f,
            "durable: definitions {definition_permille}, messages {message_permille}; crashes: {crash_permille} of steps, \
             {rest_crash_permille} of rests, {power_cut_permille} of them power cuts; a request in {slow_once_in} is slow"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{CrashKind, DurableSettings};
    use link::sim::SplitMix64;

    #[test]
    fn seeds_draw_runs_with_and_without_crashes_of_both_kinds() {
        let drawn: Vec<_> = (0..200).map(DurableSettings::draw).collect();
        let count = |is: &dyn Fn(&DurableSettings) -> bool| drawn.iter().filter(|one| is(one)).count();
        for part in [
            count(&|one| one.crash_permille == 0),
            count(&|one| one.rest_crash_permille == 0),
            count(&|one| one.slow_once_in > 0),
            count(&|one| one.power_cut_permille == 1_000),
        ] {
            assert!((25..150).contains(&part), "{part}");
        }
        let (only_cuts, mut chance) = (drawn.iter().find(|one| one.power_cut_permille == 1_000), SplitMix64::new(1));
        assert_eq!(only_cuts.map(|one| one.draw_crash(&mut chance)), Some(CrashKind::PowerCut));
    }
}
