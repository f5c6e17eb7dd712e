//! Opens RDMA devices for the proxy, which does not depend on a verbs implementation.
//!
//! If no device works the proxy gets an error; there is no fallback to another transport.

use verbs::device::{AnyDevice, DeviceError};

/// A device of this machine that can connect to `host:port`.
///
/// # Errors
/// What is missing: a library, a device, a route to the address, or lockable memory.
pub fn towards(address: &str) -> Result<AnyDevice, DeviceError> {
    let more = |error: DeviceError| DeviceError(format!("{} (`harrier rdma check` says more)", error.0));
    verbs::card::open_towards(address).map_err(more)
}
