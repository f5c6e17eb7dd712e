//! How far apart two processors are: how long what one of them writes takes to be seen by the other.
//!
//! Bytes that one processor copies into the kernel and another copies out pass from cache to cache. Between processors that share
//! a cache that is several times faster than between others, and a virtual machine is not told when its host moves one of them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gauge::clock::{self, Deadline};
use harness::placement::CpuList;

/// Round trips of a batch: short enough that few batches are interrupted.
const BATCH_ROUND_TRIPS: u32 = 200;
const BATCHES: usize = 25;
/// A processor that is busy lets the other wait: then there are fewer batches.
const TIME_MAX: Duration = Duration::from_millis(200);
/// A round trip gives up the processor after so many looks, in case the other thread is to have it.
const LOOKS_MAX: u32 = 1 << 14;

/// Nanoseconds one way between the first two processors that this program may use, by the median of its batches. `None` if there
/// are not two of them, or if they were too busy for a single batch.
pub(crate) fn core_distance_ns() -> Option<f64> {
    let (one, other) = CpuList::first_two()?;
    let (word, start) = (AtomicU32::new(0), Barrier::new(2));
    let deadline = Deadline::after(TIME_MAX);
    let mut batches_ns = thread::scope(|scope| {
        scope.spawn(|| {
            let pinned = other.pin_self();
            start.wait();
            if pinned.is_ok() {
                pong(&word, deadline);
            }
        });
        let pinging = scope.spawn(|| {
            let pinned = one.pin_self();
            start.wait();
            pinned.map_or_else(|_| Vec::new(), |()| ping(&word, deadline))
        });
        pinging.join().unwrap_or_default()
    });
    batches_ns.sort_by(f64::total_cmp);
    batches_ns.get(batches_ns.len() / 2).copied()
}

/// Writes odd numbers and waits for the even ones behind them. Returns nanoseconds one way of each batch.
fn ping(word: &AtomicU32, deadline: Deadline) -> Vec<f64> {
    let mut batches = Vec::with_capacity(BATCHES);
    let mut last = 0;
    while batches.len() < BATCHES {
        let start_ns = clock::now_ns();
        for _ in 0..BATCH_ROUND_TRIPS {
            word.store(last + 1, Ordering::Release);
            last += 2;
            if !await_number(word, last, deadline) {
                return batches;
            }
        }
        batches.push((clock::now_ns() - start_ns) as f64 / f64::from(2 * BATCH_ROUND_TRIPS));
    }
    batches
}

/// Answers each odd number with the next even one.
fn pong(word: &AtomicU32, deadline: Deadline) {
    for number in 0..BATCH_ROUND_TRIPS * BATCHES as u32 {
        if !await_number(word, 2 * number + 1, deadline) {
            return;
        }
        word.store(2 * number + 2, Ordering::Release);
    }
}

/// Whether the other thread writes a number in time.
fn await_number(word: &AtomicU32, number: u32, deadline: Deadline) -> bool {
    let mut looks = 0;
    while word.load(Ordering::Acquire) != number {
        looks += 1;
        if looks == LOOKS_MAX {
            if deadline.passed() {
                return false;
            }
            looks = 0;
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::core_distance_ns;

    #[test]
    fn the_distance_is_that_of_caches_and_the_caller_stays_where_it_was() {
        let before = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("a thread has processors");
        let distance = core_distance_ns();
        let after = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("a thread has processors");
        assert_eq!(before, after);
        // Busy processors may leave no batch, but what is measured is more than nothing.
        assert!(distance.is_none_or(|ns| ns > 1.0 && ns.is_finite()), "{distance:?}");
        assert!(gauge::processors() > 1 || distance.is_none());
    }
}
