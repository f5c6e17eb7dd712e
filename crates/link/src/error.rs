//! Errors of a link: the direction has ended, the connection is lost, or TLS failed.
//!
//! A peer that violates AMQP is not an error of the link; the crates above refuse it.

use std::fmt;
use std::io;

/// Why a link no longer moves bytes. Retrying on the same link never helps.
#[derive(Debug)]
pub enum LinkError {
    /// This direction has ended: the peer stopped reading (EPIPE), or this end closed or aborted it.
    Closed,
    /// The connection is lost: reset, timed out, unreachable, or another permanent error.
    Lost(io::Error),
    /// TLS failed: no handshake, a certificate that is not trusted, bytes that were changed.
    Tls(Box<str>),
}

impl LinkError {
    /// Whether the connection was lost, rather than closed by one of its ends.
    pub fn is_lost(&self) -> bool {
        !matches!(self, LinkError::Closed)
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Closed => f.write_str("the link is closed"),
            LinkError::Lost(error) => write!(f, "the link is lost: {error}"),
            LinkError::Tls(why) => write!(f, "TLS: {why}"),
        }
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LinkError::Closed | LinkError::Tls(_) => None,
            LinkError::Lost(error) => Some(error),
        }
    }
}

impl From<LinkError> for io::Error {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Closed => io::Error::new(io::ErrorKind::BrokenPipe, "the link is closed"),
            LinkError::Lost(error) => error,
            LinkError::Tls(_) => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
        }
    }
}
