//! The options of a broker that listens for RDMA connections.

use link::Address;
use session::limits::BODY_FRAME_BYTES_MAX;
use std::fmt;
use verbs::PortSettings;
use verbs::device::AnyDevice;

/// How connections over RDMA are made and served.
pub struct RdmaOptions {
    /// Where clients connect.
    pub listen: Vec<RdmaListen>,
    /// How ports behave. The shard always corks them.
    pub settings: PortSettings,
    /// How shards wait for their devices.
    pub poll: RdmaPoll,
    /// The frame size proposed to clients, if it is larger than that of other connections.
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
    /// An address as devices take it: `host:port`.
    pub fn device_address(address: &Address) -> String {
        let text = address.to_string();
        text.strip_prefix("amqp+rdma://").unwrap_or(&text).to_owned()
    }
}

/// How a shard without work waits while it has connections over RDMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RdmaPoll {
    /// It never sleeps: the shortest latency, for a whole core.
    Busy,
    /// It spins before it sleeps, as long as that shortens waits.
    #[default]
    Adaptive,
    /// It sleeps at once, until a completion event wakes it.
    Event,
}
