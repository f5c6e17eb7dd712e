//! The connection manager's event channel, and its events as plain values.
//!
//! Owns: the one lock that all calls of the connection manager take.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi;
use crate::device::nonblocking;
use crate::error::{IbError, NoDeviceReason};
use crate::cm_id::{CmId, CmIdKey};
use crate::library::{CmLibrary, cm};

/// librdmacm changes an id's queue pair while it hands out events, so taking an event and destroying a queue pair
/// exclude each other, on whatever threads they are. Only opening and closing connections comes here, never a message.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    // It guards no data that a panic could leave half done.
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the events of ids come to.
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
    /// A channel, whose descriptor never makes anybody wait.
    ///
    /// # Errors
    /// [`IbError::MissingLibrary`] without the libraries, [`IbError::NoDevice`] where the connection manager finds none.
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
        // Only these carry the parameters of a connection; elsewhere the union holds nothing.
        let carries =
            matches!(kind, CmEventCode::Request | CmEventCode::Response | CmEventCode::Established | CmEventCode::Rejected | CmEventCode::Disconnected);
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
                let reads = ReadLimits { responder_resources: event.conn.responder_resources, initiator_depth: event.conn.initiator_depth };
                // SAFETY: a request brings an id of its own, which belongs to who takes the event.
                CmEventKind::ConnectRequest { id: unsafe { CmId::of_request(self, event.id) }, reads }
            }
            CmEventCode::Response | CmEventCode::Established => CmEventKind::Established {
                reads: ReadLimits { responder_resources: event.conn.responder_resources, initiator_depth: event.conn.initiator_depth },
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

/// An event's number, sorted.
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

/// Something that has happened to an id.
#[derive(Debug)]
pub struct CmEvent {
    /// To which; of a request, the listening one.
    pub id: CmIdKey,
    /// What.
    pub kind: CmEventKind,
    /// The peer's private data. On InfiniBand and RoCE the manager fills it up with zeroes to the length of its
    /// message, so it has to say itself how long it is.
    pub private_data: Vec<u8>,
}

/// What has happened.
#[derive(Debug)]
pub enum CmEventKind {
    /// The id has a device now.
    AddressResolved,
    /// The id has a way to its peer now.
    RouteResolved,
    /// Somebody asks to connect. To let it in: make its queue pair, then accept. Dropping the id rejects it
    /// without a word.
    ConnectRequest {
        /// The connection to be.
        id: CmId,
        /// How many READs it offers, as this side counts them.
        reads: ReadLimits,
    },
    /// The connection is there.
    Established {
        /// What was agreed.
        reads: ReadLimits,
    },
    /// The peer does not want the connection, or nobody listens.
    Rejected {
        /// The reason in the standard's numbers: [`REJECTED_BY_PROGRAM`] if the private data has the peer's own words.
        reason: i32,
    },
    /// The connection has ended: the peer said so, or died where its system could still say so.
    Disconnected,
    /// The device is gone.
    DeviceRemoved,
    /// A step towards a connection has failed.
    Failed {
        /// Which.
        step: ConnectStep,
        /// The system's number for why.
        errno: i32,
    },
    /// Something else, by its number in the C interface.
    Other(u32),
}

/// The reason of a rejection that a program has given.
pub const REJECTED_BY_PROGRAM: i32 = 28;
/// The reason of a rejection where nobody listens.
pub const REJECTED_NO_LISTENER: i32 = 8;

/// Which step towards a connection has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStep {
    /// No device leads to the address.
    Address,
    /// The way to it is not known.
    Route,
    /// The connection could not be made.
    Connect,
    /// Nobody answered.
    Unreachable,
}

impl fmt::Display for ConnectStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectStep::Address => "no RDMA device leads to the address",
            ConnectStep::Route => "no way to the address was found",
            ConnectStep::Connect => "the connection could not be made",
            ConnectStep::Unreachable => "nobody answered",
        })
    }
}

/// How many READs may be under way on a connection at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The peer's, which this side serves.
    pub responder_resources: u8,
    /// This side's own.
    pub initiator_depth: u8,
}
