//! InfiniBand verbs and the RDMA connection manager with safe types, loaded at run time.
//!
//! Owns: every handle of libibverbs and librdmacm, and one of the tree's two permissions to use `unsafe`.
//!
//! The map, from the bottom up:
//!
//! - `library` loads the two libraries; `abi` has their structures, as in the C headers; `error` names what is missing.
//! - `device` lists devices and their attributes. `cm` and `cm_id` make connections.
//! - `memory` states what memory must guarantee; `region` registers it, `pool_regions` registers that of a slab pool,
//!   `registration_cache` that of any pool, region by region on first use.
//! - `completion` reports the work that has ended; `shared_receive_queue` and `queue_pair` are the two kinds of work
//!   queue.
//! - `rsocket` has the byte streams that librdmacm implements itself; nothing else here uses it.
//!
//! # The rule of memory
//! A device reads and writes memory behind the compiler's back, from when work is posted until its completion has been
//! polled. So work **owns** its memory for that time: what is posted moves into the queue, and is returned (or dropped)
//! when the completion is handed in. Completions cannot be made or copied. Keys and addresses of remote memory are
//! plain numbers and keep nothing alive: a wrong one makes work fail, here or at the peer, and has no other effect. A
//! peer may read a region that was registered for [`RemoteAccess::Read`] at any time, all of it, so such a region
//! covers exactly what that peer may see. Memory that peers may write ([`MemoryRegion::new_remote_writable`]) is never
//! lent as a reference.
//!
//! # Order of drops
//! Every handle holds what it was made with: a queue pair its id, its queues and its protection domain, a region its
//! protection domain, all of them their device. So handles may be dropped in any order.
//!
//! What is deliberately absent: threads, blocking calls (except in `rsocket`, where documented), unreliable queue
//! pairs, atomics, memory windows, multicast, retries without end.

#![deny(clippy::undocumented_unsafe_blocks)]

#[doc(hidden)]
pub mod abi;
mod cm;
mod cm_id;
mod completion;
mod device;
mod error;
mod library;
mod limits;
mod memory;
mod pool_regions;
mod probe;
mod queue_pair;
mod region;
mod registration_cache;
mod rsocket;
mod shared_receive_queue;
mod socket_address;

pub use cm::{
    CmEvent, CmEventChannel, CmEventKind, ConnectStep, REJECTED_BY_PROGRAM, REJECTED_NO_LISTENER, ReadLimits,
};
pub use cm_id::{CmId, CmIdKey, ConnectParams};
pub use completion::{Completion, CompletionChannel, CompletionQueue, WcOpcode, WcStatus, WorkQueueId};
pub use device::{
    AsyncEvent, DeviceAttributes, DeviceContext, DevicePort, GidEntry, LinkLayer, PortState, cm_devices, devices,
};
pub use error::{IbError, MissingLibrary, NoDeviceReason};
pub use library::open;
pub use limits::{
    ACCEPT_DATA_BYTES_MAX, CONNECT_DATA_BYTES_MAX, POLL_BATCH, REJECT_DATA_BYTES_MAX, RETRIES_MAX, WORK_REQUESTS_MAX,
};
pub use memory::{
    Arena, ArenaBlock, ExclusiveMemory, FilledArenaBlock, SendSegment, SharedPages, StableMemory, TaggedMemory,
};
pub use pool_regions::PoolRegions;
pub use probe::probe_inline_bytes;
pub use queue_pair::{CompletedWork, PostOptions, QueuePair, QueuePairOptions, QueuePairState, SendBatch};
pub use region::{LocalKey, MemoryRegion, ProtectionDomain, RemoteAccess, RemoteMemory};
pub use registration_cache::RegistrationCache;
pub use rsocket::{PollEntry, PollInterest, RSocket, rpoll};
pub use shared_receive_queue::SharedReceiveQueue;
