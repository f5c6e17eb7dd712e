//! Links over rsockets: librdmacm's own byte streams over RDMA, the successor of SDP.
//!
//! They are what AMQP over RDMA (`verbs`) is measured against. Begin with `RsocketPoller`: mio cannot wait for
//! rsockets, so a thread polls them and signals an eventfd per link, which mio can wait for. The owner of a link reads
//! and writes itself.
#![forbid(unsafe_code)]

mod close_queue;
mod limits;
mod listener;
mod poller;
mod rsocket_link;

pub use listener::RsocketListener;
pub use poller::RsocketPoller;
pub use rsocket_link::{RsocketLink, dial};
