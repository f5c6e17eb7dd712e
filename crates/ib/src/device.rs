//! Devices: which there are, their attributes, and their asynchronous events.
//!
//! Queue pairs, memory and queues of one id must share its context: another opening of the same device does not serve.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libc::{c_char, c_int};

use crate::abi;
use crate::error::{IbError, NoDeviceReason};
use crate::library::{VerbsLibrary, cm, verbs};

/// An open device.
///
/// Cheap to clone. Two are equal if they are the same opening of a device, so that objects made on one can be used with
/// those made on the other.
#[derive(Clone)]
pub struct DeviceContext(Arc<DeviceContextHandle>);

struct DeviceContextHandle {
    verbs: &'static VerbsLibrary,
    context: *mut abi::IbvContext,
    /// Whether it is closed on drop; the connection manager's devices are not.
    ours: bool,
}

// SAFETY: libibverbs takes its own locks: a context may be used by any thread, and by several at once.
unsafe impl Send for DeviceContextHandle {}
// SAFETY: as above; what is read here without a lock (the name, the descriptors) does not change while it is open.
unsafe impl Sync for DeviceContextHandle {}

impl Drop for DeviceContextHandle {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: it was opened by us, and everything made on it held a clone of the `Arc` that ends here.
            unsafe { (self.verbs.ibv_close_device)(self.context) };
        }
    }
}

impl PartialEq for DeviceContext {
    fn eq(&self, other: &Self) -> bool {
        self.0.context == other.0.context
    }
}

impl Eq for DeviceContext {}

impl fmt::Debug for DeviceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceContext({})", self.name())
    }
}

/// Opens every device of this machine that libibverbs can use.
///
/// # Errors
/// [`IbError::MissingLibrary`], or [`IbError::NoDevice`] with the reason.
pub fn devices() -> Result<Vec<DeviceContext>, IbError> {
    let verbs = verbs()?;
    let mut count: c_int = 0;
    // SAFETY: the argument is a number to write to.
    let list = unsafe { (verbs.ibv_get_device_list)(&mut count) };
    if list.is_null() {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOENT) => Err(IbError::NoDevice(NoDeviceReason::NoKernel)),
            _ => Err(IbError::CallFailed { call: "ibv_get_device_list", error }),
        };
    }
    let opened = (0..count as usize).map(|at| {
        // SAFETY: the list has `count` devices, which exist until it is freed, and the opened ones beyond that.
        let context = unsafe { (verbs.ibv_open_device)(*list.add(at)) };
        if context.is_null() {
            Err(IbError::last_os_error("ibv_open_device"))
        } else {
            Ok(DeviceContext::new(verbs, context, true))
        }
    });
    let opened: Result<Vec<_>, _> = opened.collect();
    // SAFETY: the list came from the function that this one belongs to, and is not used any more.
    unsafe { (verbs.ibv_free_device_list)(list) };
    match opened {
        Ok(devices) if devices.is_empty() => Err(IbError::NoDevice(NoDeviceReason::detect())),
        other => other,
    }
}

/// The devices as opened by the connection manager, to be used with its ids. [`devices`] opens them a second time.
///
/// # Errors
/// As [`devices`].
pub fn cm_devices() -> Result<Vec<DeviceContext>, IbError> {
    let (verbs, cm) = (verbs()?, cm()?);
    let mut count: c_int = 0;
    // SAFETY: the argument is a number to write to.
    let list = unsafe { (cm.rdma_get_devices)(&mut count) };
    if list.is_null() {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENOSYS | libc::ENOENT) => Err(IbError::NoDevice(NoDeviceReason::detect())),
            _ => Err(IbError::CallFailed { call: "rdma_get_devices", error }),
        };
    }
    let contexts = (0..count as usize).map(|at| {
        // SAFETY: the list has `count` contexts, which stay open for as long as the program runs.
        unsafe { *list.add(at) }
    });
    let found: Vec<_> = contexts.map(|context| DeviceContext::new(verbs, context, false)).collect();
    // SAFETY: the list came from the function that this one belongs to, and is not used any more.
    unsafe { (cm.rdma_free_devices)(list) };
    if found.is_empty() { Err(IbError::NoDevice(NoDeviceReason::detect())) } else { Ok(found) }
}

impl NoDeviceReason {
    /// Finds out why this machine has no device.
    pub(crate) fn detect() -> Self {
        let class = Path::new("/sys/class/infiniband");
        // Without RDMA support there is no such folder.
        match fs::read_dir(class).map(|mut entries| entries.next().is_some()) {
            Ok(true) => NoDeviceReason::NoProvider,
            Ok(false) => NoDeviceReason::None,
            Err(_) => NoDeviceReason::NoKernel,
        }
    }
}

impl DeviceContext {
    fn new(verbs: &'static VerbsLibrary, context: *mut abi::IbvContext, ours: bool) -> Self {
        Self(Arc::new(DeviceContextHandle { verbs, context, ours }))
    }

    /// The device of an id, which stays open until the program ends.
    ///
    /// # Safety
    /// `context` is the `verbs` of an id of the connection manager, and not null.
    pub(crate) unsafe fn of_cm(context: *mut abi::IbvContext) -> Result<Self, IbError> {
        Ok(Self::new(verbs()?, context, false))
    }

    pub(crate) fn raw(&self) -> *mut abi::IbvContext {
        self.0.context
    }

    pub(crate) fn verbs(&self) -> &'static VerbsLibrary {
        self.0.verbs
    }

    pub(crate) fn ops(&self) -> &abi::IbvContextOps {
        // SAFETY: the context is open while `self` lives, and its table does not change after it was opened.
        unsafe { &(*self.raw()).ops }
    }

    /// The device's name, as in `/sys/class/infiniband`.
    pub fn name(&self) -> String {
        // SAFETY: an open context has a device, and its name is a text that ends with a zero.
        unsafe { CStr::from_ptr((self.verbs().ibv_get_device_name)((*self.raw()).device)) }
            .to_string_lossy()
            .into_owned()
    }

    /// Whether the device speaks iWARP: RDMA over TCP. Over iWARP the accepting end must not send before it has
    /// received a message, because its bytes could overtake the other end's set-up (RFC 5044, 7.1.2).
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: an open context has a device, and what it is does not change.
        unsafe { (*(*self.raw()).device).transport_type == abi::TRANSPORT_IWARP }
    }

    /// Whether the device is implemented in software (Soft-RoCE, siw): its figures are not those of a card. `None` if
    /// it is unknown.
    pub fn is_software(&self) -> Option<bool> {
        let place = fs::canonicalize(format!("/sys/class/infiniband/{}", self.name())).ok()?;
        Some(place.starts_with("/sys/devices/virtual"))
    }

    /// The driver's description of the device (`rxe` is Soft-RoCE), if there is one.
    pub fn description(&self) -> Option<String> {
        let text = fs::read_to_string(format!("/sys/class/infiniband/{}/node_desc", self.name())).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    ///
    /// # Errors
    /// The operating system's error.
    pub fn attributes(&self) -> Result<DeviceAttributes, IbError> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut raw: abi::IbvDeviceAttr = unsafe { mem::zeroed() };
        // SAFETY: the context is open, and the structure is as large as the library expects (`tests/layout.rs`).
        let answer = unsafe { (self.verbs().ibv_query_device)(self.raw(), &mut raw) };
        IbError::check("ibv_query_device", answer)?;
        let count = |number: c_int| u32::try_from(number).unwrap_or(0);
        Ok(DeviceAttributes {
            firmware: text(&raw.fw_ver),
            ports: raw.phys_port_cnt,
            queue_pairs_max: count(raw.max_qp),
            work_requests_max: count(raw.max_qp_wr),
            sge_max: count(raw.max_sge),
            completion_queues_max: count(raw.max_cq),
            completions_max: count(raw.max_cqe),
            regions_max: count(raw.max_mr),
            region_bytes_max: raw.max_mr_size,
            shared_receive_queues_max: count(raw.max_srq),
            shared_receive_wr_max: count(raw.max_srq_wr),
            responder_resources_max: count(raw.max_qp_rd_atom).min(255) as u8,
            initiator_depth_max: count(raw.max_qp_init_rd_atom).min(255) as u8,
        })
    }

    /// A port, counted from 1.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn port(&self, number: u8) -> Result<DevicePort, IbError> {
        // SAFETY: a structure of numbers, for which zero is a value.
        let mut raw: abi::IbvPortAttr = unsafe { mem::zeroed() };
        // SAFETY: the context is open; the structure is that of the header, and this function writes no more than its
        // start.
        let answer = unsafe { (self.verbs().ibv_query_port)(self.raw(), number, &mut raw) };
        IbError::check("ibv_query_port", answer)?;
        Ok(DevicePort {
            number,
            state: match raw.state {
                1 => PortState::Down,
                2 => PortState::Init,
                3 => PortState::Armed,
                4 | 5 => PortState::Active,
                _ => PortState::Unknown,
            },
            link_layer: match raw.link_layer {
                1 => LinkLayer::Infiniband,
                2 => LinkLayer::Ethernet,
                _ => LinkLayer::Unknown,
            },
            mtu_bytes: mtu_bytes(raw.active_mtu),
            message_bytes_max: raw.max_msg_sz,
            lid: raw.lid,
            gids: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
        })
    }

    /// The GIDs of a port, without the empty entries of its table.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn gids(&self, port: &DevicePort) -> Result<Vec<GidEntry>, IbError> {
        let mut entries = Vec::new();
        for index in 0..port.gids {
            let mut gid = abi::IbvGid { raw: [0; 16] };
            // SAFETY: the context is open, and the structure is one to write to.
            let answer = unsafe { (self.verbs().ibv_query_gid)(self.raw(), port.number, index as c_int, &mut gid) };
            IbError::check("ibv_query_gid", answer)?;
            if gid.raw == [0; 16] {
                continue;
            }
            let attribute = |kind: &str| {
                let path =
                    format!("/sys/class/infiniband/{}/ports/{}/gid_attrs/{kind}/{index}", self.name(), port.number);
                // InfiniBand has no such files.
                fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
            };
            entries.push(GidEntry { index, gid: gid.raw, kind: attribute("types"), interface: attribute("ndevs") });
        }
        Ok(entries)
    }

    /// The descriptor that is readable when [`async_event`](Self::async_event) has an event.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open while the context is, which `self` holds.
        unsafe { BorrowedFd::borrow_raw((*self.raw()).async_fd) }
    }

    /// The next asynchronous event, if there is one. Never blocks.
    ///
    /// All holders of a context share one queue of events: the first caller gets an event.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn async_event(&self) -> Result<Option<AsyncEvent>, IbError> {
        if !nonblocking(self.async_fd().as_raw_fd())? {
            return Ok(None);
        }
        let mut raw = abi::IbvAsyncEvent { element: 0, event_type: 0 };
        // SAFETY: the context is open, and the structure is one to write to.
        if unsafe { (self.verbs().ibv_get_async_event)(self.raw(), &mut raw) } != 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(IbError::CallFailed { call: "ibv_get_async_event", error }),
            };
        }
        let event = match raw.event_type {
            1..=7 | 16 => {
                let queue_pair = ptr::with_exposed_provenance::<abi::IbvQp>(raw.element as usize);
                // SAFETY: an event of a queue pair names it, and it exists until the event is acknowledged, for which
                // its destruction waits.
                let number = unsafe { (*queue_pair).qp_num };
                match raw.event_type {
                    4..=6 => AsyncEvent::Other(raw.event_type),
                    16 => AsyncEvent::LastWqeReached { queue_pair: number },
                    kind => AsyncEvent::QueuePairFailed { queue_pair: number, kind },
                }
            }
            8 => AsyncEvent::DeviceFailed,
            9 => AsyncEvent::PortUp(raw.element as u8),
            10 => AsyncEvent::PortDown(raw.element as u8),
            kind => AsyncEvent::Other(kind),
        };
        // SAFETY: the event was got above and is acknowledged once.
        unsafe { (self.verbs().ibv_ack_async_event)(&mut raw) };
        Ok(Some(event))
    }
}

/// Makes a descriptor non-blocking. Returns whether it is readable now.
pub(crate) fn nonblocking(fd: RawFd) -> Result<bool, IbError> {
    // SAFETY: these ask and set a flag of an open descriptor and touch no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(IbError::last_os_error("fcntl"));
    }
    // SAFETY: as above.
    if flags & libc::O_NONBLOCK == 0 && unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(IbError::last_os_error("fcntl"));
    }
    let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    Ok(unsafe { libc::poll(&mut ready, 1, 0) } > 0)
}

/// The text in a C array.
fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn mtu_bytes(code: u32) -> u32 {
    match code {
        1..=5 => 128 << code,
        _ => 0,
    }
}

/// The attributes that a device reports (`ibv_device_attr`). Memory and limits of the system may allow less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// The version of its firmware; empty for software devices.
    pub firmware: String,
    /// The number of ports.
    pub ports: u8,
    /// Queue pairs, and therefore connections.
    pub queue_pairs_max: u32,
    /// Work requests that a queue holds.
    pub work_requests_max: u32,
    /// Scatter/gather elements of one work request.
    pub sge_max: u32,
    pub completion_queues_max: u32,
    /// Completions that a queue holds.
    pub completions_max: u32,
    /// Memory regions.
    pub regions_max: u32,
    /// Bytes of one memory region.
    pub region_bytes_max: u64,
    pub shared_receive_queues_max: u32,
    /// Receives that a shared receive queue holds.
    pub shared_receive_wr_max: u32,
    /// READs that a queue pair answers at once.
    pub responder_resources_max: u8,
    /// READs that a queue pair may have outstanding.
    pub initiator_depth_max: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePort {
    /// Counted from 1.
    pub number: u8,
    pub state: PortState,
    pub link_layer: LinkLayer,
    /// The active MTU.
    pub mtu_bytes: u32,
    pub message_bytes_max: u32,
    /// The local identifier on an InfiniBand subnet; 0 elsewhere.
    pub lid: u16,
    /// Entries in its table of GIDs, including empty ones.
    pub gids: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// There is a link, but no address: on InfiniBand a subnet manager assigns it.
    Init,
    /// About to become active.
    Armed,
    /// It carries traffic.
    Active,
    /// A value that this version does not know.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    Infiniband,
    /// Ethernet: RoCE or iWARP.
    Ethernet,
    /// A value that this version does not know.
    Unknown,
}

/// An entry of a port's table of GIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The index in the table.
    pub index: u32,
    pub gid: [u8; 16],
    /// The type, as the kernel names it (`IB/RoCE v1`, `RoCE v2`).
    pub kind: Option<String>,
    /// The network interface of the entry.
    pub interface: Option<String>,
}

/// An asynchronous event of a device or of an object made on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A queue pair in the error state takes no more receives from its shared queue: once the completions that are
    /// there now are polled, it can be destroyed without losing one.
    LastWqeReached { queue_pair: u32 },
    QueuePairFailed {
        queue_pair: u32,
        /// The event's number in the C interface.
        kind: u32,
    },
    /// The device has failed: all objects made on it are lost.
    DeviceFailed,
    /// A port is active.
    PortUp(u8),
    /// A port has lost its link.
    PortDown(u8),
    /// Another event, by its number in the C interface.
    Other(u32),
}
