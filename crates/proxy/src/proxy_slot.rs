//! The slot of a connection and its two tokens at the poll.

use mio::Token;

/// A connection's index in the table of its thread. Reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProxySlot(u32);

impl ProxySlot {
    pub fn new(index: u32) -> Self {
        ProxySlot(index)
    }

    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The connection of a token of the poll.
    #[inline]
    pub fn of_token(token: Token) -> Self {
        ProxySlot((token.0 / 2) as u32)
    }

    /// The poll's token of the connection's client link.
    #[inline]
    pub fn client_token(self) -> Token {
        Token(self.index() * 2)
    }

    /// The poll's token of the connection's upstream link.
    #[inline]
    pub fn upstream_token(self) -> Token {
        Token(self.index() * 2 + 1)
    }
}
