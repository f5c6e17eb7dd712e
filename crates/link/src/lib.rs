//! Links: ordered byte streams between two ends.
//!
//! [`Link`] is what the reactor sees. TCP, TLS and Unix sockets implement it here ([`Listener`], [`dial`]), [`sim`]
//! implements it in memory with faults drawn from a seed, and [`contract`] holds the tests that every link passes.
//!
//! No call blocks except [`wait`](Link::wait) and [`dial`]; no thread is started.
#![forbid(unsafe_code)]

mod address;
pub mod contract;
mod dial;
mod error;
pub mod limits;
mod link;
mod listener;
mod listeners;
mod options;
mod peer;
mod rdma_usage;
pub mod sim;
mod socket;
mod socket_pair;
mod tls;
mod unix_path;

pub use address::{Address, AddressError};
pub use dial::{dial, dial_tls};
pub use error::LinkError;
pub use link::{AbortReason, FilledMemory, Link, LinkCapabilities, ReceiveOutcome, SendOutcome, WaitFor};
pub use listener::{Acceptor, Listener};
pub use listeners::Listeners;
pub use options::{DialOptions, ListenOptions, SocketOptions};
pub use peer::PeerAddress;
pub use rdma_usage::RdmaUsage;
pub use socket_pair::socket_pair;
pub use tls::{
    Certificate, CertificateFiles, CertificateIdentity, ClientCertificates, SanType, TlsClient, TlsError,
    TlsParameters, TlsServer, TlsServerOptions, TlsVersion,
};
