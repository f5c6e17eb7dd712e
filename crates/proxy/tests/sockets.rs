//! A proxy between sockets: bytes, ends, limits.

mod harness;

use harness::{SocketPath, TestProxy, TestStream, UpstreamListener, echo, must_echo, pattern, settled, until};
use proxy::ProxyOptions;
use proxy::limits::{READ_BYTES_MAX, WINDOW_BYTES};
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Closes with a reset.
fn reset(stream: TcpStream) {
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
}

/// The connection was reset, not closed in order.
fn must_be_reset(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).expect_err("no end in order");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn all_bytes_come_back_over_every_pair_of_sockets() {
    let (front, back) = (SocketPath::new("front"), SocketPath::new("back"));
    let far = UpstreamListener::listen();
    let change = |options: &mut ProxyOptions| {
        options.listen.push("[::1]:0".parse().expect("an address"));
        options.listen.push(front.address());
        options.threads = 2;
    };
    let to_tcp = TestProxy::start(&format!("amqp://{}", far.address), change);
    let six = to_tcp.0.as_ref().expect("it runs").addresses()[1].clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..4).for_each(|_| {
                drop(std::thread::spawn({
                    let stream = far.accept();
                    || echo(stream)
                }))
            })
        });
        scope.spawn(|| must_echo(to_tcp.connect(), 5_000_000));
        scope.spawn(|| must_echo(TcpStream::connect(&six).expect("it listens").patient(), 1));
        scope.spawn(|| must_echo(UnixStream::connect(&front.0).expect("it listens").patient(), 3_000_000));
        scope.spawn(|| must_echo(to_tcp.connect(), 0));
    });
    let totals = to_tcp.end();
    assert_eq!((totals.accepted, totals.broken, totals.unreachable), (4, 0, 0), "{totals:?}");
    assert_eq!((totals.to_upstream_bytes, totals.to_client_bytes), (8_000_001, 8_000_001));
    assert_eq!(totals.shared_bytes + totals.copied_bytes, 16_000_002);
    assert!(!front.0.exists(), "the file of the socket is removed");

    let listener = back.listen();
    let to_unix = TestProxy::start(&format!("amqp+unix:{}", back.0.display()), |_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| echo(listener.accept().expect("the proxy connects").0.patient()));
        must_echo(to_unix.connect(), 2_000_000);
    });
    assert_eq!(to_unix.end().broken, 0);
}

#[test]
fn large_reads_are_relayed_without_a_copy() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| echo(far.accept()));
        must_echo(proxy.connect(), 20_000_000);
    });
    let totals = proxy.end();
    assert!(totals.shared_bytes > 10 * totals.copied_bytes, "{totals:?}");
}

#[test]
fn each_end_may_close_its_direction_first() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |_| ());
    // The client closes its half first, and reads the answer.
    let mut client = proxy.connect();
    let mut broker = far.accept();
    client.write_all(b"question").expect("sent");
    client.shut(Shutdown::Write);
    let mut received = Vec::new();
    broker.read_to_end(&mut received).expect("an end in order");
    assert_eq!(received, b"question");
    broker.write_all(b"answer").expect("sent");
    drop(broker);
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("an end in order");
    assert_eq!(received, b"answer");
    // The broker closes its half first, and reads on.
    let mut client = proxy.connect();
    let mut broker = far.accept();
    broker.write_all(b"greeting").expect("sent");
    broker.shut(Shutdown::Write);
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("an end in order");
    assert_eq!(received, b"greeting");
    client.write_all(&pattern(0, 100_000)).expect("sent");
    client.shut(Shutdown::Write);
    let mut received = Vec::new();
    broker.read_to_end(&mut received).expect("an end in order");
    assert!(received == pattern(0, 100_000));
    until("both connections are over", || proxy.connections() == 0);
    assert_eq!(proxy.end().broken, 0);
}

#[test]
fn a_reset_at_one_end_resets_the_other() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |_| ());
    let mut client = proxy.connect();
    let mut broker = far.accept();
    client.write_all(b"x").expect("sent");
    broker.read_exact(&mut [0]).expect("it arrives");
    reset(client);
    must_be_reset(&mut broker);
    let mut client = proxy.connect();
    let mut broker = far.accept();
    client.write_all(b"x").expect("sent");
    broker.read_exact(&mut [0]).expect("it arrives");
    reset(broker);
    must_be_reset(&mut client);
    until("both connections are over", || proxy.connections() == 0);
    assert_eq!(proxy.end().broken, 2);
}

#[test]
fn a_client_that_closes_without_reading_does_not_block_the_broker() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |_| ());
    let client = proxy.connect();
    let mut broker = far.accept();
    drop(client);
    // The broker reads the end of the stream, and its later writes fail.
    broker.read_exact(&mut [0]).expect_err("the end");
    until("the broker is told that nobody reads", || broker.write_all(&[0; 10_000]).is_err());
    until("the connection is over", || proxy.connections() == 0);
    proxy.end();
}

#[test]
fn a_reader_that_does_not_read_costs_its_window_and_no_more() {
    const BUFFER_BYTES: usize = 64 * 1024;
    const TOTAL_BYTES: usize = 8 << 20;
    let far = UpstreamListener::listen();
    let small = |options: &mut ProxyOptions| {
        for socket in [&mut options.listen_options.socket, &mut options.dial.socket] {
            socket.send_buffer_bytes = Some(BUFFER_BYTES);
            socket.receive_buffer_bytes = Some(BUFFER_BYTES);
        }
    };
    let proxy = TestProxy::start(&far.address, small);
    let both = |stream: TcpStream| {
        sockopt::set_socket_recv_buffer_size(&stream, BUFFER_BYTES).expect("a socket");
        sockopt::set_socket_send_buffer_size(&stream, BUFFER_BYTES).expect("a socket");
        stream
    };
    let client = both(proxy.connect());
    let broker = both(far.accept());
    // Linux keeps twice what was asked for, in each socket: the broker's receives, the proxy's sends. What came before the
    // broker's was made small may be more.
    let most = (WINDOW_BYTES + READ_BYTES_MAX + 16 * BUFFER_BYTES) as u64;
    for (writer, mut reader, to_broker) in [(client.twin(), broker.twin(), true), (broker, client, false)] {
        let taken = || {
            let totals = proxy.totals();
            if to_broker { totals.to_upstream_bytes } else { totals.to_client_bytes }
        };
        let sender = std::thread::spawn(move || {
            let mut writer = writer;
            writer.write_all(&pattern(0, TOTAL_BYTES)).expect("somebody reads in the end");
        });
        until("the proxy has taken a window", || taken() >= WINDOW_BYTES as u64);
        let last = settled(taken);
        assert!(last <= most, "{last} of at most {most} bytes were taken for a reader that does not read");
        let mut received = vec![0; TOTAL_BYTES];
        reader.read_exact(&mut received).expect("all arrives in the end");
        assert!(received == pattern(0, TOTAL_BYTES));
        sender.join().expect("all was sent");
    }
    proxy.end();
}

#[test]
fn clients_are_reset_while_the_broker_is_down() {
    // A port that was free a moment ago.
    let address = UpstreamListener::listen().address;
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").to_string();
    assert_ne!(address, free);
    let proxy = TestProxy::start(&free, |_| ());
    must_be_reset(&mut proxy.connect());
    let mut client = proxy.connect();
    // Bytes that the client sends meanwhile make no difference.
    let _refused = client.write_all(b"AMQP\0\0\x09\x01");
    client.read_exact(&mut [0]).expect_err("nobody answers");
    until("both were told", || proxy.totals().unreachable == 2 && proxy.connections() == 0);
    // Once it listens, clients reach it.
    let far = UpstreamListener::listen_at(&free);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(far.accept()));
        must_echo(proxy.connect(), 1_000);
    });
    assert_eq!(proxy.end().accepted, 3);
}

#[test]
fn a_dial_without_an_answer_times_out() {
    // A listener that accepts nobody and has a full queue: further connections get no answer.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    rustix::net::bind(&socket, &any).expect("a port");
    rustix::net::listen(&socket, 0).expect("it listens");
    let listener = std::net::TcpListener::from(socket);
    let address = listener.local_addr().expect("bound");
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
        assert!(waiting.len() < 100, "a queue that is never full");
    }
    let proxy = TestProxy::start(&address.to_string(), |options| options.dial.timeout = Duration::from_millis(300));
    // More clients than dial threads: those that wait for a thread time out as well.
    let mut clients: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(must_be_reset);
    until("all were told", || proxy.totals().unreachable == 20);
    proxy.end();
}

#[test]
fn five_hundred_clients_at_once() {
    const CLIENTS: usize = 500;
    let files = getrlimit(Resource::Nofile);
    let wanted = files.maximum.map_or(8_192, |maximum| maximum.min(8_192));
    if wanted < 4 * CLIENTS as u64 + 100 {
        println!("SKIPPED: the system allows {wanted} open files");
        return;
    }
    if files.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: files.maximum })
            .expect("it may be raised");
    }
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |options| {
        options.connections_max = CLIENTS;
        options.threads = 2;
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.write_all(&(at as u32).to_be_bytes()).expect("sent");
    }
    let mut brokers: Vec<_> = (0..CLIENTS).map(|_| far.accept()).collect();
    for broker in &mut brokers {
        let mut number = [0; 4];
        broker.read_exact(&mut number).expect("it arrives");
        broker.write_all(&pattern(u32::from_be_bytes(number) as usize, 3_000)).expect("sent");
    }
    for (at, client) in clients.iter_mut().enumerate() {
        let mut answer = [0; 3_000];
        client.read_exact(&mut answer).expect("it arrives");
        assert!(answer[..] == pattern(at, 3_000), "client {at} has another's answer");
    }
    assert_eq!(proxy.connections(), CLIENTS);
    must_be_reset(&mut proxy.connect());
    drop((clients, brokers));
    let totals = proxy.end();
    assert_eq!((totals.accepted, totals.refused), (CLIENTS as u64, 1));
}

#[test]
fn clients_over_the_limit_are_refused_until_one_leaves() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |options| options.connections_max = 2);
    let first = proxy.connect();
    let second = proxy.connect();
    let brokers = [far.accept(), far.accept()];
    must_be_reset(&mut proxy.connect());
    drop(first);
    drop(brokers);
    until("there is room", || proxy.connections() < 2);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(far.accept()));
        must_echo(proxy.connect(), 10);
    });
    drop(second);
    assert_eq!(proxy.end().refused, 1);
}

#[test]
fn a_stopping_proxy_lets_connections_finish() {
    let far = UpstreamListener::listen();
    let path = SocketPath::new("stops");
    let proxy = TestProxy::start(&far.address, |options| options.listen.push(path.address()));
    let mut client = proxy.connect();
    let broker = far.accept();
    proxy.stop();
    // The listeners are closed in order, which removes the file of this one.
    until("nobody is accepted", || !path.0.exists());
    TcpStream::connect(proxy.address()).expect_err("nobody listens");
    std::thread::scope(|scope| {
        scope.spawn(|| echo(broker));
        client.write_all(b"still").expect("sent");
        client.read_exact(&mut [0; 5]).expect("it goes on");
        must_echo(client, 300_000);
    });
    assert_eq!(proxy.end().broken, 0);
}

#[test]
fn a_stopping_proxy_ends_at_the_drain_timeout() {
    let far = UpstreamListener::listen();
    let proxy = TestProxy::start(&far.address, |options| options.drain_timeout = Duration::from_millis(200));
    let mut client = proxy.connect();
    let mut broker = far.accept();
    let totals = proxy.end();
    assert_eq!(totals.broken, 1);
    must_be_reset(&mut client);
    must_be_reset(&mut broker);
}
