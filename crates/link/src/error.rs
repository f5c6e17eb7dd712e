//! The world's faults on a link.
//!
//! Enters: an error of the operating system, or of TLS.  Leaves: what it means for the link.
//! Owns:   the sorting of error numbers into "retry", "this direction ended" and "the link is lost".
//! Never:  blames the peer's protocol; that is a refusal of the rooms above.

use std::fmt;
use std::io;

/// Why a link no longer moves bytes. Nothing here is worth retrying on the same link.
#[derive(Debug)]
pub enum LinkError {
    /// This direction has ended: the peer stopped reading (EPIPE), or this end closed or aborted it.
    Closed,
    /// The connection broke: reset, timed out, unreachable, or an error that no retry can cure.
    Lost(io::Error),
    /// The ends do not agree on TLS: no handshake, a certificate that is not trusted, bytes that were changed.
    Tls(Box<str>),
}

impl LinkError {
    /// Whether the connection broke, rather than being ended by one of its ends.
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
