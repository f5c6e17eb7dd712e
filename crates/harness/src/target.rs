//! What is measured: a broker started by this program, a running broker, or a relay in a broker's place.
//!
//! Dropping a target terminates what it started; a broker that was already running is never stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use client::{Table, Url, Value};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::broker_log::LogDisplay;
use crate::broker_process::BrokerProcess;
use crate::interrupt;
use crate::launcher::{is_local_address, stand_in_address};
use crate::limits::{BROKER_READY_WAIT, ROLE_READY_WAIT};
use crate::placement::{CpuList, CpuPlacement, PinnedProcess};
use crate::role_client::connect;
use crate::role_handle::RoleHandle;
use crate::role_tasks::{RelayTask, StandInTask, TlsFiles};
use crate::scratch::ScratchDirectory;
use crate::scripted_broker::{ScriptedBroker, StartedBroker};
use crate::tcp::TcpOptions;
use gauge::clock::{Deadline, pause};
use gauge::{is_alive, listener_at, listener_on};
use report::document::TargetFacts;
use wire::Escaped;

pub struct BenchmarkTarget {
    /// Its name in tables.
    pub name: String,
    /// Known facts; `identify` adds those that a broker announces.
    pub facts: TargetFacts,
    pub address: TargetAddress,
    /// Where its management API and, behind it, metrics are served, if it was started here and has told.
    pub management: Vec<String>,
    /// The process to meter, if it is on this machine.
    pub pid: Option<u32>,
    /// The process started for it, ended when the target is dropped.
    _process: TargetProcess,
    /// Its state folder, deleted once the process has ended.
    _state: Option<ScratchDirectory>,
}

/// How clients reach a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    /// AMQP at this URL.
    Amqp(String),
    /// Raw bytes through a relay.
    RawRelay {
        relay: SocketAddr,
        /// Its certificate, if it uses TLS.
        certificate: Option<PathBuf>,
    },
    /// A sink: publishers only.
    Sink(String),
    /// A source: consumers only.
    Source(String),
    /// Raw bytes to the receiving side of the socket baseline.
    SocketBaseline(SocketAddr),
}

#[expect(dead_code, reason = "kept only to be dropped with the target")]
enum TargetProcess {
    Nothing,
    Broker(BrokerProcess),
    Role(RoleHandle),
    Scripted(ScriptedBroker),
}

/// Finds the process of a broker on this host. Listeners of RDMA devices cannot be looked up, so the TCP listener is used: the one
/// that issues tokens, or the one at the same port.
fn process_of(url: &Url) -> Option<u32> {
    if let Some(path) = url.address.strip_prefix("unix:") {
        return listener_at(Path::new(path));
    }
    // A listener at this port is the broker only if the address is local.
    let port = |address: &str| address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let by_tcp = url.via.as_deref().unwrap_or(&url.address);
    is_local_address(by_tcp).then(|| port(by_tcp).and_then(listener_on)).flatten()
}

impl BenchmarkTarget {
    /// A target without a state folder and a management API.
    fn new(name: &str, facts: TargetFacts, address: TargetAddress, pid: Option<u32>, process: TargetProcess) -> Self {
        let name = name.to_owned();
        Self { name, facts, address, management: Vec::new(), pid, _process: process, _state: None }
    }

    /// A broker that is already running.
    pub fn at(url: &str) -> Result<Self, String> {
        let parsed = Url::parse(url).map_err(|error| error.to_string())?;
        let pid = process_of(&parsed);
        let (facts, way) = (facts_of(&parsed.address), TargetAddress::Amqp(url.to_owned()));
        Ok(Self::new(&parsed.address, facts, way, pid, TargetProcess::Nothing))
    }

    /// Sets the socket options of its clients.
    pub fn set_tcp(&mut self, tcp: &TcpOptions) -> Result<(), String> {
        if let TargetAddress::Amqp(url) | TargetAddress::Sink(url) | TargetAddress::Source(url) = &mut self.address {
            *url = tcp.on_url(url)?;
        }
        Ok(())
    }

    /// Connects to the broker and reads what it announces. A broker that refuses the login is detected here and not in the
    /// middle of a run. `tcp_is_set`: the broker was started with these options. Does nothing for relays.
    pub fn identify(&mut self, tcp: &TcpOptions, tcp_is_set: bool) -> Result<(), String> {
        let TargetAddress::Amqp(url) = &self.address else { return Ok(()) };
        let parsed = Url::parse(url).map_err(|error| error.to_string())?;
        let client = connect(url, "introduction").map_err(|error| refusal(&parsed, &error))?;
        let properties = client.server_properties();
        let text = |name: &str| properties.get(name).and_then(Value::as_str).map(|text| Escaped(text).to_string());
        // Harrier announces itself as RabbitMQ, and its own version in a property beside that.
        (self.facts.product, self.facts.version) = match text("harrier") {
            Some(version) => (Some("Harrier".to_owned()), Some(version)),
            None => (text("product"), text("version")),
        };
        self.facts.capabilities = capabilities(properties);
        self.facts.tcp = tcp.facts(url, tcp_is_set);
        // The transport in use, which may be TCP although the URL asks for RDMA.
        client.transport().clone_into(&mut self.facts.transport);
        if let Some(why) = client.used_fallback() {
            cli::print_error(&format!("harrier bench: {} is reached by TCP, not over RDMA: {why}", self.name));
        }
        if self.facts.transport == "rdma" && self.pid.is_none() && is_local_address(&parsed.address) {
            let name = &self.name;
            cli::print_error(&format!(
                "harrier bench: no process is known that listens at {name}: its processor time and memory are not measured; an address with via=tcp:PORT names one that is found"
            ));
        }
        client.close().map_err(|error| refusal(&parsed, &error))
    }

    /// Sets its name in tables and in the document.
    pub fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
        name.clone_into(&mut self.facts.name);
    }

    /// This program's own broker, in a child process. `command` replaces `harrier broker`; `--listen ADDRESS` is added to it.
    pub fn embedded(command: Option<&str>, extra: &[String], cpus: &CpuList) -> Result<Self, String> {
        Self::started(command, extra, cpus, "127.0.0.1:0", |place| format!("amqp://{place}"))
    }

    /// The same with a state folder of its own, which is made in `dir`.
    pub fn embedded_with_state(
        command: Option<&str>,
        extra: &[String],
        cpus: &CpuList,
        dir: &Path,
    ) -> Result<Self, String> {
        let state = ScratchDirectory::new_in(dir)?;
        let words = [&["--state".to_owned(), state.path().to_string_lossy().into_owned()], extra].concat();
        Ok(Self { _state: Some(state), ..Self::embedded(command, &words, cpus)? })
    }

    /// The same with TLS and this certificate, which its clients trust.
    pub fn embedded_tls(
        command: Option<&str>,
        extra: &[String],
        cpus: &CpuList,
        files: &TlsFiles,
    ) -> Result<Self, String> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = extra.to_vec();
        words.extend(["--tls-certificates".to_owned(), shown(&files.certificate)]);
        words.extend(["--tls-keys".to_owned(), shown(&files.key)]);
        let url = |place: &str| format!("amqps://{place}/%2F?cacertfile={}", shown(&files.certificate));
        let mut target = Self::started(command, &words, cpus, "tls://127.0.0.1:0", url)?;
        "tls".clone_into(&mut target.facts.transport);
        Ok(target)
    }

    fn started(
        command: Option<&str>,
        extra: &[String],
        cpus: &CpuList,
        listen: &str,
        url: impl FnOnce(&str) -> String,
    ) -> Result<Self, String> {
        let options = [&["--listen".to_owned(), listen.to_owned()], extra].concat();
        let mut process = match command {
            Some(command) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                BrokerProcess::start_command(&words, &options, cpus, LogDisplay::Shown)?
            }
            None => BrokerProcess::start(&options, cpus, LogDisplay::Shown)?,
        };
        let ready = process.await_ready(BROKER_READY_WAIT);
        // What it logged before it ended explains why, and has been shown once its log is read to the end.
        if ready.is_err() && process.check_alive().is_err() {
            process.end();
            return Err(ready.err().unwrap_or_default());
        }
        let ready = ready?;
        let place = ready.first()?;
        let pid = Some(process.pid());
        let (facts, way) = (facts_of(place), TargetAddress::Amqp(url(place)));
        let target = Self::new("harrier", facts, way, pid, TargetProcess::Broker(process));
        Ok(Self { management: ready.management, ..target })
    }

    /// The floor: a relay that polls for `spin_us` before it sleeps.
    pub fn relay(spin_us: u64, cpus: &CpuList) -> Result<Self, String> {
        let address = stand_in_address()?;
        Self::relay_to(&RelayTask { address, spin_us, consumers: 1, tcp: TcpOptions::default(), tls: None }, cpus)
    }

    /// The floor with TLS: it decrypts and encrypts all bytes.
    pub fn relay_tls(files: &TlsFiles, cpus: &CpuList) -> Result<Self, String> {
        let (address, tcp) = (stand_in_address()?, TcpOptions::default());
        Self::relay_to(&RelayTask { address, spin_us: 0, consumers: 1, tcp, tls: Some(files.clone()) }, cpus)
    }

    /// The floor of a fan-out: each publisher's bytes are copied to each of its consumers.
    pub fn relay_to(task: &RelayTask, cpus: &CpuList) -> Result<Self, String> {
        let spin_us = task.spin_us;
        let mut role = RoleHandle::start("relay", task, cpus)?;
        let port = role.ready(ROLE_READY_WAIT)?;
        let name = if spin_us == 0 { "relay".to_owned() } else { format!("relay, {spin_us} us spin") };
        let mut facts = stand_in("relay");
        name.clone_into(&mut facts.name);
        let certificate = task.tls.as_ref().map(|files| files.certificate.clone());
        let way = TargetAddress::RawRelay { relay: SocketAddr::new(task.address, port), certificate };
        Ok(Self::new(&name, facts, way, role.pid(), TargetProcess::Role(role)))
    }

    /// The load generator's own ceiling, as three targets: a sink for publishers, a source for consumers, and the socket
    /// baseline.
    pub fn null(cpus: &CpuList) -> Result<[Self; 3], String> {
        let url = |end: SocketAddr| format!("amqp://{end}");
        Ok([
            Self::start_stand_in("null-sink", "null", cpus, |end| TargetAddress::Sink(url(end)))?,
            Self::start_stand_in("null-source", "null", cpus, |end| TargetAddress::Source(url(end)))?,
            Self::start_stand_in("one-hop", "hop-end", cpus, TargetAddress::SocketBaseline)?,
        ])
    }

    /// Starts a process of this program in the broker's place.
    fn start_stand_in(
        name: &str,
        kind: &str,
        cpus: &CpuList,
        way: impl Fn(SocketAddr) -> TargetAddress,
    ) -> Result<Self, String> {
        let address = stand_in_address()?;
        let mut role = RoleHandle::start(kind, &StandInTask { address }, cpus)?;
        let port = role.ready(ROLE_READY_WAIT)?;
        let mut facts = stand_in("null");
        name.clone_into(&mut facts.name);
        let (way, pid) = (way(SocketAddr::new(address, port)), role.pid());
        Ok(Self::new(name, facts, way, pid, TargetProcess::Role(role)))
    }

    /// A broker that is started and stopped by the scripts `start DIR PORT` and `stop DIR` in `scripts` (`tests/rabbitmq`).
    pub fn scripted(name: &str, scripts: &Path, directory: PathBuf) -> Result<Self, String> {
        let scripted = ScriptedBroker { scripts: scripts.to_owned(), directory };
        let output = Command::new(scripts.join("start"))
            .arg(&scripted.directory)
            .arg("0")
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("{}: {error}", scripts.join("start").display()))?;
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        if !output.status.success() {
            return Err(format!("{name} cannot be started ({})", output.status));
        }
        let StartedBroker { url, pid } = StartedBroker::parse(&String::from_utf8_lossy(&output.stdout));
        let url = url.ok_or_else(|| format!("{name} did not print its URL"))?;
        let facts = facts_of(&Url::parse(&url).map_err(|error| error.to_string())?.address);
        Ok(Self::new(name, facts, TargetAddress::Amqp(url), pid, TargetProcess::Scripted(scripted)))
    }

    /// Whether its process is on this machine and ends within the time.
    pub fn exits_within(&self, wait: Duration) -> bool {
        let Some(pid) = self.pid else { return false };
        let deadline = Deadline::after(wait);
        loop {
            let is_gone = !is_alive(pid);
            if is_gone || deadline.passed() {
                return is_gone;
            }
            pause(Duration::from_millis(5));
        }
    }

    /// The port for TCP clients, if there is one.
    pub fn tcp_port(&self) -> Option<u16> {
        let TargetAddress::Amqp(url) = &self.address else { return None };
        let address = Url::parse(url).ok()?.address;
        let is_tcp = !["unix:", "amqp+rdma://", "amqp+rsocket://"].iter().any(|other| address.starts_with(other));
        is_tcp.then(|| address.rsplit_once(':')?.1.parse().ok()).flatten()
    }

    /// Pins a target that this program did not start; dropping the guard undoes it.
    pub fn pin(&self, placement: &CpuPlacement) -> Result<Option<PinnedProcess>, String> {
        match (self.pid, placement.broker.is_any()) {
            (Some(pid), false) => PinnedProcess::move_process(pid, &placement.broker).map(Some),
            _ => Ok(None),
        }
    }

    /// Stops its process with SIGSTOP until the guard is dropped, so that it takes no processor time from another target.
    ///
    /// # Errors
    /// An unknown process, or one that may not be stopped.
    pub fn pause(&self) -> Result<PausedProcess, String> {
        let pid = self
            .pid
            .ok_or_else(|| format!("{} cannot be paused: its process is unknown or on another host", self.name))?;
        let pid = Pid::from_raw(pid as i32);
        kill(pid, Signal::SIGSTOP).map_err(|error| format!("{} cannot be paused: {error}", self.name))?;
        Ok(PausedProcess(pid))
    }
}

/// A stopped process, continued when dropped.
pub struct PausedProcess(Pid);

impl Drop for PausedProcess {
    fn drop(&mut self) {
        // Fails only if the process has ended, which is detected in its next turn.
        let _ended = kill(self.0, Signal::SIGCONT);
    }
}

/// Facts of a stand-in for a broker.
fn stand_in(transport: &str) -> TargetFacts {
    TargetFacts { transport: transport.to_owned(), ..TargetFacts::default() }
}

/// Facts known from the address alone.
fn facts_of(address: &str) -> TargetFacts {
    let (transport, url) = match (address.strip_prefix("unix:"), address.split_once("://")) {
        (Some(path), _) => ("unix", format!("amqp+unix:{path}")),
        (None, Some(("tls", place))) => ("tls", format!("amqps://{place}")),
        (None, Some(("amqp+rsocket", _))) => ("rsocket", address.to_owned()),
        (None, Some(_)) => ("rdma", address.to_owned()),
        (None, None) => ("tcp", format!("amqp://{address}")),
    };
    TargetFacts { transport: transport.to_owned(), url: Some(url), ..TargetFacts::default() }
}

/// The names of the capabilities that a broker announces as true.
fn capabilities(properties: &Table) -> Vec<String> {
    let Some(Value::Table(capabilities)) = properties.get("capabilities") else { return Vec::new() };
    let able = capabilities.iter().filter(|(_, value)| matches!(value, Value::Bool(true)));
    able.map(|(name, _)| Escaped(String::from_utf8_lossy(name.as_bytes())).to_string()).collect()
}

/// Explains why a broker cannot be measured and what to do about it.
fn refusal(url: &Url, error: &client::ClientError) -> String {
    let Url { address, user, vhost, .. } = url;
    match error {
        // RabbitMQ reports a failed login with code 403; Qpid uses a code that others use for virtual hosts.
        client::ClientError::ConnectionClosed { code, text } if *code == 403 || text.contains("uthentication") => {
            format!("{address}: the broker refuses the login of '{user}': {code} {text}")
        }
        client::ClientError::ConnectionClosed { code: code @ (402 | 530 | 404), text } => {
            format!("{address}: the broker refuses the virtual host '{vhost}': {code} {text}")
        }
        client::ClientError::Link(why) => format!("{address}: cannot connect to the broker: {why}"),
        client::ClientError::Unexpected { .. } | client::ClientError::Protocol(_) => {
            format!("{address}: what listens there does not speak AMQP 0-9-1 as expected: {error}")
        }
        other => format!("{address}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_over_rdma_is_found_where_it_listens_by_tcp() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let found = |url: String| process_of(&Url::parse(&url).expect("an address"));
        let me = Some(std::process::id());
        assert_eq!(found(format!("amqp://127.0.0.1:{port}")), me);
        assert_eq!(found(format!("amqp+rdma://127.0.0.1:{port}")), me);
        assert_eq!(found(format!("amqp+rdma://127.0.0.1:1?via=tcp:{port}")), me);
        assert_eq!(found(format!("amqp+rdma://127.0.0.1:1?via=tls:{port}")), me);
        assert_eq!(found("amqp+rdma://127.0.0.1:1".to_owned()), None);
        // An address reserved for documentation: it is never local.
        assert_eq!(found(format!("amqp+rdma://192.0.2.1:{port}?via=tcp:{port}")), None);
    }
}
