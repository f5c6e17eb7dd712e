//! Measures what a message costs this crate: nanoseconds per operation, best and median of several runs.
//!
//! Compare its figures only within one run on one machine.
//!
//! `cargo run --release -p harrier-slab --example measure`

use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use slab::{Gather, HeaderWithTail, Pool};

const RUNS: usize = 15;
const OPERATIONS: u32 = 1_000_000;

#[expect(clippy::disallowed_methods, reason = "a program that measures")]
fn time(operation: impl FnOnce()) -> Duration {
    let start = Instant::now();
    operation();
    start.elapsed()
}

fn report(name: &str, operations: u32, mut run: impl FnMut()) {
    run();
    let mut times: Vec<f64> = (0..RUNS).map(|_| time(&mut run).as_secs_f64() * 1e9 / f64::from(operations)).collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<52} {:>9.2} {:>9.2}", times[0], times[RUNS / 2]);
}

type MeasuredMessage = HeaderWithTail<[u64; 4]>;

fn message(pool: &Pool, body: &[u8]) -> MeasuredMessage {
    pool.header_with_tail([1, 2, 3, 4], body.len(), |tail| tail.copy_from_slice(body))
}

fn main() {
    let pool = Pool::default();
    println!("{:<52} {:>9} {:>9}", "nanoseconds for one", "best", "median");

    let body = black_box([7_u8; 64]);
    report("tailed 64 B, make and drop", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            black_box(message(&pool, &body));
        }
    });
    report("Arc<[u8]> of 112 B, for comparison", OPERATIONS, || {
        let bytes = black_box([7_u8; 96]);
        for _ in 0..OPERATIONS {
            black_box(std::sync::Arc::<[u8]>::from(&bytes[..]));
        }
    });

    let mut queue = std::collections::VecDeque::with_capacity(10_001);
    report("tailed 64 B, through a queue of 10,000", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            queue.push_back(message(&pool, &body));
            if queue.len() > 10_000 {
                queue.pop_front();
            }
        }
    });
    drop(queue);

    let one = message(&pool, &body);
    report("tailed, clone and drop", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            black_box(one.clone());
        }
    });
    report("block 64 B, make and drop", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            black_box(pool.block(black_box(64)));
        }
    });
    report("block 1 MiB, make and drop", 100_000, || {
        for _ in 0..100_000 {
            black_box(pool.block(black_box(1 << 20)));
        }
    });

    let head = black_box([3_u8; 150]);
    let mut gather = Gather::new();
    report("gather 150 B, reserve and fill, flushed at 256 KiB", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            gather.reserve(&pool, black_box(150)).copy_from_slice(&head);
            if gather.bytes() > 256 * 1024 {
                black_box(gather.parts().count());
                gather.consume(gather.bytes());
            }
        }
    });
    report("gather 150 B, reserve, fill and flush each", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            gather.reserve(&pool, black_box(150)).copy_from_slice(&head);
            black_box(gather.parts().count());
            gather.consume(gather.bytes());
        }
    });
    let large = pool.copy(&[1; 16 * 1024]);
    report("gather 60 B and a borrowed 16 KiB, flush each", OPERATIONS, || {
        for _ in 0..OPERATIONS {
            gather.reserve(&pool, black_box(60)).copy_from_slice(&head[..60]);
            gather.push(large.clone());
            black_box(gather.parts().count());
            gather.consume(gather.bytes());
        }
    });

    let (sender, receiver) = sync_channel::<Vec<MeasuredMessage>>(8);
    let reader = thread::spawn(move || receiver.into_iter().map(|batch| batch.len()).sum::<usize>());
    report("tailed 64 B, made here, dropped elsewhere", OPERATIONS, || {
        for _ in 0..OPERATIONS / 1000 {
            let batch = (0..1000).map(|_| message(&pool, &body)).collect();
            sender.send(batch).expect("the reader lives while there is a sender");
            pool.collect();
        }
    });
    drop(sender);
    black_box(reader.join().expect("the reader ends well"));
    pool.collect();
    println!("held {} KiB, in use {} B", pool.mapped_bytes() / 1024, pool.used_bytes());
}
