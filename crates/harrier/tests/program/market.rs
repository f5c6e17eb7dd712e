//! `harrier market`: every order is answered exactly once, over any transport, after a kill, and with foreign input.

use super::{BETWEEN_LOOKS, BrokerProcess, PATIENCE, TempFolder, harrier, output};
use client::{Client, ConsumeOptions, Properties, Publish, QueueOptions, RawProperties};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Trading options of all runs here.
const TRADING: [&str; 6] = ["--orders", "20000", "--seed", "7", "--sample", "5000"];

/// How long a sweep of eight runs may take: a busy machine needs a multiple of what a quiet one does.
const SWEEP_PATIENCE: Duration = Duration::from_secs(180);

/// A market program; killed on drop.
struct MarketProcess(Child);

impl MarketProcess {
    fn start(words: &[&str]) -> Self {
        let mut command = harrier();
        command.arg("market").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("the program starts"))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Waits until its output file has this many bytes.
    fn until_written(&mut self, file: &str, bytes: u64) {
        until(PATIENCE, || {
            assert_eq!(self.0.try_wait().expect("a child"), None, "it ended early");
            std::fs::metadata(file).map_or(0, |file| file.len()) >= bytes
        });
    }

    /// Waits for its end, and returns status and output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.0.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        let mut errors = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
        (self.0.wait().expect("a child").code(), text + &errors)
    }

    /// Its results, after a successful end.
    fn found(self) -> Value {
        let (status, text) = self.end();
        assert_eq!(status, Some(0), "{text}");
        serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_else(|why| panic!("{why}: {text}"))
    }
}

impl Drop for MarketProcess {
    fn drop(&mut self) {
        // It may have ended long ago.
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Child processes of a process.
fn children(pid: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    children.split_whitespace().map(str::to_owned).collect()
}

/// Waits for a condition on another process.
#[expect(clippy::disallowed_methods, reason = "who waits in vain must end")]
fn until(limit: Duration, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "it does not come");
        gauge::clock::pause(BETWEEN_LOOKS);
    }
}

/// The number of consumers of an existing queue.
fn consumers(client: &mut Client, channel: client::ClientChannel, queue: &str) -> u32 {
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    client.declare_queue(channel, queue, &passive).expect("it is there").consumers
}

/// Runs a market with the common options, and returns its output.
fn run(words: &[&str]) -> String {
    let output: Output = output(&[&["market", "run", "--rate", "max"], words, &TRADING].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.ends_with("# every order was answered exactly once, and every measurement reached the reporter\n"),
        "{text}"
    );
    text
}

fn checksum(text: &str) -> &str {
    text.split("checksum of all trades ").nth(1).and_then(|rest| rest.get(..16)).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn the_same_seed_trades_the_same_whatever_carries_it() {
    let folder = TempFolder::new("market");
    let file = folder.path("measurements.jsonl");
    let text = run(&["--file", &file]);
    assert!(text.contains("; 8 of 8 measurements; "), "{text}");
    let lines = std::fs::read_to_string(&file).expect("the measurements");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let of = |from: &'static str| lines.iter().filter(move |line| line["from"] == from);
    assert_eq!((of("gateway").count(), of("engine").count()), (4, 4));
    let completed: u64 = of("gateway").map(|line| line["completion"]["count"].as_u64().expect("a count")).sum();
    assert_eq!(completed, 20_000, "every order is in one histogram");
    assert_eq!(of("engine").map(|line| line["orders"].as_u64().expect("a count")).sum::<u64>(), 20_000);

    let broker =
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--listen", &format!("unix:{}", folder.path("broker.sock"))]);
    let unix = format!("amqp+unix:{}", folder.path("broker.sock"));
    for words in [
        &["--broker-options", "--shards 2"][..],
        &["--window", "100", "--url", &unix],
        &["--confirms"],
        &["--confirms", "--kill-engine-after", "0.3"],
    ] {
        assert_eq!(checksum(&run(words)), checksum(&text), "{words:?}");
    }
    drop(broker);
    // Symbols are divided among gateways, so that trades do not depend on which gateway is first.
    let gateways = ["--gateways", "3"];
    assert_eq!(checksum(&run(&gateways)), checksum(&run(&gateways)));
    assert_ne!(checksum(&run(&["--matching", "exact"])), checksum(&text));
}

#[test]
fn a_killed_engine_loses_no_order_and_makes_no_trade_twice() {
    let folder = TempFolder::new("market-killed");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0"]);
    let (url, journal) = (format!("amqp://{}", broker.address), folder.path("engine.journal"));
    let place = ["--url", url.as_str(), "--name", "killed", "--json"];
    let engine =
        || MarketProcess::start(&[&["engine", "--journal", &journal, "--sample", "5000"], &place[..]].concat());
    let gateway = ["gateway", "--rate", "max", "--window", "300", "--confirms"];
    let mut first = engine();
    let gateway = MarketProcess::start(&[&gateway[..], &TRADING, &place].concat());
    // A journal entry has 18 bytes: the first engine is killed in the middle of the run.
    first.until_written(&journal, 18 * 3_000);
    first.signal(rustix::process::Signal::KILL);
    drop(first);
    let second = engine();
    let (gateway, engine) = (gateway.found(), second.found());
    assert_eq!((&gateway["orders"], &gateway["answered"]), (&Value::from(20_000), &Value::from(20_000)), "{gateway}");
    for count in ["missing", "missing_quotes", "strays", "malformed", "refused"] {
        assert_eq!(gateway[count], 0, "{count}: {gateway}");
    }
    assert_eq!((&engine["orders"], &engine["missing"]), (&Value::from(20_000), &Value::from(0)), "{engine}");
    let replayed = engine["replayed"].as_u64().expect("a count");
    assert!((1..20_000).contains(&replayed), "{engine}");
    for count in ["trades", "confirmations", "quotes"] {
        assert_eq!(gateway[count], engine[count], "{count}");
    }
    assert_eq!(gateway["checksum"], engine["checksum"]);
    // The same result as without a kill and without confirms.
    let whole = run(&[]);
    assert_eq!(format!("{:016x}", engine["checksum"].as_u64().expect("a number")), checksum(&whole));
}

#[test]
fn rubbish_is_rejected_and_the_engine_goes_on() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0"]);
    let url = format!("amqp://{}", broker.address);
    let place = ["--url", url.as_str(), "--name", "rubbish", "--json"];
    let folder = TempFolder::new("market-rubbish");
    let file = folder.path("measurements.jsonl");
    let engine = MarketProcess::start(&[&["engine", "--sample", "5000"], &place[..]].concat());
    let mut client = Client::connect(&url).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    let options = QueueOptions { exclusive: true, ..QueueOptions::default() };
    let answers = client.declare_queue(channel, "", &options).expect("a queue").name;
    let consumer = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
    client.consume(channel, &answers, &consumer).expect("a consumer");
    let reply_to = Some(answers.as_str().try_into().expect("a short name"));
    let properties = Properties { reply_to, ..Properties::default() }.to_bytes();
    let to = |key| Publish { properties: RawProperties::new(&properties), ..Publish::to("rubbish", key) };
    // Whichever program is first declares all objects; here it is the engine.
    let mut tail = MarketProcess::start(&[&["tail", "--count", "9"], &place[..4]].concat());
    let mut heard = BufReader::new(tail.0.stderr.take().expect("a pipe"));
    let mut line = String::new();
    heard.read_line(&mut line).expect("a line");
    assert!(line.contains("listening to 'rubbish'"), "{line}");
    // Inputs without a readable order: empty, too short, too long, an unknown kind, an engine's answer.
    let long = vec![0x1f; 100_000];
    let none: [(&[u8], u8); 5] =
        [(b"", 1), (b"\x1f", 1), (&long, 1), (b"\x0f\0\0\x20\0\x0a\0\0\0", 2), (b"\x4f\0\0\0\0\0\0", 3)];
    for (body, _) in none {
        client.publish(channel, &to("orders"), body).expect("sent");
    }
    // Rejected orders of an unknown gateway: no quantity, price 0, price too high, no such symbol.
    for (number, body) in
        [*b"\0\0\x20\0\0", *b"\0\0\0\0\x0a", *b"\0\0\xff\xff\x0a", *b"\xff\xff\x20\0\x0a"].iter().enumerate()
    {
        let order = [&[0x1f][..], body, &[0, 0, number as u8]].concat();
        client.publish(channel, &to("orders"), &order).expect("sent");
    }
    for (body, reason) in none {
        let delivery = client.next_delivery(PATIENCE).expect("a connection").expect("a rejection");
        assert_eq!(delivery.body(), [0x60, 0, 0, 0, 0, 0, 0, reason], "{} bytes", body.len());
    }
    // Rejections whose sender names no queue: the reporter gets them while it runs.
    let reporter = MarketProcess::start(&[&["reporter", "--file", &file], &place[..]].concat());
    until(PATIENCE, || consumers(&mut client, channel, "rubbish.statistics") == 1);
    client.publish(channel, &Publish::to("rubbish", "orders"), b"\x1f").expect("sent");
    // An order far ahead of the last one: five are missing. Nobody sells at its price.
    client.publish(channel, &to("orders"), b"\x1f\0\0\0\x01\x0a\0\0\x09").expect("sent");
    client.flush().expect("sent");
    let gateway = MarketProcess::start(&[&["gateway", "--rate", "max"], &TRADING[..], &place].concat());
    let (gateway, engine) = (gateway.found(), engine.found());
    assert_eq!(gateway["answered"], 20_000, "{gateway}");
    assert_eq!(
        (&engine["orders"], &engine["rejects"], &engine["malformed"]),
        (&20_005.into(), &4.into(), &6.into()),
        "{engine}"
    );
    assert_eq!((&engine["unaddressed"], &engine["missing"]), (&5.into(), &5.into()), "{engine}");
    reporter.signal(rustix::process::Signal::TERM);
    let reporter = reporter.found();
    assert_eq!((&reporter["engine"], &reporter["rejections"], &reporter["strays"]), (&4.into(), &1.into(), &0.into()));
    let lines = std::fs::read_to_string(&file).expect("the measurements");
    let rejections: Vec<&str> = lines.lines().filter(|line| line.contains("rejected")).collect();
    assert_eq!(rejections, [r#"{"from":"engine","rejected":"wrong length"}"#]);
    let mut seen = String::new();
    tail.0.stdout.take().expect("a pipe").read_to_string(&mut seen).expect("text");
    let seen: Vec<&str> = seen.lines().collect();
    assert_eq!(seen.len(), 9, "{seen:?}");
    assert_eq!(seen[0], "orders not a message (wrong length): 0 bytes");
    assert_eq!(seen[4], "orders confirmation gateway=15 number=0 sequence=0");
    assert_eq!(seen[8], "orders order gateway=15 sequence=3 buy symbol=65535 price=8192 lots=10");
}

#[test]
fn an_interrupted_market_leaves_nothing() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0"]);
    let url = format!("amqp://{}", broker.address);
    let words = ["run", "--url", &url, "--rate", "500", "--orders", "100000000", "--sample", "100"];
    let folder = TempFolder::new("market-cut");
    let file = folder.path("measurements.jsonl");
    let mut market = MarketProcess::start(&[&words[..], &["--file", &file]].concat());
    market.until_written(&file, 1);
    let children = children(market.0.id());
    assert_eq!(children.len(), 3, "reporter, engine, gateway");
    market.signal(rustix::process::Signal::INT);
    let (status, text) = market.end();
    assert_eq!(status, Some(130), "{text}");
    assert!(text.ends_with("harrier market: interrupted\n"), "{text}");
    for pid in children {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
    let listed = output(&["ctl", "definitions", "--url", &url]);
    let definitions: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|why| panic!("{why}: {listed:?}"));
    let left = |kind: &str| definitions[kind].as_array().map_or(0, Vec::len);
    assert_eq!((left("exchanges"), left("queues")), (0, 0), "{definitions}");
}

/// The state letter of a process, and the processors of each of its threads.
fn state(pid: u32) -> (char, Vec<String>) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let letter = stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state");
    let allowed = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("processors");
        line.trim().to_owned()
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let threads = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    (letter, threads.map(allowed).collect())
}

#[test]
fn a_sweep_tries_places_and_stops_who_is_not_measured() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0"]);
    let pid = broker.child.id();
    let (_, before) = state(pid);
    // The first processor that this test itself may use.
    let first: String = before[0].chars().take_while(char::is_ascii_digit).collect();
    let (url, place) =
        (format!("amqp://{}", broker.address), format!("broker={first},publisher={first},consumer={first}"));
    let folder = TempFolder::new("market-places");
    let json = folder.path("sweep.json");
    let words = ["sweep", "--rates", "max", "--runs", "2", "--against", &url, "--json", &json, "--pause-others"];
    let mut sweep = MarketProcess::start(&[&words[..], &["--also-cpus", &place], &TRADING].concat());
    let (mut stopped, mut moved) = (false, before.len() == 1 && before[0] == first);
    until(SWEEP_PATIENCE, || {
        let (letter, processors) = state(pid);
        stopped |= letter == 'T';
        moved |= processors.iter().all(|one| *one == first);
        sweep.0.try_wait().expect("a child").is_some()
    });
    let (status, text) = sweep.end();
    assert_eq!(status, Some(0), "{text}");
    assert!(stopped && moved, "stopped {stopped}, moved {moved}: {text}");
    let rows: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("max")).map(str::trim).collect();
    let other = format!("harrier {}", broker.address);
    assert_eq!(rows.len(), 8, "two runs of two brokers in two places: {text}");
    for (index, row) in rows.iter().enumerate() {
        let name = format!("{} @{} ", if index % 2 == 0 { "harrier" } else { &other }, index / 2 % 2 + 1);
        assert!(row.starts_with(&name), "{name}: {row}");
    }
    let best = text.lines().find(|line| line.starts_with("#   max orders/s: harrier @")).expect("who is best");
    assert!(best.contains(&format!("; {other} @")) && best.ends_with(" times harrier's"), "{best}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).expect("it is written")).expect("JSON");
    let series = document["series"].as_array().expect("series");
    let places: Vec<&str> = series.iter().filter_map(|one| one["parameters"]["cpus"].as_str()).collect();
    let (anywhere, there) = ("broker=any publisher=any consumer=any", place.replace(',', " "));
    assert_eq!(places, [anywhere, anywhere, &there, &there]);
    let (letter, after) = state(pid);
    assert!(letter != 'T' && after.iter().all(|one| *one == before[0]), "{letter} {after:?}");

    // Stopped brokers continue when the sweep is interrupted.
    let words = ["sweep", "--rates", "100", "--seconds", "3600", "--against", &url, "--pause-others"];
    let mut sweep = MarketProcess::start(&words);
    until(PATIENCE, || {
        assert_eq!(sweep.0.try_wait().expect("a child"), None, "it ended early");
        state(pid).0 == 'T' && children(sweep.0.id()).len() == 4
    });
    sweep.signal(rustix::process::Signal::INT);
    assert_eq!(sweep.end().0, Some(130));
    assert_ne!(state(pid).0, 'T');
}

#[test]
fn wrong_words_are_told_as_such() {
    for (words, expected) in [
        (&["market"][..], "usage: harrier market COMMAND"),
        (&["market", "stall"], "unknown command 'stall'"),
        (&["market", "run", "--rate", "fast"], "--rate is a number of orders a second"),
        (&["market", "run", "--kill-engine-after", "1"], "without --confirms"),
        (&["market", "reporter"], "--file says where"),
        (&["market", "tail", "--hex", "1"], "--hex is an even number"),
        (&["market", "max", "--limit", "1ms"], "--limit is a quantile and a time"),
        (&["market", "sweep", "--rates", ""], "--rate is a number"),
        (&["market", "sweep", "--also-cpus", "any"], "is given twice"),
        (&["market", "sweep", "--also-cpus", "engine=0"], "unknown role 'engine'"),
    ] {
        let output = output(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        assert!(errors.contains(expected), "{words:?}: {errors}");
    }
    for command in ["run", "sweep", "max", "tail", "gateway", "engine", "reporter"] {
        let help = output(&["market", command, "--help"]);
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(help.status.success() && text.contains("Examples\n  harrier market "), "{text}");
    }
    let said = output(&["market", "tail", "--hex", "10000120000a000000"]);
    assert_eq!(said.stdout, b"order gateway=0 sequence=0 buy symbol=1 price=8192 lots=10\n");
}
