//! Logins that fail, in number, and what becomes of users who lose their access.

use super::size::size;
use super::{BrokerProcess, TempFolder, begin_login, field, logged, read_frame, wait_until};
use client::{Client, ClientError, ConsumeOptions, QueueOptions};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use shard::limits::LOGINS_WAITING_PER_SOURCE_MAX;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;
use wire::method::connection;
use wire::{PROTOCOL_HEADER, ShortStr, TableRef};

/// A user with this password and these permissions on `/`.
fn account(name: &str, password: &str, read: &str) -> String {
    format!(
        "[[user]]\nname = \"{name}\"\n{password}\n[[permission]]\nuser = \"{name}\"\nvhost = \"/\"\nconfigure = \".*\"\n\
         write = \".*\"\nread = \"{read}\"\n"
    )
}

/// A hash that takes milliseconds to compute.
fn slow_hash(password: &str) -> String {
    let mut program = super::harrier();
    program.arg("hash-password").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(password.as_bytes()).expect("told");
    let output = child.wait_with_output().expect("it ends");
    format!("password_hash = \"{}\"", String::from_utf8_lossy(&output.stdout).trim_end())
}

/// Has this process hold so many descriptors.
fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    assert!(limit.maximum.is_none_or(|maximum| maximum >= count), "{limit:?}");
    if limit.current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("within the hard limit");
    }
}

#[test]
fn a_flood_of_wrong_logins_keeps_no_user_of_another_address_out() {
    let flood_size = size(300, 6_000);
    allow_descriptors(flood_size as u64 + 100);
    let folder = TempFolder::new("login-flood");
    let (config, socket) = (folder.path("harrier.toml"), folder.path("h.sock"));
    std::fs::write(&config, account("orders", &slow_hash("secret"), ".*")).expect("writes");
    let unix = format!("unix:{socket}");
    let words = ["--listen", "127.0.0.1:0", "--listen", &unix, "--shards", "1", "--config", &config];
    let broker = BrokerProcess::start(&words);
    let mut flood: Vec<_> = (0..flood_size).map(|_| begin_login(&broker.address, "orders")).collect();
    let client = Client::connect(&format!("amqp+unix://orders:secret@{socket}")).expect("the right password");
    drop(client);
    // Those that wait when the fresh user is in have not been refused yet.
    let waiting = |flood: &mut Vec<TcpStream>| {
        let waits = flood.iter_mut().filter_map(|stream| {
            stream.set_nonblocking(true).expect("set");
            stream.read(&mut [0; 64]).err().filter(|error| error.kind() == ErrorKind::WouldBlock)
        });
        waits.count()
    };
    let waiting = waiting(&mut flood);
    assert!(waiting > flood_size.min(LOGINS_WAITING_PER_SOURCE_MAX) / 2, "the fresh user had to wait for them");
    // A client that leaves is not verified: the log has no refusal of it.
    drop(flood);
    broker.signal(Signal::TERM);
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
    let refused = logged(&log, "login refused") as usize;
    assert!(refused + waiting / 2 < flood_size, "of {waiting} that waited most were verified: {refused} were refused");
}

#[test]
fn a_source_that_fails_is_slowed_down_and_a_right_password_still_works() {
    let folder = TempFolder::new("login-slow");
    let config = folder.path("harrier.toml");
    let accounts = [account("orders", &slow_hash("secret"), ".*"), account("plain", "password = \"secret\"", ".*")];
    std::fs::write(&config, accounts.concat()).expect("writes");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--config", &config]);
    // More failures than are counted, of names that exist and of one that does not.
    for number in 0..80 {
        let name = ["orders", "plain", "nobody"][number % 3];
        drop(begin_login(&broker.address, name));
    }
    begin_login(&broker.address, &"x".repeat(200)).read_to_end(&mut Vec::new()).expect("it is refused");
    let line = broker.await_line("xxxxxxxx");
    assert_eq!(field(&line, "user"), format!("{}…", "x".repeat(128)));
    for name in ["orders", "plain"] {
        Client::connect(&format!("amqp://{name}:secret@{}", broker.address)).expect("the right password");
    }
}

#[test]
fn a_malformed_login_is_not_logged() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    // "s3cret" in numbers is 115,51,99,...; the second login is cut in the middle of its arguments.
    for (mechanism, response, cut) in [("PLAIN", &b"guest\0s3cret"[..], 0), ("PLAIN", b"\0guest\0s3cret", 8)] {
        let mut stream = broker.connect();
        stream.write_all(&PROTOCOL_HEADER).expect("sent");
        read_frame(&mut stream);
        let start_ok = connection::StartOk {
            client_properties: TableRef::EMPTY,
            mechanism: ShortStr::new(mechanism.as_bytes()).expect("short"),
            response,
            locale: ShortStr::literal("en_US"),
        };
        let mut frame = Vec::new();
        wire::encode_frame(wire::ChannelNumber::CONNECTION, &start_ok.into(), &mut frame);
        let bytes = frame.len() - 8 - cut;
        frame.truncate(7 + bytes);
        frame.push(0xCE);
        frame[3..7].copy_from_slice(&u32::try_from(bytes).expect("few").to_be_bytes());
        stream.write_all(&frame).expect("sent");
        stream.read_to_end(&mut Vec::new()).expect("the broker ends the connection");
    }
    broker.signal(Signal::TERM);
    let (_, log) = broker.end();
    assert_eq!(log.lines().filter(|line| line.contains("\"refused\"")).count(), 2, "{log}");
    assert!(!log.contains("s3cret") && !log.contains("115,51,99"), "{log}");
}

/// Reloads a configuration.
fn reload(broker: &BrokerProcess, config: &str, text: &str) {
    std::fs::write(config, text).expect("writes");
    broker.signal(Signal::HUP);
    broker.await_line("the configuration was reloaded");
}

#[test]
fn who_loses_access_is_served_no_longer() {
    let folder = TempFolder::new("login-revoked");
    let config = folder.path("harrier.toml");
    let other = account("other", "password = \"p\"", ".*");
    let with = |mine: &str| format!("[[vhost]]\nname = \"/\"\n{other}{mine}");
    let mine = |read: &str| account("mine", "password = \"p\"", read);
    std::fs::write(&config, with(&mine(".*"))).expect("writes");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--config", &config]);
    let connect = |user: &str| Client::connect(&format!("amqp://{user}:p@{}", broker.address));
    // Of two connections one is on the other shard than each queue.
    let mut clients: Vec<_> = (0..2).map(|_| connect("mine").expect("connects")).collect();
    let mut bystander = connect("other").expect("connects");
    let channel = bystander.open_channel().expect("a channel");
    for queue in ["kept", "lost"] {
        bystander.declare_queue(channel, queue, &QueueOptions::default()).expect("a queue");
        bystander.consume(channel, queue, &ConsumeOptions::default()).expect("a consumer");
    }
    for client in &mut clients {
        let channel = client.open_channel().expect("a channel");
        for queue in ["kept", "lost"] {
            let options = ConsumeOptions { consumer_tag: queue.to_owned(), ..ConsumeOptions::default() };
            client.consume(channel, queue, &options).expect("a consumer");
        }
    }
    let consumers = |bystander: &mut Client| {
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        let counts = ["kept", "lost"].map(|queue| bystander.declare_queue(channel, queue, &passive));
        counts.map(|count| count.expect("it is there").consumers)
    };
    assert_eq!(consumers(&mut bystander), [3, 3]);
    reload(&broker, &config, &with(&mine("^kept$")));
    for client in &mut clients {
        let mut cancelled = None;
        wait_until(
            "the consumer is cancelled",
            || {
                client.next_delivery(Duration::from_millis(1)).expect("the connection goes on");
                cancelled = client.take_cancelled();
                cancelled.is_some()
            },
            String::new,
        );
        assert_eq!(cancelled.map(|cancelled| cancelled.consumer_tag).as_deref(), Some("lost"));
        assert_eq!(client.take_cancelled(), None);
    }
    wait_until("only its consumers leave", || consumers(&mut bystander) == [3, 1], String::new);
    // Without access to the virtual host, and then without the user, connections are closed.
    let no_access = "[[user]]\nname = \"mine\"\npassword = \"p\"\n";
    for (left, expect) in [(no_access, "access to vhost was taken from user 'mine'"), ("", "user was deleted")] {
        reload(&broker, &config, &with(left));
        for mut client in clients.drain(..) {
            let error = loop {
                match client.next_delivery(Duration::from_millis(1)) {
                    Ok(none) => assert!(none.is_none()),
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(&error, ClientError::ConnectionClosed { code: 320, text } if text.contains(expect)),
                "{error}"
            );
        }
        reload(&broker, &config, &with(&mine(".*")));
        clients.extend((0..2).map(|_| connect("mine").expect("connects again")));
    }
    wait_until("its consumers are gone", || consumers(&mut bystander) == [1, 1], String::new);
}
