//! Logins that fail, in number.

use super::size::size;
use super::{BrokerProcess, TempFolder, begin_login, field, read_frame};
use client::Client;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use shard::limits::{LOGINS_WAITING_PER_SOURCE_MAX, VERIFICATIONS_MAX};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use wire::method::connection;
use wire::{PROTOCOL_HEADER, ShortStr, TableRef};

/// A user with this password and these permissions on `/`.
pub fn account(name: &str, password: &str, read: &str) -> String {
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
    let broker = BrokerProcess::start(&[&words[..], &["--log-level", "debug"]].concat());
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
    // Clients that leave are not verified: their logins are dropped, but for those that verifiers have in hand meanwhile.
    drop(flood);
    broker.await_logged(
        &["login refused", "a login was dropped with its connection"],
        flood_size - 2 * VERIFICATIONS_MAX,
    );
    broker.signal(Signal::TERM);
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
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
