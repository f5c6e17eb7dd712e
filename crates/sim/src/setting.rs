//! What kind of run a seed is: how many shards and clients, which limits, which faults.
//!
//! Enters: a seed.  Leaves: a setting.
//! Owns:   the ranges.
//! Never:  draws anything once the run has begun.

use link::sim::Chance;

/// A limit that no queue of a run reaches.
const ROOMY_QUEUE_BYTES: u64 = 1 << 30;

/// A limit that no run reaches.
const ROOMY_MEMORY_BYTES: u64 = 1 << 40;

/// Which features the queues of a run may have: a thousandth part of the queues, or messages, each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Switches {
    /// Queues with `x-message-ttl`.
    pub ttl: u32,
    /// Messages with an `expiration`.
    pub expiration: u32,
    /// Queues with `x-expires`.
    pub expires: u32,
    /// Queues with a length limit.
    pub length: u32,
    /// Queues with dead letters.
    pub dead_letters: u32,
    /// Queues with priorities.
    pub priorities: u32,
    /// Queues with a single active consumer.
    pub single_active: u32,
    /// Messages with further routing keys.
    pub copies: u32,
}

impl Switches {
    /// Half of the runs have none; in the others each feature is on or off, and often or seldom.
    fn of(chance: &mut Chance) -> Self {
        if chance.permille(500) {
            return Switches::default();
        }
        let mut draw = || if chance.permille(500) { chance.between(50, 700) as u32 } else { 0 };
        Switches {
            ttl: draw(),
            expiration: draw() / 4,
            expires: draw() / 2,
            length: draw(),
            dead_letters: draw(),
            priorities: draw(),
            single_active: draw() / 2,
            copies: draw() / 4,
        }
    }
}

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
    /// What queues may do beyond queueing, in this run.
    pub features: Switches,
    /// Whether a drain meets the connections of the run alive, or after they have gone.
    pub drain_beside: bool,
}

impl Setting {
    /// The setting of a seed.
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5EED);
        let small_limits = chance.permille(350);
        let large_bodies = chance.permille(300);
        Setting {
            seed,
            shards: [1, 2, 2, 3, 3, 4][chance.below(6) as usize],
            clients: chance.between(2, 8) as usize,
            steps: [1_500, 3_000, 6_000][chance.below(3) as usize],
            output_bytes_max: if small_limits { 1 << chance.between(9, 14) } else { 256 * 1024 },
            queue_bytes_max: if small_limits { 1 << chance.between(10, 16) } else { ROOMY_QUEUE_BYTES },
            memory_bytes_max: if chance.permille(120) { 1 << chance.between(16, 20) } else { ROOMY_MEMORY_BYTES },
            frame_bytes_max: [4_096, 4_096, 8_192, 131_072][chance.below(4) as usize],
            heartbeat_s: if chance.permille(150) { chance.between(1, 3) as u16 } else { 0 },
            cuts: chance.permille(600),
            slow_clients: chance.permille(500),
            faulty_links: chance.permille(700),
            large_bodies,
            publish_permille: chance.between(250, 600) as u32,
            drain_beside: chance.permille(500),
            features: Switches::of(&mut Chance::new(seed ^ 0xFEA7)),
        }
    }

    /// Whether no limit holds publishers back.
    pub fn is_roomy(&self) -> bool {
        self.queue_bytes_max == ROOMY_QUEUE_BYTES && self.memory_bytes_max == ROOMY_MEMORY_BYTES
    }
}
