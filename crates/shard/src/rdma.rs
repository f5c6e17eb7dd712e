//! What a broker must be told to listen for RDMA.
//!
//! Leaves: options.
//! Owns:   the three ways of waiting for a device.
//! Never:  knows what kind of device it is.

use link::Address;
use session::limits::BODY_FRAME_BYTES_MAX;
use std::fmt;
use verbs::PortSettings;
use verbs::device::AnyDevice;

/// How connections over RDMA are made and served.
pub struct RdmaOptions {
    /// Where clients connect.
    pub listen: Vec<RdmaListen>,
    /// How ports behave. Whether they are corked is the reactor's affair: they are.
    pub settings: PortSettings,
    /// How shards wait for their devices.
    pub poll: RdmaPoll,
    /// The frame bound proposed to clients, in bytes, if it is more than that of all connections.
    pub frame_bytes_max: u32,
}

impl Default for RdmaOptions {
    fn default() -> Self {
        let frame_bytes_max = BODY_FRAME_BYTES_MAX;
        RdmaOptions { listen: vec![], settings: PortSettings::default(), poll: RdmaPoll::default(), frame_bytes_max }
    }
}

/// An address, and the devices that listen there.
pub struct RdmaListen {
    /// The address.
    pub address: Address,
    /// One for each shard; they listen together, so that each connection comes to one of them.
    pub devices: Vec<AnyDevice>,
}

impl fmt::Debug for RdmaListen {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "RdmaListen({}, {} devices)", self.address, self.devices.len())
    }
}

impl RdmaListen {
    /// An address in the words of devices: `host:port`.
    pub fn place_of(address: &Address) -> String {
        let text = address.to_string();
        text.strip_prefix("amqp+rdma://").unwrap_or(&text).to_owned()
    }
}

/// How a shard that has nothing to do waits while it has connections over RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RdmaPoll {
    /// It never sleeps: the shortest latency, for a whole core.
    Busy,
    /// It looks a while before it sleeps, as long as that pays.
    #[default]
    Adaptive,
    /// It sleeps at once, until the device wakes it.
    Event,
}
