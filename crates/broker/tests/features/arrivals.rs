//! From where and when a message arrived in its queue: dead letters and messages of transactions arrive anew.

use super::*;

#[test]
fn a_dead_letter_comes_from_the_exchange_that_it_was_sent_to() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "dead", &[]);
        let (queue, exchange, routing_key, arguments) =
            (short("dead"), short("amq.fanout"), short(""), TableRef::EMPTY);
        world.command(owner, queue::Bind { queue, exchange, routing_key, no_wait: true, arguments });
        let letters = [("x-dead-letter-exchange", Value::text("amq.fanout")), ("x-max-length", Value::I32(0))];
        declare(world, owner, "kept-key", &letters);
        let key = ("x-dead-letter-routing-key", Value::text("new"));
        declare(world, owner, "new-key", &[letters[0].clone(), letters[1].clone(), key]);
        for name in ["kept-key", "new-key"] {
            world.publish(publisher, "", name, name);
        }
        let taken = [(); 2].map(|()| get(world, owner, "dead"));
        assert_eq!(taken, ["got#1=kept-key (1 left)", "got#2=new-key (0 left)"]);
        assert_eq!(world.shards[owner.0].1.origins, ["amq.fanout/kept-key", "amq.fanout/new"]);
    });
}

#[test]
fn a_dead_letter_expires_by_its_time_in_its_own_queue() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "dead", &[("x-message-ttl", Value::I32(1_000))]);
        declare(world, owner, "q", &to_dead(&[("x-message-ttl", Value::I32(900))]));
        world.publish(publisher, "", "q", "a");
        world.advance(900);
        world.advance(999);
        assert_eq!(counts(world, owner, "dead"), "declare-ok dead 1/0");
        world.advance(1);
        assert_eq!(counts(world, owner, "dead"), "declare-ok dead 0/0");
    });
}

#[test]
fn a_message_of_a_transaction_expires_by_its_time_since_the_commit() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[("x-message-ttl", Value::I32(1_000))]);
        world.command(publisher, tx::Select {});
        world.publish(publisher, "", "q", "a");
        world.advance(900);
        world.command(publisher, tx::Commit {});
        world.advance(999);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        world.advance(1);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0");
    });
}
