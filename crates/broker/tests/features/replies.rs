//! Which requests are answered.

use super::*;
use wire::method::{Method, exchange};

/// Every request that may ask for no reply, in an order in which all succeed, and the reply that it gets otherwise.
fn requests(no_wait: bool) -> Vec<(Method<'static>, &'static str)> {
    let (queue, arguments, routing_key) = (short("r"), TableRef::EMPTY, short("key"));
    let (durable, exclusive, auto_delete, internal) = (false, false, false, false);
    let exchange = |name| {
        let (exchange, kind) = (short(name), short("direct"));
        exchange::Declare { exchange, kind, passive: false, durable, auto_delete, internal, no_wait, arguments }
    };
    let declare = queue::Declare { queue, passive: false, durable, exclusive, auto_delete, no_wait, arguments };
    let (destination, source, consumer_tag) = (short("d"), short("s"), short("c"));
    let (no_local, no_ack) = (false, true);
    vec![
        (confirm::Select { no_wait }.into(), "confirm.select-ok"),
        (exchange("s").into(), "exchange.declare-ok"),
        (exchange("d").into(), "exchange.declare-ok"),
        (exchange::Declare { passive: true, ..exchange("d") }.into(), "exchange.declare-ok"),
        (exchange::Bind { destination, source, routing_key, no_wait, arguments }.into(), "exchange.bind-ok"),
        (exchange::Unbind { destination, source, routing_key, no_wait, arguments }.into(), "exchange.unbind-ok"),
        (declare.into(), "declare-ok r 0/0"),
        (declare.into(), "declare-ok r 0/0"),
        (queue::Declare { passive: true, ..declare }.into(), "declare-ok r 0/0"),
        (queue::Bind { queue, exchange: source, routing_key, no_wait, arguments }.into(), "queue.bind-ok"),
        (
            basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments }.into(),
            "consume-ok c",
        ),
        (basic::Cancel { consumer_tag, no_wait }.into(), "cancel-ok c"),
        (basic::Cancel { consumer_tag, no_wait }.into(), "cancel-ok c"),
        (queue::Purge { queue, no_wait }.into(), "purge-ok 0"),
        (queue::Delete { queue, if_unused: false, if_empty: false, no_wait }.into(), "delete-ok 0"),
        (queue::Delete { queue, if_unused: false, if_empty: false, no_wait }.into(), "delete-ok 0"),
        (exchange::Delete { exchange: source, if_unused: false, no_wait }.into(), "exchange.delete-ok"),
    ]
}

#[test]
fn a_request_is_answered_unless_it_asks_for_no_reply() {
    on_one_and_on_three(|world, _, _, client| {
        for (request, reply) in requests(false) {
            world.command(client, request);
            assert_eq!(world.sent(client), reply, "{request:?}");
        }
        world.command(client, exchange::Delete { exchange: short("d"), if_unused: false, no_wait: false });
        world.sent(client);
        for (request, _) in requests(true) {
            world.command(client, request);
            assert_eq!(world.sent(client), "", "{request:?}");
        }
    });
}
