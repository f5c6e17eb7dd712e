//! Ids of the connection manager: an address, a listener, or one connection.
//!
//! Enters: addresses, private data, retry settings.  Leaves: requests to the kernel; what comes of them are events.
//! Owns:   the id, which goes after its queue pair.
//! Never:  waits for an answer, or connects with retries that have no end.

use std::fmt;
use std::net::SocketAddr;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::{c_int, c_void};

use crate::abi;
use crate::address::{self, Raw};
use crate::cm::{CmChannel, Reads, lock};
use crate::device::Context;
use crate::error::Error;
use crate::library::Cm;
use crate::limits::{
    ACCEPT_DATA_BYTES_MAX, ACK_TIMEOUT_EXPONENT_MAX, CONNECT_DATA_BYTES_MAX, REJECT_DATA_BYTES_MAX, RETRIES_MAX,
};

/// Which id an event is about. No two that ever were in this process are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdKey(usize);

impl IdKey {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn of(context: *mut c_void) -> Self {
        Self(context.addr())
    }

    fn context(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

/// An id. Dropping it ends what it stands for; its queue pair keeps it until that is gone too.
pub struct Id(Arc<Made>);

pub(crate) struct Made {
    cm: &'static Cm,
    raw: *mut abi::CmId,
    key: IdKey,
    // Behind a lock because an id may change its channel. Never empty before the id is destroyed.
    channel: Mutex<CmChannel>,
}

// SAFETY: every call with it is made under the one lock of the connection manager.
unsafe impl Send for Made {}
// SAFETY: as above.
unsafe impl Sync for Made {}

impl Drop for Made {
    fn drop(&mut self) {
        let _locked = lock();
        // SAFETY: made below or brought by a request, and destroyed once. Its queue pair held a clone of the `Arc` that
        // ends here, and no event is unacknowledged while the lock is held.
        unsafe { (self.cm.rdma_destroy_id)(self.raw) };
    }
}

impl Made {
    pub(crate) fn cm(&self) -> &'static Cm {
        self.cm
    }

    pub(crate) fn raw(&self) -> *mut abi::CmId {
        self.raw
    }
}

/// What a connection is asked or let in with.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Private data for the peer: at most [`CONNECT_DATA_BYTES_MAX`] or [`ACCEPT_DATA_BYTES_MAX`].
    pub data: &'a [u8],
    /// READs.
    pub reads: Reads,
    /// How often a packet that nobody acknowledges is sent again, [`RETRIES_MAX`] at most; both sides take the asking
    /// one's.
    pub retries: u8,
    /// How often one that found no receive posted is sent again, [`RETRIES_MAX`] at most.
    pub not_ready_retries: u8,
}

impl Id {
    /// An id for a reliable connection, or to listen for such.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(channel: &CmChannel) -> Result<Self, Error> {
        let key = IdKey::new();
        let cm = channel.opened().cm;
        let mut raw = ptr::null_mut();
        let locked = lock();
        // SAFETY: the channel exists, and the place is ours to write to.
        let answer = unsafe { (cm.rdma_create_id)(channel.opened().raw, &mut raw, key.context(), abi::PS_TCP) };
        drop(locked);
        Error::check("rdma_create_id", answer)?;
        Ok(Self(Arc::new(Made { cm, raw, key, channel: Mutex::new(channel.clone()) })))
    }

    /// The id that a request has brought.
    ///
    /// # Safety
    /// `raw` is the id of a connection request that `channel` just gave, taken by nobody else, and the caller holds the lock.
    pub(crate) unsafe fn of_request(channel: &CmChannel, raw: *mut abi::CmId) -> Self {
        let key = IdKey::new();
        // SAFETY: the id exists, and this field is its user's.
        unsafe { (*raw).context = key.context() };
        Self(Arc::new(Made { cm: channel.opened().cm, raw, key, channel: Mutex::new(channel.clone()) }))
    }

    pub(crate) fn made(&self) -> &Arc<Made> {
        &self.0
    }

    fn call(&self, name: &'static str, f: impl FnOnce(&Cm, *mut abi::CmId) -> c_int) -> Result<(), Error> {
        let _locked = lock();
        Error::check(name, f(self.0.cm, self.0.raw))
    }

    /// What its events are about.
    pub fn key(&self) -> IdKey {
        self.0.key
    }

    /// The device, once there is one: after a bind to an address of its own, when the address is resolved, or from a
    /// request.
    ///
    /// # Errors
    /// [`Error::NotYet`] before.
    pub fn context(&self) -> Result<Context, Error> {
        let _locked = lock();
        // SAFETY: the id exists.
        let verbs = unsafe { (*self.0.raw).verbs };
        if verbs.is_null() {
            return Err(Error::NotYet("an id has no device before its address is resolved"));
        }
        // SAFETY: the device of an id, and not null.
        unsafe { Context::of_cm(verbs) }
    }

    /// Binds to a local address. The one of all interfaces is possible; the loopback one has no device.
    ///
    /// # Errors
    /// What the system says: `ENODEV` for an address that no device has.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        let mut raw = Raw::new(address);
        if address.is_ipv6() {
            // As for a socket of ours: an address of IPv6 is not one of IPv4 too.
            self.set(abi::OPTION_ID_AFONLY, &1i32.to_ne_bytes())?;
        }
        // SAFETY: the id and the address exist.
        self.call("rdma_bind_addr", |cm, id| unsafe { (cm.rdma_bind_addr)(id, raw.pointer()) })
    }

    /// Lets an address be used that connections of an earlier listener still use.
    ///
    /// # Errors
    /// What the system says.
    pub fn reuse_address(&self) -> Result<(), Error> {
        self.set(abi::OPTION_ID_REUSEADDR, &1i32.to_ne_bytes())
    }

    /// How long the card waits for an acknowledgement before it sends again: 4.096 us times 2 to the power of
    /// `exponent`. Set it before connecting or accepting; what the kernel chooses makes a dead peer go unnoticed for
    /// long.
    ///
    /// # Errors
    /// [`Error::Limit`], or what the system says: kernels before 5.1 do not know it.
    pub fn set_ack_timeout(&self, exponent: u8) -> Result<(), Error> {
        Error::within("exponent of the acknowledgement's time-out", exponent.into(), ACK_TIMEOUT_EXPONENT_MAX.into())?;
        self.set(abi::OPTION_ID_ACK_TIMEOUT, &[exponent])
    }

    fn set(&self, option: c_int, value: &[u8]) -> Result<(), Error> {
        let value_start = value.as_ptr().cast_mut().cast();
        // SAFETY: the id exists; the value is as long as the option wants it, and only read.
        self.call("rdma_set_option", |cm, id| unsafe {
            (cm.rdma_set_option)(id, abi::OPTION_ID, option, value_start, value.len())
        })
    }

    /// Listens: requests come as events. `backlog` of them wait at most.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the id exists.
        self.call("rdma_listen", |cm, id| unsafe { (cm.rdma_listen)(id, backlog) })
    }

    /// Finds the device that leads to `to`, from `from` if that is given. [`About::AddressResolved`](crate::About)
    /// comes, or a failure.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn resolve_address(&self, from: Option<SocketAddr>, to: SocketAddr, timeout: Duration) -> Result<(), Error> {
        let (mut from, mut to) = (from.map(Raw::new), Raw::new(to));
        let from = from.as_mut().map_or(ptr::null_mut(), Raw::pointer);
        let timeout = millis(timeout);
        // SAFETY: the id and the addresses exist.
        self.call("rdma_resolve_addr", |cm, id| unsafe { (cm.rdma_resolve_addr)(id, from, to.pointer(), timeout) })
    }

    /// Finds the way, once the address is resolved. [`About::RouteResolved`](crate::About) comes, or a failure.
    ///
    /// # Errors
    /// What the system says at once.
    pub fn resolve_route(&self, timeout: Duration) -> Result<(), Error> {
        let timeout = millis(timeout);
        // SAFETY: the id exists.
        self.call("rdma_resolve_route", |cm, id| unsafe { (cm.rdma_resolve_route)(id, timeout) })
    }

    /// Asks the peer for a connection, once the way is known and the queue pair is made.
    ///
    /// # Errors
    /// [`Error::Limit`] for terms that cannot be, or what the system says at once.
    pub fn connect(&self, terms: &Terms<'_>) -> Result<(), Error> {
        let mut terms = terms.raw(CONNECT_DATA_BYTES_MAX)?;
        // SAFETY: the id, the terms and their data exist.
        self.call("rdma_connect", |cm, id| unsafe { (cm.rdma_connect)(id, &mut terms) })
    }

    /// Lets the peer in, whose request this is, once the queue pair is made.
    ///
    /// # Errors
    /// [`Error::Limit`] for terms that cannot be, or what the system says at once.
    pub fn accept(&self, terms: &Terms<'_>) -> Result<(), Error> {
        let mut terms = terms.raw(ACCEPT_DATA_BYTES_MAX)?;
        // SAFETY: the id, the terms and their data exist.
        self.call("rdma_accept", |cm, id| unsafe { (cm.rdma_accept)(id, &mut terms) })
    }

    /// Refuses the peer whose request this is, with words of our own.
    ///
    /// # Errors
    /// [`Error::Limit`] for too many of them, or what the system says.
    pub fn reject(&self, data: &[u8]) -> Result<(), Error> {
        Error::within("bytes of private data", data.len(), REJECT_DATA_BYTES_MAX)?;
        // SAFETY: the id and the data exist.
        self.call("rdma_reject", |cm, id| unsafe { (cm.rdma_reject)(id, data.as_ptr().cast(), data.len() as u8) })
    }

    /// Ends the connection: the peer is told, and all work of the queue pair here completes as flushed.
    ///
    /// # Errors
    /// What the system says.
    pub fn disconnect(&self) -> Result<(), Error> {
        // SAFETY: the id exists.
        self.call("rdma_disconnect", |cm, id| unsafe { (cm.rdma_disconnect)(id) })
    }

    /// Makes later events of this id come to another channel: the way to another thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn migrate(&self, channel: &CmChannel) -> Result<(), Error> {
        // SAFETY: the id and the channel exist, and no event is unacknowledged while the lock is held.
        self.call("rdma_migrate_id", |cm, id| unsafe { (cm.rdma_migrate_id)(id, channel.opened().raw) })?;
        let former = {
            let mut held = self.0.channel.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, channel.clone())
        };
        drop(former);
        Ok(())
    }

    /// The local address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let _locked = lock();
        // SAFETY: the id exists, and only calls under the lock write there.
        address::read(unsafe { &(*self.0.raw).route.src_addr })
    }

    /// The peer's address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let _locked = lock();
        // SAFETY: the id exists, and only calls under the lock write there.
        address::read(unsafe { &(*self.0.raw).route.dst_addr })
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0.key.0)
    }
}

impl Terms<'_> {
    fn raw(&self, data_bytes_max: usize) -> Result<abi::ConnParam, Error> {
        Error::within("bytes of private data", self.data.len(), data_bytes_max)?;
        Error::within("retries", self.retries.into(), RETRIES_MAX.into())?;
        Error::within("retries of a receiver that is not ready", self.not_ready_retries.into(), RETRIES_MAX.into())?;
        Ok(abi::ConnParam {
            private_data: self.data.as_ptr().cast(),
            private_data_len: self.data.len() as u8,
            responder_resources: self.reads.serve,
            initiator_depth: self.reads.ask,
            flow_control: 1,
            retry_count: self.retries,
            rnr_retry_count: self.not_ready_retries,
            // The queue pair that was made on the id says these.
            srq: 0,
            qp_num: 0,
        })
    }
}

fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::Terms;
    use crate::cm::Reads;
    use crate::error::Error;

    #[test]
    fn retries_without_end_cannot_be_asked_for() {
        let terms = Terms { data: &[], reads: Reads { serve: 1, ask: 1 }, retries: 7, not_ready_retries: 0 };
        assert!(matches!(terms.raw(56), Err(Error::Limit { asked: 7, most: 6, .. })));
        let terms = Terms { retries: 6, not_ready_retries: 7, ..terms };
        assert!(matches!(terms.raw(56), Err(Error::Limit { asked: 7, most: 6, .. })));
        let terms = Terms { not_ready_retries: 6, data: &[0; 57], ..terms };
        assert!(matches!(terms.raw(56), Err(Error::Limit { asked: 57, most: 56, .. })));
    }
}
