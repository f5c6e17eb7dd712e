//! Two machines, each with one of these tests: `tests/lab/run` joins two guests by a cable and switches the first off in
//! the middle of a rendezvous, which no event tells the second of.

use super::ends::{CardLink, CardPort, PATIENCE, census, connecting, drive, lab, listening, now, pattern, settings};
use link::Link;
use slab::{Gather, Pool, PoolOptions};
use std::io::Write as _;
use verbs::card;

const PORT: u16 = 7_472;
const PEER: &str = "CARD_HOSTS_PEER";
const BODY_BYTES: usize = 16 << 20;

/// The lab's address, for the machine whose test this is: only one of them knows of a peer, and elsewhere neither has
/// anything to do (`tests/lab/run` leaves them out there).
fn host(asks: bool) -> Option<String> {
    let ip = lab()?;
    (std::env::var_os(PEER).is_some() == asks).then(|| format!("{ip}:{PORT}"))
}

#[test]
fn one_listens() {
    let Some(address) = host(false) else { return };
    let port = listening(&address, &settings());
    let pool = Pool::new(PoolOptions::default());
    let body = pool.copy(&pattern(BODY_BYTES, 5));
    let mut far: Option<CardLink> = None;
    let mut gather = Gather::new();
    // Bodies without end, until the machine is switched off.
    drive(&[&port], "this machine was not switched off", || {
        far = far.take().or_else(|| port.accept());
        if let Some(far) = &mut far {
            if gather.is_empty() {
                gather.push(body.clone());
            }
            far.send(&mut gather).expect("the connection stands");
        }
        false
    });
}

#[test]
fn one_asks() {
    let Some(_) = host(true) else { return };
    let address = format!("{}:{PORT}", std::env::var(PEER).expect("a peer"));
    let pool = Pool::new(PoolOptions::default());
    let port = found(&address);
    let before = census(&port);
    let mut near = connected(&port, &address);
    println!("two ports are connected");
    std::io::stdout().flush().expect("standard output");
    let begun = now();
    let (mut end, mut is_lent) = (None, false);
    drive(&[&port], "the peer does not go", || {
        if !is_lent {
            is_lent = near.lend(pool.block(BODY_BYTES), 0..BODY_BYTES).is_ok();
        }
        end = near.receive(&mut [], &mut []).err().map(|error| error.to_string());
        is_lent &= near.take_filled().is_none();
        end.is_some()
    });
    let (end, took) = (end.expect("an error"), now() - begun);
    println!("{end}, after {took:?}");
    assert!(end.contains("the peer did not acknowledge in time"), "{end}");
    drop(near);
    drive(&[&port], "something is not given back", || census(&port) == before);
}

/// A port towards the other machine, once there is a way to it.
fn found(address: &str) -> CardPort {
    let deadline = now() + PATIENCE;
    while let Err(error) = card::open_towards(address) {
        assert!(now() < deadline, "{error}");
    }
    connecting(address, &settings())
}

/// A link to it, once it listens; its first message has come.
fn connected(port: &CardPort, address: &str) -> CardLink {
    let deadline = now() + PATIENCE;
    loop {
        let mut near = port.connect(address, None).expect("there is room");
        let mut failure = None;
        drive(&[port], "no answer", || {
            failure = near.receive(&mut [], &mut []).err();
            failure.is_some() || port.counters().messages_received > 0
        });
        match failure {
            None => return near,
            Some(error) => assert!(now() < deadline, "nobody listens: {error}"),
        }
    }
}
