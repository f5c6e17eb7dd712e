//! A disk that fills up: of the system's own, in a file system of its own, and by calls that fail.

use super::broker::{Launcher, StoredBroker, TestStateFolder, harrier_by};
use super::fault_injector::{Fault, FaultyLife};
use super::{check_store, wait_until};
use client::{Client, ClientChannel, Publish, QueueOptions};
use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use wire::{Properties, RawProperties};

const QUEUE: &str = "kept";
const BODY_BYTES: usize = 100_000;
/// Most publishes without a confirm.
const WINDOW: u64 = 8;
/// A connection is looked at so often while it waits for something.
const LOOK: Duration = Duration::from_millis(20);

/// Publishes numbered messages with confirms.
struct Publisher {
    client: Client,
    channel: ClientChannel,
    published: u64,
}

impl Publisher {
    fn new(broker: &StoredBroker, first: u64) -> Publisher {
        let (mut client, channel) = broker.connect();
        let durable = QueueOptions { durable: true, ..QueueOptions::default() };
        client.declare_queue(channel, QUEUE, &durable).expect("a queue");
        client.confirm_select(channel).expect("confirms");
        Publisher { client, channel, published: first }
    }

    fn publish(&mut self) {
        let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", QUEUE) };
        let mut body = self.published.to_le_bytes().to_vec();
        body.resize(BODY_BYTES, 0);
        self.client.publish(self.channel, &to, &body).expect("published");
        self.published += 1;
    }

    /// Reads what the broker has sent, or sends within this time.
    fn look(&mut self, wait: Duration) {
        let none = self.client.next_delivery(wait).expect("a broker that runs");
        assert!(none.is_none(), "it consumes nothing");
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait_until(what, || {
            self.look(LOOK);
            is_so(self)
        });
    }

    fn outstanding(&self) -> u64 {
        self.client.outstanding(self.channel)
    }

    /// Publishes until the broker says that its disk is full.
    fn fill(&mut self) {
        wait_until("a full disk", || {
            if self.outstanding() < WINDOW {
                self.publish();
            }
            self.look(if self.outstanding() < WINDOW { Duration::ZERO } else { LOOK });
            self.client.blocked().is_some()
        });
        assert_eq!(self.client.blocked(), Some("low on disk"));
    }

    /// How many messages are confirmed: from the first one on.
    fn confirmed(&self) -> u64 {
        self.published - self.outstanding()
    }
}

/// Takes so many messages from the queue, which come in their order, and acknowledges them.
fn consume(broker: &StoredBroker, first: u64, count: u64) {
    let (mut client, channel) = broker.connect();
    for number in first..first + count {
        let message = client.get(channel, QUEUE, false).expect("consumers go on").expect("a message");
        assert_eq!(message.body()[..8], number.to_le_bytes());
        client.ack(channel, message.delivery_tag, false).expect("acknowledged");
    }
    client.close().expect("closed");
}

/// How many messages the queue has.
fn count(broker: &StoredBroker) -> u64 {
    let (mut client, channel) = broker.connect();
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    let messages = client.declare_queue(channel, QUEUE, &passive).expect("the queue").messages;
    client.close().expect("closed");
    messages.into()
}

#[test]
fn a_broker_that_cannot_make_segments_goes_on_when_it_can() {
    let folder = TestStateFolder::new("no-segments");
    let options = ["--disk-free-limit", "1"];
    let broker = StoredBroker::start(&folder, &options);
    let mut publisher = Publisher::new(&broker, 0);
    (0..WINDOW).for_each(|_| publisher.publish());
    publisher.until("the last confirm", |publisher| publisher.outstanding() == 0);
    broker.kill();
    let Some(life) = FaultyLife::new(&folder, Fault::Full(1)) else { return };
    let broker = StoredBroker::try_start_by(&life.launcher(&folder), &folder, &options);
    let broker = broker.unwrap_or_else(|(status, log)| panic!("{status}: {log}"));
    let mut publisher = Publisher::new(&broker, WINDOW);
    publisher.fill();
    // Where the first life had no time to make segments ahead, the journal of definitions meets it, and nothing more is read.
    assert!(!life.touched().is_empty());
    consume(&broker, 0, WINDOW);
    life.make_room();
    publisher.until("space", |publisher| publisher.client.blocked().is_none() && publisher.outstanding() == 0);
    (0..WINDOW).for_each(|_| publisher.publish());
    publisher.until("the last confirm", |publisher| publisher.outstanding() == 0);
    consume(&broker, WINDOW, publisher.published - WINDOW);
    broker.terminate();
    check_store(&folder);
}

/// Bytes of the file system that fills up.
const IMAGE_BYTES: u64 = 64 << 20;

/// A small ext4 in a file. It is mounted in a mount namespace of each broker, and so is gone with it, whatever happens to the
/// test; the loop device goes with the mount.
struct SmallFileSystem {
    image: std::path::PathBuf,
    folder: TestStateFolder,
}

impl SmallFileSystem {
    /// `None` where it cannot be mounted, which has been said.
    fn new(name: &str) -> Option<SmallFileSystem> {
        let folder = TestStateFolder::new(name);
        std::fs::create_dir(folder.root()).expect("a folder");
        let image = folder.root().with_added_extension("ext4");
        let file = std::fs::File::create(&image).expect("a file");
        file.set_len(IMAGE_BYTES).expect("its size");
        let system = SmallFileSystem { image, folder };
        let made = Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&system.image).output();
        let why = match made {
            Err(error) => format!("mkfs.ext4: {error}"),
            Ok(made) if !made.status.success() => String::from_utf8_lossy(&made.stderr).into_owned(),
            Ok(_) => {
                let mut words = system.words();
                words.push("true".into());
                let tried = Command::new(&words[0]).args(&words[1..]).output().expect("it runs");
                if tried.status.success() {
                    system.await_detached();
                    return Some(system);
                }
                String::from_utf8_lossy(&tried.stderr).into_owned()
            }
        };
        // Past the harness, which shows the output of failed tests only.
        writeln!(std::io::stdout(), "\nSKIPPED: a file system that fills up: {}", why.trim_end()).expect("output");
        None
    }

    fn words(&self) -> Vec<OsString> {
        let script = "mount -o loop \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let mut words: Vec<OsString> = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
            .into_iter()
            .map(OsString::from)
            .collect();
        words.extend([self.image.clone().into(), self.folder.root().into()]);
        words
    }

    fn start(&self, options: &[&str]) -> StoredBroker {
        let broker = StoredBroker::try_start_by(&Launcher(self.words()), &self.folder, options);
        broker.unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
    }

    /// Waits until nothing has it mounted: the system unmounts it after the last process is gone.
    fn await_detached(&self) {
        wait_until("the end of the mount", || {
            let devices = Command::new("losetup").arg("--associated").arg(&self.image).output().expect("it runs");
            devices.stdout.is_empty()
        });
    }

    fn check(&self) {
        let mut command = harrier_by(&Launcher(self.words()));
        let check = command.args(["store", "check"]).arg(self.folder.root()).stdin(Stdio::null()).output();
        let check = check.expect("it runs");
        assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
        self.await_detached();
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the file system is {}", self.image.display());
        } else {
            std::fs::remove_file(&self.image).expect("it was made");
        }
    }
}

/// Fills the disk, kills the broker, and starts it again on the full disk; consumers make room.
fn fill_and_make_room(name: &str, options: &[&str]) {
    let Some(system) = SmallFileSystem::new(name) else { return };
    let broker = system.start(options);
    let mut publisher = Publisher::new(&broker, 0);
    publisher.fill();
    let confirmed = publisher.confirmed();
    assert!(confirmed > 0, "the disk has room for some");
    consume(&broker, 0, 2);
    broker.kill();
    system.await_detached();
    system.check();

    let broker = system.start(options);
    let found = count(&broker);
    assert!(found >= confirmed - 2, "{found} of {confirmed} messages are there, and 2 were acknowledged");
    let (mut client, channel) = broker.connect();
    let message = client.get(channel, QUEUE, false).expect("consumers go on").expect("a message");
    let first = u64::from_le_bytes(*message.body().first_chunk().expect("a number"));
    assert!(first <= 2, "message {first} is the first one");
    client.close().expect("closed");
    // The message goes back to its queue, which may be another shard's.
    wait_until("the message in its queue", || count(&broker) == found);
    let mut publisher = Publisher::new(&broker, first + found);
    publisher.fill();
    // All but one: what is done with makes room.
    consume(&broker, first, found - 1);
    publisher.until("space", |publisher| publisher.client.blocked().is_none() && publisher.outstanding() == 0);
    (0..WINDOW).for_each(|_| publisher.publish());
    publisher.until("the last confirm", |publisher| publisher.outstanding() == 0);
    consume(&broker, first + found - 1, publisher.published - (first + found - 1));
    assert_eq!(count(&broker), 0);
    broker.terminate();
    system.await_detached();
    system.check();
}

#[test]
fn a_file_system_that_fills_up_holds_publishers_and_loses_nothing() {
    fill_and_make_room("full", &["--disk-free-limit", "1"]);
}

#[test]
fn publishers_are_held_before_a_file_system_is_full() {
    fill_and_make_room("low", &["--disk-free-limit", "4MiB"]);
}
