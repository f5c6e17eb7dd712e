//! Counts of what happens to the messages of queues. Whoever reads them adds up the shards.

use crate::dead_letter_reason::DeadLetterReason;

/// What has happened to the messages of a queue, on the shard where it lives.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct QueueStats {
    /// Messages that it has accepted, dead letters and delayed ones too.
    pub publish: u64,
    /// Messages that left it for a consumer that acknowledges, and for others. One that is on its way to another shard counts.
    pub deliver: u64,
    pub deliver_no_ack: u64,
    pub get: u64,
    pub get_no_ack: u64,
    pub get_empty: u64,
    pub redeliver: u64,
    pub ack: u64,
    /// Of those that left it, messages that returned before a client had them.
    pub returned_unseen: u64,
}

/// Messages that died, by [`DeadLetterReason`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DeathStats([u64; 4]);

impl DeathStats {
    #[inline]
    pub fn add(&mut self, reason: DeadLetterReason, messages: u64) {
        self.0[reason as usize] += messages;
    }

    /// For all reasons.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub fn of(&self, reason: DeadLetterReason) -> u64 {
        self.0[reason as usize]
    }
}

impl QueueStats {
    /// All messages that left it for a client.
    pub fn delivered(&self) -> u64 {
        self.deliver + self.deliver_no_ack + self.get + self.get_no_ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_are_counted_by_their_reason() {
        let mut deaths = DeathStats::default();
        deaths.add(DeadLetterReason::MaxLength, 2);
        assert_eq!((deaths.of(DeadLetterReason::MaxLength), deaths.of(DeadLetterReason::Expired)), (2, 0));
    }
}
