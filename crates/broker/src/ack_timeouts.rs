//! The consumer timeout: channels whose deliveries wait too long for an acknowledgement are closed.

use crate::channel::Channel;
use crate::channels::Channels;
use crate::effects::Effects;
use crate::limits::{OVERDUE_CHANNEL_WORK, PLACES_PER_CHECK_WORK};
use catalog::Refusal;
use queues::WorkBudget;
use wire::ReplyCode;

/// How often the ledgers are checked within one timeout.
const CHECKS_PER_TIMEOUT: u64 = 8;

/// When the ledgers are checked next. Checkpoints of the tags of each channel spare deliveries a time of their own: a timeout is
/// late by an eighth at most, and by the turns that one check of all channels takes.
pub(crate) struct AckTimeouts {
    timeout_ms: u64,
    next_us: u64,
    /// The place in the table of channels where a check goes on that is not complete.
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
        (self.timeout_ms > 0 && unsettled > 0).then_some(self.next_us)
    }

    /// Whether a check is not complete: it goes on before time does.
    #[inline]
    pub fn is_checking(&self) -> bool {
        self.next_place.is_some()
    }

    /// Whether there is something to check now.
    #[inline]
    pub fn is_due(&self, now_us: u64) -> bool {
        self.timeout_ms > 0 && (now_us >= self.next_us || self.is_checking())
    }

    /// Checks ledgers as far as the budget of the turn allows, one channel at least.
    #[cold]
    pub fn check<E: Effects>(&mut self, channels: &mut Channels, work: &mut WorkBudget, now_us: u64, fx: &mut E) {
        let first = self.next_place.take().unwrap_or_else(|| {
            self.next_us = now_us + (self.timeout_us() / CHECKS_PER_TIMEOUT).max(1_000);
            0
        });
        let (places, mut free_places) = (channels.table().places(), 0);
        for place in first..places {
            let channel = channels.at_mut(place);
            match channel {
                Some(channel) => {
                    let is_overdue = !channel.closing && self.check_channel(channel, now_us, fx);
                    work.draw(if is_overdue { OVERDUE_CHANNEL_WORK } else { 1 });
                }
                None => {
                    free_places += 1;
                    if free_places % PLACES_PER_CHECK_WORK == 0 {
                        work.draw(1);
                    }
                }
            }
            if work.is_spent() && place + 1 < places {
                self.next_place = Some(place + 1);
                return;
            }
        }
    }

    fn timeout_us(&self) -> u64 {
        self.timeout_ms.saturating_mul(1_000)
    }

    /// Returns whether the channel is overdue, and refused.
    fn check_channel<E: Effects>(&self, channel: &mut Channel, now_us: u64, fx: &mut E) -> bool {
        let Some(oldest) = channel.ledger.oldest() else {
            channel.tag_checkpoints.clear();
            return false;
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
            return true;
        }
        checkpoints.push_back((now_us, channel.ledger.last_tag()));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{AckTimeouts, WorkBudget};
    use crate::channels::Channels;
    use crate::ids::{ChannelKey, ConnectionSlot};
    use crate::limits::{OVERDUE_CHANNEL_WORK, PLACES_PER_CHECK_WORK};
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, ShardId};
    use queues::{Content, QueuePosition, UnsettledDelivery};
    use wire::ChannelNumber;

    fn unsettled(channels: &mut Channels, number: u16, fx: &mut RecordedEffects) -> ChannelKey {
        let key = channels.open(ConnectionSlot::new(1), ChannelNumber(number));
        let delivery = UnsettledDelivery {
            queue: QueueId { index: 0, serial: 0 },
            home: ShardId(0),
            position: QueuePosition(0),
            message: Content::EMPTY.keep(&fx.pool),
            consumer: None,
        };
        channels.get_mut(key).expect("open").ledger.assign_unsettled(delivery);
        key
    }

    #[test]
    fn a_delivery_out_for_the_whole_timeout_closes_its_channel() {
        let mut timeouts = AckTimeouts::new(80);
        let mut channels = Channels::new(ShardId(0));
        let (mut fx, mut work) = (RecordedEffects::default(), WorkBudget::new(1_000));
        unsettled(&mut channels, 1, &mut fx);
        assert_eq!((timeouts.next(0), timeouts.next(1)), (None, Some(0)));
        for (now_us, is_due) in [(0, true), (9_999, false), (10_000, true), (40_000, true), (79_999, true)] {
            assert_eq!(timeouts.is_due(now_us), is_due, "at {now_us}");
            if is_due {
                timeouts.check(&mut channels, &mut work, now_us, &mut fx);
            }
            assert_eq!(fx.take(), "", "at {now_us}");
        }
        timeouts.check(&mut channels, &mut work, 89_999, &mut fx);
        assert!(fx.take().contains("Timeout value used: 80 ms"));
        let never = AckTimeouts::new(0);
        assert!(never.next(1).is_none() && !never.is_due(1));
    }

    /// Each channel is checked once, whatever the budget is; the next check is due when it was to be.
    #[test]
    fn a_check_of_many_channels_is_divided() {
        for budget in [1, 30, 10_000] {
            let (mut timeouts, mut channels) = (AckTimeouts::new(80), Channels::new(ShardId(0)));
            let mut fx = RecordedEffects::default();
            let keys: Vec<_> = (1..=300).map(|number| unsettled(&mut channels, number, &mut fx)).collect();
            // Others have gone, and left free places.
            let gone: Vec<_> = (0..300).map(|_| channels.open(ConnectionSlot::new(2), ChannelNumber(1))).collect();
            gone.iter().for_each(|&key| channels.remove(key));
            let mut check = |timeouts: &mut AckTimeouts, now_us| {
                let (mut work, mut turns) = (WorkBudget::new(budget), 0);
                while timeouts.is_due(now_us) {
                    work.start_turn();
                    timeouts.check(&mut channels, &mut work, now_us, &mut fx);
                    turns += 1;
                    assert!(timeouts.is_checking() == timeouts.is_due(now_us) && turns <= 400);
                }
                let most = u64::from(budget) + OVERDUE_CHANNEL_WORK as u64;
                assert!(work.most() <= most, "{} units in a turn", work.most());
                let checkpoints = |&key| channels.get(key).expect("open").tag_checkpoints.len();
                (turns, keys.iter().map(checkpoints).collect::<Vec<_>>())
            };
            let (turns, checkpoints) = check(&mut timeouts, 0);
            assert_eq!(checkpoints, [1; 300]);
            // As many turns as it must take, and free places cost little.
            let least = 300_usize.div_ceil(budget as usize);
            assert!((least..=least + 640 / PLACES_PER_CHECK_WORK).contains(&turns), "{turns} turns of {budget}");
            assert_eq!(timeouts.next(300), Some(10_000));
            assert_eq!(check(&mut timeouts, 10_000).1, [2; 300]);
            assert_eq!(check(&mut timeouts, 80_000).1, [0; 300], "all of them time out");
            assert_eq!(fx.take().matches("timed out").count(), 300);
        }
    }
}
