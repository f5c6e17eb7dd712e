//! Publishers that are ahead of their consumers and may not publish until their throttle time is over.

use crate::limits::THROTTLE_TIME;
use broker::ConnectionSlot;
use std::collections::VecDeque;
use std::time::Instant;

/// The throttled publishers of one shard, in the order in which their time is over.
#[derive(Default)]
pub(crate) struct PublisherThrottle {
    throttled: VecDeque<(Instant, ConnectionSlot)>,
}

impl PublisherThrottle {
    /// Throttles connections from now on.
    pub fn add(&mut self, slots: impl Iterator<Item = ConnectionSlot>, now: Instant) {
        self.throttled.extend(slots.map(|slot| (now + THROTTLE_TIME, slot)));
    }

    /// The next publisher whose time is over.
    pub fn next_expired(&mut self, now: Instant) -> Option<ConnectionSlot> {
        let &(until, slot) = self.throttled.front()?;
        if until > now {
            return None;
        }
        self.throttled.pop_front();
        Some(slot)
    }

    /// When the next publisher's time is over.
    pub fn next_at(&self) -> Option<Instant> {
        self.throttled.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::PublisherThrottle;
    use crate::limits::THROTTLE_TIME;
    use crate::test_clock::some_instant;
    use broker::ConnectionSlot;

    #[test]
    fn publishers_resume_in_order_after_their_time() {
        let start = some_instant();
        let later = start + THROTTLE_TIME / 2;
        let mut throttle = PublisherThrottle::default();
        assert_eq!((throttle.next_at(), throttle.next_expired(start)), (None, None));
        let [one, two, three] = [1, 2, 3].map(ConnectionSlot::new);
        throttle.add([three, one].into_iter(), start);
        throttle.add([two].into_iter(), later);
        assert_eq!((throttle.next_at(), throttle.next_expired(later)), (Some(start + THROTTLE_TIME), None));
        let expired =
            |throttle: &mut PublisherThrottle, now| std::iter::from_fn(|| throttle.next_expired(now)).collect();
        let first: Vec<_> = expired(&mut throttle, start + THROTTLE_TIME);
        let second: Vec<_> = expired(&mut throttle, later + THROTTLE_TIME);
        assert_eq!((first, second, throttle.next_at()), (vec![three, one], vec![two], None));
    }
}
