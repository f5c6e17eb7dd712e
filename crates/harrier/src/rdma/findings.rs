//! Inspects the machine: libraries, limits, devices, ports, addresses.
//!
//! Every problem comes with a remedy, and none stops the inspection.

use super::self_test::{SelfTest, run};
use ib::{DeviceAttributes, DeviceContext, DevicePort, GidEntry, IbError, LinkLayer, PortState};
use rustix::process::{Resource, geteuid, getrlimit};
use std::net::{IpAddr, Ipv6Addr};

/// With less lockable memory a broker cannot pin the buffers of a few hundred connections.
const LOCKED_BYTES_MIN: u64 = 64 << 20;

pub struct Findings {
    /// Problems of the whole machine.
    pub problems: Vec<Problem>,
    /// Unusual settings that may be intended.
    pub warnings: Vec<Problem>,
    /// Memory that this user may pin; `None`: unlimited.
    pub locked_bytes_max: Option<u64>,
    pub devices: Vec<DeviceFindings>,
}

/// A problem and its remedy.
#[derive(Debug)]
pub struct Problem {
    pub what: String,
    /// The remedy.
    pub fix: String,
}

impl Problem {
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), fix: fix.into() }
    }
}

pub struct DeviceFindings {
    pub name: String,
    pub facts: Option<DeviceAttributes>,
    pub problems: Vec<Problem>,
    pub ports: Vec<PortFindings>,
}

pub struct PortFindings {
    pub port: DevicePort,
    pub gids: Vec<GidEntry>,
    pub problems: Vec<Problem>,
    pub self_tests: Vec<SelfTest>,
}

impl Findings {
    /// Whether at least one device works and none fails.
    pub fn usable(&self) -> bool {
        let ports = || self.devices.iter().flat_map(|device| &device.ports);
        let fails = !self.problems.is_empty()
            || self.devices.iter().any(|device| !device.problems.is_empty())
            || ports().flat_map(|port| &port.self_tests).any(|walk| walk.failure().is_some());
        !fails && ports().any(|port| !port.self_tests.is_empty())
    }
}

/// Inspects everything, and tests what can be tested.
pub fn inspect() -> Findings {
    let mut findings =
        Findings { problems: Vec::new(), warnings: Vec::new(), locked_bytes_max: locked(), devices: Vec::new() };
    if let Some(bytes) = findings.locked_bytes_max.filter(|&bytes| bytes < LOCKED_BYTES_MIN && !geteuid().is_root()) {
        findings.warnings.push(Problem::new(
            format!("only {bytes} bytes of memory may be locked"),
            "`ulimit -l unlimited`, `LimitMEMLOCK=infinity` in the unit of systemd, or a line `* - memlock unlimited` in /etc/security/limits.d",
        ));
    }
    if let Err(error) = ib::open() {
        findings.problems.push(of_library(&error));
        return findings;
    }
    match ib::devices() {
        Ok(devices) => findings.devices = devices.iter().map(inspect_device).collect(),
        Err(error) => findings.problems.push(of_devices(&error)),
    }
    if findings.problems.is_empty()
        && !findings.usable()
        && findings.devices.iter().all(|device| device.problems.is_empty())
    {
        let tried = findings.devices.iter().flat_map(|device| &device.ports).any(|port| !port.self_tests.is_empty());
        if !tried {
            findings.problems.push(Problem::new(
                "no port of any device is active and has an IP address",
                "see what the ports say above",
            ));
        }
    }
    findings
}

fn locked() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

fn of_library(error: &IbError) -> Problem {
    match error {
        IbError::MissingLibrary(missing) => Problem::new(
            format!("{} cannot be used: {}", missing.file, missing.why),
            format!("apt-get install {}", missing.package.replace(" and ", " ")),
        ),
        error => Problem::new(error.to_string(), "see docs/operations/rdma.md"),
    }
}

fn of_devices(error: &IbError) -> Problem {
    let fix = match error {
        IbError::NoDevice(_) => "a card and its driver, or Soft-RoCE: see docs/operations/rdma.md",
        _ => "the rights of /dev/infiniband/uverbs*: whoever runs this must be able to read and write them",
    };
    Problem::new(error.to_string(), fix)
}

fn inspect_device(context: &DeviceContext) -> DeviceFindings {
    let mut found = DeviceFindings { name: context.name(), facts: None, problems: Vec::new(), ports: Vec::new() };
    let broken = |error: IbError| Problem::new(error.to_string(), "what the kernel's log (dmesg) says of the device");
    match context.attributes() {
        Ok(facts) => found.facts = Some(facts),
        Err(error) => found.problems.push(broken(error)),
    }
    for number in 1..=found.facts.as_ref().map_or(0, |facts| facts.ports) {
        match context.port(number).and_then(|port| Ok((context.gids(&port)?, port))) {
            Ok((gids, port)) => found.ports.push(inspect_port(port, gids)),
            Err(error) => found.problems.push(broken(error)),
        }
    }
    found
}

fn inspect_port(port: DevicePort, gids: Vec<GidEntry>) -> PortFindings {
    let mut found = PortFindings { port, gids, problems: Vec::new(), self_tests: Vec::new() };
    let interface = || found.gids.iter().find_map(|entry| entry.interface.clone());
    if found.port.state != PortState::Active {
        let named = interface().unwrap_or_else(|| "INTERFACE".to_owned());
        let fix = match found.port.link_layer {
            LinkLayer::Infiniband => {
                "a cable, and a subnet manager on the fabric (opensm, or the switch's own)".to_owned()
            }
            _ => format!("a cable, and `ip link set {named} up`"),
        };
        found.problems.push(Problem::new("the port is not active", fix));
        return found;
    }
    let addresses = addresses(&found.gids);
    if addresses.is_empty() {
        let named = interface().unwrap_or_else(|| "INTERFACE".to_owned());
        let what = "the port has no IP address, by which connections are made";
        let fix = match found.port.link_layer {
            LinkLayer::Infiniband => {
                "IPoIB: `modprobe ib_ipoib`, then `ip address add ADDRESS/LENGTH dev ib0`".to_owned()
            }
            _ => format!("`ip address add ADDRESS/LENGTH dev {named}`"),
        };
        found.problems.push(Problem::new(what, fix));
    }
    found.self_tests = addresses.into_iter().map(run).collect();
    found
}

/// The first active port with an IP address, of the named device or of any: its device and address.
///
/// # Errors
/// Why there is none, and a remedy.
pub fn first(name: Option<&str>) -> Result<(DeviceContext, IpAddr), Problem> {
    ib::open().map_err(|error| of_library(&error))?;
    let is_wanted = |context: &DeviceContext| name.is_none_or(|name| context.name() == name);
    let devices = ib::devices().map_err(|error| of_devices(&error))?;
    for context in devices.into_iter().filter(is_wanted) {
        let ports = context.attributes().map_or(0, |facts| facts.ports);
        for port in (1..=ports).filter_map(|number| context.port(number).ok()) {
            let gids = context.gids(&port).unwrap_or_default();
            if let (PortState::Active, Some(&address)) = (port.state, addresses(&gids).first()) {
                return Ok((context, address));
            }
        }
    }
    let what = match name {
        Some(name) => format!("no device {name} with an active port and an IP address"),
        None => "no port of any device is active and has an IP address".to_owned(),
    };
    Err(Problem::new(what, "see what `harrier rdma check` says"))
}

/// The IP addresses among a port's GIDs. Each is returned once, although every version of RoCE has an entry for it.
fn addresses(gids: &[GidEntry]) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for entry in gids {
        let address = Ipv6Addr::from(entry.gid);
        let ip = match address.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            // A link-local address needs its interface, and InfiniBand's own GIDs look like one.
            None if address.is_unicast_link_local() || entry.kind.is_none() => continue,
            None => IpAddr::V6(address),
        };
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::addresses;
    use ib::GidEntry;

    #[test]
    fn addresses_are_those_that_can_be_connected_to_each_once() {
        let entry = |index, text: &str, kind: Option<&str>| GidEntry {
            index,
            gid: text.parse::<std::net::Ipv6Addr>().expect("an address").octets(),
            kind: kind.map(str::to_owned),
            interface: None,
        };
        let gids = [
            entry(0, "fe80::1", Some("IB/RoCE v1")),
            entry(1, "::ffff:10.9.8.1", Some("IB/RoCE v1")),
            entry(2, "::ffff:10.9.8.1", Some("RoCE v2")),
            entry(3, "2001:db8::5", Some("RoCE v2")),
            entry(4, "fec0::7", None),
        ];
        let found: Vec<_> = addresses(&gids).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.9.8.1", "2001:db8::5"]);
    }
}
