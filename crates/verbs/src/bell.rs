//! A bell: a descriptor that is readable from the moment it is rung until it is silenced.
//!
//! Enters: rings.  Leaves: a descriptor to wait for.
//! Owns:   a pair of sockets.
//! Never:  says how often it was rung.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// Rung by one who knows, heard by one who waits for descriptors.
pub(crate) struct Bell {
    reader: UnixStream,
    writer: UnixStream,
    is_rung: bool,
}

impl Bell {
    /// # Errors
    /// The system has no room for two more descriptors.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Bell { reader, writer, is_rung: false })
    }

    pub fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Readable from now on.
    pub fn ring(&mut self) {
        if !self.is_rung {
            // One byte fits into an empty socket, and both ends live as long as this does.
            self.is_rung = self.writer.write(&[1]).is_ok();
        }
    }

    /// No longer readable.
    pub fn silence(&mut self) {
        if self.is_rung {
            // The byte is there, since it was written before.
            self.is_rung = self.reader.read(&mut [0]).is_err();
        }
    }
}
