//! A link with a port of its own: what a program has that makes a connection and runs no rounds.
//!
//! Enters: a device, an address.  Leaves: a connected link that is like any other: it waits, and can be registered.
//! Owns:   the port and its one connection.
//! Never:  starts a thread; what the peer wants is answered while a call runs.

use crate::wake_pipe::WakePipe;
use crate::device::Device;
use crate::limits::LINGER_MAX;
use crate::verbs_link::VerbsLink;
use crate::port::Port;
use crate::settings::PortSettings;
use crate::wire::RdmaToken;
use link::{AbortReason, FilledMemory, Link, LinkError, PeerAddress, ReceiveOutcome, SendOutcome, LinkCapabilities, WaitFor};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use slab::{BlockMut, Gather, Pool, PoolOptions};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::Duration;

/// One connection over a device that nobody else uses.
pub struct StandaloneLink<D: Device> {
    // In this order: the link says goodbye over the port.
    link: Option<VerbsLink<D>>,
    port: Port<D>,
    peer: PeerAddress,
    /// Of a link that somebody waits for with a registry.
    wake_pipe: Option<WakePipe>,
    /// What its owner waits for on its behalf.
    registered: Vec<RawFd>,
    /// The last `send` took less than it was offered, and its owner was not told that it would take more now.
    is_blocked: bool,
}

impl<D: Device> StandaloneLink<D> {
    /// Connects, and waits until the connection stands.
    ///
    /// # Errors
    /// No connection, in the words of the device or of the peer; [`io::ErrorKind::TimedOut`] when nobody answers in time.
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
            return Err(io::Error::new(io::ErrorKind::TimedOut, "RDMA: nobody has answered in time"));
        }
        // A connection that could not be had says so here; one that stands has nothing yet.
        match link.receive(&mut [], &mut []) {
            Ok(ReceiveOutcome::Closed) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "RDMA: the peer is gone"));
            }
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let peer = link.peer().clone();
        Ok(StandaloneLink { link: Some(link), port, peer, wake_pipe: None, registered: Vec::new(), is_blocked: false })
    }

    /// The port, to look at.
    pub fn port(&self) -> &Port<D> {
        &self.port
    }

    fn inner(&mut self) -> Result<&mut VerbsLink<D>, LinkError> {
        self.link.as_mut().ok_or(LinkError::Closed)
    }

    /// Takes in what the device has to tell; what is broken shows at the link.
    fn poll_port(&mut self) {
        // A device that fails ends the link, which says why.
        let _told_by_the_link = self.port.poll();
        self.port.flush();
    }

    /// Whoever waits has an edge, until it was told that there is nothing.
    fn wake(&mut self) {
        self.wake_pipe.iter_mut().for_each(WakePipe::wake);
    }

    /// There is nothing to receive. The device is to wake whoever waits for it, and since it does not tell of what came
    /// before that, there is another look.
    fn arm_and_recheck(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        let _told_by_the_link = self.port.arm();
        self.poll_port();
        let received = self.inner()?.receive(direct, scratch)?;
        if received != ReceiveOutcome::Idle {
            return Ok(not_drained(received));
        }
        if self.is_blocked && self.inner()?.is_writable() {
            // No bytes, but more can be sent, and no edge of its own would say so.
            self.is_blocked = false;
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        self.wake_pipe.iter_mut().for_each(WakePipe::clear);
        Ok(ReceiveOutcome::Idle)
    }
}

/// Only who was told that there is nothing at all may wait: then the device is armed.
fn not_drained(received: ReceiveOutcome) -> ReceiveOutcome {
    match received {
        ReceiveOutcome::Bytes { bytes, .. } => ReceiveOutcome::Bytes { bytes, drained: false },
        other => other,
    }
}

impl<D: Device> Link for StandaloneLink<D> {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        if self.wake_pipe.is_none() {
            // What a wait has heard of comes first; only who finds nothing looks.
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
        let received = if received == ReceiveOutcome::Idle { self.arm_and_recheck(direct, scratch)? } else { not_drained(received) };
        if received != ReceiveOutcome::Idle {
            // Whoever stops here has looked at what the device has told, and finds an edge again.
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
            // Room to send is told of by the device alone, and it may have been told already.
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

    /// All descriptors of the device under one token; an edge of any says that it is worth looking.
    fn register(&mut self, registry: &Registry, token: mio::Token) -> io::Result<()> {
        let descriptors = self.port.descriptors();
        if descriptors.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this RDMA device has no descriptors to wait for"));
        }
        let bell = WakePipe::new()?;
        self.registered.clear();
        for descriptor in descriptors.into_iter().chain([bell.descriptor()]) {
            match registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE) {
                Ok(()) => self.registered.push(descriptor),
                // What a card tells of itself it tells the whole process by one descriptor: its owner may wait for it
                // already, for another connection over this card or for a port of its own.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        self.wake_pipe = Some(bell);
        // What is there already is told of at once.
        self.wake();
        Ok(())
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        let Some(_bell) = self.wake_pipe.take() else { return Ok(()) };
        let mut all = self.registered.drain(..);
        all.try_for_each(|descriptor| registry.deregister(&mut SourceFd(&descriptor)))
    }

    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let waited = self.inner()?.wait(what, timeout);
        // It has heard what the device told, which nobody else hears any more.
        self.wake();
        waited
    }
}

impl<D: Device> Drop for StandaloneLink<D> {
    /// The last words go out, as the kernel sends them for a socket: not longer than they may take, and not at all to a
    /// device that is broken. What the peer was offered and has not read is of them, as long as the peer is there: it lies
    /// in memory of this end.
    fn drop(&mut self) {
        drop(self.link.take());
        self.port.linger(LINGER_MAX);
    }
}
