//! The budget of work of a turn: how much one connection, or what was left of earlier turns, may do before others have theirs.
//!
//! Bytes alone bound nothing: twelve small frames can ask for millions of copies. Every loop over what a client can make long
//! draws on the budget for what it does, and leaves the rest for a later turn when the budget is spent.

use crate::limits::WORK_GRACE_DIVISOR;

/// The work that a turn may still do. A unit is about 100 ns: a message added to a queue or delivered, a delivery settled, a
/// consumer looked at or removed, a binding compared.
#[derive(Debug)]
pub struct WorkBudget {
    per_turn: u32,
    left: i64,
    /// The most that a turn has done.
    most: u64,
    /// What all turns before this one have done.
    done: u64,
    /// How often this turn has done beyond its budget what could not wait.
    exceptions: usize,
}

impl WorkBudget {
    pub fn new(per_turn: u32) -> Self {
        WorkBudget { per_turn, left: per_turn.into(), most: 0, done: 0, exceptions: 0 }
    }

    /// A turn begins.
    #[inline]
    pub fn start_turn(&mut self) {
        self.most = self.most();
        self.done = self.done();
        self.left = self.per_turn.into();
        self.exceptions = 0;
    }

    /// Whether the turn may once more do beyond its budget what cannot wait: so often in all.
    pub fn allow_exception(&mut self, exceptions_max: usize) -> bool {
        self.exceptions += 1;
        self.exceptions <= exceptions_max
    }

    /// Work was done.
    #[inline]
    pub fn draw(&mut self, units: usize) {
        self.left -= units as i64;
    }

    /// Whether the rest must wait for another turn.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.left <= 0
    }

    /// How many times so many units may be drawn on end before the budget is spent, the last of them included.
    #[inline]
    pub fn room_for(&self, units: usize) -> usize {
        usize::try_from(self.left).unwrap_or(0).checked_div(units).unwrap_or(0)
    }

    /// What is left of the budget: at least one unit, so that whatever has a turn goes on.
    #[inline]
    pub fn left(&self) -> u64 {
        u64::try_from(self.left).map_or(1, |left| left.max(1))
    }

    /// Work that is rather done beyond the budget than left for another turn.
    #[inline]
    pub fn grace(&self) -> usize {
        (self.per_turn / WORK_GRACE_DIVISOR) as usize
    }

    /// Work done since the start.
    #[inline]
    pub fn done(&self) -> u64 {
        self.done + (i64::from(self.per_turn) - self.left).unsigned_abs()
    }

    /// The most work that a turn has done.
    #[inline]
    pub fn most(&self) -> u64 {
        self.most.max((i64::from(self.per_turn) - self.left).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::WorkBudget;

    #[test]
    fn a_turn_ends_when_its_budget_is_spent_and_the_most_is_remembered() {
        let mut work = WorkBudget::new(64);
        assert_eq!((work.is_spent(), work.grace(), work.most()), (false, 2, 0));
        assert_eq!([1, 3, 64, 65, 0].map(|units| work.room_for(units)), [64, 21, 1, 0, 0]);
        work.draw(63);
        assert!(!work.is_spent());
        work.draw(7);
        assert!(work.is_spent() && work.room_for(1) == 0);
        work.start_turn();
        assert_eq!((work.is_spent(), work.most()), (false, 70));
        work.draw(64);
        assert_eq!((work.is_spent(), work.most(), work.done()), (true, 70, 134));
        for _ in 0..2 {
            assert_eq!([(); 3].map(|()| work.allow_exception(2)), [true, true, false]);
            work.start_turn();
        }
    }
}
