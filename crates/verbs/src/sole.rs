//! A link with a port of its own: what a program has that makes a connection and runs no rounds.
//!
//! Enters: a device, an address.  Leaves: a connected link that is like any other: it waits, and can be registered.
//! Owns:   the port and its one connection.
//! Never:  starts a thread; what the peer wants is answered while a call runs.

use crate::device::Device;
use crate::limits::LINGER_MAX;
use crate::link_end::VerbsLink;
use crate::port::Port;
use crate::settings::Settings;
use crate::wire::Token;
use link::{Abort, Link, LinkError, Peer, Received, Sent, Shape, Wait};
use mio::unix::SourceFd;
use mio::{Interest, Registry};
use slab::{BlockMut, Gather, Pool, PoolOptions};
use std::io;
use std::time::Duration;

/// One connection over a device that nobody else uses.
pub struct SoleLink<D: Device> {
    // In this order: the link says goodbye over the port.
    link: Option<VerbsLink<D>>,
    port: Port<D>,
    peer: Peer,
    /// Somebody waits for the device's descriptors: it must be armed when there is nothing to do.
    is_registered: bool,
}

impl<D: Device> SoleLink<D> {
    /// Connects, and waits until the connection stands.
    ///
    /// # Errors
    /// No connection, in the words of the device or of the peer; [`io::ErrorKind::TimedOut`] when nobody answers in time.
    pub fn connect(
        device: D,
        address: &str,
        token: Option<Token>,
        settings: Settings,
        timeout: Duration,
    ) -> io::Result<Self> {
        let pool = Pool::new(PoolOptions::default());
        let settings = Settings { corked: false, ..settings };
        let port = Port::open(device, &pool, settings).map_err(io::Error::other)?;
        let mut link = port.connect(address, token)?;
        let failed = |error: LinkError| io::Error::from(error);
        if !link.wait(Wait::Either, Some(timeout)).map_err(failed)? {
            link.abort(Abort::Overdue);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "RDMA: nobody has answered in time"));
        }
        // A connection that could not be had says so here; one that stands has nothing yet.
        match link.receive(&mut [], &mut []) {
            Ok(Received::Closed) => {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "RDMA: the peer is gone"));
            }
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let peer = link.peer().clone();
        Ok(SoleLink { link: Some(link), port, peer, is_registered: false })
    }

    /// The port, to look at.
    pub fn port(&self) -> &Port<D> {
        &self.port
    }

    fn inner(&mut self) -> Result<&mut VerbsLink<D>, LinkError> {
        self.link.as_mut().ok_or(LinkError::Closed)
    }

    /// Takes in what the device has to tell; what is broken shows at the link.
    fn look(&mut self) {
        // A device that fails ends the link, which says why.
        let _told_by_the_link = self.port.poll();
        self.port.flush();
    }

    /// Has the device wake whoever waits for it, and looks once more: what came before is not told of.
    fn arm(&mut self) {
        let _told_by_the_link = self.port.arm();
        self.look();
    }
}

impl<D: Device> Link for SoleLink<D> {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<Received, LinkError> {
        self.look();
        let is_registered = self.is_registered;
        match self.inner()?.receive(direct, scratch)? {
            // Only one that has nothing at all, and is armed, may be waited for.
            Received::Bytes { bytes, drained } => Ok(Received::Bytes { bytes, drained: drained && !is_registered }),
            Received::Idle if is_registered => {
                self.arm();
                match self.inner()?.receive(direct, scratch)? {
                    Received::Bytes { bytes, .. } => Ok(Received::Bytes { bytes, drained: false }),
                    other => Ok(other),
                }
            }
            other => Ok(other),
        }
    }

    fn lend(&mut self, memory: BlockMut, at: usize) -> Result<(), BlockMut> {
        match &mut self.link {
            Some(link) => link.lend(memory, at),
            None => Err(memory),
        }
    }

    fn take_back(&mut self) -> Option<BlockMut> {
        self.link.as_mut()?.take_back()
    }

    fn send(&mut self, from: &mut Gather) -> Result<Sent, LinkError> {
        if self.inner()?.send(from)? == Sent::Drained {
            return Ok(Sent::Drained);
        }
        // Credits may have come back that nobody looked at.
        self.look();
        if self.inner()?.send(from)? == Sent::Blocked && self.is_registered {
            self.arm();
            return self.inner()?.send(from);
        }
        Ok(if from.is_empty() { Sent::Drained } else { Sent::Blocked })
    }

    fn abort(&mut self, why: Abort) {
        if let Some(link) = &mut self.link {
            link.abort(why);
        }
        self.port.flush();
    }

    fn close_sending(&mut self) {
        if let Some(link) = &mut self.link {
            link.close_sending();
        }
        self.look();
    }

    fn shape(&self) -> Shape {
        self.link.as_ref().map_or(crate::link_end::SHAPE, Link::shape)
    }

    fn peer(&self) -> &Peer {
        &self.peer
    }

    /// All descriptors of the device under one token; an edge of any says that it is worth looking.
    fn register(&mut self, registry: &Registry, token: mio::Token) -> io::Result<()> {
        let descriptors = self.port.descriptors();
        if descriptors.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this RDMA device has no descriptors to wait for"));
        }
        for descriptor in &descriptors {
            registry.register(&mut SourceFd(descriptor), token, Interest::READABLE)?;
        }
        self.is_registered = true;
        self.arm();
        Ok(())
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        if !std::mem::take(&mut self.is_registered) {
            return Ok(());
        }
        self.port.descriptors().iter().try_for_each(|descriptor| registry.deregister(&mut SourceFd(descriptor)))
    }

    fn wait(&mut self, what: Wait, timeout: Option<Duration>) -> Result<bool, LinkError> {
        self.inner()?.wait(what, timeout)
    }
}

impl<D: Device> Drop for SoleLink<D> {
    /// The last words go out, as the kernel sends them for a socket: not longer than they may take, and not at all to a
    /// device that is broken.
    fn drop(&mut self) {
        drop(self.link.take());
        self.port.linger(LINGER_MAX);
    }
}
