//! What the contract's tests do with links again and again: send, read, wait with a deadline.

use crate::{Link, LinkError, ReceiveOutcome, SendOutcome, WaitFor};
use slab::{Gather, Pool, PoolOptions};
use std::time::Duration;

/// Longest wait for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that differ by their position in the stream.
pub fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8)) as u8).collect()
}

/// A gather of copied bytes.
pub fn gather(pool: &Pool, bytes: &[u8]) -> Gather {
    let mut gather = Gather::new();
    gather.extend(pool, bytes);
    gather
}

pub fn pool() -> Pool {
    Pool::new(PoolOptions::default())
}

/// The result of one read.
pub enum ReadProgress {
    /// Bytes, perhaps none.
    Bytes(Vec<u8>),
    /// The stream has ended, or the connection is lost.
    Ended { lost: bool },
}

/// One `receive` into `scratch` of `room` bytes.
pub fn read(link: &mut dyn Link, room: usize) -> ReadProgress {
    let mut scratch = vec![0; room];
    match link.receive(&mut [], &mut scratch) {
        Ok(ReceiveOutcome::Bytes { bytes, .. }) => {
            assert!(bytes > 0 && bytes <= room, "{bytes} bytes received into {room}");
            scratch.truncate(bytes);
            ReadProgress::Bytes(scratch)
        }
        Ok(ReceiveOutcome::Idle) => ReadProgress::Bytes(Vec::new()),
        Ok(ReceiveOutcome::Closed) => ReadProgress::Ended { lost: false },
        Err(LinkError::Lost(_) | LinkError::Tls(_)) => ReadProgress::Ended { lost: true },
        Err(LinkError::Closed) => panic!("`receive` must return Closed as an outcome, not as an error"),
    }
}

/// Reads until the end. Returns the bytes, and whether the connection was lost.
pub fn read_to_end(link: &mut dyn Link) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    loop {
        match read(link, 64 * 1024) {
            ReadProgress::Bytes(some) if some.is_empty() => await_ready(link, WaitFor::Readable),
            ReadProgress::Bytes(some) => all.extend(some),
            ReadProgress::Ended { lost } => return (all, lost),
        }
    }
}

/// Sends the whole gather while the other end reads. Returns what it read.
pub fn pump(from: &mut dyn Link, to: &mut dyn Link, gather: &mut Gather) -> Vec<u8> {
    let total = gather.bytes();
    pump_until(from, to, gather, total)
}

/// Sends the whole gather while the other end reads `total` bytes, some of which may have been sent before.
pub fn pump_until(from: &mut dyn Link, to: &mut dyn Link, gather: &mut Gather, total: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < total {
        let sent =
            if gather.is_empty() { SendOutcome::Drained } else { from.send(gather).expect("both ends are open") };
        assert_eq!(sent == SendOutcome::Drained, gather.is_empty(), "drained means that the gather is empty");
        match read(to, 100_000) {
            ReadProgress::Bytes(some) if some.is_empty() => await_progress(from, to, gather),
            ReadProgress::Bytes(some) => all.extend(some),
            ReadProgress::Ended { .. } => panic!("over after {} of {total} bytes", all.len()),
        }
    }
    all
}

/// Sends while the other end reads exactly `total` bytes.
pub fn pump_exactly(from: &mut dyn Link, to: &mut dyn Link, gather: &mut Gather, total: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < total {
        if !gather.is_empty() {
            from.send(gather).expect("both ends are open");
        }
        match read(to, (total - all.len()).min(4_096)) {
            ReadProgress::Bytes(some) if some.is_empty() => await_progress(from, to, gather),
            ReadProgress::Bytes(some) => all.extend(some),
            ReadProgress::Ended { .. } => panic!("over after {} of {total} bytes", all.len()),
        }
    }
    all
}

/// Waits for readiness; panics after [`PATIENCE`].
pub fn await_ready(link: &mut dyn Link, what: WaitFor) {
    assert!(link.wait(what, Some(PATIENCE)).expect("the link can be waited for"), "no progress in {PATIENCE:?}");
}

/// Waits until the sender can send what is left or the reader can read, checking both in turn: where the reader opens
/// the window with a message of its own, there may be nothing to read until more is sent.
pub fn await_progress(from: &mut dyn Link, to: &mut dyn Link, left: &Gather) {
    if left.is_empty() {
        return await_ready(to, WaitFor::Readable);
    }
    let mut nap = Duration::ZERO;
    for _ in 0..PATIENCE.as_millis() {
        let can_send = from.wait(WaitFor::Writable, Some(nap)).expect("the link can be waited for");
        if can_send || to.wait(WaitFor::Readable, Some(nap)).expect("the link can be waited for") {
            return;
        }
        nap = Duration::from_millis(1);
    }
    panic!("no progress in {PATIENCE:?}");
}

/// Waits until the memory of what was sent is freed: at once by a link that copies, later by one whose device reads it.
pub fn await_memory_returned(link: &mut dyn Link, pool: &Pool) {
    for _ in 0..1_000 {
        if pool.used_bytes() == 0 {
            return;
        }
        link.wait(WaitFor::Readable, Some(Duration::from_millis(1))).expect("the link can be waited for");
    }
    assert_eq!(pool.used_bytes(), 0, "what was sent is given back");
}

/// Sends until the link fails; panics if it never does. Returns the error.
pub fn send_until_it_fails(link: &mut dyn Link, pool: &Pool) -> LinkError {
    for _ in 0..10_000 {
        let mut some = gather(pool, &pattern(0, 16 * 1024));
        match link.send(&mut some) {
            Ok(SendOutcome::Drained) => {}
            Ok(SendOutcome::Blocked) => await_ready(link, WaitFor::Writable),
            Err(error) => return error,
        }
    }
    panic!("160 MB were sent to a peer that is gone")
}
