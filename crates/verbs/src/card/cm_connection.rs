//! One connection of a device: its id, its queue pair and its state.
//!
//! It is destroyed when the device has returned all memory of its work.

use crate::device::QueuePairLimits;
use crate::limits::ACKNOWLEDGE_RETRIES;
use ib::{CmId, ConnectParams, ReadLimits, SendSegment};
use slab::BlockMut;
use std::time::Duration;

/// A queue pair that sends headers and message memory, and reads into blocks.
pub(super) type CardQueuePair = ib::QueuePair<SendSegment, BlockMut>;

pub(super) struct CmConnection {
    pub id: CmId,
    /// The peer's address as the owner wrote it; empty if the peer has connected.
    pub address: String,
    /// `None` before the route to the peer is resolved.
    pub pair: Option<CardQueuePair>,
    pub limits: QueuePairLimits,
    /// The private data of the request.
    pub private_data: Vec<u8>,
    /// The owner has destroyed it: when its queue pair is destroyed at the latest.
    pub destroy_at: Option<Duration>,
    /// The device has reported its last receive.
    pub last_wqe_reached: bool,
}

impl CmConnection {
    pub fn new(id: CmId, address: &str, pair: Option<CardQueuePair>, limits: QueuePairLimits, private: &[u8]) -> Self {
        CmConnection {
            id,
            address: address.to_owned(),
            pair,
            limits,
            private_data: private.to_owned(),
            destroy_at: None,
            last_wqe_reached: false,
        }
    }
}

/// The parameters of a request or its acceptance. `offered` are the peer's limits of READs.
pub(super) fn connect_params<'a>(
    private: &'a [u8],
    limits: &QueuePairLimits,
    offered: Option<ReadLimits>,
) -> ConnectParams<'a> {
    let reads = offered.unwrap_or(ReadLimits { responder_resources: u8::MAX, initiator_depth: u8::MAX });
    ConnectParams {
        private_data: private,
        read_limits: ReadLimits {
            responder_resources: limits.reads_answered_max.min(reads.responder_resources),
            initiator_depth: limits.reads_issued_max.min(reads.initiator_depth),
        },
        // Neither may be 7, which means without end: a peer that is switched off would never be noticed.
        retry_count: ACKNOWLEDGE_RETRIES,
        rnr_retry_count: limits.receiver_not_ready_retries.min(ib::RETRIES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::connect_params;
    use crate::device::QueuePairLimits;
    use ib::ReadLimits;

    #[test]
    fn terms_ask_for_no_more_than_the_peer_offers_and_for_nothing_without_end() {
        let limits = QueuePairLimits {
            send_slots: 8,
            receiver_not_ready_retries: 7,
            reads_issued_max: 1,
            reads_answered_max: 16,
        };
        let asked = connect_params(b"x", &limits, None);
        assert_eq!(asked.read_limits, ReadLimits { responder_resources: 16, initiator_depth: 1 });
        assert!(asked.retry_count < 7 && asked.rnr_retry_count < 7);
        let granted = connect_params(b"", &limits, Some(ReadLimits { responder_resources: 2, initiator_depth: 0 }));
        assert_eq!(granted.read_limits, ReadLimits { responder_resources: 2, initiator_depth: 0 });
    }
}
