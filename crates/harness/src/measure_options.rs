//! Options that all measuring commands share: brokers, placement, number of runs, output.

use std::fs;
use std::path::PathBuf;

use report::DocumentFormat;

use crate::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use crate::limits::{RUNS_MAX, SEGMENT_MESSAGES_MAX, TARGETS_MAX};
use crate::placement::CpuPlacement;
use crate::target::BenchmarkTarget;
use crate::tcp::TcpOptions;

/// Brokers to measure and their placement.
pub const TARGETS: &[OptionSpec] = &[
    option(
        "url",
        None,
        "URL",
        "measure the broker at amqp://…, amqp+rdma://… or amqp+unix:… (default: this program's own, started for the run)",
    ),
    option("against", None, "URL", "also measure this broker, in turns with the first; may be repeated"),
    option(
        "broker-command",
        None,
        "COMMAND",
        "start this broker of Harrier instead of this program's own; --listen ADDRESS and options of its log are added",
    ),
    option("broker-options", None, "OPTIONS", "additional options for the broker that is started"),
    option(
        "broker-pid",
        None,
        "PID",
        "the first broker's process, for metering (default: found by its port or socket)",
    ),
    option("cpus", None, "PLACES", "processors, as in broker=0,publisher=1,consumer=1 (default any)"),
    option("nagle", None, "", "enable Nagle (no TCP_NODELAY) at clients and at a broker that is started"),
    option(
        "send-buffer-bytes",
        None,
        "N",
        "SO_SNDBUF of clients, and of a broker that is started (default: the system's)",
    ),
    option("receive-buffer-bytes", None, "N", "SO_RCVBUF, likewise"),
    option("congestion", None, "NAME", "TCP congestion control, likewise (default: the system's, shown in tables)"),
];

/// The last of them, for commands that measure sockets and no broker.
pub const SOCKETS: &[OptionSpec] = TARGETS.split_at(6).1;

/// The amount of measurement.
pub const EFFORT: &[OptionSpec] = &[
    option("runs", None, "N", "runs of each point, all brokers in turns; tables show medians (default 1)"),
    option("iterations", Some('i'), "COUNT", "messages of each size (default: by size, and fewer for slow brokers)"),
    option("check", Some('c'), "", "check sequence and checksum of every message"),
];

/// Output options.
pub const OUTPUT: &[OptionSpec] = &[
    option("full", Some('f'), "", "all columns"),
    option("format", None, "FORMAT", "osu (default), json, csv or md"),
    option("json", None, "FILE", "also write everything as JSON"),
    option("html", None, "FILE", "also write a page with tables and figures"),
    option("help", Some('h'), "", "this text"),
];

/// Where a broker comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BrokerSource {
    /// A running broker.
    Url(String),
    /// Started for the run.
    Started { command: Option<String>, options: Vec<String>, needs_state: bool },
}

/// How results are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    pub format: DocumentFormat,
    pub full: bool,
    /// The JSON file, if any.
    pub json: Option<PathBuf>,
    /// The HTML file, if any.
    pub html: Option<PathBuf>,
}

impl OutputOptions {
    /// Checks before the measurement that the files can be written.
    ///
    /// # Errors
    /// The file and the error of the system.
    pub fn prepare(&self) -> Result<(), String> {
        for file in [&self.json, &self.html].into_iter().flatten() {
            let is_new = !file.exists();
            let open = || {
                if let Some(folder) = file.parent() {
                    fs::create_dir_all(folder)?;
                }
                fs::OpenOptions::new().append(true).create(true).open(file)?;
                if is_new { fs::remove_file(file) } else { Ok(()) }
            };
            open().map_err(|error: std::io::Error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }
}

/// The options of a measuring command.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    source: BrokerSource,
    other_brokers: Vec<String>,
    broker_pid: Option<u32>,
    pub tcp: TcpOptions,
    pub placement: CpuPlacement,
    /// Runs of each point.
    pub runs: usize,
    /// Messages of each size, if given.
    pub iterations: Option<u64>,
    pub checks: bool,
    pub output: OutputOptions,
}

impl MeasureOptions {
    /// Reads the shared options; those that a command does not have keep their defaults.
    ///
    /// # Errors
    /// An invalid value, or options that exclude each other.
    pub fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let starts = ["broker-command", "broker-options"].into_iter().find(|name| given.has(name));
        let source = match (given.text("url"), starts) {
            (Some(_), Some(name)) => {
                return Err(UsageError(format!("--{name} starts a broker, --url is for a running one")));
            }
            (Some(url), None) => BrokerSource::Url(url.to_owned()),
            (None, _) => BrokerSource::Started {
                command: given.text("broker-command").map(str::to_owned),
                options: given.words("broker-options"),
                needs_state: given.has("durable"),
            },
        };
        let against = given.texts("against").to_vec();
        for url in given.texts("url").iter().chain(&against) {
            client::Url::parse(url).map_err(|error| UsageError(error.to_string()))?;
        }
        if against.len() >= TARGETS_MAX {
            return Err(UsageError(format!("at most {TARGETS_MAX} brokers can be measured in turns")));
        }
        Ok(Self {
            source,
            other_brokers: against,
            broker_pid: given.number_if_given("broker-pid", 1, u64::from(u32::MAX >> 1))?.map(|pid| pid as u32),
            tcp: TcpOptions::read(given)?,
            placement: CpuPlacement::parse(given.text("cpus").unwrap_or(""))?,
            runs: given.number("runs", 1, 1, RUNS_MAX as u64)? as usize,
            iterations: given.number_if_given("iterations", 1, SEGMENT_MESSAGES_MAX)?,
            checks: given.has("check"),
            output: OutputOptions {
                format: DocumentFormat::parse(given.text("format").unwrap_or("osu"))?,
                full: given.has("full"),
                json: given.text("json").map(PathBuf::from),
                html: given.text("html").map(PathBuf::from),
            },
        })
    }

    /// Starts or finds the brokers in order, identifies them and gives them unique names.
    ///
    /// # Errors
    /// A broker that cannot be started or reached, or that refuses the login.
    pub fn targets(&self) -> Result<Vec<BenchmarkTarget>, String> {
        let mut first = match &self.source {
            BrokerSource::Url(url) => BenchmarkTarget::at(url)?,
            BrokerSource::Started { command, options, needs_state } => {
                // Another broker's command may not know these options; --broker-options is for its own.
                let tcp = if command.is_none() { self.tcp.broker_words() } else { Vec::new() };
                let options: Vec<String> = tcp.into_iter().chain(options.iter().cloned()).collect();
                let has_state = options.iter().any(|word| word == "--state" || word.starts_with("--state="));
                match command {
                    None if *needs_state && !has_state => BenchmarkTarget::embedded_with_state(
                        None,
                        &options,
                        &self.placement.broker,
                        &std::env::temp_dir(),
                    )?,
                    command => BenchmarkTarget::embedded(command.as_deref(), &options, &self.placement.broker)?,
                }
            }
        };
        if let Some(pid) = self.broker_pid {
            if !PathBuf::from(format!("/proc/{pid}")).exists() {
                return Err(format!("--broker-pid: there is no process {pid} on this machine"));
            }
            first.pid = Some(pid);
        }
        let mut targets = vec![first];
        for url in &self.other_brokers {
            targets.push(BenchmarkTarget::at(url)?);
        }
        let own = matches!(self.source, BrokerSource::Started { command: None, .. });
        for (index, target) in targets.iter_mut().enumerate() {
            target.set_tcp(&self.tcp)?;
            target.identify(&self.tcp, own && index == 0)?;
        }
        let known: Vec<(Option<&str>, &str)> =
            targets.iter().map(|target| (target.facts.product.as_deref(), target.name.as_str())).collect();
        let names = unique_names(&known);
        for (target, name) in targets.iter_mut().zip(names) {
            target.rename(&name);
        }
        Ok(targets)
    }
}

/// Names for tables: the first word of the product in lower case, or the address. The address and then a number are added
/// where names would be equal.
fn unique_names(known: &[(Option<&str>, &str)]) -> Vec<String> {
    let word = |product: &str| product.split_whitespace().next().map(str::to_lowercase);
    let mut names: Vec<String> = known
        .iter()
        .map(|(product, address)| product.and_then(word).unwrap_or_else(|| (*address).to_owned()))
        .collect();
    let twice = |names: &[String], name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let short = names.clone();
    for (name, (_, address)) in names.iter_mut().zip(known) {
        if twice(&short, name) && name != address {
            *name = format!("{name} {address}");
        }
    }
    let long = names.clone();
    for (index, name) in names.iter_mut().enumerate() {
        let before = long[..index].iter().filter(|other| *other == name).count();
        if before > 0 {
            *name = format!("{name} #{}", before + 1);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(line: &str) -> Result<MeasureOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        MeasureOptions::read(&ParsedOptions::parse(&words, &[TARGETS, EFFORT, OUTPUT])?)
    }

    #[test]
    fn socket_options_are_separate() {
        let names: Vec<&str> = SOCKETS.iter().map(|option| option.name).collect();
        assert_eq!(names, ["nagle", "send-buffer-bytes", "receive-buffer-bytes", "congestion"]);
    }

    #[test]
    fn defaults_and_values() {
        let usual = setup("").expect("nothing is wrong");
        assert_eq!((usual.runs, usual.iterations, usual.checks, usual.output.full), (1, None, false, false));
        assert_eq!(usual.source, BrokerSource::Started { command: None, options: Vec::new(), needs_state: false });
        let options = setup("--url amqp://h --against amqp://a --against amqp://b -c -f --runs 5 -i 10 --format csv");
        let options = options.expect("nothing is wrong");
        assert_eq!(options.other_brokers, ["amqp://a", "amqp://b"]);
        assert_eq!((options.runs, options.iterations, options.checks, options.output.full), (5, Some(10), true, true));
        assert_eq!(options.output.format, DocumentFormat::Csv);
    }

    #[test]
    fn incompatible_options_are_refused() {
        for (line, expected) in [
            ("--url amqp://h --broker-options x", "--broker-options starts a broker, --url is for a running one"),
            ("--format xml", "--format is one of"),
            ("--runs 0", "--runs is a number from 1 to"),
            ("--broker-pid x", "--broker-pid is a number from 1 to"),
            ("--cpus broker", "'broker': expected role=processors"),
        ] {
            let why = setup(line).map(|_| String::new()).unwrap_or_else(|wrong| wrong.0);
            assert!(why.starts_with(expected), "{line}: {why}");
        }
    }

    #[test]
    fn names_are_unique() {
        let check = |known: &[(Option<&str>, &str)], expected: &[&str]| assert_eq!(unique_names(known), expected);
        check(&[(Some("Harrier"), "a:1"), (Some("RabbitMQ"), "a:2")], &["harrier", "rabbitmq"]);
        check(&[(Some("Qpid Broker-J"), "a:1"), (None, "a:2")], &["qpid", "a:2"]);
        check(&[(Some("X"), "a:1"), (Some("X"), "a:2")], &["x a:1", "x a:2"]);
        check(&[(Some("X"), "a:1"), (Some("X"), "a:1")], &["x a:1", "x a:1 #2"]);
    }
}
