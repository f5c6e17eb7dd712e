//! Counts receives in posting order, to notice buffers that a device has not returned.
//!
//! Such a buffer is not reused on suspicion, because the device might still write to it.

/// Positions in posting order since the queue was made.
///
/// A device takes buffers in the order in which they were posted. If no queue pair is left to hold one, all buffers up
/// to the last that was returned must have been returned.
#[derive(Debug, Default)]
pub(super) struct ReceiveOrder {
    posted: u64,
    returned: u64,
    /// Positions up to the last that was returned.
    reached: u64,
}

impl ReceiveOrder {
    /// The position of a buffer that is posted now.
    pub fn on_posted(&mut self) -> u64 {
        self.posted += 1;
        self.posted - 1
    }

    pub fn on_returned(&mut self, turn: u64) {
        self.returned += 1;
        self.reached = self.reached.max(turn + 1);
    }

    /// Buffers before the last returned one that were not returned.
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
