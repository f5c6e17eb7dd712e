//! What is measured: a broker in a process of its own, a broker that runs somewhere, or a relay.
//!
//! Enters: a command or a URL.  Leaves: where to connect, and which process to watch.
//! Owns:   what it started; dropping a target ends it.
//! Never:  stops a broker that it did not start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use client::Url;

use crate::interrupt;
use crate::limits::{BROKER_READY_WAIT, ROLE_READY_WAIT};
use crate::placement::{Cpus, Pinned, Placement};
use crate::process::{Process, Role, launched, this_program};
use crate::role::task::RelayTask;
use gauge::clock::{Deadline, pause};
use gauge::listener_on;

/// Something that messages go through.
pub struct Target {
    /// Name in tables.
    pub name: String,
    /// Where clients connect.
    pub way: Way,
    /// The process to watch, if it is on this machine.
    pub pid: Option<u32>,
    /// What was started for it, ended when the target is dropped.
    _started: Started,
}

/// How to reach a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// AMQP at this URL.
    Amqp(String),
    /// Raw bytes through a relay on this port.
    Raw(u16),
}

#[expect(dead_code, reason = "kept only to be dropped with the target")]
enum Started {
    Nothing,
    Broker(Process),
    Relay(Role),
    Scripted(Scripted),
}

impl Target {
    /// A broker that runs already.
    pub fn at(url: &str) -> Result<Self, String> {
        let parsed = Url::parse(url).map_err(|error| error.to_string())?;
        let port = parsed.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Ok(Self {
            name: parsed.address,
            way: Way::Amqp(url.to_owned()),
            pid: port.and_then(listener_on),
            _started: Started::Nothing,
        })
    }

    /// This program's own broker, in a process of its own on a free port. `command` replaces `harrier broker`;
    /// `--listen ADDRESS` is added to it.
    pub fn embedded(command: Option<&str>, extra: &[String], cpus: &Cpus) -> Result<Self, String> {
        let port = free_port()?;
        let words: Vec<String> = match command {
            Some(command) => command.split_whitespace().map(str::to_owned).collect(),
            // Its log would stand between the rows of the table.
            None => [&*this_program()?.to_string_lossy(), "broker", "--log-level", "warn"].map(str::to_owned).into(),
        };
        let (program, rest) = words.split_first().ok_or("the broker's command is empty")?;
        let mut arguments = rest.to_vec();
        arguments.extend(["--listen".to_owned(), format!("127.0.0.1:{port}")]);
        arguments.extend_from_slice(extra);
        let mut command = launched(cpus, program, &arguments)?;
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process::start("broker", &mut command)?;
        await_port(port, || process.check_alive())?;
        let pid = Some(process.pid());
        Ok(Self {
            name: "harrier".to_owned(),
            way: Way::Amqp(format!("amqp://127.0.0.1:{port}")),
            pid,
            _started: Started::Broker(process),
        })
    }

    /// The floor: a relay that polls `spin_us` before it sleeps.
    pub fn relay(spin_us: u64, cpus: &Cpus) -> Result<Self, String> {
        let mut role = Role::start("relay", &RelayTask { spin_us }, cpus)?;
        let port = role.ready(ROLE_READY_WAIT)?;
        let name = if spin_us == 0 { "relay".to_owned() } else { format!("relay, {spin_us} us spin") };
        Ok(Self { name, way: Way::Raw(port), pid: Some(role.pid()), _started: Started::Relay(role) })
    }

    /// A broker that the scripts `start DIR PORT` and `stop DIR` in `scripts` start and stop (`tests/rabbitmq`).
    pub fn scripted(name: &str, scripts: &Path, directory: PathBuf) -> Result<Self, String> {
        let port = free_port()?;
        let scripted = Scripted { scripts: scripts.to_owned(), directory };
        let output = Command::new(scripts.join("start"))
            .arg(&scripted.directory)
            .arg(port.to_string())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("{}: {error}", scripts.join("start").display()))?;
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        if !output.status.success() {
            return Err(format!("{name} cannot be started ({})", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let url = value("url ").ok_or_else(|| format!("{name} does not say its URL"))?;
        let pid = value("pid ").and_then(|pid| pid.parse().ok());
        Ok(Self { name: name.to_owned(), way: Way::Amqp(url.to_owned()), pid, _started: Started::Scripted(scripted) })
    }

    /// Moves a target that this program did not place at its start; the guard moves it back.
    pub fn place(&self, placement: &Placement) -> Result<Option<Pinned>, String> {
        match (self.pid, placement.broker.is_any()) {
            (Some(pid), false) => Pinned::move_process(pid, &placement.broker).map(Some),
            _ => Ok(None),
        }
    }
}

struct Scripted {
    scripts: PathBuf,
    directory: PathBuf,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        match Command::new(self.scripts.join("stop")).arg(&self.directory).arg("--wipe").stdin(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => eprintln!("harrier bench: {} failed ({status})", self.scripts.join("stop").display()),
            Err(error) => eprintln!("harrier bench: {}: {error}", self.scripts.join("stop").display()),
        }
    }
}

/// A port that was free just now.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("no free port: {error}"))?;
    Ok(listener.local_addr().map_err(|error| error.to_string())?.port())
}

fn await_port(port: u16, mut alive: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let deadline = Deadline::after(BROKER_READY_WAIT);
    loop {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        alive()?;
        if TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_millis(200))
            .is_ok()
        {
            return Ok(());
        }
        if deadline.passed() {
            return Err(format!("the broker does not listen on port {port} after {} s", BROKER_READY_WAIT.as_secs()));
        }
        pause(Duration::from_millis(5));
    }
}
