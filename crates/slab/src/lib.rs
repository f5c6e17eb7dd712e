//! Message memory: blocks of one thread's pool, reference counted, readable and freed on any thread.
//!
//! Owns: the regions mapped from the operating system, and one of the tree's two permissions to use `unsafe`.
//!
//! The map, from the bottom up:
//!
//! - `os_memory` maps memory; `region` is one mapping, cut into blocks of one size (`size_class`).
//! - `pool_inner` is the state of a pool: its regions and their free lists. `remote_frees` takes the blocks that other
//!   threads free.
//! - `pool` is the handle; `block`, `slice` and `header_with_tail` are the three ways to hold a block; `gather` is a
//!   queue of bytes to send.
//! - `heap` is apart from all this: the program's allocator, for everything that is not message memory, with
//!   `mapped_allocation` for large tables.
//!
//! What is deliberately absent: a lock, a background thread, a global pool, and any way to reach another pool's memory.

#![deny(clippy::undocumented_unsafe_blocks)]

mod block;
mod gather;
mod header_with_tail;
mod heap;
mod limits;
mod mapped_allocation;
mod os_memory;
mod pool;
mod pool_inner;
mod region;
mod remote_frees;
mod resident;
mod size_class;
mod slice;
mod sync;
#[cfg(all(test, loom))]
mod tests;
mod thread_id;

pub use block::BlockMut;
pub use gather::Gather;
pub use header_with_tail::HeaderWithTail;
pub use heap::{Heap, heap_bytes, left_by, thread_heap_bytes, trim_heap};
pub use limits::{
    BLOCK_BYTES_MAX, CACHED_BYTES_MAX, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CLASSED_BYTES_MAX, HEAP_REPORT_BYTES,
    REGION_BYTES,
};
pub use pool::{Pool, PoolOptions};
pub use region::{RegionInfo, WeakRegion, regions_unmapped};
pub use resident::resident_bytes;
pub use slice::Slice;
