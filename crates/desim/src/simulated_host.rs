//! The hosts of brokers and of the publisher, each with its link.

use crate::sequence_ranges::SequenceRanges;
use std::collections::VecDeque;

/// The host of a broker or of the publisher.
#[derive(Debug, Default)]
pub(crate) struct SimulatedHost {
    pub is_up: bool,
    pub is_busy: bool,
    pub epoch: u32,
    /// Messages that have arrived and are not read.
    pub inbox: SequenceRanges,
    pub unread_max: u64,
    /// Messages of the batch in service.
    pub batch: u32,
    /// Messages, read or not, that arrived on a connection that is gone: the next this many are not settled.
    pub stale: u64,
    /// How many of its queues are over their limit.
    pub full_queues: u32,
    pub until_ns: u64,
    pub busy_ns: u64,
    pub link: EgressLink,
    /// When it failed last.
    pub failed_ns: u64,
}

/// A host's link, in the outbound direction.
#[derive(Debug, Default)]
pub(crate) struct EgressLink {
    pub is_busy: bool,
    pub until_ns: u64,
    pub busy_ns: u64,
    /// Connections that wait for it, served round-robin.
    pub waiting: VecDeque<u32>,
}
