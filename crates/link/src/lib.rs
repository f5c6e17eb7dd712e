//! Links: ordered byte streams between two ends.
//!
//! Enters: bytes to send, in a [`Gather`](slab::Gather).  Leaves: bytes received, into memory the caller lends.
//! Owns:   the socket (or what stands for one), and whether each direction is still open.
//! Never:  knows what the bytes mean, blocks (but in [`wait`](Link::wait) and [`dial`]), starts a thread.
//!
//! [`Link`] is what the reactor sees; TCP, TLS over it and Unix sockets implement it here ([`Listener`], [`dial`]), [`sim`] does
//! it in memory with faults from a seed, and [`contract`] holds the tests that each of them passes.
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
pub mod sim;
mod socket;
mod tls;
mod unix_path;

pub use address::{Address, AddressError};
pub use dial::{dial, dial_tls};
pub use error::LinkError;
pub use link::{AbortReason, FilledMemory, Link, ReceiveOutcome, SendOutcome, LinkCapabilities, WaitFor};
pub use listener::{Acceptor, Listener};
pub use listeners::Listeners;
pub use options::{DialOptions, ListenOptions, SocketOptions};
pub use peer::PeerAddress;
pub use tls::{
    Certificate, CertificateFiles, ClientCertificates, CertificateIdentity, SanType, TlsClient, TlsError, TlsServer,
    TlsServerOptions, TlsVersion,
};
