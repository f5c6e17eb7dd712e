//! Attacks by policies: each queue is held against all of them.

use crate::attacker::announce_to;
use crate::attacks::{carry_out, connect, declare};
use crate::broker::{CONFIGURATION, LimitedBroker};
use crate::waits::{beside, now};
use crate::{PATIENCE, size};
use client::{Client, QueueOptions};
use splitmix::SplitMix64;
use wire::Table;

/// Adds to the configuration of a broker, has it read that again, and waits until it has.
fn reconfigure(broker: &LimitedBroker, more: &str) {
    std::fs::write(&broker.configuration, format!("{CONFIGURATION}{more}")).expect("a file");
    let pid = rustix::process::Pid::from_child(&broker.child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("it runs");
    broker.await_line("the configuration was reloaded");
}

#[test]
fn thousands_of_policies_are_read_again() {
    beside("many policies", |broker| {
        let mut attacker = connect(broker);
        let queues = size(500, 5_000);
        carry_out(&mut attacker, (0..queues).map(|number| declare(&format!("p{number}"), &Table::new())));
        let policy = |number: usize| {
            format!(
                "[[policy]]\nvhost = \"/\"\nname = \"p{number}\"\npattern = \"^(p|policy){number}(\\\\.[a-z0-9_]{{1,20}})*$\"\n\
                 apply_to = \"queues\"\npriority = {number}\ndefinition = {{ max-length = 1000 }}\n"
            )
        };
        reconfigure(broker, &(0..size(200, 4_096)).map(policy).collect::<String>());
        // Behind the new rules.
        carry_out(&mut attacker, [declare("last", &Table::new())]);
    });
}

/// A name of 252 random letters of two kinds, another for each number.
fn long_name(number: usize) -> String {
    let mut random = SplitMix64::new(number as u64);
    (0..4).map(|_| format!("{:063b}", random.next_u64() >> 1)).collect()
}

/// Waits until the policy of one message counts for a queue, in which there are two before.
fn await_policy(broker: &LimitedBroker, queue: &str) {
    let mut client = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
    let channel = client.open_channel().expect("a channel");
    let (passive, began) = (QueueOptions { passive: true, ..QueueOptions::default() }, now());
    while client.declare_queue(channel, queue, &passive).expect("it is there").messages != 1 {
        assert!(began.elapsed() < PATIENCE, "the policy does not count for the last queue");
    }
}

/// Each letter of such a name brings such a pattern to a state in which it has never been.
#[test]
fn costly_patterns_are_held_against_long_names() {
    let policy = |number: usize, pattern: &str| {
        format!(
            "[[policy]]\nvhost = \"/\"\nname = \"p{number}\"\npattern = \"{pattern}\"\n\
             apply_to = \"queues\"\npriority = {number}\ndefinition = {{ max-length = 1 }}\n"
        )
    };
    let costly = (1..=6).map(|number| policy(number, &format!("[01]*1[01]{{{}}}c", 200 + number)));
    let policies: String = costly.chain([policy(0, "")]).collect();
    beside("costly patterns of policies", |broker| {
        let mut attacker = connect(broker);
        let queues = size(100, 20_000);
        carry_out(&mut attacker, (0..queues).map(|number| declare(&long_name(number), &Table::new())));
        let last = long_name(queues - 1);
        carry_out(&mut attacker, [announce_to(1, ("", &last), &[0, 0], 0), announce_to(1, ("", &last), &[0, 0], 0)]);
        reconfigure(broker, &policies);
        await_policy(broker, &last);
    });
}
