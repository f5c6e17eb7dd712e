//! Processor wake-up latency while messages flow: what the broker requests from the system.

use super::{BrokerProcess, PATIENCE, first_address, harrier};
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};
use rustix::process::Signal;
use std::fs::File;
use std::io::Read;
use std::process::Command;

const LATENCY_FILE: &str = "/dev/cpu_dma_latency";

/// The lowest latency bound that any process has requested.
fn bound_us() -> std::io::Result<i32> {
    let mut bytes = [0; 4];
    File::open(LATENCY_FILE)?.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

fn bound() -> i32 {
    bound_us().expect("it was there before")
}

/// A client that sends messages to itself.
struct Talker {
    client: Client,
    channel: ClientChannel,
    queue: String,
}

impl Talker {
    fn new(broker: &BrokerProcess) -> Self {
        let mut client = Client::connect(&format!("amqp://{}", broker.address)).expect("a connection");
        let channel = client.open_channel().expect("a channel");
        let options = QueueOptions { exclusive: true, ..QueueOptions::default() };
        let queue = client.declare_queue(channel, "", &options).expect("a queue").name;
        let consumer = ConsumeOptions { no_ack: true, ..ConsumeOptions::default() };
        client.consume(channel, &queue, &consumer).expect("a consumer");
        Talker { client, channel, queue }
    }

    /// Sends a message and receives it.
    fn talk(&mut self) {
        self.client.publish(self.channel, &Publish::to("", &self.queue), b"m").expect("sent");
        self.client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    }
}

fn until(what: &str, is_so: impl FnMut() -> bool) {
    super::wait_until(what, is_so, || format!("the bound is {} us", bound()));
}

/// A broker that sees another file in place of the system's.
fn with_another_file(arrange: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{arrange} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_harrier")]);
    command.args(["broker", "--state", "none", "--log-format", "json", "--listen", "127.0.0.1:0"]);
    command.args(["--idle-processors", "poll"]);
    command
}

#[test]
fn processors_are_held_awake_while_messages_flow() {
    let before = match bound_us() {
        Err(error) => return println!("SKIPPED: idle processors: {LATENCY_FILE}: {error}"),
        Ok(bound_us) if bound_us <= 2 => {
            return println!("SKIPPED: idle processors: somebody else holds them awake, at {bound_us} us");
        }
        Ok(bound_us) => bound_us,
    };
    for (word, expect) in [("sleep", before), ("doze", 2), ("poll", 0)] {
        let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--idle-processors", word]);
        let mut talker = Talker::new(&broker);
        assert_eq!(bound(), before, "{word}: there were no messages");
        for _again in 0..2 {
            until(word, || {
                talker.talk();
                bound() == expect
            });
            until("at rest", || bound() == before);
        }
        until(word, || {
            talker.talk();
            bound() == expect
        });
        broker.signal(Signal::KILL);
        until("killed", || bound() == before);
    }
}

#[test]
fn a_system_that_does_not_do_so() {
    let trial = with_another_file("true").arg("--print-config").output().expect("a shell");
    if !trial.status.success() {
        return println!("SKIPPED: idle processors: no mounts: {}", String::from_utf8_lossy(&trial.stderr));
    }
    if !std::path::Path::new(LATENCY_FILE).exists() {
        return println!("SKIPPED: idle processors: there is no {LATENCY_FILE} to hide");
    }
    // A file that cannot be opened is an error.
    let sealed = format!("mount --bind /proc/version {LATENCY_FILE} && mount -o remount,bind,ro {LATENCY_FILE}");
    let broker = BrokerProcess::spawn(with_another_file(&sealed), "cannot keep processors from sleeping");
    let why = "/dev/cpu_dma_latency: Read-only file system (os error 30) (idle_processors = \"sleep\" leaves them to the system)";
    assert!(broker.ready.contains(why), "{}", broker.ready);
    assert_eq!(broker.end().0, Some(1));
    // A file that refuses writes is reported, and messages flow.
    let full = with_another_file(&format!("mount --bind /dev/full {LATENCY_FILE}"));
    let mut broker = BrokerProcess::spawn(full, "harrier broker is ready");
    broker.address = first_address(&broker.ready);
    let mut talker = Talker::new(&broker);
    talker.talk();
    let told = broker.await_line("cannot bound the wake-up latency of processors");
    assert!(told.contains("No space left on device") && told.contains("\"level\":\"WARN\""), "{told}");
    talker.talk();
    drop(talker);
    broker.signal(Signal::TERM);
    // At its end it withdraws the request, which is refused as well: it was reported once.
    let (status, rest) = broker.end();
    assert_eq!((status, rest.contains("cannot bound")), (Some(0), false), "{rest}");
}

#[test]
fn it_is_one_of_three_words() {
    let output = harrier().args(["broker", "--idle-processors", "nap"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.starts_with("harrier broker: --idle-processors: 'nap' is not one of sleep, doze, poll"), "{why}");
}
