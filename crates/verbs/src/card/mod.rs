//! A real device: cards that speak verbs, by way of libibverbs and librdmacm.
//!
//! Enters: addresses.  Leaves: devices for ports, one for each shard.
//! Owns:   the queues, registrations and connections of each; nothing when the libraries are not there.
//! Never:  is `unsafe` (that is `ib`), knows the protocol, retries without end.
//!
//! - `address` finds the device that an address belongs to, or leads to; `wait` waits for descriptors.
//! - `family` joins devices that listen together. `conn` is one connection, `heads` the memory that its heads go from.
//! - `device` is the whole, in the engine's words; `news` is its rare half (connections), `queues` its busy one (work).

mod address;
mod cm_connection;
mod card_device;
mod listener_group;
mod head_slots;
mod async_events;
mod work_queues;
mod receive_order;
mod wait;

use crate::device::{AnyDevice, DeviceError, ResolvedRoute};
use address::{addresses, device_with_address, device_routing_to};
use card_device::CardDevice;
use listener_group::ListenerGroup;
use ib::DeviceContext;
use std::net::SocketAddr;
use std::sync::Arc;

/// So many devices, one for each shard, on the card that has an address of ours (`host:port`; names, too; IPv6 in
/// brackets). For the address of all interfaces it is the first card with an active port, and a request that arrives
/// through another is refused.
///
/// They listen together: [`Port::listen`](crate::Port::listen) with the same text on all of them, or on one, makes one
/// listener, whose requests go to the device that has the fewest queue pairs. It lives as long as the device that was
/// told first. Each may be used by a thread of its own.
///
/// # Errors
/// In words: a library that is missing, no device, an address without one or in use, too little memory that may be
/// locked.
pub fn open_at(listen_address: &str, devices: usize) -> Result<Vec<AnyDevice>, DeviceError> {
    // A name may have several addresses: the first with a device is it.
    let mut last = DeviceError(format!("`{listen_address}` has no address"));
    for address in addresses(listen_address)? {
        match device_with_address(address) {
            Ok(context) => {
                let mut cards = (0..devices).map(|_| CardDevice::open(&context)).collect::<Result<Vec<_>, _>>()?;
                let members: Vec<_> = cards.iter().map(|card| Arc::clone(&card.mailbox)).collect();
                let family = Arc::new(ListenerGroup::new(listen_address, address, &members));
                cards.iter_mut().for_each(|card| card.listener_group = Some(Arc::clone(&family)));
                return Ok(cards.into_iter().map(|card| Box::new(card) as AnyDevice).collect());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A device on the card that leads to a peer's address, for who connects there. Looks the name up, and waits for the
/// kernel to find the way to it: some seconds at most.
///
/// # Errors
/// As [`at`]; or no card leads there.
pub fn open_towards(peer_address: &str) -> Result<AnyDevice, DeviceError> {
    let (context, address) = find_device(peer_address)?;
    let mut card = CardDevice::open(&context)?;
    card.resolved = Some((peer_address.to_owned(), address));
    Ok(Box::new(card))
}

/// The same way, for who may have a port on that card already. It waits as [`towards`] does.
///
/// # Errors
/// As [`towards`].
pub fn resolve_route(peer_address: &str) -> Result<ResolvedRoute, DeviceError> {
    let (context, address) = find_device(peer_address)?;
    let open = {
        let context = context.clone();
        Box::new(move || Ok(Box::new(CardDevice::open(&context)?) as AnyDevice))
    };
    Ok(ResolvedRoute { card: context.name(), address: address.to_string(), open })
}

fn find_device(peer_address: &str) -> Result<(DeviceContext, SocketAddr), DeviceError> {
    let mut last = DeviceError(format!("`{peer_address}` has no address"));
    for address in addresses(peer_address)? {
        match device_routing_to(address) {
            Ok(context) => return Ok((context, address)),
            Err(error) => last = error,
        }
    }
    Err(last)
}
