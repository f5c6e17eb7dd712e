//! Message memory: blocks of one thread's pool, counted, readable and freed everywhere.
//!
//! Enters: sizes and bytes.  Leaves: `BlockMut` (one writer), `Slice` and `HeaderWithTail` (any readers), `Gather` (bytes to send).
//! Owns:   the regions taken from the operating system, and one of the tree's two permissions to be `unsafe`.
//! Never:  takes a lock, knows what a message is, hands out a byte that was never written.
//!
//! The map, from the ground up:
//!
//! - `source` asks the operating system for memory; `region` is one such piece, cut into blocks of one size (`class`).
//! - `pool` is what a pool owns: its regions and their free lists. `returns` is where other threads put blocks back.
//! - `heap` is beside all this: the program's allocator, for what is no message memory.
//! - `pool` is the handle; `block`, `slice` and `tailed` are the three ways to hold a block; `gather` strings them together.
//!
//! What is deliberately absent: a lock, a background thread, a global pool, and any way to see another pool's memory.

#![deny(clippy::undocumented_unsafe_blocks)]

mod block;
mod size_class;
mod pool_inner;
mod gather;
mod heap;
mod limits;
mod thread_id;
mod pool;
mod region;
mod remote_frees;
mod slice;
mod os_memory;
mod header_with_tail;

pub use block::BlockMut;
pub use gather::Gather;
pub use heap::{Heap, trim_heap};
pub use limits::{
    BLOCK_BYTES_MAX, CACHED_BYTES_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CLASSED_BYTES_MAX, REGION_BYTES,
};
pub use pool::{Pool, PoolOptions};
pub use region::{RegionInfo, WeakRegion, regions_unmapped};
pub use slice::Slice;
pub use header_with_tail::HeaderWithTail;
