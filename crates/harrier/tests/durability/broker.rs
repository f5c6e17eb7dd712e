//! A broker process with a state folder, which can be killed.

use super::PATIENCE;
use client::{Client, ClientChannel, ClientError};
use harness::ready_line::ReadyLine;
use rustix::process::{Pid, Signal};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};

/// What a broker logs when clients may connect.
const READY: &str = "harrier broker is ready";

/// A state folder, removed when dropped unless the test fails.
pub struct TestStateFolder(PathBuf);

impl TestStateFolder {
    pub fn new(name: &str) -> Self {
        TestStateFolder(std::env::temp_dir().join(format!("harrier-durability-{}-{name}", std::process::id())))
    }

    /// A folder that something else has made.
    pub fn at(path: PathBuf) -> Self {
        TestStateFolder(path)
    }

    /// What of a file can be read; nothing if there is none.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn root(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestStateFolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the state folder is {}", self.0.display());
        } else {
            std::fs::remove_dir_all(&self.0).expect("the broker has made it");
        }
    }
}

/// What starts the program: a command that is given it with its arguments, and becomes it. Without words the program starts
/// by itself.
#[derive(Default)]
pub struct Launcher(pub Vec<OsString>);

/// The program without the settings of whoever runs the tests.
pub fn harrier() -> Command {
    harrier_by(&Launcher::default())
}

/// The program, started by a launcher.
pub fn harrier_by(launcher: &Launcher) -> Command {
    let program = std::env::var_os("HARRIER_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_harrier").into());
    let mut words = launcher.0.iter().chain([&program]);
    let mut command = Command::new(words.next().expect("there is a program"));
    command.args(words);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// A broker that traffic is sent to.
pub trait TestBroker: Send + 'static {
    /// A client with a channel, unless the broker has ended.
    fn try_connect(&self) -> Result<(Client, ClientChannel), ClientError>;

    /// Where it listens.
    fn url(&self) -> String;

    /// Gives it another configuration, without waiting. Nothing where it has none that can be changed.
    fn begin_reload(&self, _configuration: &str) {}

    /// Gives it another configuration. Returns whether it has taken it.
    fn reload(&self, _configuration: &str) -> Result<bool, ClientError> {
        Ok(false)
    }

    /// Ends the broker where it stands.
    fn kill(self);
}

/// A configuration file of a broker, empty at its start.
struct ConfigurationFile(PathBuf);

impl ConfigurationFile {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("harrier-durability-{}-{}.toml", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let file = ConfigurationFile(std::env::temp_dir().join(name));
        file.write("");
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).expect("a file");
    }
}

impl Drop for ConfigurationFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("it is there");
    }
}

pub struct StoredBroker {
    child: Child,
    configuration: ConfigurationFile,
    lines: Receiver<String>,
    /// Lines of its log that were read since it was ready.
    read_log: RefCell<String>,
    /// Its log up to the line that says that it is ready.
    pub start_log: String,
    address: String,
}

impl StoredBroker {
    /// Starts a broker that must become ready.
    pub fn start(folder: &TestStateFolder, options: &[&str]) -> Self {
        StoredBroker::try_start(folder, options).unwrap_or_else(|(status, log)| panic!("{status}: {log}"))
    }

    /// Starts a broker, and kills it as soon as something is so. Returns whether it was before the broker was ready.
    pub fn kill_when(folder: &TestStateFolder, options: &[&str], mut is_so: impl FnMut() -> bool) -> bool {
        let broker = StoredBroker::spawn(&Launcher::default(), folder, options);
        let mut is_ready = false;
        while !is_so() && !is_ready {
            is_ready = match broker.lines.try_recv() {
                Ok(line) => line.contains(READY),
                Err(TryRecvError::Empty) => false,
                Err(TryRecvError::Disconnected) => panic!("the broker has ended by itself"),
            };
        }
        broker.kill();
        !is_ready
    }

    /// Starts a broker, and kills it when it has logged so many lines, or is ready.
    pub fn kill_at_start(folder: &TestStateFolder, lines: usize) {
        let broker = StoredBroker::spawn(&Launcher::default(), folder, &[]);
        for _ in 0..lines {
            if broker.lines.recv_timeout(PATIENCE).expect("a line").contains(READY) {
                break;
            }
        }
        broker.kill();
    }

    fn spawn(launcher: &Launcher, folder: &TestStateFolder, options: &[&str]) -> Self {
        let mut command = harrier_by(launcher);
        command.args(["broker", "--listen", "127.0.0.1:0", "--shards", "2", "--log-format", "json"]);
        // Small segments, so that several are filled.
        command.args(["--segment-bytes", "4MiB", "--state"]).arg(&folder.0).args(options).stderr(Stdio::piped());
        let configuration = ConfigurationFile::new();
        command.arg("--config").arg(&configuration.0);
        let mut child = command.spawn().expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let read_log = RefCell::default();
        StoredBroker { child, configuration, lines, read_log, start_log: String::new(), address: String::new() }
    }

    /// Starts a broker. Returns its status and its log if it ends before it is ready.
    pub fn try_start(folder: &TestStateFolder, options: &[&str]) -> Result<Self, (ExitStatus, String)> {
        StoredBroker::try_start_by(&Launcher::default(), folder, options)
    }

    /// Starts a broker by a launcher. Returns its status and its log if it ends before it is ready.
    pub fn try_start_by(
        launcher: &Launcher,
        folder: &TestStateFolder,
        options: &[&str],
    ) -> Result<Self, (ExitStatus, String)> {
        let mut broker = StoredBroker::spawn(launcher, folder, options);
        while let Ok(line) = broker.lines.recv_timeout(PATIENCE) {
            broker.start_log.push_str(&line);
            broker.start_log.push('\n');
            if let Some(ready) = ReadyLine::parse(&line) {
                broker.address = ready.addresses.into_iter().next().expect("its address");
                return Ok(broker);
            }
        }
        let status = broker.child.wait().expect("it ends");
        Err((status, std::mem::take(&mut broker.start_log)))
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("amqp://{}/%2F", self.address)
    }

    /// A client with a channel.
    pub fn connect(&self) -> (Client, ClientChannel) {
        self.try_connect().expect("it listens")
    }

    /// A client with a channel, unless the broker has ended.
    pub fn try_connect(&self) -> Result<(Client, ClientChannel), ClientError> {
        let mut client = Client::connect(&self.url())?;
        let channel = client.open_channel()?;
        Ok((client, channel))
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that the process has had, in KiB.
    pub fn peak_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// The memory that the process has, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let value = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel knows it");
        value.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Ends the process where it stands.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for a line of the log.
    pub fn await_line(&self, what: &str, mut is_it: impl FnMut(&str) -> bool) {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what} is not logged: {error}"));
            if is_it(&line) {
                return;
            }
        }
    }

    /// Tells the process to stop, and waits until it has.
    pub fn terminate(self) {
        self.tell_to_end();
        let (status, log) = self.await_end();
        assert!(status.success(), "{status}: {log}");
    }

    /// Tells the process to stop, if it has not by itself.
    pub fn tell_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).expect("it was not waited for");
    }

    /// Waits until the process has ended. Returns its status, and what it has logged since it was ready.
    pub fn await_end(mut self) -> (ExitStatus, String) {
        let mut log = self.read_log.take();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => log = log + &line + "\n",
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {log}"),
            }
        }
        (self.child.wait().expect("it ends"), log)
    }
}

/// What a broker logs when it has taken another configuration, and when it has not.
const RELOADED: &str = "the configuration was reloaded";
const NOT_RELOADED: [&str; 2] = ["the configuration could not be reloaded", "a change of the configuration is refused"];

impl TestBroker for StoredBroker {
    fn url(&self) -> String {
        StoredBroker::url(self)
    }

    fn begin_reload(&self, configuration: &str) {
        self.configuration.write(configuration);
        self.signal(Signal::HUP);
    }

    fn reload(&self, configuration: &str) -> Result<bool, ClientError> {
        self.begin_reload(configuration);
        loop {
            let line = match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => line,
                // It has ended: a connection says why.
                Err(RecvTimeoutError::Disconnected) => return self.try_connect().map(|_| false),
                Err(RecvTimeoutError::Timeout) => return Err(ClientError::TimedOut { awaited: "a reload" }),
            };
            let mut log = self.read_log.borrow_mut();
            log.push_str(&line);
            log.push('\n');
            assert!(!NOT_RELOADED.iter().any(|refusal| line.contains(refusal)), "{log}");
            if line.contains(RELOADED) {
                return Ok(true);
            }
        }
    }

    fn try_connect(&self) -> Result<(Client, ClientChannel), ClientError> {
        StoredBroker::try_connect(self)
    }

    fn kill(self) {
        StoredBroker::kill(self);
    }
}

impl Drop for StoredBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
