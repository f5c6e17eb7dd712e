//! A broker in a guest, whose state folder is on a disk of the guest. Killing it switches the machine off.

use super::broker::{TestBroker, harrier};
use super::{PATIENCE, guest_program};
use client::{Client, ClientChannel, ClientError};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// What a broker logs when clients may connect.
const READY: &str = "harrier broker is ready";
/// Where it listens in the guest.
const PORT: u16 = 5672;
/// Its guest lives no longer.
const GUEST_S_MAX: &str = "600";
/// Mounts the disk and runs the broker, whose status is the guest's. Segments are small, so that several are filled. Commands are
/// lines that come over the guest's control device, which the status and the words of each go back over. A broker that ends
/// is followed by another one if /run/again says with how many shards.
const IN_THE_GUEST: &str = r#"
    harrier=$0 port=$1 type=$2 options=$3 prepare=$4 finish=$5
    device=/dev/vda shards=2
    modprobe -a virtio_blk "$type" && eval "$prepare" && mkdir -p /disk && mount -t "$type" "$device" /disk || exit 99
    [ -z "$LAB_CONTROL" ] || {
        exec 3<>"$LAB_CONTROL"
        while read -r line <&3; do
            words=$(eval "$line" 2>&1)
            printf '%s\t%s\n' $? "${words//$'\n'/$'\t'}" >&3
        done &
    }
    while :; do
        "$harrier" broker --listen "$LAB_ADDRESS:$port" --loopback-users nobody --shards "$shards" --log-format json \
            --segment-bytes 4MiB --disk-free-limit 8MiB --state /disk/state $options &
        echo $! >/run/broker
        wait $!
        status=$?
        [ -e /run/again ] || break
        shards=$(cat /run/again)
        rm /run/again
    done
    eval "$finish"
    exit $status
"#;

/// What a guest's broker has its state on.
pub trait GuestDisk: Send + Sync + 'static {
    /// Where files of the test are.
    fn folder(&self) -> &Path;

    /// Disks of the guest, as `guest --disk` takes them.
    fn disks(&self) -> Vec<PathBuf>;

    /// Type of the file system, as `mount` takes it.
    fn file_system(&self) -> &str {
        "ext4"
    }

    /// Options of the broker.
    fn options(&self) -> &str {
        ""
    }

    /// The socket that the guest's control device leads to.
    fn control(&self) -> Option<PathBuf> {
        None
    }

    /// What the guest does before the disk is mounted: it may name another device.
    fn prepare(&self) -> &str {
        ":"
    }

    /// What the guest does once the broker has ended by itself.
    fn finish(&self) -> &str {
        ":"
    }

    /// The broker is ready.
    fn is_used(&self) {}

    /// The guest is about to be switched off.
    fn before_kill(&self) {}

    /// It was switched off.
    fn after_kill(&self) {}
}

pub struct GuestBroker {
    guest: Child,
    lines: Receiver<String>,
    /// Its log up to the line that says that it is ready.
    log: String,
    port: u16,
    disk: Arc<dyn GuestDisk>,
}

impl GuestBroker {
    /// Starts a broker that must become ready.
    pub fn start(disk: &Arc<impl GuestDisk>) -> Self {
        GuestBroker::try_start(disk).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
    }

    /// Starts a broker. Returns its status and its log if it ends before it is ready.
    pub fn try_start(disk: &Arc<impl GuestDisk>) -> Result<Self, (ExitStatus, String)> {
        // The guest takes the port when this listener is gone.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut command = Command::new(guest_program().expect("the test was not skipped"));
        command.args(["-c", "1", "-m", "768", "-t", GUEST_S_MAX, "--forward", &format!("{port}:{PORT}")]);
        for path in disk.disks() {
            command.arg("--disk").arg(path);
        }
        if let Some(socket) = disk.control() {
            command.arg("--control").arg(socket);
        }
        command.args(["--", "bash", "-c", IN_THE_GUEST]).arg(harrier().get_program()).arg(PORT.to_string());
        command.args([disk.file_system(), disk.options(), disk.prepare(), disk.finish()]);
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
        if broker.await_ready() {
            disk.is_used();
            return Ok(broker);
        }
        Err((broker.guest.wait().expect("it ends"), std::mem::take(&mut broker.log)))
    }

    /// Waits until a broker in the guest is ready. Returns whether it is, and has not ended.
    pub fn await_ready(&mut self) -> bool {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.log.push_str(&line);
            self.log.push('\n');
            if line.contains(READY) {
                return true;
            }
        }
        false
    }

    /// Waits until the broker has ended, and the guest with it. Returns the broker's status, and what it logged since it was last
    /// waited for.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let log: Vec<String> = self.lines.iter().collect();
        (self.guest.wait().expect("it ends"), log.join("\n"))
    }

    /// The same, with all that was logged.
    pub fn wait_with_log(mut self) -> (ExitStatus, String) {
        let log = std::mem::take(&mut self.log);
        let (status, rest) = self.wait();
        (status, log + &rest)
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
        self.disk.before_kill();
        self.guest.kill().expect("it runs");
        self.guest.wait().expect("it ends");
        self.disk.after_kill();
    }
}

impl Drop for GuestBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.guest.kill();
        let _status = self.guest.wait();
    }
}
