//! What is planned for the time between two lives of a broker with a store.

use crate::reshard_plan::ReshardPlan;

/// What happens to the disks of a broker between two of its lives.
#[derive(Clone, Copy, Default, Debug)]
pub struct RestartPlan {
    /// For how many microseconds it is down.
    pub down_us: u64,
    /// Places that are damaged.
    pub damages: u32,
    /// The first start cannot read the disks.
    pub is_unreadable: bool,
    /// A start that was refused is repeated with a backup.
    pub restores_backup: bool,
    /// Another number of shards, which a store that is damaged gets when it is written anew without what is damaged.
    pub reshard: Option<ReshardPlan>,
}
