//! Credits in both directions: how many messages each end of a connection may still send.
//!
//! What an end may send, what is in flight or unread, and what is still to be returned add up to the initial credits.

use crate::fault::ConnectionFault;
use crate::limits::RESERVE_CREDITS;

/// The credits of one connection at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreditWindow {
    /// The initial credits from the peer.
    window: u16,
    /// Messages we may send.
    left: u16,
    /// Credits that the peer has returned in total, modulo 2^16.
    returned_by_peer: u16,
    /// The peer's initial credits.
    promised: u16,
    /// Messages the peer may send, as far as it knows.
    peer_left: u16,
    /// Freed buffers whose credits are still to be returned.
    owed: u16,
    /// Credits that we have returned in total, modulo 2^16.
    returned: u16,
    /// A credit must be returned without waiting for a message of the stream.
    urgent: bool,
}

impl CreditWindow {
    pub fn new(window: u16, promised: u16) -> Self {
        CreditWindow {
            window,
            left: window,
            returned_by_peer: 0,
            promised,
            peer_left: promised,
            owed: 0,
            returned: 0,
            urgent: false,
        }
    }

    /// Messages that we might send at first.
    pub fn window(&self) -> u16 {
        self.window
    }

    /// Messages we may send.
    pub fn left(&self) -> u16 {
        self.left
    }

    /// Credits that the next header returns.
    pub fn owed(&self) -> u16 {
        self.owed
    }

    /// Messages of the peer that occupy a buffer.
    pub fn unread(&self) -> u16 {
        self.promised - self.peer_left - self.owed
    }

    /// The peer's initial credits.
    pub fn promised(&self) -> u16 {
        self.promised
    }

    /// Uses a credit for a message. Returns the total of returned credits for its header.
    pub fn use_for_send(&mut self) -> u16 {
        assert!(self.left > 0, "a message beyond our credit");
        self.left -= 1;
        self.returned = self.returned.wrapping_add(self.owed);
        self.peer_left += self.owed;
        self.owed = 0;
        self.urgent = false;
        self.returned
    }

    /// A message has arrived.
    pub fn on_receive(&mut self) -> Result<(), ConnectionFault> {
        self.peer_left = self.peer_left.checked_sub(1).ok_or(ConnectionFault::CreditExceeded)?;
        Ok(())
    }

    /// Takes the total of returned credits from a header. Returns whether it has grown.
    pub fn on_returned(&mut self, returned: u16) -> Result<bool, ConnectionFault> {
        let more = returned.wrapping_sub(self.returned_by_peer);
        if more > self.window - self.left {
            return Err(ConnectionFault::CreditOverReturned);
        }
        self.left += more;
        self.returned_by_peer = returned;
        Ok(more > 0)
    }

    /// A buffer is freed. `urgent`: the peer may need its credit although its stream is idle.
    pub fn release(&mut self, urgent: bool) {
        assert!(self.owed + self.peer_left < self.promised, "a buffer came back that the peer did not use");
        self.owed += 1;
        self.urgent |= urgent;
    }

    /// Whether the owed credits justify a message of their own.
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
        assert_eq!(
            credits.on_returned(0),
            Err(ConnectionFault::CreditOverReturned),
            "what was returned stays returned"
        );
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
