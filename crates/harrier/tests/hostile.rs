//! Peers that violate the protocol, over a device, against a broker process. Only their own connections end, the broker
//! logs why, honest clients notice nothing, and the broker's memory returns to what it was.
//!
//! The peers are written from docs/protocol/rdma.md alone (`format`), with the InfiniBand libraries alone (`peer`).

#[path = "hostile/amqp.rs"]
mod amqp;
#[path = "hostile/broker.rs"]
mod broker;
#[path = "hostile/flood.rs"]
mod flood;
#[path = "hostile/format.rs"]
mod format;
#[path = "hostile/honest.rs"]
mod honest;
#[path = "hostile/peer.rs"]
mod peer;
#[path = "hostile/requests.rs"]
mod requests;
#[path = "hostile/timeouts.rs"]
mod timeouts;
#[path = "hostile/violations.rs"]
mod violations;

use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
fn now() -> Instant {
    Instant::now()
}

/// The address of the lab's device; outside the lab `None`, which is reported.
fn lab() -> Option<IpAddr> {
    if let Ok(address) = std::env::var("LAB_ADDRESS") {
        return Some(address.parse().expect("LAB_ADDRESS is an address"));
    }
    assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
    // Reported once, and past the output capture of passing tests, so that it is seen.
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        writeln!(std::io::stdout(), "\nSKIPPED: dishonest peers over a device: no LAB_ADDRESS says where one is")
            .expect("standard output");
    });
    None
}

/// A port that no other test of this program uses.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(21_100);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
