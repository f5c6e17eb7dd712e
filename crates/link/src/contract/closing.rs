//! What a link guarantees when it ends: half close, abort, and peers that are gone.

use super::LinkPair;
use super::drivers::{await_progress, gather, pattern, pool, pump, read_to_end, send_until_it_fails};
use crate::{AbortReason, Link, LinkError, ReceiveOutcome, SendOutcome, WaitFor};
use slab::Pool;

/// After `close_sending` what was sent still arrives, then the end of the stream; the other direction stays open.
pub(crate) fn half_close_lets_the_rest_arrive((mut a, mut b): LinkPair) {
    let pool = pool();
    let sent = pattern(0, 30_000);
    let mut out = gather(&pool, &sent);
    let mut received = Vec::new();
    while a.send(&mut out).expect("both ends are open") == SendOutcome::Blocked {
        let mut scratch = [0; 4_096];
        match b.receive(&mut [], &mut scratch).expect("both ends are open") {
            ReceiveOutcome::Bytes { bytes, .. } => received.extend_from_slice(&scratch[..bytes]),
            ReceiveOutcome::Idle => await_progress(&mut *a, &mut *b, &out),
            ReceiveOutcome::Closed => panic!("nobody closed"),
        }
    }
    a.close_sending();
    assert_sending_closed(&mut *a, &pool);
    let (rest, lost) = read_to_end(&mut *b);
    received.extend(rest);
    assert!(!lost, "an orderly end is no loss");
    assert!(received == sent, "the bytes differ");
    let answer = pattern(9, 20_000);
    assert!(pump(&mut *b, &mut *a, &mut gather(&pool, &answer)) == answer, "the other direction goes on");
    b.close_sending();
    assert_eq!(read_to_end(&mut *a), (Vec::new(), false));
    // Closing twice has no further effect.
    a.close_sending();
    assert_stays_closed(&mut *a, &pool);
    assert_stays_closed(&mut *b, &pool);
}

/// `abort` at either end ends both directions at both ends, with bytes in flight and a reader that waits.
pub(crate) fn abort_ends_both_ways((mut a, mut b): LinkPair) {
    let pool = pool();
    let mut there = gather(&pool, &pattern(0, 100_000));
    a.send(&mut there).expect("both ends are open");
    let mut back = gather(&pool, &pattern(0, 100));
    b.send(&mut back).expect("both ends are open");
    b.abort(AbortReason::Operator);
    assert_stays_closed(&mut *b, &pool);
    let error = send_until_it_fails(&mut *a, &pool);
    assert!(matches!(error, LinkError::Closed | LinkError::Lost(_) | LinkError::Tls(_)));
    read_to_end(&mut *a);
    assert_stays_closed(&mut *a, &pool);
    b.abort(AbortReason::Operator);
    b.close_sending();
    assert_stays_closed(&mut *b, &pool);
}

/// Reading and sending both notice a peer that was dropped.
pub(crate) fn the_other_end_disappears((mut a, b): LinkPair) {
    let pool = pool();
    drop(b);
    let (bytes, _) = read_to_end(&mut *a);
    assert!(bytes.is_empty());
    send_until_it_fails(&mut *a, &pool);
    assert_stays_closed(&mut *a, &pool);
}

/// Once a send has failed every later one fails, and none returns `Blocked`: a reactor that retried would spin.
pub(crate) fn a_failed_send_stays_failed((mut a, mut b): LinkPair) {
    let pool = pool();
    b.abort(AbortReason::Protocol);
    send_until_it_fails(&mut *a, &pool);
    for _ in 0..100 {
        let mut some = gather(&pool, b"more");
        assert!(a.send(&mut some).is_err(), "a failed link takes nothing");
        assert_eq!(some.bytes(), 4, "and consumes nothing");
        assert!(
            a.wait(WaitFor::Writable, Some(super::drivers::PATIENCE)).expect("waited for"),
            "an ended link is ready"
        );
    }
}

fn assert_sending_closed(link: &mut dyn Link, pool: &Pool) {
    for _ in 0..10 {
        let mut some = gather(pool, b"more");
        assert!(matches!(link.send(&mut some), Err(LinkError::Closed)), "this end has closed its sending direction");
    }
}

fn assert_stays_closed(link: &mut dyn Link, pool: &Pool) {
    for _ in 0..10 {
        let received = link.receive(&mut [], &mut [0; 16]).expect("an error is told once");
        assert_eq!(received, ReceiveOutcome::Closed, "what is over stays over");
        assert!(link.send(&mut gather(pool, b"more")).is_err(), "what is over stays over");
        assert!(link.wait(WaitFor::Either, None).expect("waited for"), "nobody waits for what is over");
    }
}
