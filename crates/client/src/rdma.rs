//! Connecting over RDMA: a device for each connection, and what becomes of an address where there is none.
//!
//! Enters: an address, options.  Leaves: a connected link, or why there is none.
//! Owns:   how a client's port is set up.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use link::Link;
use verbs::device::{AnyDevice, DeviceError};
use verbs::{PortSettings, RdmaToken, StandaloneLink};
use wire::{Table, Value};

use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::options::ConnectOptions;
use crate::url::Url;

/// Finds the device by which an address (`host:port`) is reached. Each connection has one of its own.
pub type DeviceFinder = Arc<dyn Fn(&str) -> std::result::Result<AnyDevice, DeviceError> + Send + Sync>;

/// How a client connects over RDMA.
#[derive(Clone)]
pub struct RdmaOptions {
    /// Where devices come from: this machine's cards.
    pub devices: DeviceFinder,
    /// How its port behaves. The default is for one connection.
    pub settings: PortSettings,
    /// Largest frame in bytes, overhead included, for bodies over RDMA, if it is more than [`ConnectOptions`](crate::ConnectOptions) say;
    /// the server may want smaller ones. The default takes what the server proposes.
    pub frame_bytes_max: u32,
}

impl Default for RdmaOptions {
    fn default() -> Self {
        let settings = PortSettings {
            receive_buffers: 80,
            spare_buffers: 16,
            credits: 64,
            landing_blocks: 4,
            ..PortSettings::for_client()
        };
        let frame_bytes_max = session::limits::FRAME_BYTES_CEILING;
        Self { devices: Arc::new(open_towards), settings, frame_bytes_max }
    }
}

/// The process that first looked for a device; 0: none has.
static FIRST_PROCESS: AtomicU32 = AtomicU32::new(0);

/// This machine's card towards an address. A fork of a process that has looked for one has its libraries' state and none of
/// its devices: its requests are refused by the kernel, or go to pages that it was not given.
fn open_towards(place: &str) -> std::result::Result<AnyDevice, DeviceError> {
    let process = std::process::id();
    match FIRST_PROCESS.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed) {
        Err(first) if first != process => {
            Err(DeviceError("a fork of a process that has used RDMA cannot use it".to_owned()))
        }
        _ => verbs::card::open_towards(place),
    }
}

impl fmt::Debug for RdmaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RdmaOptions");
        shown.field("settings", &self.settings).field("frame_bytes_max", &self.frame_bytes_max);
        shown.finish_non_exhaustive()
    }
}

/// The property of a server in which the token stands that it gives (Harrier extension).
const TOKEN_PROPERTY: &str = "harrier.rdma_token";

/// What a broker gives a client that logs in, to come again over RDMA by.
pub(crate) fn token_of(server_properties: &Table) -> Option<RdmaToken> {
    match server_properties.get(TOKEN_PROPERTY) {
        Some(Value::LongStr(bytes)) => Some(RdmaToken(bytes.first_chunk().copied()?)),
        _ => None,
    }
}

/// A token by which somebody else comes over RDMA, who logs in there by himself: what a proxy needs for each of its
/// connections. The connection that it was given over must last until the token was shown.
pub struct CarrierPass {
    client: Client,
    token: RdmaToken,
}

impl CarrierPass {
    /// Logs in where an address of RDMA says (`via`), as a user with the tag `carrier`.
    ///
    /// # Errors
    /// An address without `via`, no connection, a refused login, or a broker that does not listen for RDMA.
    pub fn get(url: &Url, options: ConnectOptions) -> Result<Self> {
        let why = "via=tcp or via=tls is missing: where is a token given?";
        let login = url.login().ok_or_else(|| ClientError::Url { why: why.to_owned() })?;
        let client = Client::connect_with(&login, ConnectOptions { carries_others: true, ..options })?;
        let token = token_of(client.server_properties()).ok_or(ClientError::NotAnnounced { what: "RDMA" })?;
        Ok(CarrierPass { client, token })
    }

    /// What is to be shown over RDMA, once and soon.
    pub fn token(&self) -> RdmaToken {
        self.token
    }

    /// It was shown, or will not be.
    ///
    /// # Errors
    /// What kept the connection from ending in order; it is gone all the same.
    pub fn close(self) -> Result<()> {
        self.client.close()
    }
}

impl RdmaOptions {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// No device, or no connection over it.
    pub(crate) fn dial(
        &self,
        place: &str,
        token: Option<RdmaToken>,
        timeout: Duration,
    ) -> std::io::Result<Box<dyn Link>> {
        let device = (self.devices)(place)?;
        Ok(Box::new(StandaloneLink::connect(device, place, token, self.settings.clone(), timeout)?))
    }
}
