//! `harrier proxy`: clients reach a broker through it, and it ends cleanly.

use super::{BrokerProcess, TempFolder, field, open, output};
use client::{Client, Publish, QueueOptions};
use rustix::process::Signal;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

#[test]
fn clients_reach_a_broker_through_it() {
    let folder = TempFolder::new("proxy");
    let (front, back) = (folder.path("front.sock"), folder.path("back.sock"));
    let broker =
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--listen", &format!("unix:{back}"), "--shards", "1"]);
    let listen = format!("unix:{front}");
    let proxy =
        BrokerProcess::proxy(&["--listen", "127.0.0.1:0", "--listen", &listen, "--to", &format!("amqp+unix:{back}")]);
    assert_eq!(open(&mut UnixStream::connect(&front).expect("it listens")), "connection.open-ok");
    // Through two proxies, with bodies beyond their windows.
    let second = BrokerProcess::proxy(&["--listen", "127.0.0.1:0", "--to", &format!("amqp://{}", proxy.address)]);
    let mut client = Client::connect(&format!("amqp://{}", second.address)).expect("it listens");
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, "q", &QueueOptions::default()).expect("a queue");
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    for _ in 0..3 {
        client.publish(channel, &Publish::to("", "q"), &body).expect("written");
        let got = client.get(channel, "q", true).expect("an answer").expect("it is there");
        assert!(got.body() == body);
    }
    drop(client);
    let line = second.await_line("connection ended");
    assert_eq!(field(&line, "reason"), "closed", "{line}");
    for server in [second, proxy, broker] {
        server.signal(Signal::TERM);
        let (status, log) = server.end();
        assert_eq!(status, Some(0), "{log}");
    }
}

#[test]
fn a_connection_that_stays_does_not_keep_it_from_ending() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let proxy = BrokerProcess::proxy(&["--listen", "127.0.0.1:0", "--to", &broker.address, "--drain-timeout-s", "1"]);
    let mut stays = proxy.connect();
    assert_eq!(open(&mut stays), "connection.open-ok");
    proxy.signal(Signal::INT);
    proxy.await_line("connection ended");
    stays.read_exact(&mut [0]).expect_err("it was ended");
    let (status, log) = proxy.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("harrier proxy has stopped"), "{log}");
}

#[test]
fn a_broker_that_is_not_there_is_told_in_the_log() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").to_string();
    let proxy = BrokerProcess::proxy(&["--listen", "127.0.0.1:0", "--to", &free, "--stats-s", "1"]);
    TcpStream::connect(&proxy.address).expect("it listens").read_exact(&mut [0]).expect_err("nobody answers");
    let line = proxy.await_line("connection refused");
    assert!(field(&line, "reason").starts_with("the broker cannot be reached: Connection refused"), "{line}");
    let totals = proxy.await_line("\"unreachable\":1");
    assert!(totals.contains("\"accepted\":1"), "{totals}");
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.end().0, Some(0));
}

#[test]
fn what_keeps_it_from_starting_is_a_failure() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let said = |words: &[&str]| {
        let output = output(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let taken = said(&["proxy", "--listen", &broker.address, "--to", "h:1"]);
    assert!(taken.starts_with(&format!("harrier proxy: cannot listen on {}: ", broker.address)), "{taken}");
    if super::rdma::has_devices() {
        println!("SKIPPED: this machine has an RDMA device");
        return;
    }
    let no_device = said(&["proxy", "--listen", "127.0.0.1:0", "--to", "amqp+rdma://127.0.0.1"]);
    assert!(no_device.starts_with("harrier proxy: RDMA: "), "{no_device}");
}
