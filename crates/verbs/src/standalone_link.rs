//! A link with a port of its own, for programs that make one connection.
//!
//! It starts no thread; messages of the peer are answered while a call runs. It can be waited for or registered.

use crate::device::Device;
use crate::limits::LINGER_MAX;
use crate::port::Port;
use crate::settings::PortSettings;
use crate::verbs_link::VerbsLink;
use crate::wake_pipe::WakePipe;
use crate::wire::RdmaToken;
use link::{
    AbortReason, FilledMemory, Link, LinkCapabilities, LinkError, PeerAddress, RdmaUsage, ReceiveOutcome, SendOutcome,
    WaitFor,
};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use slab::{BlockMut, Gather, Pool, PoolOptions};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Duration;

/// One connection over a device of its own.
pub struct StandaloneLink<D: Device> {
    // Dropped in this order: the link sends its last messages over the port.
    link: Option<VerbsLink<D>>,
    port: Port<D>,
    peer: PeerAddress,
    /// Made when the link is registered.
    wake_pipe: Option<WakePipe>,
    /// The registered descriptors.
    registered: Vec<RawFd>,
    /// The last `send` returned `Blocked`, and no writable edge was reported since.
    is_blocked: bool,
}

impl<D: Device> StandaloneLink<D> {
    /// Connects, and blocks until the connection is established.
    ///
    /// # Errors
    /// The error of the device or the peer's reason; [`io::ErrorKind::TimedOut`] if nobody answers in time.
    pub fn connect(
        device: D,
        address: &str,
        token: Option<RdmaToken>,
        settings: PortSettings,
        timeout: Duration,
    ) -> io::Result<Self> {
        let pool = Pool::new(PoolOptions::default());
        let settings = PortSettings { corked: false, ..settings };
        let port = Port::open(device, &pool, settings).map_err(io::Error::other)?;
        let mut link = port.connect(address, token)?;
        let failed = |error: LinkError| io::Error::from(error);
        if !link.wait(WaitFor::Either, Some(timeout)).map_err(failed)? {
            link.abort(AbortReason::Overdue);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "RDMA: nobody answered in time"));
        }
        // A failed connection reports its error here; an established one has received nothing yet.
        match link.receive(&mut [], &mut []) {
            Ok(ReceiveOutcome::Closed) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "RDMA: the peer has disconnected"));
            }
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let peer = link.peer().clone();
        Ok(StandaloneLink { link: Some(link), port, peer, wake_pipe: None, registered: Vec::new(), is_blocked: false })
    }

    /// The port, for its counters.
    pub fn port(&self) -> &Port<D> {
        &self.port
    }

    fn inner(&mut self) -> Result<&mut VerbsLink<D>, LinkError> {
        self.link.as_mut().ok_or(LinkError::Closed)
    }

    /// Polls the port. Errors are reported by the link.
    fn poll_port(&mut self) {
        // A failed device ends the link, which reports the error.
        let _told_by_the_link = self.port.poll();
        self.port.flush();
    }

    /// Raises an edge, which stays until a call has returned that there is nothing.
    fn wake(&mut self) {
        self.wake_pipe.iter_mut().for_each(WakePipe::wake);
    }

    /// There is nothing to receive: arms the device, and polls once more for what arrived before that.
    fn arm_and_recheck(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        let _told_by_the_link = self.port.arm();
        self.poll_port();
        let received = self.inner()?.receive(direct, scratch)?;
        if received != ReceiveOutcome::Idle {
            return Ok(not_drained(received));
        }
        if self.is_blocked && self.inner()?.is_writable() {
            // No bytes, but more can be sent, which no edge would report.
            self.is_blocked = false;
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        self.wake_pipe.iter_mut().for_each(WakePipe::clear);
        Ok(ReceiveOutcome::Idle)
    }
}

/// Clears `drained`: the owner may wait only after `Idle`, when the device is armed.
fn not_drained(received: ReceiveOutcome) -> ReceiveOutcome {
    match received {
        ReceiveOutcome::Bytes { bytes, .. } => ReceiveOutcome::Bytes { bytes, drained: false },
        other => other,
    }
}

impl<D: Device> Link for StandaloneLink<D> {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        if self.wake_pipe.is_none() {
            // Bytes that a `wait` has polled come first.
            let received = self.inner()?.receive(direct, scratch)?;
            if received != ReceiveOutcome::Idle {
                return Ok(received);
            }
        }
        self.poll_port();
        let received = self.inner()?.receive(direct, scratch)?;
        if self.wake_pipe.is_none() {
            return Ok(received);
        }
        let received = if received == ReceiveOutcome::Idle {
            self.arm_and_recheck(direct, scratch)?
        } else {
            not_drained(received)
        };
        if received != ReceiveOutcome::Idle {
            // The device's edge is consumed, so the owner gets another one if it stops here.
            self.wake();
        }
        Ok(received)
    }

    fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        match &mut self.link {
            Some(link) => link.lend(memory, place),
            None => Err(memory),
        }
    }

    fn take_filled(&mut self) -> Option<FilledMemory> {
        self.link.as_mut()?.take_filled()
    }

    fn announced_bytes(&self) -> usize {
        self.link.as_ref().map_or(0, Link::announced_bytes)
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        let mut sent = self.inner()?.send(from)?;
        if sent == SendOutcome::Blocked && self.wake_pipe.is_some() {
            // Only the device reports that more can be sent, and it may have done so already.
            let _told_by_the_link = self.port.arm();
            self.poll_port();
            sent = self.inner()?.send(from)?;
            if self.inner()?.is_readable() {
                self.wake_pipe.iter_mut().for_each(WakePipe::clear);
                self.wake();
            }
        }
        self.is_blocked = sent == SendOutcome::Blocked;
        Ok(sent)
    }

    fn abort(&mut self, why: AbortReason) {
        if let Some(link) = &mut self.link {
            link.abort(why);
        }
        self.port.flush();
    }

    fn close_sending(&mut self) {
        if let Some(link) = &mut self.link {
            link.close_sending();
        }
        self.poll_port();
    }

    fn capabilities(&self) -> LinkCapabilities {
        self.link.as_ref().map_or(crate::verbs_link::DEFAULT_CAPABILITIES, Link::capabilities)
    }

    fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    fn rdma_usage(&self) -> Option<RdmaUsage> {
        self.link.as_ref()?.rdma_usage()
    }

    /// Registers all descriptors of the device under one token; an edge of any means that the link must be polled.
    fn register(&mut self, registry: &Registry, token: mio::Token) -> io::Result<()> {
        let descriptors = self.port.descriptors();
        if descriptors.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this RDMA device has no descriptors to wait for"));
        }
        let wake_pipe = WakePipe::new()?;
        self.registered.clear();
        for descriptor in descriptors.into_iter().chain([wake_pipe.descriptor()]) {
            match registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE) {
                Ok(()) => self.registered.push(descriptor),
                // A card has one descriptor for asynchronous events in a process: the owner may have registered it
                // already, for another connection over this card or for a port.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        self.wake_pipe = Some(wake_pipe);
        // Reports what has arrived before.
        self.wake();
        Ok(())
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        let Some(_wake_pipe) = self.wake_pipe.take() else { return Ok(()) };
        let mut all = self.registered.drain(..);
        all.try_for_each(|descriptor| registry.deregister(&mut SourceFd(&descriptor)))
    }

    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let waited = self.inner()?.wait(what, timeout);
        // The wait may have consumed edges of the device.
        self.wake();
        waited
    }
}

impl<D: Device> Drop for StandaloneLink<D> {
    /// Sends the last messages, as the kernel does for a socket, within a time limit. Unread offers belong to them,
    /// because their bytes lie in memory of this end.
    fn drop(&mut self) {
        drop(self.link.take());
        self.port.linger(LINGER_MAX);
    }
}
