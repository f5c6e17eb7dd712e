//! What leaves the memory, and what comes back or is dropped unread.

use super::*;
use queues::{BodyRef, Content, MessageStorage, PageSummary, QueuePosition};
use wire::Value;

#[test]
fn what_waits_beyond_the_threshold_leaves_the_memory_and_is_delivered_in_order() {
    for properties in [persistent(), Properties::default()] {
        let (mut world, client) = world_with(160, &Table::new());
        publish(&mut world, client, 0..2_000, &properties);
        let most = 160 * MESSAGE_BYTES * 5 / 4;
        assert!(memory_bytes(&world) <= most, "{} bytes in memory", memory_bytes(&world));
        let listed = world.shards[0].0.settlement_bytes();
        assert!(listed > 0 && listed < 300 * size_of::<[u64; 8]>(), "{listed} bytes of lists");
        assert!(world.shards[0].1.pages.len() > 1_700 && census(&world, "pages") > 0);
        assert_eq!(count(&mut world, client, "q"), "declare-ok q 2000/0");
        prefetch(&mut world, client, 10, false);
        consume(&mut world, client, "q", "c", false);
        let (mut numbers, mut most) = (Vec::new(), 0);
        while numbers.len() < 2_000 {
            let sent = world.sent(client);
            let more = delivered(&sent);
            assert!(!more.is_empty(), "after {}", numbers.len());
            numbers.extend(more);
            ack(&mut world, client, numbers.len() as u64, true);
            most = most.max(memory_bytes(&world));
            world.answer_pages(0);
        }
        assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
        assert!(most <= 160 * MESSAGE_BYTES * 5 / 4, "{most} bytes in memory");
        assert_eq!((world.shards[0].1.pages.len(), census(&world, "pages"), world.live(0).as_str()), (0, 0, ""));
        assert_eq!((memory_bytes(&world), world.shards[0].0.settlement_bytes()), (0, 0));
    }
}

#[test]
fn a_body_larger_than_a_page_is_a_page_of_its_own() {
    let (mut world, client) = world_with(16, &Table::new());
    world.switch_paging_on(16 << 20);
    let filling = "x".repeat(3_000_000);
    for number in 0..20 {
        world.publish(client, "", "q", &format!("{filling}{number}"));
    }
    assert!(memory_bytes(&world) < 20 << 20, "{} bytes in memory", memory_bytes(&world));
    let pages = census(&world, "pages");
    assert_eq!(pages, world.shards[0].1.pages.len(), "a page each");
    assert!(pages >= 14, "{pages}");
    for number in 0..20 {
        world.command(client, basic::Get { queue: short("q"), no_ack: true });
        world.answer_pages(0);
        let sent = world.sent(client);
        assert!(sent.starts_with("got#") && sent.contains(&format!("x{number} (")), "{number}");
    }
}

#[test]
fn any_number_of_queues_keeps_to_the_threshold() {
    const QUEUES: usize = 200;
    const EACH: usize = 20;
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_paging_on(QUEUES as u64 * MESSAGE_BYTES);
    let client = world.connect(0, 1);
    let names: Vec<String> = (0..QUEUES).map(|queue| format!("q{queue}")).collect();
    names.iter().for_each(|name| crate::declare(&mut world, client, name));
    for number in 0..EACH {
        for name in &names {
            world.publish(client, "", name, &format!("{number:0>100}"));
        }
    }
    let most = QUEUES as u64 * MESSAGE_BYTES * 3 / 2;
    assert!(memory_bytes(&world) <= most, "{} bytes in memory", memory_bytes(&world));
    world.sent(client);
    for name in &names {
        consume(&mut world, client, name, name, true);
    }
    world.answer_pages(7);
    let sent = world.sent(client);
    for name in &names {
        let own = sent.split(" | ").filter(|event| event.starts_with(&format!("{name}#"))).collect::<Vec<_>>();
        assert_eq!(delivered(&own.join(" | ")), (0..EACH).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!((memory_bytes(&world), census(&world, "pages"), census(&world, "requests for pages")), (0, 0, 0));
}

#[test]
fn a_queue_that_nobody_publishes_to_makes_room_for_others() {
    let (mut world, client) = world_with(100, &Table::new());
    publish(&mut world, client, 0..99, &persistent());
    crate::declare(&mut world, client, "other");
    assert_eq!(world.shards[0].1.pages.len(), 0);
    for _ in 0..40 {
        world.publish(client, "", "other", &"x".repeat(100));
    }
    assert!(memory_bytes(&world) <= 125 * MESSAGE_BYTES, "{} bytes in memory", memory_bytes(&world));
    let idle = world.shards[0].0.queues().find(|queue| &*queue.name == "q").map(|queue| queue.ready.in_memory().0);
    assert!(idle.is_some_and(|messages| messages < 99), "{idle:?}");
    world.sent(client);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 99/0");
}

#[test]
fn what_the_store_refuses_stays_and_is_offered_again_when_much_more_waits() {
    let (mut world, client) = world_with(20, &Table::new());
    world.shards[0].1.pages.is_on = false;
    publish(&mut world, client, 0..1_000, &persistent());
    let pages = &world.shards[0].1.pages;
    assert!(pages.refused > 0 && pages.refused < 100, "{} were offered", pages.refused);
    assert_eq!(census(&world, "pages"), 0);
    world.shards[0].1.pages.is_on = true;
    publish(&mut world, client, 1_000..7_000, &persistent());
    assert!(memory_bytes(&world) < 200 * MESSAGE_BYTES, "{} bytes in memory", memory_bytes(&world));
    consume(&mut world, client, "q", "c", true);
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(client)), (0..7_000).collect::<Vec<_>>());
}

#[test]
fn what_the_store_refused_is_offered_again_when_its_disk_has_space() {
    let (mut world, client) = world_with(20, &Table::new());
    world.shards[0].1.pages.is_on = false;
    publish(&mut world, client, 0..1_000, &persistent());
    for is_low in [true, false] {
        let (broker, effects) = &mut world.shards[0];
        broker.set_disk_alarm(is_low, effects);
    }
    world.shards[0].1.pages.is_on = true;
    // As many as are far from what makes it try again by itself.
    publish(&mut world, client, 1_000..1_010, &persistent());
    assert!(census(&world, "pages") > 0, "{} bytes in memory", memory_bytes(&world));
}

#[test]
fn a_queue_whose_messages_are_paged_out_blocks_no_publisher() {
    let mut world = BrokerWorld::new(1, 20 * MESSAGE_BYTES);
    world.switch_paging_on(1_000 * MESSAGE_BYTES);
    let client = world.connect(0, 1);
    crate::declare(&mut world, client, "q");
    publish(&mut world, client, 0..2_000, &Properties::default());
    assert!(!world.sent(client).contains("blocked") && census(&world, "queues that are full") == 0);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 2000/0");
}

/// The bytes of messages that a page has, each as [`restore_page`] makes it.
fn body(number: usize) -> String {
    format!("{number:0>100}")
}

/// Restores a page of the queue: messages at these positions.
fn restore_page(world: &mut BrokerWorld, numbers: &[usize], arrived_us: u64) {
    let (broker, recorder) = &mut world.shards[0];
    let (mut bytes, mut body_bytes) = (0, 0);
    for &number in numbers {
        let text = body(number);
        let content =
            Content { routing_key: b"q", body: BodyRef::Small(text.as_bytes()), arrived_us, ..Content::EMPTY };
        let message = content.keep(recorder.pool());
        bytes += message.bytes() as u64;
        body_bytes += message.body_bytes() as u64;
        recorder.pages.restore(uid(1), QueuePosition(number as u64), message);
    }
    let position = |number: Option<&usize>| number.map_or(0, |&number| number as u64);
    let page = PageSummary {
        first: QueuePosition(position(numbers.first())),
        end: QueuePosition(position(numbers.last()) + 1),
        count: numbers.len() as u32,
        bytes,
        body_bytes,
        first_arrived_us: arrived_us,
        last_arrived_us: arrived_us,
        may_have_expiration: false,
    };
    broker.restore_page(uid(1), page);
}

fn restore_message(world: &mut BrokerWorld, number: usize, redelivered: bool) {
    let (broker, recorder) = &mut world.shards[0];
    let text = body(number);
    let message = Content { routing_key: b"q", body: BodyRef::Small(text.as_bytes()), ..Content::EMPTY };
    let message = message.keep(recorder.pool());
    assert!(broker.restore_message(uid(1), QueuePosition(number as u64), message, redelivered, 0, recorder));
}

fn finish_restore(world: &mut BrokerWorld, next: u64) {
    let (broker, recorder) = &mut world.shards[0];
    broker.finish_restore(uid(1), &[QueuePosition(next)], recorder);
    world.exchange_batches();
}

#[test]
fn restored_pages_with_holes_and_messages_between_them_are_delivered_in_order() {
    let (mut world, client) = world_with(1_000, &Table::new());
    restore_message(&mut world, 3, true);
    restore_message(&mut world, 5, false);
    restore_page(&mut world, &[8, 9, 12, 20], 0);
    restore_message(&mut world, 22, true);
    restore_page(&mut world, &[30, 31, 33], 0);
    restore_page(&mut world, &[34, 40], 0);
    restore_message(&mut world, 41, false);
    restore_message(&mut world, 44, false);
    finish_restore(&mut world, 50);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 14/0");
    publish(&mut world, client, 50..52, &persistent());
    assert!(world.stored(0).contains("append 1@50="), "positions go on");
    prefetch(&mut world, client, 1, false);
    consume(&mut world, client, "q", "c", false);
    let mut numbers = Vec::new();
    for tag in 1..=16 {
        world.answer_pages(0);
        let sent = world.sent(client);
        assert_eq!(sent.ends_with('!'), tag == 1 || tag == 7, "{sent}");
        numbers.extend(delivered(&sent));
        ack(&mut world, client, tag, false);
    }
    assert_eq!(numbers, [3, 5, 8, 9, 12, 20, 22, 30, 31, 33, 34, 40, 41, 44, 50, 51]);
    assert_eq!((world.shards[0].1.pages.len(), census(&world, "pages")), (0, 0));
}

#[test]
fn what_a_page_has_lost_waits_no_more() {
    let (mut world, client) = world_with(1_000, &Table::new());
    restore_page(&mut world, &[1, 2, 3, 4], 0);
    finish_restore(&mut world, 5);
    world.shards[0].1.pages.forget_paged(uid(1), QueuePosition(2), QueuePosition(4));
    consume(&mut world, client, "q", "c", true);
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(client)), [1, 4]);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 0/1");
    assert_eq!(world.shards[0].0.queues().map(|queue| queue.ready.body_bytes()).sum::<u64>(), 0);
}

#[test]
fn pages_that_have_expired_are_dropped_unread() {
    let (mut world, client) = world_with(1_000, &Table::new().with("x-message-ttl", Value::I32(100)).expect("short"));
    world.advance(10);
    restore_page(&mut world, &[1, 2, 3], 0);
    restore_page(&mut world, &[5, 6], 50_000);
    finish_restore(&mut world, 7);
    world.advance(89);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 5/0");
    world.advance(1);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 2/0");
    world.advance(50);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 0/0");
    assert_eq!((world.shards[0].1.pages.given, world.shards[0].1.pages.len()), (0, 0));
}

#[test]
fn a_queue_that_nobody_uses_stays_until_what_has_expired_on_its_page_is_a_dead_letter() {
    let arguments = Table::new()
        .with("x-message-ttl", Value::I32(100))
        .and_then(|table| table.with("x-expires", Value::I32(110)))
        .and_then(|table| table.with("x-dead-letter-exchange", Value::text("")))
        .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("dead")));
    let (mut world, client) = world_with(1_000, &arguments.expect("short"));
    crate::declare(&mut world, client, "dead");
    world.sent(client);
    restore_page(&mut world, &[1, 2, 3], 0);
    finish_restore(&mut world, 4);
    world.advance(300);
    assert_eq!(world.shards[0].0.next_timer(), None, "it waits for its page, not for a time");
    world.answer_pages(0);
    world.advance(1);
    assert_eq!(count(&mut world, client, "dead"), "declare-ok dead 3/0");
    assert!(count(&mut world, client, "q").contains("no queue 'q'"), "nobody uses it");
}

#[test]
fn pages_beyond_a_limit_are_dropped_unread_unless_somebody_wants_them_as_dead_letters() {
    let limit = || Table::new().with("x-max-length", Value::I32(3)).expect("short");
    let (mut world, client) = world_with(1_000, &limit());
    (0..10).for_each(|page| restore_page(&mut world, &[3 * page + 1, 3 * page + 2], 0));
    finish_restore(&mut world, 30);
    world.answer_pages(0);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 3/0");
    assert_eq!((world.shards[0].1.pages.given, world.shards[0].1.pages.len()), (4, 0), "the last two pages are read");
    let dead = limit().with("x-dead-letter-exchange", Value::text("")).expect("short");
    let dead = dead.with("x-dead-letter-routing-key", Value::text("dead")).expect("short");
    let (mut world, client) = world_with(1_000, &dead);
    crate::declare(&mut world, client, "dead");
    (0..10).for_each(|page| restore_page(&mut world, &[3 * page + 1, 3 * page + 2], 0));
    finish_restore(&mut world, 30);
    world.answer_pages(0);
    world.sent(client);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 3/0");
    assert_eq!(count(&mut world, client, "dead"), "declare-ok dead 17/0");
}

#[test]
fn a_restored_message_that_was_returned_keeps_its_count() {
    let limit = Table::new().with("x-delivery-limit", Value::I32(3)).expect("short");
    let limit = limit.with("x-queue-type", Value::text("quorum")).expect("short");
    let (mut world, client) = world_with(1_000, &limit);
    restore_page(&mut world, &[1, 2], 0);
    finish_restore(&mut world, 3);
    world.command(client, basic::Get { queue: short("q"), no_ack: false });
    let (broker, recorder) = &mut world.shards[0];
    let (first, mut messages) = recorder.pages.answer(uid(1)).expect("asked");
    messages[0].times_returned = 3;
    messages[0].redelivered = true;
    broker.paged_in(uid(1), first, messages, recorder);
    world.exchange_batches();
    assert!(world.sent(client).contains("! (1 left)"), "it was handed out before");
    let nack = |tag| basic::Nack { delivery_tag: wire::DeliveryTag(tag), multiple: false, requeue: true };
    world.command(client, nack(1));
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 1/0", "the fourth time is one too many");
}

#[test]
fn a_purge_and_a_deletion_drop_pages_unread() {
    let (mut world, client) = world_with(20, &Table::new());
    publish(&mut world, client, 0..300, &persistent());
    publish(&mut world, client, 300..600, &Properties::default());
    world.command(client, queue::Purge { queue: short("q"), no_wait: false });
    assert_eq!(world.sent(client), "", "it is not durable");
    world.make_durable(0);
    assert_eq!(world.sent(client), "purge-ok 600");
    let pages = &world.shards[0].1.pages;
    assert_eq!((pages.given, pages.len(), census(&world, "pages"), memory_bytes(&world)), (0, 0, 0, 0));
    publish(&mut world, client, 0..300, &persistent());
    crate::declare(&mut world, client, "transient");
    for _ in 0..300 {
        world.publish(client, "", "transient", "x");
    }
    for name in ["q", "transient"] {
        let (queue, if_unused, if_empty, no_wait) = (short(name), false, false, false);
        assert!(world.shards[0].1.pages.len() > 200, "{name} has pages");
        world.command(client, queue::Delete { queue, if_unused, if_empty, no_wait });
    }
    assert!(world.sent(client).ends_with("delete-ok 300 | delete-ok 300"));
    let pages = &world.shards[0].1.pages;
    assert_eq!((pages.given, pages.len(), census(&world, "pages"), memory_bytes(&world)), (0, 0, 0, 0));
}
