//! Connection manager events, asynchronous events of the device, and messages of other shards.
//!
//! An event may concern an object that does not exist any more.

use super::address::{device_error, is_errno};
use super::card_device::CardDevice;
use super::cm_connection::connect_params;
use super::listener_group::{CardMessage, broadcast};
use super::wait::poll_readable;
use crate::device::{ConnectRequestId, ConnectionEvent, DeviceError, QueuePairId};
use crate::limits::{EVENT_POLL_INTERVAL, RESOLVE_MAX};
use ib::{AsyncEvent, CmEvent, CmEventKind, CmId, ReadLimits};
use link::PeerAddress;
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// `IBV_EVENT_CQ_ERR`.
const COMPLETION_QUEUE_FAILED: u32 = 0;
/// `IBV_EVENT_SRQ_ERR`.
const RECEIVE_QUEUE_FAILED: u32 = 14;

impl CardDevice {
    /// Polls for events if it is time: each poll is a system call.
    pub fn poll_events(&mut self, now: Duration, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        self.check_not_broken()?;
        if std::mem::take(&mut self.events_just_polled) {
            self.events_polled_at = now;
        }
        if std::mem::take(&mut self.event_poll_due) || now >= self.events_polled_at + EVENT_POLL_INTERVAL {
            self.events_polled_at = now;
            if poll_readable(&[self.cm_channel.as_fd(), self.context.async_fd()], Some(Duration::ZERO))?.contains(&true)
            {
                self.poll_channels(into)?;
            }
        }
        if self.mailbox.has_messages() {
            for message in self.mailbox.take_messages() {
                match message {
                    CardMessage::Request { id, private, reads } => self.queue_request(id, private, reads, into),
                    CardMessage::Device(event) => self.on_async_event(event, into),
                }
            }
        }
        Ok(())
    }

    fn poll_channels(&mut self, into: &mut Vec<ConnectionEvent>) -> Result<(), DeviceError> {
        while let Some(event) = self.cm_channel.next().map_err(device_error)? {
            self.on_cm_event(event, into);
        }
        while let Some(event) = self.context.async_event().map_err(device_error)? {
            broadcast(&self.context, event);
        }
        Ok(())
    }

    fn on_cm_event(&mut self, event: CmEvent, into: &mut Vec<ConnectionEvent>) {
        let CmEvent { id: key, kind: about, private_data: data } = event;
        if let CmEventKind::ConnectRequest { id, reads } = about {
            return self.on_listener_request(id, data, reads, into);
        }
        if let CmEventKind::DeviceRemoved = about {
            self.broken = Some(DeviceError(format!("the device {} was removed", self.context.name())));
            return;
        }
        // The connection may have been destroyed meanwhile.
        let Some(&number) = self.by_id.get(&key) else { return };
        let pair = QueuePairId(number);
        let failed = |why: String| ConnectionEvent::Failed { pair, why };
        into.extend(match about {
            CmEventKind::AddressResolved => self.resolve_route(number).err().map(|error| failed(error.0)),
            CmEventKind::RouteResolved => self.send_request(number).err().map(|error| failed(error.0)),
            CmEventKind::Established { .. } => Some(ConnectionEvent::Established { pair, private: data }),
            CmEventKind::Rejected { reason: ib::REJECTED_BY_PROGRAM } => {
                Some(ConnectionEvent::Rejected { pair, private: data })
            }
            // iWARP reports negative error numbers as reasons; with private data it is a rejection by the program.
            CmEventKind::Rejected { reason: ..0 } if !data.is_empty() => {
                Some(ConnectionEvent::Rejected { pair, private: data })
            }
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
            CmEventKind::Disconnected => Some(ConnectionEvent::Disconnected { pair }),
            CmEventKind::Other(_) | CmEventKind::ConnectRequest { .. } | CmEventKind::DeviceRemoved => None,
        });
    }

    fn address_of(&self, number: u32) -> &str {
        self.connections.get(&number).map_or("", |conn| &conn.address)
    }

    fn resolve_route(&mut self, number: u32) -> Result<(), DeviceError> {
        let Some(conn) = self.connections.get(&number) else { return Ok(()) };
        let context = conn.id.context().map_err(device_error)?;
        if context != self.context {
            let (theirs, ours) = (context.name(), self.context.name());
            return Err(DeviceError(format!("{theirs} routes to {}, not {ours}", conn.address)));
        }
        conn.id.resolve_route(RESOLVE_MAX).map_err(device_error)
    }

    fn send_request(&mut self, number: u32) -> Result<(), DeviceError> {
        let Some(conn) = self.connections.get(&number) else { return Ok(()) };
        let pair = self.queue_pair(&conn.id, &conn.limits)?;
        let (tag, device_number) = (pair.work_queue(), pair.number());
        let Some(conn) = self.connections.get_mut(&number) else { return Ok(()) };
        conn.pair = Some(pair);
        let asked = conn.id.connect(&connect_params(&conn.private_data, &conn.limits, None));
        self.index_queue_pair(number, tag, device_number);
        asked.map_err(|error| match is_errno(&error, Errno::CONNREFUSED) {
            // iWARP makes the TCP connection within this call.
            true => DeviceError(format!("nobody listens at {}", self.address_of(number))),
            false => device_error(error),
        })
    }

    /// A request at the listener of the group.
    fn on_listener_request(&mut self, id: CmId, private: Vec<u8>, reads: ReadLimits, into: &mut Vec<ConnectionEvent>) {
        match id.context() {
            Ok(context) if context == self.context => {}
            Ok(context) => {
                let (theirs, ours) = (context.name(), self.context.name());
                let peer = id.peer_address().map_or_else(|| "a peer".to_owned(), |peer| peer.to_string());
                tracing::warn!(
                    "RDMA: {peer} is rejected: its request came through {theirs}, and this broker uses {ours}; listen on an address of the device to use"
                );
                return;
            }
            Err(error) => return tracing::warn!("RDMA: a request is rejected: {error}"),
        }
        let Some(family) = self.listener_group.clone() else {
            self.mailbox.add_queue_pair();
            return self.queue_request(id, private, reads, into);
        };
        match family.assign_request(&self.mailbox, id, private, reads) {
            Ok(Some((id, private, reads))) => self.queue_request(id, private, reads, into),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!("RDMA: a request is rejected, because it cannot be passed to its shard: {error}")
            }
        }
    }

    /// A request that this device serves.
    fn queue_request(&mut self, id: CmId, private: Vec<u8>, reads: ReadLimits, into: &mut Vec<ConnectionEvent>) {
        let text = |address: Option<std::net::SocketAddr>| address.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let peer = PeerAddress {
            address: text(id.peer_address()).into(),
            local_address: text(id.local_address()).into(),
            // The loopback address has no device, and an address of this machine proves nothing about the client.
            is_loopback: false,
        };
        self.next_request += 1;
        self.requests.insert(self.next_request, (id, reads));
        into.push(ConnectionEvent::Request { request: ConnectRequestId(self.next_request), private, peer });
    }

    fn on_async_event(&mut self, event: AsyncEvent, into: &mut Vec<ConnectionEvent>) {
        match event {
            AsyncEvent::LastWqeReached { queue_pair } => {
                let number = self.by_device_number.get(&queue_pair);
                if let Some(conn) = number.and_then(|number| self.connections.get_mut(number)) {
                    conn.last_wqe_reached = true;
                }
            }
            AsyncEvent::QueuePairFailed { queue_pair, .. } => {
                if let Some(&number) = self.by_device_number.get(&queue_pair) {
                    into.push(ConnectionEvent::Disconnected { pair: QueuePairId(number) });
                }
            }
            AsyncEvent::DeviceFailed => {
                self.broken = Some(DeviceError(format!("the device {} has failed", self.context.name())));
            }
            // A short outage does no harm. A long one ends connections by their retries, and idle ones by their
            // missing PONG.
            AsyncEvent::PortDown(port) => {
                tracing::warn!("RDMA: port {port} of {} has lost its link", self.context.name());
            }
            AsyncEvent::PortUp(port) => {
                tracing::info!("RDMA: port {port} of {} is active again", self.context.name());
            }
            // The event does not name the queue. An overflow is impossible, because `queue_pair` counts the entries.
            AsyncEvent::Other(COMPLETION_QUEUE_FAILED | RECEIVE_QUEUE_FAILED) => {
                self.broken = Some(DeviceError(format!("a queue of the device {} has failed", self.context.name())));
            }
            AsyncEvent::Other(number) => {
                tracing::debug!("RDMA: event {number} of {}", self.context.name());
            }
        }
    }
}
