//! Finds the device with a local address, or the one that routes to a peer's.
//!
//! Not for the message path: it looks names up and waits for address resolution.

use super::wait::poll_readable;
use crate::device::DeviceError;
use crate::limits::RESOLVE_MAX;
use ib::{CmEventChannel, CmEventKind, CmId, DeviceContext, IbError, PortState};
use rustix::io::Errno;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;

/// Converts an error that needs no explanation.
pub(super) fn device_error(error: IbError) -> DeviceError {
    DeviceError(error.to_string())
}

/// Resolves `host:port`.
pub(super) fn addresses(text: &str) -> Result<Vec<SocketAddr>, DeviceError> {
    let found: Vec<_> = text
        .to_socket_addrs()
        .map_err(|error| DeviceError(format!("`{text}` is not an address like `host:port`: {error}")))?
        .collect();
    if found.is_empty() { Err(DeviceError(format!("the name in `{text}` has no address"))) } else { Ok(found) }
}

pub(super) fn is_errno(error: &IbError, which: Errno) -> bool {
    error.os_error() == Some(which.raw_os_error())
}

/// Explains a failed bind.
pub(super) fn bind_error(address: SocketAddr, error: IbError) -> DeviceError {
    if is_errno(&error, Errno::NODEV) || is_errno(&error, Errno::ADDRNOTAVAIL) {
        return no_device_has(address);
    }
    if is_errno(&error, Errno::ADDRINUSE) {
        return DeviceError(format!("{address} is in use"));
    }
    DeviceError(format!("{address}: {error}"))
}

fn no_device_has(address: SocketAddr) -> DeviceError {
    let ip = address.ip();
    let hint = if ip.is_loopback() { " (the loopback address belongs to no device)" } else { "" };
    DeviceError(format!("no RDMA device has the address {ip}{hint}: use that of an interface with a device"))
}

/// The device with a local address, or, for that of all interfaces, the first with an active port.
pub(super) fn device_with_address(address: SocketAddr) -> Result<DeviceContext, DeviceError> {
    // Making the channel fails already if a library is missing or there is no device.
    let channel = CmEventChannel::new().map_err(device_error)?;
    let id = CmId::new(&channel).map_err(device_error)?;
    id.bind(address).map_err(|error| bind_error(address, error))?;
    if address.ip().is_unspecified() {
        return first_active();
    }
    // From the id, not from the list of devices: those are other openings, and objects made on one cannot be used with
    // the other.
    id.context().map_err(|_| no_device_has(address))
}

fn first_active() -> Result<DeviceContext, DeviceError> {
    let devices = ib::cm_devices().map_err(device_error)?;
    let is_active = |device: &DeviceContext| {
        let ports = device.attributes().map_or(0, |facts| facts.ports);
        (1..=ports).any(|number| device.port(number).is_ok_and(|port| port.state == PortState::Active))
    };
    let names: Vec<_> = devices.iter().map(DeviceContext::name).collect();
    let none = || DeviceError(format!("no RDMA device has an active port; the devices are: {}", names.join(", ")));
    devices.into_iter().find(is_active).ok_or_else(none)
}

/// The device that routes to a peer. Blocks for some seconds at most.
pub(super) fn device_routing_to(address: SocketAddr) -> Result<DeviceContext, DeviceError> {
    let channel = CmEventChannel::new().map_err(device_error)?;
    let id = CmId::new(&channel).map_err(device_error)?;
    let nowhere =
        |why: &dyn std::fmt::Display| DeviceError(format!("no RDMA device routes to {}: {why}", address.ip()));
    id.resolve_address(None, address, RESOLVE_MAX).map_err(|error| nowhere(&error))?;
    loop {
        match channel.next().map_err(device_error)?.map(|event| event.kind) {
            Some(CmEventKind::AddressResolved) => return id.context().map_err(device_error),
            Some(CmEventKind::Failed { errno, .. }) => return Err(nowhere(&std::io::Error::from_raw_os_error(errno))),
            Some(_) => {}
            // The kernel's own time-out is an event and comes earlier.
            None if poll_readable(&[channel.as_fd()], Some(2 * RESOLVE_MAX))? == [true] => {}
            None => return Err(nowhere(&"the kernel did not answer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn addresses_are_host_and_port() {
        for (text, first) in [("10.9.8.1:5673", "10.9.8.1:5673"), ("[fe80::1]:1", "[fe80::1]:1"), ("[::]:9", "[::]:9")]
        {
            assert_eq!(addresses(text).expect(text)[0].to_string(), first);
        }
        assert!(!addresses("localhost:80").expect("a name").is_empty());
        for text in ["", "10.9.8.1", "10.9.8.1:", "10.9.8.1:70000", "fe80::1"] {
            let error = addresses(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("RDMA: `{text}` is not an address")), "{error}");
        }
    }
}
