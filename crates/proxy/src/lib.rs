//! The proxy: carries clients of TCP, TLS and Unix sockets over another transport, byte by byte, in both directions.
//!
//! - A [`Proxy`] runs a reactor; each of its threads has a worker with its own memory and its own connections.
//! - `proxied_connection` is one connection: a client's link, the link upstream, and a `relay` in each direction.
//! - `upstream` is how a thread connects to the broker: by sockets, which a `dialler` connects, or over an RDMA port.
#![forbid(unsafe_code)]

mod dialler;
mod endpoint;
pub mod limits;
mod options;
mod proxied_connection;
mod proxy;
mod proxy_slot;
mod relay;
mod totals;
mod upstream;
mod upstream_address;
mod worker;

pub use options::{BootstrapToken, DeviceSource, ProxyOptions, RdmaUpstreamOptions, TokenSource};
pub use proxy::{Proxy, ProxyStartError};
pub use reactor::Stopper;
pub use totals::ProxyTotals;
pub use upstream_address::{UpstreamAddress, UpstreamAddressError};
