//! The `rdma` command: compares AMQP over RDMA with TCP and with the bare device, and checks the goals, in one run.
//!
//! Figures of different runs of the program are never compared.

mod cpu_cost;
mod operation_counts;
mod pinned_memory;
mod round_trips;
mod syscalls;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use gauge::HostEnvironment;
use report::page;
use report::stdout::put;

use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::broker_network::{NetworkBroker, VERBS};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::has_ranks;
use harness::limits::RUNS_MAX;
use harness::run_recorder::check_interrupted;
use load::device_probe::device::{DeviceFacts, SOFTWARE_SENTENCE, first_address};
use load::interleaved::{PerfEffort, PerfSeries};
use load::limits::SECONDS_MAX;
use load::perf_table::{GoalBound, PerfHeading, PerfRow, PerfTable};

const OPTIONS: &[OptionSpec] = &[
    option("address", None, "IP", "an address of the RDMA device (default: the first one)"),
    option("runs", None, "N", "runs of each measurement (default 3)"),
    option("seconds", None, "S", "approximate length of each run (default 1)"),
    option("connections", None, "N", "idle connections for the measurement of pinned memory (default 50)"),
    option("only", None, "PARTS", "of user,calls,counts,pinned,trips"),
    option("write", None, "", "write docs/measurements/DATE-rdma.md and .json"),
    option("out", None, "FOLDER", "write rdma.md and rdma.json there"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Compares AMQP over RDMA between clients and a broker on this host, over one address of its device, with TCP over the same
address and with the device alone, and checks the goals. System calls are counted by the kernel, which needs root and tracefs (mount -t tracefs tracefs /sys/kernel/tracing).";

const EXAMPLES: &[(&str, &str)] = &[
    ("rdma", "all figures, over the first device"),
    ("rdma --address 10.0.0.1 --runs 5 --seconds 3 --out figures", "over a certain card, with longer runs, and saved"),
];

const PARTS: &[&str] = &["user", "calls", "counts", "pinned", "trips"];

/// How a broker waits for its devices, the default first.
const POLLS: [&str; 2] = ["adaptive", "event"];

/// State shared by the parts.
struct RdmaGoals {
    effort: PerfEffort,
    address: IpAddr,
    connections: usize,
    record: PerfTable,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench rdma [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, no device, a broker that cannot be started. Missed goals are results, not errors.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if has_ranks() {
        return Err(CommandFailure::Usage("rdma measures one host: not under a launcher".to_owned()));
    }
    let parts: Vec<&str> = given.text("only").map_or_else(|| PARTS.to_vec(), |parts| parts.split(',').collect());
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        return Err(CommandFailure::Usage(format!("unknown part '{unknown}' (of {})", PARTS.join(","))));
    }
    let mut figures = RdmaGoals::read(&given)?;
    for part in parts {
        check_interrupted()?;
        put(&format!("# {part}\n"))?;
        match part {
            "user" => figures.user()?,
            "calls" => figures.calls()?,
            "counts" => figures.counts()?,
            "pinned" => figures.pinned()?,
            _ => figures.trips()?,
        }
    }
    let RdmaGoals { record, .. } = figures;
    put(&format!("\n{}", record.text()))?;
    let write = |stem: &Path| -> Result<(), String> {
        page::write_file(&stem.with_extension("md"), &record.markdown())?;
        page::write_file(&stem.with_extension("json"), &record.json()?)?;
        put(&format!("written: {}.md and .json\n", stem.display()))
    };
    if given.has("write") {
        write(&PathBuf::from(format!("docs/measurements/{}-rdma", record.environment.date)))?;
    }
    if let Some(folder) = given.text("out") {
        write(&Path::new(folder).join("rdma"))?;
    }
    Ok(())
}

impl RdmaGoals {
    fn read(given: &ParsedOptions) -> Result<Self, CommandFailure> {
        let wrong = |text| CommandFailure::Usage(format!("--address is an IP address, not '{text}'"));
        let address = given.text("address").map(|text| text.parse().map_err(|_| wrong(text))).transpose()?;
        let effort = PerfEffort {
            runs: given.number("runs", 3, 1, RUNS_MAX as u64)? as usize,
            seconds: given.decimal("seconds", 1.0, 0.05, SECONDS_MAX)?,
        };
        let connections = given.number("connections", 50, 1, 1_000)? as usize;
        let address = match address {
            Some(address) => address,
            None => first_address()?,
        };
        let (environment, heading) = (HostEnvironment::read(), heading()?);
        put(&format!("# harrier bench rdma over {address}: {}\n# {}\n", heading.remark, environment.line()))?;
        let record = PerfTable::new(heading, environment, effort.runs, effort.seconds);
        Ok(Self { effort, address, connections, record })
    }

    /// A broker with one shard that waits for its device in this way, and logs its counters at the end.
    fn broker(&self, poll: &str) -> Result<NetworkBroker, String> {
        let words = ["--shards", "1", "--rdma-poll", poll];
        NetworkBroker::start(&VERBS, self.address, &words).map_err(|why| format!("a broker over RDMA: {why}"))
    }

    /// Adds a row and prints it at once, so that an interrupted command still shows its earlier rows.
    fn row(&mut self, what: &str, bound: GoalBound, value: Option<f64>, detail: String) -> Result<(), String> {
        let row = PerfRow::new(what, bound, value, detail);
        put(&row.line(0))?;
        self.record.rows.push(row);
        Ok(())
    }
}

/// A value of one of several series.
fn of(all: &[PerfSeries], name: &str, value: impl Fn(&PerfSeries) -> f64) -> Option<f64> {
    all.iter().find(|series| series.name == name).map(value)
}

fn heading() -> Result<PerfHeading, String> {
    let devices: Vec<DeviceFacts> =
        ib::devices().map_err(|error| error.to_string())?.iter().map(DeviceFacts::of).collect();
    let named: Vec<String> = devices.iter().map(|facts| format!("{} ({})", facts.name, facts.words())).collect();
    let is_software = devices.iter().any(|facts| facts.software == Some(true));
    let mut remark = format!(
        "RDMA devices: {}. Broker (one shard), clients and a device of software share the processors of this host.",
        named.join(", ")
    );
    if is_software {
        remark.push_str(&format!(" In every row {SOFTWARE_SENTENCE}."));
    }
    Ok(PerfHeading { title: "Figures to reach over RDMA", by: "harrier bench rdma", remark })
}
