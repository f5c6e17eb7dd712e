//! Entry functions for fuzzers.
//!
//! Enters: bytes that a fuzzer made up.  Leaves: nothing, or a panic that is a defect.
//! Owns:   how those bytes are read: the first say how the others are cut into pieces.

use crate::{
    SessionLimits,
    drive::{EndpointPair, TestEndpoint},
};

/// Small limits, so that a fuzzer reaches them.
fn limits() -> SessionLimits {
    SessionLimits { channel_max: 3, frame_bytes_max: 8192, message_bytes_max: 100_000, ..SessionLimits::default() }
}

/// Pieces of sizes that the seed chooses, small ones more often.
fn cuts(mut seed: u64) -> impl FnMut() -> usize {
    move || {
        // A linear congruence is chance enough (Knuth, MMIX).
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (seed >> 33) as usize;
        if drawn.is_multiple_of(4) { drawn % 40_000 } else { drawn % 24 }
    }
}

fn split_seed(data: &[u8]) -> Option<(u64, &[u8])> {
    let (seed, rest) = data.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*seed), rest))
}

/// A server that hears anything from the first byte on: the same events, however it is cut.
pub fn server(data: &[u8]) {
    let Some((seed, bytes)) = split_seed(data) else { return };
    same_however_cut(seed, bytes, |in_place| TestEndpoint::server(&limits(), in_place));
}

/// A server with an open connection and channel 1 that hears anything: the same events, however it is cut. It passes over
/// contents that it cannot accept, or does not.
pub fn server_running(data: &[u8]) {
    let Some((seed, bytes)) = split_seed(data) else { return };
    let limits = SessionLimits { passes_over_contents: seed.is_multiple_of(2), ..limits() };
    same_however_cut(seed, bytes, |in_place| opened(in_place, &limits).server);
}

/// A client that hears anything from the first byte on: the same events, however it is cut.
pub fn client(data: &[u8]) {
    let Some((seed, bytes)) = split_seed(data) else { return };
    same_however_cut(seed, bytes, |in_place| TestEndpoint::client(&limits(), in_place));
}

/// A client with an open connection and channel 1 that hears anything: the same events, however it is cut. It passes over
/// contents that it cannot accept, or does not.
pub fn client_running(data: &[u8]) {
    let Some((seed, bytes)) = split_seed(data) else { return };
    let limits = SessionLimits { passes_over_contents: seed.is_multiple_of(2), ..limits() };
    same_however_cut(seed, bytes, |in_place| opened(in_place, &limits).client);
}

/// Credentials of anything.
pub fn credentials(data: &[u8]) {
    for mechanism in ["PLAIN", "AMQPLAIN", "EXTERNAL", "?"] {
        drop(crate::sasl::credentials(wire::ShortStr::literal(mechanism), data));
    }
}

fn opened(in_place: bool, limits: &SessionLimits) -> EndpointPair {
    let mut whole = || usize::MAX;
    let mut pair = EndpointPair::open(limits, in_place, &mut whole);
    pair.open_channel(&mut whole);
    for side in [&mut pair.client, &mut pair.server] {
        side.log.clear();
    }
    pair
}

fn same_however_cut(seed: u64, bytes: &[u8], make: impl Fn(bool) -> TestEndpoint) {
    let mut whole = make(false);
    whole.receive(bytes, &mut || usize::MAX);
    let sent = whole.sent();
    for in_place in [false, true] {
        let mut pieces = make(in_place);
        pieces.receive(bytes, &mut cuts(seed));
        assert_eq!(pieces.log, whole.log, "in place: {in_place}");
        assert!(pieces.bodies == whole.bodies, "bodies differ, in place: {in_place}");
        assert_eq!(pieces.sent(), sent, "in place: {in_place}");
    }
    // Where memory is lent, smaller bodies than elsewhere have memory of their own, which the log calls large.
    let alike = |log: &[String]| log.iter().map(|line| line.replace(" large ", " small ")).collect::<Vec<_>>();
    let mut lent = make(true);
    lent.lend_from(1 + seed as usize % 10_000);
    lent.receive(bytes, &mut cuts(seed));
    assert_eq!(alike(&lent.log), alike(&whole.log), "lent");
    assert!(lent.bodies == whole.bodies, "bodies differ, lent");
    assert_eq!(lent.sent(), sent, "lent");
}
