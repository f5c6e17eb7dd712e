//! `baseline verbs`: the performance of the RDMA device itself between two processes, without AMQP or a broker.
//!
//! `segment_driver` has both sides of a segment, `connect` their handshake.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use report::document::{LoopMode, MeasuredRun, MeasuredSeries, SeriesPoint, TargetFacts};
use report::stdout::put;
use report::{OsuTable, ProgressLine};
use serde::de::DeserializeOwned;

use crate::limits::{STEP_MAX, VERBS_IN_FLIGHT_BYTES};
use gauge::validity;
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::{ROLE_READY_WAIT, SEGMENT_MESSAGES_MAX};
use harness::measure_options::{EFFORT, MeasureOptions, OUTPUT};
use harness::role_handle::RoleHandle;
use harness::role_protocol::{MessageCounts, RoleReport, TrafficShape, sizes};
use harness::run_recorder::{RunRecorder, check_interrupted};
use load::device_probe::connect::{VerbsListener, VerbsResults};
use load::device_probe::device::{DeviceFacts, SOFTWARE_SENTENCE, first_address};
use load::device_probe::endpoint::DeviceCounts;
use load::device_probe::verbs_request::{CompletionWait, VerbsOperation, VerbsRequest};
use load::limits::{REPORT_WAIT, SECONDS_MAX, VERBS_WINDOW_MAX};
use load::role::verbs_roles::{VerbsConsumerReady, VerbsConsumerTask, VerbsPublisherTask};

const OWN: &[OptionSpec] = &[
    option("kind", Some('k'), "KIND", "send, write, read or all (default)"),
    option("shape", None, "SHAPE", "latency, stream or both (default)"),
    option("sizes", Some('m'), "MIN:MAX", "message sizes, as in 1:1M (the default) or 64:64"),
    option("step", None, "FACTOR", "factor from one size to the next (default 2)"),
    option("seconds", None, "S", "approximate length of each run (default 0.5)"),
    option("window", None, "N", "messages in flight in a stream, fewer if they are large (default 64)"),
    option("signal-every", None, "N", "one completion for N messages (default: a quarter of the window)"),
    option(
        "inline",
        None,
        "BYTES",
        "send messages of up to BYTES inline (default: the largest usual limit the device has)",
    ),
    option("poll", None, "HOW", "busy (default), or events: both ends sleep until the device signals a completion"),
    option("address", None, "IP", "the address of a device to use on this host (default: the first one)"),
    option("listen", None, "IP:PORT", "be the passive end for measurements from another host, until Ctrl-C"),
    option("connect", None, "IP:PORT", "measure with the passive end that listens there"),
    option("cpus", None, "PLACES", "processors, as in publisher=0,consumer=1 (default any)"),
];

const ABOUT: &str = "\
Sends messages, writes and reads memory between two processes over a reliable connection of the RDMA device, without a
broker or AMQP: the lower bound for anything on this device, as a baseline for figures over amqp+rdma://. Latency is half a
round trip (for a READ, the whole of it); a stream keeps a window of messages in flight. Small messages are sent inline, one
completion is requested for many messages, and many requests are posted in one call. (The paper's Figure 3 d.)";

const EXAMPLES: &[(&str, &str)] = &[
    ("baseline verbs", "all three between two processes of this host, 1 B to 1 MiB"),
    ("baseline verbs -k send --shape latency --poll events", "the cost of wake-ups"),
    ("baseline verbs --listen 10.0.0.2:7471", "the passive end, on another host"),
    ("baseline verbs --connect 10.0.0.2:7471 --runs 5 --json verbs.json", "a measurement with it, with intervals"),
];

/// The location of the passive side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerLocation {
    /// A process that is started, on this host or another rank's.
    Started(Option<IpAddr>),
    /// A listener that is already running.
    At(SocketAddr),
}

/// The options of `baseline verbs` itself.
#[derive(Debug)]
struct VerbsOptions {
    kinds: Vec<VerbsOperation>,
    shapes: Vec<TrafficShape>,
    sizes: Vec<usize>,
    seconds: f64,
    window: u32,
    signal_every: Option<u32>,
    inline_bytes: Option<u32>,
    poll: CompletionWait,
    peer: PeerLocation,
    listen: Option<SocketAddr>,
}

impl VerbsOptions {
    fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let kind = given.one_of("kind", &["all", "send", "write", "read"])?;
        let shape = given.one_of("shape", &["both", "latency", "stream"])?;
        let factor = given.number("step", 2, 2, STEP_MAX)?;
        let window = given.number("window", 64, 1, u64::from(VERBS_WINDOW_MAX))? as u32;
        let socket_address = |name: &str| -> Result<Option<SocketAddr>, UsageError> {
            let wrong = |text| UsageError(format!("--{name} is an IP address and a port, not '{text}'"));
            given.text(name).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
        };
        let address: Option<IpAddr> = given
            .text("address")
            .map(|text| text.parse().map_err(|_| UsageError(format!("--address is an IP address, not '{text}'"))))
            .transpose()?;
        let (listen, connect) = (socket_address("listen")?, socket_address("connect")?);
        if u8::from(listen.is_some()) + u8::from(connect.is_some()) + u8::from(address.is_some()) > 1 {
            return Err(UsageError("--listen, --connect and --address exclude one another".to_owned()));
        }
        let poll = if given.one_of("poll", &["busy", "events"])? == "busy" {
            CompletionWait::Busy
        } else {
            CompletionWait::Events
        };
        let mut options = Self {
            kinds: VerbsOperation::ALL.into_iter().filter(|one| kind == "all" || kind == one.name()).collect(),
            shapes: match shape {
                "latency" => vec![TrafficShape::PingPong],
                "stream" => vec![TrafficShape::Stream],
                _ => vec![TrafficShape::PingPong, TrafficShape::Stream],
            },
            sizes: sizes(given.text("sizes").unwrap_or("1:1M"), factor as usize)?,
            seconds: given.decimal("seconds", 0.5, 0.01, SECONDS_MAX)?,
            window,
            signal_every: given.number_if_given("signal-every", 1, u64::from(window))?.map(|every| every as u32),
            inline_bytes: given.number_if_given("inline", 0, 4_096)?.map(|bytes| bytes as u32),
            poll,
            peer: connect.map_or(PeerLocation::Started(address), PeerLocation::At),
            listen,
        };
        if options.kinds == [VerbsOperation::Write]
            && options.shapes == [TrafficShape::PingPong]
            && poll == CompletionWait::Events
        {
            return Err(UsageError("--poll events: one-sided writes raise no event".to_owned()));
        }
        if options.peer != PeerLocation::Started(None) && harness::launcher::has_ranks() {
            return Err(UsageError("under a launcher the two ends run on ranks".to_owned()));
        }
        options.sizes.retain(|&size| size > 0);
        Ok(options)
    }

    /// The measured series, in order. One-sided writes raise no event, so they have no ping-pong with events.
    fn series(&self) -> Vec<(VerbsOperation, TrafficShape)> {
        let all = self.kinds.iter().flat_map(|&kind| self.shapes.iter().map(move |&shape| (kind, shape)));
        all.filter(|&pair| pair != (VerbsOperation::Write, TrafficShape::PingPong) || self.poll == CompletionWait::Busy)
            .collect()
    }

    /// The request for messages of a size, whose counts are determined later.
    fn request(&self, (kind, shape): (VerbsOperation, TrafficShape), size_bytes: usize) -> VerbsRequest {
        let window = if shape == TrafficShape::PingPong { 1 } else { self.window };
        let fits = (VERBS_IN_FLIGHT_BYTES / size_bytes).clamp(1, VERBS_WINDOW_MAX as usize) as u32;
        let window = window.min(fits.max(4)).max(1);
        let usual = (window / 4).max(1);
        let signal_every = self.signal_every.unwrap_or(usual).min(window);
        let (poll, inline_bytes) = (self.poll, self.inline_bytes);
        VerbsRequest { kind, shape, poll, size_bytes, warm_up: 1, count: 1, window, signal_every, inline_bytes }
    }
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench baseline verbs [OPTIONS]", ABOUT, &[OWN, EFFORT.split_at(2).0, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// A usage error, no library, no device, a failure of the passive side.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (setup, options) = (MeasureOptions::read(&given)?, VerbsOptions::read(&given)?);
    if let Some(address) = options.listen {
        return listen(address);
    }
    setup.output.prepare()?;
    let mut ends = VerbsPair::start(&options, &setup)?;
    let mut record = RunRecorder::begin("baseline verbs", words, &given, &setup, &[]);
    record.document.targets.push(ends.facts());
    for (name, value) in [("kind", "all"), ("shape", "both"), ("sizes", "1:1M"), ("poll", "busy")] {
        record.note_option(name, value);
    }
    record.note_option("step", 2);
    record.note_option("seconds", options.seconds);
    record.note_option("window", options.window);
    let outcome = measure(&mut record, &setup, &options, &mut ends);
    record.end(outcome)
}

fn listen(address: SocketAddr) -> Result<(), CommandFailure> {
    let ip = if address.ip().is_unspecified() { first_address()? } else { address.ip() };
    let listener = VerbsListener::listen(ip, address.port())?;
    put(&format!("listening on {} ({}); Ctrl-C ends it\n", listener.address()?, listener.device()?.name))?;
    Ok(listener.serve(|why| cli::print_error(&format!("harrier bench: {why}")))?)
}

/// The running roles: both, or only the active one.
struct VerbsPair {
    publisher: RoleHandle,
    _consumer: Option<RoleHandle>,
    to: SocketAddr,
    device: DeviceFacts,
    consumer_device: Option<DeviceFacts>,
}

fn parse_report<T: DeserializeOwned>(report: RoleReport) -> Result<T, String> {
    match report {
        RoleReport::Results(value) => {
            serde_json::from_value(value).map_err(|error| format!("the results of a role: {error}"))
        }
        other => Err(format!("a role answered {other:?} instead of its results")),
    }
}

impl VerbsPair {
    fn start(options: &VerbsOptions, setup: &MeasureOptions) -> Result<Self, String> {
        let (consumer, to, consumer_device) = match options.peer {
            PeerLocation::At(to) => (None, to, None),
            PeerLocation::Started(address) => {
                let mut consumer =
                    RoleHandle::start("verbs-consumer", &VerbsConsumerTask { address }, &setup.placement.consumer)?;
                let VerbsConsumerReady { address, device } = parse_report(consumer.report(ROLE_READY_WAIT)?)?;
                (Some(consumer), address, Some(device))
            }
        };
        let mut publisher =
            RoleHandle::start("verbs-publisher", &VerbsPublisherTask { to }, &setup.placement.publisher)?;
        let device = parse_report(publisher.report(ROLE_READY_WAIT)?)?;
        Ok(Self { publisher, _consumer: consumer, to, device, consumer_device })
    }

    fn is_software(&self) -> bool {
        [Some(&self.device), self.consumer_device.as_ref()]
            .into_iter()
            .flatten()
            .any(|facts| facts.software == Some(true))
    }

    fn facts(&self) -> TargetFacts {
        TargetFacts {
            name: self.device.name.clone(),
            transport: "verbs".to_owned(),
            product: Some(self.device.words()),
            version: None,
            url: Some(self.to.to_string()),
            ..TargetFacts::default()
        }
    }

    fn segment(&mut self, request: &VerbsRequest) -> Result<VerbsResults, String> {
        self.publisher.send_command(request)?;
        parse_report(self.publisher.report(REPORT_WAIT)?)
    }

    /// Determines how many messages take about `seconds`, with trials that grow until they can be timed.
    fn counts(
        &mut self,
        setup: &MeasureOptions,
        options: &VerbsOptions,
        request: &VerbsRequest,
    ) -> Result<MessageCounts, String> {
        const TRIAL_S: f64 = 0.02;
        if let Some(iterations) = setup.iterations {
            return Ok(MessageCounts::with_tenth(iterations));
        }
        let mut count = 2 * u64::from(request.window.max(8));
        loop {
            let found = self.segment(&VerbsRequest { count, warm_up: (count / 8).max(1), ..*request })?;
            let elapsed_s = found.elapsed_ns.max(1) as f64 / 1e9;
            if elapsed_s >= TRIAL_S || count >= SEGMENT_MESSAGES_MAX / 16 {
                return Ok(MessageCounts::with_tenth((count as f64 * options.seconds / elapsed_s).max(16.0) as u64));
            }
            count *= 8;
        }
    }
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &VerbsOptions,
    ends: &mut VerbsPair,
) -> Result<(), CommandFailure> {
    let progress = ProgressLine::begin();
    let series = options.series();
    let all = (series.len() * options.sizes.len() * setup.runs) as f64;
    let mut done = 0.0;
    for (index, &pair) in series.iter().enumerate() {
        let begun = begin(options, pair, &ends.device);
        record.document.series.push(begun);
        let last = record.document.series.len() - 1;
        let table = if setup.output.format.is_incremental() {
            progress.clear();
            if index > 0 {
                put("\n")?;
            }
            if ends.is_software() {
                put(&format!("# {SOFTWARE_SENTENCE}\n"))?;
            }
            Some(OsuTable::begin(&record.document, &[&record.document.series[last]], setup.output.full)?)
        } else {
            None
        };
        for &size_bytes in &options.sizes {
            check_interrupted()?;
            let request = options.request(pair, size_bytes);
            let counts = ends.counts(setup, options, &request)?;
            let request = VerbsRequest { warm_up: counts.warm_up, count: counts.measured, ..request };
            let mut point = SeriesPoint { at: size_bytes as f64, size_bytes: size_bytes as f64, runs: Vec::new() };
            for run in 1..=setup.runs {
                check_interrupted()?;
                let what = format!("{} of {size_bytes} bytes, run {run} of {}", pair.0.name(), setup.runs);
                progress.show(done / all, &what);
                let mut result = to_run(&request, &ends.segment(&request)?);
                result.notes.extend(ends.is_software().then(|| SOFTWARE_SENTENCE.to_owned()));
                result.invalid.extend(validity::unoptimised(&record.document.environment));
                point.runs.push(result);
                done += 1.0;
            }
            progress.clear();
            if let Some(table) = &table {
                table.row(&[&point])?;
            }
            record.document.series[last].points.push(point);
        }
    }
    Ok(())
}

fn begin(
    options: &VerbsOptions,
    (kind, shape): (VerbsOperation, TrafficShape),
    device: &DeviceFacts,
) -> MeasuredSeries {
    let shape_name = match (shape, kind) {
        (TrafficShape::Stream, _) => "stream",
        (TrafficShape::PingPong, VerbsOperation::Read) => "fetch",
        (TrafficShape::PingPong, _) => "ping-pong",
    };
    let poll = if options.poll == CompletionWait::Busy { "busy" } else { "events" };
    let mut parameters = BTreeMap::from([("kind", kind.name()), ("shape", shape_name), ("poll", poll)].map(owned));
    if shape == TrafficShape::Stream {
        parameters.insert("window".to_owned(), options.window.to_string());
    }
    MeasuredSeries {
        benchmark: "verbs".to_owned(),
        target: device.name.clone(),
        pace: LoopMode::Closed,
        parameters,
        axis: "size_bytes".to_owned(),
        points: Vec::new(),
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A segment as a run of the document. The two sides take the places of publisher and consumer.
fn to_run(request: &VerbsRequest, found: &VerbsResults) -> MeasuredRun {
    let latency = if request.kind == VerbsOperation::Read { "fetch" } else { "round_trip" };
    let latencies = if request.shape == TrafficShape::PingPong {
        BTreeMap::from([(latency.to_owned(), found.latencies.clone())])
    } else {
        BTreeMap::new()
    };
    let of_thousand = |number: u64| number as f64 * 1e3 / request.count as f64;
    let note = |name: &str, options: &DeviceCounts| {
        format!(
            "{name}: {:.1} doorbells, {:.1} requests, {:.1} completions, {:.1} sleeps for 1,000 messages",
            of_thousand(options.posts),
            of_thousand(options.requests),
            of_thousand(options.completions),
            of_thousand(options.sleeps),
        )
    };
    let way = if request.kind != VerbsOperation::Read && request.size_bytes <= found.inline_bytes {
        "inline"
    } else {
        "not inline"
    };
    MeasuredRun {
        elapsed_s: found.elapsed_ns.max(1) as f64 / 1e9,
        published: request.count,
        delivered: request.count,
        delivered_bytes: request.count * request.size_bytes as u64,
        latencies,
        publishers: Some(found.active.0),
        consumers: Some(found.passive.0),
        notes: vec![
            format!("{way}, a window of {}, a completion for {}", request.window, request.signal_every),
            note("measuring end", &found.active.1),
            note("other end", &found.passive.1),
        ],
        ..MeasuredRun::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<VerbsOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        VerbsOptions::read(&ParsedOptions::parse(&words, &[OWN, EFFORT, OUTPUT])?)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!((usual.series().len(), usual.sizes.len(), usual.peer), (6, 21, PeerLocation::Started(None)));
        let few = options("-k read --shape latency -m 64:64 --connect 10.0.0.2:7471").expect("nothing is wrong");
        assert_eq!(few.series(), [(VerbsOperation::Read, TrafficShape::PingPong)]);
        assert_eq!(few.peer, PeerLocation::At("10.0.0.2:7471".parse().expect("an address")));
        let sleeping = options("--poll events").expect("nothing is wrong");
        assert!(
            sleeping.series().len() == 5
                && !sleeping.series().contains(&(VerbsOperation::Write, TrafficShape::PingPong))
        );
    }

    #[test]
    fn windows_are_smaller_for_large_messages_and_one_for_round_trips() {
        let options = options("--window 128").expect("nothing is wrong");
        let of = |shape, size_bytes| {
            let request = options.request((VerbsOperation::Send, shape), size_bytes);
            (request.window, request.signal_every)
        };
        assert_eq!(of(TrafficShape::Stream, 64), (128, 32));
        assert_eq!(of(TrafficShape::Stream, 1 << 20), (16, 4));
        assert_eq!(of(TrafficShape::Stream, 128 << 20), (4, 1));
        assert_eq!(of(TrafficShape::PingPong, 64), (1, 1));
    }

    #[test]
    fn contradictory_options_are_refused() {
        for (line, expected) in [
            ("-k atomic", "--kind is one of all, send, write, read, not 'atomic'"),
            ("--poll sometimes", "--poll is one of busy, events, not 'sometimes'"),
            ("--connect host", "--connect is an IP address and a port, not 'host'"),
            ("--address 10.0.0.1 --listen 10.0.0.1:1", "--listen, --connect and --address exclude one another"),
            ("--window 4 --signal-every 5", "--signal-every is a number from 1 to 4, not '5'"),
            ("-k write --shape latency --poll events", "--poll events: one-sided writes raise no event"),
        ] {
            assert_eq!(options(line).map(|_| String::new()).unwrap_or_else(|wrong| wrong.0), expected, "{line}");
        }
    }
}
