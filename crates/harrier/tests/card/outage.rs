//! The link goes down under load, and comes back. Runs last: see its trap in tests/lab/README.md.

use super::fixture::{CardBroker, PATIENCE, body, connect, fresh, next, now, try_connect};
use client::Publish;
use std::process::Command;
use std::time::Duration;

const BODY_BYTES: usize = 100_000;
/// The device's retries end within this time, on a loaded machine too.
const DETECTION_MAX: Duration = Duration::from_secs(40);

fn set_link(state: &str) {
    let status = Command::new("ip").args(["link", "set", "fab0", state]).status().expect("ip is there");
    assert!(status.success(), "ip link set fab0 {state}");
}

#[test]
fn clients_survive_a_short_outage_or_hear_of_it_and_new_ones_come() {
    let Some(place) = fresh() else { return };
    let broker = CardBroker::start(&place, &[]);
    let (mut client, channel) = connect(&broker.direct(), "q");
    client.confirm_select(channel).expect("confirms");
    super::fixture::consume(&mut client, channel, "q", true);
    let mut turn = |at: usize| {
        client.publish(channel, &Publish::to("", "q"), &body(at, BODY_BYTES))?;
        client.flush()?;
        if at == 20 {
            set_link("down");
            set_link("up");
        }
        client.wait_confirms(channel, 0)?;
        let came = client.next_delivery(PATIENCE)?.map(|came| came.body() == body(at, BODY_BYTES));
        assert_eq!(came, Some(true), "message {at}");
        Ok::<_, client::ClientError>(())
    };
    let begun = now();
    let ended = (0..60).find_map(|at| turn(at).err());
    let took = now() - begun;
    match ended {
        None => println!("it survived"),
        Some(error) => {
            println!("it heard of it: {error}, after {took:?}");
            assert!(took < DETECTION_MAX, "{took:?}");
        }
    }
    drop(client);
    // The kernel needs a moment to restore the route.
    let deadline = now() + PATIENCE;
    while let Err(error) = try_connect(&broker.direct()) {
        assert!(now() < deadline, "{error}");
    }
    let (mut client, channel) = connect(&broker.direct(), "new");
    client.publish(channel, &Publish::to("", "new"), &body(1, BODY_BYTES)).expect("published");
    super::fixture::consume(&mut client, channel, "new", true);
    assert!(next(&mut client, "a message").body() == body(1, BODY_BYTES));
    client.close().expect("an orderly end");
    broker.end();
}
