//! What is planned for a change of the number of shards: how many there are to be, and what goes wrong meanwhile.

use splitmix::SplitMix64;
use store::limits::SEGMENT_BYTES_MIN;

/// Most shards that a broker gets.
const SHARDS_MAX: u64 = 4;

/// When the process is killed that writes the store anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillMoment {
    /// So many of the old logs are copied.
    Copied(usize),
    /// All messages are durable, and no definitions.
    BeforeDefinitions,
    /// Everything is durable, and the old store still counts.
    BeforeSwitch,
}

/// What becomes of writing a store anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReshardOutcome {
    /// The new store takes the place of the old one; perhaps the power fails then.
    Done { power_fails: bool },
    /// The old one still counts.
    Killed(KillMoment),
    /// A new disk cannot be written, or has too little space.
    Unwritable { disk: usize, space: Option<u64> },
}

/// The number of shards changes before a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReshardPlan {
    pub shards: u16,
    pub outcome: ReshardOutcome,
}

impl ReshardPlan {
    /// Another number for a broker that has so many, and what happens meanwhile.
    pub fn draw(old: u16, chance: &mut SplitMix64) -> Self {
        let shards = (1 + (u64::from(old) + chance.below(SHARDS_MAX - 1)) % SHARDS_MAX) as u16;
        let outcome = match chance.below(8) {
            0 => ReshardOutcome::Killed(KillMoment::Copied(chance.below(u64::from(old)) as usize)),
            1 => ReshardOutcome::Killed(KillMoment::BeforeDefinitions),
            2 => ReshardOutcome::Killed(KillMoment::BeforeSwitch),
            3 => {
                let space = chance.permille(500).then(|| chance.below(4) * SEGMENT_BYTES_MIN);
                ReshardOutcome::Unwritable { disk: chance.below(u64::from(shards) + 1) as usize, space }
            }
            roll => ReshardOutcome::Done { power_fails: roll % 2 == 0 },
        };
        ReshardPlan { shards, outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReshardOutcome, ReshardPlan, SHARDS_MAX};
    use splitmix::SplitMix64;

    #[test]
    fn the_number_is_another_one_and_half_of_the_stores_are_written() {
        let mut chance = SplitMix64::new(1);
        for old in 1..=SHARDS_MAX as u16 {
            let plans: Vec<_> = (0..400).map(|_| ReshardPlan::draw(old, &mut chance)).collect();
            assert!(plans.iter().all(|plan| plan.shards != old && (1..=SHARDS_MAX).contains(&plan.shards.into())));
            let done = plans.iter().filter(|plan| matches!(plan.outcome, ReshardOutcome::Done { .. })).count();
            assert!((150..250).contains(&done), "{done} of {old}");
        }
    }
}
