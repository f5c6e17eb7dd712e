//! What a pool guarantees on its own thread, seen from outside: blocks keep their bytes, memory comes back.

use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use slab::{BLOCK_BYTES_MAX, BlockMut, CLASSED_BYTES_MAX, HeaderWithTail, Pool, PoolOptions, REGION_BYTES, Slice};

/// Sizes on either side of every boundary that matters.
const SIZES: [usize; 20] = [
    1,
    15,
    16,
    17,
    64,
    239,
    240,
    241,
    256,
    257,
    320,
    321,
    1024,
    4096,
    4097,
    65_536,
    65_537,
    CLASSED_BYTES_MAX,
    CLASSED_BYTES_MAX + 1,
    REGION_BYTES,
];

fn ends_match(bytes: &[u8], mark: u8) -> bool {
    bytes.first().is_none_or(|byte| *byte == mark) && bytes.last().is_none_or(|byte| *byte == mark)
}

#[test]
fn a_region_is_known_to_be_gone_by_who_holds_nothing_of_it() {
    let pool = Pool::new(PoolOptions { cached_bytes_max: 0 });
    let (small, large) = (pool.block(64), pool.block(REGION_BYTES));
    let lives = [&small, &large].map(|block| block.weak_region().expect("it has a region"));
    assert!(BlockMut::empty().weak_region().is_none() && Slice::default().weak_region().is_none());
    let ended = slab::regions_unmapped();
    let slice = large.freeze();
    assert!(lives.iter().all(|life| !life.is_unmapped()) && !slice.weak_region().expect("the same").is_unmapped());
    drop(slice);
    pool.trim();
    assert!(lives[1].is_unmapped() && !lives[0].is_unmapped(), "that of the large block alone");
    assert!(slab::regions_unmapped() > ended);
    drop(small);
    drop(pool);
    assert!(lives[0].is_unmapped(), "the last goes with its pool");
}

#[test]
fn a_slice_is_written_again_only_by_its_last_holder() {
    let pool = Pool::default();
    let mut block = pool.block(100);
    block.fill(1);
    let slice = block.freeze();
    let other = slice.slice(10..20);
    let slice = slice.into_block().expect_err("another slice holds the block");
    let part = other.into_block().expect_err("a part that begins elsewhere, of a shared block");
    drop(slice);
    let part = part.into_block().expect_err("a part that begins elsewhere");
    assert_eq!(&part[..], [1; 10]);
    drop(part);
    let mut block = pool.copy(&[2; 100]).into_block().expect("the only holder");
    assert_eq!(&block[..], [2; 100]);
    block[0] = 3;
    let slice = block.freeze();
    assert_eq!((slice[0], slice[99], slice.is_unique()), (3, 2, true));
    drop(slice);
    assert_eq!(pool.used_bytes(), 0);
    assert!(Slice::empty().into_block().is_ok_and(|block| block.is_empty()));
}

#[test]
fn every_size_is_exact_aligned_readable_and_returned() {
    let pool = Pool::default();
    for len in SIZES {
        let mut block = pool.block(len);
        assert_eq!(block.len(), len);
        assert_eq!(block.as_ptr().addr() % 16, 0, "a block of {len} bytes is not aligned");
        assert!(pool.used_bytes() > len && pool.mapped_bytes() >= pool.used_bytes());
        // Memory that nobody wrote to is zero, and sound to read.
        assert_eq!(block[len - 1], 0);
        block.fill(len as u8);
        let slice = block.freeze();
        assert!(ends_match(&slice, len as u8));
        drop(slice);
        assert_eq!(pool.used_bytes(), 0, "after a block of {len} bytes");
    }
}

#[test]
fn a_pool_takes_nothing_before_it_is_asked_and_keeps_nothing_after_a_trim() {
    let pool = Pool::default();
    assert_eq!((pool.mapped_bytes(), pool.generation()), (0, 0));
    let blocks: Vec<BlockMut> = SIZES.iter().map(|len| pool.block(*len)).collect();
    let held = pool.mapped_bytes();
    let generation = pool.generation();
    assert!(generation > 0);
    drop(blocks);
    assert_eq!(pool.mapped_bytes(), held, "below the bound memory is kept for later");
    assert_eq!(pool.trim(), held);
    assert_eq!((pool.mapped_bytes(), pool.used_bytes()), (0, 0));
    assert_ne!(pool.generation(), generation);
}

#[test]
fn a_block_that_stays_occupies_its_region() {
    let pool = Pool::default();
    let each = REGION_BYTES / 8;
    let mut blocks: Vec<BlockMut> = (0..32).map(|_| pool.block(each)).collect();
    let full = pool.occupied_bytes();
    assert_eq!(full, pool.mapped_bytes());
    let mut number = 0;
    blocks.retain(|_| {
        number += 1;
        number % 8 == 1
    });
    assert!(pool.used_bytes() < full / 4);
    // Each region has seven at most.
    assert!(pool.occupied_bytes() >= 4 * REGION_BYTES, "{} of {full}", pool.occupied_bytes());
    drop(blocks);
    // The region that blocks are allocated in next is not cached, and all others are.
    assert!(pool.occupied_bytes() <= REGION_BYTES && pool.mapped_bytes() == full);
    pool.trim();
    assert_eq!(pool.occupied_bytes(), 0);
}

#[test]
fn empty_regions_beyond_the_bound_go_back() {
    let pool = Pool::new(PoolOptions { cached_bytes_max: 2 * REGION_BYTES });
    let a_region_each = CLASSED_BYTES_MAX + 1;
    let blocks: Vec<BlockMut> = (0..8).map(|_| pool.block(a_region_each)).collect();
    let full = pool.mapped_bytes();
    drop(blocks);
    assert!(pool.mapped_bytes() <= 2 * REGION_BYTES && pool.mapped_bytes() < full);
    // One that is beyond the bound by itself goes at once, and pushes no other out.
    let kept = pool.mapped_bytes();
    drop(pool.block(4 * REGION_BYTES));
    assert_eq!(pool.mapped_bytes(), kept);
}

#[test]
fn the_same_large_body_again_takes_no_new_memory() {
    let pool = Pool::default();
    drop(pool.block(REGION_BYTES));
    let generation = pool.generation();
    for shorter in 0..20 {
        drop(pool.block(REGION_BYTES - 1000 * shorter));
    }
    assert_eq!(pool.generation(), generation);
}

#[test]
fn regions_empty_in_any_order_and_serve_any_class_again() {
    let pool = Pool::default();
    // Three blocks fit a region, so this is a dozen regions.
    let mut blocks: Vec<Option<BlockMut>> = (0..36)
        .map(|mark| {
            let mut block = pool.block(CLASSED_BYTES_MAX);
            block[0] = mark;
            Some(block)
        })
        .collect();
    let held = pool.mapped_bytes();
    for step in [5, 3, 2, 1] {
        for index in (0..blocks.len()).step_by(step) {
            if let Some(block) = blocks[index].take() {
                assert_eq!(block[0], index as u8);
            }
        }
    }
    assert_eq!(pool.used_bytes(), 0);
    // All but the one that serves are spare now, and good for another class.
    let others: Vec<BlockMut> = (0..7 * 8).map(|_| pool.block(CLASSED_BYTES_MAX / 2)).collect();
    assert_eq!(pool.mapped_bytes(), held);
    drop(others);
}

#[test]
fn regions_can_be_listed_while_the_pool_is_used() {
    let pool = Pool::default();
    let blocks: Vec<BlockMut> = SIZES.iter().map(|len| pool.block(*len)).collect();
    let mut listed = Vec::new();
    let inside = Cell::new(0);
    pool.regions(|base, len| {
        drop(pool.block(100));
        listed.push(base.addr()..base.addr() + len);
        inside.set(inside.get() + len);
    });
    assert_eq!(inside.get(), pool.mapped_bytes());
    for block in &blocks {
        let home = listed.iter().filter(|region| {
            region.contains(&block.as_ptr().addr()) && region.contains(&(block.as_ptr().addr() + block.len() - 1))
        });
        assert_eq!(home.count(), 1, "{block:?} lies in one region");
    }
}

#[test]
fn nothing_takes_no_block() {
    let pool = Pool::default();
    let mut block = pool.block(0);
    assert!(block.is_empty() && block.iter_mut().next().is_none());
    let slice = block.freeze();
    assert!(slice.clone().is_empty() && slice.is_unique());
    assert!(Slice::empty().slice(..).is_empty() && Slice::default().slice(0..0).is_empty());
    assert_eq!(pool.mapped_bytes(), 0);
    let mut block = pool.block(10);
    block.truncate(0);
    assert_eq!((block.len(), pool.used_bytes()), (0, 0));
}

#[test]
fn parts_of_a_slice_hold_the_whole_block() {
    let pool = Pool::default();
    let whole = pool.copy(b"headers and body");
    let used = pool.used_bytes();
    let mut body = whole.slice(12..);
    let head = whole.slice(..=6);
    assert!(!whole.is_unique());
    drop(whole);
    assert_eq!((&head[..], &body[..]), (&b"headers"[..], &b"body"[..]));
    body.advance(1);
    body.truncate(2);
    body.truncate(9);
    assert_eq!(&body[..], b"od");
    drop(head);
    assert!(body.is_unique());
    assert_eq!(pool.used_bytes(), used);
    body.advance(2);
    assert!(body.is_empty());
    assert_eq!(pool.used_bytes(), 0, "a slice advanced to its end lets go");
}

#[test]
fn a_range_outside_a_slice_is_our_own_fault() {
    let pool = Pool::default();
    let slice = pool.copy(b"four");
    for attempt in [
        catch_unwind(AssertUnwindSafe(|| drop(slice.slice(3..5)))),
        catch_unwind(AssertUnwindSafe(|| drop(slice.slice(..=usize::MAX)))),
        catch_unwind(AssertUnwindSafe(|| slice.clone().advance(5))),
        catch_unwind(AssertUnwindSafe(|| drop(pool.block(BLOCK_BYTES_MAX + 1)))),
        catch_unwind(AssertUnwindSafe(|| {
            drop(pool.header_with_tail((), BLOCK_BYTES_MAX, |_| {}));
        })),
    ] {
        attempt.expect_err("out of range");
    }
    drop(slice);
    assert_eq!(pool.used_bytes(), 0);
}

/// Counts its own drops; has padding, which must not reach the next user of its block.
struct DropCounter {
    drops: Arc<AtomicUsize>,
    small: u8,
}

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_tailed_head_lives_as_long_as_its_last_holder() {
    let pool = Pool::default();
    let drops = Arc::new(AtomicUsize::new(0));
    let head = DropCounter { drops: Arc::clone(&drops), small: 7 };
    let first = pool.header_with_tail(head, 5, |tail| tail.copy_from_slice(b"bytes"));
    let second = first.clone();
    let other = pool.header_with_tail(0_u128, 0, |tail| assert!(tail.is_empty()));
    assert!(first.ptr_eq(&second) && !first.is_unique() && other.is_unique());
    drop(first);
    assert_eq!((second.header().small, second.tail()), (7, &b"bytes"[..]));
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert_eq!((*other.header(), other.tail().len()), (0, 0));
    assert_eq!((&raw const *other.header()).addr() % 16, 0);
    drop(other);
    assert_eq!(pool.used_bytes(), 0);
    // Where the padding was is initialised again: Miri would object to this sum.
    let again = pool.block(size_of::<DropCounter>() + 8 + 5 - 16);
    assert!(again.iter().map(|byte| u64::from(*byte)).sum::<u64>() < 256 * again.len() as u64);
}

#[test]
fn a_filling_that_panics_costs_neither_block_nor_head() {
    let pool = Pool::default();
    let drops = Arc::new(AtomicUsize::new(0));
    let head = DropCounter { drops: Arc::clone(&drops), small: 0 };
    catch_unwind(AssertUnwindSafe(|| {
        drop(pool.header_with_tail(head, 10, |_| panic!("the filling fails")));
    }))
    .expect_err("the panic passes through");
    assert_eq!((drops.load(Ordering::Relaxed), pool.used_bytes()), (1, 0));
}

#[test]
fn a_filling_may_use_the_pool() {
    let pool = Pool::default();
    let mut inner = None;
    let outer = pool.header_with_tail(1_u64, 3, |tail| {
        inner = Some(pool.header_with_tail(2_u64, 3, |tail| tail.fill(2)));
        tail.fill(1);
    });
    let inner: HeaderWithTail<u64> = inner.expect("made while filling");
    assert_eq!((outer.header(), outer.tail()), (&1, &[1, 1, 1][..]));
    assert_eq!((inner.header(), inner.tail()), (&2, &[2, 2, 2][..]));
}

#[test]
fn blocks_outlive_their_pool() {
    let pool = Pool::default();
    let handle = pool.clone();
    let slices: Vec<Slice> = SIZES.iter().map(|len| pool.copy(&vec![*len as u8; *len])).collect();
    let tailed = pool.header_with_tail(String::from("head"), 4, |tail| tail.copy_from_slice(b"tail"));
    drop(pool);
    let late = handle.copy(b"the last handle counts");
    drop(handle);
    for (slice, len) in slices.iter().zip(SIZES) {
        assert_eq!(slice.len(), len);
        assert!(ends_match(slice, len as u8));
    }
    drop(slices);
    assert_eq!((&tailed.header()[..], tailed.tail()), ("head", &b"tail"[..]));
    assert_eq!(&late[..], b"the last handle counts");
}

/// Every byte; under Miri, which is some thousand times slower, the ends.
fn all_match(bytes: &[u8], mark: u8) -> bool {
    if cfg!(miri) {
        return ends_match(bytes, mark);
    }
    bytes.iter().all(|byte| *byte == mark)
}

#[derive(Debug, Clone)]
enum PoolOp {
    Take(usize),
    Tail(usize),
    Drop(usize),
    Collect,
    Trim,
}

fn pool_op() -> impl Strategy<Value = PoolOp> {
    let len = prop_oneof![
        6 => 0..300_usize,
        3 => 300..20_000_usize,
        1 => 20_000..2 * CLASSED_BYTES_MAX,
    ];
    prop_oneof![
        8 => len.clone().prop_map(PoolOp::Take),
        4 => (0..3000_usize).prop_map(PoolOp::Tail),
        9 => any::<usize>().prop_map(PoolOp::Drop),
        1 => Just(PoolOp::Collect),
        1 => Just(PoolOp::Trim),
    ]
}

enum HeldBlock {
    Bytes(Slice),
    Message(HeaderWithTail<usize>),
}

impl HeldBlock {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(slice) => slice,
            Self::Message(message) => message.tail(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 200 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No two blocks overlap, whatever comes and goes, and all memory comes back.
    #[test]
    fn blocks_keep_their_bytes(steps in prop::collection::vec(pool_op(), 1..if cfg!(miri) { 30 } else { 400 })) {
        let pool = Pool::new(PoolOptions { cached_bytes_max: 3 * REGION_BYTES });
        let mut held: Vec<(HeldBlock, u8)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let mark = number as u8;
            match step {
                PoolOp::Take(len) => {
                    let mut block = pool.block(len);
                    block.fill(mark);
                    held.push((HeldBlock::Bytes(block.freeze()), mark));
                }
                PoolOp::Tail(len) => {
                    let message = pool.header_with_tail(len, len, |tail| tail.fill(mark));
                    prop_assert_eq!(*message.header(), len);
                    held.push((HeldBlock::Message(message), mark));
                }
                PoolOp::Drop(which) if !held.is_empty() => {
                    let (gone, mark) = held.swap_remove(which % held.len());
                    prop_assert!(all_match(gone.bytes(), mark));
                }
                PoolOp::Drop(_) => {}
                PoolOp::Collect => prop_assert_eq!(pool.collect(), 0),
                PoolOp::Trim => { pool.trim(); }
            }
            let bytes: usize = held.iter().map(|(held, _)| held.bytes().len()).sum();
            prop_assert!(pool.used_bytes() >= bytes && pool.mapped_bytes() >= pool.used_bytes());
        }
        let places: HashSet<usize> = held.iter().filter(|(held, _)| !held.bytes().is_empty())
            .map(|(held, _)| held.bytes().as_ptr().addr()).collect();
        prop_assert_eq!(places.len(), held.iter().filter(|(held, _)| !held.bytes().is_empty()).count());
        for (held, mark) in held {
            prop_assert!(all_match(held.bytes(), mark));
        }
        prop_assert_eq!(pool.used_bytes(), 0);
        pool.trim();
        prop_assert_eq!(pool.mapped_bytes(), 0);
    }
}
