//! What kind of run a seed is: how many shards and clients, which limits, which faults.
//!
//! Enters: a seed.  Leaves: a setting.
//! Owns:   the ranges.
//! Never:  draws anything once the run has begun.

use crate::swarm::Switches;
use crate::terms::{Bounds, ROOMY_MEMORY_BYTES, ROOMY_OUTPUT_BYTES, ROOMY_QUEUE_BYTES};
use link::sim::SplitMix64;

/// Lengths of runs. Many short ones find more in the same time than few long ones, but some things come late.
const STEPS: [u32; 8] = [100, 150, 200, 200, 300, 300, 600, 1_200];

/// A run's setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The seed.
    pub seed: u64,
    /// Shards.
    pub shards: u16,
    /// Clients connected at once.
    pub clients: usize,
    /// Steps with deeds.
    pub steps: u32,
    /// The limits of the broker, and what links are like.
    pub bounds: Bounds,
    /// Whether connections are cut.
    pub cuts: bool,
    /// Whether clients stop reading now and then.
    pub slow_clients: bool,
    /// Whether bodies of tens of kilobytes occur.
    pub large_bodies: bool,
    /// Of a thousand deeds, how many are publishes.
    pub publish_permille: u32,
    /// Of a thousand other deeds, how many settle what came.
    pub settle_permille: u32,
    /// What this run has and how often.
    pub switches: Switches,
    /// Whether a drain meets the connections of the run alive, or after they have gone.
    pub drain_beside: bool,
}

impl Setting {
    /// The setting of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed ^ 0x5EED);
        let small_limits = chance.permille(350);
        let large_bodies = chance.permille(300);
        let memory_bytes_max = if chance.permille(120) { 1 << chance.between(16, 20) } else { ROOMY_MEMORY_BYTES };
        // Heartbeats to all at once are much of so little memory: the alarm would go on and off with them, for ever.
        let may_beat = memory_bytes_max == ROOMY_MEMORY_BYTES;
        // Drawn in this order, which the numbers of seeds rest on.
        let shards = [1, 2, 2, 3, 3, 4][chance.below(6) as usize];
        let clients = chance.between(2, 8) as usize;
        let steps = STEPS[chance.below(STEPS.len() as u64) as usize];
        let output_bytes_max = if small_limits { 1 << chance.between(9, 14) } else { ROOMY_OUTPUT_BYTES };
        let queue_bytes_max = if small_limits { 1 << chance.between(10, 16) } else { ROOMY_QUEUE_BYTES };
        let frame_bytes_max = [4_096, 4_096, 8_192, 131_072][chance.below(4) as usize];
        let heartbeat_s = if chance.permille(150) && may_beat { chance.between(1, 3) as u16 } else { 0 };
        let (cuts, slow_clients) = (chance.permille(600), chance.permille(500));
        let faulty_links = chance.permille(700);
        let publish_permille = chance.between(150, 700) as u32;
        let drain_beside = chance.permille(500);
        let settle_permille = [100, 450, 450, 800][chance.below(4) as usize];
        // Each rest is longer than the longest, so that it has an end there.
        let consumer_timeout_ms = if chance.permille(120) { chance.between(5, 150) } else { 0 };
        let bounds = Bounds {
            output_bytes_max,
            queue_bytes_max,
            memory_bytes_max,
            frame_bytes_max,
            heartbeat_s,
            consumer_timeout_ms,
            faulty_links,
        };
        let switches = Switches::of(&mut SplitMix64::new(seed ^ 0xFEA7));
        Setting {
            seed,
            shards,
            clients,
            steps,
            bounds,
            cuts,
            slow_clients,
            large_bodies,
            publish_permille,
            settle_permille,
            switches,
            drain_beside,
        }
    }
}
