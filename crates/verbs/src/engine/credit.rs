//! Credits, both ways: how many messages each end of a connection may still send.
//!
//! Enters: messages sent, messages received, buffers that are free again.  Leaves: whether one may send, what to return.
//! Owns:   the counts. What an end may send, what is under way or unread, and what is owed add up to what was promised.
//! Never:  sends anything.

use crate::fault::ConnectionFault;
use crate::limits::RESERVE_CREDITS;

/// The counts of one connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreditWindow {
    /// What the peer promised us in the beginning.
    window: u16,
    /// Messages we may send.
    left: u16,
    /// What the peer has returned in all, modulo 2^16.
    returned_by_peer: u16,
    /// What we promised the peer in the beginning.
    promised: u16,
    /// Messages the peer may send, by what we have told it.
    peer_left: u16,
    /// Buffers that are free again, which the peer does not know yet.
    owed: u16,
    /// What we have returned in all, modulo 2^16.
    returned: u16,
    /// Something that must not wait for the stream is owed.
    urgent: bool,
}

impl CreditWindow {
    pub fn new(window: u16, promised: u16) -> Self {
        CreditWindow { window, left: window, returned_by_peer: 0, promised, peer_left: promised, owed: 0, returned: 0, urgent: false }
    }

    /// Messages we may send.
    pub fn left(&self) -> u16 {
        self.left
    }

    /// Credits that the next header returns.
    pub fn owed(&self) -> u16 {
        self.owed
    }

    /// Messages of the peer that were received and are not free again.
    pub fn unread(&self) -> u16 {
        self.promised - self.peer_left - self.owed
    }

    /// What we promised the peer.
    pub fn promised(&self) -> u16 {
        self.promised
    }

    /// A message goes out: uses a credit, and answers what its header returns.
    pub fn use_for_send(&mut self) -> u16 {
        assert!(self.left > 0, "a message beyond our credit");
        self.left -= 1;
        self.returned = self.returned.wrapping_add(self.owed);
        self.peer_left += self.owed;
        self.owed = 0;
        self.urgent = false;
        self.returned
    }

    /// A message came in.
    pub fn on_receive(&mut self) -> Result<(), ConnectionFault> {
        self.peer_left = self.peer_left.checked_sub(1).ok_or(ConnectionFault::CreditExceeded)?;
        Ok(())
    }

    /// Its header says that the peer has returned so much in all. Answers whether that is more than before.
    pub fn on_returned(&mut self, returned: u16) -> Result<bool, ConnectionFault> {
        let more = returned.wrapping_sub(self.returned_by_peer);
        if more > self.window - self.left {
            return Err(ConnectionFault::CreditOverReturned);
        }
        self.left += more;
        self.returned_by_peer = returned;
        Ok(more > 0)
    }

    /// A buffer is free again. `urgent`: the peer may need this one although its stream stands still.
    pub fn release(&mut self, urgent: bool) {
        assert!(self.owed + self.peer_left < self.promised, "a buffer came back that the peer did not use");
        self.owed += 1;
        self.urgent |= urgent;
    }

    /// Whether what is owed is worth a message of its own.
    pub fn is_due(&self) -> bool {
        self.owed >= self.promised / 2 || (self.urgent && self.owed > 0 && self.peer_left <= RESERVE_CREDITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_was_promised_is_returned_by_itself() {
        let mut credits = CreditWindow::new(12, 12);
        for at in 0..6 {
            assert!(!credits.is_due(), "{at}");
            credits.on_receive().expect("within credit");
            credits.release(false);
        }
        assert!(credits.is_due());
        assert_eq!((credits.use_for_send(), credits.left(), credits.owed()), (6, 11, 0));
    }

    #[test]
    fn a_peer_that_does_not_count_is_found_out() {
        let mut credits = CreditWindow::new(12, 12);
        assert_eq!(credits.on_returned(1), Err(ConnectionFault::CreditOverReturned), "nothing was sent");
        credits.use_for_send();
        assert_eq!(credits.on_returned(1), Ok(true));
        credits.use_for_send();
        assert_eq!(credits.on_returned(0), Err(ConnectionFault::CreditOverReturned), "what was returned stays returned");
        for _ in 0..12 {
            credits.on_receive().expect("within credit");
        }
        assert_eq!(credits.on_receive(), Err(ConnectionFault::CreditExceeded));
        assert_eq!(credits.unread(), 12);
    }

    #[test]
    fn totals_go_round() {
        let (mut a, mut b) = (CreditWindow::new(12, 12), CreditWindow::new(12, 12));
        for _ in 0..70_000 {
            b.on_returned(a.use_for_send()).expect("sound");
            b.on_receive().expect("within credit");
            b.release(false);
            a.on_returned(b.use_for_send()).expect("sound");
            a.on_receive().expect("within credit");
            a.release(false);
        }
        assert_eq!(a.left(), 12);
    }
}
