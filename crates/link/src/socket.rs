//! Links over sockets: TCP and Unix.
//!
//! Only `WouldBlock` and `Interrupted` are retried: a broken pipe must end the link, not spin.

use crate::limits::{COPY_THRESHOLD_BYTES, GATHER_PARTS_MAX};
use crate::{
    AbortReason, Link, LinkCapabilities, LinkError, PeerAddress, ReceiveOutcome, SendOutcome, SocketOptions, WaitFor,
};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{PollFd, PollFlags};
use slab::Gather;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected stream socket.
pub(crate) trait Stream: AsFd + AsRawFd + Send + Sized + 'static {
    const NAME: &'static str;
    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()>;
    fn shutdown(&self, how: Shutdown) -> io::Result<()>;
    /// Makes closing the socket discard unsent bytes, instead of delivering them in the background.
    fn discard_unsent_on_close(&self);
    fn read(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
}

macro_rules! stream {
    ($kind:ty, $name:literal, $discard_unsent_on_close:expr) => {
        impl Stream for $kind {
            const NAME: &'static str = $name;
            fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
                <$kind>::set_nonblocking(self, nonblocking)
            }
            fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                <$kind>::shutdown(self, how)
            }
            fn discard_unsent_on_close(&self) {
                ($discard_unsent_on_close)(self);
            }
            fn read(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                match parts {
                    // `recv`, which is cheaper than a vector of one.
                    [part] => (&mut &*self).read(part),
                    parts => (&mut &*self).read_vectored(parts),
                }
            }
            fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                match parts {
                    // `send`, likewise.
                    [part] => (&mut &*self).write(part),
                    parts => (&mut &*self).write_vectored(parts),
                }
            }
        }
    };
}
stream!(TcpStream, "tcp", |stream: &TcpStream| {
    // Closing then resets the connection. If the option is refused it still ends, but later if the peer does not read.
    let _later = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
});
// Bytes written to a Unix socket are in the reader's queue already.
stream!(UnixStream, "unix", |_| ());

/// A link over a socket.
pub(crate) struct SocketLink<S> {
    /// `None` once aborted.
    stream: Option<S>,
    peer: PeerAddress,
    receiving_ended: bool,
    sending_ended: bool,
    /// The error of a lost connection, until it is reported to the owner.
    lost: Option<io::Error>,
}

impl<S: Stream> SocketLink<S> {
    pub fn new(stream: S, peer: PeerAddress) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(SocketLink { stream: Some(stream), peer, receiving_ended: false, sending_ended: false, lost: None })
    }

    /// Writes a prefix of `bytes` and returns its length; `None` if the socket is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError> {
        self.write_parts(&[IoSlice::new(bytes)])
    }

    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<Option<usize>, LinkError> {
        let Some(stream) = self.stream.as_ref().filter(|_| !self.sending_ended) else { return Err(LinkError::Closed) };
        loop {
            return match stream.write(parts) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.sending_ended = true;
                    Err(LinkError::Closed)
                }
                Err(error) => {
                    self.end();
                    Err(LinkError::Lost(error))
                }
            };
        }
    }

    fn end(&mut self) {
        self.receiving_ended = true;
        self.sending_ended = true;
    }
}

impl<S: Stream> Link for SocketLink<S> {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        if let Some(error) = self.lost.take() {
            self.end();
            return Err(LinkError::Lost(error));
        }
        let Some(stream) = self.stream.as_ref().filter(|_| !self.receiving_ended) else {
            return Ok(ReceiveOutcome::Closed);
        };
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        loop {
            let outcome = if direct.is_empty() {
                stream.read(&mut [IoSliceMut::new(scratch)])
            } else {
                stream.read(&mut [IoSliceMut::new(direct), IoSliceMut::new(scratch)])
            };
            return match outcome {
                Ok(0) => {
                    self.receiving_ended = true;
                    Ok(ReceiveOutcome::Closed)
                }
                Ok(bytes) => Ok(ReceiveOutcome::Bytes { bytes, drained: bytes < room }),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(ReceiveOutcome::Idle),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.end();
                    Err(LinkError::Lost(error))
                }
            };
        }
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        if self.sending_ended {
            return Err(LinkError::Closed);
        }
        while !from.is_empty() {
            let taken = match from.only_part() {
                Some(part) => self.write(part),
                None => {
                    let mut parts = [IoSlice::new(&[]); GATHER_PARTS_MAX];
                    let count = from.io_slices(&mut parts);
                    self.write_parts(&parts[..count])
                }
            };
            match taken? {
                Some(bytes) => from.consume(bytes),
                None => return Ok(SendOutcome::Blocked),
            }
        }
        Ok(SendOutcome::Drained)
    }

    fn abort(&mut self, _why: AbortReason) {
        self.end();
        if let Some(stream) = self.stream.take() {
            stream.discard_unsent_on_close();
        }
    }

    fn close_sending(&mut self) {
        if let Some(stream) = self.stream.as_ref().filter(|_| !self.sending_ended)
            && let Err(error) = stream.shutdown(Shutdown::Write)
            && error.kind() != ErrorKind::NotConnected
        {
            self.lost = Some(error);
        }
        self.sending_ended = true;
    }

    fn capabilities(&self) -> LinkCapabilities {
        LinkCapabilities {
            gather_parts_max: GATHER_PARTS_MAX,
            copy_threshold_bytes: COPY_THRESHOLD_BYTES,
            lend_threshold_bytes: usize::MAX,
            pinned_bytes: 0,
            name: S::NAME,
        }
    }

    fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let stream = self.stream.as_ref().ok_or(ErrorKind::NotConnected)?;
        registry.register(&mut SourceFd(&stream.as_raw_fd()), token, Interest::READABLE | Interest::WRITABLE)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match &self.stream {
            Some(stream) => registry.deregister(&mut SourceFd(&stream.as_raw_fd())),
            None => Ok(()),
        }
    }

    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let Some(stream) = &self.stream else { return Ok(true) };
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN | PollFlags::RDHUP, what.wants_readable());
        flags.set(PollFlags::OUT, what.wants_writable());
        let mut waited = [PollFd::new(stream, flags)];
        let timeout = timeout.map(rustix::event::Timespec::try_from).transpose();
        let timeout = timeout.map_err(|_| LinkError::Lost(ErrorKind::InvalidInput.into()))?;
        match rustix::event::poll(&mut waited, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            // Interrupted by a signal: the caller checks whether to stop, and waits again.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(LinkError::Lost(error.into())),
        }
    }
}

/// Sets the options of a TCP socket.
pub(crate) fn set_tcp(socket: &impl AsFd, options: &SocketOptions) -> io::Result<()> {
    rustix::net::sockopt::set_tcp_nodelay(socket, options.tcp_nodelay.unwrap_or(true))?;
    if let Some(name) = &options.tcp_congestion {
        rustix::net::sockopt::set_tcp_congestion(socket, name)?;
    }
    set_buffers(socket, options)
}

/// Sets the buffer sizes of a socket.
pub(crate) fn set_buffers(socket: &impl AsFd, options: &SocketOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer_bytes {
        rustix::net::sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        rustix::net::sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(())
}
