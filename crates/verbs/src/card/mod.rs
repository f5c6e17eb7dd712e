//! Real devices, by way of libibverbs and librdmacm.
//!
//! - `address` finds the device for an address; `wait` waits for descriptors.
//! - `listener_group` joins devices that listen together. `cm_connection` is one connection, `head_slots` the memory of
//!   its message headers.
//! - `card_device` implements [`Device`](crate::device::Device); `async_events` handles connections and asynchronous
//!   events, `work_queues` work requests and completions, and `receive_order` notices receive buffers that are missing.

mod address;
mod async_events;
mod card_device;
mod cm_connection;
mod head_slots;
mod listener_group;
mod receive_order;
mod wait;
mod work_queues;

use crate::device::{AnyDevice, DeviceError, ResolvedRoute};
use address::{addresses, device_routing_to, device_with_address};
use card_device::CardDevice;
use ib::DeviceContext;
use listener_group::ListenerGroup;
use std::net::SocketAddr;
use std::sync::Arc;

/// Opens the card with a local address (`host:port`, with a name or an IP address; IPv6 in brackets) once for each of
/// `devices` shards. For the address of all interfaces it is the first card with an active port, and requests through
/// other cards are refused.
///
/// They listen together: [`Port::listen`](crate::Port::listen) with the same text on any of them makes one listener,
/// whose requests are passed to the device with the fewest queue pairs. It lives as long as the device that listened
/// first. Each device may be used by a thread of its own.
///
/// # Errors
/// A missing library, no device, an address without a device or in use, too low a limit of locked memory.
pub fn open_at(listen_address: &str, devices: usize) -> Result<Vec<AnyDevice>, DeviceError> {
    // A name may have several addresses: the first with a device is taken.
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

/// Opens the card that routes to a peer's address, to connect to it. Blocks for name and address resolution: some
/// seconds at most.
///
/// # Errors
/// As [`open_at`]; or no card routes to the address.
pub fn open_towards(peer_address: &str) -> Result<AnyDevice, DeviceError> {
    let (context, address) = find_device(peer_address)?;
    let mut card = CardDevice::open(&context)?;
    card.resolved = Some((peer_address.to_owned(), address));
    Ok(Box::new(card))
}

/// Resolves the route without opening the card, for a caller that may have a port on it. Blocks as [`open_towards`].
///
/// # Errors
/// As [`open_towards`].
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
