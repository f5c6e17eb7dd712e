//! The consumer timeout: channels whose deliveries wait too long for an acknowledgement are closed.

use crate::channel::Channel;
use crate::channels::Channels;
use crate::effects::Effects;
use crate::work_budget::WorkBudget;
use catalog::Refusal;
use wire::ReplyCode;

/// How often the ledgers are checked within one timeout.
const CHECKS_PER_TIMEOUT: u64 = 8;

/// When the ledgers are checked next. Checkpoints of the tags of each channel spare deliveries a time of their own: a timeout is
/// late by an eighth at most, and by the turns that one check of all channels takes.
pub(crate) struct AckTimeouts {
    timeout_ms: u64,
    next_us: u64,
    /// The place of the channel at which a check goes on that has begun.
    next_place: Option<usize>,
}

impl AckTimeouts {
    /// Without a timeout if it is zero.
    pub fn new(timeout_ms: u64) -> Self {
        AckTimeouts { timeout_ms, next_us: 0, next_place: None }
    }

    /// When the next check is due, if anything is unsettled.
    #[inline]
    pub fn next(&self, unsettled: usize) -> Option<u64> {
        let next_us = if self.next_place.is_some() { 0 } else { self.next_us };
        (self.timeout_ms > 0 && unsettled > 0).then_some(next_us)
    }

    /// Checks the ledgers if it is time, as far as the budget of the turn allows; one place at least.
    pub fn check<E: Effects>(&mut self, channels: &mut Channels, work: &mut WorkBudget, now_us: u64, fx: &mut E) {
        if self.timeout_ms > 0 && (now_us >= self.next_us || self.next_place.is_some()) {
            self.check_some(channels, work, now_us, fx);
        }
    }

    #[cold]
    fn check_some<E: Effects>(&mut self, channels: &mut Channels, work: &mut WorkBudget, now_us: u64, fx: &mut E) {
        let first = self.next_place.take().unwrap_or_else(|| {
            self.next_us = now_us + (self.timeout_us() / CHECKS_PER_TIMEOUT).max(1_000);
            0
        });
        for place in first..channels.table().places() {
            if place > first && work.is_spent() {
                self.next_place = Some(place);
                return;
            }
            work.draw(1);
            if let Some(channel) = channels.at_mut(place).filter(|channel| !channel.closing) {
                self.check_channel(channel, now_us, fx);
            }
        }
    }

    fn timeout_us(&self) -> u64 {
        self.timeout_ms.saturating_mul(1_000)
    }

    fn check_channel<E: Effects>(&self, channel: &mut Channel, now_us: u64, fx: &mut E) {
        let Some(oldest) = channel.ledger.oldest() else {
            channel.tag_checkpoints.clear();
            return;
        };
        let checkpoints = &mut channel.tag_checkpoints;
        while checkpoints.front().is_some_and(|&(_, last)| last < oldest) {
            checkpoints.pop_front();
        }
        if checkpoints.front().is_some_and(|&(at_us, _)| now_us >= at_us.saturating_add(self.timeout_us())) {
            let text = format!(
                "PRECONDITION_FAILED - delivery acknowledgement on channel {} timed out. Timeout value used: {} ms. \
                 This timeout value can be configured, see consumers doc guide to learn more",
                channel.number, self.timeout_ms
            );
            let refusal = Refusal::channel(ReplyCode::PreconditionFailed, text);
            fx.refuse(channel.slot, channel.number, refusal, (0, 0));
            checkpoints.clear();
            return;
        }
        checkpoints.push_back((now_us, channel.ledger.last_tag()));
    }
}

#[cfg(test)]
mod tests {
    use super::{AckTimeouts, WorkBudget};
    use crate::channels::Channels;
    use crate::effects::Effects;
    use crate::ids::ConnectionSlot;
    use crate::ids::QueuePosition;
    use crate::ledger::UnsettledDelivery;
    use crate::message::Content;
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, ShardId};
    use wire::ChannelNumber;

    fn delivery(fx: &mut RecordedEffects) -> UnsettledDelivery {
        UnsettledDelivery {
            queue: QueueId { index: 0, serial: 0 },
            home: ShardId(0),
            position: QueuePosition(0),
            message: Content::EMPTY.keep(fx.pool()),
            consumer: None,
        }
    }

    #[test]
    fn a_delivery_out_for_the_whole_timeout_closes_its_channel() {
        let mut timeouts = AckTimeouts::new(80);
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let key = channels.open(ConnectionSlot::new(1), ChannelNumber(1));
        channels.get_mut(key).expect("open").ledger.assign_unsettled(delivery(&mut fx));
        assert_eq!((timeouts.next(0), timeouts.next(1)), (None, Some(0)));
        for now_us in [0, 10_000, 40_000, 79_999] {
            timeouts.check(&mut channels, &mut WorkBudget::new(1_000_000), now_us, &mut fx);
            assert_eq!(fx.take(), "", "at {now_us}");
        }
        timeouts.check(&mut channels, &mut WorkBudget::new(1_000_000), 89_999, &mut fx);
        assert!(fx.take().contains("Timeout value used: 80 ms"));
        assert_eq!(AckTimeouts::new(0).next(1), None);
    }

    /// Many channels are checked in several turns, each of them once, and the next check is due when it was to be.
    #[test]
    fn a_check_of_many_channels_is_divided() {
        let (mut timeouts, mut channels) = (AckTimeouts::new(80), Channels::new(ShardId(0)));
        let mut fx = RecordedEffects::default();
        let keys: Vec<_> = (1..=100)
            .map(|number| {
                let key = channels.open(ConnectionSlot::new(1), ChannelNumber(number));
                channels.get_mut(key).expect("open").ledger.assign_unsettled(delivery(&mut fx));
                key
            })
            .collect();
        let mut check = |timeouts: &mut AckTimeouts, from_us: u64| {
            let (mut work, mut turns) = (WorkBudget::new(30), 0);
            while timeouts.next(100).expect("something is unsettled") <= from_us + turns {
                work.start_turn();
                timeouts.check(&mut channels, &mut work, from_us + turns, &mut fx);
                turns += 1;
                assert!(work.most() <= 30, "{} units in a turn", work.most());
            }
            (turns, keys.iter().map(|&key| channels.get(key).expect("open").tag_checkpoints.len()).collect::<Vec<_>>())
        };
        let (turns, checkpoints) = check(&mut timeouts, 0);
        assert!(turns > 3 && checkpoints == [1; 100], "{turns} turns, {checkpoints:?}");
        assert_eq!(timeouts.next(100), Some(10_000));
        let (_, checkpoints) = check(&mut timeouts, 10_000);
        assert_eq!(checkpoints, [2; 100]);
        let (_, checkpoints) = check(&mut timeouts, 80_200);
        assert_eq!(checkpoints, [0; 100], "all of them time out");
        assert_eq!(fx.take().matches("timed out").count(), 100);
    }
}
