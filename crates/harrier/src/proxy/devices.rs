//! Where a proxy's RDMA devices come from.
//!
//! Enters: the address of a peer.  Leaves: a device that can connect to it, or why there is none.
//! Owns:   the joint between the proxy, which knows no card, and the cards.
//! Never:  tries another transport in its place.

use verbs::device::{AnyDevice, DeviceError};

/// A device of this machine that can connect to `host:port`.
///
/// # Errors
/// What is missing: a library, a device, or, in this version, the way from the one to the other.
pub fn towards(address: &str) -> Result<AnyDevice, DeviceError> {
    let missing = |error: ib::Error| DeviceError(format!("{error} (`harrier rdma check` says more)"));
    ib::open().map_err(missing)?;
    ib::devices().map_err(missing)?;
    Err(DeviceError(format!("this version cannot connect to {address} over the devices of this machine yet")))
}
