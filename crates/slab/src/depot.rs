//! The depot: what a pool owns. Regions that serve, wait, rest, or hold one huge block each.
//!
//! Enters: sizes wanted; blocks that come back.  Leaves: blocks.
//! Owns:   all regions of a pool, until the last handle and the last block are gone.
//! Never:  is touched by another thread, but for the list of returned blocks.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::class::{CLASSES, HUGE, STRIDES, class_of};
use crate::limits::{
    BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, HUGE_SPARES_MAX, HUGE_STEP_BYTES, REGION_BYTES, REGION_HEAD_BYTES,
};
use crate::mark;
use crate::region::{Own, RegionRef};
use crate::returns::{Putting, Returns, Vacant};

#[repr(C, align(128))]
pub(crate) struct Depot {
    returns: Returns,
    /// Keeps what other threads write off the cache lines of what the owner reads.
    _apart: [u64; 14],
    /// This depot by the pointer that may also free it, which none made from `&self` may.
    this: Cell<NonNull<Depot>>,
    used_bytes: Cell<usize>,
    /// For each class the region that serves, which heads the list of those that have room.
    serving: [Cell<Option<RegionRef>>; CLASSES],
    held_bytes: Cell<usize>,
    generation: Cell<u64>,
    handles: Cell<usize>,
    owner: u64,
    cached_bytes_max: usize,
    stock: RefCell<Stock>,
}

/// The slow half: looked at when regions come and go.
struct Stock {
    regions: Vec<RegionRef>,
    /// Empty regions of [`REGION_BYTES`], ready for any class.
    spares: Vec<RegionRef>,
    /// Empty regions of other lengths, the oldest first.
    huge_spares: VecDeque<RegionRef>,
    cached_bytes: usize,
}

/// Gives a block back, from whatever thread.
///
/// # Safety
/// The block came from a depot, and the caller is the only one that holds it and gives it up.
#[inline]
pub(crate) unsafe fn give(block: NonNull<u8>) {
    // SAFETY: blocks start within the first `REGION_BYTES` of their region, and carry the right to reach all of it.
    let region = unsafe { RegionRef::of(block) };
    // SAFETY: a region exists while one of its blocks is out, and the caller's is.
    let shared = unsafe { region.shared() };
    // Relaxed: only this thread ever stores this thread's mark, and its own stores it sees.
    if shared.owner.load(Ordering::Relaxed) == mark::current() {
        // SAFETY: this is the owner's thread and its pool is there, or the mark would be another.
        unsafe { shared.depot.as_ref().give_home(region, block.cast()) };
    } else {
        // SAFETY: the caller's promise, passed on; the block is of this depot.
        unsafe { give_afar(shared.depot, block.cast()) };
    }
}

/// # Safety
/// As for [`give`], and the block is of this depot.
#[cold]
#[inline(never)]
unsafe fn give_afar(depot: NonNull<Depot>, block: NonNull<Vacant>) {
    // SAFETY: a depot exists while one of its blocks is out. Only the atomic list is looked at, not the owner's part.
    let returns = unsafe { &(*depot.as_ptr()).returns };
    // SAFETY: the caller's promise, passed on.
    if unsafe { returns.put(block) } == Putting::Last {
        // SAFETY: the pool is gone and no block is out: nobody else knows the depot.
        unsafe { Depot::tear_down(depot) };
    }
}

impl Depot {
    /// A depot of the running thread, with one handle.
    pub(crate) fn open(cached_bytes_max: usize) -> NonNull<Self> {
        let depot = Box::new(Self {
            returns: Returns::new(),
            _apart: [0; 14],
            this: Cell::new(NonNull::dangling()),
            used_bytes: Cell::new(0),
            serving: [const { Cell::new(None) }; CLASSES],
            held_bytes: Cell::new(0),
            generation: Cell::new(0),
            handles: Cell::new(1),
            owner: mark::own(),
            cached_bytes_max,
            stock: RefCell::new(Stock {
                regions: Vec::new(),
                spares: Vec::new(),
                huge_spares: VecDeque::new(),
                cached_bytes: 0,
            }),
        });
        let this = NonNull::from(Box::leak(depot));
        // SAFETY: the depot was made just now, and nobody else knows it.
        unsafe { this.as_ref() }.this.set(this);
        this
    }

    /// One more handle knows this depot.
    pub(crate) fn handle_added(&self) {
        self.handles.set(self.handles.get() + 1);
    }

    /// One handle fewer; after the last, the depot waits for its blocks and goes with the last of them.
    ///
    /// # Safety
    /// The depot exists, the caller runs on its owner's thread, and gives up one handle.
    pub(crate) unsafe fn handle_dropped(this: NonNull<Self>) {
        // SAFETY: the depot exists while there are handles, and the caller has one.
        let depot = unsafe { this.as_ref() };
        depot.handles.set(depot.handles.get() - 1);
        if depot.handles.get() > 0 {
            return;
        }
        let out = depot.close();
        // From the count on, the last block out takes the depot with it, on whatever thread and at once.
        // SAFETY: the depot is there until then, and the list of returns can bear to go while it is looked at.
        let returns = unsafe { &(*this.as_ptr()).returns };
        if returns.counted(out) == Putting::Last {
            // SAFETY: that was the last handle, and no block is out.
            unsafe { Self::tear_down(this) };
        }
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.get()
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// A block of at least `bytes`; all of it is initialised, with anything.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> NonNull<u8> {
        let Some(class) = class_of(bytes) else {
            return self.take_huge(bytes);
        };
        if let Some(region) = self.serving[class].get() {
            // SAFETY: a region that serves exists, and `&self` is had on the owner's thread only.
            let own = unsafe { region.own() };
            if let Some(block) = NonNull::new(own.free.get()) {
                return self.pop(own, block);
            }
        }
        self.take_slowly(class)
    }

    #[inline]
    fn pop(&self, own: &Own, block: NonNull<Vacant>) -> NonNull<u8> {
        // SAFETY: a block on a free list is nobody's, and its link was written when it was put there.
        own.free.set(unsafe { block.read() }.next);
        own.used.set(own.used.get() + 1);
        self.used_bytes.set(self.used_bytes.get() + own.stride.get() as usize);
        block.cast()
    }

    #[cold]
    #[inline(never)]
    fn take_slowly(&self, class: usize) -> NonNull<u8> {
        let mut collected = false;
        loop {
            if let Some(region) = self.serving[class].get() {
                // SAFETY: a region that serves exists, and this is the owner's thread.
                let own = unsafe { region.own() };
                // SAFETY: likewise, and carving happens only when the list is empty.
                if !own.free.get().is_null() || unsafe { region.carve() } {
                    let block = NonNull::new(own.free.get()).expect("a free block was just found");
                    return self.pop(own, block);
                }
                self.unlist(region, class);
            } else if !collected {
                self.collect();
                collected = true;
            } else {
                let region = self.stock_region();
                // SAFETY: the region comes from the stock, so it exists; this is the owner's thread.
                unsafe { region.own() }.assign(class, STRIDES[class]);
                self.list(region, class);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn take_huge(&self, bytes: usize) -> NonNull<u8> {
        assert!(bytes <= BLOCK_BYTES_MAX + BLOCK_HEAD_BYTES, "a block of {bytes} bytes is beyond BLOCK_BYTES_MAX");
        self.collect();
        let exact = REGION_HEAD_BYTES + bytes;
        // Steps of an eighth: whole pages, so that what is never touched costs no memory.
        let step = HUGE_STEP_BYTES.max(exact.next_power_of_two() / 16);
        let len = exact.next_multiple_of(step);
        let region = self.stock_huge(len).unwrap_or_else(|| self.map(len));
        // SAFETY: the region comes from the stock or the system, so it exists; this is the owner's thread.
        let (shared, own) = unsafe { (region.shared(), region.own()) };
        own.assign(HUGE, (shared.len - REGION_HEAD_BYTES) as u32);
        own.used.set(1);
        self.used_bytes.set(self.used_bytes.get() + own.stride.get() as usize);
        // SAFETY: the region exists.
        unsafe { region.huge_block() }
    }

    /// # Safety
    /// The block is of this region, the region of this depot, and the caller is the only one that holds it and gives
    /// it up, on the owner's thread.
    #[inline]
    unsafe fn give_home(&self, region: RegionRef, block: NonNull<Vacant>) {
        // SAFETY: the block is out, so its region exists; this is the owner's thread.
        let own = unsafe { region.own() };
        // SAFETY: the caller gives the block up, so that it is ours to write to.
        unsafe { block.write(Vacant { next: own.free.get() }) };
        own.free.set(block.as_ptr());
        let used = own.used.get() - 1;
        own.used.set(used);
        self.used_bytes.set(self.used_bytes.get() - own.stride.get() as usize);
        if used <= own.heed.get() {
            self.heed(region);
        }
    }

    /// A free changed a region's standing.
    #[cold]
    #[inline(never)]
    fn heed(&self, region: RegionRef) {
        // SAFETY: only regions with a block just given back come here: they exist, and this is the owner's thread.
        let own = unsafe { region.own() };
        let class = own.class.get() as usize;
        let empty = own.used.get() == 0;
        if class == HUGE {
            self.rest(region);
        } else if own.heed.get() == Own::FULL {
            if empty && self.serving[class].get().is_some() {
                self.rest(region);
            } else {
                self.list(region, class);
            }
        } else {
            debug_assert!(empty && own.heed.get() == Own::WAITS);
            self.unlist(region, class);
            self.rest(region);
        }
    }

    /// Takes back what other threads returned; the number of blocks.
    #[inline]
    pub(crate) fn collect(&self) -> usize {
        let first = self.returns.take();
        if first.is_null() {
            return 0;
        }
        self.take_home(first)
    }

    #[inline(never)]
    fn take_home(&self, first: *mut Vacant) -> usize {
        let mut blocks = 0;
        let mut next = NonNull::new(first);
        while let Some(block) = next {
            // SAFETY: the block was put on the list of returns with its link written, and is ours since we took the list.
            next = NonNull::new(unsafe { block.read() }.next);
            // SAFETY: it is a block of this depot, of which the region is found as for any block.
            let region = unsafe { RegionRef::of(block.cast()) };
            // SAFETY: nobody else holds it, and this is the owner's thread.
            unsafe { self.give_home(region, block) };
            blocks += 1;
        }
        blocks
    }

    /// Puts a region among those of its class that have room: first if it is alone, else right behind the one that
    /// serves, so that the cache keeps what it has.
    fn list(&self, region: RegionRef, class: usize) {
        // SAFETY: listed regions exist until they are unlisted, the new one exists, and this is the owner's thread.
        let own = unsafe { region.own() };
        match self.serving[class].get() {
            None => {
                own.previous.set(None);
                own.next.set(None);
                own.heed.set(Own::SERVES);
                self.serving[class].set(Some(region));
            }
            Some(first) => {
                // SAFETY: as above.
                let first_own = unsafe { first.own() };
                own.previous.set(Some(first));
                own.next.set(first_own.next.get());
                own.heed.set(Own::WAITS);
                if let Some(after) = first_own.next.get() {
                    // SAFETY: as above.
                    unsafe { after.own() }.previous.set(Some(region));
                }
                first_own.next.set(Some(region));
            }
        }
    }

    /// Takes a region out of its class's list; the next one serves if it did.
    fn unlist(&self, region: RegionRef, class: usize) {
        // SAFETY: listed regions exist until they are unlisted, and this is the owner's thread.
        let own = unsafe { region.own() };
        let (previous, next) = (own.previous.take(), own.next.take());
        own.heed.set(Own::FULL);
        if let Some(next) = next {
            // SAFETY: as above.
            let next_own = unsafe { next.own() };
            next_own.previous.set(previous);
            if previous.is_none() {
                next_own.heed.set(Own::SERVES);
            }
        }
        match previous {
            // SAFETY: as above.
            Some(previous) => unsafe { previous.own() }.next.set(next),
            None => self.serving[class].set(next),
        }
    }

    /// Lays an empty, unlisted region aside, and lets go what is then beyond the bounds: oldest huge ones first.
    fn rest(&self, region: RegionRef) {
        // SAFETY: the region exists; whether it goes is decided below.
        let len = unsafe { region.shared() }.len;
        let mut stock = self.stock.borrow_mut();
        stock.cached_bytes += len;
        if len > self.cached_bytes_max {
            // It alone is beyond the bound: no reason to let the others go first.
            return self.unmap(&mut stock, region);
        }
        if len == REGION_BYTES {
            stock.spares.push(region);
        } else {
            stock.huge_spares.push_back(region);
        }
        while stock.cached_bytes > self.cached_bytes_max || stock.huge_spares.len() > HUGE_SPARES_MAX {
            let Some(leaving) = stock.huge_spares.pop_front().or_else(|| stock.spares.pop()) else {
                unreachable!("bytes are cached, so there is a spare region");
            };
            self.unmap(&mut stock, leaving);
        }
    }

    /// Gives all empty regions back to the operating system; the bytes.
    pub(crate) fn trim(&self) -> usize {
        self.collect();
        let before = self.held_bytes.get();
        for class in 0..CLASSES {
            if let Some(region) = self.serving[class].get() {
                // SAFETY: a region that serves exists, and this is the owner's thread.
                if unsafe { region.own() }.used.get() == 0 {
                    self.unlist(region, class);
                    self.rest(region);
                }
            }
        }
        let mut stock = self.stock.borrow_mut();
        while let Some(region) = stock.huge_spares.pop_front().or_else(|| stock.spares.pop()) {
            self.unmap(&mut stock, region);
        }
        before - self.held_bytes.get()
    }

    /// An empty region of [`REGION_BYTES`], in no list.
    fn stock_region(&self) -> RegionRef {
        let mut stock = self.stock.borrow_mut();
        if let Some(region) = stock.spares.pop() {
            stock.cached_bytes -= REGION_BYTES;
            return region;
        }
        drop(stock);
        self.map(REGION_BYTES)
    }

    /// An empty region of at least this length and at most a quarter more, the one used last.
    fn stock_huge(&self, len: usize) -> Option<RegionRef> {
        let mut stock = self.stock.borrow_mut();
        let stock = &mut *stock;
        let fits = len..=len + len / 4;
        // SAFETY: spare regions exist.
        let len_of = |spare: &RegionRef| unsafe { spare.shared() }.len;
        let place = stock.huge_spares.iter().rposition(|spare| fits.contains(&len_of(spare)));
        let region = match place {
            Some(place) => stock.huge_spares.remove(place),
            None if fits.contains(&REGION_BYTES) => stock.spares.pop(),
            None => None,
        }?;
        stock.cached_bytes -= len_of(&region);
        Some(region)
    }

    fn map(&self, len: usize) -> RegionRef {
        let region = RegionRef::map(len, self.this.get(), self.owner);
        let mut stock = self.stock.borrow_mut();
        // SAFETY: the region was mapped just now, on the owner's thread.
        unsafe { region.own() }.index.set(stock.regions.len() as u32);
        stock.regions.push(region);
        self.held_bytes.set(self.held_bytes.get() + len);
        self.generation.set(self.generation.get() + 1);
        region
    }

    /// Lets an empty region go that the caller took out of the spares.
    fn unmap(&self, stock: &mut Stock, region: RegionRef) {
        // SAFETY: the region exists still, and this is the owner's thread.
        let (len, index) = unsafe { (region.shared().len, region.own().index.get()) };
        let removed = stock.regions.swap_remove(index as usize);
        debug_assert!(removed == region, "a region is not where it says");
        if let Some(moved) = stock.regions.get(index as usize) {
            // SAFETY: all regions in the list exist, and this is the owner's thread.
            unsafe { moved.own() }.index.set(index);
        }
        stock.cached_bytes -= len;
        self.held_bytes.set(self.held_bytes.get() - len);
        self.generation.set(self.generation.get() + 1);
        // SAFETY: it is empty, in no list of a class, and now neither a spare nor among the regions.
        unsafe { region.unmap() };
    }

    /// The start and length of the region at `index`, if there are that many.
    pub(crate) fn region_at(&self, index: usize) -> Option<(NonNull<u8>, usize)> {
        let region = *self.stock.borrow().regions.get(index)?;
        // SAFETY: all regions in the list exist.
        let shared = unsafe { region.shared() };
        Some((shared.base, shared.len))
    }

    /// The last handle is gone: from here on, blocks are only counted. How many are out.
    fn close(&self) -> usize {
        let regions = &self.stock.borrow().regions;
        for region in regions {
            // SAFETY: all regions in the list exist. From now on this thread is a stranger to them, too.
            unsafe { region.shared() }.owner.store(mark::NOBODY, Ordering::Relaxed);
        }
        let mut came_back = 0;
        let mut next = NonNull::new(self.returns.close());
        while let Some(block) = next {
            // SAFETY: the block was put on the list with its link written, and is ours since we took the list.
            next = NonNull::new(unsafe { block.read() }.next);
            came_back += 1;
        }
        let used: usize = regions
            .iter()
            // SAFETY: all regions in the list exist, and this is the owner's thread.
            .map(|region| unsafe { region.own() }.used.get() as usize)
            .sum();
        used - came_back
    }

    /// # Safety
    /// The depot exists, all handles are gone and no block is out: the caller is the last to know it.
    #[cold]
    unsafe fn tear_down(this: NonNull<Self>) {
        // SAFETY: it came from a box, and nobody else knows it.
        let depot = unsafe { Box::from_raw(this.as_ptr()) };
        for region in &depot.stock.borrow().regions {
            // SAFETY: all regions in the list exist, no block is out, and the list goes with the depot.
            unsafe { region.unmap() };
        }
    }
}
