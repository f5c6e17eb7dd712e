//! Many connections, and one body for many of them.

use super::ends::{
    CardLink, CardPort, carry, connected, connecting, drive, fresh, lab, listening, pattern, pinned_bytes, port,
    settings,
};
use link::{Link, ReceiveOutcome};
use slab::{BlockMut, Gather, Pool, PoolOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use verbs::{PortSettings, card};

const HEAD: &[u8] = b"a head of some bytes";
const BODY_BYTES: usize = 200_000;
const CONSUMERS: usize = 32;

/// Receives a head by `receive`, then a body into lent memory.
struct CardBodyReceiver {
    link: CardLink,
    head: Vec<u8>,
    body: Option<BlockMut>,
    is_lent: bool,
}

impl CardBodyReceiver {
    fn new(link: CardLink) -> Self {
        CardBodyReceiver { link, head: Vec::new(), body: None, is_lent: false }
    }

    fn turn(&mut self, pool: &Pool) -> bool {
        let mut scratch = [0; HEAD.len()];
        let room = HEAD.len() - self.head.len();
        if room == 0 && !self.is_lent {
            self.link.lend(pool.block(BODY_BYTES), 0..BODY_BYTES).expect("it takes memory");
            self.is_lent = true;
        }
        match self.link.receive(&mut [], &mut scratch[..room]).expect("the connection stands") {
            ReceiveOutcome::Bytes { bytes, .. } if room > 0 => self.head.extend_from_slice(&scratch[..bytes]),
            ReceiveOutcome::Bytes { .. } => {
                self.body = self.body.take().or_else(|| Some(self.link.take_filled()?.memory));
            }
            ReceiveOutcome::Idle => {}
            ReceiveOutcome::Closed => panic!("nobody closed"),
        }
        self.body.is_some()
    }
}

#[test]
fn one_body_goes_to_32_links_without_a_copy() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let pool = Pool::new(PoolOptions::default());
    let (broker, clients) = (listening(&address, &settings()), connecting(&address, &settings()));
    let body = pool.copy(&pattern(BODY_BYTES, 7));
    let mut receivers = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..CONSUMERS {
        let (near, far) = connected(&clients, &broker, &address);
        let mut gather = Gather::new();
        gather.extend(&pool, HEAD);
        gather.push(body.clone());
        receivers.push(CardBodyReceiver::new(near));
        senders.push((far, gather));
    }
    drive(&[&broker, &clients], "the body is not with everyone", || {
        for (far, gather) in &mut senders {
            if !gather.is_empty() {
                far.send(gather).expect("the connection stands");
            }
        }
        // Each has its turn, also behind one that waits.
        receivers.iter_mut().filter_map(|receiver| (!receiver.turn(&pool)).then_some(())).count() == 0
    });
    assert!(receivers.iter().all(|receiver| receiver.body.as_deref() == Some(&body[..])));
    let (sent, received) = (broker.counters(), clients.counters());
    assert_eq!(sent.offered_bytes, (CONSUMERS * BODY_BYTES) as u64);
    assert_eq!(received.placed_bytes, (CONSUMERS * BODY_BYTES) as u64);
    assert_eq!(received.copied_bytes, (CONSUMERS * HEAD.len()) as u64, "only heads are copied");
    assert_eq!((sent.large_sent_bytes, received.landed_bytes), (0, 0), "copied above the threshold");
    // The grants have ended with their bodies.
    drive(&[&broker, &clients], "a grant does not end", || broker.usage().granted_bytes == 0);
}

const CONNECTIONS: usize = 510;
const SIBLINGS: usize = 3;

#[test]
fn siblings_share_five_hundred_connections_and_an_idle_one_pins_little() {
    let Some(ip) = lab() else { return };
    // Of all interfaces: the first device with an active port.
    let address = fresh(ip);
    let everywhere = address.replace(&ip.to_string(), "0.0.0.0");
    let sized = |connections: usize| PortSettings {
        receive_buffers: 16 * connections + 64,
        // Soft-RoCE's completion queue has room for 32,767.
        send_slots: 32,
        signal_every: 8,
        ..settings()
    };
    let devices = card::open_at(&everywhere, SIBLINGS).expect("the lab has a device");
    let siblings: Vec<_> = devices.into_iter().map(|device| port(device, &sized(CONNECTIONS / SIBLINGS))).collect();
    for sibling in &siblings {
        sibling.listen(&everywhere).expect("they listen together");
    }
    let clients = connecting(&address, &sized(CONNECTIONS));
    let ports: Vec<&CardPort> = siblings.iter().chain([&clients]).collect();
    let before = pinned_bytes();
    let buffers = (2 * 16 * CONNECTIONS) * settings().receive_buffer_bytes as usize;
    assert!(before >= buffers, "all buffers are pinned from the start: {before}");
    let mut near: Vec<CardLink> = Vec::new();
    let mut far: Vec<(usize, CardLink)> = Vec::new();
    // Some at a time, since the kernel does not keep any number of them waiting.
    while near.len() < CONNECTIONS {
        near.extend((0..30).map(|_| clients.connect(&address, None).expect("there is room")));
        drive(&ports, "nobody accepted", || {
            // One that fails says why, and at once.
            near.iter_mut().for_each(|link| {
                link.receive(&mut [], &mut []).expect("the connection stands");
            });
            for (at, sibling) in siblings.iter().enumerate() {
                far.extend(std::iter::from_fn(|| sibling.accept()).map(|link| (at, link)));
            }
            far.len() == near.len()
        });
    }
    // Each connection is promised so much of buffers that there were before it, and what it pins besides, at both ends.
    let besides = pinned_bytes().saturating_sub(before) / CONNECTIONS;
    let promised = usize::from(settings().credits) * settings().receive_buffer_bytes as usize;
    println!("an idle connection: {promised} bytes of buffers, and {besides} besides");
    assert!(promised + besides <= 64 * 1_024);
    for at in 0..SIBLINGS {
        let share = far.iter().filter(|(sibling, _)| *sibling == at).count();
        assert_eq!(share, CONNECTIONS / SIBLINGS, "requests go to the sibling with the fewest connections");
    }
    // Each is alive, and its own: the far ends say their place, and the near ones hear each place once.
    let pool = Pool::new(PoolOptions::default());
    for (at, (_, link)) in far.iter_mut().enumerate() {
        let mut gather = Gather::new();
        gather.extend(&pool, &(at as u16).to_be_bytes());
        link.send(&mut gather).expect("the connection stands");
        assert!(gather.is_empty());
    }
    let mut heard = std::collections::BTreeSet::new();
    let mut is_open = vec![true; near.len()];
    drive(&ports, "somebody is not heard", || {
        for (link, is_open) in near.iter_mut().zip(&mut is_open).filter(|(_, is_open)| **is_open) {
            let mut place = [0; 2];
            if let ReceiveOutcome::Bytes { bytes, .. } =
                link.receive(&mut [], &mut place).expect("the connection stands")
            {
                assert_eq!(bytes, 2);
                heard.insert(u16::from_be_bytes(place));
                *is_open = false;
            }
        }
        heard.len() == CONNECTIONS
    });
    drop((near, far));
    drive(&ports, "something is not given back", || {
        ports.iter().all(|port| {
            let census = port.usage();
            (census.connections, census.promised_credits) == (0, 0)
        })
    });
    // And room again for others.
    let (mut one, mut other) = loop_connected(&clients, &siblings, &address);
    let mut gather = Gather::new();
    gather.extend(&pool, b"again");
    carry(&ports, &mut one, &mut other, gather, b"again");
}

fn loop_connected(clients: &CardPort, siblings: &[CardPort], address: &str) -> (CardLink, CardLink) {
    let near = clients.connect(address, None).expect("there is room");
    let ports: Vec<&CardPort> = siblings.iter().chain([clients]).collect();
    let mut far = None;
    drive(&ports, "nobody accepted", || {
        far = far.take().or_else(|| siblings.iter().find_map(|sibling| sibling.accept()));
        far.is_some()
    });
    (near, far.expect("accepted"))
}

const THREADS: usize = 2;
const ASKED: usize = 12;
const TURNS: usize = 8;

/// As shards have them: each sibling on a thread of its own, whichever of them the listener's requests come to.
#[test]
fn siblings_on_threads_of_their_own_answer_each_their_share() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let devices = card::open_at(&address, THREADS).expect("the lab has a device");
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = devices
        .into_iter()
        .map(|device| {
            let (address, stop) = (address.clone(), Arc::clone(&stop));
            std::thread::spawn(move || echo(&port(device, &settings()), &address, &stop))
        })
        .collect();
    let clients = connecting(&address, &settings());
    let pool = Pool::new(PoolOptions::default());
    // Their listener may not be there yet.
    let mut near = Vec::new();
    while near.len() < ASKED {
        let mut link = clients.connect(&address, None).expect("there is room");
        let mut gather = Gather::new();
        gather.extend(&pool, &[near.len() as u8]);
        let mut failed = false;
        drive(&[&clients], "no answer", || {
            failed = link.receive(&mut [], &mut []).is_err();
            failed || (link.send(&mut gather).is_ok() && gather.is_empty())
        });
        if !failed {
            near.push((link, 0));
        }
    }
    drive(&[&clients], "an echo is missing", || {
        for (at, (link, turns)) in near.iter_mut().enumerate() {
            let mut byte = [0];
            while *turns < TURNS
                && matches!(
                    link.receive(&mut [], &mut byte).expect("the connection stands"),
                    ReceiveOutcome::Bytes { .. }
                )
            {
                assert_eq!(usize::from(byte[0]), at, "what another connection has sent");
                let mut gather = Gather::new();
                gather.extend(&pool, &byte);
                link.send(&mut gather).expect("the connection stands");
                assert!(gather.is_empty());
                *turns += 1;
            }
        }
        near.iter().all(|(_, turns)| *turns == TURNS)
    });
    stop.store(true, Ordering::Release);
    let shares: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    assert!(shares.iter().all(|&share| share >= ASKED / THREADS), "{shares:?}");
}

/// Sends back what comes, until it is told to stop; how many have come.
fn echo(port: &CardPort, address: &str, stop: &AtomicBool) -> usize {
    port.listen(address).expect("they listen together");
    let pool = Pool::new(PoolOptions::default());
    let mut links: Vec<CardLink> = Vec::new();
    drive(&[port], "nobody says stop", || {
        links.extend(std::iter::from_fn(|| port.accept()));
        for link in &mut links {
            let mut scratch = [0; 64];
            // The peer goes when it has all.
            while let Ok(ReceiveOutcome::Bytes { bytes, .. }) = link.receive(&mut [], &mut scratch) {
                let mut gather = Gather::new();
                gather.extend(&pool, &scratch[..bytes]);
                if link.send(&mut gather).is_err() {
                    break;
                }
            }
        }
        stop.load(Ordering::Acquire)
    });
    links.len()
}
