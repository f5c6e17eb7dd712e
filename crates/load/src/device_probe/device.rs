//! The RDMA device that an endpoint uses: its facts and an address to listen on, and the warning for software devices.

use std::net::{IpAddr, Ipv6Addr};

use ib::{DeviceContext, PortState};
use serde::{Deserialize, Serialize};

/// The warning beside figures of a software device.
pub const SOFTWARE_SENTENCE: &str =
    "the device is made of software: these figures say nothing about a card, only ratios within one run mean something";

/// Facts about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name in `/sys/class/infiniband`.
    pub name: String,
    /// Its driver's name: `rxe` is Soft-RoCE.
    pub description: Option<String>,
    /// Whether it is a software device, if the system tells.
    pub software: Option<bool>,
}

impl DeviceFacts {
    /// Reads the facts.
    pub fn of(context: &DeviceContext) -> Self {
        Self { name: context.name(), description: context.description(), software: context.is_software() }
    }

    /// A short description: `rxe, software`.
    pub fn words(&self) -> String {
        let kind = match self.software {
            Some(true) => "software",
            Some(false) => "hardware",
            None => "perhaps hardware",
        };
        // A card's description is free text, usually with the host's name, which does not belong in a document.
        match self.description.as_deref().filter(|_| self.software == Some(true)) {
            Some(description) => format!("{description}, {kind}"),
            None => kind.to_owned(),
        }
    }
}

/// The first IP address of an active port, preferably IPv4.
///
/// # Errors
/// Why there is none, and where to look.
pub fn first_address() -> Result<IpAddr, String> {
    let text = |error: ib::IbError| format!("{error} (`harrier rdma check` says more)");
    let mut found = Vec::new();
    for context in ib::devices().map_err(text)? {
        for number in 1..=context.attributes().map_err(text)?.ports {
            let port = context.port(number).map_err(text)?;
            if port.state != PortState::Active {
                continue;
            }
            for entry in context.gids(&port).map_err(text)? {
                let address = Ipv6Addr::from(entry.gid);
                match address.to_ipv4_mapped() {
                    Some(v4) => found.push(IpAddr::V4(v4)),
                    // Link-local addresses need an interface name, and InfiniBand's own addresses look like them.
                    None if address.is_unicast_link_local() || entry.kind.is_none() => {}
                    None => found.push(IpAddr::V6(address)),
                }
            }
        }
    }
    let v4 = found.iter().find(|address| address.is_ipv4()).copied();
    v4.or_else(|| found.first().copied()).ok_or_else(|| {
        "no port of an RDMA device is active and has an IP address (`harrier rdma check` says more)".to_owned()
    })
}

/// Packets sent by all RDMA devices of this machine according to their counters; `None` without counters.
pub fn packets_sent() -> Option<u64> {
    let mut sum = None;
    for device in std::fs::read_dir("/sys/class/infiniband").ok()?.flatten() {
        for port in std::fs::read_dir(device.path().join("ports")).into_iter().flatten().flatten() {
            // Soft-RoCE has the first, cards have the second.
            let counters = ["hw_counters/sent_pkts", "counters/port_xmit_packets"];
            let read = |name: &str| std::fs::read_to_string(port.path().join(name)).ok()?.trim().parse::<u64>().ok();
            if let Some(count) = counters.into_iter().find_map(read) {
                sum = Some(sum.unwrap_or(0) + count);
            }
        }
    }
    sum
}
