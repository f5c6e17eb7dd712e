//! Connection requests that are refused: false private data, and invalid tokens.

use super::amqp::{start_ok, tune_ok_and_open};
use super::broker::{WatchedBroker, pause};
use super::format::PeerHello;
use super::honest::HonestClients;
use super::peer::{ConnectRefusal, HostilePeer};
use super::{PATIENCE, lab, now, port};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;
use wire::PROTOCOL_HEADER;
use wire::method::Method;

const MALFORMED: u16 = 1;
const NO_VERSION: u16 = 2;
const TOKEN_NEEDED: u16 = 3;
const TOKEN_WRONG: u16 = 4;
/// How long a token is valid.
const TOKEN_LIFE: Duration = Duration::from_secs(30);

#[test]
fn private_data_that_lies_is_refused_with_its_reason() {
    let Some(ip) = lab() else { return };
    let broker = WatchedBroker::start(ip, port(), &["--rdma-token", "allow"]);
    let mut honest = HonestClients::new(broker.address);
    let before = broker.holdings();
    let honest_hello = PeerHello::default;
    let cases: [(&str, PeerHello, u16); 12] = [
        ("nothing", PeerHello { sent_bytes: 0, ..honest_hello() }, MALFORMED),
        ("another magic", PeerHello { magic: *b"HTTP", ..honest_hello() }, MALFORMED),
        ("a magic and no more", PeerHello { sent_bytes: 4, ..honest_hello() }, MALFORMED),
        ("half of it", PeerHello { sent_bytes: 12, ..honest_hello() }, MALFORMED),
        ("receive buffers of 0 bytes", PeerHello { receive_buffer_bytes: 0, ..honest_hello() }, MALFORMED),
        ("receive buffers of 1 byte", PeerHello { receive_buffer_bytes: 1, ..honest_hello() }, MALFORMED),
        ("no credits", PeerHello { credits: 0, ..honest_hello() }, MALFORMED),
        ("fewer credits than can work", PeerHello { credits: 11, ..honest_hello() }, MALFORMED),
        ("versions the wrong way round", PeerHello { versions: [2, 1], ..honest_hello() }, MALFORMED),
        ("versions of another time", PeerHello { versions: [2, 9], ..honest_hello() }, NO_VERSION),
        ("the version 0", PeerHello { versions: [0, 0], ..honest_hello() }, NO_VERSION),
        ("a token that nobody gave", PeerHello::with_token([9; 16]), TOKEN_WRONG),
    ];
    for (name, hello, reason) in cases {
        let refused = HostilePeer::connect(broker.address, &hello).err();
        assert_eq!(refused, Some(ConnectRefusal::Reason(reason)), "{name}");
    }
    // Undefined values are ignored, and too large ones are reduced.
    let generous = PeerHello {
        flags: 0xFFFE,
        credits: u16::MAX,
        rendezvous_max: u16::MAX,
        receive_buffer_bytes: u32::MAX,
        threshold_bytes: u32::MAX,
        reads_issued: 255,
        reads_answered: 255,
        ..honest_hello()
    };
    drop(HostilePeer::connect(broker.address, &generous).expect("it is let in"));
    honest.exchange("afterwards");
    broker.is_as_before(&before, "requests that were refused", Some(&mut honest));
    drop(honest);
    broker.stop();
}

/// The payload of the next method frame.
fn frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = [0; 7];
    stream.read_exact(&mut head).expect("a frame's head");
    let mut rest = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
    stream.read_exact(&mut rest).expect("a frame's rest");
    rest.pop();
    rest
}

/// A token and the connection that obtained it. `logs_in`: it has authenticated; `claims`: and announced the token's
/// use.
fn token(broker: &WatchedBroker, logs_in: bool, claims: bool) -> ([u8; 16], TcpStream) {
    let mut stream = TcpStream::connect(&broker.tcp).expect("the broker listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&PROTOCOL_HEADER).expect("sent");
    let start = frame(&mut stream);
    let Ok(Method::ConnectionStart(start)) = Method::decode(&start) else { panic!("connection.start") };
    let value = start.server_properties.get("harrier.rdma_token").expect("the broker gives a token");
    let wire::ValueRef::LongStr(bytes) = value else { panic!("a token is bytes") };
    let token = <[u8; 16]>::try_from(bytes).expect("16 of them");
    if logs_in {
        stream.write_all(&start_ok(claims)).expect("sent");
        let tune = frame(&mut stream);
        let Ok(Method::ConnectionTune(tune)) = Method::decode(&tune) else { panic!("connection.tune") };
        stream.write_all(&tune_ok_and_open(&tune)).expect("sent");
        let answer = frame(&mut stream);
        assert!(matches!(Method::decode(&answer), Ok(Method::ConnectionOpenOk(_))));
    }
    (token, stream)
}

#[test]
fn a_token_opens_once_for_who_logged_in_and_for_a_while() {
    let Some(ip) = lab() else { return };
    let broker = WatchedBroker::start(ip, port(), &[]);
    let connect = |hello: &PeerHello| HostilePeer::connect(broker.address, hello);
    let refused = |hello: &PeerHello| match connect(hello) {
        Err(ConnectRefusal::Reason(reason)) => reason,
        Err(ConnectRefusal::Silently(why)) => panic!("without a reason: {why}"),
        Ok(_) => panic!("let in by {:?}", hello.token),
    };
    let (late, _late_stream) = token(&broker, true, true);
    let given = now();
    let before = broker.holdings();
    assert_eq!(refused(&PeerHello::default()), TOKEN_NEEDED);
    assert_eq!(
        refused(&PeerHello { flags: 0, token: late, ..PeerHello::default() }),
        TOKEN_NEEDED,
        "it does not say that it has one"
    );
    assert_eq!(refused(&PeerHello::with_token([0; 16])), TOKEN_WRONG);
    let (mut guessed, _stream) = token(&broker, true, true);
    guessed[15] ^= 1;
    assert_eq!(refused(&PeerHello::with_token(guessed)), TOKEN_WRONG);
    let (stranger, _stream) = token(&broker, false, false);
    assert_eq!(refused(&PeerHello::with_token(stranger)), TOKEN_WRONG, "nobody has logged in by it");
    let (unclaimed, _stream) = token(&broker, true, false);
    assert_eq!(refused(&PeerHello::with_token(unclaimed)), TOKEN_WRONG, "nobody said that he would come");
    let (good, _stream) = token(&broker, true, true);
    let first = connect(&PeerHello::with_token(good)).expect("it is let in");
    assert_eq!(refused(&PeerHello::with_token(good)), TOKEN_WRONG, "a token is good once");
    drop(first);
    assert_eq!(refused(&PeerHello::with_token(good)), TOKEN_WRONG, "and whatever became of who used it");
    let (spoiled, _stream) = token(&broker, true, true);
    let in_vain = PeerHello { credits: 0, ..PeerHello::with_token(spoiled) };
    assert_eq!(refused(&in_vain), MALFORMED);
    let (abandoned, stream) = token(&broker, true, true);
    let other = stream.local_addr().expect("it is connected");
    assert!(broker.has_open(other));
    drop(stream);
    let deadline = now() + PATIENCE;
    // Until the broker notices, the token would still be valid.
    while broker.has_open(other) {
        assert!(now() < deadline, "the connection is over");
        pause();
    }
    assert_eq!(refused(&PeerHello::with_token(abandoned)), TOKEN_WRONG, "its connection is over");
    while now() < given + TOKEN_LIFE {
        pause();
    }
    assert_eq!(refused(&PeerHello::with_token(late)), TOKEN_WRONG, "it is too old");
    broker.is_as_before(&before, "tokens", None);
    broker.stop();
}
