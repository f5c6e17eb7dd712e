//! A gather gives back the bytes it was given, in order, once: random operations against a plain vector.

use std::io::IoSlice;

use proptest::prelude::*;
use slab::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Gather, Pool};

/// Miri is some thousand times slower: there, sizes just pass the first boundary.
const LEN_MAX: usize = if cfg!(miri) { 9_000 } else { 3 * CHUNK_BYTES_MAX };

#[derive(Debug, Clone)]
enum GatherOp {
    Reserve(usize),
    Extend(usize),
    Push(usize),
    /// Of what is pending, in 256ths, and 255 is all of it.
    Consume(u8),
    /// At most so many bytes, as a slice.
    Pop(usize),
    Clear,
}

fn gather_op() -> impl Strategy<Value = GatherOp> {
    let len = prop_oneof![
        6 => 0..200_usize,
        3 => 200..LEN_MAX / 9,
        1 => 6_000..LEN_MAX,
    ];
    prop_oneof![
        8 => len.clone().prop_map(GatherOp::Reserve),
        3 => len.clone().prop_map(GatherOp::Extend),
        4 => len.clone().prop_map(GatherOp::Push),
        6 => any::<u8>().prop_map(GatherOp::Consume),
        4 => len.prop_map(GatherOp::Pop),
        1 => Just(GatherOp::Clear),
    ]
}

fn written(number: usize, len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(move |index| (number.wrapping_mul(31) + index) as u8)
}

fn all(gather: &Gather) -> Vec<u8> {
    gather.parts().flatten().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 100 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_come_out_as_they_went_in(steps in prop::collection::vec(gather_op(), 1..if cfg!(miri) { 12 } else { 120 })) {
        let pool = Pool::default();
        let mut gather = Gather::new();
        let mut model: Vec<u8> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                GatherOp::Reserve(len) => {
                    let room = gather.reserve(&pool, len);
                    prop_assert_eq!(room.len(), len);
                    room.iter_mut().zip(written(number, len)).for_each(|(place, byte)| *place = byte);
                    model.extend(written(number, len));
                }
                GatherOp::Extend(len) => {
                    let bytes: Vec<u8> = written(number, len).collect();
                    gather.extend(&pool, &bytes);
                    model.extend(&bytes);
                }
                GatherOp::Push(len) => {
                    let bytes: Vec<u8> = written(number, len + 1).collect();
                    gather.push(pool.copy(&bytes).slice(1..));
                    model.extend(&bytes[1..]);
                }
                GatherOp::Pop(most) => {
                    let front = gather.front();
                    prop_assert_eq!(front.map(|(bytes, _)| bytes), gather.parts().next().map(<[u8]>::len));
                    let popped = gather.pop(most);
                    prop_assert_eq!(popped.is_some(), front.is_some());
                    let popped = popped.unwrap_or_default();
                    prop_assert_eq!(popped.len(), front.map_or(0, |(bytes, _)| bytes.min(most)));
                    prop_assert_eq!(&popped[..], &model[..popped.len()]);
                    if most % 3 == 0 {
                        gather.unpop(popped);
                    } else {
                        model.drain(..popped.len());
                    }
                }
                GatherOp::Consume(part) => {
                    let n = if part == u8::MAX { model.len() } else { model.len() * usize::from(part) / 256 };
                    gather.consume(n);
                    model.drain(..n);
                }
                GatherOp::Clear => {
                    gather.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(gather.bytes(), model.len());
            prop_assert_eq!(gather.is_empty(), model.is_empty());
            prop_assert!(!gather.is_empty() || pool.used_bytes() == 0, "an empty gather holds memory");
            // A window of parts is a prefix of the bytes, and never holds an empty part.
            let mut window = [IoSlice::new(&[]); 3];
            let count = gather.io_slices(&mut window);
            let prefix: Vec<u8> = window[..count].iter().flat_map(|part| part.iter().copied()).collect();
            prop_assert!(window[..count].iter().all(|part| !part.is_empty()));
            prop_assert_eq!(&prefix[..], &model[..prefix.len()]);
            prop_assert!(count == 3 || prefix.len() == model.len());
            let only = gather.only_part();
            prop_assert_eq!(only.is_some(), count == 1);
            prop_assert!(only.is_none_or(|only| *only == model[..]));
        }
        prop_assert_eq!(all(&gather), model);
        drop(gather);
        prop_assert_eq!(pool.used_bytes(), 0);
    }

    /// A stream that never falls empty gives back what was sent.
    #[test]
    fn a_backlog_that_moves_on_does_not_grow(lens in prop::collection::vec(1..LEN_MAX / 60, 1..60)) {
        let pool = Pool::default();
        let mut gather = Gather::new();
        gather.extend(&pool, &[7; 10_000]);
        let mut used_max = 0;
        for len in lens.iter().cycle().take(if cfg!(miri) { 20 } else { 600 }) {
            gather.reserve(&pool, *len).fill(7);
            gather.push(pool.copy(&vec![7; *len]));
            gather.consume(2 * len);
            used_max = used_max.max(pool.used_bytes());
        }
        prop_assert_eq!(gather.bytes(), 10_000);
        // Pending bytes, a chunk being filled, one being emptied, and rounding.
        prop_assert!(used_max < 4 * CHUNK_BYTES_MAX, "{} bytes in use", used_max);
    }
}

#[test]
fn small_writes_share_one_part() {
    let pool = Pool::default();
    let mut gather = Gather::new();
    for _ in 0..CHUNK_BYTES_MIN / 16 {
        gather.reserve(&pool, 16).fill(1);
    }
    assert_eq!(gather.parts().count(), 1);
    gather.reserve(&pool, 1).fill(2);
    assert_eq!(gather.parts().count(), 2);
}

#[test]
fn heads_between_bodies_share_a_chunk() {
    let pool = Pool::default();
    let body = pool.copy(&[9; 50_000]);
    let mut gather = Gather::new();
    let before = pool.used_bytes();
    for _ in 0..20 {
        gather.extend(&pool, b"head");
        gather.push(body.clone());
    }
    assert_eq!(gather.parts().count(), 40);
    assert!(pool.used_bytes() - before < 2 * CHUNK_BYTES_MIN);
    let mut parts = gather.parts();
    assert_eq!(parts.next(), Some(&b"head"[..]));
    assert_eq!(parts.next().map(<[u8]>::as_ptr), Some(body.as_ptr()), "a body is not copied");
    drop(parts);
    gather.consume(gather.bytes() - 1);
    assert_eq!(all(&gather), [9]);
}

#[test]
fn chunks_grow_with_the_flow_and_shrink_without_it() {
    let pool = Pool::default();
    let mut gather = Gather::new();
    let mut first_chunk = |bytes: usize| {
        gather.extend(&pool, &vec![1; bytes]);
        let used = pool.used_bytes();
        gather.consume(bytes);
        used
    };
    let idle = first_chunk(10);
    assert!(idle < 2 * CHUNK_BYTES_MIN);
    for _ in 0..10 {
        first_chunk(CHUNK_BYTES_MAX * 4);
    }
    assert!(first_chunk(10) > CHUNK_BYTES_MAX, "a busy gather starts with a large chunk");
    for _ in 0..10 {
        first_chunk(10);
    }
    assert_eq!(first_chunk(10), idle);
}

#[test]
fn consuming_more_than_there_is_is_our_own_fault() {
    let result = std::panic::catch_unwind(|| {
        let mut gather = Gather::new();
        gather.extend(&Pool::default(), b"abc");
        gather.consume(4);
    });
    result.expect_err("four of three bytes");
}
