//! A region: memory mapped from the operating system, cut into blocks of one size class.
//!
//! Its header lies in its first page, so the region of a block is found by masking the block's address. `pool_inner`
//! decides which region is active, partial, cached or unmapped.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::limits::{CARVE_BYTES, REGION_BYTES, REGION_COLOURS, REGION_HEADER_BYTES};
use crate::os_memory;
use crate::pool_inner::PoolInner;
use crate::remote_frees::FreeBlock;
use crate::size_class::HUGE_CLASS;

/// Distinguishes regions that are mapped at the same address one after the other.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Regions of all pools that were unmapped.
static UNMAPPED: AtomicU64 = AtomicU64::new(0);

/// A number that changes whenever a region of any pool is unmapped.
pub fn regions_unmapped() -> u64 {
    UNMAPPED.load(Ordering::Acquire)
}

/// A weak reference to a region: it does not keep the memory mapped.
#[derive(Debug, Clone)]
pub struct WeakRegion(Weak<()>);

impl WeakRegion {
    /// Whether the region was unmapped, or is about to be.
    pub fn is_unmapped(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Address and length of a region, for a device that registers all of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionInfo {
    pub address: usize,
    pub bytes: usize,
    /// Unique in this process.
    pub serial: u64,
}

/// The part of the header that any thread may read, on a cache line that the owner does not write.
#[repr(C, align(64))]
pub(crate) struct RegionShared {
    /// The id of the thread whose pool this belongs to.
    pub(crate) owner: AtomicU64,
    pub(crate) inner: NonNull<PoolInner>,
    pub(crate) base: NonNull<u8>,
    pub(crate) len: usize,
    serial: u64,
    /// The only strong reference; weak ones see it end with the region.
    liveness: Arc<()>,
}

impl RegionShared {
    pub(crate) fn weak(&self) -> WeakRegion {
        WeakRegion(Arc::downgrade(&self.liveness))
    }

    pub(crate) fn info(&self) -> RegionInfo {
        RegionInfo { address: self.base.addr().get(), bytes: self.len, serial: self.serial }
    }
}

/// The part of the header that only the owner's thread touches.
#[repr(C, align(64))]
pub(crate) struct OwnerState {
    /// The free list: blocks that were used and freed.
    pub(crate) free: Cell<*mut FreeBlock>,
    /// The number of allocated blocks.
    pub(crate) used: Cell<i32>,
    /// A free that leaves at most this many blocks allocated changes the region's state: see [`OwnerState::ACTIVE`],
    /// [`OwnerState::PARTIAL`] and [`OwnerState::FULL`].
    pub(crate) notify_at: Cell<i32>,
    /// Bytes from one block to the next.
    pub(crate) stride: Cell<u32>,
    pub(crate) class: Cell<u32>,
    /// Offset of the first byte that was not cut into blocks since this region got its class.
    carved_end: Cell<u32>,
    /// The index in the pool's list of all regions.
    pub(crate) index: Cell<u32>,
    pub(crate) previous: Cell<Option<RegionRef>>,
    pub(crate) next: Cell<Option<RegionRef>>,
}

impl OwnerState {
    /// Blocks are allocated from here; the region stays even when it is empty.
    pub(crate) const ACTIVE: i32 = -1;
    /// It has free blocks and is listed behind the active one; it is cached when its last block is freed.
    pub(crate) const PARTIAL: i32 = 0;
    /// It is in no list (full, or huge): the next free lists or caches it.
    pub(crate) const FULL: i32 = i32::MAX;

    /// Makes an empty region one of `class` with blocks of `stride` bytes.
    pub(crate) fn assign(&self, class: usize, stride: u32) {
        debug_assert_eq!(self.used.get(), 0, "a region changes class while blocks are out");
        self.free.set(ptr::null_mut());
        self.notify_at.set(Self::FULL);
        self.stride.set(stride);
        self.class.set(class as u32);
        self.carved_end.set(REGION_HEADER_BYTES as u32);
        self.previous.set(None);
        self.next.set(None);
    }
}

#[repr(C)]
pub(crate) struct RegionHeader {
    shared: RegionShared,
    owner_state: OwnerState,
}

const _: () = assert!(size_of::<RegionHeader>() <= REGION_HEADER_BYTES / REGION_COLOURS);

/// A pointer to the header of a region that may be unmapped already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionRef(NonNull<RegionHeader>);

impl RegionRef {
    /// Maps `len` bytes for the pool of the thread `owner`.
    pub(crate) fn map(len: usize, inner: NonNull<PoolInner>, owner: u64) -> Self {
        let base = os_memory::map(len);
        // SAFETY: the header lies in the first page of the region, whatever the colour.
        let head = unsafe { Self::of(base) };
        let region = RegionHeader {
            shared: RegionShared {
                owner: AtomicU64::new(owner),
                inner,
                base,
                len,
                serial: SERIAL.fetch_add(1, Ordering::Relaxed),
                liveness: Arc::new(()),
            },
            owner_state: OwnerState {
                free: Cell::new(ptr::null_mut()),
                used: Cell::new(0),
                notify_at: Cell::new(OwnerState::FULL),
                stride: Cell::new(0),
                class: Cell::new(HUGE_CLASS as u32),
                carved_end: Cell::new(0),
                index: Cell::new(0),
                previous: Cell::new(None),
                next: Cell::new(None),
            },
        };
        // SAFETY: the memory was mapped just now, is aligned to more than a header needs, and nobody else knows it.
        unsafe { head.0.write(region) };
        head
    }

    ///
    /// # Safety
    /// It exists, no block of it is out, and nobody uses this reference or a copy of it afterwards.
    pub(crate) unsafe fn unmap(self) {
        // SAFETY: the region exists, as the caller guarantees.
        let shared = unsafe { self.shared() };
        let (base, len) = (shared.base, shared.len);
        // SAFETY: written when the region was mapped, and nobody uses the header after this.
        drop(unsafe { ptr::read(&raw const shared.liveness) });
        // After `liveness` has ended: a thread that sees this number change sees that, too.
        UNMAPPED.fetch_add(1, Ordering::Release);
        // SAFETY: the region was mapped with these very values, and the caller promises that nobody uses it.
        unsafe { os_memory::unmap(base, len) };
    }

    /// The region of a block.
    ///
    /// # Safety
    /// `block` points into the first [`REGION_BYTES`] of a region, with the right to reach all of the region.
    #[inline]
    pub(crate) unsafe fn of(block: NonNull<u8>) -> Self {
        let head = block.as_ptr().map_addr(|address| {
            let base = address & !(REGION_BYTES - 1);
            let colour = (base / REGION_BYTES) % REGION_COLOURS;
            base + colour * (REGION_HEADER_BYTES / REGION_COLOURS)
        });
        // SAFETY: a region does not start at address zero, and its header lies at or after its start.
        Self(unsafe { NonNull::new_unchecked(head) }.cast())
    }

    /// The part of the header that any thread may read.
    ///
    /// # Safety
    /// The region exists for as long as the result is used: the caller holds a block of it, or is its owner.
    #[inline]
    pub(crate) unsafe fn shared<'a>(self) -> &'a RegionShared {
        // SAFETY: the header was written when the region was mapped; its shared half is constant or atomic since.
        unsafe { &(*self.0.as_ptr()).shared }
    }

    /// The part of the header that belongs to the owner's thread.
    ///
    /// # Safety
    /// The region exists for as long as the result is used, and the caller runs on the owner's thread (or has the only
    /// pointer to a pool whose owner is gone).
    #[inline]
    pub(crate) unsafe fn owner_state<'a>(self) -> &'a OwnerState {
        // SAFETY: the header was written when the region was mapped, and only one thread accesses this half, as the caller
        // guarantees.
        unsafe { &(*self.0.as_ptr()).owner_state }
    }

    /// The one block of a huge region.
    ///
    /// # Safety
    /// The region exists.
    pub(crate) unsafe fn huge_block(self) -> NonNull<u8> {
        // SAFETY: the region exists, and every region is longer than its header.
        unsafe { self.shared().base.add(REGION_HEADER_BYTES) }
    }

    /// Cuts about a page of untouched memory into blocks and links them; false if none is left.
    ///
    /// # Safety
    /// The region exists, its list of free blocks is empty, and the caller runs on the owner's thread.
    pub(crate) unsafe fn carve(self) -> bool {
        // SAFETY: the caller is the owner of a region that exists.
        let (shared, own) = unsafe { (self.shared(), self.owner_state()) };
        debug_assert!(own.free.get().is_null(), "carving a region that has free blocks");
        let stride = own.stride.get() as usize;
        let start = own.carved_end.get() as usize;
        let fits = (shared.len - start) / stride;
        let count = fits.min((CARVE_BYTES / stride).max(1));
        let mut next = ptr::null_mut();
        // From the last to the first, so that they are allocated in the order of their addresses.
        for index in (0..count).rev() {
            // SAFETY: `start + (index + 1) * stride` is at most the region's length, for `index < count <= fits`.
            let block = unsafe { shared.base.add(start + index * stride) }.cast::<FreeBlock>();
            // SAFETY: these bytes were never given out since the region took its class, and are aligned to 16 as
            // `start` and `stride` are.
            unsafe { block.write(FreeBlock { next }) };
            next = block.as_ptr();
        }
        own.carved_end.set((start + count * stride) as u32);
        own.free.set(next);
        count > 0
    }
}
