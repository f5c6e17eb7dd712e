//! Policies over living queues and exchanges, and what virtual hosts may hold.

use super::*;
use catalog::{ApplyTo, Definition, Policy, VhostLimits};
use wire::DeliveryTag;
use wire::method::exchange;

/// `name pattern priority key=value …`, over queues and exchanges; `!` in front makes it the operator's own.
pub(super) fn policies(world: &mut BrokerWorld, written: &[&str]) {
    let read = |text: &str| {
        let mut words = text.split(' ');
        let mut next = || words.next().expect("name, pattern, priority");
        let (name, pattern, priority) = (next(), next(), next());
        let definition = words.fold(Table::default(), |table, word| {
            let (key, value) = word.split_once('=').expect("key=value");
            let value = value.parse().map_or_else(|_| Value::text(value), Value::I64);
            table.with(key, value).expect("a short key")
        });
        Policy {
            vhost: "/".into(),
            name: name.into(),
            pattern: pattern.into(),
            apply_to: ApplyTo::All,
            priority: priority.parse().expect("a number"),
            definition,
        }
    };
    let (operators, others): (Vec<&str>, Vec<&str>) = written.iter().partition(|text| text.starts_with('!'));
    let policies = others.into_iter().map(read).collect();
    let operator_policies = operators.into_iter().map(|text| read(&text[1..])).collect();
    operate(world, Definition::SetPolicies { policies, operator_policies });
}

fn operate(world: &mut BrokerWorld, definition: Definition) {
    let (broker, recorder) = &mut world.shards[0];
    broker.define_as_operator(definition, recorder).expect("it is taken");
    world.exchange_batches();
}

fn limit_bytes(world: &mut BrokerWorld, queue_bytes_max: Option<u64>) {
    let limits = VhostLimits { queue_bytes_max, ..VhostLimits::default() };
    operate(world, Definition::SetVhostLimits { vhost: "/".into(), limits });
}

/// What waits in the one virtual host, as its shards count it.
fn counted(world: &BrokerWorld) -> u64 {
    world.shards.iter().flat_map(|(broker, _)| broker.vhost_quotas()).map(|(_, bytes, _)| bytes).sum()
}

#[test]
fn a_policy_applies_to_a_live_queue_until_it_is_removed() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[]);
        declare(world, owner, "other", &[]);
        world.publish(publisher, "", "q", "a");
        world.publish(publisher, "", "other", "a");
        world.advance(150);
        policies(world, &["ttl ^q$ 0 message-ttl=200"]);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        world.advance(49);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        world.advance(1);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0", "what waited before expires by the time it came");
        assert_eq!(counts(world, owner, "other"), "declare-ok other 1/0");
        // It is no argument.
        declare(world, publisher, "q", &[]);
        world.publish(publisher, "", "q", "b");
        world.advance(100);
        policies(world, &[]);
        world.advance(1_000);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        // What is declared later is under it at once, and a lesser argument counts.
        policies(world, &["ttl ^q 0 message-ttl=200"]);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0", "it has waited too long for this one");
        declare(world, owner, "q2", &[("x-message-ttl", Value::I32(100))]);
        declare(world, owner, "q3", &[("x-message-ttl", Value::I32(300))]);
        world.publish(publisher, "", "q2", "a");
        world.publish(publisher, "", "q3", "a");
        world.advance(100);
        assert_eq!(counts(world, owner, "q2"), "declare-ok q2 0/0");
        assert_eq!(counts(world, owner, "q3"), "declare-ok q3 1/0");
        world.advance(100);
        assert_eq!(counts(world, owner, "q3"), "declare-ok q3 0/0");
    });
}

#[test]
fn the_highest_policy_applies_with_the_lesser_limit_of_the_operator() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[]);
        let fill = |world: &mut BrokerWorld| {
            for _ in 0..9 {
                world.publish(publisher, "", "q", "x");
            }
            counts(world, owner, "q")
        };
        for (written, expect) in [
            (&["low q 1 max-length=2", "high q 2 max-length=5"][..], "5/0"),
            (&["b q 1 max-length=2", "a q 1 max-length=3"], "3/0"),
            (&["low q 1 max-length=2", "high ^other 2 max-length=5"], "2/0"),
            (&["low q 1 max-length=6", "!own q 0 max-length=4"], "4/0"),
            (&["low q 1 max-length=3", "!own q 0 max-length=4"], "3/0"),
            (&["!own q 0 max-length=1"], "1/0"),
            // What only other types of queues know makes a policy one for them alone, as in RabbitMQ.
            (&["low q 1 max-length=7", "high q 2 max-length=5 delivery-limit=3"], "7/0"),
        ] {
            policies(world, written);
            assert_eq!(fill(world), format!("declare-ok q {expect}"), "{written:?}");
        }
    });
}

#[test]
fn dead_letters_and_refusals_come_and_go_with_a_policy() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        declare(world, owner, "dead", &[]);
        policies(world, &["letters ^q$ 0 dead-letter-exchange= dead-letter-routing-key=dead max-length=1"]);
        world.publish(publisher, "", "q", "a");
        world.publish(publisher, "", "q", "b");
        assert_eq!(get(world, owner, "dead"), "got#1=a (0 left)");
        // On every shard it is known that rejected messages have a target.
        world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
        assert_eq!(world.sent(consumer), "got#1=b (0 left)");
        world.command(consumer, basic::Reject { delivery_tag: DeliveryTag(1), requeue: false });
        assert_eq!(get(world, owner, "dead"), "got#2=b (0 left)");
        policies(world, &["full ^q$ 0 max-length=1 overflow=reject-publish"]);
        world.command(publisher, confirm::Select { no_wait: false });
        assert_eq!(world.sent(publisher), "confirm.select-ok");
        world.publish(publisher, "", "q", "c");
        world.publish(publisher, "", "q", "d");
        assert_eq!(world.sent(publisher), "ack 1 | nack 2");
        policies(world, &[]);
        world.publish(publisher, "", "q", "e");
        assert_eq!(counts(world, owner, "q"), "declare-ok q 2/0");
        assert_eq!(counts(world, owner, "dead"), "declare-ok dead 0/0");
    });
}

#[test]
fn a_queue_expires_by_a_policy_counted_from_when_it_was_set() {
    on_one_and_on_three(|world, owner, _, _| {
        declare(world, owner, "q", &[]);
        world.advance(500);
        policies(world, &["gone q 0 expires=100"]);
        world.advance(99);
        let names = |world: &BrokerWorld| world.shards[0].0.catalog().queues().count();
        assert_eq!(names(world), 1);
        world.advance(1);
        assert_eq!(names(world), 0);
    });
}

#[test]
fn an_exchange_has_the_alternate_of_its_argument_before_that_of_a_policy() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "lost", &[]);
        let exchange = |world: &mut BrokerWorld, name: &str, arguments: Table| {
            let bytes = arguments.to_bytes();
            let (exchange, kind, arguments) = (short(name), short("fanout"), TableRef::new(&bytes));
            let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, false);
            world.command(
                owner,
                exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments },
            );
        };
        exchange(world, "x", Table::default());
        exchange(world, "rest", Table::default());
        let own = Table::default().with("alternate-exchange", Value::text("amq.direct")).expect("short");
        exchange(world, "own", own);
        let (queue, exchange, routing_key, arguments) = (short("lost"), short("rest"), short(""), TableRef::EMPTY);
        world.command(owner, queue::Bind { queue, exchange, routing_key, no_wait: false, arguments });
        world.sent(owner);
        let left = |world: &mut BrokerWorld, exchange: &str| {
            world.publish(publisher, exchange, "k", "m");
            let found = counts(world, owner, "lost");
            world.command(owner, queue::Purge { queue: short("lost"), no_wait: true });
            found
        };
        assert_eq!(left(world, "x"), "declare-ok lost 0/0");
        policies(world, &["rest ^(x|own|amq.fanout)$ 0 alternate-exchange=rest"]);
        assert_eq!(left(world, "x"), "declare-ok lost 1/0");
        assert_eq!(left(world, "amq.fanout"), "declare-ok lost 1/0");
        assert_eq!(left(world, "own"), "declare-ok lost 0/0");
        policies(world, &[]);
        assert_eq!(left(world, "x"), "declare-ok lost 0/0");
    });
}

#[test]
fn waiting_bytes_are_counted_in_virtual_hosts_with_a_quota() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "a", &[]);
        declare(world, owner, "b", &[("x-max-length", Value::I32(1))]);
        world.publish(publisher, "", "a", "before the limit");
        assert_eq!(counted(world), 0);
        limit_bytes(world, Some(1_000));
        let one = counted(world);
        assert!(one > 16, "{one}");
        for _ in 0..3 {
            world.publish(publisher, "", "a", "before the limit");
            world.publish(publisher, "", "b", "before the limit");
        }
        assert_eq!(counted(world), 5 * one);
        get(world, owner, "a");
        assert_eq!(counted(world), 4 * one);
        // What is out under an acknowledgement waits no more, until it comes back.
        world.command(consumer, basic::Get { queue: short("a"), no_ack: false });
        assert_eq!(counted(world), 3 * one);
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true });
        assert_eq!(counted(world), 4 * one);
        world.command(owner, queue::Purge { queue: short("a"), no_wait: true });
        assert_eq!(counted(world), one);
        world.command(owner, queue::Delete { queue: short("b"), if_unused: false, if_empty: false, no_wait: true });
        assert_eq!(counted(world), 0);
        world.publish(publisher, "", "a", "x");
        limit_bytes(world, None);
        assert_eq!(world.shards.iter().flat_map(|(broker, _)| broker.vhost_quotas()).count(), 0);
    });
}

#[test]
fn publishers_of_a_full_virtual_host_are_blocked_and_notified() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        limit_bytes(world, Some(100));
        assert!(world.publish(publisher, "", "q", "a"));
        let set_full = |world: &mut BrokerWorld, full: bool| {
            let vhost = world.shards[0].0.catalog().vhost_by_name("/").expect("the default vhost");
            for (broker, recorder) in &mut world.shards {
                broker.set_vhost_full(vhost, full, recorder);
            }
        };
        set_full(world, true);
        assert_eq!(world.sent(publisher), "0:blocked: virtual host is full");
        assert!(!world.shards[publisher.0].0.may_read(publisher.1));
        // A connection that has not published yet is blocked with its first message.
        assert_eq!((world.sent(owner), world.sent(consumer)), (String::new(), String::new()));
        assert!(!world.publish(consumer, "", "q", "b"));
        assert_eq!(world.sent(consumer), "0:blocked: virtual host is full");
        assert_eq!(get(world, owner, "q"), "got#1=a (1 left)", "others go on");
        set_full(world, false);
        assert_eq!(
            (world.sent(publisher), world.sent(consumer)),
            [(); 2].map(|()| "0:connection.unblocked".to_owned()).into()
        );
        set_full(world, true);
        limit_bytes(world, None);
        assert!(world.shards[publisher.0].0.may_read(publisher.1), "without a limit nothing is full");
    });
}
