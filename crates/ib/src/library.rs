//! libibverbs and librdmacm, loaded on first use and never unloaded. Programs build and start without them.

use std::ffi::CStr;
use std::mem;
use std::sync::OnceLock;

use libc::{c_char, c_int, c_void, msghdr, nfds_t, pollfd, sockaddr, socklen_t};

use crate::abi;
use crate::error::{IbError, MissingLibrary};

/// Declares a library and its functions, each by its name and with the type of its C declaration.
macro_rules! library {
    ($(#[$doc:meta])* $name:ident, $file:literal, $package:literal, $($function:ident: fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        $(#[$doc])*
        pub(crate) struct $name {
            $(pub(crate) $function: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
        }

        impl $name {
            fn open() -> Result<Self, MissingLibrary> {
                let library = SharedLibrary::new($file, $package)?;
                Ok(Self {
                    $($function: {
                        let symbol = library.symbol(concat!(stringify!($function), "\0"))?;
                        // SAFETY: a function of this name has this type in the header of every version of the library
                        // with this number; a pointer to one is as large as one to data.
                        unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $answer)?>(symbol) }
                    },)*
                })
            }
        }
    };
}

library! {
    /// The verbs. The calls for each message are not among these: they go through the provider's table
    /// (`abi::IbvContextOps`).
    VerbsLibrary, "libibverbs.so.1\0", "libibverbs1 and ibverbs-providers",
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut abi::IbvDevice;
    ibv_free_device_list: fn(*mut *mut abi::IbvDevice);
    ibv_open_device: fn(*mut abi::IbvDevice) -> *mut abi::IbvContext;
    ibv_close_device: fn(*mut abi::IbvContext) -> c_int;
    ibv_get_device_name: fn(*mut abi::IbvDevice) -> *const c_char;
    ibv_query_device: fn(*mut abi::IbvContext, *mut abi::IbvDeviceAttr) -> c_int;
    ibv_query_port: fn(*mut abi::IbvContext, u8, *mut abi::IbvPortAttr) -> c_int;
    ibv_query_gid: fn(*mut abi::IbvContext, u8, c_int, *mut abi::IbvGid) -> c_int;
    ibv_alloc_pd: fn(*mut abi::IbvContext) -> *mut abi::IbvPd;
    ibv_dealloc_pd: fn(*mut abi::IbvPd) -> c_int;
    ibv_reg_mr: fn(*mut abi::IbvPd, *mut c_void, usize, c_int) -> *mut abi::IbvMr;
    ibv_dereg_mr: fn(*mut abi::IbvMr) -> c_int;
    ibv_create_comp_channel: fn(*mut abi::IbvContext) -> *mut abi::IbvCompChannel;
    ibv_destroy_comp_channel: fn(*mut abi::IbvCompChannel) -> c_int;
    ibv_create_cq: fn(*mut abi::IbvContext, c_int, *mut c_void, *mut abi::IbvCompChannel, c_int) -> *mut abi::IbvCq;
    ibv_destroy_cq: fn(*mut abi::IbvCq) -> c_int;
    ibv_get_cq_event: fn(*mut abi::IbvCompChannel, *mut *mut abi::IbvCq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut abi::IbvCq, u32);
    ibv_create_srq: fn(*mut abi::IbvPd, *mut abi::IbvSrqInitAttr) -> *mut abi::IbvSrq;
    ibv_destroy_srq: fn(*mut abi::IbvSrq) -> c_int;
    ibv_create_qp: fn(*mut abi::IbvPd, *mut abi::IbvQpInitAttr) -> *mut abi::IbvQp;
    ibv_destroy_qp: fn(*mut abi::IbvQp) -> c_int;
    ibv_query_qp: fn(*mut abi::IbvQp, *mut abi::IbvQpAttr, c_int, *mut abi::IbvQpInitAttr) -> c_int;
    ibv_modify_qp: fn(*mut abi::IbvQp, *mut abi::IbvQpAttr, c_int) -> c_int;
    ibv_get_async_event: fn(*mut abi::IbvContext, *mut abi::IbvAsyncEvent) -> c_int;
    ibv_ack_async_event: fn(*mut abi::IbvAsyncEvent);
}

library! {
    /// The connection manager.
    CmLibrary, "librdmacm.so.1\0", "librdmacm1",
    rdma_get_devices: fn(*mut c_int) -> *mut *mut abi::IbvContext;
    rdma_free_devices: fn(*mut *mut abi::IbvContext);
    rdma_create_event_channel: fn() -> *mut abi::RdmaEventChannel;
    rdma_destroy_event_channel: fn(*mut abi::RdmaEventChannel);
    rdma_create_id: fn(*mut abi::RdmaEventChannel, *mut *mut abi::RdmaCmId, *mut c_void, u32) -> c_int;
    rdma_destroy_id: fn(*mut abi::RdmaCmId) -> c_int;
    rdma_bind_addr: fn(*mut abi::RdmaCmId, *mut sockaddr) -> c_int;
    rdma_resolve_addr: fn(*mut abi::RdmaCmId, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    rdma_resolve_route: fn(*mut abi::RdmaCmId, c_int) -> c_int;
    rdma_create_qp: fn(*mut abi::RdmaCmId, *mut abi::IbvPd, *mut abi::IbvQpInitAttr) -> c_int;
    rdma_destroy_qp: fn(*mut abi::RdmaCmId);
    rdma_connect: fn(*mut abi::RdmaCmId, *mut abi::RdmaConnParam) -> c_int;
    rdma_listen: fn(*mut abi::RdmaCmId, c_int) -> c_int;
    rdma_accept: fn(*mut abi::RdmaCmId, *mut abi::RdmaConnParam) -> c_int;
    rdma_reject: fn(*mut abi::RdmaCmId, *const c_void, u8) -> c_int;
    rdma_disconnect: fn(*mut abi::RdmaCmId) -> c_int;
    rdma_get_cm_event: fn(*mut abi::RdmaEventChannel, *mut *mut abi::RdmaCmEvent) -> c_int;
    rdma_ack_cm_event: fn(*mut abi::RdmaCmEvent) -> c_int;
    rdma_set_option: fn(*mut abi::RdmaCmId, c_int, c_int, *mut c_void, usize) -> c_int;
    rdma_migrate_id: fn(*mut abi::RdmaCmId, *mut abi::RdmaEventChannel) -> c_int;
}

library! {
    /// The rsocket calls of the connection manager's library; loaded separately, so that nothing else needs them.
    RsocketLibrary, "librdmacm.so.1\0", "librdmacm1",
    rsocket: fn(c_int, c_int, c_int) -> c_int;
    rbind: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rlisten: fn(c_int, c_int) -> c_int;
    raccept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    rconnect: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    rshutdown: fn(c_int, c_int) -> c_int;
    rclose: fn(c_int) -> c_int;
    rrecv: fn(c_int, *mut c_void, usize, c_int) -> isize;
    rsendmsg: fn(c_int, *const msghdr, c_int) -> isize;
    rpoll: fn(*mut pollfd, nfds_t, c_int) -> c_int;
    rgetpeername: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    rgetsockname: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    rsetsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
}

/// A library that was loaded and is never unloaded.
struct SharedLibrary {
    file: &'static str,
    package: &'static str,
    handle: *mut c_void,
}

impl SharedLibrary {
    /// `file` and every name passed to [`symbol`](Self::symbol) are terminated by a zero.
    fn new(file: &'static str, package: &'static str) -> Result<Self, MissingLibrary> {
        debug_assert!(file.ends_with('\0'));
        // SAFETY: the name ends with a zero. What the library runs when it is loaded is trusted as the loader trusts it
        // for programs that are linked with it.
        let handle = unsafe { libc::dlopen(file.as_ptr().cast(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let opened = Self { file, package, handle };
        if handle.is_null() { Err(opened.missing()) } else { Ok(opened) }
    }

    fn symbol(&self, name: &'static str) -> Result<*mut c_void, MissingLibrary> {
        debug_assert!(name.ends_with('\0'));
        // SAFETY: the handle is that of an open library, and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr().cast()) };
        if symbol.is_null() { Err(self.missing()) } else { Ok(symbol) }
    }

    /// The loader's message for the last call, which failed.
    fn missing(&self) -> MissingLibrary {
        // SAFETY: it may always be called; what it returns stays until this thread's next call of the loader.
        let text = unsafe { libc::dlerror() };
        let why = if text.is_null() {
            "no reason given".to_owned()
        } else {
            // SAFETY: not null, so it is a text that ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        MissingLibrary { file: self.file.trim_end_matches('\0'), package: self.package, why }
    }
}

/// The verbs, loaded once.
pub(crate) fn verbs() -> Result<&'static VerbsLibrary, IbError> {
    static VERBS: OnceLock<Result<VerbsLibrary, MissingLibrary>> = OnceLock::new();
    VERBS.get_or_init(VerbsLibrary::open).as_ref().map_err(|missing| IbError::MissingLibrary(missing.clone()))
}

/// The connection manager, loaded once.
pub(crate) fn cm() -> Result<&'static CmLibrary, IbError> {
    static CM: OnceLock<Result<CmLibrary, MissingLibrary>> = OnceLock::new();
    CM.get_or_init(CmLibrary::open).as_ref().map_err(|missing| IbError::MissingLibrary(missing.clone()))
}

/// Rsockets, loaded once.
pub(crate) fn rsockets() -> Result<&'static RsocketLibrary, IbError> {
    static RSOCKETS: OnceLock<Result<RsocketLibrary, MissingLibrary>> = OnceLock::new();
    // Rsockets call the verbs themselves.
    verbs()?;
    RSOCKETS.get_or_init(RsocketLibrary::open).as_ref().map_err(|missing| IbError::MissingLibrary(missing.clone()))
}

/// Loads both libraries, if that was not done yet.
///
/// # Errors
/// [`IbError::MissingLibrary`] with the one that is not installed.
pub fn open() -> Result<(), IbError> {
    verbs()?;
    cm().map(drop)
}
