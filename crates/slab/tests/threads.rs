//! What blocks guarantee across threads: they can be read, cloned and freed anywhere and at any time.
//!
//! No test depends on which thread is faster; each run is one of the possible interleavings.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier};
use std::thread;

use slab::{BlockMut, HeaderWithTail, Pool, PoolOptions, REGION_BYTES, Slice};

const THREADS: usize = 3;
const STEPS: usize = if cfg!(miri) { 60 } else { 30_000 };
/// The longest body; Miri looks at each byte for a microsecond.
const LENGTH_MAX: usize = if cfg!(miri) { 2_000 } else { 20_000 };

struct DropCountedHeader {
    number: usize,
    drops: Arc<AtomicUsize>,
}

impl Drop for DropCountedHeader {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn length(number: usize) -> usize {
    match number % 97 {
        0 => LENGTH_MAX,
        1..10 => 700,
        rest => rest,
    }
}

#[test]
fn one_thread_takes_and_all_free() {
    let drops = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(PoolOptions { cached_bytes_max: 2 * REGION_BYTES });
    thread::scope(|scope| {
        let mut senders = Vec::new();
        for thread in 0..THREADS {
            let (sender, receiver) = sync_channel::<(HeaderWithTail<DropCountedHeader>, Slice, BlockMut)>(64);
            senders.push(sender);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for (message, slice, block) in receiver {
                    let number = message.header().number;
                    assert_eq!(message.tail().len(), length(number));
                    assert!(message.tail().iter().all(|byte| *byte == number as u8));
                    assert!(slice.iter().all(|byte| *byte == number as u8));
                    assert_eq!(block[0], number as u8);
                    if number % (thread + 3) == 0 {
                        kept.push((message.clone(), slice.slice(1..), block));
                    }
                    if kept.len() > 50 {
                        kept.drain(..40 + thread);
                    }
                }
            });
        }
        for number in 0..STEPS {
            let head = DropCountedHeader { number, drops: Arc::clone(&drops) };
            let message = pool.header_with_tail(head, length(number), |tail| tail.fill(number as u8));
            let mut bytes = pool.block(length(number) + 2);
            bytes.fill(number as u8);
            let slice = bytes.freeze();
            for (thread, sender) in senders.iter().enumerate() {
                let mut block = pool.block(1 + thread * 40);
                block[0] = number as u8;
                sender.send((message.clone(), slice.clone(), block)).expect("the reader lives while its sender does");
            }
            if number % 100 == 0 {
                pool.collect();
            }
        }
    });
    pool.collect();
    assert_eq!(drops.load(Ordering::Relaxed), STEPS);
    assert_eq!(pool.used_bytes(), 0);
    pool.trim();
    assert_eq!(pool.mapped_bytes(), 0);
}

#[test]
fn a_pool_that_runs_dry_takes_back_what_others_freed() {
    let pool = Pool::default();
    let steps = if cfg!(miri) { 8 } else { 200 };
    for _ in 0..steps {
        // Three of these fill a region; without taking them back each round would need another.
        let blocks: Vec<BlockMut> = (0..3).map(|_| pool.block(slab::CLASSED_BYTES_MAX)).collect();
        thread::spawn(move || drop(blocks)).join().expect("freeing does not fail");
    }
    assert_eq!(pool.mapped_bytes(), REGION_BYTES);
}

#[test]
fn two_pools_exchange_blocks() {
    let steps = if cfg!(miri) { 40 } else { 5_000 };
    let (to_left, from_right) = sync_channel::<Slice>(16);
    let (to_right, from_left) = sync_channel::<Slice>(16);
    let run = |to: std::sync::mpsc::SyncSender<Slice>, from: std::sync::mpsc::Receiver<Slice>| {
        move || {
            let pool = Pool::default();
            for number in 0..steps {
                to.send(pool.copy(&[number as u8; 100])).expect("the other side reads as much as it sends");
                let got = from.recv().expect("the other side sends as many");
                assert_eq!(got[..], [number as u8; 100]);
            }
            // The pool goes while the other side may still hold some of its blocks.
        }
    };
    let left = thread::spawn(run(to_right, from_right));
    let right = thread::spawn(run(to_left, from_left));
    left.join().expect("the left side ends well");
    right.join().expect("the right side ends well");
}

/// The pool is dropped in the very moment in which others free its last blocks.
#[test]
fn a_pool_goes_while_its_blocks_come_back() {
    let rounds = if cfg!(miri) { 12 } else { 1_000 };
    let drops = Arc::new(AtomicUsize::new(0));
    for round in 0..rounds {
        let start = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            let pool = Pool::default();
            for number in 0..THREADS {
                let head = DropCountedHeader { number, drops: Arc::clone(&drops) };
                let message = pool.header_with_tail(head, number, |tail| tail.fill(1));
                let blocks: Vec<BlockMut> = (0..round % 5).map(|len| pool.block(len)).collect();
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    drop(message);
                    drop(blocks);
                });
            }
            let at_home = pool.copy(b"freed here, after the pool has gone");
            start.wait();
            drop(pool);
            drop(at_home);
        });
    }
    assert_eq!(drops.load(Ordering::Relaxed), rounds * THREADS);
}

#[test]
fn a_later_thread_is_never_taken_for_the_owner() {
    let steps = if cfg!(miri) { 6 } else { 100 };
    for _ in 0..steps {
        let slice = thread::spawn(|| {
            let pool = Pool::default();
            let slice = pool.copy(b"orphan");
            // A pool that is never dropped outlives its thread. Miri counts leaks, so there it ends as it should.
            if !cfg!(miri) {
                std::mem::forget(pool);
            }
            slice
        })
        .join()
        .expect("the owner ends well");
        thread::spawn(move || {
            // Its own pool gives this thread a mark, which must be a new one.
            let pool = Pool::default();
            drop(pool.copy(b"mine"));
            drop(slice);
            assert_eq!((pool.used_bytes(), pool.collect()), (0, 0));
        })
        .join()
        .expect("a stranger may free it");
    }
}

/// Whoever lets go last frees, and the other may still be on its way out of the call.
#[test]
fn the_last_holders_let_go_at_once() {
    let rounds = if cfg!(miri) { 10 } else { 1_000 };
    let pool = Pool::default();
    for _ in 0..rounds {
        let start = Barrier::new(THREADS);
        let slice = pool.copy(&[1; 40]);
        let message = pool.header_with_tail(0_u64, 30, |tail| tail.fill(1));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (start, slice, message) = (&start, slice.clone(), message.clone());
                scope.spawn(move || {
                    start.wait();
                    drop(slice);
                    drop(message);
                });
            }
            drop((slice, message));
            // The blocks are used again as soon as they come back.
            for _ in 0..10 {
                pool.collect();
                pool.block(40).fill(2);
            }
        });
        pool.collect();
        assert_eq!(pool.used_bytes(), 0);
    }
}
