//! The limits of message memory, and how they hang together.
//!
//! Leaves: constants, all in bytes unless the name says otherwise.
//! Owns:   the numbers that decide the shape of a region.
//! Never:  changes while a process runs.

/// Size and alignment of an ordinary region; a block's region is found by masking its address with this.
pub const REGION_BYTES: usize = 1 << 20;

/// The first bytes of each region are kept for its head, which sits at one of [`REGION_COLOURS`] places in them.
pub(crate) const REGION_HEADER_BYTES: usize = 4096;

/// Regions start at multiples of [`REGION_BYTES`]; were all heads at their start, they would all compete for one set of
/// the processor's cache.
pub(crate) const REGION_COLOURS: usize = 16;

/// All blocks start at a multiple of this.
pub(crate) const BLOCK_ALIGN_BYTES: usize = 16;

/// What a block of bytes costs on top of its bytes.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;

/// The largest payload that shares a region with others; a larger one gets a region of its own.
pub const CLASSED_BYTES_MAX: usize = 256 * 1024;

/// The largest block that can be asked for. Offsets and lengths are 32 bits wide because of it.
pub const BLOCK_BYTES_MAX: usize = 1 << 30;

/// Huge regions are rounded up to this, so that bodies of nearly one size reuse one another's memory.
pub(crate) const HUGE_STEP_BYTES: usize = 64 * 1024;

/// How many empty huge regions a pool keeps, whatever their size.
pub(crate) const HUGE_CACHED_MAX: usize = 64;

/// How many bytes of empty regions a pool keeps unless its options say otherwise.
pub const CACHED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How many bytes of untouched memory are cut into blocks at a time: about a page.
pub(crate) const CARVE_BYTES: usize = 4096;

/// The first chunk of an idle [`Gather`](crate::Gather).
pub const CHUNK_BYTES_MIN: usize = 4 * 1024;

/// The largest chunk a [`Gather`](crate::Gather) takes unasked.
pub const CHUNK_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(REGION_BYTES.is_power_of_two());
const _: () = assert!(REGION_COLOURS.is_power_of_two());
const _: () = assert!(REGION_HEADER_BYTES.is_multiple_of(REGION_COLOURS * 64));
const _: () = assert!(REGION_HEADER_BYTES.is_multiple_of(BLOCK_ALIGN_BYTES));
const _: () = assert!(BLOCK_HEADER_BYTES.is_multiple_of(BLOCK_ALIGN_BYTES));
const _: () = assert!(REGION_HEADER_BYTES + BLOCK_HEADER_BYTES + CLASSED_BYTES_MAX <= REGION_BYTES);
const _: () = assert!(BLOCK_BYTES_MAX + BLOCK_HEADER_BYTES <= i32::MAX as usize);
const _: () = assert!(CHUNK_BYTES_MIN <= CHUNK_BYTES_MAX && CHUNK_BYTES_MAX <= CLASSED_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES_MIN.is_power_of_two() && CHUNK_BYTES_MAX.is_power_of_two());
