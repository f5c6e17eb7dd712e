//! A broker started by this program, and the network between it and its clients: how it listens and how clients connect.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::{IpAddr, SocketAddr};

use crate::broker_log::LogDisplay;
use crate::broker_process::BrokerProcess;
use crate::limits::BROKER_READY_WAIT;
use crate::picked_port::on_picked_port;
use crate::placement::CpuList;
use crate::ready_line::ReadyLine;
use crate::target::BenchmarkTarget;

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
/// TCP over an address whose traffic the operator has shaped to the rate of a slower network.
pub const SHAPED_TCP: BrokerNetwork = BrokerNetwork { name: "tcp-shaped", ..TCP };
/// Plain TCP.
pub const TCP: BrokerNetwork = BrokerNetwork { name: "tcp", scheme: "amqp", broker: &[], parameters: "" };
/// AMQP over RDMA.
pub const VERBS: BrokerNetwork =
    BrokerNetwork { name: "verbs", scheme: "amqp+rdma", broker: &["--rdma-token", "allow"], parameters: "" };

/// A broker of this program that clients reach over a network.
pub struct NetworkBroker {
    process: BrokerProcess,
    /// The clients' URL.
    pub url: String,
}

impl NetworkBroker {
    /// Starts a broker and waits until a client can log in.
    ///
    /// # Errors
    /// The broker's last line of output, or why no client could log in.
    pub fn start(network: &BrokerNetwork, address: IpAddr, more: &[&str]) -> Result<Self, String> {
        let BrokerNetwork { scheme, parameters, .. } = network;
        let url = |place: &str| format!("{scheme}://{place}{parameters}");
        client::Url::parse(&url(&SocketAddr::new(address, 1).to_string()))
            .map_err(|error| format!("this build has no such transport: {error}"))?;
        let start = |port| {
            let place = SocketAddr::new(address, port);
            let listen = if *scheme == TCP.scheme { place.to_string() } else { format!("{scheme}://{place}") };
            let mut words = ["--loopback-users", "", "--listen", &listen].map(str::to_owned).to_vec();
            words.extend(network.broker.iter().chain(more).map(|&word| word.to_owned()));
            Self::start_with_options(&words, |ready| Ok(url(ready.first()?)))
        };
        if *scheme == VERBS.scheme { on_picked_port(start) } else { start(0) }
    }

    /// Starts a broker with these options and waits until a client can log in at the URL that `url` makes of what it says.
    ///
    /// # Errors
    /// The broker's last line of output, or why no client could log in.
    pub fn start_with_options(
        options: &[String],
        url: impl FnOnce(&ReadyLine) -> Result<String, String>,
    ) -> Result<Self, String> {
        let mut process = BrokerProcess::start(options, &CpuList::default(), LogDisplay::Kept)?;
        let ready = match process.await_ready(BROKER_READY_WAIT) {
            Ok(ready) => ready,
            // Only one that has ended has said why.
            Err(_) if process.check_alive().is_err() => return Err(process.end()),
            Err(why) => return Err(why),
        };
        let url = url(&ready)?;
        let log_in =
            || client::Client::connect_with(&client::Url::parse(&url)?, client::ConnectOptions::default())?.close();
        log_in().map_err(|error| format!("no client can log in: {error}"))?;
        Ok(Self { process, url })
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
        self.process.end()
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
}
