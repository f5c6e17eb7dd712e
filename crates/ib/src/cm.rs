//! The connection manager's event channel, and its events as plain values.
//!
//! Owns: the one lock that all calls of the connection manager take.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi;
use crate::cm_id::{CmId, CmIdKey};
use crate::device::nonblocking;
use crate::error::{IbError, NoDeviceReason};
use crate::library::{CmLibrary, cm};

/// librdmacm changes an id's queue pair while it returns an event, so getting an event and destroying a queue pair
/// exclude each other, on all threads. Only opening and closing connections takes this lock, never a message.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    // It guards no data that a panic could leave half done.
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event channel of the connection manager.
#[derive(Clone)]
pub struct CmEventChannel(Arc<CmEventChannelHandle>);

pub(crate) struct CmEventChannelHandle {
    pub(crate) cm: &'static CmLibrary,
    pub(crate) raw: *mut abi::RdmaEventChannel,
}

// SAFETY: every call with it is made under the one lock; the descriptor does not change.
unsafe impl Send for CmEventChannelHandle {}
// SAFETY: as above.
unsafe impl Sync for CmEventChannelHandle {}

impl Drop for CmEventChannelHandle {
    fn drop(&mut self) {
        let _locked = lock();
        // SAFETY: made below; all of its ids held a clone of the `Arc` that ends here, and every event was
        // acknowledged.
        unsafe { (self.cm.rdma_destroy_event_channel)(self.raw) };
    }
}

impl CmEventChannel {
    /// A channel with a non-blocking descriptor.
    ///
    /// # Errors
    /// [`IbError::MissingLibrary`] without the libraries, [`IbError::NoDevice`] where the connection manager finds
    /// none.
    pub fn new() -> Result<Self, IbError> {
        crate::library::open()?;
        let cm = cm()?;
        let locked = lock();
        // SAFETY: it may always be called.
        let raw = unsafe { (cm.rdma_create_event_channel)() };
        if raw.is_null() {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::ENODEV | libc::ENOSYS | libc::ENOENT) => IbError::NoDevice(NoDeviceReason::detect()),
                _ => IbError::CallFailed { call: "rdma_create_event_channel", error },
            });
        }
        let channel = Self(Arc::new(CmEventChannelHandle { cm, raw }));
        // SAFETY: made just now.
        let fd = unsafe { (*raw).fd };
        drop(locked);
        nonblocking(fd)?;
        Ok(channel)
    }

    pub(crate) fn handle(&self) -> &CmEventChannelHandle {
        &self.0
    }

    /// The next event, if there is one.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn next(&self) -> Result<Option<CmEvent>, IbError> {
        let locked = lock();
        let mut raw = ptr::null_mut();
        loop {
            // SAFETY: the channel exists, and the place is ours to write to.
            if unsafe { (self.0.cm.rdma_get_cm_event)(self.0.raw, &mut raw) } == 0 {
                break;
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(IbError::CallFailed { call: "rdma_get_cm_event", error }),
            }
        }
        // SAFETY: the event was got just now, and exists until it is acknowledged below.
        let event = unsafe { &*raw };
        let kind = CmEventCode::of(event.event);
        // Only these carry connection parameters; for others the union is empty.
        let carries = matches!(
            kind,
            CmEventCode::Request
                | CmEventCode::Response
                | CmEventCode::Established
                | CmEventCode::Rejected
                | CmEventCode::Disconnected
        );
        let (start, bytes) = (event.conn.private_data, event.conn.private_data_len.into());
        let data = if !carries || start.is_null() || bytes == 0 {
            Vec::new()
        } else {
            // SAFETY: the event says where its private data is and how much, and lives.
            unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) }.to_vec()
        };
        let of = if kind == CmEventCode::Request { event.listen_id } else { event.id };
        // SAFETY: an event's ids exist until it is acknowledged; the field is the key that was put there.
        let key = CmIdKey::of(unsafe { (*of).context });
        let about = match kind {
            CmEventCode::AddressResolved => CmEventKind::AddressResolved,
            CmEventCode::RouteResolved => CmEventKind::RouteResolved,
            CmEventCode::Request => {
                let reads = ReadLimits {
                    responder_resources: event.conn.responder_resources,
                    initiator_depth: event.conn.initiator_depth,
                };
                // SAFETY: a request brings an id of its own, which belongs to who takes the event.
                CmEventKind::ConnectRequest { id: unsafe { CmId::of_request(self, event.id) }, reads }
            }
            CmEventCode::Response | CmEventCode::Established => CmEventKind::Established {
                reads: ReadLimits {
                    responder_resources: event.conn.responder_resources,
                    initiator_depth: event.conn.initiator_depth,
                },
            },
            CmEventCode::Rejected => CmEventKind::Rejected { reason: event.status },
            CmEventCode::Disconnected => CmEventKind::Disconnected,
            CmEventCode::DeviceRemoved => CmEventKind::DeviceRemoved,
            CmEventCode::Failed(what) => CmEventKind::Failed { step: what, errno: event.status.saturating_abs() },
            CmEventCode::Other(number) => CmEventKind::Other(number),
        };
        // SAFETY: got above, and acknowledged once; nothing of it is used behind this.
        unsafe { (self.0.cm.rdma_ack_cm_event)(raw) };
        drop(locked);
        Ok(Some(CmEvent { id: key, kind: about, private_data: data }))
    }
}

impl AsFd for CmEventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open while the channel exists, which `self` holds.
        unsafe { BorrowedFd::borrow_raw((*self.0.raw).fd) }
    }
}

/// The code of an event (`rdma_cm_event_type`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum CmEventCode {
    AddressResolved,
    RouteResolved,
    Request,
    Response,
    Established,
    Rejected,
    Disconnected,
    DeviceRemoved,
    Failed(ConnectStep),
    Other(u32),
}

impl CmEventCode {
    fn of(number: u32) -> Self {
        match number {
            0 => CmEventCode::AddressResolved,
            1 => CmEventCode::Failed(ConnectStep::Address),
            2 => CmEventCode::RouteResolved,
            3 => CmEventCode::Failed(ConnectStep::Route),
            4 => CmEventCode::Request,
            5 => CmEventCode::Response,
            6 => CmEventCode::Failed(ConnectStep::Connect),
            7 => CmEventCode::Failed(ConnectStep::Unreachable),
            8 => CmEventCode::Rejected,
            9 => CmEventCode::Established,
            10 => CmEventCode::Disconnected,
            11 => CmEventCode::DeviceRemoved,
            number => CmEventCode::Other(number),
        }
    }
}

/// An event of an id.
#[derive(Debug)]
pub struct CmEvent {
    /// The id; of a request, the listening one.
    pub id: CmIdKey,
    pub kind: CmEventKind,
    /// The peer's private data. On InfiniBand and RoCE the manager pads it with zeroes to the length of its message, so
    /// it must contain its own length.
    pub private_data: Vec<u8>,
}

/// The kind of an event, with its parameters.
#[derive(Debug)]
pub enum CmEventKind {
    /// The id is bound to a device.
    AddressResolved,
    /// The route to the peer is resolved.
    RouteResolved,
    /// A connection request. To accept it, make its queue pair first. Dropping the id rejects it without private data.
    ConnectRequest {
        /// The new connection.
        id: CmId,
        /// The limits of READs that the peer offers, as seen from this side.
        reads: ReadLimits,
    },
    /// The connection is established.
    Established {
        /// The agreed limits.
        reads: ReadLimits,
    },
    /// The peer has rejected the connection, or nobody listens.
    Rejected {
        /// The reason code of the standard: [`REJECTED_BY_PROGRAM`] if the private data is the peer program's.
        reason: i32,
    },
    /// The connection has ended: the peer has closed it, or its kernel after it died.
    Disconnected,
    DeviceRemoved,
    /// A step of connecting has failed.
    Failed {
        step: ConnectStep,
        /// The operating system's error number.
        errno: i32,
    },
    /// Another event, by its number in the C interface.
    Other(u32),
}

/// The reason code of a rejection by the peer's program.
pub const REJECTED_BY_PROGRAM: i32 = 28;
/// The reason code if nobody listens.
pub const REJECTED_NO_LISTENER: i32 = 8;

/// The step of connecting that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStep {
    /// Address resolution.
    Address,
    /// Route resolution.
    Route,
    /// The connection itself.
    Connect,
    /// The peer did not answer.
    Unreachable,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectStep::Address => "no RDMA device routes to the address",
            ConnectStep::Route => "no route to the address was found",
            ConnectStep::Connect => "the connection could not be established",
            ConnectStep::Unreachable => "nobody answered",
        })
    }
}

/// How many RDMA READs may be outstanding on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// READs of the peer that this side answers.
    pub responder_resources: u8,
    /// READs of this side.
    pub initiator_depth: u8,
}
