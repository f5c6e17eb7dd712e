//! Requests for pages: when they are made, who waits for them, and what becomes of an answer that nobody wants.

use super::*;
use proptest::prelude::*;

fn asked(world: &BrokerWorld) -> usize {
    world.shards[0].1.pages.asked(uid(1))
}

fn get(world: &mut BrokerWorld, at: WorldConnection) -> Vec<usize> {
    world.command(at, basic::Get { queue: short("q"), no_ack: true });
    delivered(&world.sent(at))
}

/// A queue all of whose messages are on pages.
fn world_of_pages(messages: usize) -> (BrokerWorld, WorldConnection) {
    let (mut world, client) = world_with(16, &Table::new());
    world.switch_paging_on(1);
    publish(&mut world, client, 0..messages, &Properties::default());
    assert_eq!(world.shards[0].1.pages.len(), messages);
    (world, client)
}

/// More queues than may ask at the same time, each with a message of a mebibyte on a page.
fn world_of_large_pages() -> (BrokerWorld, WorldConnection, Vec<String>) {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_paging_on(1);
    let client = world.connect(0, 1);
    let names: Vec<String> = (0..20).map(|queue| format!("q{queue}")).collect();
    for name in &names {
        crate::declare(&mut world, client, name);
        world.publish(client, "", name, &"x".repeat(1 << 20));
    }
    (world, client, names)
}

#[test]
fn a_get_waits_for_its_message_and_others_behind_it() {
    let (mut world, client) = world_of_pages(3);
    let other = world.connect(0, 2);
    for at in [client, other] {
        world.command(at, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(at), "", "neither a message nor that there is none");
        assert!(!world.shards[0].0.may_read(at.1), "its next command waits");
    }
    assert!(world.answer_page(0));
    assert_eq!(delivered(&world.sent(client)), [0]);
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(other)), [1]);
    assert!([client, other].iter().all(|at| world.shards[0].0.may_read(at.1)));
    assert_eq!(census(&world, "requests for pages"), 0);
}

#[test]
fn a_get_that_waits_ends_with_a_purge_and_with_its_queue() {
    for deletes in [false, true] {
        let (mut world, client) = world_of_pages(3);
        let other = world.connect(0, 2);
        world.command(other, basic::Get { queue: short("q"), no_ack: true });
        if deletes {
            let (queue, if_unused, if_empty, no_wait) = (short("q"), false, false, false);
            world.command(client, queue::Delete { queue, if_unused, if_empty, no_wait });
        } else {
            world.command(client, queue::Purge { queue: short("q"), no_wait: false });
        }
        assert_eq!(world.sent(other), "basic.get-empty");
        world.answer_pages(0);
        assert_eq!((world.sent(other).as_str(), census(&world, "requests for pages")), ("", 0), "it is answered once");
    }
}

#[test]
fn the_message_of_a_client_that_has_left_returns() {
    let (mut world, client) = world_of_pages(2);
    let other = world.connect(0, 2);
    world.command(other, basic::Get { queue: short("q"), no_ack: false });
    world.disconnect(other);
    world.answer_pages(0);
    assert_eq!(get(&mut world, client), [0]);
}

#[test]
fn answers_for_a_queue_that_is_gone_or_purged_are_ignored() {
    for deletes in [false, true] {
        let (mut world, client) = world_of_pages(3);
        consume(&mut world, client, "q", "c", true);
        assert!(asked(&world) > 0);
        if deletes {
            let (queue, if_unused, if_empty, no_wait) = (short("q"), false, false, false);
            world.command(client, queue::Delete { queue, if_unused, if_empty, no_wait });
            world.sent(client);
            declare_durable(&mut world, client, "q", &Table::new());
        } else {
            world.command(client, queue::Purge { queue: short("q"), no_wait: false });
        }
        world.sent(client);
        publish(&mut world, client, 7..8, &Properties::default());
        world.answer_pages(0);
        if deletes {
            consume(&mut world, client, "q", "d", true);
            world.answer_pages(0);
        }
        assert_eq!(delivered(&world.sent(client)), [7]);
        assert_eq!((census(&world, "pages"), census(&world, "requests for pages")), (0, 0));
    }
}

#[test]
fn an_answer_that_was_not_asked_for_is_ignored() {
    let (mut world, client) = world_of_pages(3);
    let (broker, recorder) = &mut world.shards[0];
    broker.paged_in(uid(1), queues::QueuePosition(0), Vec::new(), recorder);
    broker.paged_in(uid(9), queues::QueuePosition(0), Vec::new(), recorder);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 3/0");
}

#[test]
fn the_next_page_is_asked_for_when_half_of_the_front_is_used_and_two_are_under_way_at_most() {
    // Sixteen messages are a sixteenth of the threshold.
    let (mut world, client) = world_with(256, &Table::new());
    publish(&mut world, client, 0..1_000, &Properties::default());
    let mut taken = 0;
    while asked(&world) == 0 {
        assert_eq!(get(&mut world, client), [taken]);
        taken += 1;
    }
    assert!((6..=10).contains(&taken), "{taken} of about 16 were taken");
    while asked(&world) < 2 {
        assert_eq!(get(&mut world, client), [taken]);
        taken += 1;
        assert!(taken < 20, "{taken}");
    }
    world.command(client, basic::Get { queue: short("q"), no_ack: true });
    assert_eq!((asked(&world), world.sent(client).as_str()), (2, ""));
    assert!(world.answer_page(0));
    assert_eq!(delivered(&world.sent(client)), [taken]);
    assert!(asked(&world) <= 2);
}

#[test]
fn consumers_take_turns_although_they_wait_for_pages() {
    let (mut world, client) = world_of_pages(20);
    consume(&mut world, client, "q", "c", true);
    consume(&mut world, client, "q", "d", true);
    world.sent(client);
    world.answer_pages(0);
    let sent = world.sent(client);
    let tags: String = sent.split(" | ").map(|event| &event[..1]).collect();
    assert_eq!(tags, "cd".repeat(10));
    assert_eq!(delivered(&sent), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_message_of_a_higher_priority_passes_those_on_pages() {
    let levels = Table::new().with("x-max-priority", wire::Value::I32(9)).expect("short");
    let (mut world, client) = world_with(16, &levels);
    world.switch_paging_on(1);
    publish(&mut world, client, 0..3, &Properties::default());
    consume(&mut world, client, "q", "c", true);
    world.sent(client);
    world.switch_paging_on(1 << 20);
    publish(&mut world, client, 7..8, &Properties { priority: Some(5), ..Properties::default() });
    assert_eq!(delivered(&world.sent(client)), [7], "it does not wait for the page");
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(client)), [0, 1, 2]);
}

#[test]
fn queues_ask_in_turn_when_much_is_asked_for() {
    const QUEUES: usize = 40;
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_paging_on(1);
    let client = world.connect(0, 1);
    let names: Vec<String> = (0..QUEUES).map(|queue| format!("q{queue}")).collect();
    for name in &names {
        crate::declare(&mut world, client, name);
        world.publish(client, "", name, &"x".repeat(1 << 20));
        world.publish(client, "", name, &"y".repeat(1 << 20));
    }
    world.sent(client);
    names.iter().for_each(|name| consume(&mut world, client, name, name, true));
    world.sent(client);
    let asking = world.shards[0].1.pages.asking().len();
    assert!((8..=16).contains(&asking), "{asking} have asked for a mebibyte or two");
    // Those that have asked may leave; the others have their turns then.
    for name in names.iter().take(10) {
        let (queue, if_unused, if_empty, no_wait) = (short(name), false, false, false);
        world.command(client, queue::Delete { queue, if_unused, if_empty, no_wait });
    }
    world.sent(client);
    world.answer_pages(3);
    let sent = world.sent(client);
    assert_eq!(sent.split(" | ").count(), 2 * (QUEUES - 10));
    assert_eq!((census(&world, "pages"), census(&world, "requests for pages")), (0, 0));
}

#[test]
fn what_nobody_wants_any_more_when_its_queue_may_ask_for_it_expires() {
    let (mut world, client, names) = world_of_large_pages();
    let expires = Table::new().with("x-message-ttl", wire::Value::I32(1_000)).expect("short");
    declare_durable(&mut world, client, "expires", &expires);
    world.publish(client, "", "expires", &"y".repeat(1 << 20));
    world.advance(500);
    world.publish(client, "", "expires", &"z".repeat(1 << 20));
    names.iter().for_each(|name| consume(&mut world, client, name, name, true));
    consume(&mut world, client, "expires", "c", true);
    world.sent(client);
    // Its first message expires while it waits for its turn to ask. Nobody wants the second one any more when that comes.
    world.advance(600);
    world.command(client, basic::Cancel { consumer_tag: short("c"), no_wait: true });
    world.answer_pages(0);
    assert_eq!(world.sent(client).split(" | ").count(), names.len());
    assert_eq!(count(&mut world, client, "expires"), "declare-ok expires 1/0");
    world.advance(500);
    world.answer_pages(0);
    assert_eq!(count(&mut world, client, "expires"), "declare-ok expires 0/0");
}

#[test]
fn consumers_get_what_is_behind_a_page_that_is_dropped_before_its_queue_may_ask_for_it() {
    let (mut world, client, names) = world_of_large_pages();
    let one = Table::new().with("x-max-length", wire::Value::I32(1)).expect("short");
    declare_durable(&mut world, client, "limited", &one);
    world.publish(client, "", "limited", &"y".repeat(1 << 20));
    names.iter().for_each(|name| consume(&mut world, client, name, name, true));
    consume(&mut world, client, "limited", "c", true);
    world.sent(client);
    assert!(census(&world, "requests for pages") > 1, "the last queues wait for their turns");
    world.switch_paging_on(1 << 30);
    // The first is too many once, but not the whole page: that is wanted. Then it is.
    world.publish(client, "", "limited", "too many");
    assert_eq!(world.sent(client), "");
    world.publish(client, "", "limited", "in memory");
    let sent = world.sent(client);
    assert!(sent.contains("in memory"), "{sent}");
    world.answer_pages(0);
    assert_eq!(world.sent(client).split(" | ").count(), names.len());
}

proptest! {
    /// Publishes, acknowledgements and answers in any order: everything is delivered once and in order.
    #[test]
    fn answers_may_come_at_any_time(
        steps in prop::collection::vec((0..8_u8, 1..20_usize, any::<bool>()), 1..200),
        threshold in 1..60_u64,
        prefetch_count in 1..30_u16,
    ) {
        let (mut world, client) = world_with(threshold, &Table::new());
        prefetch(&mut world, client, prefetch_count, false);
        consume(&mut world, client, "q", "c", false);
        let (mut published, mut numbers) = (0, Vec::new());
        for (step, count, is_persistent) in steps {
            let properties = if is_persistent { persistent() } else { Properties::default() };
            match step {
                0..3 => {
                    publish(&mut world, client, published..published + count, &properties);
                    published += count;
                }
                3..6 => _ = world.answer_page(0),
                _ => {
                    numbers.extend(delivered(&world.sent(client)));
                    if !numbers.is_empty() {
                        ack(&mut world, client, numbers.len() as u64, true);
                    }
                }
            }
        }
        while numbers.len() < published {
            world.answer_pages(0);
            let more = delivered(&world.sent(client));
            prop_assert!(!more.is_empty(), "{} of {published}", numbers.len());
            numbers.extend(more);
            ack(&mut world, client, numbers.len() as u64, true);
        }
        prop_assert_eq!(numbers, (0..published).collect::<Vec<_>>());
        prop_assert_eq!((world.shards[0].1.pages.len(), census(&world, "pages"), world.live(0)), (0, 0, String::new()));
    }
}
