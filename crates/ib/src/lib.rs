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
mod address;
mod cm;
mod completion;
mod device;
mod error;
mod id;
mod library;
mod limits;
mod memory;
mod met;
mod pool;
mod probe;
mod queue_pair;
mod receives;
mod region;
mod rsocket;

pub use cm::{About, CmChannel, CmEvent, Failure, REJECTED_BY_PROGRAM, REJECTED_NO_LISTENER, Reads};
pub use completion::{Completion, CompletionChannel, CompletionQueue, Kind, QueueTag, Status};
pub use device::{AsyncEvent, Context, Facts, GidEntry, Layer, Port, PortState, cm_devices, devices};
pub use error::{Error, Missing, NoDevice};
pub use id::{Id, IdKey, Terms};
pub use library::open;
pub use limits::{
    ACCEPT_DATA_BYTES_MAX, ACK_TIMEOUT_EXPONENT_MAX, CONNECT_DATA_BYTES_MAX, PARTS_MAX, PIECE_BYTES_MAX, PIECES_MAX,
    POLL_BATCH, REJECT_DATA_BYTES_MAX, RETRIES_MAX, WORK_MAX,
};
pub use memory::{Arena, Fill, Filled, Numbered, Pages, Part, Piece, Stay};
pub use met::Met;
pub use pool::PoolRegions;
pub use probe::inline_bytes;
pub use queue_pair::{Batch, Finished, How, Options, QueuePair, State};
pub use receives::Receives;
pub use region::{Domain, Grant, Key, Peers, Region};
pub use rsocket::{Polled, RSocket, Wants, open_rsockets, rpoll};
