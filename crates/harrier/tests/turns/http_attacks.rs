//! Attacks over HTTP on the management API, which has one thread and no part in passing messages.

use crate::broker::LimitedBroker;
use crate::waits::beside;
use crate::{PATIENCE, size};
use client::{Client, QueueOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

const GUEST: &str = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n";
/// guest:wrong
const WRONG: &str = "Authorization: Basic Z3Vlc3Q6d3Jvbmc=\r\n";

fn connect(api: &str) -> TcpStream {
    let stream = TcpStream::connect(api).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

/// The status of an answer; nothing if the connection ends without one.
fn status(stream: &mut TcpStream) -> Option<u16> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.to_ascii_lowercase().split_once("content-length: ").map(|(_, rest)| rest.to_owned());
    let length = length.and_then(|rest| rest.split("\r\n").next()?.parse::<u64>().ok()).unwrap_or(0);
    std::io::copy(&mut stream.take(length), &mut std::io::sink()).expect("the body");
    head.split(' ').nth(1).and_then(|status| status.parse().ok())
}

fn overview(broker: &LimitedBroker) -> u16 {
    ask(broker, "GET /api/overview")
}

/// Asks until it is let in: there may be as many connections as may be.
pub fn ask(broker: &LimitedBroker, what: &str) -> u16 {
    loop {
        let mut stream = connect(&broker.api);
        let request =
            format!("{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n{GUEST}\r\n");
        // Who is refused at the door may find the connection gone.
        if stream.write_all(request.as_bytes()).is_err() {
            continue;
        }
        match status(&mut stream) {
            Some(503) | None => std::thread::yield_now(),
            Some(status) => return status,
        }
    }
}

#[test]
fn very_many_connections_begin_a_request_and_do_not_end_it() {
    beside("slow requests", |broker| {
        let mut held = Vec::new();
        let mut refused = 0;
        for _ in 0..size(500, 10_000) {
            let mut stream = connect(&broker.api);
            // What was refused may be closed already.
            let sent = stream.write_all(b"GET /api/overview HTTP/1.1\r\nHost: loc");
            if sent.is_err() {
                refused += 1;
            }
            held.push(stream);
        }
        // All but as many as may be have been answered or closed.
        for stream in held.iter_mut().skip(management_connections_max()) {
            refused += usize::from(matches!(status(stream), Some(503) | None));
        }
        assert!(refused >= held.len() - management_connections_max(), "{refused} of {}", held.len());
        drop(held);
        assert_eq!(overview(broker), 200);
    });
}

fn management_connections_max() -> usize {
    management::limits::CONNECTIONS_MAX
}

#[test]
fn wrong_passwords_are_tried_without_a_pause() {
    beside("wrong passwords", |broker| {
        let api = &*broker.api;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    let mut stream = connect(api);
                    let request = format!("GET /api/overview HTTP/1.1\r\nHost: localhost\r\n{WRONG}\r\n");
                    for _ in 0..size(20, 250) {
                        stream.write_all(request.as_bytes()).expect("sent");
                        assert_eq!(status(&mut stream), Some(401));
                    }
                });
            }
        });
        assert_eq!(overview(broker), 200, "a right password is right, also from this address");
    });
}

#[test]
fn bodies_are_too_long_or_long_and_senseless() {
    beside("long bodies", |broker| {
        let post = |length: usize, body: &[u8]| {
            let mut stream = connect(&broker.api);
            let head = format!(
                "POST /api/definitions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{GUEST}Content-Length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("sent");
            // The answer may come before the body has gone.
            let _may_be_closed = stream.write_all(body);
            status(&mut stream)
        };
        for _ in 0..size(3, 30) {
            assert_eq!(post(1 << 40, b""), Some(413));
            assert_eq!(post(8 << 20, &vec![b'['; 8 << 20]), Some(400));
            let names = format!("{{\"queues\":[{}0]}}", "0,".repeat(1 << 20));
            assert_eq!(post(names.len(), names.as_bytes()), Some(400));
        }
        assert_eq!(overview(broker), 200);
    });
}

#[test]
fn lists_are_filtered_by_costly_patterns_and_not_read() {
    beside("costly lists", |broker| {
        let mut client = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
        let channel = client.open_channel().expect("a channel");
        for number in 0..size(500, 10_000) {
            let name = format!("{}{number}", "a".repeat(200));
            client.declare_queue(channel, &name, &QueueOptions::default()).expect("a queue");
        }
        let pattern = "(a*)*".repeat(20) + "b";
        let mut unread = Vec::new();
        for round in 0..size(4, 20) {
            let mut stream = connect(&broker.api);
            let query = match round % 2 {
                0 => format!("name={pattern}&use_regex=true"),
                _ => "sort=message_stats.publish_details.rate".to_owned(),
            };
            let head = format!("GET /api/queues?{query} HTTP/1.1\r\nHost: localhost\r\n{GUEST}\r\n");
            stream.write_all(head.as_bytes()).expect("sent");
            unread.push(stream);
        }
        assert_eq!(overview(broker), 200);
        drop(unread);
    });
}
