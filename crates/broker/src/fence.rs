//! A fence: a connection that is about to leave its shard asks all others to have carried out what this shard has sent them.
//!
//! Mail between two shards keeps its order, and what is held back there is held back in its order. Once every shard has answered,
//! nothing that the connection has caused is under way, and what it does from elsewhere comes later.

use catalog::{SessionId, ShardId};

/// Names a fence among those of all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FenceId {
    pub session: SessionId,
    pub number: u32,
}

/// The fence of a connection.
pub(crate) struct Fence {
    number: u32,
    /// Answers that are missing.
    missing: u16,
    /// Where the connection is about to go, and the changes of definitions that this shard had made when it answered.
    to: ShardId,
    version: u64,
}

impl Fence {
    /// A fence that other shards, so many, are asked for.
    pub fn new(number: u32, others: u16, to: ShardId) -> Self {
        Fence { number, missing: others, to, version: 0 }
    }

    /// A shard has answered.
    pub fn answer(&mut self, number: u32, from: ShardId, version: u64) {
        if number != self.number {
            return;
        }
        self.missing = self.missing.saturating_sub(1);
        if from == self.to {
            self.version = version;
        }
    }

    /// The changes of definitions that the shard where the connection is about to go has made, once all have answered.
    pub fn reached(&self) -> Option<u64> {
        (self.missing == 0).then_some(self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::Fence;
    use catalog::ShardId;

    #[test]
    fn a_fence_is_reached_once_every_shard_has_answered_it_and_no_earlier_one() {
        let mut fence = Fence::new(7, 2, ShardId(2));
        for (number, from) in [(6, 1), (6, 2), (7, 1)] {
            fence.answer(number, ShardId(from), 40);
            assert_eq!(fence.reached(), None);
        }
        fence.answer(7, ShardId(2), 41);
        assert_eq!(fence.reached(), Some(41));
    }
}
