//! A wake pipe: a pair of sockets whose reading end is readable from `wake` until `clear`.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// Wakes an owner that waits for descriptors.
pub(crate) struct WakePipe {
    reader: UnixStream,
    writer: UnixStream,
    is_readable: bool,
}

impl WakePipe {
    /// # Errors
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(WakePipe { reader, writer, is_readable: false })
    }

    pub fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub fn wake(&mut self) {
        if !self.is_readable {
            // One byte fits into an empty socket, and both ends live as long as this value.
            self.is_readable = self.writer.write(&[1]).is_ok();
        }
    }

    /// Makes the descriptor unreadable.
    pub fn clear(&mut self) {
        if self.is_readable {
            // The byte was written before.
            self.is_readable = self.reader.read(&mut [0]).is_err();
        }
    }
}
