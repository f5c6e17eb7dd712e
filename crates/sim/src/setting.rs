//! What kind of run a seed is: how many shards and clients, which limits, which faults.
//!
//! Enters: a seed.  Leaves: a setting.
//! Owns:   the ranges.
//! Never:  draws anything once the run has begun.

use crate::swarm::Switches;
use link::sim::Chance;

/// Lengths of runs. Many short ones find more in the same time than few long ones, but some things come late.
const STEPS: [u32; 8] = [100, 150, 200, 200, 300, 300, 600, 1_200];

/// A limit that no queue of a run reaches.
const ROOMY_QUEUE_BYTES: u64 = 1 << 30;

/// A limit that no run reaches.
const ROOMY_MEMORY_BYTES: u64 = 1 << 40;

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
    /// Bytes of output at which a session takes no more deliveries.
    pub output_bytes_max: usize,
    /// Bytes at which a queue holds its publishers back.
    pub queue_bytes_max: u64,
    /// Bytes at which the broker holds all publishers back.
    pub memory_bytes_max: u64,
    /// The frame size that clients ask for.
    pub frame_bytes_max: u32,
    /// The heartbeat that the broker proposes and clients keep; zero is none.
    pub heartbeat_s: u16,
    /// Whether connections are cut.
    pub cuts: bool,
    /// Whether clients stop reading now and then.
    pub slow_clients: bool,
    /// Whether the links delay and divide what they carry.
    pub faulty_links: bool,
    /// Whether bodies of tens of kilobytes occur.
    pub large_bodies: bool,
    /// Of a thousand deeds, how many are publishes.
    pub publish_permille: u32,
    /// Of a thousand other deeds, how many settle what came.
    pub settle_permille: u32,
    /// After how long an unsettled delivery ends its channel; zero is never.
    pub consumer_timeout_ms: u64,
    /// What this run has and how often.
    pub switches: Switches,
    /// Whether a drain meets the connections of the run alive, or after they have gone.
    pub drain_beside: bool,
}

impl Setting {
    /// The setting of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5EED);
        let small_limits = chance.permille(350);
        let large_bodies = chance.permille(300);
        let memory_bytes_max = if chance.permille(120) { 1 << chance.between(16, 20) } else { ROOMY_MEMORY_BYTES };
        // Heartbeats to all at once are much of so little memory: the alarm would go on and off with them, for ever.
        let may_beat = memory_bytes_max == ROOMY_MEMORY_BYTES;
        Setting {
            seed,
            shards: [1, 2, 2, 3, 3, 4][chance.below(6) as usize],
            clients: chance.between(2, 8) as usize,
            steps: STEPS[chance.below(STEPS.len() as u64) as usize],
            output_bytes_max: if small_limits { 1 << chance.between(9, 14) } else { 256 * 1024 },
            queue_bytes_max: if small_limits { 1 << chance.between(10, 16) } else { ROOMY_QUEUE_BYTES },
            memory_bytes_max,
            frame_bytes_max: [4_096, 4_096, 8_192, 131_072][chance.below(4) as usize],
            heartbeat_s: if chance.permille(150) && may_beat { chance.between(1, 3) as u16 } else { 0 },
            cuts: chance.permille(600),
            slow_clients: chance.permille(500),
            faulty_links: chance.permille(700),
            large_bodies,
            publish_permille: chance.between(150, 700) as u32,
            drain_beside: chance.permille(500),
            settle_permille: [100, 450, 450, 800][chance.below(4) as usize],
            // Each rest is longer than the longest, so that it has an end there.
            consumer_timeout_ms: if chance.permille(120) { chance.between(5, 150) } else { 0 },
            switches: Switches::of(&mut Chance::new(seed ^ 0xFEA7)),
        }
    }

    /// Whether no limit holds publishers back.
    pub fn is_roomy(&self) -> bool {
        self.queue_bytes_max == ROOMY_QUEUE_BYTES && self.memory_bytes_max == ROOMY_MEMORY_BYTES
    }
}
