//! What is read of a segment that is moved, and that moving keeps pace with those who append.

use crate::seeds;
use crate::world::{Bodies, World};
use std::collections::VecDeque;
use store::limits::{GROUP_BYTES_MAX, SEGMENT_BYTES_MIN};

/// Messages that are kept for long, of so many that are settled at once.
const KEPT: usize = 64;
const KEPT_OF: u64 = 8;
/// Segments that a log may have beside twice what is alive: those with which moving begins, and what is appended while they are
/// moved. Of such small ones a quarter is never used.
const SEGMENTS_BESIDE: u64 = 10;

#[test]
fn a_log_whose_publishers_fill_every_group_keeps_its_size() {
    for seed in seeds(4) {
        let mut world = World::new(seed, Bodies::Big);
        let (mut appended, mut kept) = (VecDeque::new(), VecDeque::new());
        let mut number = 0;
        while world.written_bytes < 60 * SEGMENT_BYTES_MIN {
            while world.log.pending_bytes() < 2 * GROUP_BYTES_MAX {
                let queue = world.any_queue();
                let (position, ticket) = world.append_new(queue);
                appended.push_back((queue, position, ticket));
            }
            world.log.await_durable(world.model.last_ticket());
            world.run_for(500);
            let durable = world.model.durable();
            while let Some((queue, position, _)) = appended.pop_front_if(|(_, _, ticket)| *ticket <= durable) {
                number += 1;
                if number % KEPT_OF == 0 {
                    kept.push_back((queue, position));
                } else {
                    world.settle(queue, position, 1);
                }
            }
            while kept.len() > KEPT {
                let (queue, position) = kept.pop_front().expect("there are some");
                world.settle(queue, position, 1);
            }
            let (bytes, live_bytes) = (world.log.log_bytes(), world.log.live_bytes());
            let allowed = 2 * live_bytes + SEGMENTS_BESIDE * SEGMENT_BYTES_MIN;
            assert!(
                bytes <= allowed,
                "seed {seed}: {bytes} bytes, {live_bytes} alive, {} written",
                world.written_bytes
            );
        }
        assert!(world.log.metrics().messages_moved > 0, "seed {seed}");
        assert_eq!(world.failures(), [], "seed {seed}");
        world.crash();
    }
}

#[test]
fn groups_of_which_nothing_is_alive_are_not_read() {
    let mut world = World::new(1, Bodies::Big);
    let queue = world.queues[0];
    let mut number = 0_u64;
    while world.written_bytes < 20 * SEGMENT_BYTES_MIN {
        // In a group of its own.
        let (position, ticket) = world.append_new(queue);
        world.log.await_durable(ticket);
        world.run_for(20_000);
        number += 1;
        if !number.is_multiple_of(100) {
            world.settle(queue, position, 1);
        }
    }
    let moved = world.log.metrics().messages_moved;
    assert!(moved > 0);
    assert!(world.reads <= 3 * moved, "{} reads for {moved} messages", world.reads);
    world.crash();
}
