//! How many of the small messages that a connection publishes go to one other shard, counted as they are sent.

use crate::limits::INLINE_BODY_BYTES_MAX;
use catalog::ShardId;

/// Publishes that were each sent to one queue of another shard since this was last taken. Those to the last such shard count: for
/// who alternates it is few.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MailTally {
    /// The shard, if there were any.
    pub to: Option<ShardId>,
    /// Those that went there, after the last that went elsewhere.
    pub messages: u64,
    /// All publishes.
    pub published: u64,
}

impl MailTally {
    /// Publishes with bodies of one size were sent to a shard. Large bodies travel in shared memory, and cost their publisher least
    /// where he is.
    #[inline]
    pub fn note(&mut self, to: ShardId, messages: u64, body_bytes: usize) {
        if body_bytes > INLINE_BODY_BYTES_MAX {
            return;
        }
        if self.to != Some(to) {
            (self.to, self.messages) = (Some(to), 0);
        }
        self.messages += messages;
    }
}

#[cfg(test)]
mod tests {
    use super::MailTally;
    use crate::limits::INLINE_BODY_BYTES_MAX;
    use catalog::ShardId;

    #[test]
    fn small_messages_to_the_last_shard_count() {
        let mut tally = MailTally::default();
        tally.note(ShardId(1), 5, 1);
        tally.note(ShardId(2), 3, INLINE_BODY_BYTES_MAX);
        tally.note(ShardId(2), 1, INLINE_BODY_BYTES_MAX + 1);
        tally.note(ShardId(2), 1, 0);
        assert_eq!((tally.to, tally.messages), (Some(ShardId(2)), 4));
    }
}
