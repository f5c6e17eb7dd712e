//! How many messages of a stream are under way between its publisher and its consumer.

use serde::{Deserialize, Serialize};

/// Grants for each window: the publisher goes on while most of the window is still under way.
const GRANTS_PER_WINDOW: u64 = 4;

/// The most messages that are published and not received yet. The consumer tells the publisher of each quarter that has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryWindow {
    /// Zero: no limit.
    pub messages: u64,
}

impl DeliveryWindow {
    /// Whether there is a limit.
    #[inline]
    pub fn is_limited(self) -> bool {
        self.messages > 0
    }

    /// Messages that one grant stands for.
    #[inline]
    fn messages_per_grant(self) -> u64 {
        (self.messages / GRANTS_PER_WINDOW).max(1)
    }

    /// Whether the consumer sends a grant once it has so many of `count` messages. The last message is answered without one.
    #[inline]
    pub fn grants_at(self, received: u64, count: u64) -> bool {
        self.is_limited() && received < count && received.is_multiple_of(self.messages_per_grant())
    }

    /// Grants for so many messages.
    pub fn grants_by(self, received: u64) -> u64 {
        if self.is_limited() { received / self.messages_per_grant() } else { 0 }
    }

    /// Grants of a whole segment.
    pub fn grants(self, count: u64) -> u64 {
        self.grants_by(count.saturating_sub(1))
    }

    /// Messages that may be published now.
    pub fn room(self, published: u64, grants: u64) -> u64 {
        if !self.is_limited() {
            return u64::MAX;
        }
        self.messages.saturating_sub(published.saturating_sub(grants * self.messages_per_grant()))
    }
}

#[cfg(test)]
mod tests {
    use super::DeliveryWindow;

    /// A publisher that sends whatever it may and a consumer that grants what it must.
    fn check(messages: u64, count: u64) {
        let window = DeliveryWindow { messages };
        let (mut published, mut received, mut grants) = (0, 0, 0);
        while received < count {
            let now = window.room(published, grants).min(count - published);
            published += now;
            assert!(received < published, "{messages} of {count}: stuck with {received}");
            assert!(
                published - received <= messages,
                "{messages} of {count}: {published} published, {received} received"
            );
            received += 1;
            grants += u64::from(window.grants_at(received, count));
        }
        assert_eq!((published, grants), (count, window.grants(count)), "{messages} of {count}");
    }

    #[test]
    fn no_more_are_under_way_and_all_arrive() {
        for messages in [1, 2, 3, 4, 5, 7, 16, 64, 512] {
            for count in [1, 2, 3, 4, 5, 15, 16, 17, 100, 1_000] {
                check(messages, count);
            }
        }
    }

    #[test]
    fn without_a_limit_nothing_is_granted() {
        let none = DeliveryWindow::default();
        assert_eq!((none.room(1 << 40, 0), none.grants(1_000), none.grants_at(4, 100)), (u64::MAX, 0, false));
    }
}
