//! InfiniBand verbs and their connection manager in safe words, opened at run time.
//!
//! Enters: addresses, memory, work.  Leaves: events and completions, as plain values.
//! Owns:   every handle of libibverbs and librdmacm, and one of the tree's two permissions to be `unsafe`.
//! Never:  waits (but for `rsocket`, where it says so), knows what the bytes mean, is needed for the program to start.
//!
//! The map, from the ground up:
//!
//! - `library` opens the two libraries; `abi` has their structures, as in the C headers; `error` says what is missing.
//! - `device` lists devices and what they can do. `cm` and `id` make connections.
//! - `memory` says what memory must promise; `region` registers it, `pool` that of a slab pool, `met` that of
//!   any, as it comes by.
//! - `rsocket` has the byte streams that librdmacm makes of all this by itself; nothing else here uses it.
//! - `completion` tells what has ended; `receives` and `queue_pair` are the two queues that work is put into.
//!
//! # The rule of memory
//! A device reads and writes memory behind the compiler's back, from when work is posted until its completion has been
//! polled. So work **owns** its memory for that time: what is posted moves into the queue, and comes back (or is
//! dropped) when the completion is handed in. Completions cannot be made or copied. Keys and grants are plain numbers
//! and keep nothing alive: a wrong one makes work fail, here or at the peer, and nothing else. A peer may read a region
//! that was registered for [`Peers::Read`] at any time, all of it, so such a region covers what that peer may see and
//! no more; what peers may write ([`Region::for_writes`]) is never lent as a reference.
//!
//! # Order of ends
//! Everything holds what it was made with: a queue pair its id, its queues and its domain, a region its domain, all of
//! them their device. So handles may be dropped in any order.
//!
//! What is deliberately absent: threads, blocking calls, unreliable queue pairs, atomics, memory windows, multicast,
//! retries without end.

#![deny(clippy::undocumented_unsafe_blocks)]

#[doc(hidden)]
pub mod abi;
mod socket_address;
mod cm;
mod completion;
mod device;
mod error;
mod cm_id;
mod library;
mod limits;
mod memory;
mod registration_cache;
mod pool_regions;
mod probe;
mod queue_pair;
mod shared_receive_queue;
mod region;
mod rsocket;

pub use cm::{CmEventKind, CmEventChannel, CmEvent, ConnectStep, REJECTED_BY_PROGRAM, REJECTED_NO_LISTENER, ReadLimits};
pub use completion::{Completion, CompletionChannel, CompletionQueue, WcOpcode, WorkQueueId, WcStatus};
pub use device::{AsyncEvent, DeviceContext, DeviceAttributes, GidEntry, LinkLayer, DevicePort, PortState, cm_devices, devices};
pub use error::{IbError, MissingLibrary, NoDeviceReason};
pub use cm_id::{CmId, CmIdKey, ConnectParams};
pub use library::open;
pub use limits::{
    ACCEPT_DATA_BYTES_MAX, ACK_TIMEOUT_EXPONENT_MAX, CONNECT_DATA_BYTES_MAX, ARENA_BLOCKS_MAX, SGE_BYTES_MAX, SGE_MAX,
    POLL_BATCH, REJECT_DATA_BYTES_MAX, RETRIES_MAX, WORK_REQUESTS_MAX,
};
pub use memory::{Arena, ExclusiveMemory, FilledArenaBlock, TaggedMemory, SharedPages, ArenaBlock, SendSegment, StableMemory};
pub use registration_cache::RegistrationCache;
pub use pool_regions::PoolRegions;
pub use probe::probe_inline_bytes;
pub use queue_pair::{SendBatch, CompletedWork, PostOptions, QueuePairOptions, QueuePair, QueuePairState};
pub use shared_receive_queue::SharedReceiveQueue;
pub use region::{ProtectionDomain, RemoteMemory, LocalKey, RemoteAccess, MemoryRegion};
pub use rsocket::{PollEntry, RSocket, PollInterest, open_rsockets, rpoll};
