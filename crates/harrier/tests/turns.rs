//! What one client asks for at once holds nobody else: a broker process, an attacker who sends a few megabytes at most, and a
//! bystander who publishes 64 bytes with a confirm and consumes them, every 20 ms.
//!
//! How long the bystander waits is printed and not asserted; that work is divided and in its order is asserted where it can be
//! counted (`crates/broker/tests/turns`). Here everybody is answered in the end, and a broker under attack stops when it is told.
//!
//! `HARRIER_BIN` names another program to attack, `HARRIER_ATTACKS=full` makes the attacks as large as they were when they held
//! a broker for seconds (`make attacks`). With `HARRIER_ATTACKS_STORE=1` the brokers have a store, and what attackers declare and publish is durable; a
//! debug build takes minutes for that.

#[path = "memory/attacker.rs"]
#[expect(dead_code, reason = "shared with the tests of memory")]
mod attacker;
#[path = "turns/attacks.rs"]
mod attacks;
#[path = "memory/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of memory")]
mod broker;
#[path = "turns/http_attacks.rs"]
mod http_attacks;
#[path = "turns/policies.rs"]
mod policies;
#[path = "turns/removals.rs"]
mod removals;
#[path = "memory/resident_limit.rs"]
mod resident_limit;
#[path = "memory/size.rs"]
mod size;
#[path = "turns/waits.rs"]
mod waits;

use size::size;
use std::time::Duration;

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// More than any attack here takes, so that no alarm stops one.
const LIMIT_MIB: u64 = 1_024;

/// Whether the brokers have a store, and what attackers make is durable.
fn has_store() -> bool {
    std::env::var_os("HARRIER_ATTACKS_STORE").is_some()
}
