//! Everything a proxy must be told.
//!
//! Leaves: options with their defaults.
//! Owns:   the defaults.
//! Never:  reads a file or a command line.

use crate::Target;
use link::{Address, DialOptions, ListenOptions, TlsClient, TlsServer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use verbs::device::{AnyDevice, DeviceError};
use verbs::{PortSettings, RdmaToken};

/// How a device is had that can connect to the `host:port` of a peer. Each thread asks for one of its own, and for another
/// when that has failed.
pub type Devices = Arc<dyn Fn(&str) -> Result<AnyDevice, DeviceError> + Send + Sync>;

/// What lets one connection in at a broker that asks for a token.
pub struct Pass {
    /// What is shown.
    pub token: RdmaToken,
    /// Called when it was shown, or will not be; until then stands what it was given over.
    pub close: Box<dyn FnOnce()>,
}

/// Where passes come from: called for each connection, on a thread that may wait.
pub type Passes = Arc<dyn Fn() -> io::Result<Pass> + Send + Sync>;

/// How a proxy leads to an RDMA address.
#[derive(Clone)]
pub struct Rdma {
    /// Where devices come from.
    pub devices: Devices,
    /// How their ports behave. The number of receive buffers, the corking and the time-out of connecting are the proxy's.
    pub settings: PortSettings,
    /// Tokens for the connections; without it they come directly.
    pub passes: Option<Passes>,
}

/// Everything a proxy must be told.
#[derive(Clone)]
pub struct ProxyOptions {
    /// Where clients connect.
    pub listen: Vec<Address>,
    /// How it listens.
    pub listen_options: ListenOptions,
    /// The certificate of addresses with TLS.
    pub tls: Option<TlsServer>,
    /// Where the broker is.
    pub to: Target,
    /// How it is connected to by a socket; the time-out holds for every transport, and for the wait for a turn as well.
    pub dial: DialOptions,
    /// Whom to trust where the broker's address has TLS; without it what the system trusts.
    pub trust: Option<TlsClient>,
    /// What an RDMA address needs.
    pub rdma: Option<Rdma>,
    /// Threads.
    pub threads: usize,
    /// Connections at once.
    pub connections_max: usize,
    /// How long connections may go on when the proxy is to stop.
    pub drain_timeout: Duration,
    /// How often totals are logged, if at all.
    pub stats_every: Option<Duration>,
}

impl ProxyOptions {
    /// The defaults, which listen nowhere yet.
    pub fn to(to: Target) -> Self {
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
