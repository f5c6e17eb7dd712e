//! The set-up of a broker in a run, of one or of several: its limits, what connections may use, what cables are like.
//!
//! Enters: what a seed draws.  Leaves: the terms of a broker, the options of a cable.
//! Owns:   what the two kinds of runs have in common.
//! Never:  draws a limit; the settings do.

use link::sim::{SplitMix64, SimOptions};
use session::SessionLimits;
use std::time::Instant;

/// A limit that no queue of a run reaches.
pub const ROOMY_QUEUE_BYTES: u64 = 1 << 30;
/// A limit that no run reaches.
pub const ROOMY_MEMORY_BYTES: u64 = 1 << 40;
/// Bytes of output that are enough for everything.
pub const ROOMY_OUTPUT_BYTES: usize = 256 * 1024;

/// The limits of every broker of a run, and what its connections are like.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of output at which a session takes no more deliveries.
    pub output_bytes_max: usize,
    /// Bytes at which a queue holds its publishers back.
    pub queue_bytes_max: u64,
    /// Bytes at which a broker holds all publishers back.
    pub memory_bytes_max: u64,
    /// The frame size that both ends ask for.
    pub frame_bytes_max: u32,
    /// The heartbeat that a broker proposes and its peers keep; zero is none.
    pub heartbeat_s: u16,
    /// After how long an unsettled delivery ends its channel; zero is never.
    pub consumer_timeout_ms: u64,
    /// Whether the links delay and divide what they carry.
    pub faulty_links: bool,
}

impl Bounds {
    /// Whether no limit holds publishers back.
    pub fn is_roomy(&self) -> bool {
        self.queue_bytes_max == ROOMY_QUEUE_BYTES && self.memory_bytes_max == ROOMY_MEMORY_BYTES
    }

    /// What a connection may use.
    pub fn session(&self) -> SessionLimits {
        SessionLimits {
            frame_bytes_max: self.frame_bytes_max,
            heartbeat_s: self.heartbeat_s,
            ..SessionLimits::default()
        }
    }

    /// What a new cable is like, with room for so many bytes at least.
    pub fn cable(&self, window_bytes_min: usize, chance: &mut SplitMix64) -> SimOptions {
        let seed = chance.next_u64();
        let options = if self.faulty_links { SimOptions::faulty(seed) } else { SimOptions::faultless() };
        SimOptions { seed, window_bytes: options.window_bytes.max(window_bytes_min), ..options }
    }
}

/// What a broker is, and what it has.
pub struct Terms {
    /// What it calls itself.
    pub name: Box<str>,
    /// Where its chance begins.
    pub seed: u64,
    /// Shards.
    pub shards: u16,
    /// Its limits.
    pub bounds: Bounds,
    /// When it begins.
    pub now: Instant,
}

/// Where the time of a run begins.
#[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from; nothing depends on it")]
pub fn some_instant() -> Instant {
    Instant::now()
}
