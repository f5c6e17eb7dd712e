//! Messages of a shard's store that cannot be read while the broker runs.

use catalog::QueueUid;
use std::fmt;
use store::MessageDamage;

/// Messages that cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct StoreDamage {
    damage: MessageDamage,
    /// Their queue wants them now.
    is_wanted: bool,
    /// The spill log should have had them.
    is_spilled: bool,
}

impl StoreDamage {
    /// The number of their queue.
    pub fn queue(&self) -> Option<QueueUid> {
        QueueUid::new(self.damage.queue.0)
    }

    /// Whether their queue wants them now: of another one they may be in memory.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    pub(crate) fn wanted(damage: MessageDamage) -> Self {
        StoreDamage { damage, is_wanted: true, is_spilled: false }
    }

    pub(crate) fn unwanted(damage: MessageDamage) -> Self {
        StoreDamage { is_wanted: false, ..StoreDamage::wanted(damage) }
    }

    pub(crate) fn spilled(self) -> Self {
        StoreDamage { is_spilled: true, ..self }
    }
}

impl fmt::Display for StoreDamage {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.is_spilled { "the spill log: " } else { "" })?;
        self.damage.fmt(to)
    }
}
