//! Whether a group that somebody waits for is held back, because those who were told of the last one are about to append more.
//!
//! A publisher that limits its unconfirmed messages sends as many again as were confirmed. Written at once, what it had in
//! flight beside the last group is a group of its own: the two take turns, each half as large as it could be, and system calls
//! and wake-ups cost a small group as much as a large one. So a group waits for most of what is expected, but no longer than
//! the last write took: were it longer, two small groups would be as fast as a large one.
//!
//! Enters: when groups are written and durable, how much is appended.  Leaves: until when the next one is held back.

use crate::limits::{HELD_ENTRIES_MIN, HOLD_MISS_COST, HOLD_SCORE_MAX, HOLD_SHARE};

/// What is expected of those who were told of a group.
struct ExpectedEntries {
    /// Once there is an entry of this number, most of it has come.
    last: u64,
    until_us: u64,
}

#[derive(Default)]
pub(super) struct GroupHold {
    /// When the last write was asked for.
    asked_us: u64,
    expected: Option<ExpectedEntries>,
    /// How often what was expected came in time, lately.
    score: u8,
}

impl GroupHold {
    /// A group is written, where this is the last entry there has been.
    pub fn on_write(&mut self, now_us: u64, last: u64) {
        self.asked_us = now_us;
        // What is not held back has until this write is complete.
        if self.is_trusted() {
            self.judge(last);
        }
    }

    /// A group is durable, and with it so many entries, where this is the last one there has been.
    pub fn on_durable(&mut self, now_us: u64, entries: u64, last: u64) {
        self.judge(last);
        self.expected = (entries >= HELD_ENTRIES_MIN).then(|| ExpectedEntries {
            last: last + entries * HOLD_SHARE.0 / HOLD_SHARE.1,
            until_us: now_us + now_us.saturating_sub(self.asked_us),
        });
    }

    /// Until when the next group is held back, unless more is appended; `None` if it is not.
    pub fn until_us(&self, last: u64) -> Option<u64> {
        let expected = self.expected.as_ref().filter(|expected| last < expected.last && self.is_trusted())?;
        Some(expected.until_us)
    }

    fn is_trusted(&self) -> bool {
        self.score >= HOLD_MISS_COST
    }

    fn judge(&mut self, last: u64) {
        let Some(expected) = self.expected.take() else { return };
        self.score = match last >= expected.last {
            true => (self.score + 1).min(HOLD_SCORE_MAX),
            false => self.score.saturating_sub(HOLD_MISS_COST),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::GroupHold;
    use crate::limits::{HELD_ENTRIES_MIN, HOLD_MISS_COST};

    const GROUP: u64 = 4 * HELD_ENTRIES_MIN;

    /// A group of `GROUP` entries that takes 100 us from `now_us` on, while `meanwhile` others are appended.
    fn write(hold: &mut GroupHold, now_us: u64, last: u64, meanwhile: u64) -> u64 {
        hold.on_write(now_us, last);
        hold.on_durable(now_us + 100, GROUP, last + meanwhile);
        last + meanwhile
    }

    /// One whose publishers have come back a few times.
    fn trusted() -> (GroupHold, u64) {
        let mut hold = GroupHold::default();
        let mut last = GROUP;
        for round in 0..=u64::from(HOLD_MISS_COST) {
            assert_eq!(hold.until_us(last), None, "nothing is known of its publishers");
            last = write(&mut hold, 1_000 * round, last, GROUP);
        }
        (hold, last)
    }

    #[test]
    fn a_group_waits_for_most_of_what_was_confirmed_and_as_long_as_the_last_write_took() {
        let (hold, last) = trusted();
        let until_us = 1_000 * u64::from(HOLD_MISS_COST) + 200;
        assert_eq!(hold.until_us(last), Some(until_us));
        assert_eq!(hold.until_us(last + GROUP / 2), Some(until_us));
        assert_eq!(hold.until_us(last + GROUP), None);
    }

    #[test]
    fn publishers_that_do_not_come_back_are_not_waited_for_again() {
        let (mut hold, last) = trusted();
        assert!(hold.until_us(last).is_some());
        let last = write(&mut hold, 10_000, last + 1, 0);
        assert_eq!(hold.until_us(last), None);
    }

    #[test]
    fn small_groups_are_not_held_back() {
        let (mut hold, last) = trusted();
        hold.on_write(10_000, last + GROUP);
        hold.on_durable(10_100, HELD_ENTRIES_MIN - 1, last + GROUP);
        assert_eq!(hold.until_us(last + GROUP), None);
    }
}
