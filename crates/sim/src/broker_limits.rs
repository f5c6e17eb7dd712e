//! The limits of the brokers of a run, and what its connections are like.

use broker::limits::WORK_PER_TURN;
use link::sim::SimOptions;
use session::SessionLimits;
use shard::MoveOptions;
use splitmix::SplitMix64;
use std::time::Duration;

/// More bytes than any queue of a run holds.
pub const AMPLE_QUEUE_BYTES: u64 = 1 << 30;
/// More bytes than any run uses.
pub const AMPLE_MEMORY_BYTES: u64 = 1 << 40;
/// More bytes of output than a session ever queues.
pub const AMPLE_OUTPUT_BYTES: usize = 256 * 1024;

/// The limits of every broker of a run.
#[derive(Clone, Copy, Debug)]
pub struct BrokerLimits {
    /// Bytes of output at which a session accepts no more deliveries.
    pub output_bytes_max: usize,
    /// Bytes at which a queue blocks its publishers.
    pub queue_bytes_max: u64,
    /// Bytes at which a broker blocks all publishers.
    pub memory_bytes_max: u64,
    /// The frame size that both ends ask for.
    pub frame_bytes_max: u32,
    /// The heartbeat that a broker proposes and its peers keep; zero is none.
    pub heartbeat_s: u16,
    /// The consumer timeout: how long a delivery may stay unsettled before its channel is closed; zero is for ever.
    pub consumer_timeout_ms: u64,
    /// Units of work that one turn does.
    pub work_per_turn: u32,
    /// Whether connections delay and divide what they carry.
    pub faulty_links: bool,
}

impl BrokerLimits {
    /// The budget of work of a seed's turns: that of the program, or so little that much of the work is left for later turns.
    pub(crate) fn draw_work(seed: u64) -> u32 {
        let budgets = [WORK_PER_TURN, 2_048, 64, 8];
        budgets[SplitMix64::new(seed ^ 0xB0D6_E700).below(budgets.len() as u64) as usize]
    }

    /// Bytes of waiting messages beyond which a broker with a store pages some out: so few that most leave the memory, or as
    /// many as the memory limit says.
    pub(crate) fn draw_paging(seed: u64) -> u64 {
        let thresholds = [0, 0, 1_000, 20_000];
        thresholds[SplitMix64::new(seed ^ 0xBA6E_0000).below(thresholds.len() as u64) as usize]
    }

    /// When connections move between the shards of a seed's broker: not at all, or so early and so often that many do, at
    /// whatever moment, and some give up.
    pub(crate) fn draw_moves(seed: u64) -> MoveOptions {
        let mut chance = SplitMix64::new(seed ^ 0x0F0E_0000);
        let mut draw = |choices: [u64; 4]| choices[chance.below(4) as usize];
        MoveOptions {
            is_enabled: draw([0, 1, 1, 1]) == 1,
            window_messages: draw([1, 2, 5, 30]),
            patience: Duration::from_micros(draw([300, 3_000, 10_000, 30_000])),
            rest: Duration::from_micros(draw([500, 3_000, 20_000, 1_000_000])),
        }
    }

    /// Whether no limit ever blocks publishers.
    pub(crate) fn is_ample(&self) -> bool {
        self.queue_bytes_max == AMPLE_QUEUE_BYTES && self.memory_bytes_max == AMPLE_MEMORY_BYTES
    }

    /// What a session may use.
    pub fn session(&self) -> SessionLimits {
        SessionLimits {
            frame_bytes_max: self.frame_bytes_max,
            heartbeat_s: self.heartbeat_s,
            ..SessionLimits::default()
        }
    }

    /// What a new connection is like. `window_bytes_min`: how many bytes one direction holds at least.
    pub(crate) fn cable_options(&self, window_bytes_min: usize, chance: &mut SplitMix64) -> SimOptions {
        let seed = chance.next_u64();
        let options = if self.faulty_links { SimOptions::faulty(seed) } else { SimOptions::faultless() };
        SimOptions { seed, window_bytes: options.window_bytes.max(window_bytes_min), ..options }
    }
}
