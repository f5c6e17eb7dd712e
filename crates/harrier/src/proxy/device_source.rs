//! Where a proxy's RDMA devices come from.
//!
//! Enters: the address of a peer.  Leaves: a device that can connect to it, or why there is none.
//! Owns:   the joint between the proxy, which knows no card, and the cards.
//! Never:  tries another transport in its place.

use verbs::device::{AnyDevice, DeviceError};

/// A device of this machine that can connect to `host:port`.
///
/// # Errors
/// What is missing: a library, a device, a way to the address, or memory that may be locked.
pub fn towards(address: &str) -> Result<AnyDevice, DeviceError> {
    let more = |error: DeviceError| DeviceError(format!("{} (`harrier rdma check` says more)", error.0));
    verbs::card::towards(address).map_err(more)
}
