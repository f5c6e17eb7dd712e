//! The target `session`: one end of a connection meets any bytes.
//!
//! Enters: bytes; the first chooses who hears the others and how far the connection has come.
//! Leaves: nothing, or a panic.
//! Owns:   the choice, and runs: four bytes that stand for a long stretch, so that small inputs reach large bodies.
//! Never:  expects that bytes are well formed, only that the same events come of them, however they are cut.

mod samples;
pub use samples::samples;

/// Who hears the bytes, by the first of them.
const ENDS: [fn(&[u8]); 5] = [
    session::fuzz::server,
    session::fuzz::server_running,
    session::fuzz::client,
    session::fuzz::client_running,
    session::fuzz::credentials,
];

/// Two bytes that begin a run; the next two say how long it is.
const RUN: [u8; 2] = [0xF5, 0xF5];
/// Bytes after which runs are left as they are: an input that is all runs would only be slow.
const EXPANDED_BYTES_MAX: usize = 128 * 1024;

/// Panics if the same bytes come to different events when they are cut otherwise.
pub fn check(bytes: &[u8]) {
    let Some((&end, rest)) = bytes.split_first() else { return };
    ENDS[usize::from(end) % ENDS.len()](&expand(rest));
}

/// The bytes with their runs written out.
fn expand(mut bytes: &[u8]) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(bytes.len());
    while let Some((&first, rest)) = bytes.split_first() {
        if let [a, b, high, low, after @ ..] = bytes
            && [*a, *b] == RUN
            && expanded.len() < EXPANDED_BYTES_MAX
        {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            expanded.extend((0..length).map(|at| (at % 251) as u8));
            bytes = after;
        } else {
            expanded.push(first);
            bytes = rest;
        }
    }
    expanded
}
