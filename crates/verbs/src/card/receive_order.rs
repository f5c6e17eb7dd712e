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
pub(super) struct ReceiveOrder {
    posted: u64,
    returned: u64,
    /// Turns up to the last that came back.
    reached: u64,
}

impl ReceiveOrder {
    /// The turn of a buffer that is posted.
    pub fn on_posted(&mut self) -> u64 {
        self.posted += 1;
        self.posted - 1
    }

    /// One came back.
    pub fn on_returned(&mut self, turn: u64) {
        self.returned += 1;
        self.reached = self.reached.max(turn + 1);
    }

    /// How many were passed over, as far as can be seen.
    pub fn missing(&self) -> u64 {
        self.reached - self.returned
    }
}

#[cfg(test)]
mod tests {
    use super::ReceiveOrder;

    #[test]
    fn a_turn_that_is_passed_over_is_missing_until_it_comes_back() {
        let mut turns = ReceiveOrder::default();
        let all: Vec<_> = (0..5).map(|_| turns.on_posted()).collect();
        turns.on_returned(all[0]);
        assert_eq!(turns.missing(), 0);
        turns.on_returned(all[3]);
        assert_eq!(turns.missing(), 2);
        turns.on_returned(all[1]);
        turns.on_returned(all[2]);
        assert_eq!(turns.missing(), 0);
    }
}
