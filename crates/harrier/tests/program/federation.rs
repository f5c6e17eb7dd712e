//! Federated brokers as processes: kills, restarts, cut cables, transports, and peers that are not brokers.

use super::certificates::Authority;
use super::{BrokerProcess, TempFolder, field, harrier, wait_until};
use client::{Client, ConsumeOptions, ExchangeOptions, Publish, QueueOptions};
use rustix::process::Signal;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

fn route(words: &[&str]) -> Output {
    harrier().arg("route").args(words).stdin(Stdio::null()).output().expect("the program runs")
}

/// A successful command, with or without remarks.
pub(super) fn done(words: &[&str]) -> String {
    let output = route(words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(words: &[&str]) -> String {
    let output = route(words);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {why}");
    why
}

pub(super) fn links(of: &str) -> Vec<Json> {
    let found: Json = serde_json::from_str(&done(&["--json", "link", "list", of])).expect("JSON");
    found["links"].as_array().expect("links").clone()
}

pub(super) fn until_links(of: &str, what: &str, is_so: impl Fn(&[Json]) -> bool) {
    wait_until(what, || is_so(&links(of)), || format!("{:#?}", links(of)));
}

pub(super) fn runs(link: &Json) -> bool {
    link["routes"].as_array().is_some_and(|routes| routes.iter().all(|route| route["runs"] == true))
}

/// A broker with a name and a state folder. One that comes back is given the address that its predecessor had.
pub(super) fn named(folder: &TempFolder, name: &str, listen: &str, more: &[&str]) -> BrokerProcess {
    let state = folder.path(name);
    let words = ["--listen", listen, "--shards", "1", "--state", &state, "--cluster-name", name];
    BrokerProcess::start(&[&words[..], more].concat())
}

/// Messages that a sink takes at once.
const SINK_BATCH_MAX: usize = 256;

/// A consumer of numbers.
struct NumberSink {
    client: Client,
    /// Each with its redelivered mark.
    got: Vec<(u64, bool)>,
    /// How many probes were published before one arrived.
    tries: u64,
}

impl NumberSink {
    fn new(url: &str, exchange: &str, key: &str) -> Self {
        let mut client = Client::connect(url).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let queue = QueueOptions { exclusive: true, ..QueueOptions::default() };
        let queue = client.declare_queue(channel, "", &queue).expect("a queue").name;
        client.bind_queue(channel, &queue, exchange, key, &client::Table::new()).expect("bound");
        let options = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        client.consume(channel, &queue, &options).expect("consumes");
        NumberSink { client, got: Vec::new(), tries: 0 }
    }

    /// Takes what arrives until nothing has for `wait`. The number is bounded, because a source may never pause.
    fn take(&mut self, wait: Duration) {
        for _ in 0..SINK_BATCH_MAX {
            let Some(delivery) = self.client.next_delivery(wait).expect("the connection stands") else { return };
            let number = std::str::from_utf8(&delivery.body()[..12]).expect("a number").trim_start();
            let headers = delivery.properties.headers();
            let again = match headers.and_then(|headers| headers.get("x-received-from")) {
                Some(wire::ValueRef::List(hops)) => hops.iter().any(|hop| {
                    let flag = hop.expect("sound").as_table().and_then(|hop| hop.get("redelivered"));
                    matches!(flag, Some(wire::ValueRef::Bool(true)))
                }),
                other => panic!("{other:?} is no trace"),
            };
            match number.parse().expect("a number") {
                0 => self.tries += 1,
                number => self.got.push((number, again)),
            }
        }
    }

    /// Takes until a number at least this high has arrived.
    fn until(&mut self, number: u64, told: impl Fn() -> String) {
        let mut seen = 0;
        let mut arrived = false;
        let what = format!("number {number}");
        wait_until(
            &what,
            || {
                self.take(Duration::from_millis(50));
                arrived |= self.got[seen..].iter().any(|(came, _)| *came >= number);
                seen = self.got.len();
                arrived
            },
            told,
        );
    }

    fn last(&self) -> u64 {
        self.got.last().map_or(0, |(number, _)| *number)
    }

    /// Takes until a probe has arrived.
    fn until_any(&mut self, told: impl Fn() -> String) {
        let mut arrived = || {
            self.take(Duration::from_millis(50));
            self.tries > 0
        };
        wait_until("a first message", &mut arrived, told);
    }

    /// Asserts that first deliveries are in order and redeliveries are marked.
    fn assert_sound(&self) -> BTreeSet<u64> {
        let mut seen = BTreeSet::new();
        for (number, again) in &self.got {
            if seen.contains(number) {
                assert!(*again, "{number} came twice and does not say so");
            } else {
                assert!(seen.last().is_none_or(|last| last < number), "{number} came after {:?}", seen.last());
                seen.insert(*number);
            }
        }
        seen
    }
}

/// Messages that a source publishes before it waits for confirms.
const BATCH: u64 = 4;
/// The longest such wait: some thousand messages a second are enough load.
const PACE: Duration = Duration::from_millis(1);

/// Publishes numbers from 1 on with confirms until it is stopped.
struct NumberSource {
    stop: Arc<AtomicBool>,
    confirmed: Arc<AtomicU64>,
    thread: JoinHandle<u64>,
}

impl NumberSource {
    fn start(url: String, exchange: &'static str, key: &'static str, bytes: usize) -> Self {
        let (stop, confirmed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&confirmed));
        let thread = std::thread::spawn(move || {
            let mut client = Client::connect(&url).expect("connects");
            let channel = client.open_channel().expect("a channel");
            client.confirm_select(channel).expect("confirms");
            let mut next = 1;
            while !stopped.load(Ordering::Relaxed) {
                for number in next..next + BATCH {
                    let body = format!("{number:>12}{}", "x".repeat(bytes)).into_bytes();
                    client.publish(channel, &Publish::to(exchange, key), &body).expect("written");
                }
                next += BATCH;
                client.wait_confirms(channel, 0).expect("confirmed");
                assert_eq!(client.take_refused(channel).expect("open"), Vec::<u64>::new());
                counted.store(next, Ordering::Relaxed);
                let came = client.next_delivery(PACE).expect("the connection stands");
                assert!(came.is_none(), "it consumes nothing");
            }
            client.close().expect("closes");
            next
        });
        NumberSource { stop, confirmed, thread }
    }

    /// Waits until `more` further numbers are confirmed, and returns how many there are.
    fn until_more(&self, more: u64) -> u64 {
        let from = self.confirmed.load(Ordering::Relaxed);
        wait_until("confirmed", || self.confirmed.load(Ordering::Relaxed) >= from + more, String::new);
        self.confirmed.load(Ordering::Relaxed)
    }

    /// Returns the first number that was not published.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it published")
    }
}

/// Publishes until a message is routed.
pub(super) fn until_wanted(url: &str, exchange: &str, key: &str, told: impl Fn() -> String) {
    let mut client = Client::connect(url).expect("connects");
    let channel = client.open_channel().expect("a channel");
    client.confirm_select(channel).expect("confirms");
    let to = Publish { mandatory: true, ..Publish::to(exchange, key) };
    let mut goes = || {
        client.publish(channel, &to, format!("{:>12}", 0).as_bytes()).expect("written");
        client.wait_confirms(channel, 0).expect("confirmed");
        client.take_returned().is_none()
    };
    wait_until(key, &mut goes, told);
}

#[test]
fn a_chain_lives_on_when_its_middle_was_killed() {
    let folder = TempFolder::new("joined-chain");
    let root = named(&folder, "root", "127.0.0.1:0", &[]);
    let middle = named(&folder, "middle", "127.0.0.1:0", &[]);
    let place = middle.address.clone();
    let leaf = named(&folder, "leaf", "127.0.0.1:0", &[]);
    done(&["-d", "dynamic", "add", &place, &root.address, "amq.topic"]);
    done(&["-d", "dynamic", "add", &leaf.address, &place, "amq.topic"]);
    let at_root = format!("amqp://{}", root.address);
    let mut sink = NumberSink::new(&format!("amqp://{}", leaf.address), "amq.topic", "k.#");
    let told = || format!("{:#?}\n{:#?}", links(&place), links(&leaf.address));
    until_wanted(&at_root, "amq.topic", "k.first", told);
    let source = NumberSource::start(at_root.clone(), "amq.topic", "k.n", 200);
    sink.until(1_000, told);
    let arrived = sink.last();
    middle.signal(Signal::KILL);
    assert_eq!(middle.end().0, None);
    // Numbers from here on have only been at the root.
    let dead = source.until_more(0) + BATCH;
    until_links(&leaf.address, "it says that the middle is gone", |links| {
        links[0]["last_error"].is_string() && !runs(&links[0])
    });
    // The root continues for its publishers. The middle broker returns with its name and its routes.
    source.until_more(200);
    let middle = named(&folder, "middle", &place, &[]);
    let returns = |links: &[Json]| {
        let error = |link: &Json| link["routes"][0]["error"].as_str().map(str::to_owned);
        links.first().and_then(error).is_some_and(|why| why.contains("has just restarted"))
    };
    until_links(&place, "the middle lets those below ask first", returns);
    until_links(&leaf.address, "the leaf pulls", |links| runs(&links[0]));
    until_links(&place, "the middle pulls", |links| runs(&links[0]));
    source.until_more(200);
    let end = source.end();
    sink.until(end - 1, told);
    let seen = sink.assert_sound();
    // What the middle broker held is lost; nothing before it, nothing after.
    let lost: Vec<_> = (1..end).filter(|number| !seen.contains(number)).collect();
    println!("{end} published, {} of {arrived} to {dead} lost", lost.len());
    assert!(lost.iter().all(|number| (arrived..dead).contains(number)), "{arrived} {dead}: {lost:?}");
    drop(middle);
}

#[test]
fn durable_routes_outlive_restarts_of_either_side() {
    let folder = TempFolder::new("joined-restarts");
    let start = |name: &str, place: &str| named(&folder, name, place, &[]);
    let (root, leaf) = (start("root", "127.0.0.1:0"), start("leaf", "127.0.0.1:0"));
    let (above, below) = (root.address.clone(), leaf.address.clone());
    done(&["-d", "dynamic", "add", &below, &above, "amq.topic"]);
    let (up, down) = (format!("amqp://{above}"), format!("amqp://{below}"));
    let told = || format!("{:#?}", links(&below));
    let flows = |sink: &mut NumberSink| {
        until_wanted(&up, "amq.topic", "k.first", told);
        let source = NumberSource::start(up.clone(), "amq.topic", "k.n", 10);
        source.until_more(500);
        let end = source.end();
        sink.until(end - 1, told);
        assert_eq!(sink.assert_sound().len() as u64, end - 1);
        sink.got.clear();
    };
    let mut sink = NumberSink::new(&down, "amq.topic", "k.#");
    flows(&mut sink);
    // The consumer stays.
    root.signal(Signal::TERM);
    assert_eq!(root.end().0, Some(0));
    until_links(&below, "it says why", |links| links[0]["last_error"].is_string() && !runs(&links[0]));
    let root = start("root", &above);
    flows(&mut sink);
    // The destination's consumers reconnect; its route exists.
    leaf.signal(Signal::TERM);
    assert_eq!(leaf.end().0, Some(0));
    let leaf = start("leaf", &below);
    flows(&mut NumberSink::new(&down, "amq.topic", "k.#"));
    drop((root, leaf));
}

/// A network namespace with a broker's address in it, and a cable to it.
struct NetworkCable {
    namespace: String,
    near: String,
    far: String,
}

fn ip(words: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(words).output().map_err(|error| format!("there is no ip: {error}"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {}", words.join(" "), why.trim())) }
}

impl NetworkCable {
    fn new() -> Result<Self, String> {
        let id = std::process::id() % 100_000;
        let cable =
            NetworkCable { namespace: format!("hfed{id}"), near: format!("hfeda{id}"), far: format!("hfedb{id}") };
        let NetworkCable { namespace, near, far } = &cable;
        ip(&["netns", "add", namespace])?;
        ip(&["link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace])?;
        ip(&["address", "add", "10.213.77.1/30", "dev", near])?;
        ip(&["-n", namespace, "address", "add", "10.213.77.2/30", "dev", far])?;
        ip(&["link", "set", near, "up"])?;
        ip(&["-n", namespace, "link", "set", far, "up"])?;
        Ok(cable)
    }

    fn set(&self, state: &str) {
        ip(&["-n", &self.namespace, "link", "set", &self.far, state]).expect("it is our cable");
    }
}

impl Drop for NetworkCable {
    fn drop(&mut self) {
        // The cable disappears with the namespace; one that was never created cannot be removed.
        if let Err(why) = ip(&["netns", "delete", &self.namespace]) {
            println!("{why}");
        }
    }
}

#[test]
fn what_was_confirmed_arrives_over_a_cable_that_was_cut() {
    let cable = match NetworkCable::new() {
        Ok(cable) => cable,
        Err(why) => return println!("SKIPPED: no network namespace with a cable: {why}"),
    };
    let folder = TempFolder::new("joined-cable");
    let (unix, state) = (folder.path("h.sock"), folder.path("root"));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &cable.namespace, env!("CARGO_BIN_EXE_harrier"), "broker", "--log-format", "json"]);
    command.args(["--listen", "10.213.77.2:5672", "--listen", &format!("unix:{unix}"), "--state", &state]);
    command.args(["--cluster-name", "root", "--shards", "1", "--heartbeat-s", "1", "--loopback-users", "nobody"]);
    let root = BrokerProcess::spawn(command, "harrier broker is ready");
    let leaf = named(&folder, "leaf", "127.0.0.1:0", &[]);
    done(&["dynamic", "add", &leaf.address, "10.213.77.2:5672", "amq.topic"]);
    let up = format!("amqp+unix:{unix}");
    let mut sink = NumberSink::new(&format!("amqp://{}", leaf.address), "amq.topic", "k.#");
    let told = || format!("{:#?}", links(&leaf.address));
    until_wanted(&up, "amq.topic", "k.first", told);
    let source = NumberSource::start(up.clone(), "amq.topic", "k.n", 200);
    sink.until(1_000, told);
    cable.set("down");
    until_links(&leaf.address, "it says why", |links| {
        links[0]["last_error"].as_str().is_some_and(|why| why.contains("silent for two heartbeats")) && !runs(&links[0])
    });
    println!("{}", links(&leaf.address)[0]["last_error"]);
    source.until_more(1_000);
    cable.set("up");
    until_links(&leaf.address, "it runs again", |links| runs(&links[0]) && links[0]["state"] == "running");
    source.until_more(200);
    let end = source.end();
    sink.until(end - 1, told);
    let seen = sink.assert_sound();
    let lost: Vec<_> = (1..end).filter(|number| !seen.contains(number)).collect();
    assert!(lost.is_empty(), "of {end}: {lost:?}");
    println!("{end} published, {} came again", sink.got.len() - seen.len());
    drop(root);
}

#[test]
fn an_address_says_by_which_transport_a_link_goes() {
    let authority = Authority::new("joined-transports");
    let server = authority.issue("server", &["127.0.0.1"]);
    let shown = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let folder = TempFolder::new("joined-transports");
    let unix = folder.path("h.sock");
    let (certificate, key, socket) = (shown(&server.certificate), shown(&server.key), format!("unix:{unix}"));
    let more =
        ["--listen", &socket, "--listen", "tls://127.0.0.1:0", "--tls-certificates", &certificate, "--tls-keys", &key];
    let root = named(&folder, "root", "127.0.0.1:0", &more);
    let leaf = named(&folder, "leaf", "127.0.0.1:0", &[]);
    let addresses = field(&root.ready, "addresses");
    let tls = addresses.split(' ').find_map(|address| address.strip_prefix("tls://")).expect("one with TLS");
    let tls = format!("amqps://guest:guest@{tls}/%2F?cacertfile={}", shown(&authority.ca));
    let unix = format!("amqp+unix:{unix}");
    for (exchange, address, transport) in
        [("amq.topic", &*root.address, "tcp"), ("amq.direct", &tls, "tls"), ("amq.fanout", &unix, "unix")]
    {
        for ack in ["confirm", "none"] {
            done(&["dynamic", "add", "--ack", ack, &leaf.address, address, exchange]);
            let mut sink = NumberSink::new(&format!("amqp://{}", leaf.address), exchange, "k");
            let told = || format!("{:#?}", links(&leaf.address));
            until_wanted(&unix, exchange, "k", told);
            let source = NumberSource::start(unix.clone(), exchange, "k", 100_000);
            source.until_more(100);
            let end = source.end();
            sink.until(end - 1, told);
            assert_eq!(sink.assert_sound().len() as u64, end - 1);
            let link = &links(&leaf.address)[0];
            assert_eq!((&link["transport"], &link["state"]), (&transport.into(), &"running".into()), "{link}");
            done(&["-e", "dynamic", "del", &leaf.address, address, exchange]);
            assert_eq!(links(&leaf.address), Vec::<Json>::new());
        }
    }
}

/// A relay to a broker that cuts each connection after this many bytes from the broker.
fn cutter(to: &str, after: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let to = to.to_owned();
    std::thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            let Ok(mut far) = TcpStream::connect(&to) else { return };
            let (mut from, mut into) = (near.try_clone().expect("a handle"), far.try_clone().expect("a handle"));
            let there = std::thread::spawn(move || std::io::copy(&mut from, &mut into).ok());
            let mut left = after;
            let mut buffer = [0; 4096];
            while left > 0 {
                let most = left.min(buffer.len());
                match far.read(&mut buffer[..most]) {
                    Ok(count) if count > 0 && near.write_all(&buffer[..count]).is_ok() => left -= count,
                    _ => break,
                }
            }
            // A connection that is gone cannot be cut.
            let _ends = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
            let _copied = there.join();
        }
    });
    address
}

/// A server that answers connections with these words, or stays silent without any.
fn stranger(words: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            match words {
                Some(words) => {
                    // A client that leaves early has lost the words.
                    let _said = (stream.read(&mut [0; 8]), stream.write_all(words.as_bytes()));
                }
                None => kept.push(stream),
            }
        }
    });
    address
}

fn descriptors(of: &BrokerProcess) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", of.child.id())).expect("it runs").count()
}

#[test]
fn what_is_no_broker_or_dies_harms_nobody_else() {
    let folder = TempFolder::new("joined-strangers");
    let root = named(&folder, "root", "127.0.0.1:0", &[]);
    let leaf = named(&folder, "leaf", "127.0.0.1:0", &["--login-timeout-s", "1"]);
    let (dest, src) = (&*leaf.address, &*root.address);
    done(&["dynamic", "add", dest, src, "amq.topic"]);
    let (up, down) = (format!("amqp://{src}"), format!("amqp://{dest}"));
    let mut sink = NumberSink::new(&down, "amq.topic", "k.#");
    until_wanted(&up, "amq.topic", "k.first", || format!("{:#?}", links(dest)));
    let source = NumberSource::start(up, "amq.topic", "k.n", 100);
    sink.until(100, String::new);
    let before = descriptors(&leaf);
    // A broker that disconnects at every step of the handshake, and peers that are not brokers.
    let mut bad: Vec<_> = [0, 7, 400, 500, 515, 530, 545, 600, 700, 760].map(|after| cutter(src, after)).into();
    bad.push(stranger(Some("HTTP/1.1 400 Bad Request\r\n\r\n")));
    bad.push(stranger(Some("")));
    bad.push(stranger(None));
    for address in &bad {
        done(&["-q", "--force", "dynamic", "add", dest, address, "amq.fanout"]);
    }
    // Each reports why, though not at once: one that is cut late may run for a while.
    let mut whys = vec![None; bad.len()];
    let mut all_say_why = || {
        let links = links(dest);
        assert_eq!(links.len(), bad.len() + 1);
        for (link, why) in links[1..].iter().zip(&mut whys) {
            let state = link["state"].as_str().unwrap_or_default();
            if ["backing off", "refused", "connecting"].contains(&state) && !runs(link) {
                *why = link["last_error"].as_str().map(str::to_owned).or(why.take());
            }
        }
        whys.iter().all(Option::is_some)
    };
    wait_until("all say why", &mut all_say_why, || format!("{:#?}", links(dest)));
    let why = |back: usize| whys[whys.len() - back].clone().expect("it says why");
    assert!(why(3).starts_with("it does not speak AMQP 0-9-1: "), "{}", why(3));
    assert_eq!(why(2), "the other broker closed the connection");
    assert_eq!(why(1), "closed: the other broker did not answer as expected in time");
    let first = links(dest)[0].clone();
    assert_eq!((&first["state"], &first["connections"]), (&"running".into(), &1.into()), "{first}");
    source.until_more(100);
    let end = source.end();
    sink.until(end - 1, String::new);
    assert_eq!(sink.assert_sound().len() as u64, end - 1);
    // Routes that never ran are deleted, with everything queued for them.
    for address in &bad {
        done(&["link", "del", dest, address]);
    }
    wait_until("descriptors are given back", || descriptors(&leaf) <= before, || descriptors(&leaf).to_string());
    drop(sink);
    leaf.signal(Signal::TERM);
    let (status, log) = leaf.end();
    assert!(status == Some(0) && !log.contains("panic"), "{log}");
}

#[test]
fn names_may_be_long_and_odd() {
    let folder = TempFolder::new("joined-names");
    let root = named(&folder, "root", "127.0.0.1:0", &[]);
    let leaf = named(&folder, "leaf", "127.0.0.1:0", &[]);
    let (dest, src) = (&*leaf.address, &*root.address);
    let (up, down) = (format!("amqp://{src}"), format!("amqp://{dest}"));
    let long = |of: &str| format!("{of}{}", "l".repeat(255 - of.len()));
    for (number, name) in [long("x"), "a b/\u{e9}\u{1f985}\"%2F#*?&='\\".to_owned(), long("\u{e9}")].iter().enumerate()
    {
        for url in [&up, &down] {
            let mut client = Client::connect(url).expect("connects");
            let channel = client.open_channel().expect("a channel");
            client.declare_exchange(channel, name, "topic", &ExchangeOptions::default()).expect("declared");
        }
        for (how, key) in [("dynamic", long("d")), ("route", long("r"))] {
            let words = if how == "route" { vec![&*key] } else { Vec::new() };
            done(&[&[how, "add", dest, src, name], &words[..]].concat());
            let mut sink = NumberSink::new(&down, name, &key);
            until_wanted(&up, name, &key, || format!("{number}: {:#?}", links(dest)));
            sink.until_any(|| format!("{number}: {:#?}", links(dest)));
            done(&[&[how, "del", "-e", dest, src, name], &words[..]].concat());
        }
    }
    let long = "y".repeat(256);
    for words in [["dynamic", "add", dest, src, &long].as_slice(), &["route", "add", dest, src, "amq.topic", &long]] {
        println!("{}", refused(words));
    }
    println!("{}", refused(&["queue", "add", dest, src, "amq.topic", &long]));
}
