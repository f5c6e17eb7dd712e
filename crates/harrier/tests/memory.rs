//! The memory of a broker process under attack: whatever clients send, it stays below the memory limit and a tenth more, and
//! others publish and consume while the attackers stay or when they have gone.
//!
//! `HARRIER_BIN` names another program to attack. With `HARRIER_ATTACKS=full` (`make attacks`) limits and attacks are four times as
//! large, or as they were found: then what the program holds at rest counts, too.

#[path = "memory/attacker.rs"]
mod attacker;
#[path = "memory/broker.rs"]
mod broker;
#[path = "memory/bystander.rs"]
mod bystander;
#[path = "memory/definitions.rs"]
mod definitions;
#[path = "memory/letters.rs"]
mod letters;
#[path = "memory/messages.rs"]
mod messages;
#[path = "memory/partial.rs"]
mod partial;
#[path = "memory/resident_limit.rs"]
mod resident_limit;
#[path = "memory/size.rs"]
mod size;

use size::size;
use std::ops::Mul;
use std::time::Duration;

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A limit, or how many there are of something that fills it.
fn times<N: Mul<Output = N> + From<u8>>(count: N) -> N {
    count * size(N::from(1), N::from(4))
}
