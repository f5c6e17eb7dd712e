//! The simulated link: one stream each way in memory, with faults drawn from a seed.
//!
//! The same seed and the same calls give the same run: time is the number of [`SimConnection::step`] calls. The
//! simulator holds the [`SimConnection`]: it advances time, takes the readiness edges, slows a reader down, and cuts
//! the connection at any byte.

mod connection;
mod direction;
mod sim_link;

pub use connection::{SimConnection, SimCut, SimEdges, SimSide};
pub use sim_link::SimLink;

use crate::limits::SIM_WINDOW_BYTES_MAX;
use splitmix::SplitMix64;

/// How a simulated connection behaves.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The seed of the random number generator.
    pub seed: u64,
    /// Bytes that one direction buffers, from `send` to `receive`.
    pub window_bytes: usize,
    /// Most steps that bytes are in flight; zero without `scatter`: they arrive at once.
    pub delay_steps_max: u32,
    /// In how many of a thousand calls `receive` or `send` moves only a part, ending at any byte.
    pub partial_permille: u32,
    /// Whether the bytes that arrive in a step end at any byte, instead of where a `send` ended.
    pub scatter: bool,
}

impl SimOptions {
    /// A connection without faults.
    pub fn faultless() -> Self {
        SimOptions { seed: 0, window_bytes: 256 * 1024, delay_steps_max: 0, partial_permille: 0, scatter: false }
    }

    /// A connection with delays and partial reads and writes drawn from `seed`.
    pub fn faulty(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed);
        let window_bytes = 1 << chance.between(6, 18);
        SimOptions {
            seed,
            window_bytes,
            delay_steps_max: chance.below(6) as u32,
            partial_permille: chance.below(600) as u32,
            scatter: chance.below(2) == 0,
        }
    }

    fn window(&self) -> usize {
        self.window_bytes.clamp(1, SIM_WINDOW_BYTES_MAX)
    }
}

/// Two connected ends, and the simulator's handle on the connection.
pub fn pair(options: &SimOptions) -> (SimLink, SimLink, SimConnection) {
    let cable = SimConnection::new(options);
    (SimLink::new(cable.clone(), SimSide::Left), SimLink::new(cable.clone(), SimSide::Right), cable)
}
