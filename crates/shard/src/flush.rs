//! Flushing: the bytes of an output queue are handed to the link of its connection.

use crate::connection::HalfClose;
use crate::connections::Connections;
use crate::output_queues::OutputQueues;
use broker::ConnectionSlot;
use link::{LinkError, SendOutcome};
use slab::Pool;
use std::time::Instant;

/// What became of the output of one connection.
#[derive(Debug)]
pub(crate) enum FlushOutcome {
    /// The link has taken so many bytes. Where it would take more, the connection waits in the backlog.
    Flushed { bytes: usize },
    /// The link still waits to become writable, or the connection is gone.
    Skipped,
    /// The link is broken.
    Failed(LinkError),
}

/// Sends what a connection's output holds, of a large body a piece. Once it is empty, the sending direction is closed if that is
/// pending.
#[inline]
pub(crate) fn flush_output(
    connections: &mut Connections,
    outputs: &mut OutputQueues,
    slot: ConnectionSlot,
    pool: &Pool,
    now: Instant,
) -> FlushOutcome {
    let Some((connection, changes)) = connections.get_with_changes(slot) else { return FlushOutcome::Skipped };
    let Some(output) = outputs.get_mut(slot) else { return FlushOutcome::Skipped };
    if output.blocked {
        return FlushOutcome::Skipped;
    }
    let mut sent = 0;
    if !output.out.is_empty() {
        connection.sent_at = now;
        let next = output.out.gather_mut(pool);
        let bytes = next.bytes();
        match connection.link.send(next) {
            Ok(SendOutcome::Drained) => {}
            Ok(SendOutcome::Blocked) => output.blocked = true,
            Err(error) => return FlushOutcome::Failed(error),
        }
        sent = bytes - next.bytes();
        connection.traffic.count_sent(sent);
        connection.note_change(slot, changes);
    }
    if !output.out.is_empty() {
        if !output.blocked {
            outputs.leave(slot);
        }
    } else if connection.half_close == HalfClose::Pending {
        connection.link.close_sending();
        connection.half_close = HalfClose::Closed;
    }
    FlushOutcome::Flushed { bytes: sent }
}

#[cfg(test)]
mod tests {
    use super::{FlushOutcome, flush_output};
    use crate::connection::{Connection, HalfClose};
    use crate::connections::Connections;
    use crate::output_queues::OutputQueues;
    use crate::test_clock::some_instant;
    use link::sim::{SimCut, SimOptions, pair};
    use link::{Link, ReceiveOutcome};
    use session::{BodyOut, Inbound, Outbound, PublishHead, SessionLimits};
    use slab::{Pool, PoolOptions};
    use wire::ChannelNumber;

    #[test]
    fn output_is_sent_until_the_link_blocks_and_then_the_sending_direction_is_closed() {
        let (now, pool) = (some_instant(), Pool::new(PoolOptions::default()));
        let (mut near, far, cable) = pair(&SimOptions { window_bytes: 12, ..SimOptions::faultless() });
        let (mut connections, mut outputs) = (Connections::default(), OutputQueues::new(1_000));
        let inbound = Inbound::client(&SessionLimits::default());
        let slot = connections.insert(Box::new(Connection::new(Box::new(far), inbound, now, now)));
        outputs.open(slot, Outbound::new(), 0);
        let flush = |connections: &mut Connections, outputs: &mut OutputQueues| {
            flush_output(connections, outputs, slot, &pool, now)
        };
        for _ in 0..2 {
            outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        }
        connections.get_mut(slot).expect("open").half_close = HalfClose::Pending;
        assert!(matches!(flush(&mut connections, &mut outputs), FlushOutcome::Flushed { .. }));
        let output = outputs.get_mut(slot).expect("open");
        assert!(output.blocked && output.out.bytes() > 0, "the link has taken {} bytes too many", output.out.bytes());
        assert!(matches!(flush(&mut connections, &mut outputs), FlushOutcome::Skipped), "it is blocked");
        let mut received = [0; 16];
        assert!(matches!(near.receive(&mut [], &mut received), Ok(ReceiveOutcome::Bytes { bytes: 1..16, .. })));
        cable.step();
        outputs.get_mut(slot).expect("open").blocked = false;
        assert!(matches!(flush(&mut connections, &mut outputs), FlushOutcome::Flushed { .. }));
        assert_eq!(connections.get(slot).expect("open").half_close, HalfClose::Closed);

        outputs.get_dirty(slot).expect("open").out.heartbeat(&pool);
        cable.cut(SimCut::Reset);
        assert!(matches!(flush(&mut connections, &mut outputs), FlushOutcome::Failed(_)));
        connections.remove(slot);
        assert!(matches!(flush(&mut connections, &mut outputs), FlushOutcome::Skipped));
    }

    /// A large body goes on where the link blocks, and where it is sent a piece at a time; the end of the direction comes behind it.
    #[test]
    fn a_large_body_is_sent_to_its_end_before_the_sending_direction_is_closed() {
        const BODY_BYTES: usize = 7 << 20;
        let (now, pool) = (some_instant(), Pool::new(PoolOptions::default()));
        for window_bytes in [300_000, 16 << 20] {
            let (mut near, far, cable) = pair(&SimOptions { window_bytes, ..SimOptions::faultless() });
            let (mut connections, mut outputs) = (Connections::default(), OutputQueues::new(1_000));
            let inbound = Inbound::client(&SessionLimits::default());
            let slot = connections.insert(Box::new(Connection::new(Box::new(far), inbound, now, now)));
            outputs.open(slot, Outbound::new(), 0);
            let out = &mut outputs.get_dirty(slot).expect("open").out;
            let (exchange, routing_key) = (&b"x"[..], &b"k"[..]);
            let head = PublishHead { exchange, routing_key, mandatory: false, immediate: false };
            let body = pool.copy(&vec![7; BODY_BYTES]);
            out.publish(&pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(&body));
            let expected = out.bytes();
            connections.get_mut(slot).expect("open").half_close = HalfClose::Pending;
            assert_eq!(outputs.next_dirty(), Some(slot));
            let (mut received, mut buffer, mut rounds) = (0, vec![0; 1 << 20], 0);
            while received < expected {
                rounds += 1;
                assert!(rounds < 1_000, "{received} of {expected} bytes");
                let outcome = flush_output(&mut connections, &mut outputs, slot, &pool, now);
                assert!(matches!(outcome, FlushOutcome::Flushed { .. }), "{outcome:?}");
                let output = outputs.get_mut(slot).expect("open");
                let (is_blocked, is_empty) = (output.blocked, output.out.is_empty());
                // What the link would take more of waits in the backlog, and nothing else does.
                assert_eq!(outputs.next_in_backlog(), (!is_blocked && !is_empty).then_some(slot));
                while let Ok(ReceiveOutcome::Bytes { bytes: bytes @ 1.., .. }) = near.receive(&mut [], &mut buffer) {
                    received += bytes;
                    cable.step();
                }
                outputs.get_mut(slot).expect("open").blocked = false;
            }
            assert_eq!(received, expected);
            assert_eq!(connections.get(slot).expect("open").half_close, HalfClose::Closed);
            drop(body);
            assert_eq!(pool.used_bytes(), 0);
        }
    }
}
