//! What a link guarantees while both ends are open: order, partial writes, gathers, the two buffers of a read, lent
//! memory.

use super::LinkPair;
use super::drivers::{
    await_memory_returned, await_progress, await_ready, gather, pattern, pool, pump, pump_exactly, pump_until,
};
use crate::{ReceiveOutcome, SendOutcome, WaitFor};
use slab::Gather;

/// Bytes arrive once each and in order, both ways at once, in pieces of any size.
pub(crate) fn bytes_arrive_in_order((mut a, mut b): LinkPair) {
    let pool = pool();
    let sizes = [1, 2, 7, 8, 63, 64, 1_000, 4_095, 4_096, 70_000];
    let (mut there, mut back) = (0, 0);
    for size in sizes {
        let sent = pattern(there, size);
        assert_eq!(pump(&mut *a, &mut *b, &mut gather(&pool, &sent)), sent, "{size} bytes there");
        there += size;
        let sent = pattern(back + 5, size);
        assert_eq!(pump(&mut *b, &mut *a, &mut gather(&pool, &sent)), sent, "{size} bytes back");
        back += size;
    }
    // Many small sends before the first read; a link with a small window takes the rest later.
    let all = pattern(0, 600);
    let mut out = Gather::new();
    for piece in all.chunks(3) {
        out.extend(&pool, piece);
        a.send(&mut out).expect("both ends are open");
    }
    assert_eq!(pump_until(&mut *a, &mut *b, &mut out, all.len()), all);
}

/// With a slow reader `send` returns `Blocked` and leaves the rest in the gather; nothing is lost or duplicated.
pub(crate) fn partial_writes_lose_nothing((mut a, mut b): LinkPair) {
    let pool = pool();
    let mut sent = Vec::new();
    let mut out = Gather::new();
    while out.is_empty() {
        assert!(sent.len() < 256 << 20, "a window without an end");
        let more = pattern(sent.len(), 64 * 1024);
        out.extend(&pool, &more);
        sent.extend(more);
        let answer = a.send(&mut out).expect("both ends are open");
        assert_eq!(answer == SendOutcome::Drained, out.is_empty(), "drained means that the gather is empty");
    }
    // A call with an empty gather does not affect pending bytes, and more may be appended to those.
    a.send(&mut Gather::new()).expect("both ends are open");
    let more = pattern(sent.len(), 100_000);
    out.extend(&pool, &more);
    sent.extend(more);
    let received = pump_until(&mut *a, &mut *b, &mut out, sent.len());
    assert!(received == sent, "the bytes differ");
}

/// A gather of more parts than one call takes, copied and borrowed in turn, arrives as one stream.
pub(crate) fn gathers_of_many_parts((mut a, mut b): LinkPair) {
    let pool = pool();
    let mut expected = Vec::new();
    let mut out = Gather::new();
    let parts = 3 * a.capabilities().gather_parts_max.min(512) + 5;
    for part in 0..parts {
        let bytes = pattern(part * 17, 1 + part * 37 % 9_000);
        expected.extend_from_slice(&bytes);
        if part % 2 == 0 {
            out.extend(&pool, &bytes);
        } else {
            out.push(pool.copy(&bytes));
        }
    }
    assert!(pump(&mut *a, &mut *b, &mut out) == expected, "the bytes differ");
    drop(out);
    await_memory_returned(&mut *a, &pool);
}

/// A read fills `direct` to its end before a byte goes to `scratch`.
pub(crate) fn direct_is_filled_before_scratch((mut a, mut b): LinkPair) {
    let pool = pool();
    let mut at = 0;
    for (direct_bytes, scratch_bytes) in [(10, 10), (1, 40), (40, 1), (16, 16), (50, 0), (0, 50), (7, 300)] {
        let sent = pattern(at, 50);
        at += 50;
        let mut out = gather(&pool, &sent);
        let mut received = Vec::new();
        while received.len() < sent.len() {
            if !out.is_empty() {
                a.send(&mut out).expect("both ends are open");
            }
            let (mut direct, mut scratch) = (vec![0; direct_bytes], vec![0; scratch_bytes]);
            match b.receive(&mut direct, &mut scratch).expect("both ends are open") {
                ReceiveOutcome::Bytes { bytes, drained } => {
                    assert!(bytes > 0 && bytes <= direct_bytes + scratch_bytes);
                    assert!(!drained || bytes < direct_bytes + scratch_bytes, "a full read says nothing of the rest");
                    let first = bytes.min(direct_bytes);
                    received.extend_from_slice(&direct[..first]);
                    received.extend_from_slice(&scratch[..bytes - first]);
                }
                ReceiveOutcome::Idle => await_ready(&mut *b, WaitFor::Readable),
                ReceiveOutcome::Closed => panic!("nobody closed"),
            }
        }
        assert_eq!(received, sent, "direct {direct_bytes}, scratch {scratch_bytes}");
    }
    let nothing = b.receive(&mut [], &mut []).expect("both ends are open");
    assert_eq!(nothing, ReceiveOutcome::Bytes { bytes: 0, drained: false }, "no room says nothing of the link");
}

/// With nothing to read a link is idle, not closed, for `receive` and for `wait`.
pub(crate) fn nothing_to_read_is_idle((mut a, mut b): LinkPair) {
    let mut scratch = [0; 16];
    for link in [&mut a, &mut b] {
        assert_eq!(link.receive(&mut [], &mut scratch).expect("both ends are open"), ReceiveOutcome::Idle);
        let zero = std::time::Duration::ZERO;
        assert!(!link.wait(WaitFor::Readable, Some(zero)).expect("waited for"));
        assert!(link.wait(WaitFor::Writable, Some(zero)).expect("waited for"), "a fresh link takes bytes");
        assert!(link.wait(WaitFor::Either, Some(zero)).expect("waited for"));
        let mut nothing = Gather::new();
        assert_eq!(link.send(&mut nothing).expect("both ends are open"), SendOutcome::Drained);
    }
}

/// Lent memory gets the next bytes of the stream in its range and nowhere else, whether they had arrived before or not;
/// later bytes are received as usual. A link that takes no memory returns it, and `receive` delivers everything.
pub(crate) fn lent_memory_is_filled_at_its_place((mut a, mut b): LinkPair) {
    const AROUND: u8 = 0xA5;
    let pool = pool();
    let around = |bytes: &[u8]| bytes.iter().all(|byte| *byte == AROUND);
    // Shared or copied, so that a device reads or receives it; lent before the bytes arrive, or afterwards.
    for (round, (is_shared, comes_first)) in
        [(true, false), (true, true), (false, false), (false, true)].into_iter().enumerate()
    {
        let (head, body, tail) = (pattern(round, 11), pattern(round + 1, 40_000), pattern(round + 2, 7));
        let mut out = gather(&pool, &head);
        if is_shared {
            out.push(pool.copy(&body));
        } else {
            out.extend(&pool, &body);
        }
        out.extend(&pool, &tail);
        assert_eq!(pump_exactly(&mut *a, &mut *b, &mut out, head.len()), head, "what comes before");
        if comes_first {
            // As much as the link takes.
            a.send(&mut out).expect("both ends are open");
            a.wait(WaitFor::Readable, Some(std::time::Duration::from_millis(1))).expect("waited for");
        }
        let mut memory = pool.block(30 + body.len() + 9);
        memory.fill(AROUND);
        let refused = b.lend(memory, 30..30 + body.len() + 100).expect_err("a place beyond the memory");
        let refused = b.lend(refused, 30..30).expect_err("a place without room");
        if b.lend(refused, 30..30 + body.len()).is_err() {
            assert!(b.take_filled().is_none(), "nothing was lent");
            assert!(pump_exactly(&mut *a, &mut *b, &mut out, body.len()) == body, "the bytes differ");
            // The link takes no memory, so there is nothing more to test.
            assert_eq!(pump_exactly(&mut *a, &mut *b, &mut out, tail.len()), tail, "what comes behind");
            return;
        }
        let again = b.lend(pool.block(5), 0..5).expect_err("one at a time");
        drop(again);
        let filled = loop {
            if !out.is_empty() {
                a.send(&mut out).expect("both ends are open");
            }
            let mut scratch = [0; 16];
            match b.receive(&mut [], &mut scratch).expect("both ends are open") {
                ReceiveOutcome::Idle => await_progress(&mut *a, &mut *b, &out),
                ReceiveOutcome::Bytes { bytes, drained } => {
                    assert_eq!((bytes, drained), (0, false), "full, and nothing said of the rest");
                    break b.take_filled().expect("it is full");
                }
                ReceiveOutcome::Closed => panic!("nobody closed"),
            }
        };
        assert!(b.take_filled().is_none(), "once");
        let memory = filled.memory;
        assert!(memory[30..30 + body.len()] == body, "the bytes differ");
        assert!(around(&memory[..30]) && around(&memory[30 + body.len()..]), "bytes around the place were written to");
        assert!(filled.copied_bytes <= body.len());
        assert_eq!(pump_exactly(&mut *a, &mut *b, &mut out, tail.len()), tail, "what comes behind");
    }
}
