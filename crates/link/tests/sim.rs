//! What the simulated link guarantees beyond the contract: cuts, edges, slow readers, and the same run for the same
//! seed.

use link::sim::{SimConnection, SimCut, SimLink, SimOptions, SimSide, pair};
use link::{Link, LinkError, ReceiveOutcome, SendOutcome};
use slab::{Gather, Pool, PoolOptions};

fn gather(bytes: &[u8]) -> Gather {
    let pool = Pool::new(PoolOptions::default());
    let mut gather = Gather::new();
    gather.extend(&pool, bytes);
    gather
}

/// Reads all that is there.
fn drain(link: &mut SimLink) -> (Vec<u8>, Option<Result<(), LinkError>>) {
    let mut all = Vec::new();
    let mut scratch = [0; 64];
    loop {
        match link.receive(&mut [], &mut scratch) {
            Ok(ReceiveOutcome::Bytes { bytes, .. }) => all.extend_from_slice(&scratch[..bytes]),
            Ok(ReceiveOutcome::Idle) => return (all, None),
            Ok(ReceiveOutcome::Closed) => return (all, Some(Ok(()))),
            Err(error) => return (all, Some(Err(error))),
        }
    }
}

fn settle(cable: &SimConnection) {
    for _ in 0..100 {
        cable.step();
    }
}

#[test]
fn a_cut_falls_after_exactly_the_bytes_asked_for() {
    for cut_bytes in 0..40 {
        let (mut a, mut b, cable) = pair(&SimOptions::faultless());
        cable.cut_after(SimSide::Left, cut_bytes, SimCut::Reset);
        assert_eq!(a.send(&mut gather(&[7; 40])).expect("open"), SendOutcome::Drained);
        let mut received = 0;
        let error = loop {
            let mut scratch = [0; 16];
            match b.receive(&mut [], &mut scratch) {
                Ok(ReceiveOutcome::Bytes { bytes, .. }) => received += bytes as u64,
                Ok(other) => panic!("{other:?} instead of a loss"),
                Err(error) => break error,
            }
        };
        assert!(error.is_lost());
        assert_eq!(received, cut_bytes);
        assert!(matches!(a.receive(&mut [], &mut [0; 4]), Err(LinkError::Lost(_))));
    }
}

#[test]
fn a_peer_that_vanishes_leaves_what_had_arrived() {
    let options = SimOptions { delay_steps_max: 3, seed: 5, ..SimOptions::faultless() };
    let (mut a, mut b, cable) = pair(&options);
    a.send(&mut gather(b"arrived")).expect("open");
    settle(&cable);
    a.send(&mut gather(b"under way")).expect("open");
    cable.cut(SimCut::Vanish(SimSide::Left));
    let edges = cable.take_edges(SimSide::Right);
    assert!(edges.readable && edges.closed);
    let (bytes, end) = drain(&mut b);
    assert_eq!(bytes, b"arrived");
    assert!(matches!(end, Some(Ok(()))));
    assert!(matches!(b.send(&mut gather(b"x")), Err(LinkError::Closed)));
    assert!(matches!(a.send(&mut gather(b"x")), Err(LinkError::Closed)));
}

#[test]
fn silence_tells_nobody() {
    let (mut a, mut b, cable) = pair(&SimOptions::faultless());
    cable.cut(SimCut::Silence);
    assert_eq!(a.send(&mut gather(b"hello")).expect("nobody knows"), SendOutcome::Drained);
    settle(&cable);
    assert!(matches!(drain(&mut b), (bytes, None) if bytes.is_empty()));
}

#[test]
fn edges_are_told_once_and_after_blocked() {
    let options = SimOptions { window_bytes: 8, ..SimOptions::faultless() };
    let (mut a, mut b, cable) = pair(&options);
    assert!(cable.take_edges(SimSide::Left).any() && cable.take_edges(SimSide::Right).any());
    let mut out = gather(b"0123456789");
    assert_eq!(a.send(&mut out).expect("open"), SendOutcome::Blocked);
    assert!(cable.take_edges(SimSide::Right).readable);
    assert!(!cable.take_edges(SimSide::Right).any(), "an edge is told once");
    assert!(!cable.take_edges(SimSide::Left).any(), "no room yet");
    assert_eq!(drain(&mut b).0, b"01234567");
    assert!(cable.take_edges(SimSide::Left).writable);
    assert_eq!(a.send(&mut out).expect("open"), SendOutcome::Drained);
    assert!(!cable.take_edges(SimSide::Left).any());
    drop(a);
    let edges = cable.take_edges(SimSide::Right);
    assert!(edges.readable && edges.closed);
    assert_eq!(drain(&mut b).0, b"89");
}

#[test]
fn a_slow_reader_is_sent_no_faster_than_its_pace() {
    let (mut a, mut b, cable) = pair(&SimOptions::faultless());
    cable.limit_rate(SimSide::Right, Some(3));
    a.send(&mut gather(&[1; 10])).expect("open");
    for expected in [3, 3, 3, 1, 0] {
        cable.step();
        assert_eq!(drain(&mut b).0.len(), expected);
    }
    cable.limit_rate(SimSide::Right, Some(0));
    a.send(&mut gather(&[1; 10])).expect("open");
    settle(&cable);
    assert_eq!(drain(&mut b).0.len(), 0);
    cable.limit_rate(SimSide::Right, None);
    cable.step();
    assert_eq!(drain(&mut b).0.len(), 10);
}

#[test]
fn a_link_dropped_with_bytes_unread_resets_the_connection() {
    let (mut a, mut b, _cable) = pair(&SimOptions::faultless());
    a.send(&mut gather(b"unread")).expect("open");
    b.send(&mut gather(b"farewell")).expect("open");
    drop(b);
    assert!(matches!(a.receive(&mut [], &mut [0; 16]), Err(LinkError::Lost(_))));
    assert!(matches!(a.receive(&mut [], &mut [0; 16]), Ok(ReceiveOutcome::Closed)));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let (mut a, mut b, cable) = pair(&SimOptions::faulty(seed));
        let mut out = gather(&[3; 3_000]);
        let mut trace = Vec::new();
        for _ in 0..2_000 {
            if !out.is_empty() {
                trace.push((a.send(&mut out).expect("open") == SendOutcome::Drained, out.bytes()));
            }
            cable.step();
            trace.push((true, drain(&mut b).0.len()));
        }
        trace
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

#[test]
fn it_has_no_descriptor() {
    let (mut a, _b, _cable) = pair(&SimOptions::faultless());
    let poll = mio::Poll::new().expect("a poll");
    let refused = a.register(poll.registry(), mio::Token(1)).expect_err("nothing to register");
    assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn a_connection_whose_sender_awaits_the_next_step_is_busy() {
    // Chance leaves a part of a send, although there is space: no edge tells so before time passes.
    let (mut near, _far, cable) = pair(&SimOptions { partial_permille: 1_000, ..SimOptions::faultless() });
    while !matches!(near.send(&mut gather(&[7; 20])), Ok(SendOutcome::Blocked)) {}
    for side in [SimSide::Left, SimSide::Right] {
        cable.take_edges(side);
    }
    assert!(cable.is_busy());
    cable.step();
    assert!(cable.take_edges(SimSide::Left).writable);
}
