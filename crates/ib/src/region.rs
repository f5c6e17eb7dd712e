//! Protection domains, and memory registered in them.
//!
//! Memory that a peer may write is registered only if safe code cannot hold a reference to it.

use std::fmt;
use std::sync::Arc;

use libc::c_int;

use crate::abi;
use crate::device::DeviceContext;
use crate::error::IbError;
use crate::limits::SGE_BYTES_MAX;
use crate::memory::{SharedPages, StableMemory};

/// A protection domain: its queue pairs, receive queues and memory regions can be used with each other only.
#[derive(Clone)]
pub struct ProtectionDomain(Arc<ProtectionDomainHandle>);

struct ProtectionDomainHandle {
    context: DeviceContext,
    raw: *mut abi::IbvPd,
}

// SAFETY: libibverbs takes its own locks: a domain may be used by any thread, and by several at once.
unsafe impl Send for ProtectionDomainHandle {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomainHandle {}

impl Drop for ProtectionDomainHandle {
    fn drop(&mut self) {
        // SAFETY: allocated below; all that was made in it held a clone of the `Arc` that ends here.
        let answer = unsafe { (self.context.verbs().ibv_dealloc_pd)(self.raw) };
        debug_assert_eq!(answer, 0, "a protection domain is given back while something in it exists");
    }
}

impl ProtectionDomain {
    /// A new domain on a device.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn new(context: &DeviceContext) -> Result<Self, IbError> {
        // SAFETY: the context is open, and stays so while the domain exists, which holds it.
        let raw = unsafe { (context.verbs().ibv_alloc_pd)(context.raw()) };
        if raw.is_null() {
            return Err(IbError::last_os_error("ibv_alloc_pd"));
        }
        Ok(Self(Arc::new(ProtectionDomainHandle { context: context.clone(), raw })))
    }

    pub(crate) fn raw(&self) -> *mut abi::IbvPd {
        self.0.raw
    }

    pub fn context(&self) -> &DeviceContext {
        &self.0.context
    }
}

/// A memory region: registered memory, with its owner.
///
/// Dropping it deregisters the memory, for peers too, and then drops the owner. Posted work holds its memory itself,
/// and fails if it is still outstanding.
pub struct MemoryRegion<O: StableMemory> {
    // Dropped before the memory: fields are dropped in this order.
    registration: Registration,
    owner: O,
}

/// A registration that does not own its memory.
pub(crate) struct Registration {
    domain: ProtectionDomain,
    raw: *mut abi::IbvMr,
    start: u64,
    bytes: usize,
    lkey: u32,
    rkey: u32,
}

// SAFETY: libibverbs takes its own locks; the structure behind the pointer is only read here.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered below, and deregistered once. Memory windows, which would keep it, are not made here.
        let answer = unsafe { (self.domain.context().verbs().ibv_dereg_mr)(self.raw) };
        debug_assert_eq!(answer, 0, "memory cannot be deregistered");
    }
}

impl Registration {
    ///
    /// # Safety
    /// The bytes are mapped now. If `access` lets peers write them, they stay mapped while this lives, and nobody holds
    /// a reference to them. Otherwise the device accesses them only for posted work, which holds its memory itself.
    pub(crate) unsafe fn new(
        domain: &ProtectionDomain,
        start: *const u8,
        bytes: usize,
        access: c_int,
    ) -> Result<Self, IbError> {
        IbError::check_limit("bytes to register", bytes, SGE_BYTES_MAX)?;
        let address = start.cast_mut().cast();
        // SAFETY: the domain exists, and stays so while the registration does, which holds it; the bytes are mapped,
        // as the caller guarantees.
        let raw = unsafe { (domain.context().verbs().ibv_reg_mr)(domain.raw(), address, bytes, access) };
        if raw.is_null() {
            return Err(IbError::last_os_error("ibv_reg_mr"));
        }
        // SAFETY: what was registered just now is described there.
        let (lkey, rkey) = unsafe { ((*raw).lkey, (*raw).rkey) };
        Ok(Self { domain: domain.clone(), raw, start: start.expose_provenance() as u64, bytes, lkey, rkey })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn key(&self) -> LocalKey {
        LocalKey { start: self.start, bytes: self.bytes, lkey: self.lkey }
    }
}

/// What a peer may do with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAccess {
    /// Nothing.
    None,
    /// Read all of it at any time, with its address and key.
    Read,
}

impl<O: StableMemory> MemoryRegion<O> {
    /// Registers all of the owner's bytes, which pins them: the limit of locked memory applies.
    ///
    /// # Errors
    /// [`IbError::Limit`] for none or too many bytes, or the operating system's error.
    pub fn new(domain: &ProtectionDomain, owner: O, peers: RemoteAccess) -> Result<Self, IbError> {
        // Local writes go only to memory that is posted to be filled, which its work owns exclusively.
        let access = match peers {
            RemoteAccess::None => abi::ACCESS_LOCAL_WRITE,
            RemoteAccess::Read => abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_READ,
        };
        Self::with_access(domain, owner, access)
    }

    fn with_access(domain: &ProtectionDomain, owner: O, access: c_int) -> Result<Self, IbError> {
        let (start, bytes) = owner.span();
        // SAFETY: the bytes are mapped, and stay so while their owner lives, which outlives the registration. What a
        // peer may write is never referred to: only pages are registered for that.
        let registration = unsafe { Registration::new(domain, start.as_ptr(), bytes, access) }?;
        Ok(Self { registration, owner })
    }

    pub fn owner(&self) -> &O {
        &self.owner
    }

    /// The local key (lkey), to post parts of this memory.
    pub fn key(&self) -> LocalKey {
        self.registration.key()
    }

    /// The address and remote key (rkey) with which a peer can access it.
    pub fn remote(&self) -> RemoteMemory {
        RemoteMemory {
            address: self.registration.start,
            bytes: self.registration.bytes as u64,
            key: self.registration.rkey,
        }
    }

    /// Deregisters the memory and returns it.
    pub fn into_owner(self) -> O {
        drop(self.registration);
        self.owner
    }
}

impl MemoryRegion<SharedPages> {
    /// Registers pages that a peer with their address and key may read and write at any time.
    ///
    /// # Errors
    /// As [`MemoryRegion::new`].
    pub fn new_remote_writable(domain: &ProtectionDomain, pages: SharedPages) -> Result<Self, IbError> {
        Self::with_access(domain, pages, abi::ACCESS_LOCAL_WRITE | abi::ACCESS_REMOTE_READ | abi::ACCESS_REMOTE_WRITE)
    }
}

impl<O: StableMemory> fmt::Debug for MemoryRegion<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryRegion({} bytes at {:#x})", self.registration.bytes, self.registration.start)
    }
}

/// The local key of a region.
///
/// It keeps nothing alive: work with the key of a deregistered region fails, and has no other effect, because the work
/// holds its memory itself.
#[derive(Clone, Copy, Debug)]
pub struct LocalKey {
    start: u64,
    bytes: usize,
    lkey: u32,
}

impl LocalKey {
    /// The scatter/gather element for all of `piece`, if it lies within the region.
    pub(crate) fn sge(&self, piece: &impl StableMemory) -> Result<abi::IbvSge, IbError> {
        let (_, bytes) = piece.span();
        self.sge_of_range(piece, 0, bytes)
    }

    /// As [`sge`](Self::sge), for `bytes` bytes of it from `at`, which must not exceed it.
    pub(crate) fn sge_of_range(
        &self,
        piece: &impl StableMemory,
        at: usize,
        bytes: usize,
    ) -> Result<abi::IbvSge, IbError> {
        let (start, most) = piece.span();
        IbError::check_limit("the end of a part of a piece", at.saturating_add(bytes), most)?;
        let start = (start.as_ptr().expose_provenance() + at) as u64;
        let before = start.checked_sub(self.start).ok_or(IbError::NotRegistered)?;
        if before.checked_add(bytes as u64).is_none_or(|end| end > self.bytes as u64) {
            return Err(IbError::NotRegistered);
        }
        // The length of a region fits in 32 bits.
        Ok(abi::IbvSge { addr: start, length: bytes as u32, lkey: self.lkey })
    }
}

/// Memory of a peer: plain numbers, as they are sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Its start in the peer's address space.
    pub address: u64,
    pub bytes: u64,
    /// The remote key (rkey).
    pub key: u32,
}
