//! The options of a proxy, with their defaults.

use crate::UpstreamAddress;
use link::{Address, DialOptions, ListenOptions, TlsClient, TlsServer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use verbs::device::{AnyDevice, DeviceError};
use verbs::{PortSettings, RdmaToken};

/// Opens a device that can connect to the `host:port` of a peer. Each thread opens one of its own, and another one when that
/// has failed.
pub type DeviceSource = Arc<dyn Fn(&str) -> Result<AnyDevice, DeviceError> + Send + Sync>;

/// A token for one RDMA connection, and the bootstrap connection that it came over.
pub struct BootstrapToken {
    pub token: RdmaToken,
    /// Closes the bootstrap connection. Called when the token has been presented, or will not be.
    pub close: Box<dyn FnOnce()>,
}

/// Fetches a token. Called for each connection, on a thread that may wait.
pub type TokenSource = Arc<dyn Fn() -> io::Result<BootstrapToken> + Send + Sync>;

/// How a proxy connects to an RDMA address.
#[derive(Clone)]
pub struct RdmaUpstreamOptions {
    pub devices: DeviceSource,
    /// How ports behave. The proxy sets the number of receive buffers, corking and the connection time-out itself.
    pub settings: PortSettings,
    /// Fetches a token for each connection; without it, connections present none.
    pub tokens: Option<TokenSource>,
}

#[derive(Clone)]
pub struct ProxyOptions {
    /// Where clients connect.
    pub listen: Vec<Address>,
    pub listen_options: ListenOptions,
    /// The certificate of TLS addresses to listen on.
    pub tls: Option<TlsServer>,
    /// Where the broker is.
    pub to: UpstreamAddress,
    /// How sockets are connected to it. The time-out holds for every transport and includes the wait for a dial thread.
    pub dial: DialOptions,
    /// The certificates to trust if the broker's address has TLS; without it, those that the system trusts.
    pub trust: Option<TlsClient>,
    /// Needed for an RDMA address.
    pub rdma: Option<RdmaUpstreamOptions>,
    pub threads: usize,
    /// Connections at the same time.
    pub connections_max: usize,
    /// How long connections may go on when the proxy stops.
    pub drain_timeout: Duration,
    /// How often totals are logged, if at all.
    pub stats_every: Option<Duration>,
}

impl ProxyOptions {
    /// The defaults, without an address to listen on.
    pub fn to(to: UpstreamAddress) -> Self {
        ProxyOptions {
            listen: Vec::new(),
            listen_options: ListenOptions::default(),
            tls: None,
            to,
            dial: DialOptions::default(),
            trust: None,
            rdma: None,
            threads: 1,
            connections_max: 256,
            drain_timeout: Duration::from_secs(10),
            stats_every: None,
        }
    }
}
