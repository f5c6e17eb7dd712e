//! The log as its reader finds it: escaped, summed up, and without anybody who reads it.

use super::size::size;
use super::{BrokerProcess, PATIENCE, begin_login, harrier, logged, open, output, read_frame, wait_until};
use client::{Client, ClientError, QueueOptions};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use wire::method::{Method, connection};
use wire::{ShortStr, Table, TableRef, Value};

/// What a hostile peer calls itself: it forges a line, and gives the terminal another title.
const HOSTILE: &str = "eve\n2026-01-01T00:00:00Z  INFO forged\r\x1b]0;owned\x07\u{9b}2J\u{202e}";

/// Fails a login as this user, and waits for the end.
fn fail_login(address: &str, user: &str) {
    begin_login(address, user).read_to_end(&mut Vec::new()).expect("the broker ends the connection");
}

/// A broker whose log the test reads, or does not.
struct LoggingBroker {
    child: Child,
    log: BufReader<ChildStderr>,
    ready: String,
}

impl LoggingBroker {
    fn start(words: &[&str]) -> Self {
        let mut program = harrier();
        program.args(["broker", "--state", "none", "--listen", "127.0.0.1:0", "--shards", "1"]).args(words);
        let mut child = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut broker = LoggingBroker { child, log, ready: String::new() };
        broker.ready = broker.await_line("is ready");
        broker
    }

    fn await_line(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).expect("text"), 0, "it ended");
        }
        line
    }

    fn address(&self) -> String {
        let addresses = self.ready.split_once("addresses").expect("its addresses").1;
        let port = addresses.split_once("127.0.0.1:").expect("its address").1;
        format!("127.0.0.1:{}", port.split(['"', ' ']).next().unwrap_or_default())
    }

    fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
    }
}

impl Drop for LoggingBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn assert_harmless(text: &str) {
    let is_harmful = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!text.contains(is_harmful), "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("2026-01-01")), "{text:?}");
}

#[test]
fn nothing_that_a_peer_chose_controls_the_terminal_or_forges_a_line_of_the_log() {
    for format in ["text", "json"] {
        let mut broker = LoggingBroker::start(&["--log-format", format]);
        let address = broker.address();
        fail_login(&address, HOSTILE);
        let mut client = Client::connect(&format!("amqp://guest:guest@{address}")).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let options = QueueOptions { passive: true, ..QueueOptions::default() };
        let error = client.declare_queue(channel, HOSTILE, &options).expect_err("there is none");
        assert!(matches!(&error, ClientError::ChannelClosed { code: 404, .. }), "{error}");
        assert_harmless(&error.to_string());
        drop(client);
        broker.stop();
        let mut rest = String::new();
        broker.log.read_to_string(&mut rest).expect("text");
        assert_eq!(broker.child.wait().expect("a status").code(), Some(0), "{rest}");
        assert_harmless(&rest);
        assert_eq!(rest.lines().filter(|line| line.contains("owned")).count(), 2, "{rest}");
        if format == "json" {
            for line in rest.lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
                if line["message"] == "login refused" {
                    assert_eq!(line["user"], HOSTILE, "{line}");
                }
            }
        }
    }
}

/// A server that refuses every client with a hostile text.
fn hostile_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.read_exact(&mut [0; 8]).expect("a header");
            let product = Value::LongStr(HOSTILE.as_bytes().into());
            let properties = Table::new().with("product", product).expect("short").to_bytes();
            let start = connection::Start {
                version_major: 0,
                version_minor: 9,
                server_properties: TableRef::new(&properties),
                mechanisms: b"PLAIN",
                locales: b"en_US",
            };
            super::send(&mut stream, &start.into());
            read_frame(&mut stream);
            let reply_text = ShortStr::new(HOSTILE.as_bytes()).expect("short");
            let close = connection::Close { reply_code: 403, reply_text, class_id: 0, method_id: 0 };
            super::send(&mut stream, &Method::ConnectionClose(close));
            let _gone = stream.read(&mut [0; 64]);
        }
    });
    address
}

#[test]
fn commands_print_what_another_broker_says_harmlessly() {
    let server = hostile_server();
    let url = format!("amqp://{server}");
    let commands: &[&[&str]] = &[
        &["ctl", "definitions", "--url", &url],
        &["route", "map", &server],
        &["route", "link", "list", &server],
        &["route", "route", "list", &server],
        &["route", "dynamic", "add", &server, "127.0.0.1:1", "amq.topic"],
        #[cfg(feature = "bench")]
        &["bench", "de-spsc", "--target", &url],
        &["definitions", "check", HOSTILE],
    ];
    for &words in commands {
        let output = output(words);
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
        assert_ne!(output.status.code(), Some(0), "{words:?}: {printed}");
        assert_harmless(&printed);
        println!("{words:?}: {printed}");
        assert!(printed.contains("owned") || words[0] == "bench", "{words:?}: {printed}");
    }
}

#[test]
fn names_of_routes_are_listed_harmlessly() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let other = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let (dest, src) = (&*broker.address, &*other.address);
    let add = output(&["route", "route", "add", dest, src, "amq.topic", HOSTILE]);
    assert_eq!(add.status.code(), Some(0), "{}", String::from_utf8_lossy(&add.stderr));
    for words in [
        &["route", "map", dest][..],
        &["route", "map", "--dot", dest],
        &["route", "map", "--json", dest],
        &["route", "route", "list", dest],
        &["route", "route", "list", "-v", dest],
        &["route", "--json", "link", "list", dest],
    ] {
        let output = output(words);
        let printed = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_harmless(&printed);
        assert!(printed.contains("owned"), "{words:?}: {printed}");
    }
}

#[test]
fn repeated_refusals_are_summed_up() {
    let refusals = size(3_000, 384_000);
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let mut client = Client::connect(&format!("amqp://guest:guest@{}", broker.address)).expect("connects");
    let options = QueueOptions { passive: true, ..QueueOptions::default() };
    for _ in 0..refusals {
        let channel = client.open_channel().expect("a channel");
        client.declare_queue(channel, "nowhere", &options).expect_err("there is none");
    }
    drop(client);
    broker.signal(Signal::TERM);
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
    let lines = log.lines().filter(|line| line.contains("\"message\":\"refused\"")).count() as u64;
    let all = logged(&log, "refused");
    assert!(lines < refusals && all == refusals, "{lines} lines stand for {all}");
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up_and_tells_what_it_lost() {
    let mut broker = LoggingBroker::start(&["--log-level", "debug", "--log-format", "json"]);
    let address = broker.address();
    // Much more than the pipe and the queue behind it hold, and nobody reads.
    for _ in 0..10_000 {
        let mut stream = TcpStream::connect(&address).expect("the broker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(b"HTTP/1.1").expect("sent");
        stream.read_exact(&mut [0; 8]).expect("its own header");
    }
    let mut stream = TcpStream::connect(&address).expect("the broker listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(open(&mut stream), "connection.open-ok");
    drop(stream);
    // Now it is read again, until it tells what is missing.
    let line = broker.await_line("lines of the log were dropped");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert!(told["lines"].as_u64().is_some_and(|lines| lines > 0), "{told}");
    // At its end nobody reads again: the broker does not wait for ever.
    for _ in 0..1_000 {
        drop(TcpStream::connect(&address).expect("the broker listens"));
    }
    broker.stop();
    let mut status = None;
    let has_ended = || {
        status = broker.child.try_wait().expect("a status");
        status.is_some()
    };
    wait_until("it ends", has_ended, String::new);
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}
