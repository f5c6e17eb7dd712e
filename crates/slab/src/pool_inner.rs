//! The state behind the handles of a pool: its regions, and which of them blocks are allocated from.
//!
//! Of each size class one region is active: blocks are allocated from it. Partial regions of the class follow it in a
//! list; full ones are in no list; empty ones are cached for any class, or unmapped. A huge block has a region of its
//! own.
//!
//! Owns: all regions of a pool, until the last handle and the last block are gone. Only `remote_frees` is touched by
//! other threads.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, HUGE_CACHED_MAX, HUGE_STEP_BYTES, REGION_BYTES, REGION_HEADER_BYTES,
};
use crate::region::{OwnerState, RegionRef};
use crate::remote_frees::{FreeBlock, PushResult, RemoteFrees};
use crate::size_class::{CLASSES, HUGE_CLASS, STRIDES, class_of};
use crate::thread_id;

#[repr(C, align(128))]
pub(crate) struct PoolInner {
    remote_frees: RemoteFrees,
    /// Padding: other threads write `remote_frees`, and the owner reads the fields below.
    _apart: [u64; 14],
    /// The pointer to this value with the right to free it, which no pointer derived from `&self` has.
    this: Cell<NonNull<PoolInner>>,
    used_bytes: Cell<usize>,
    /// The active region of each class, which is the head of the list of the class's regions with free blocks.
    active: [Cell<Option<RegionRef>>; CLASSES],
    mapped_bytes: Cell<usize>,
    generation: Cell<u64>,
    handles: Cell<usize>,
    owner: u64,
    cached_bytes_max: usize,
    free_regions: RefCell<FreeRegions>,
}

/// All regions of the pool, and the cache of empty ones. Not touched by ordinary allocations.
struct FreeRegions {
    regions: Vec<RegionRef>,
    /// Empty regions of [`REGION_BYTES`], ready for any class.
    regular: Vec<RegionRef>,
    /// Empty regions of other lengths, the oldest first.
    huge: VecDeque<RegionRef>,
    cached_bytes: usize,
}

/// Frees a block on any thread.
///
/// # Safety
/// The block came from a pool, and the caller is its only holder.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>) {
    // SAFETY: blocks start within the first `REGION_BYTES` of their region, and carry the right to reach all of it.
    let region = unsafe { RegionRef::of(block) };
    // SAFETY: a region exists while one of its blocks is out, and the caller's is.
    let shared = unsafe { region.shared() };
    // Relaxed: only this thread stores its own id, and it sees its own stores.
    if shared.owner.load(Ordering::Relaxed) == thread_id::current() {
        // SAFETY: this is the owner's thread and its pool is there, or its id would be another.
        unsafe { shared.inner.as_ref().free_local(region, block.cast()) };
    } else {
        // SAFETY: the caller's promise, passed on; the block is of this pool.
        unsafe { free_remote(shared.inner, block.cast()) };
    }
}

/// # Safety
/// As for [`free`], and the block is of this pool.
#[cold]
#[inline(never)]
unsafe fn free_remote(inner: NonNull<PoolInner>, block: NonNull<FreeBlock>) {
    // SAFETY: a pool exists while one of its blocks is out. Only the atomic list is looked at, not the owner's part.
    let remote_frees = unsafe { &(*inner.as_ptr()).remote_frees };
    // SAFETY: the caller's promise, passed on.
    if unsafe { remote_frees.push(block) } == PushResult::LastBlock {
        // SAFETY: the pool is gone and no block is out: nobody else knows the pool.
        unsafe { PoolInner::destroy(inner) };
    }
}

impl PoolInner {
    pub(crate) fn new(cached_bytes_max: usize) -> NonNull<Self> {
        let inner = Box::new(Self {
            remote_frees: RemoteFrees::new(),
            _apart: [0; 14],
            this: Cell::new(NonNull::dangling()),
            used_bytes: Cell::new(0),
            active: [const { Cell::new(None) }; CLASSES],
            mapped_bytes: Cell::new(0),
            generation: Cell::new(0),
            handles: Cell::new(1),
            owner: thread_id::assign(),
            cached_bytes_max,
            free_regions: RefCell::new(FreeRegions {
                regions: Vec::new(),
                regular: Vec::new(),
                huge: VecDeque::new(),
                cached_bytes: 0,
            }),
        });
        let this = NonNull::from(Box::leak(inner));
        // SAFETY: the pool was made just now, and nobody else knows it.
        unsafe { this.as_ref() }.this.set(this);
        this
    }

    pub(crate) fn add_handle(&self) {
        self.handles.set(self.handles.get() + 1);
    }

    /// Drops a handle. After the last one, the pool is destroyed when its last block is freed.
    ///
    /// # Safety
    /// The pool exists, and the caller runs on its owner's thread and owns the handle that is dropped.
    pub(crate) unsafe fn drop_handle(this: NonNull<Self>) {
        // SAFETY: the pool exists while there are handles, and the caller has one.
        let inner = unsafe { this.as_ref() };
        inner.handles.set(inner.handles.get() - 1);
        if inner.handles.get() > 0 {
            return;
        }
        let out = inner.detach();
        // As soon as the count is set, freeing the last block destroys the pool, on whatever thread.
        // SAFETY: the pool is there until then, and the list of returns can bear to go while it is looked at.
        let remote_frees = unsafe { &(*this.as_ptr()).remote_frees };
        if remote_frees.set_outstanding(out) == PushResult::LastBlock {
            // SAFETY: that was the last handle, and no block is out.
            unsafe { Self::destroy(this) };
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes.get()
    }

    pub(crate) fn occupied_bytes(&self) -> usize {
        self.mapped_bytes.get() - self.free_regions.borrow().cached_bytes
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// A block of at least `bytes`, initialised with arbitrary content.
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let Some(class) = class_of(bytes) else {
            return self.allocate_huge(bytes);
        };
        if let Some(region) = self.active[class].get() {
            // SAFETY: a region that serves exists, and `&self` is had on the owner's thread only.
            let own = unsafe { region.owner_state() };
            if let Some(block) = NonNull::new(own.free.get()) {
                return self.pop_free(own, block);
            }
        }
        self.allocate_slow(class)
    }

    #[inline]
    fn pop_free(&self, own: &OwnerState, block: NonNull<FreeBlock>) -> NonNull<u8> {
        // SAFETY: a block on a free list is nobody's, and its link was written when it was put there.
        own.free.set(unsafe { block.read() }.next);
        own.used.set(own.used.get() + 1);
        self.used_bytes.set(self.used_bytes.get() + own.stride.get() as usize);
        block.cast()
    }

    #[cold]
    #[inline(never)]
    fn allocate_slow(&self, class: usize) -> NonNull<u8> {
        let mut collected = false;
        loop {
            if let Some(region) = self.active[class].get() {
                // SAFETY: a region that serves exists, and this is the owner's thread.
                let own = unsafe { region.owner_state() };
                // SAFETY: likewise, and carving happens only when the list is empty.
                if !own.free.get().is_null() || unsafe { region.carve() } {
                    let block = NonNull::new(own.free.get()).expect("a free block was just found");
                    return self.pop_free(own, block);
                }
                self.remove_from_class(region, class);
            } else if !collected {
                self.collect();
                collected = true;
            } else {
                let region = self.take_free_region();
                // SAFETY: the region comes from the stock, so it exists; this is the owner's thread.
                unsafe { region.owner_state() }.assign(class, STRIDES[class]);
                self.add_to_class(region, class);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn allocate_huge(&self, bytes: usize) -> NonNull<u8> {
        assert!(bytes <= BLOCK_BYTES_MAX + BLOCK_HEADER_BYTES, "a block of {bytes} bytes is beyond BLOCK_BYTES_MAX");
        self.collect();
        let exact = REGION_HEADER_BYTES + bytes;
        // Steps of an eighth, in whole pages: pages that are never touched take no memory.
        let step = HUGE_STEP_BYTES.max(exact.next_power_of_two() / 16);
        let len = exact.next_multiple_of(step);
        let region = self.take_huge_region(len).unwrap_or_else(|| self.map(len));
        // SAFETY: the region comes from the stock or the system, so it exists; this is the owner's thread.
        let (shared, own) = unsafe { (region.shared(), region.owner_state()) };
        own.assign(HUGE_CLASS, (shared.len - REGION_HEADER_BYTES) as u32);
        own.used.set(1);
        self.used_bytes.set(self.used_bytes.get() + own.stride.get() as usize);
        // SAFETY: the region exists.
        unsafe { region.huge_block() }
    }

    /// # Safety
    /// The block is of this region and the region of this pool, and the caller is the block's only holder, on the
    /// owner's thread.
    #[inline]
    unsafe fn free_local(&self, region: RegionRef, block: NonNull<FreeBlock>) {
        // SAFETY: the block is out, so its region exists; this is the owner's thread.
        let own = unsafe { region.owner_state() };
        // SAFETY: the caller gives the block up, so that it is ours to write to.
        unsafe { block.write(FreeBlock { next: own.free.get() }) };
        own.free.set(block.as_ptr());
        let used = own.used.get() - 1;
        own.used.set(used);
        self.used_bytes.set(self.used_bytes.get() - own.stride.get() as usize);
        if used <= own.notify_at.get() {
            self.on_threshold(region);
        }
    }

    /// A region has reached its `notify_at`: it is empty, or no longer full.
    #[cold]
    #[inline(never)]
    fn on_threshold(&self, region: RegionRef) {
        // SAFETY: only regions with a block just given back come here: they exist, and this is the owner's thread.
        let own = unsafe { region.owner_state() };
        let class = own.class.get() as usize;
        let empty = own.used.get() == 0;
        if class == HUGE_CLASS {
            self.cache_region(region);
        } else if own.notify_at.get() == OwnerState::FULL {
            if empty && self.active[class].get().is_some() {
                self.cache_region(region);
            } else {
                self.add_to_class(region, class);
            }
        } else {
            debug_assert!(empty && own.notify_at.get() == OwnerState::PARTIAL);
            self.remove_from_class(region, class);
            self.cache_region(region);
        }
    }

    /// Frees the blocks that other threads pushed. Returns their number.
    #[inline]
    pub(crate) fn collect(&self) -> usize {
        let first = self.remote_frees.take_all();
        if first.is_null() {
            return 0;
        }
        self.free_collected(first)
    }

    #[inline(never)]
    fn free_collected(&self, first: *mut FreeBlock) -> usize {
        let mut blocks = 0;
        let mut next = NonNull::new(first);
        while let Some(block) = next {
            // SAFETY: the block was put on the list of returns with its link written, and is ours since we took the
            // list.
            next = NonNull::new(unsafe { block.read() }.next);
            // SAFETY: it is a block of this pool, of which the region is found as for any block.
            let region = unsafe { RegionRef::of(block.cast()) };
            // SAFETY: nobody else holds it, and this is the owner's thread.
            unsafe { self.free_local(region, block) };
            blocks += 1;
        }
        blocks
    }

    /// Adds a region to the list of its class: as the active one if the list is empty, else right after the active one,
    /// whose lines stay in the processor's cache.
    fn add_to_class(&self, region: RegionRef, class: usize) {
        // SAFETY: listed regions exist until they are unlisted, the new one exists, and this is the owner's thread.
        let own = unsafe { region.owner_state() };
        match self.active[class].get() {
            None => {
                own.previous.set(None);
                own.next.set(None);
                own.notify_at.set(OwnerState::ACTIVE);
                self.active[class].set(Some(region));
            }
            Some(first) => {
                // SAFETY: as above.
                let first_own = unsafe { first.owner_state() };
                own.previous.set(Some(first));
                own.next.set(first_own.next.get());
                own.notify_at.set(OwnerState::PARTIAL);
                if let Some(after) = first_own.next.get() {
                    // SAFETY: as above.
                    unsafe { after.owner_state() }.previous.set(Some(region));
                }
                first_own.next.set(Some(region));
            }
        }
    }

    /// Removes a region from the list of its class; if it was the active one, the next becomes active.
    fn remove_from_class(&self, region: RegionRef, class: usize) {
        // SAFETY: listed regions exist until they are unlisted, and this is the owner's thread.
        let own = unsafe { region.owner_state() };
        let (previous, next) = (own.previous.take(), own.next.take());
        own.notify_at.set(OwnerState::FULL);
        if let Some(next) = next {
            // SAFETY: as above.
            let next_own = unsafe { next.owner_state() };
            next_own.previous.set(previous);
            if previous.is_none() {
                next_own.notify_at.set(OwnerState::ACTIVE);
            }
        }
        match previous {
            // SAFETY: as above.
            Some(previous) => unsafe { previous.owner_state() }.next.set(next),
            None => self.active[class].set(next),
        }
    }

    /// Caches an empty, unlisted region, and unmaps what then exceeds the limits, the oldest huge regions first.
    fn cache_region(&self, region: RegionRef) {
        // SAFETY: the region exists; whether it goes is decided below.
        let len = unsafe { region.shared() }.len;
        let mut free_regions = self.free_regions.borrow_mut();
        free_regions.cached_bytes += len;
        if len > self.cached_bytes_max {
            // It exceeds the limit by itself: no reason to evict the others.
            return self.unmap(&mut free_regions, region);
        }
        if len == REGION_BYTES {
            free_regions.regular.push(region);
        } else {
            free_regions.huge.push_back(region);
        }
        while free_regions.cached_bytes > self.cached_bytes_max || free_regions.huge.len() > HUGE_CACHED_MAX {
            let Some(leaving) = free_regions.huge.pop_front().or_else(|| free_regions.regular.pop()) else {
                unreachable!("bytes are cached, so there is a spare region");
            };
            self.unmap(&mut free_regions, leaving);
        }
    }

    /// Unmaps all empty regions. Returns the number of bytes.
    pub(crate) fn trim(&self) -> usize {
        self.collect();
        let before = self.mapped_bytes.get();
        for class in 0..CLASSES {
            if let Some(region) = self.active[class].get() {
                // SAFETY: a region that serves exists, and this is the owner's thread.
                if unsafe { region.owner_state() }.used.get() == 0 {
                    self.remove_from_class(region, class);
                    self.cache_region(region);
                }
            }
        }
        let mut free_regions = self.free_regions.borrow_mut();
        while let Some(region) = free_regions.huge.pop_front().or_else(|| free_regions.regular.pop()) {
            self.unmap(&mut free_regions, region);
        }
        before - self.mapped_bytes.get()
    }

    /// An empty, unlisted region of [`REGION_BYTES`], from the cache or newly mapped.
    fn take_free_region(&self) -> RegionRef {
        let mut free_regions = self.free_regions.borrow_mut();
        if let Some(region) = free_regions.regular.pop() {
            free_regions.cached_bytes -= REGION_BYTES;
            return region;
        }
        drop(free_regions);
        self.map(REGION_BYTES)
    }

    /// The most recently cached region of at least this length and at most a quarter more.
    fn take_huge_region(&self, len: usize) -> Option<RegionRef> {
        let mut free_regions = self.free_regions.borrow_mut();
        let free_regions = &mut *free_regions;
        let fits = len..=len + len / 4;
        // SAFETY: spare regions exist.
        let len_of = |spare: &RegionRef| unsafe { spare.shared() }.len;
        let place = free_regions.huge.iter().rposition(|spare| fits.contains(&len_of(spare)));
        let region = match place {
            Some(place) => free_regions.huge.remove(place),
            None if fits.contains(&REGION_BYTES) => free_regions.regular.pop(),
            None => None,
        }?;
        free_regions.cached_bytes -= len_of(&region);
        Some(region)
    }

    fn map(&self, len: usize) -> RegionRef {
        let region = RegionRef::map(len, self.this.get(), self.owner);
        let mut free_regions = self.free_regions.borrow_mut();
        // SAFETY: the region was mapped just now, on the owner's thread.
        unsafe { region.owner_state() }.index.set(free_regions.regions.len() as u32);
        free_regions.regions.push(region);
        self.mapped_bytes.set(self.mapped_bytes.get() + len);
        self.generation.set(self.generation.get() + 1);
        region
    }

    /// Unmaps an empty region that the caller took out of the cache.
    fn unmap(&self, free_regions: &mut FreeRegions, region: RegionRef) {
        // SAFETY: the region exists still, and this is the owner's thread.
        let (len, index) = unsafe { (region.shared().len, region.owner_state().index.get()) };
        let removed = free_regions.regions.swap_remove(index as usize);
        debug_assert!(removed == region, "a region is not where it says");
        if let Some(moved) = free_regions.regions.get(index as usize) {
            // SAFETY: all regions in the list exist, and this is the owner's thread.
            unsafe { moved.owner_state() }.index.set(index);
        }
        free_regions.cached_bytes -= len;
        self.mapped_bytes.set(self.mapped_bytes.get() - len);
        self.generation.set(self.generation.get() + 1);
        // SAFETY: it is empty, in no list of a class, and now neither a spare nor among the regions.
        unsafe { region.unmap() };
    }

    /// The start and length of the region at `index`, if there are that many.
    pub(crate) fn region_at(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
        let region = *self.free_regions.borrow().regions.get(index)?;
        // SAFETY: all regions in the list exist.
        let shared = unsafe { region.shared() };
        Some((shared.base, shared.len))
    }

    /// The last handle is gone: blocks are only counted from now on. Returns how many are still allocated.
    fn detach(&self) -> usize {
        let regions = &self.free_regions.borrow().regions;
        for region in regions {
            // SAFETY: all regions in the list exist. From now on this thread does not own them, either.
            unsafe { region.shared() }.owner.store(thread_id::NO_THREAD, Ordering::Relaxed);
        }
        let mut came_back = 0;
        let mut next = NonNull::new(self.remote_frees.close());
        while let Some(block) = next {
            // SAFETY: the block was put on the list with its link written, and is ours since we took the list.
            next = NonNull::new(unsafe { block.read() }.next);
            came_back += 1;
        }
        let used: usize = regions
            .iter()
            // SAFETY: all regions in the list exist, and this is the owner's thread.
            .map(|region| unsafe { region.owner_state() }.used.get() as usize)
            .sum();
        used - came_back
    }

    /// # Safety
    /// The pool exists, and all handles and blocks are gone: the caller has the only pointer to it.
    #[cold]
    unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: it came from a box, and nobody else knows it.
        let inner = unsafe { Box::from_raw(this.as_ptr()) };
        for region in &inner.free_regions.borrow().regions {
            // SAFETY: all regions in the list exist, no block is out, and the list goes with the pool.
            unsafe { region.unmap() };
        }
    }
}
