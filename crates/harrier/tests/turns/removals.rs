//! Attacks by what is removed at once, and draws much else with it.

use crate::attacker::{Attacker, method_frame, short};
use crate::attacks::{bind, carry_out, connect, declare, declare_exchange};
use crate::waits::{beside, now};
use crate::{PATIENCE, size};
use wire::method::{exchange, queue};
use wire::{Table, TableRef};

/// Definitions of which a client sends so many before it waits.
const PART: usize = 10_000;

/// Sends what a function makes of each number.
fn carry_out_each(attacker: &mut Attacker, count: usize, one: impl Fn(usize) -> Vec<Vec<u8>>) {
    for first in (0..count).step_by(PART) {
        carry_out(attacker, (first..count.min(first + PART)).flat_map(&one));
    }
}

fn delete_queue(name: &str) -> Vec<u8> {
    let delete = queue::Delete { queue: short(name), if_unused: false, if_empty: false, no_wait: true };
    method_frame(1, delete.into())
}

#[test]
fn an_exchange_with_very_many_bindings_is_deleted() {
    beside("many bindings", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("d", "direct"), declare("q", &Table::new())]);
        let bindings = size(30_000, 1_000_000);
        carry_out_each(&mut attacker, bindings, |number| vec![bind("q", "d", &number.to_string(), &Table::new())]);
        let delete = exchange::Delete { exchange: short("d"), if_unused: false, no_wait: true };
        carry_out(&mut attacker, [method_frame(1, delete.into())]);
    });
}

#[test]
fn a_queue_with_very_many_bindings_is_deleted() {
    beside("many bindings of a queue", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("d", "direct"), declare("q", &Table::new())]);
        let bindings = size(30_000, 1_000_000);
        carry_out_each(&mut attacker, bindings, |number| vec![bind("q", "d", &number.to_string(), &Table::new())]);
        carry_out(&mut attacker, [delete_queue("q")]);
    });
}

#[test]
fn a_chain_of_exchanges_that_go_with_their_last_binding() {
    let declare_link = |number: usize| {
        let (passive, durable, auto_delete, internal, no_wait) = (false, false, true, false, true);
        let name = format!("c{number}");
        let (exchange, kind, arguments) = (short(&name), short("fanout"), TableRef::EMPTY);
        let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
        method_frame(1, declare.into())
    };
    let bind_to_last = |number: usize| {
        let (source, destination) = (format!("c{number}"), format!("c{}", number - 1));
        let (destination, source, routing_key) = (short(&destination), short(&source), short(""));
        let bind = exchange::Bind { destination, source, routing_key, no_wait: true, arguments: TableRef::EMPTY };
        method_frame(1, bind.into())
    };
    beside("a chain of exchanges that go", |broker| {
        let mut attacker = connect(broker);
        let links = size(10_000, 300_000);
        carry_out(&mut attacker, [declare("q", &Table::new()), declare_link(0), bind("q", "c0", "", &Table::new())]);
        carry_out_each(&mut attacker, links, |number| vec![declare_link(number + 1), bind_to_last(number + 1)]);
        // Each goes with the one that it was bound to.
        carry_out(&mut attacker, [delete_queue("q")]);
        let name = format!("c{links}");
        let (exchange, kind) = (short(&name), short("fanout"));
        let (passive, durable, auto_delete, internal, no_wait) = (true, false, true, false, false);
        let ask = exchange::Declare {
            exchange,
            kind,
            passive,
            durable,
            auto_delete,
            internal,
            no_wait,
            arguments: TableRef::EMPTY,
        };
        let ask = method_frame(1, ask.into());
        let began = now();
        // Other work goes between its links.
        loop {
            attacker.send(&ask).expect("sent");
            let reply = attacker.await_any(&["exchange.declare-ok", "channel.close"]);
            if reply.as_deref() == Some("channel.close") {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "the last of the chain is still there");
        }
    });
}
