//! A broker started by this program, and the network between it and its clients: how it listens and how clients connect.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use crate::limits::BROKER_READY_WAIT;
use crate::placement::CpuList;
use crate::role_process::{ChildProcess, launch_command, this_program};
use crate::run_recorder::check_interrupted;
use crate::target::{BenchmarkTarget, free_port};
use gauge::clock::{Deadline, pause};

/// A network between clients and a broker.
pub struct BrokerNetwork {
    pub name: &'static str,
    pub scheme: &'static str,
    /// Additional options of the broker.
    pub broker: &'static [&'static str],
    /// Parameters of the clients' URL.
    pub parameters: &'static str,
}

/// The networks that the papers compared, by their present names.
pub const NETWORKS: [BrokerNetwork; 4] = [
    TCP,
    BrokerNetwork {
        name: "tcp-nagle",
        scheme: "amqp",
        broker: &["--tcp-nodelay", "false"],
        parameters: "?nodelay=false",
    },
    BrokerNetwork { name: "rsocket", scheme: "amqp+rsocket", broker: &[], parameters: "" },
    VERBS,
];
/// Plain TCP.
pub const TCP: BrokerNetwork = BrokerNetwork { name: "tcp", scheme: "amqp", broker: &[], parameters: "" };
/// AMQP over RDMA.
pub const VERBS: BrokerNetwork =
    BrokerNetwork { name: "verbs", scheme: "amqp+rdma", broker: &["--rdma-token", "allow"], parameters: "" };

/// A broker of this program in a child process.
pub struct NetworkBroker {
    process: ChildProcess,
    output: CapturedOutput,
    /// The clients' URL.
    pub url: String,
}

impl NetworkBroker {
    /// Starts a broker on a free port and waits until a client can log in.
    ///
    /// # Errors
    /// The broker's last line of output, or why no client could log in.
    pub fn start(network: &BrokerNetwork, address: IpAddr, more: &[&str]) -> Result<Self, String> {
        let place = SocketAddr::new(address, free_port()?);
        let url = format!("{}://{place}{}", network.scheme, network.parameters);
        let listen = match network.scheme {
            "amqp" => place.to_string(),
            scheme => format!("{scheme}://{place}"),
        };
        let mut words = ["--loopback-users", "", "--listen", &listen].map(str::to_owned).to_vec();
        words.extend(network.broker.iter().chain(more).map(|&word| word.to_owned()));
        Self::start_with_options(&words, url)
    }

    /// Starts a broker with these options and waits until a client can log in.
    ///
    /// # Errors
    /// The broker's last line of output, or why no client could log in.
    pub fn start_with_options(options: &[String], url: String) -> Result<Self, String> {
        let parsed = client::Url::parse(&url).map_err(|error| format!("this build has no such transport: {error}"))?;
        let words = ["broker", "--state", "none"].into_iter().map(str::to_owned).chain(options.iter().cloned());
        let words: Vec<String> = words.collect();
        let program = this_program()?;
        let mut command = launch_command(&CpuList::default(), &program.to_string_lossy(), &words)?;
        let mut output = CapturedOutput::new()?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output.writer()?);
        let mut process = ChildProcess::start("broker", &mut command)?;
        let deadline = Deadline::after(BROKER_READY_WAIT);
        loop {
            if process.check_alive().is_err() {
                return Err(output.last_line());
            }
            let error = match client::Client::connect_with(&parsed, client::ConnectOptions::default()) {
                Ok(client) => {
                    client.close().map_err(|error| error.to_string())?;
                    return Ok(Self { process, output, url });
                }
                Err(error) => error,
            };
            if deadline.passed() {
                return Err(format!("no client can log in: {error}"));
            }
            check_interrupted().map_err(|failure| failure.to_string())?;
            pause(Duration::from_millis(20));
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The broker as a benchmark target.
    ///
    /// # Errors
    pub fn target(&self, name: &str) -> Result<BenchmarkTarget, String> {
        let mut target = BenchmarkTarget::at(&self.url)?;
        // The process cannot be found by port on every network.
        target.pid = Some(self.pid());
        target.rename(name);
        Ok(target)
    }

    /// Stops the broker and returns its last line of output.
    pub fn end(self) -> String {
        let Self { process, mut output, .. } = self;
        drop(process);
        output.last_line()
    }
}

/// The output of a process, captured in a file so that the process never blocks on a reader.
pub struct CapturedOutput(fs::File);

impl CapturedOutput {
    /// Creates an unnamed temporary file.
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!(
            "harrier-networks-said-{}-{}",
            std::process::id(),
            gauge::clock::now_ns()
        ));
        let open = || {
            let file = fs::File::options().create_new(true).read(true).append(true).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        };
        open().map(Self).map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    /// A handle for the process to write to.
    pub fn writer(&self) -> Result<fs::File, String> {
        self.0.try_clone().map_err(|error| error.to_string())
    }

    /// The whole output.
    pub fn text(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let read = self.0.seek(SeekFrom::Start(0)).and_then(|_| self.0.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| error.to_string())
    }

    fn last_line(&mut self) -> String {
        let text = self.text().unwrap_or_default();
        match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => line.trim_start_matches("harrier: ").to_owned(),
            None => "the broker ended without a word".to_owned(),
        }
    }
}
