//! The program from outside: commands, exit statuses, errors, start and end.
//!
//! `HARRIER_BIN` names another program to test, `HARRIER_ATTACKS=full` makes floods as large as they were when they were found.

#[path = "../../link/tests/certificates/mod.rs"]
mod certificates;
#[path = "program/ctl.rs"]
mod ctl;
#[path = "program/ctl_commands.rs"]
mod ctl_commands;
#[path = "program/ctl_restarts.rs"]
mod ctl_restarts;
#[path = "program/definitions.rs"]
mod definitions;
#[path = "program/durable.rs"]
mod durable;
#[path = "program/durable_chain.rs"]
mod durable_chain;
#[path = "program/federated_queues.rs"]
mod federated_queues;
#[path = "program/federation.rs"]
mod federation;
#[path = "program/forced.rs"]
mod forced;
#[path = "program/generated_files.rs"]
mod generated_files;
#[path = "program/idle.rs"]
mod idle;
#[path = "program/killed_shovels.rs"]
mod killed_shovels;
#[path = "program/logins.rs"]
mod logins;
#[path = "program/logs.rs"]
mod logs;
#[path = "program/management.rs"]
mod management;
#[path = "program/management_tls.rs"]
mod management_tls;
#[cfg(feature = "market")]
#[path = "program/market.rs"]
mod market;
#[path = "program/passwords.rs"]
mod passwords;
#[cfg(feature = "topology")]
#[path = "program/plan.rs"]
mod plan;
#[path = "program/policies.rs"]
mod policies;
#[path = "program/proxy.rs"]
mod proxy;
#[path = "program/rdma.rs"]
mod rdma;
#[path = "program/revocations.rs"]
mod revocations;
#[path = "program/route.rs"]
mod route;
#[path = "program/runs.rs"]
mod runs;
#[path = "program/secrets.rs"]
mod secrets;
#[path = "program/shovels.rs"]
mod shovels;
#[path = "memory/size.rs"]
mod size;
#[path = "program/store_command.rs"]
mod store_command;
#[path = "program/tls.rs"]
mod tls;
#[path = "program/upstreams.rs"]
mod upstreams;

use harness::ready_line::ReadyLine;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use wire::method::{Method, connection};
use wire::{ChannelNumber, PROTOCOL_HEADER, ShortStr, Table, TableRef};

/// Longer than anything here takes: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at a condition, so that those who are to bring it about have the processor.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

fn harrier() -> Command {
    let program = std::env::var_os("HARRIER_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_harrier").into());
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
        command.env_remove(name);
    }
    command
}

fn output(words: &[&str]) -> Output {
    harrier().args(words).stdin(Stdio::null()).output().expect("the program runs")
}

/// A temporary folder, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("harrier-program-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        TempFolder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the folder is there");
    }
}

/// A broker or proxy process with a JSON log.
struct BrokerProcess {
    child: Child,
    lines: Receiver<String>,
    /// Its first address.
    address: String,
    ready: String,
}

impl BrokerProcess {
    fn start(words: &[&str]) -> Self {
        let mut broker = BrokerProcess::start_until(words, "harrier broker is ready");
        broker.address = first_address(&broker.ready);
        broker
    }

    /// A proxy on its own port.
    fn proxy(words: &[&str]) -> Self {
        let mut proxy = BrokerProcess::run_until("proxy", words, "harrier proxy is ready");
        proxy.address = first_address(&proxy.ready);
        proxy
    }

    /// Starts it and waits for a line of its log.
    fn start_until(words: &[&str], part: &str) -> Self {
        BrokerProcess::run_until("broker", words, part)
    }

    fn run_until(command: &str, words: &[&str], part: &str) -> Self {
        let mut program = harrier();
        program.args([command, "--log-format", "json"]);
        if command == "broker" {
            // Unless the test has a folder of its own.
            program.args(["--state", "none"]);
        }
        program.args(words);
        BrokerProcess::spawn(program, part)
    }

    fn spawn(mut program: Command, part: &str) -> Self {
        let mut child = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut broker = BrokerProcess { child, lines, address: String::new(), ready: String::new() };
        broker.ready = broker.await_line(part);
        broker
    }

    fn await_line(&self, part: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no {part:?} in the log: {error}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Waits until these messages have been logged so often, all of them together.
    fn await_logged(&self, messages: &[&str], count: usize) {
        let mut found = 0;
        while found < count as u64 {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{found} of {count} lines {messages:?}: {error}"));
            found += messages.iter().map(|message| logged(&line, message)).sum::<u64>();
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the broker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the broker runs");
    }

    /// Waits for the end of the process, and returns its status and the rest of the log.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            rest.push_str(&line);
            rest.push('\n');
        }
        (self.child.wait().expect("a status").code(), rest)
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Repeats until the condition holds.
#[expect(clippy::disallowed_methods, reason = "who waits in vain must end")]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool, told: impl Fn() -> String) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: {}", told());
        gauge::clock::pause(BETWEEN_LOOKS);
    }
}

/// Where a broker or a proxy listens first, of its line that it is ready.
fn first_address(line: &str) -> String {
    let ready = ReadyLine::parse(line).unwrap_or_else(|| panic!("{line} does not say that it is ready"));
    ready.addresses.into_iter().next().expect("it listens somewhere")
}

/// A text field of a JSON line.
fn field(line: &str, name: &str) -> String {
    let start = format!("\"{name}\":\"");
    let value = line.split_once(&start).and_then(|(_, rest)| rest.split_once('"'));
    value.unwrap_or_else(|| panic!("{name} in {line}")).0.to_owned()
}

/// How often a message was logged, with those that were summed up.
fn logged(log: &str, message: &str) -> u64 {
    let summed_up = format!(" more within a second: {message}");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("each line is JSON"));
    let counts = lines.map(|line| match line["message"].as_str() {
        Some(text) if text == message => 1,
        Some(text) if text.ends_with(&summed_up) => line["count"].as_u64().expect("how many there were"),
        _ => 0,
    });
    counts.sum()
}

/// Sends a login over TCP, and does not wait for its outcome.
fn begin_login(address: &str, user: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(&PROTOCOL_HEADER).expect("sent");
    read_frame(&mut stream);
    let response = [b"\0", user.as_bytes(), b"\0wrong"].concat();
    let start_ok = connection::StartOk {
        client_properties: TableRef::EMPTY,
        mechanism: ShortStr::literal("PLAIN"),
        response: &response,
        locale: ShortStr::literal("en_US"),
    };
    send(&mut stream, &start_ok.into());
    stream
}

fn read_frame(stream: &mut impl Read) -> Vec<u8> {
    let mut head = [0; 7];
    stream.read_exact(&mut head).expect("a frame's head");
    let mut rest = vec![0; u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize + 1];
    stream.read_exact(&mut rest).expect("a frame's rest");
    assert_eq!((head[0], rest.pop()), (1, Some(0xCE)), "a method frame");
    rest
}

fn send(stream: &mut impl Write, method: &Method<'_>) {
    let mut bytes = Vec::new();
    wire::encode_frame(ChannelNumber::CONNECTION, method, &mut bytes);
    stream.write_all(&bytes).expect("sent");
}

/// Logs in and opens `/`; returns the name of the last method.
fn open(stream: &mut (impl Read + Write)) -> &'static str {
    stream.write_all(&PROTOCOL_HEADER).expect("sent");
    let start = read_frame(stream);
    assert!(matches!(Method::decode(&start), Ok(Method::ConnectionStart(_))));
    let properties = Table::new().to_bytes();
    let start_ok = connection::StartOk {
        client_properties: TableRef::new(&properties),
        mechanism: ShortStr::literal("PLAIN"),
        response: b"\0guest\0guest",
        locale: ShortStr::literal("en_US"),
    };
    send(stream, &start_ok.into());
    let tune = read_frame(stream);
    let Ok(Method::ConnectionTune(tune)) = Method::decode(&tune) else { panic!("connection.tune") };
    let tune_ok = connection::TuneOk { channel_max: tune.channel_max, frame_max: tune.frame_max, heartbeat: 0 };
    send(stream, &tune_ok.into());
    send(stream, &connection::Open { virtual_host: ShortStr::literal("/") }.into());
    let answer = read_frame(stream);
    Method::decode(&answer).expect("a method").name()
}

#[test]
fn commands_and_their_statuses() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&[], 2, "usage: harrier COMMAND"),
        (&["brokr"], 2, "harrier: unknown command 'brokr'"),
        (&["help"], 0, "  broker  "),
        #[cfg(feature = "bench")]
        (&["--help"], 0, "  bench  "),
        (&["--version"], 0, concat!("harrier ", env!("CARGO_PKG_VERSION"), "\n")),
        (&["version"], 0, "harrier "),
        #[cfg(feature = "bench")]
        (&["bench", "--help"], 0, "de-spsc"),
        #[cfg(not(feature = "bench"))]
        (&["bench", "--help"], 2, "harrier: this program was built without the command 'bench'\n"),
        (&["broker", "--help"], 0, "--listen ADDRESS (repeatable)"),
        (&["broker", "--print-config", "--shards", "2"], 0, "\nshards = 2\n"),
        (&["ctl", "--help"], 0, "usage: harrier ctl [OPTIONS] COMMAND [ARGUMENTS]"),
        (&["proxy", "--help"], 0, "usage: harrier proxy --listen ADDRESS"),
        (&["proxy", "--to", "h:1"], 2, "harrier: proxy: --listen is missing"),
        (&["proxy", "--to", "h:1", "--listen", "here"], 2, "harrier: proxy: --listen: 'here' is no address: "),
        (&["store", "--help"], 0, "usage: harrier store check STATE"),
        (&["store", "check"], 2, "harrier: which state folder?"),
        (&["store", "check", "/nowhere"], 1, "harrier store: /nowhere: there is no such folder"),
        (&["ctl"], 64, "harrier: ctl needs a command"),
        (&["ctl", "definitions", "--url", "here"], 64, "harrier: 'here': expected amqp://"),
        (&["broker", "--shards"], 2, "harrier broker: --shards: it needs a value\n"),
        (&["broker", "--no-such-thing"], 2, "harrier broker: --no-such-thing: unknown option\n"),
        (&["broker", "--state", "none", "--listen", "here"], 2, "harrier broker: --listen: 'here' is no address: "),
        (&["broker", "--config", "/nowhere/h.toml"], 1, "harrier broker: /nowhere/h.toml: there is no such file\n"),
    ];
    for (words, status, expect) in cases {
        let output = output(words);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(*status), "{words:?}: {stderr}");
        let (said, silent) = if *status == 0 { (&stdout, &stderr) } else { (&stderr, &stdout) };
        assert!(said.contains(expect), "{words:?}: {said}");
        assert_eq!(&**silent, "", "{words:?}");
    }
}

#[test]
fn bad_configuration_is_told_with_file_and_line() {
    let folder = TempFolder::new("bad");
    let path = folder.path("harrier.toml");
    let account = "[[user]]\nname = \"u\"\npassword = \"p\"\n[[permission]]\nuser = \"u\"\nvhost = \"/\"\nwrite = \"\"\nread = \"\"\n";
    let cases = [
        ("\nshards = \"four\"\n".to_owned(), ":2: shards: an integer is needed, not a string\n"),
        ("\n\nshard = 4\n".to_owned(), ":3: shard: unknown setting; did you mean shards?\n"),
        ("listen = [\n\"a:1\",\n\"b\"]\n".to_owned(), ":1: listen: 'b' is no address: the port is missing"),
        (format!("{account}configure = \"(\"\n"), ":4: permission: "),
        (
            "users_max = 1\n[[user]]\nname = \"a\"\npassword = \"\"\n[[user]]\nname = \"b\"\npassword = \"\"\n"
                .to_owned(),
            ":5: user: ",
        ),
    ];
    for (text, expect) in cases {
        std::fs::write(&path, &text).expect("a file");
        for words in [
            &["broker", "--state", "none", "--config", &path][..],
            &["broker", "--state", "none", "--listen", "127.0.0.1:0", "--config", &path],
        ] {
            // The second option overrides the invalid address.
            if words.contains(&"--listen") && text.starts_with("listen") {
                continue;
            }
            let output = output(words);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{text}: {stderr}");
            assert!(stderr.starts_with(&format!("harrier broker: {path}{expect}")), "{text}: {stderr}");
        }
    }
    let output = harrier().args(["broker", "--print-config"]).env("HARRIER_SPIN_US", "1e3").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .starts_with("harrier broker: HARRIER_SPIN_US: '1e3' is no whole number")
    );
}

#[test]
fn an_address_in_use_is_a_failure() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    let second = output(&["broker", "--state", "none", "--listen", &broker.address]);
    assert_eq!(second.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(stderr.contains(&format!("harrier broker: cannot listen on {}: ", broker.address)), "{stderr}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it tells how long a start takes")]
fn it_starts_and_says_how() {
    let began = Instant::now();
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--memory-limit", "1GiB"]);
    drop(broker.connect());
    println!("a client is connected {} ms after the program was started", began.elapsed().as_millis());
    assert_eq!(field(&broker.ready, "version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field(&broker.ready, "level"), "INFO");
    for part in ["\"shards\":2,", "\"memory_limit_bytes\":1073741824,", "\"timestamp\":\"20"] {
        assert!(broker.ready.contains(part), "{part} in {}", broker.ready);
    }
}

#[test]
fn it_greets_over_tcp_and_unix_sockets() {
    let folder = TempFolder::new("greets");
    let path = folder.path("h.sock");
    let broker =
        BrokerProcess::start(&["--listen", "127.0.0.1:0", "--listen", &format!("unix:{path}"), "--shards", "1"]);
    let mut tcp = broker.connect();
    tcp.write_all(&PROTOCOL_HEADER).expect("sent");
    let start = read_frame(&mut tcp);
    let Ok(Method::ConnectionStart(start)) = Method::decode(&start) else { panic!("connection.start") };
    assert_eq!((start.version_major, start.version_minor, start.mechanisms), (0, 9, &b"PLAIN AMQPLAIN"[..]));
    let properties: Vec<_> = start
        .server_properties
        .iter()
        .map(|entry| entry.map(|(name, _)| String::from_utf8_lossy(name.as_bytes()).into_owned()).expect("an entry"))
        .collect();
    assert_eq!(
        properties,
        ["capabilities", "cluster_name", "copyright", "harrier", "information", "platform", "product", "version"]
    );
    // Clients check the emulated version; its own is beside it.
    for (name, expect) in [("product", "RabbitMQ"), ("version", "3.10.8"), ("harrier", env!("CARGO_PKG_VERSION"))] {
        assert_eq!(start.server_properties.get(name).and_then(|value| value.as_str()), Some(expect), "{name}");
    }
    let mut unix = UnixStream::connect(&path).expect("the broker listens");
    unix.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(open(&mut unix), "connection.open-ok");
    broker.signal(rustix::process::Signal::INT);
    drop((tcp, unix));
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(!Path::new(&path).exists(), "the socket's file is gone with the broker");
}

#[test]
fn another_protocol_is_answered_with_ours_and_closed() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1"]);
    for header in [&b"AMQP\0\x01\0\0"[..], b"HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = broker.connect();
        stream.write_all(header).expect("sent");
        let mut answer = [0; 8];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, PROTOCOL_HEADER);
        // Unread input may turn the broker's close into a reset.
        let closed = stream.read(&mut answer);
        assert!(
            matches!(&closed, Ok(0)) || closed.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        );
    }
}

#[test]
fn a_signal_drains_and_ends_with_status_0() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2"]);
    let mut clients = [broker.connect(), broker.connect(), broker.connect()];
    for client in &mut clients {
        assert_eq!(open(client), "connection.open-ok");
    }
    broker.signal(rustix::process::Signal::TERM);
    for client in &mut clients {
        let close = read_frame(client);
        let Ok(Method::ConnectionClose(close)) = Method::decode(&close) else { panic!("connection.close") };
        assert_eq!(close.reply_code, 320);
        send(client, &connection::CloseOk {}.into());
        assert_eq!(client.read(&mut [0]).expect("an end"), 0);
    }
    // A client that keeps its socket open after that is waited for, but not for long.
    drop(clients);
    let (status, log) = broker.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("harrier broker has stopped"), "{log}");
    assert!(log.contains("body_bytes_copied_in") && log.contains("body_bytes_copied_out"), "{log}");
}

#[test]
fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let mut program = harrier();
    program.args(["broker", "--state", "none", "--listen", "127.0.0.1:0", "--shards", "1", "--log-level", "debug"]);
    let mut child = program.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let ready =
        log.find(|line| line.as_ref().is_ok_and(|line| line.contains("is ready"))).expect("a line").expect("text");
    drop(log);
    let address = ready.split_once("addresses=\"").and_then(|(_, rest)| rest.split_once('"')).expect("addresses").0;
    let mut stream = TcpStream::connect(address).expect("the broker listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    assert_eq!(open(&mut stream), "connection.open-ok", "what it logs of that is lost, and nothing else");
    drop(stream);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("it runs");
    assert_eq!(child.wait().expect("a status").code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1", "--drain-timeout-s", "3600"]);
    let mut client = broker.connect();
    assert_eq!(open(&mut client), "connection.open-ok");
    broker.signal(rustix::process::Signal::TERM);
    // The client does not answer `connection.close`, so the broker would wait for it.
    broker.await_line("stopping");
    broker.signal(rustix::process::Signal::TERM);
    let (status, log) = broker.end();
    assert_eq!(status, Some(1), "{log}");
}

#[test]
fn open_files_are_raised_to_what_is_allowed() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "1", "--connections-max", "16"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", broker.child.id())).expect("Linux tells");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("its limit of open files");
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{line}");
}
