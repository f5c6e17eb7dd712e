//! Ids of the connection manager: an address, a listener, or one connection.
//!
//! Calls return at once, and their results are events. Retries always have an end.

use std::fmt;
use std::net::SocketAddr;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::{c_int, c_void};

use crate::abi;
use crate::cm::{CmEventChannel, ReadLimits, lock};
use crate::device::DeviceContext;
use crate::error::IbError;
use crate::library::CmLibrary;
use crate::limits::{
    ACCEPT_DATA_BYTES_MAX, ACK_TIMEOUT_EXPONENT_MAX, CONNECT_DATA_BYTES_MAX, REJECT_DATA_BYTES_MAX, RETRIES_MAX,
};
use crate::socket_address::{self, SockAddr};

/// Identifies the id of an event. Never reused in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CmIdKey(usize);

impl CmIdKey {
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

/// An id (`rdma_cm_id`). It is destroyed when it and its queue pair are dropped.
pub struct CmId(Arc<CmIdHandle>);

pub(crate) struct CmIdHandle {
    cm: &'static CmLibrary,
    raw: *mut abi::RdmaCmId,
    key: CmIdKey,
    // Behind a lock because an id may migrate to another channel.
    channel: Mutex<CmEventChannel>,
}

// SAFETY: every call with it is made under the one lock of the connection manager.
unsafe impl Send for CmIdHandle {}
// SAFETY: as above.
unsafe impl Sync for CmIdHandle {}

impl Drop for CmIdHandle {
    fn drop(&mut self) {
        let _locked = lock();
        // SAFETY: made below or brought by a request, and destroyed once. Its queue pair held a clone of the `Arc` that
        // ends here, and no event is unacknowledged while the lock is held.
        unsafe { (self.cm.rdma_destroy_id)(self.raw) };
    }
}

impl CmIdHandle {
    pub(crate) fn cm(&self) -> &'static CmLibrary {
        self.cm
    }

    pub(crate) fn raw(&self) -> *mut abi::RdmaCmId {
        self.raw
    }
}

/// The parameters of a connection (`rdma_conn_param`).
#[derive(Clone, Copy, Debug)]
pub struct ConnectParams<'a> {
    /// Private data for the peer: at most [`CONNECT_DATA_BYTES_MAX`] or [`ACCEPT_DATA_BYTES_MAX`].
    pub private_data: &'a [u8],
    pub read_limits: ReadLimits,
    /// How often an unacknowledged packet is retransmitted, [`RETRIES_MAX`] at most; both sides use the connecting
    /// side's value.
    pub retry_count: u8,
    /// How often a packet is retransmitted after a receiver-not-ready answer, [`RETRIES_MAX`] at most.
    pub rnr_retry_count: u8,
}

impl CmId {
    /// An id for a reliable connection, or to listen for them.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(channel: &CmEventChannel) -> Result<Self, IbError> {
        let key = CmIdKey::new();
        let cm = channel.handle().cm;
        let mut raw = ptr::null_mut();
        let locked = lock();
        // SAFETY: the channel exists, and the place is ours to write to.
        let answer = unsafe { (cm.rdma_create_id)(channel.handle().raw, &mut raw, key.context(), abi::PS_TCP) };
        drop(locked);
        IbError::check("rdma_create_id", answer)?;
        Ok(Self(Arc::new(CmIdHandle { cm, raw, key, channel: Mutex::new(channel.clone()) })))
    }

    /// The id of a connection request.
    ///
    /// # Safety
    /// `raw` is the id of a connection request that was just read from `channel`, nobody else has taken it, and the
    /// caller holds the lock.
    pub(crate) unsafe fn of_request(channel: &CmEventChannel, raw: *mut abi::RdmaCmId) -> Self {
        let key = CmIdKey::new();
        // SAFETY: the id exists, and this field is its user's.
        unsafe { (*raw).context = key.context() };
        Self(Arc::new(CmIdHandle { cm: channel.handle().cm, raw, key, channel: Mutex::new(channel.clone()) }))
    }

    pub(crate) fn handle(&self) -> &Arc<CmIdHandle> {
        &self.0
    }

    fn call(&self, name: &'static str, f: impl FnOnce(&CmLibrary, *mut abi::RdmaCmId) -> c_int) -> Result<(), IbError> {
        let _locked = lock();
        IbError::check(name, f(self.0.cm, self.0.raw))
    }

    /// The key that its events carry.
    pub fn key(&self) -> CmIdKey {
        self.0.key
    }

    /// The device, once it is known: after binding to an address of its own, after address resolution, or in a request.
    ///
    /// # Errors
    /// [`IbError::InvalidState`] before.
    pub fn context(&self) -> Result<DeviceContext, IbError> {
        let _locked = lock();
        // SAFETY: the id exists.
        let verbs = unsafe { (*self.0.raw).verbs };
        if verbs.is_null() {
            return Err(IbError::InvalidState("the id has no device before its address is resolved"));
        }
        // SAFETY: the device of an id, and not null.
        unsafe { DeviceContext::of_cm(verbs) }
    }

    /// Binds to a local address, or to that of all interfaces. The loopback address has no device.
    ///
    /// # Errors
    /// The operating system's error: `ENODEV` for an address that no device has.
    pub fn bind(&self, address: SocketAddr) -> Result<(), IbError> {
        let mut raw = SockAddr::new(address);
        if address.is_ipv6() {
            // As for our sockets, an IPv6 address does not accept IPv4 connections.
            self.set(abi::OPTION_ID_AFONLY, &1i32.to_ne_bytes())?;
        }
        // SAFETY: the id and the address exist.
        self.call("rdma_bind_addr", |cm, id| unsafe { (cm.rdma_bind_addr)(id, raw.pointer()) })
    }

    /// Allows an address that connections of an earlier listener still use.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn reuse_address(&self) -> Result<(), IbError> {
        self.set(abi::OPTION_ID_REUSEADDR, &1i32.to_ne_bytes())
    }

    /// How long the device waits for an acknowledgement before it retransmits: 4.096 us times 2 to the power of
    /// `exponent`. Set it before connecting or accepting; with the kernel's default a dead peer goes unnoticed for
    /// long.
    ///
    /// # Errors
    /// [`IbError::Limit`], or the operating system's error: kernels before 5.1 do not know it.
    pub fn set_ack_timeout(&self, exponent: u8) -> Result<(), IbError> {
        IbError::check_limit(
            "exponent of the acknowledgement's time-out",
            exponent.into(),
            ACK_TIMEOUT_EXPONENT_MAX.into(),
        )?;
        self.set(abi::OPTION_ID_ACK_TIMEOUT, &[exponent])
    }

    fn set(&self, option: c_int, value: &[u8]) -> Result<(), IbError> {
        let value_start = value.as_ptr().cast_mut().cast();
        // SAFETY: the id exists; the value is as long as the option wants it, and only read.
        self.call("rdma_set_option", |cm, id| unsafe {
            (cm.rdma_set_option)(id, abi::OPTION_ID, option, value_start, value.len())
        })
    }

    /// Listens: requests arrive as events, and at most `backlog` of them are queued.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn listen(&self, backlog: u32) -> Result<(), IbError> {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the id exists.
        self.call("rdma_listen", |cm, id| unsafe { (cm.rdma_listen)(id, backlog) })
    }

    /// Finds the device that leads to `to`, from `from` if that is given.
    /// [`CmEventKind::AddressResolved`](crate::CmEventKind) comes, or a failure.
    ///
    /// # Errors
    /// The operating system's error at once.
    pub fn resolve_address(&self, from: Option<SocketAddr>, to: SocketAddr, timeout: Duration) -> Result<(), IbError> {
        let (mut from, mut to) = (from.map(SockAddr::new), SockAddr::new(to));
        let from = from.as_mut().map_or(ptr::null_mut(), SockAddr::pointer);
        let timeout = millis(timeout);
        // SAFETY: the id and the addresses exist.
        self.call("rdma_resolve_addr", |cm, id| unsafe { (cm.rdma_resolve_addr)(id, from, to.pointer(), timeout) })
    }

    /// Resolves the route, once the address is resolved. [`CmEventKind::RouteResolved`](crate::CmEventKind) follows, or
    /// a failure.
    ///
    /// # Errors
    /// The operating system's error at once.
    pub fn resolve_route(&self, timeout: Duration) -> Result<(), IbError> {
        let timeout = millis(timeout);
        // SAFETY: the id exists.
        self.call("rdma_resolve_route", |cm, id| unsafe { (cm.rdma_resolve_route)(id, timeout) })
    }

    /// Requests a connection, once the route is resolved and the queue pair is made.
    ///
    /// # Errors
    /// [`IbError::Limit`] for terms that cannot be, or the operating system's error at once.
    pub fn connect(&self, terms: &ConnectParams<'_>) -> Result<(), IbError> {
        let mut terms = terms.raw(CONNECT_DATA_BYTES_MAX)?;
        // SAFETY: the id, the terms and their data exist.
        self.call("rdma_connect", |cm, id| unsafe { (cm.rdma_connect)(id, &mut terms) })
    }

    /// Accepts this request, once the queue pair is made.
    ///
    /// # Errors
    /// [`IbError::Limit`] for terms that cannot be, or the operating system's error at once.
    pub fn accept(&self, terms: &ConnectParams<'_>) -> Result<(), IbError> {
        let mut terms = terms.raw(ACCEPT_DATA_BYTES_MAX)?;
        // SAFETY: the id, the terms and their data exist.
        self.call("rdma_accept", |cm, id| unsafe { (cm.rdma_accept)(id, &mut terms) })
    }

    /// Rejects this request, with private data.
    ///
    /// # Errors
    /// [`IbError::Limit`] for too many of them, or the operating system's error.
    pub fn reject(&self, data: &[u8]) -> Result<(), IbError> {
        IbError::check_limit("bytes of private data", data.len(), REJECT_DATA_BYTES_MAX)?;
        // SAFETY: the id and the data exist.
        self.call("rdma_reject", |cm, id| unsafe { (cm.rdma_reject)(id, data.as_ptr().cast(), data.len() as u8) })
    }

    /// Ends the connection: the peer is notified, and all outstanding work here completes as flushed.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn disconnect(&self) -> Result<(), IbError> {
        // SAFETY: the id exists.
        self.call("rdma_disconnect", |cm, id| unsafe { (cm.rdma_disconnect)(id) })
    }

    /// Moves this id to another channel, usually that of another thread.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn migrate(&self, channel: &CmEventChannel) -> Result<(), IbError> {
        // SAFETY: the id and the channel exist, and no event is unacknowledged while the lock is held.
        self.call("rdma_migrate_id", |cm, id| unsafe { (cm.rdma_migrate_id)(id, channel.handle().raw) })?;
        let former = {
            let mut held = self.0.channel.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, channel.clone())
        };
        drop(former);
        Ok(())
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        let _locked = lock();
        // SAFETY: the id exists, and only calls under the lock write there.
        socket_address::read(unsafe { &(*self.0.raw).route.src_addr })
    }

    /// The peer's address.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let _locked = lock();
        // SAFETY: the id exists, and only calls under the lock write there.
        socket_address::read(unsafe { &(*self.0.raw).route.dst_addr })
    }
}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CmId({})", self.0.key.0)
    }
}

impl ConnectParams<'_> {
    fn raw(&self, data_bytes_max: usize) -> Result<abi::RdmaConnParam, IbError> {
        IbError::check_limit("bytes of private data", self.private_data.len(), data_bytes_max)?;
        IbError::check_limit("retries", self.retry_count.into(), RETRIES_MAX.into())?;
        IbError::check_limit(
            "retries of a receiver that is not ready",
            self.rnr_retry_count.into(),
            RETRIES_MAX.into(),
        )?;
        Ok(abi::RdmaConnParam {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data.len() as u8,
            responder_resources: self.read_limits.responder_resources,
            initiator_depth: self.read_limits.initiator_depth,
            flow_control: 1,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            // Ignored, because the queue pair was made on the id.
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
    use super::ConnectParams;
    use crate::cm::ReadLimits;
    use crate::error::IbError;

    #[test]
    fn retries_without_end_cannot_be_asked_for() {
        let terms = ConnectParams {
            private_data: &[],
            read_limits: ReadLimits { responder_resources: 1, initiator_depth: 1 },
            retry_count: 7,
            rnr_retry_count: 0,
        };
        assert!(matches!(terms.raw(56), Err(IbError::Limit { requested: 7, max: 6, .. })));
        let terms = ConnectParams { retry_count: 6, rnr_retry_count: 7, ..terms };
        assert!(matches!(terms.raw(56), Err(IbError::Limit { requested: 7, max: 6, .. })));
        let terms = ConnectParams { rnr_retry_count: 6, private_data: &[0; 57], ..terms };
        assert!(matches!(terms.raw(56), Err(IbError::Limit { requested: 57, max: 56, .. })));
    }
}
