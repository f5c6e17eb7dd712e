//! Links over rsockets: librdmacm's own byte streams over RDMA, today's successor of SDP.
//!
//! Enters: addresses of RDMA devices, bytes.  Leaves: links like any other, and a listener for them.
//! Owns:   the sockets, and the threads that wait for what epoll cannot.
//! Never:  the protocol of AMQP over RDMA, which is in `verbs`: this is what that is measured against.
//!
//! Begin with `Watch`: mio knows nothing of rsockets, so a thread of its own polls them and rings a descriptor that mio
//! knows, one a link. Reads and writes are done by whoever owns the link.
#![forbid(unsafe_code)]

mod limits;
mod rsocket_link;
mod listener;
mod poller;

pub use rsocket_link::{RsocketLink, dial};
pub use listener::RsocketListener;
pub use poller::RsocketPoller;
