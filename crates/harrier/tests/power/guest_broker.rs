//! A broker in a guest, whose state folder is on the guest's disk. Killing it switches the machine off.

use super::broker::{TestBroker, harrier};
use super::volatile_disk::VolatileDisk;
use super::{PATIENCE, guest_program};
use client::{Client, ClientChannel, ClientError};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What a broker logs when clients may connect.
const READY: &str = "harrier broker is ready";
/// How long a power failure that comes behind a write is waited for. There may be no such write.
const FAILURE_AWAITED: Duration = Duration::from_secs(2);
/// Where it listens in the guest.
const PORT: u16 = 5672;
/// Its guest lives no longer.
const GUEST_S_MAX: &str = "600";
/// Mounts the disk and runs the broker, whose status is the guest's. Segments are small, so that several are filled.
const IN_THE_GUEST: &str = r#"
    modprobe -a virtio_blk ext4 && mkdir -p /disk && mount -t ext4 -o data=ordered /dev/vda /disk || exit 99
    "$0" broker --listen "$LAB_ADDRESS:$1" --loopback-users nobody --shards 2 --log-format json \
        --segment-bytes 4MiB --disk-free-limit 8MiB --state /disk/state
"#;

pub struct GuestBroker {
    guest: Child,
    lines: Receiver<String>,
    /// Its log up to the line that says that it is ready.
    log: String,
    port: u16,
    disk: Arc<VolatileDisk>,
}

impl GuestBroker {
    /// Starts a broker that must become ready.
    pub fn start(disk: &Arc<VolatileDisk>) -> Self {
        GuestBroker::try_start(disk).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
    }

    /// Starts a broker. Returns its status and its log if it ends before it is ready.
    pub fn try_start(disk: &Arc<VolatileDisk>) -> Result<Self, (ExitStatus, String)> {
        // The guest takes the port when this listener is gone.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = Command::new(guest_program().expect("the test was not skipped"));
        command.args(["-c", "1", "-m", "768", "-t", GUEST_S_MAX, "--forward", &format!("{port}:{PORT}"), "--disk"]);
        command.arg(disk.socket()).args(["--", "bash", "-c", IN_THE_GUEST]);
        command.arg(harrier().get_program()).arg(PORT.to_string());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
            command.env_remove(name);
        }
        // Where its files are if it is killed: they go with the disk's folder.
        command.env("TMPDIR", disk.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut guest = command.spawn().expect("the guest starts");
        let log = BufReader::new(guest.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut broker = GuestBroker { guest, lines, log: String::new(), port, disk: disk.clone() };
        while let Ok(line) = broker.lines.recv_timeout(PATIENCE) {
            broker.log.push_str(&line);
            broker.log.push('\n');
            if line.contains(READY) {
                return Ok(broker);
            }
        }
        Err((broker.guest.wait().expect("it ends"), std::mem::take(&mut broker.log)))
    }

    /// Waits until the broker has ended, and the guest with it. Returns the broker's status, and what it logged since it was ready.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let log: Vec<String> = self.lines.iter().collect();
        (self.guest.wait().expect("it ends"), log.join("\n"))
    }
}

impl TestBroker for GuestBroker {
    fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}/%2F", self.port)
    }

    fn try_connect(&self) -> Result<(Client, ClientChannel), ClientError> {
        let mut client = Client::connect(&self.url())?;
        let channel = client.open_channel()?;
        Ok((client, channel))
    }

    /// Switches the machine off when the power of its disk has failed, if it does.
    fn kill(mut self) {
        self.disk.wait_for_failure(FAILURE_AWAITED);
        self.guest.kill().expect("it runs");
        self.guest.wait().expect("it ends");
    }
}

impl Drop for GuestBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.guest.kill();
        let _status = self.guest.wait();
    }
}
