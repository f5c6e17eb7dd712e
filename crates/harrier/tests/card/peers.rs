//! Clients in their own processes, which other tests kill. Run as tests they do nothing.

use super::fixture::{MIB, body, connect, consume, next};
use client::Publish;
use std::io::Write as _;

/// The broker's address; not set when this runs as a test.
pub const URL: &str = "CARD_PEER_URL";
pub const QUEUE: &str = "deaths";
/// Unconfirmed bodies of a publisher, some of which are being read.
pub const WINDOW: u64 = 8;

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("standard output");
}

#[test]
fn publishes_without_end() {
    let Ok(url) = std::env::var(URL) else { return };
    let (mut client, channel) = connect(&url, QUEUE);
    client.confirm_select(channel).expect("confirms");
    for number in 0.. {
        client.publish(channel, &Publish::to("", QUEUE), &body(number, MIB)).expect("published");
        client.flush().expect("sent");
        assert_eq!(client.wait_confirms(channel, WINDOW - 1).expect("confirmed"), 0);
        say(&format!("confirmed {}", (number as u64 + 2).saturating_sub(WINDOW)));
    }
}

#[test]
fn consumes_without_end_and_acknowledges_nothing() {
    let Ok(url) = std::env::var(URL) else { return };
    let (mut client, channel) = connect(&url, QUEUE);
    consume(&mut client, channel, QUEUE, false);
    loop {
        next(&mut client, "a message");
        say("got one");
    }
}
