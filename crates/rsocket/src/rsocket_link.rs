//! A connected rsocket as a [`Link`]. Only `wait` and connecting block.

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ib::{PollEntry, PollInterest, RSocket, rpoll};
use link::{
    AbortReason, Link, LinkCapabilities, LinkError, PeerAddress, ReceiveOutcome, SendOutcome, SocketOptions, WaitFor,
};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::Gather;

use crate::RsocketPoller;
use crate::limits::{COPY_BELOW_BYTES, GATHER_PARTS_MAX, WAIT_MS_MAX};

/// A link over an rsocket.
pub struct RsocketLink {
    /// `None` once aborted.
    socket: Option<Arc<RSocket>>,
    poller: RsocketPoller,
    /// While it is registered: its number at the poller, and the eventfd that the poller signals.
    registration: Option<(u64, Arc<OwnedFd>)>,
    peer: PeerAddress,
    receiving_ended: bool,
    sending_ended: bool,
}

/// Connects to a host and port, by each address of the name in turn. Blocks.
///
/// # Errors
/// Why the last address failed; `Unsupported` if the library or a device is missing, with a text that says which.
pub fn dial(host: &str, port: u16, options: &SocketOptions, watch: &RsocketPoller) -> io::Result<RsocketLink> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in (host, port).to_socket_addrs()? {
        match RSocket::connect(resolved) {
            Ok(socket) => {
                apply_options(&socket, options).map_err(as_io)?;
                return RsocketLink::new(socket, resolved, watch);
            }
            Err(error) => last = as_io(error),
        }
    }
    Err(last)
}

/// Sets the options that rsockets know.
pub(crate) fn apply_options(socket: &RSocket, options: &SocketOptions) -> Result<(), ib::IbError> {
    socket.set_nodelay(options.tcp_nodelay.unwrap_or(true))
}

/// Converts an error of the crate `ib`.
pub(crate) fn as_io(error: ib::IbError) -> io::Error {
    match error {
        ib::IbError::CallFailed { error, .. } => error,
        other => io::Error::new(ErrorKind::Unsupported, other.to_string()),
    }
}

impl RsocketLink {
    pub(crate) fn new(socket: RSocket, peer: SocketAddr, watch: &RsocketPoller) -> io::Result<Self> {
        let local = socket.local_address().ok_or(ErrorKind::NotConnected)?;
        Ok(Self {
            socket: Some(Arc::new(socket)),
            poller: watch.clone(),
            registration: None,
            peer: PeerAddress::tcp(peer, local),
            receiving_ended: false,
            sending_ended: false,
        })
    }

    fn await_edge(&self, wants: PollInterest) {
        if let Some((number, _)) = self.registration {
            self.poller.arm(number, wants);
        }
    }

    fn end(&mut self) {
        self.receiving_ended = true;
        self.sending_ended = true;
    }

    fn unregister(&mut self) {
        if let Some((number, _)) = self.registration.take() {
            self.poller.remove(number);
        }
    }

    /// Receives into one buffer. `None`: nothing has arrived.
    fn receive_into(&mut self, into: &mut [u8]) -> Result<Option<usize>, LinkError> {
        let Some(socket) = &self.socket else { return Ok(Some(0)) };
        loop {
            return match socket.receive(into) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Rsockets report so that the peer closed while this end could still send.
                Err(error) if error.kind() == ErrorKind::NotConnected => Ok(Some(0)),
                Err(error) => {
                    self.end();
                    Err(LinkError::Lost(error))
                }
            };
        }
    }
}

impl Drop for RsocketLink {
    fn drop(&mut self) {
        self.unregister();
        if let Some(socket) = self.socket.take() {
            self.poller.close(socket);
        }
    }
}

impl Link for RsocketLink {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        if self.receiving_ended {
            return Ok(ReceiveOutcome::Closed);
        }
        let room = direct.len() + scratch.len();
        if room == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        let mut bytes = 0;
        'all: for buffer in [direct, scratch] {
            let mut at = 0;
            // Until nothing has arrived, and not until a short read: an rsocket grants its peer new receive space only
            // in a call that finds nothing, and the peer may wait for that space while no event is due at this end.
            while at < buffer.len() {
                match self.receive_into(&mut buffer[at..]) {
                    Ok(Some(0)) if bytes == 0 => {
                        self.receiving_ended = true;
                        return Ok(ReceiveOutcome::Closed);
                    }
                    // The next call reports the end; `drained: false` makes the owner call again.
                    Ok(Some(0)) => return Ok(ReceiveOutcome::Bytes { bytes, drained: false }),
                    Ok(Some(some)) => {
                        at += some;
                        bytes += some;
                    }
                    Ok(None) => break 'all,
                    Err(error) if bytes == 0 => return Err(error),
                    // Bytes before the loss are reported first; the next call reports the end.
                    Err(_) => return Ok(ReceiveOutcome::Bytes { bytes, drained: false }),
                }
            }
        }
        if bytes == room {
            return Ok(ReceiveOutcome::Bytes { bytes, drained: false });
        }
        self.await_edge(PollInterest::READABLE);
        Ok(if bytes == 0 { ReceiveOutcome::Idle } else { ReceiveOutcome::Bytes { bytes, drained: true } })
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        while !from.is_empty() {
            let Some(socket) = self.socket.as_ref().filter(|_| !self.sending_ended) else {
                return Err(LinkError::Closed);
            };
            let mut parts = [IoSlice::new(&[]); GATHER_PARTS_MAX];
            let count = from.io_slices(&mut parts);
            match socket.send(&parts[..count]) {
                Ok(bytes) => from.consume(bytes),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        self.await_edge(PollInterest { readable: false, writable: true });
                        return Ok(SendOutcome::Blocked);
                    }
                    // Bytes that the peer sent before it closed can still be received.
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected => {
                        self.sending_ended = true;
                        return Err(LinkError::Closed);
                    }
                    _ => {
                        self.end();
                        return Err(LinkError::Lost(error));
                    }
                },
            }
        }
        if self.sending_ended { Err(LinkError::Closed) } else { Ok(SendOutcome::Drained) }
    }

    fn abort(&mut self, _why: AbortReason) {
        self.end();
        self.unregister();
        if let Some(socket) = self.socket.take() {
            self.poller.close(socket);
        }
    }

    fn close_sending(&mut self) {
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.sending_ended) {
            // Blocks until the peer's device has acknowledged everything, so a separate thread does it.
            self.poller.shut_down(socket.clone());
        }
        self.sending_ended = true;
    }

    fn capabilities(&self) -> LinkCapabilities {
        LinkCapabilities {
            gather_parts_max: GATHER_PARTS_MAX,
            copy_threshold_bytes: COPY_BELOW_BYTES,
            lend_threshold_bytes: usize::MAX,
            pinned_bytes: 0,
            name: "rsocket",
        }
    }

    fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(ErrorKind::NotConnected)?;
        let (number, edge) = self.poller.add(socket)?;
        // A signalled eventfd is readable, and always writable: each signal is reported as both edges.
        let both = Interest::READABLE | Interest::WRITABLE;
        match registry.register(&mut SourceFd(&edge.as_raw_fd()), token, both) {
            Ok(()) => {
                self.registration = Some((number, edge));
                Ok(())
            }
            Err(error) => {
                self.poller.remove(number);
                Err(error)
            }
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        let outcome = match &self.registration {
            Some((_, edge)) => registry.deregister(&mut SourceFd(&edge.as_raw_fd())),
            None => Ok(()),
        };
        self.unregister();
        outcome
    }

    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let Some(socket) = &self.socket else { return Ok(true) };
        let is_over = (what.wants_readable() && self.receiving_ended) || (what.wants_writable() && self.sending_ended);
        if is_over {
            return Ok(true);
        }
        let wants = PollInterest { readable: what.wants_readable(), writable: what.wants_writable() };
        let timeout_ms = timeout.map(|timeout| timeout.as_micros().div_ceil(1_000).min(WAIT_MS_MAX.into()) as u32);
        let mut entries = [PollEntry::socket(socket, wants)];
        rpoll(&mut entries, timeout_ms).map(|count| count > 0).map_err(LinkError::Lost)
    }
}
