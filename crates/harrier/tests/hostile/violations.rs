//! Violations by a peer that was admitted, and the broker's reactions.

use super::amqp::{Talk, begin_publish};
use super::broker::WatchedBroker;
use super::format::{CLOSE, CREDIT, DATA, DONE, PING, PONG, PeerHello, RENDEZVOUS, RendezvousOffer, header};
use super::honest::HonestClients;
use super::peer::HostilePeer;
use super::{lab, now, port};
use ib::WcStatus;

/// What the peer does wrong; the honest clients provide bodies.
type ViolationFn = fn(&mut HostilePeer, &mut HonestClients);

struct ViolationCase {
    name: &'static str,
    hello: fn() -> PeerHello,
    violation: ViolationFn,
    /// The text of the CLOSE; empty if the peer may get none, because it leaves or cannot be reached.
    close_text: &'static str,
    /// The broker's log line.
    logged: &'static str,
}

const fn told(name: &'static str, violation: ViolationFn, words: &'static str) -> ViolationCase {
    ViolationCase { name, hello: PeerHello::default, violation, close_text: words, logged: words }
}

const fn logged(name: &'static str, violation: ViolationFn, words: &'static str) -> ViolationCase {
    ViolationCase { name, hello: PeerHello::default, violation, close_text: "", logged: words }
}

const UNREADABLE: &str = "the peer's memory was not accessible";
const GONE: &str = "the peer has disconnected";
const NOT_NEXT: &str = "a rendezvous has an unexpected number";
const NO_OFFER: &str = "the payload of a RENDEZVOUS is invalid";

/// Lets the broker offer it a body, and returns the descriptor.
fn offered(peer: &mut HostilePeer, honest: &mut HonestClients) -> RendezvousOffer {
    honest.enqueue("bait", 70_000);
    Talk::open(peer);
    Talk::consume(peer, "bait");
    RendezvousOffer::read(&peer.next(RENDEZVOUS, "an offer").payload)
}

/// Announces a body of 128 KiB, all of it still to come.
fn announced(peer: &mut HostilePeer) {
    Talk::open(peer);
    peer.stream(&begin_publish("sink", 128 << 10, 100_000));
}

fn messages() -> Vec<ViolationCase> {
    vec![
        ViolationCase {
            name: "beyond its credit, to a broker that it leaves no credit to answer with",
            hello: || PeerHello { credits: 12, ..PeerHello::default() },
            violation: |peer, _| {
                peer.returned = Some(0);
                let pings: Vec<_> = (0..200).map(|_| peer.message(PING, &[])).collect();
                peer.post(&pings);
            },
            close_text: "",
            logged: "the peer sent more than its credit",
        },
        logged(
            "a thousand messages at once",
            |peer, _| {
                let pings: Vec<_> = (0..1_000).map(|_| peer.message(DATA, b"x")).collect();
                peer.post(&pings);
            },
            // One byte at a time is not a valid header either, whichever is detected first.
            "",
        ),
        told("no header", |peer, _| peer.post(&[vec![1, 2, 3]]), "a message of 3 bytes has no header"),
        told("nothing at all", |peer, _| peer.post(&[vec![]]), "a message of 0 bytes has no header"),
        told(
            "a length that lies, one over",
            |peer, _| peer.send_lying(5, DATA, b"1234"),
            "announces 5 bytes, 4 arrived",
        ),
        told(
            "a length that lies, one under",
            |peer, _| peer.send_lying(3, DATA, b"1234"),
            "announces 3 bytes, 4 arrived",
        ),
        told("a length of zero", |peer, _| peer.send_lying(0, DATA, b"1234"), "announces 0 bytes, 4 arrived"),
        told(
            "a length beyond everything",
            |peer, _| peer.send_lying(0xFF_FFFF, DATA, b"1234"),
            "announces 16777215 bytes, 4 arrived",
        ),
        logged(
            "longer than a buffer",
            |peer, _| peer.send(DATA, &[0; 9_000]),
            // The device may report either first.
            "",
        ),
        told("the type 0", |peer, _| peer.send(0x00, b""), "no message has the type 0x00"),
        told("a type one bit beside", |peer, _| peer.send(0x07, b"x"), "no message has the type 0x07"),
        told("the type 255", |peer, _| peer.send(0xFF, b"x"), "no message has the type 0xff"),
        told(
            "a sequence that jumps",
            |peer, _| {
                peer.sequence = 7;
                peer.send(PING, b"");
            },
            "message 7 arrived instead of 0",
        ),
        told(
            "a sequence that goes back",
            |peer, _| {
                peer.send(PING, b"");
                peer.sequence = 0;
                peer.send(PING, b"");
            },
            "message 0 arrived instead of 1",
        ),
        told(
            "credits that it never had",
            |peer, _| {
                peer.returned = Some(9);
                peer.send(CREDIT, b"");
            },
            "the peer returned more credits than were used",
        ),
        told(
            "credits that overflow",
            |peer, _| {
                peer.returned = Some(u16::MAX);
                peer.send(CREDIT, b"");
            },
            "the peer returned more credits than were used",
        ),
        told("DATA without bytes", |peer, _| peer.send(DATA, b""), "the payload of a DATA is invalid"),
        told("PONG with bytes", |peer, _| peer.send(PONG, b"x"), "the payload of a PONG is invalid"),
        told("CLOSE with one byte", |peer, _| peer.send(CLOSE, b"x"), "the payload of a CLOSE is invalid"),
        logged(
            "words that are none, at the end",
            |peer, _| {
                peer.send(CLOSE, b"\0\x01\xff\xfe\x1b[2J\nfalse line");
                peer.until("an end", |peer| peer.is_gone().then_some(()));
            },
            "the peer closed the connection (protocol violation): ",
        ),
    ]
}

fn offers() -> Vec<ViolationCase> {
    vec![
        told("DONE for nothing", |peer, _| peer.send(DONE, &[0; 4]), NOT_NEXT),
        told("a DONE too short", |peer, _| peer.send(DONE, &[0]), "the payload of a DONE is invalid"),
        told("half a descriptor", |peer, _| peer.send(RENDEZVOUS, &[0; 12]), NO_OFFER),
        told("an offer of nothing", |peer, _| peer.offer(0, 4_096, 1), NO_OFFER),
        told("an offer beyond what one may have", |peer, _| peer.offer((16 << 20) + 1, 4_096, 1), NO_OFFER),
        told("an offer of four gigabytes", |peer, _| peer.offer(u32::MAX, 4_096, 1), NO_OFFER),
        told("an offer beyond all addresses", |peer, _| peer.offer(100, u64::MAX - 50, 1), NO_OFFER),
        told(
            "an offer out of turn",
            |peer, _| {
                peer.offers = 3;
                peer.offer(100, 4_096, 1);
            },
            NOT_NEXT,
        ),
        logged("an address and a key of nothing", |peer, _| peer.offer(100, 4_096, 0xBAD), UNREADABLE),
        logged(
            "a key one beside",
            |peer, _| {
                let own = peer.lend(&[7; 4_096]);
                peer.offer(4_096, own.address, own.key ^ 1);
            },
            UNREADABLE,
        ),
        logged(
            "an address in front of the region",
            |peer, _| {
                let own = peer.lend(&[7; 4_096]);
                peer.offer(4_096, own.address - 1, own.key);
            },
            UNREADABLE,
        ),
        logged(
            "a region shorter than the offer",
            |peer, _| {
                announced(peer);
                let own = peer.lend(&[7; 50_000]);
                peer.offer(100_000, own.address, own.key);
            },
            UNREADABLE,
        ),
        logged(
            "a region that was taken back",
            |peer, _| {
                announced(peer);
                let own = peer.lend(&[7; 100_000]);
                peer.take_back();
                peer.offer(100_000, own.address, own.key);
            },
            UNREADABLE,
        ),
        ViolationCase {
            name: "offers without end, from a device that lets nobody read",
            hello: || PeerHello { reads_answered: 0, ..PeerHello::default() },
            violation: |peer, _| {
                announced(peer);
                let own = peer.lend(&[7; 4_096]);
                let all: Vec<_> = (0..9).map(|_| peer.offer_of(4_096, own.address, own.key)).collect();
                peer.post(&all);
            },
            // A READ in progress delays the CLOSE.
            close_text: "",
            logged: "the peer has too many rendezvous open",
        },
        logged(
            "what it is offered is offered back",
            |peer, honest| {
                let RendezvousOffer { bytes, address, key, .. } = offered(peer, honest);
                peer.offer(bytes, address, key);
            },
            UNREADABLE,
        ),
    ]
}

fn grants() -> Vec<ViolationCase> {
    fn reads(peer: &mut HostilePeer, honest: &mut HonestClients, shift: i64, bytes: u32) {
        let offer = offered(peer, honest);
        assert_eq!(peer.read(offer.address, 4_096, offer.key), WcStatus::SUCCESS, "what is offered can be read");
        assert_eq!(peer.read(offer.address.wrapping_add_signed(shift), bytes, offer.key), WcStatus::REMOTE_ACCESS);
        // Not every device reports this; the broker learns of it with its next message, or from the peer.
        peer.leave();
    }
    vec![
        logged("a read in front of a grant", |peer, honest| reads(peer, honest, -1, 100), GONE),
        logged("a read across its end", |peer, honest| reads(peer, honest, 69_000, 4_096), GONE),
        logged("a read behind its end", |peer, honest| reads(peer, honest, 70_000, 1), GONE),
        logged(
            "a read after DONE",
            |peer, honest| {
                let offer = offered(peer, honest);
                peer.send(DONE, &offer.number.to_be_bytes());
                peer.send(PING, b"");
                peer.next(PONG, "an answer");
                assert_eq!(peer.read(offer.address, 100, offer.key), WcStatus::REMOTE_ACCESS);
                peer.leave();
            },
            GONE,
        ),
        logged(
            "a write to what may be read",
            |peer, honest| {
                let offer = offered(peer, honest);
                assert_eq!(peer.write(offer.address, b"changed", offer.key), WcStatus::REMOTE_ACCESS);
                peer.leave();
            },
            GONE,
        ),
        told(
            "DONE twice",
            |peer, honest| {
                let offer = offered(peer, honest);
                for _ in 0..2 {
                    peer.send(DONE, &offer.number.to_be_bytes());
                }
            },
            NOT_NEXT,
        ),
        told(
            "DONE for what comes later",
            |peer, honest| {
                let offer = offered(peer, honest);
                peer.send(DONE, &(offer.number + 1).to_be_bytes());
            },
            NOT_NEXT,
        ),
    ]
}

fn rubbish() -> Vec<ViolationCase> {
    const GARBAGE: &[u8] = b"\xff\x00\x00\x7f\xff\xff\xff garbage of a peer that knows no frames";
    vec![
        logged(
            "another protocol",
            |peer, _| {
                peer.stream(b"GET / HTTP/1.1\r\n\r\n");
                assert_eq!(peer.next(DATA, "the protocol's header").payload, wire::PROTOCOL_HEADER);
                peer.leave();
            },
            "",
        ),
        logged(
            "garbage behind the protocol's header",
            |peer, _| {
                peer.stream(&[&wire::PROTOCOL_HEADER[..], GARBAGE].concat());
                peer.next(CLOSE, "the end of the stream");
                peer.leave();
            },
            "refused",
        ),
        logged(
            "garbage in an open connection",
            |peer, _| {
                Talk::open(peer);
                peer.stream(GARBAGE);
                // It gets an AMQP error and time to answer, and disconnects instead.
                peer.next(DATA, "connection.close");
                peer.leave();
            },
            "refused",
        ),
        logged(
            "garbage that the broker fetches itself",
            |peer, _| {
                Talk::open(peer);
                let own = peer.lend(&GARBAGE.repeat(1_000));
                peer.offer(own.bytes as u32, own.address, own.key);
                peer.next(DATA, "connection.close");
                peer.leave();
            },
            "refused",
        ),
    ]
}

/// Peers that disconnect, each in the middle of something.
fn departures() -> Vec<ViolationCase> {
    vec![
        logged("it leaves at once", |peer, _| peer.leave(), ""),
        logged(
            "it leaves in the middle of a header of AMQP",
            |peer, _| {
                peer.stream(b"AMQ");
                peer.leave();
            },
            "",
        ),
        logged(
            "it leaves in the middle of a body",
            |peer, _| {
                announced(peer);
                peer.stream(&[7; 20_000]);
                peer.leave();
            },
            "",
        ),
        logged(
            "it leaves while its body is read",
            |peer, _| {
                announced(peer);
                let own = peer.lend(&[7; 100_000]);
                peer.offer(100_000, own.address, own.key);
                peer.leave();
            },
            "",
        ),
        logged(
            "it leaves with a body unread",
            |peer, honest| {
                offered(peer, honest);
                peer.leave();
            },
            GONE,
        ),
        logged(
            "it leaves while it reads",
            |peer, honest| {
                let offer = offered(peer, honest);
                peer.begin_read(offer.address, 16_000, offer.key);
                peer.leave();
            },
            GONE,
        ),
        logged(
            "it sends bytes behind the end of its stream",
            // A broker that takes in the CLOSE before the rest has arrived ends an orderly connection, without words.
            // What it says where both arrive together is tested with its transport.
            |peer, _| {
                let both = [peer.message(CLOSE, b""), peer.message(DATA, b"x")];
                peer.post(&both);
            },
            "",
        ),
        logged(
            "it leaves with its lies under way",
            |peer, _| {
                let lies: Vec<_> = (0..8).map(|at| header(9, DATA, at, at).to_vec()).collect();
                peer.post(&lies);
                peer.leave();
            },
            "",
        ),
        ViolationCase {
            name: "its buffers are not as many, nor as long, as it said",
            hello: || PeerHello {
                receive_buffer_bytes: u32::MAX,
                credits: u16::MAX,
                threshold_bytes: 1 << 30,
                ..PeerHello::default()
            },
            violation: |peer, honest| {
                honest.enqueue("bait", 70_000);
                Talk::open(peer);
                Talk::consume(peer, "bait");
            },
            close_text: "",
            logged: "connection lost",
        },
    ]
}

#[test]
fn who_breaks_the_protocol_loses_the_connection_and_nobody_else_does() {
    let Some(ip) = lab() else { return };
    let mut broker = WatchedBroker::start(ip, port(), &["--rdma-token", "allow"]);
    let mut honest = HonestClients::new(broker.address);
    let before = broker.holdings();
    let only = std::env::var("HOSTILE_ONLY").unwrap_or_default();
    for case in [messages(), offers(), grants(), rubbish(), departures()].into_iter().flatten() {
        let ViolationCase { name, hello, violation, close_text: told, logged } = case;
        if !name.contains(&only) {
            continue;
        }
        let began = now();
        broker.forget_lines();
        let mut peer =
            HostilePeer::connect(broker.address, &hello()).unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
        violation(&mut peer, &mut honest);
        if !peer.is_gone() {
            let words = peer.ends();
            assert!(words.contains(told), "{name}: it is told {words:?}");
        }
        drop(peer);
        if !logged.is_empty() {
            broker.await_line(logged);
        }
        honest.exchange(name);
        honest.clear();
        broker.holds_no_more_than(&before, name, Some(&mut honest));
        println!("{name}: {} ms", (now() - began).as_millis());
    }
    broker.is_as_before(&before, "all of them", Some(&mut honest));
    drop(honest);
    broker.stop();
}
