//! Whose turn it was in the shared receive queue: what tells of buffers that a device has forgotten.
//!
//! Enters: buffers posted, buffers that came back.  Leaves: the suspicion that some never will.
//! Owns:   counts.
//! Never:  gives a buffer back by suspicion: the device might still write to it.

/// Turns since the queue was made.
///
/// A device takes buffers in the order in which they were posted. When no queue pair is left to hold one, all up to the
/// last that came back must have come back.
#[derive(Debug, Default)]
pub(super) struct Turns {
    posted: u64,
    back: u64,
    /// Turns up to the last that came back.
    reached: u64,
}

impl Turns {
    /// The turn of a buffer that is posted.
    pub fn next(&mut self) -> u64 {
        self.posted += 1;
        self.posted - 1
    }

    /// One came back.
    pub fn back(&mut self, turn: u64) {
        self.back += 1;
        self.reached = self.reached.max(turn + 1);
    }

    /// How many were passed over, as far as can be seen.
    pub fn missing(&self) -> u64 {
        self.reached - self.back
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn a_turn_that_is_passed_over_is_missing_until_it_comes_back() {
        let mut turns = Turns::default();
        let all: Vec<_> = (0..5).map(|_| turns.next()).collect();
        turns.back(all[0]);
        assert_eq!(turns.missing(), 0);
        turns.back(all[3]);
        assert_eq!(turns.missing(), 2);
        turns.back(all[1]);
        turns.back(all[2]);
        assert_eq!(turns.missing(), 0);
    }
}
