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
    /// The instant from which the broker core counts its time: the same for all shards.
    pub epoch: Instant,
    /// The name by which other brokers know this one.
    pub cluster_name: Box<str>,
}
