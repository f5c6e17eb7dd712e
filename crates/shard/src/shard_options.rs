//! How a shard is set up.

use catalog::ShardId;
use session::{Greeting, SessionLimits};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct ShardOptions {
    pub shard: ShardId,
    /// What connections may use.
    pub session: SessionLimits,
    /// The frame bound proposed over links that take memory for bodies, in bytes.
    pub rdma_frame_bytes_max: u32,
    /// The greeting that every connection gets.
    pub greeting: Arc<Greeting>,
    /// How long a client may take to log in and open its virtual host.
    pub login_timeout: Duration,
    /// An instant that is the same for all shards, and when that was: microseconds since 1970. The broker core counts its time
    /// from 1970 on, so that the times of stored messages mean the same in the next life of the broker.
    pub epoch: Instant,
    pub epoch_unix_us: u64,
    /// The clock by which samples of work are timed. Nothing else depends on it: what happens when is told to a shard.
    pub clock: fn() -> Instant,
    /// The name by which other brokers know this one.
    pub cluster_name: Box<str>,
}

impl ShardOptions {
    /// The broker core's time at an instant.
    #[inline]
    pub(crate) fn time_us(&self, now: Instant) -> u64 {
        self.epoch_unix_us + now.saturating_duration_since(self.epoch).as_micros() as u64
    }

    /// When the broker core's time is this; at once if that has been.
    pub(crate) fn instant(&self, time_us: u64) -> Instant {
        self.epoch + Duration::from_micros(time_us.saturating_sub(self.epoch_unix_us))
    }
}
