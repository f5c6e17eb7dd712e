//! The rare half of a card: what the connection manager, the device and siblings have to tell.
//!
//! Enters: their events.  Leaves: the engine's, and the next step of each connection that is being made.
//! Never:  trusts that an event is about something that still exists.

use super::address::{is_errno, told};
use super::conn::terms;
use super::device::Card;
use super::family::{Letter, announce};
use super::wait::readable;
use crate::device::{DeviceError, Event, QueuePair, Request};
use crate::limits::{NEWS_EVERY, RESOLVE_MAX};
use ib::{CmEventKind, AsyncEvent, CmEvent, CmId, ReadLimits};
use link::PeerAddress;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Numbers of the C interface for events that `ib` has no names for.
const COMPLETION_QUEUE_FAILED: u32 = 0;
/// See above.
const RECEIVE_QUEUE_FAILED: u32 = 14;

impl Card {
    /// Looks for news if it is time: each look is a call into the kernel.
    pub fn hear_news(&mut self, now: Duration, into: &mut Vec<Event>) -> Result<(), DeviceError> {
        self.check()?;
        if std::mem::take(&mut self.has_looked) {
            self.looked_at = now;
        }
        if std::mem::take(&mut self.is_look_due) || now >= self.looked_at + NEWS_EVERY {
            self.looked_at = now;
            if readable(&[self.channel.as_fd(), self.context.async_fd()], Some(Duration::ZERO))?.contains(&true) {
                self.hear_all(into)?;
            }
        }
        if self.mailbox.has_letters() {
            for letter in self.mailbox.take() {
                match letter {
                    Letter::Request { id, private, reads } => self.request(id, private, reads, into),
                    Letter::Device(event) => self.device_event(event, into),
                }
            }
        }
        Ok(())
    }

    fn hear_all(&mut self, into: &mut Vec<Event>) -> Result<(), DeviceError> {
        while let Some(event) = self.channel.next().map_err(told)? {
            self.hear(event, into);
        }
        while let Some(event) = self.context.async_event().map_err(told)? {
            announce(&self.context, event);
        }
        Ok(())
    }

    fn hear(&mut self, event: CmEvent, into: &mut Vec<Event>) {
        let CmEvent { id: key, kind: about, private_data: data } = event;
        if let CmEventKind::ConnectRequest { id, reads } = about {
            return self.requested(id, data, reads, into);
        }
        if let CmEventKind::DeviceRemoved = about {
            self.broken = Some(DeviceError(format!("the device {} was removed", self.context.name())));
            return;
        }
        // One that was forgotten meanwhile has no number.
        let Some(&number) = self.by_id.get(&key) else { return };
        let pair = QueuePair(number);
        let failed = |why: String| Event::Failed { pair, why };
        into.extend(match about {
            CmEventKind::AddressResolved => self.find_way(number).err().map(|error| failed(error.0)),
            CmEventKind::RouteResolved => self.ask(number).err().map(|error| failed(error.0)),
            CmEventKind::Established { .. } => Some(Event::Established { pair, private: data }),
            CmEventKind::Rejected { reason: ib::REJECTED_BY_PROGRAM } => Some(Event::Rejected { pair, private: data }),
            // iWARP has no numbers for reasons, but the system's, less than 0; who has words has read the request.
            CmEventKind::Rejected { reason: ..0 } if !data.is_empty() => Some(Event::Rejected { pair, private: data }),
            CmEventKind::Rejected { reason: ib::REJECTED_NO_LISTENER } => {
                Some(failed(format!("nobody listens at {}", self.address_of(number))))
            }
            CmEventKind::Rejected { reason } => {
                Some(failed(format!("{} rejected the connection, reason {reason}", self.address_of(number))))
            }
            CmEventKind::Failed { step: what, errno } => {
                let error = io::Error::from_raw_os_error(errno);
                Some(failed(format!("{}: {what}: {error}", self.address_of(number))))
            }
            CmEventKind::Disconnected => Some(Event::Disconnected { pair }),
            CmEventKind::Other(_) | CmEventKind::ConnectRequest { .. } | CmEventKind::DeviceRemoved => None,
        });
    }

    fn address_of(&self, number: u32) -> &str {
        self.conns.get(&number).map_or("", |conn| &conn.address)
    }

    fn find_way(&mut self, number: u32) -> Result<(), DeviceError> {
        let Some(conn) = self.conns.get(&number) else { return Ok(()) };
        let context = conn.id.context().map_err(told)?;
        if context != self.context {
            let (theirs, ours) = (context.name(), self.context.name());
            return Err(DeviceError(format!("{theirs} leads to {}, and not {ours}", conn.address)));
        }
        conn.id.resolve_route(RESOLVE_MAX).map_err(told)
    }

    fn ask(&mut self, number: u32) -> Result<(), DeviceError> {
        let Some(conn) = self.conns.get(&number) else { return Ok(()) };
        let pair = self.queue_pair(&conn.id, &conn.wishes)?;
        let (tag, device_number) = (pair.work_queue(), pair.number());
        let Some(conn) = self.conns.get_mut(&number) else { return Ok(()) };
        conn.pair = Some(pair);
        let asked = conn.id.connect(&terms(&conn.private, &conn.wishes, None));
        self.know(number, tag, device_number);
        asked.map_err(|error| match is_errno(&error, Errno::CONNREFUSED) {
            // iWARP connects at once, by TCP.
            true => DeviceError(format!("nobody listens at {}", self.address_of(number))),
            false => told(error),
        })
    }

    /// A request at the listener of all siblings.
    fn requested(&mut self, id: CmId, private: Vec<u8>, reads: ReadLimits, into: &mut Vec<Event>) {
        match id.context() {
            Ok(context) if context == self.context => {}
            Ok(context) => {
                let (theirs, ours) = (context.name(), self.context.name());
                let peer = id.peer_address().map_or_else(|| "a peer".to_owned(), |peer| peer.to_string());
                tracing::warn!(
                    "RDMA: {peer} is refused: it asks through {theirs}, and this broker uses {ours}; listen on an address of the device to use"
                );
                return;
            }
            Err(error) => return tracing::warn!("RDMA: a request is refused: {error}"),
        }
        let Some(family) = self.family.clone() else {
            self.mailbox.pair_came();
            return self.request(id, private, reads, into);
        };
        match family.hand_over(&self.mailbox, id, private, reads) {
            Ok(Some((id, private, reads))) => self.request(id, private, reads, into),
            Ok(None) => {}
            Err(error) => tracing::warn!("RDMA: a request is refused, since it cannot go to its shard: {error}"),
        }
    }

    /// A request that is this card's own.
    fn request(&mut self, id: CmId, private: Vec<u8>, reads: ReadLimits, into: &mut Vec<Event>) {
        let text = |address: Option<std::net::SocketAddr>| address.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let peer = PeerAddress {
            address: text(id.peer_address()).into(),
            local_address: text(id.local_address()).into(),
            // The loopback address has no device; that two addresses are of one machine proves nothing of who asks.
            is_loopback: false,
        };
        self.next_request += 1;
        self.requests.insert(self.next_request, (id, reads));
        into.push(Event::Request { request: Request(self.next_request), private, peer });
    }

    fn device_event(&mut self, event: AsyncEvent, into: &mut Vec<Event>) {
        match event {
            AsyncEvent::LastWqeReached { queue_pair } => {
                let number = self.by_device_number.get(&queue_pair);
                if let Some(conn) = number.and_then(|number| self.conns.get_mut(number)) {
                    conn.had_last_receive = true;
                }
            }
            AsyncEvent::QueuePairFailed { queue_pair, .. } => {
                if let Some(&number) = self.by_device_number.get(&queue_pair) {
                    into.push(Event::Disconnected { pair: QueuePair(number) });
                }
            }
            AsyncEvent::DeviceFailed => {
                self.broken = Some(DeviceError(format!("the device {} has failed", self.context.name())));
            }
            // A link that comes back soon does no harm. One that does not ends its connections by their retries, and
            // those that say nothing by their silence.
            AsyncEvent::PortDown(port) => {
                tracing::warn!("RDMA: port {port} of {} has lost its link", self.context.name());
            }
            AsyncEvent::PortUp(port) => {
                tracing::info!("RDMA: port {port} of {} has its link again", self.context.name());
            }
            // Whose it is the event does not say here. It cannot be for want of room, which is counted (`queue_pair`).
            AsyncEvent::Other(COMPLETION_QUEUE_FAILED | RECEIVE_QUEUE_FAILED) => {
                self.broken = Some(DeviceError(format!("a queue of the device {} has failed", self.context.name())));
            }
            AsyncEvent::Other(number) => {
                tracing::debug!("RDMA: event {number} of {}", self.context.name());
            }
        }
    }
}
