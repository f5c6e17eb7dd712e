//! Tables take memory for what is in them, not for what was in them once, or for the largest number.

use crate::world::{BrokerWorld, WorldConnection};
use slab::{Heap, thread_heap_bytes};
use wire::method::{basic, queue};
use wire::{ChannelNumber, ShortStr, TableRef};

#[global_allocator]
static HEAP: Heap = Heap;

/// What a few channels, or the capacity that tables keep for later, may take.
const SMALL_BYTES: isize = 80 << 10;
const CHANNELS: u16 = 4_000;
const SHARED: &str = "shared";

fn close(world: &mut BrokerWorld, at: WorldConnection, number: u16) {
    let (broker, recorder) = &mut world.shards[at.0];
    broker.close_channel(at.1, ChannelNumber(number), recorder);
}

fn consume(world: &mut BrokerWorld, at: WorldConnection, number: u16) {
    let consume = basic::Consume {
        queue: ShortStr::literal(SHARED),
        consumer_tag: ShortStr::literal("tag"),
        no_local: false,
        no_ack: true,
        exclusive: false,
        no_wait: true,
        arguments: TableRef::EMPTY,
    };
    let (broker, recorder) = &mut world.shards[at.0];
    let flow = broker.command(at.1, ChannelNumber(number), consume.into(), recorder);
    assert!(flow.is_ok(), "{flow:?}");
    world.exchange_batches();
}

#[test]
fn one_channel_with_a_high_number_is_one_channel() {
    let mut world = BrokerWorld::new(1, 1 << 30);
    let slots = 0..100;
    let connections: Vec<_> = slots.map(|slot| world.connect(0, slot)).collect();
    let before = thread_heap_bytes();
    for at in &connections {
        world.shards[0].0.open_channel(at.1, ChannelNumber(u16::MAX));
    }
    let bytes = thread_heap_bytes() - before;
    assert!(bytes < 100 * 1024, "{bytes} bytes for 100 channels");
    for at in connections {
        assert!(world.shards[0].0.has_channel(at.1, ChannelNumber(u16::MAX)));
        close(&mut world, at, u16::MAX);
        assert!(!world.shards[0].0.has_channel(at.1, ChannelNumber(u16::MAX)));
    }
}

#[test]
fn channels_and_consumers_that_have_gone_take_no_memory() {
    let mut world = BrokerWorld::new(2, 1 << 30);
    let [owner, other] = [world.connect(0, 0), world.connect(1, 0)];
    let declare = queue::Declare {
        queue: ShortStr::literal(SHARED),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: true,
        arguments: TableRef::EMPTY,
    };
    world.command(owner, declare);
    let before = thread_heap_bytes();
    let mut most = 0;
    for at in [owner, other] {
        for number in 2..CHANNELS {
            world.shards[at.0].0.open_channel(at.1, ChannelNumber(number));
            consume(&mut world, at, number);
        }
        most = most.max(thread_heap_bytes() - before);
        // The last channel stays.
        for number in 2..CHANNELS - 1 {
            close(&mut world, at, number);
            world.exchange_batches();
        }
    }
    assert!(most > 16 * SMALL_BYTES, "{most} bytes for {CHANNELS} channels with a consumer each");
    assert_eq!(world.shards.iter().map(|(broker, _)| broker.census()[1].1).sum::<usize>(), 4);
    let left = thread_heap_bytes() - before;
    assert!(left < 3 * SMALL_BYTES, "of {most} bytes {left} are left");
}
