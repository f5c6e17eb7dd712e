//! Limits of message memory, and the relations between them. All are in bytes unless the name says otherwise.

/// Size and alignment of an ordinary region; a block's region is found by masking its address with this.
pub const REGION_BYTES: usize = 1 << 20;

/// The first bytes of each region are reserved for its header, which lies at one of [`REGION_COLOURS`] offsets in them.
pub(crate) const REGION_HEADER_BYTES: usize = 4096;

/// Cache colouring: regions start at multiples of [`REGION_BYTES`], so headers at one offset would all compete for one
/// set of the processor's cache.
pub(crate) const REGION_COLOURS: usize = 16;

/// The alignment of every block.
pub(crate) const BLOCK_ALIGN_BYTES: usize = 16;

/// The overhead of a block.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;

/// The largest payload of a size class; a larger one gets a region of its own.
pub const CLASSED_BYTES_MAX: usize = 256 * 1024;

/// The largest block that can be allocated: offsets and lengths fit in 32 bits.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

/// Huge regions are rounded up to this, so that bodies of nearly one size reuse one another's memory.
pub(crate) const HUGE_STEP_BYTES: usize = 64 * 1024;

/// Empty huge regions that a pool caches, whatever their size.
pub(crate) const HUGE_CACHED_MAX: usize = 64;

/// Bytes of empty regions that a pool caches by default.
pub const CACHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of untouched memory that are cut into blocks at a time: about a page.
pub(crate) const CARVE_BYTES: usize = 4096;

/// The first chunk of an idle [`Gather`](crate::Gather).
pub const CHUNK_BYTES_MIN: usize = 4 * 1024;

/// The largest chunk a [`Gather`](crate::Gather) allocates, unless a single reservation is larger.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the heap that a thread allocates or frees before it adds them to the count of all threads.
pub const HEAP_REPORT_BYTES: usize = 64 * 1024;

/// From so many bytes on an allocation of the heap is a mapping of its own.
pub(crate) const HEAP_MAPPED_BYTES_MIN: usize = 1 << 20;

/// The alignment of every mapping.
pub(crate) const PAGE_BYTES: usize = 4096;

/// The word of the program's allocator, and the binary logarithm of how many sizes it has for each power of two.
pub(crate) const HEAP_WORD_BYTES: usize = 8;
pub(crate) const HEAP_BIN_STEPS_LOG2: u32 = 2;

const _: () = assert!(REGION_BYTES.is_power_of_two());
const _: () = assert!(REGION_COLOURS.is_power_of_two());
const _: () = assert!(REGION_HEADER_BYTES.is_multiple_of(REGION_COLOURS * 64));
const _: () = assert!(REGION_HEADER_BYTES.is_multiple_of(BLOCK_ALIGN_BYTES));
const _: () = assert!(BLOCK_HEADER_BYTES.is_multiple_of(BLOCK_ALIGN_BYTES));
const _: () = assert!(REGION_HEADER_BYTES + BLOCK_HEADER_BYTES + CLASSED_BYTES_MAX <= REGION_BYTES);
const _: () = assert!(BLOCK_BYTES_MAX + BLOCK_HEADER_BYTES <= i32::MAX as usize);
const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX && CHUNK_BYTES_MAX <= CLASSED_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MIN.is_power_of_two() && CHUNK_BYTES_MAX.is_power_of_two());
