//! The consumer timeout: channels whose deliveries wait too long for an acknowledgement are closed.

use crate::channels::Channels;
use crate::effects::Effects;
use catalog::Refusal;
use wire::ReplyCode;

/// How often the ledgers are checked within one timeout.
const CHECKS_PER_TIMEOUT: u64 = 8;

/// When the ledgers are checked next. Checkpoints of the tags of each channel spare deliveries a time of their own: a timeout is
/// late by an eighth at most.
pub(crate) struct AckTimeouts {
    timeout_ms: u64,
    next_us: u64,
}

impl AckTimeouts {
    /// Without a timeout if it is zero.
    pub fn new(timeout_ms: u64) -> Self {
        AckTimeouts { timeout_ms, next_us: 0 }
    }

    /// When the next check is due, if anything is unsettled.
    #[inline]
    pub fn next(&self, unsettled: usize) -> Option<u64> {
        (self.timeout_ms > 0 && unsettled > 0).then_some(self.next_us)
    }

    /// Checks the ledgers if it is time.
    pub fn check<E: Effects>(&mut self, channels: &mut Channels, now_us: u64, fx: &mut E) {
        if self.timeout_ms > 0 && now_us >= self.next_us {
            self.check_now(channels, now_us, fx);
        }
    }

    #[cold]
    fn check_now<E: Effects>(&mut self, channels: &mut Channels, now_us: u64, fx: &mut E) {
        let timeout_us = self.timeout_ms.saturating_mul(1_000);
        self.next_us = now_us + (timeout_us / CHECKS_PER_TIMEOUT).max(1_000);
        for channel in channels.iter_mut().filter(|channel| !channel.closing) {
            let Some(oldest) = channel.ledger.oldest() else {
                channel.tag_checkpoints.clear();
                continue;
            };
            let checkpoints = &mut channel.tag_checkpoints;
            while checkpoints.front().is_some_and(|&(_, last)| last < oldest) {
                checkpoints.pop_front();
            }
            if checkpoints.front().is_some_and(|&(at_us, _)| now_us >= at_us.saturating_add(timeout_us)) {
                let text = format!(
                    "PRECONDITION_FAILED - delivery acknowledgement on channel {} timed out. Timeout value used: {} ms. \
                     This timeout value can be configured, see consumers doc guide to learn more",
                    channel.number, self.timeout_ms
                );
                let refusal = Refusal::channel(ReplyCode::PreconditionFailed, text);
                fx.refuse(channel.slot, channel.number, refusal, (0, 0));
                checkpoints.clear();
                continue;
            }
            checkpoints.push_back((now_us, channel.ledger.last_tag()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AckTimeouts;
    use crate::channels::Channels;
    use crate::effects::Effects;
    use crate::ids::ConnectionSlot;
    use crate::ids::QueuePosition;
    use crate::ledger::UnsettledDelivery;
    use crate::message::Content;
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, ShardId};
    use wire::ChannelNumber;

    #[test]
    fn a_delivery_out_for_the_whole_timeout_closes_its_channel() {
        let mut timeouts = AckTimeouts::new(80);
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let key = channels.open(ConnectionSlot::new(1), ChannelNumber(1));
        let delivery = UnsettledDelivery {
            queue: QueueId { index: 0, serial: 0 },
            home: ShardId(0),
            position: QueuePosition(0),
            message: Content::EMPTY.keep(fx.pool()),
            consumer: None,
        };
        channels.get_mut(key).expect("open").ledger.assign_unsettled(delivery);
        assert_eq!((timeouts.next(0), timeouts.next(1)), (None, Some(0)));
        for now_us in [0, 10_000, 40_000, 79_999] {
            timeouts.check(&mut channels, now_us, &mut fx);
            assert_eq!(fx.take(), "", "at {now_us}");
        }
        timeouts.check(&mut channels, 89_999, &mut fx);
        assert!(fx.take().contains("Timeout value used: 80 ms"));
        assert_eq!(AckTimeouts::new(0).next(1), None);
    }
}
