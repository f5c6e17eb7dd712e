//! A proxy: clients of TCP and Unix sockets, carried over another transport.
//!
//! Enters: connections of clients, and where they shall lead.  Leaves: the same bytes at the other end, in both directions.
//! Owns:   both links of each connection, and what is under way between them.
//! Never:  looks into a byte, answers in a client's or broker's place, holds more than its limits say.
//!
//! - A [`Proxy`] has threads; each has a reactor with its own memory and its own connections.
//! - `bridge` is one connection: a client's link, the link upstream, and a `flow` in each direction.
//! - `road` is how a thread gets upstream: by sockets, which a `dialler` connects, or by a port of an RDMA device.
#![forbid(unsafe_code)]

mod bridge;
mod counts;
mod dialler;
mod end;
mod flow;
pub mod limits;
mod options;
mod reactor;
mod road;
mod server;
mod target;

pub use counts::Totals;
pub use options::{Devices, Pass, Passes, ProxyOptions, Rdma};
pub use server::{Proxy, StartError, Stopper};
pub use target::{Target, TargetError};
