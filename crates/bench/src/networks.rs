//! The `networks` command: the paper's three point-to-point benchmarks over each network of this host, and the bare RDMA device.
//!
//! Each figure is also shown as a share of the device's. A network that cannot be used gets a row with the reason.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use report::document::{Document, MeasuredSeries, SeriesPoint};
use report::stdout::put;
use report::{Metric, MetricEstimate, MetricRole, json};

use crate::closed_loop;
use crate::verbs;
use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::broker_network::{BrokerNetwork, NETWORKS, NetworkBroker, SHAPED_TCP};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::has_ranks;
use harness::measure_options::{MeasureOptions, OUTPUT};
use harness::run_recorder::check_interrupted;
use harness::scratch::ScratchDirectory;
use load::device_probe::device::{SOFTWARE_SENTENCE, first_address, packets_sent};
use report::page::write_file;

const OWN: &[OptionSpec] = &[
    option("address", None, "IP", "an address of the RDMA device (default: the first there is, or else 127.0.0.1)"),
    option(
        "shaped",
        None,
        "IP",
        "an address whose traffic `tc` holds to a slower network's rate: a row tcp-shaped, of TCP over it",
    ),
    option("sizes", Some('m'), "MIN:MAX", "message sizes (default 64:64K)"),
    option("step", None, "FACTOR", "factor from one size to the next (default 1024)"),
    option("pairs", None, "N", "pairs of DE-MPMC (default 4)"),
    option("seconds", None, "S", "approximate length of each run (default 1)"),
    option("iterations", Some('i'), "COUNT", "messages of each size (default: by size)"),
    option("runs", None, "N", "runs of each point; the table shows medians (default 1)"),
    option("must", None, "LIST", "required networks, as in rsocket,verbs: the command fails if one is missing"),
];

const ABOUT: &str = "\
Runs DE-SPSC, DE-PP and DE-MPMC over each network, with a fresh broker of this program each time, all on one address of the
RDMA device: TCP (on an InfiniBand card that is IPoIB); TCP without TCP_NODELAY; rsockets (the successor of SDP); AMQP over
RDMA (verbs). Then measures the device alone (`baseline verbs`) and shows each figure relative to it: as a share of the rate
of its stream of sends, or as a multiple of its one-way latency. Packets are those sent by RDMA devices meanwhile, according
to their own counters: 0 for a network that does not use them. A second table has the processor time of each role. (The
paper's Figures 3 and 4: 1 GigE, IPoIB, SDP, RDMA; for the first of them see --shaped.)";

const EXAMPLES: &[(&str, &str)] = &[
    ("networks", "all networks of this host, 64 B and 64 KiB"),
    ("networks -m 1:1M --step 4 --runs 5 --json networks.json", "more of it"),
    ("networks --must rsocket", "fail where rsockets cannot be had"),
];

const BENCHMARKS: [&str; 3] = ["de-spsc", "de-pp", "de-mpmc"];

/// The results of one network: its documents in the order of the benchmarks, and the packets of RDMA devices meanwhile.
struct NetworkResults {
    documents: Vec<Document>,
    packets: Option<u64>,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench networks [OPTIONS]", ABOUT, &[OWN, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, a required network that is missing, a run that fails.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if has_ranks() {
        return Err(CommandFailure::Usage("networks are measured on one host: not under a launcher".to_owned()));
    }
    let setup = MeasureOptions::read(&given)?;
    setup.output.prepare()?;
    let shaped = given.text("shaped").map(|text| ip("shaped", text)).transpose()?;
    let names: Vec<&'static str> =
        shaped.iter().map(|_| SHAPED_TCP.name).chain(NETWORKS.iter().map(|network| network.name)).collect();
    let mut must = Vec::new();
    for name in given.text("must").into_iter().flat_map(|list| list.split(',')) {
        let known = names.iter().find(|&&known| known == name);
        must.push(
            *known.ok_or_else(|| CommandFailure::Usage(format!("--must: the networks are {}", names.join(", "))))?,
        );
    }
    let address = match given.text("address") {
        Some(text) => ip("address", text)?,
        // Without a device, the rows of networks that need one say so.
        None => first_address().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    };
    let folder = ScratchDirectory::new()?;
    let mut results = Vec::new();
    let unshaped = NETWORKS.iter().map(|network| (network, address));
    for (network, address) in shaped.map(|address| (&SHAPED_TCP, address)).into_iter().chain(unshaped) {
        check_interrupted()?;
        put(&format!("# network {}\n", network.name))?;
        let result = measure(network, address, &given, &folder);
        match result {
            Err(_) if harness::interrupt::requested() => return Err(CommandFailure::Interrupted),
            Err(why) if must.contains(&network.name) => {
                return Err(CommandFailure::Failed(format!("{}: {why}", network.name)));
            }
            result => results.push((network.name, result)),
        }
    }
    put("# the device alone\n")?;
    let baseline = measure_device(address, &given, &folder);
    if harness::interrupt::requested() {
        return Err(CommandFailure::Interrupted);
    }
    put(&format!("\n{}\n{}", table(&results, &baseline), processor_table(&results)))?;
    if let Some(file) = &setup.output.json
        && let Some(document) = joined(words, &results, baseline.as_ref().ok())
    {
        write_file(file, &json::write(&document)?)?;
    }
    Ok(())
}

fn ip(option: &str, text: &str) -> Result<IpAddr, CommandFailure> {
    text.parse().map_err(|_| CommandFailure::Usage(format!("--{option} is an IP address, not '{text}'")))
}

/// The options passed to all of the benchmarks.
fn effort_options(given: &ParsedOptions) -> Vec<String> {
    let usual = [("sizes", "64:64K"), ("step", "1024"), ("seconds", "1")];
    let mut words = Vec::new();
    for (name, usual) in usual {
        words.push(format!("--{name}={}", given.text(name).unwrap_or(usual)));
    }
    for name in ["iterations", "runs"] {
        words.extend(given.text(name).map(|value| format!("--{name}={value}")));
    }
    words
}

fn measure(
    network: &BrokerNetwork,
    address: IpAddr,
    given: &ParsedOptions,
    folder: &ScratchDirectory,
) -> Result<NetworkResults, String> {
    let broker = NetworkBroker::start(network, address, &[])?;
    let before = packets_sent();
    let mut documents = Vec::new();
    for name in BENCHMARKS {
        let benchmark = closed_loop::find(name).ok_or_else(|| format!("no benchmark {name}"))?;
        let file = format!("{}-{name}.json", network.name);
        let mut words = vec![format!("--url={}", broker.url), format!("--broker-pid={}", broker.pid())];
        words.extend(effort_options(given));
        words.extend(folder.words(&file));
        if name == "de-mpmc" {
            words.push(format!("--pairs={}", given.text("pairs").unwrap_or("4")));
        }
        CommandFailure::tolerated(closed_loop::run(benchmark, &words))?;
        documents.push(folder.read(&file)?);
        put("\n")?;
    }
    let packets = packets_sent().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(NetworkResults { documents, packets })
}

/// Measures the bare device over the same sizes.
fn measure_device(address: IpAddr, given: &ParsedOptions, folder: &ScratchDirectory) -> Result<Document, String> {
    let mut words = vec!["--kind=send".to_owned(), format!("--address={address}")];
    words.extend(effort_options(given));
    words.extend(folder.words("verbs.json"));
    CommandFailure::tolerated(verbs::run(&words))?;
    folder.read("verbs.json")
}

/// Finds the point of a size in the series of a benchmark, or of a pattern of the baseline.
pub(crate) fn point(document: &Document, is_it: impl Fn(&MeasuredSeries) -> bool, size: f64) -> Option<&SeriesPoint> {
    let series = document.series.iter().find(|series| is_it(series))?;
    series.points.iter().find(|point| point.at == size)
}

pub(crate) fn median(metric: &Metric, point: Option<&SeriesPoint>) -> Option<f64> {
    MetricEstimate::of(metric, point?).map(|estimate| estimate.median)
}

fn one_way() -> Metric {
    Metric::OneWayMeanUs("round_trip".to_owned())
}

/// The figures of a network at a size: DE-SPSC MB/s, DE-PP us, DE-MPMC MB/s.
fn figures(documents: &[Document], size: f64) -> [Option<f64>; 3] {
    let metrics = [Metric::MbPerS, one_way(), Metric::MbPerS];
    let mut found = [None; 3];
    for ((place, metric), document) in found.iter_mut().zip(&metrics).zip(documents) {
        *place = median(metric, point(document, |_| true, size));
    }
    found
}

fn baseline_figures(document: &Document, size: f64) -> [Option<f64>; 2] {
    let of = |shape: &str, metric: &Metric| {
        let is_it = |series: &MeasuredSeries| series.parameters.get("shape").is_some_and(|found| found == shape);
        median(metric, point(document, is_it, size))
    };
    [of("stream", &Metric::MbPerS), of("ping-pong", &one_way())]
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 1.0 => format!("{value:.4}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn table(results: &[(&'static str, Result<NetworkResults, String>)], baseline: &Result<Document, String>) -> String {
    let mut text =
        String::from("# harrier bench networks: each figure, and behind it that of the device alone divided into it\n");
    // Writing to a string cannot fail.
    let mut put = |line: String| _ = writeln!(text, "{line}");
    if baseline.as_ref().is_ok_and(is_software) {
        put(format!("# {SOFTWARE_SENTENCE}"));
    }
    let heads = ["de-spsc MB/s", "of device", "de-pp us", "times device", "de-mpmc MB/s", "of device", "RDMA packets"];
    let mut head = format!("{:<12}{:>10}", "# Network", "Size");
    heads.iter().for_each(|name| head.push_str(&format!("{name:>15}")));
    put(head);
    let documents =
        results.iter().filter_map(|(_, result)| result.as_ref().ok()).flat_map(|measured| &measured.documents);
    let sizes = sizes(documents.chain(baseline.iter()));
    for (name, result) in results {
        match result {
            Err(why) => put(format!("{name:<12}{:>10}  not here: {}", "-", why.replace('\n', " "))),
            Ok(measured) => {
                for &size in &sizes {
                    let device = baseline.as_ref().map_or([None; 2], |document| baseline_figures(document, size));
                    let found = figures(&measured.documents, size);
                    let over = |value: Option<f64>, device: Option<f64>| Some(value? / device?);
                    let packets = measured.packets.map_or_else(|| "-".to_owned(), |packets| packets.to_string());
                    let cells = [
                        number(found[0]),
                        number(over(found[0], device[0])),
                        number(found[1]),
                        number(over(found[1], device[1])),
                        number(found[2]),
                        number(over(found[2], device[0])),
                        packets,
                    ];
                    let mut line = format!("{name:<12}{size:>10}");
                    cells.iter().for_each(|cell| line.push_str(&format!("{cell:>15}")));
                    put(line);
                }
            }
        }
    }
    match baseline {
        Err(why) => put(format!("{:<12}{:>10}  not here: {}", "device", "-", why.replace('\n', " "))),
        Ok(document) => {
            for &size in &sizes {
                let [rate, latency] = baseline_figures(document, size);
                put(format!("{:<12}{size:>10}{:>15}{:>15}{:>15}", "device", number(rate), "", number(latency)));
            }
        }
    }
    text
}

/// The sizes that were measured, in their order.
fn sizes<'a>(documents: impl Iterator<Item = &'a Document>) -> Vec<f64> {
    let points = documents.flat_map(|document| &document.series).flat_map(|series| &series.points);
    let mut sizes: Vec<f64> = points.map(|point| point.at).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

/// The processor time of each role in both throughput benchmarks.
fn processor_table(results: &[(&'static str, Result<NetworkResults, String>)]) -> String {
    let mut text = String::from("# Processor time, user and system, in seconds for each million messages delivered\n");
    text.push_str(&format!("{:<12}{:>10}", "# Network", "Size"));
    let benchmarks = [0, 2].map(|at| (at, BENCHMARKS[at]));
    for (_, name) in benchmarks {
        for role in MetricRole::ALL {
            text.push_str(&format!("{:>19}", format!("{name} {}", role.name().to_lowercase())));
        }
    }
    text.push('\n');
    for (name, measured) in results.iter().filter_map(|(name, result)| Some((name, result.as_ref().ok()?))) {
        for size in sizes(measured.documents.iter()) {
            text.push_str(&format!("{name:<12}{size:>10}"));
            for (at, _) in benchmarks {
                for role in MetricRole::ALL {
                    let found = point(&measured.documents[at], |_| true, size);
                    text.push_str(&format!("{:>19}", number(median(&Metric::CpuSPerMillion(role), found))));
                }
            }
            text.push('\n');
        }
    }
    text
}

fn is_software(document: &Document) -> bool {
    let mut runs = document.series.iter().flat_map(|series| &series.points).flat_map(|point| &point.runs);
    runs.any(|run| run.notes.iter().any(|note| note == SOFTWARE_SENTENCE))
}

/// Merges all documents into one; targets are named after their networks.
fn joined(
    words: &[String],
    results: &[(&'static str, Result<NetworkResults, String>)],
    baseline: Option<&Document>,
) -> Option<Document> {
    let mut whole: Option<Document> = None;
    let mut add = |document: &Document, name: &str, notes: &[String]| {
        let mut one = document.clone();
        one.targets.truncate(1);
        one.targets.iter_mut().for_each(|target| name.clone_into(&mut target.name));
        for series in &mut one.series {
            name.clone_into(&mut series.target);
            let runs = series.points.iter_mut().flat_map(|point| &mut point.runs);
            runs.for_each(|run| run.notes.extend_from_slice(notes));
        }
        let Some(whole) = &mut whole else {
            one.command = harness::run_recorder::command_line("networks", words);
            whole = Some(one);
            return;
        };
        if whole.targets.iter().all(|target| target.name != name) {
            whole.targets.append(&mut one.targets);
        }
        whole.series.append(&mut one.series);
        whole.ended = one.ended;
    };
    for (name, result) in results {
        let Ok(measured) = result else { continue };
        let note = measured.packets.map(|packets| format!("RDMA devices sent {packets} packets over {name} in all"));
        let notes: Vec<String> = note.into_iter().collect();
        measured.documents.iter().for_each(|document| add(document, name, &notes));
    }
    baseline.into_iter().for_each(|document| add(document, "device", &[]));
    let mut whole = whole?;
    for (name, result) in results {
        if let Err(why) = result {
            whole.options.insert(format!("not here: {name}"), why.clone());
        }
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::{number, table};

    #[test]
    fn a_network_that_is_not_here_has_a_row_that_says_why() {
        let text = table(&[("rsocket", Err("no RDMA device\nat all".to_owned()))], &Err("none either".to_owned()));
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let [rsocket, device] = rows[..] else { panic!("two rows: {text}") };
        assert!(rsocket.starts_with("rsocket") && rsocket.ends_with("not here: no RDMA device at all"), "{rsocket}");
        assert!(device.starts_with("device") && device.ends_with("not here: none either"), "{device}");
        assert_eq!([number(None), number(Some(0.25)), number(Some(12.345))], ["-", "0.2500", "12.35"]);
    }
}
