//! A connection of a port as a [`Link`]. Dropping it closes the connection in order; only `wait` blocks.

use crate::device::Device;
use crate::limits::{DEADLINE_CHECK_INTERVAL, MESSAGE_PARTS_MAX};
use crate::port::{LinkId, Port};
use crate::wire::RdmaToken;
use link::{
    AbortReason, FilledMemory, Link, LinkCapabilities, LinkError, PeerAddress, RdmaUsage, ReceiveOutcome, SendOutcome,
    WaitFor,
};
use slab::{BlockMut, Gather};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// Bodies below this many bytes are cheaper to copy between the headers than to gather: each part costs the device
/// time.
const COPY_THRESHOLD_BYTES: usize = 1_024;

/// The capabilities of a link that takes no lent memory.
pub(crate) const DEFAULT_CAPABILITIES: LinkCapabilities = LinkCapabilities {
    gather_parts_max: MESSAGE_PARTS_MAX,
    copy_threshold_bytes: COPY_THRESHOLD_BYTES,
    lend_threshold_bytes: usize::MAX,
    pinned_bytes: 0,
    name: "rdma",
};

/// One end of a connection over verbs.
pub struct VerbsLink<D: Device> {
    port: Port<D>,
    id: LinkId,
    peer: PeerAddress,
    token: Option<RdmaToken>,
}

impl<D: Device> VerbsLink<D> {
    pub(crate) fn new(port: Port<D>, id: LinkId) -> Self {
        let mut core = port.engine();
        let (peer, token) = core.with(id).map_or_else(
            || (PeerAddress::in_process("rdma", "rdma"), None),
            |(connection, _)| (connection.peer.clone(), connection.token),
        );
        drop(core);
        VerbsLink { port, id, peer, token }
    }

    /// The id under which the port reports its edges.
    pub fn id(&self) -> LinkId {
        self.id
    }

    /// Whether `send` would take something, or fail.
    pub(crate) fn is_writable(&self) -> bool {
        self.port.engine().with(self.id).is_none_or(|(connection, shared)| connection.is_writable(shared))
    }

    /// Whether `receive` would not be idle.
    pub(crate) fn is_readable(&self) -> bool {
        self.port.engine().with(self.id).is_none_or(|(connection, _)| connection.is_readable())
    }

    /// Lets the peer take any time to read offers, whatever the port's [`fetch_max`](crate::PortSettings::fetch_max):
    /// for the connecting end, on a port that also accepts connections.
    pub fn disable_fetch_deadline(&self) {
        if let Some((connection, _)) = self.port.engine().with(self.id) {
            connection.has_no_fetch_deadline = true;
        }
    }

    /// The token that the peer connected with.
    pub fn token(&self) -> Option<RdmaToken> {
        self.token
    }
}

impl<D: Device> Link for VerbsLink<D> {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        let mut core = self.port.engine();
        let Some((connection, shared)) = core.with(self.id) else { return Ok(ReceiveOutcome::Closed) };
        let received = connection.receive(shared, direct, scratch);
        // Returns due credits now: the peer may wait for them, and the next poll may be late.
        if !shared.settings.corked && connection.is_dirty {
            core.flush();
        }
        received
    }

    fn lend(&mut self, memory: BlockMut, place: Range<usize>) -> Result<(), BlockMut> {
        let mut core = self.port.engine();
        let Some((connection, shared)) = core.with(self.id) else { return Err(memory) };
        connection.lend(shared, memory, place)
    }

    fn take_filled(&mut self) -> Option<FilledMemory> {
        self.port.engine().with(self.id)?.0.receive_half.take_filled()
    }

    fn announced_bytes(&self) -> usize {
        self.port.engine().with(self.id).map_or(0, |(connection, _)| connection.receive_half.announced_bytes())
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        let mut core = self.port.engine();
        let Some((connection, shared)) = core.with(self.id) else { return Err(LinkError::Closed) };
        connection.send(shared, from)
    }

    fn abort(&mut self, _why: AbortReason) {
        let mut core = self.port.engine();
        if let Some((connection, shared)) = core.with(self.id) {
            connection.abort(shared);
        }
    }

    fn close_sending(&mut self) {
        let mut core = self.port.engine();
        let Some((connection, shared)) = core.with(self.id) else { return };
        connection.close_sending(shared);
        if !shared.settings.corked {
            core.flush();
        }
    }

    /// `lend_threshold_bytes` is this end's own until the connection is established, and may be higher then.
    fn capabilities(&self) -> LinkCapabilities {
        let mut core = self.port.engine();
        let own = core.shared.settings.rendezvous_threshold_bytes as usize;
        let buffer_bytes = core.shared.settings.receive_buffer_bytes as usize;
        let (lend_threshold_bytes, pinned_bytes) = core.with(self.id).map_or((own, 0), |(connection, _)| {
            let receive_buffers = usize::from(connection.credits.promised());
            (connection.peer_limits.threshold.max(own), receive_buffers * buffer_bytes)
        });
        LinkCapabilities { lend_threshold_bytes, pinned_bytes, ..DEFAULT_CAPABILITIES }
    }

    fn peer(&self) -> &PeerAddress {
        &self.peer
    }

    fn rdma_usage(&self) -> Option<RdmaUsage> {
        self.port.engine().with(self.id).map(|(connection, _)| connection.usage())
    }

    /// Always an error: the port reports the edges of its links by [`Port::take_edges`].
    fn register(&mut self, _registry: &mio::Registry, _token: mio::Token) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "an RDMA link has no descriptor; its port has edges"))
    }

    fn deregister(&mut self, _registry: &mio::Registry) -> io::Result<()> {
        Ok(())
    }

    /// Drives the whole port while it waits.
    fn wait(&mut self, what: WaitFor, mut timeout: Option<Duration>) -> Result<bool, LinkError> {
        let mut core = self.port.engine();
        let broken = |error: crate::device::DeviceError| LinkError::Lost(error.into());
        // If the last wait had to sleep, this one most likely has to: then the poll after arming is enough. Otherwise
        // the first poll finds what has arrived without a system call.
        let mut sleeps_at_once = std::mem::take(&mut core.has_slept) && !core.shared.has_work();
        let mut until = None;
        loop {
            if !sleeps_at_once {
                core.poll().map_err(broken)?;
                if core.shared.settings.corked {
                    core.flush();
                }
            }
            let Some((connection, shared)) = core.with(self.id) else { return Ok(true) };
            let is_ready = (what.wants_readable() && connection.is_readable())
                || (what.wants_writable() && connection.is_writable(shared));
            if is_ready {
                return Ok(true);
            }
            let nap = if sleeps_at_once {
                timeout.map_or(DEADLINE_CHECK_INTERVAL, |timeout| timeout.min(DEADLINE_CHECK_INTERVAL))
            } else {
                let now = shared.now;
                let until = *until.get_or_insert_with(|| timeout.map(|timeout| now.saturating_add(timeout)));
                if until.is_some_and(|until| now >= until) {
                    return Ok(false);
                }
                until.map_or(DEADLINE_CHECK_INTERVAL, |until| (until - now).min(DEADLINE_CHECK_INTERVAL))
            };
            shared.device.arm().map_err(broken)?;
            if !core.poll_completions().map_err(broken)? {
                core.shared.device.wait(Some(nap)).map_err(broken)?;
                core.has_slept = true;
                if sleeps_at_once {
                    // The clock was not read before: a sleep that ended early counts in full, and is short.
                    timeout = timeout.map(|timeout| timeout - nap);
                }
            }
            sleeps_at_once = false;
        }
    }
}

impl<D: Device> Drop for VerbsLink<D> {
    fn drop(&mut self) {
        self.port.engine().abandon(self.id);
    }
}
