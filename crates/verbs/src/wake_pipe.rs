//! A bell: a descriptor that is readable from the moment it is rung until it is silenced.
//!
//! Enters: rings.  Leaves: a descriptor to wait for.
//! Owns:   a pair of sockets.
//! Never:  says how often it was rung.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// Rung by one who knows, heard by one who waits for descriptors.
pub(crate) struct WakePipe {
    reader: UnixStream,
    writer: UnixStream,
    is_readable: bool,
}

impl WakePipe {
    /// # Errors
    /// The system has no room for two more descriptors.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(WakePipe { reader, writer, is_readable: false })
    }

    pub fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Readable from now on.
    pub fn wake(&mut self) {
        if !self.is_readable {
            // One byte fits into an empty socket, and both ends live as long as this does.
            self.is_readable = self.writer.write(&[1]).is_ok();
        }
    }

    /// No longer readable.
    pub fn clear(&mut self) {
        if self.is_readable {
            // The byte is there, since it was written before.
            self.is_readable = self.reader.read(&mut [0]).is_err();
        }
    }
}
