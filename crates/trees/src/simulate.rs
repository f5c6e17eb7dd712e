//! `harrier topology simulate`: simulates a tree of brokers, larger than any that can be run here.
//!
//! Reads no clock: the same arguments print the same text.

mod simulation_page;
mod simulation_report;
mod tree_drawing;

use desim::{
    AckMode, ArrivalProcess, BrokerFailure, Scenario, ServiceTimes, SimulationResult, Straggler, TreeTopology,
};
use planner::{CostSource, HostModel, Profile, Sharing, SizeCosts};
use report::page::write_file;
use report::stdout::put;
use topology::Tree;

use super::profile_files;
use super::tree_options::{ACK, CREDIT, PREFETCH, bits_per_s, duration_ns};
use crate::limits::{SIMULATED_QUEUE_BYTES_MAX, SIMULATED_SECONDS_MAX};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::interrupt;
use harness::role_protocol::bytes;

const OPTIONS: &[OptionSpec] = &[
    option("size", Some('m'), "BYTES", "size of a message, as in 64 or 64K"),
    option("profile", None, "FILE", "costs of brokers: a profile of harrier topology calibrate"),
    option("transport", None, "NAME", "transport whose costs are used: tcp (default), unix or rdma"),
    option("extrapolate", None, "", "also sizes beyond those of the profile"),
    option(
        "costs",
        None,
        "IN:COPY",
        "costs of brokers without a profile: microseconds to receive a message, and for each copy",
    ),
    option("cores", None, "N", "processors of each host (default: the profile's, or 2)"),
    option("link-rate", None, "RATE", "speed of each host's link, as in 200mbit (default: the profile's, or no limit)"),
    option("link-delay", None, "TIME", "delay of each link, as in 50us or 10ms"),
    option("rate", Some('r'), "N", "messages published a second (default: as fast as possible)"),
    option("arrivals", None, "HOW", "with --rate: even (default) or poisson"),
    option("messages", None, "N", "messages (default: enough to fill the queues, 10,000 to 400,000)"),
    option("seconds", None, "S", "length of the stream instead"),
    ACK,
    CREDIT,
    PREFETCH,
    option(
        "queue-limit",
        None,
        "BYTES",
        "size of a queue at which its broker stops reading; 0: unlimited (default 1024M)",
    ),
    option("straggler", None, "LIST", "slow consumers: 5@500 is number 5 at 500 messages/s, x3@500 are any three"),
    option("fail", None, "LIST", "failing brokers: b1.0@2s fails after 2 s for ever, b1.0@2s+5s is back 5 s later"),
    option("jitter", None, "SHARE", "random variation of a batch's time, as in 0.2 (default 0)"),
    option("seed", None, "N", "seed of all random numbers (default 1)"),
    option("json", None, "FILE", "write everything as JSON"),
    option("html", None, "FILE", "write a page: the tree with the load of every node and link, over time"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Simulates a tree of brokers, each on a host of its own: one publisher at the root, every consumer gets every message. A broker
reads in batches, copies to all connections below it, and sends as links, credit and windows allow. The costs of brokers
come from a profile; links, failures and slow consumers from options. The same arguments give the same output, to the byte.
What is simulated, and how it compares with running trees: docs/choosing-a-tree.md.";

const EXAMPLES: &[(&str, &str)] = &[
    ("simulate B-2B-4B-64C --size 1K --profile profile.json", "as fast as possible, with measured costs"),
    ("simulate B-16C --size 64K --link-rate 200mbit", "brokers without costs: the limit of the links alone"),
    (
        "simulate B-10B-100B-1000B-100000C --size 1K --costs 1:0.4 --link-rate 10gbit --html big.html",
        "1,111 brokers, and a page with their levels",
    ),
    (
        "simulate B-2B-8C --size 1K --costs 1:1 --ack confirm --credit 100 --prefetch 100 --straggler 5@1000",
        "one slow consumer, with back-pressure",
    ),
    (
        "simulate B-2B-8C --size 1K --costs 1:1 --ack confirm --rate 5000 --seconds 10 --fail b1.0@2s+3s",
        "a broker fails and returns: what is lost, and what waits",
    ),
];

/// Default number of processors of a host.
const CORES_DEFAULT: u64 = 2;
const CREDIT_DEFAULT: u64 = 1_000;
const QUEUE_BYTES_DEFAULT: u64 = 1 << 30;
/// A closed loop has this many full batches of messages, within these bounds.
const BATCHES_DEFAULT: u64 = 200;
const MESSAGES_DEFAULT: std::ops::RangeInclusive<u64> = 10_000..=400_000;

/// The scenario, and what is printed with it.
struct SimulationRequest {
    tree: Tree,
    scenario: Scenario,
    seconds: Option<f64>,
    /// Describes where the costs come from.
    costs: String,
    /// The model's prediction, if it applies.
    predicted_per_s: Option<f64>,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology simulate TOPOLOGY --size BYTES [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES)
        .with_words("TOPOLOGY")
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a profile that cannot be used, an invalid scenario.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let mut request = read_request(&given)?;
    if let Some(seconds) = request.seconds {
        request.scenario.messages = messages_of(&request.scenario, seconds)?;
    }
    let outcome = simulated(&request.scenario)?;
    put(&simulation_report::text(&request, &outcome))?;
    if let Some(file) = given.text("json") {
        write_file(file.as_ref(), &simulation_report::json(&request, &outcome, &given))?;
    }
    if let Some(file) = given.text("html") {
        write_file(file.as_ref(), &simulation_page::render(&request, &outcome))?;
    }
    match outcome.cut_short {
        None => Ok(()),
        Some(why) => Err(CommandFailure::Failed(format!("the simulation was cut short: {why}"))),
    }
}

fn simulated(scenario: &Scenario) -> Result<SimulationResult, CommandFailure> {
    let outcome = desim::simulate_while(scenario, || !interrupt::requested()).map_err(invalid_scenario)?;
    if interrupt::requested() { Err(CommandFailure::Interrupted) } else { Ok(outcome) }
}

fn invalid_scenario(why: desim::InvalidScenario) -> CommandFailure {
    CommandFailure::Usage(why.to_string())
}

fn read_request(given: &ParsedOptions) -> Result<SimulationRequest, CommandFailure> {
    let tree: Tree = match given.bare() {
        [one] => one.parse().map_err(|error: topology::TreeParseError| UsageError(error.to_string()))?,
        [] => return Err(CommandFailure::Usage("simulate needs a topology, as in B-2B-4B-16C".to_owned())),
        [_, more, ..] => return Err(CommandFailure::Usage(format!("unexpected argument '{more}'"))),
    };
    let Some(size) = given.text("size") else {
        return Err(CommandFailure::Usage("simulate needs the size of a message, as in --size 1K".to_owned()));
    };
    let size = bytes(size).map_err(UsageError)? as u64;
    if given.has("profile") && given.has("costs") {
        return Err(CommandFailure::Usage("--profile and --costs exclude each other".to_owned()));
    }
    let ack = given.one_of("ack", &["none", "confirm"])?;
    let (mut scenario, costs, predicted_per_s) = scenario_with_costs(given, &tree, size, ack)?;
    scenario.link.delay_ns =
        given.text("link-delay").map(|text| duration_ns("link-delay", text)).transpose()?.unwrap_or(0);
    scenario.ack = if ack == "confirm" { AckMode::Confirm } else { AckMode::None };
    let bound = |count: u64| u32::try_from(count).ok().filter(|count| *count > 0);
    let number = |name: &str| given.number_if_given(name, 0, u64::from(u16::MAX));
    scenario.credit = bound(number("credit")?.unwrap_or(CREDIT_DEFAULT));
    scenario.prefetch = number("prefetch")?.and_then(bound);
    let queue_bytes = match given.text("queue-limit") {
        None => QUEUE_BYTES_DEFAULT,
        Some(text) => bytes(text).map_err(UsageError)? as u64,
    };
    if queue_bytes > SIMULATED_QUEUE_BYTES_MAX {
        return Err(CommandFailure::Usage(format!("--queue-limit has at most {SIMULATED_QUEUE_BYTES_MAX} bytes")));
    }
    scenario.queue_bytes_max = (queue_bytes > 0).then_some(queue_bytes);
    scenario.arrivals = arrival_process(given)?;
    scenario.jitter = given.decimal("jitter", 0.0, 0.0, 0.99)?;
    scenario.seed = given.number("seed", 1, 0, u64::MAX)?;
    scenario.stragglers = listed(given, "straggler", stragglers)?.concat();
    scenario.failures = listed(given, "fail", |text| failure(text, &scenario.tree))?;
    if given.has("messages") && given.has("seconds") {
        return Err(CommandFailure::Usage("--messages and --seconds exclude each other".to_owned()));
    }
    let most = u64::from(desim::limits::MESSAGES_MAX);
    let usual = default_messages(&scenario);
    scenario.messages = given.number("messages", usual, 1, most)? as u32;
    let seconds = given.decimal("seconds", 1.0, 0.001, SIMULATED_SECONDS_MAX)?;
    let seconds = given.has("seconds").then_some(seconds);
    scenario.check().map_err(|why| match why.0.contains("nothing limits") {
        true => CommandFailure::Usage(format!("{why}: --profile, --costs, --link-rate or --rate does")),
        false => invalid_scenario(why),
    })?;
    // The model covers none of these.
    let is_plain =
        scenario.arrivals == ArrivalProcess::Closed && scenario.stragglers.is_empty() && scenario.failures.is_empty();
    Ok(SimulationRequest { tree, scenario, seconds, costs, predicted_per_s: predicted_per_s.filter(|_| is_plain) })
}

fn default_messages(scenario: &Scenario) -> u64 {
    match scenario.arrivals {
        ArrivalProcess::Closed => {
            let batch = (desim::limits::BATCH_BYTES / scenario.message_bytes.max(1)).max(1);
            (batch * BATCHES_DEFAULT).clamp(*MESSAGES_DEFAULT.start(), *MESSAGES_DEFAULT.end())
        }
        ArrivalProcess::Even(_) | ArrivalProcess::Poisson(_) => *MESSAGES_DEFAULT.start(),
    }
}

/// The number of messages of a stream of this many seconds: by its rate, or by that of a short simulation.
fn messages_of(scenario: &Scenario, seconds: f64) -> Result<u32, CommandFailure> {
    let per_s = match scenario.arrivals {
        ArrivalProcess::Even(rate) | ArrivalProcess::Poisson(rate) => rate,
        ArrivalProcess::Closed => {
            let mut short = scenario.clone();
            short.messages = default_messages(scenario) as u32;
            short.failures.clear();
            simulated(&short)?.stream_per_s
        }
    };
    let messages = (per_s * seconds).round().max(1.0);
    if messages > f64::from(desim::limits::MESSAGES_MAX) {
        let most = desim::limits::MESSAGES_MAX;
        return Err(CommandFailure::Usage(format!(
            "{seconds} s are {messages} messages, and at most {most} are simulated"
        )));
    }
    Ok(messages as u32)
}

fn arrival_process(given: &ParsedOptions) -> Result<ArrivalProcess, UsageError> {
    let arrivals = given.one_of("arrivals", &["even", "poisson"])?;
    if !given.has("rate") {
        return if given.has("arrivals") {
            Err(UsageError("--arrivals needs a --rate".to_owned()))
        } else {
            Ok(ArrivalProcess::Closed)
        };
    }
    let rate = given.decimal("rate", 1.0, 0.001, 1e9)?;
    Ok(if arrivals == "poisson" { ArrivalProcess::Poisson(rate) } else { ArrivalProcess::Even(rate) })
}

/// A scenario with the costs of its brokers, their description, and the model's prediction.
fn scenario_with_costs(
    given: &ParsedOptions,
    tree: &Tree,
    size: u64,
    ack: &str,
) -> Result<(Scenario, String, Option<f64>), CommandFailure> {
    let link = given.text("link-rate").map(bits_per_s).transpose()?;
    let cores = given.number_if_given("cores", 1, u64::from(desim::limits::CORES_MAX))?;
    let Some(file) = given.text("profile") else {
        if given.has("transport") || given.has("extrapolate") {
            return Err(CommandFailure::Usage("--transport and --extrapolate need a --profile".to_owned()));
        }
        let [take_in_ns, copy_ns] = given.text("costs").map_or(Ok([0.0, 0.0]), two_costs)?;
        let work = ServiceTimes { receive_ns: take_in_ns, to_broker_ns: copy_ns, to_consumer_ns: copy_ns };
        let mut scenario =
            Scenario::new(TreeTopology::from_tree(tree, |_, _| work).map_err(invalid_scenario)?, size, 1);
        scenario.wire_bytes = planner::estimated_wire_bytes(size);
        scenario.link.bits_per_s = link;
        scenario.cores = (cores.unwrap_or(CORES_DEFAULT) as u32).saturating_sub(1).max(1);
        let (take_in_us, copy_us) = (take_in_ns / 1e3, copy_ns / 1e3);
        let costs = match given.has("costs") {
            true => format!("{take_in_us} us to receive a message, {copy_us} us for a copy, as given"),
            false => "none: brokers take no time".to_owned(),
        };
        return Ok((scenario, costs, None));
    };
    let profile = profile_files::read(file.as_ref())?;
    let transport = given.one_of("transport", &["tcp", "unix", "rdma"])?;
    let (costs, resting) = size_costs(&profile, file, (transport, ack), size, given.has("extrapolate"))?;
    let cores = cores.unwrap_or(u64::from(profile.cores)) as u32;
    let link_bits_per_s = link.or(profile.link_bits_per_s);
    // Each broker has a host for itself here, however the profile was measured.
    let host = HostModel { cores, link_bits_per_s, sharing: Sharing::OwnHosts };
    let scenario = desim::scenario_from_costs(tree, &costs, &host, 1).map_err(invalid_scenario)?;
    let rests = match resting {
        CostSource::Measured => "measured".to_owned(),
        CostSource::Between(less, more) => format!("between those measured at {less} and {more} B"),
        CostSource::Beyond(size) => format!("EXTRAPOLATED beyond {size} B"),
    };
    let told = format!("{file} ({transport}, ack {ack}), {rests}; {}", profile_files::conditions(&profile));
    Ok((scenario, told, Some(planner::predict(tree, &costs, &host).stream_per_s.value)))
}

fn size_costs(
    profile: &Profile,
    file: &str,
    (transport, ack): (&str, &str),
    size: u64,
    beyond: bool,
) -> Result<(SizeCosts, CostSource), CommandFailure> {
    let set = profile.costs_of(transport, ack).ok_or_else(|| {
        let there: Vec<String> =
            profile.costs.iter().map(|set| format!("{} with ack {}", set.transport, set.ack)).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        CommandFailure::Usage(format!("{file} has no costs over {transport} with ack {ack}: it has {there}"))
    })?;
    set.for_size(size, beyond).map_err(|why| {
        let hint = if beyond { "" } else { " (--extrapolate accepts that)" };
        CommandFailure::Usage(format!("{file} has no costs of messages of {size} bytes: {why}{hint}"))
    })
}

fn two_costs(text: &str) -> Result<[f64; 2], UsageError> {
    let parse = || -> Option<[f64; 2]> {
        let (take_in, copy) = text.split_once(':')?;
        let both = [take_in.parse::<f64>().ok()? * 1e3, copy.parse::<f64>().ok()? * 1e3];
        both.iter().all(|cost| (0.0..=desim::limits::COST_NS_MAX).contains(cost)).then_some(both)
    };
    parse().ok_or_else(|| {
        UsageError(format!("--costs are microseconds to receive a message and for a copy, as in 1:0.4, not '{text}'"))
    })
}

/// Parses a comma-separated option value.
fn listed<T>(
    given: &ParsedOptions,
    name: &str,
    part: impl Fn(&str) -> Result<T, UsageError>,
) -> Result<Vec<T>, UsageError> {
    given.texts(name).iter().flat_map(|text| text.split(',')).map(|text| part(text.trim())).collect()
}

fn stragglers(text: &str) -> Result<Vec<Straggler>, UsageError> {
    let parse = || -> Option<Vec<Straggler>> {
        let (who, per_s) = text.split_once('@')?;
        let per_s: f64 = per_s.parse().ok()?;
        match who.strip_prefix('x') {
            Some(count) => {
                let count: u32 =
                    count.parse().ok().filter(|count| (1..=desim::limits::STRAGGLERS_MAX).contains(count))?;
                Some(vec![Straggler { consumer: None, per_s }; count as usize])
            }
            None => Some(vec![Straggler { consumer: Some(who.parse().ok()?), per_s }]),
        }
    };
    parse().ok_or_else(|| {
        let most = desim::limits::STRAGGLERS_MAX;
        UsageError(format!("--straggler is a consumer's number and messages a second, as in 5@500, or x3@500 for any three of at most {most}, not '{text}'"))
    })
}

fn failure(text: &str, topology: &TreeTopology) -> Result<BrokerFailure, UsageError> {
    let wrong = || {
        UsageError(format!("--fail is a broker with a time and how long it is away, as in b1.0@2s+5s, not '{text}'"))
    };
    let (name, times) = text.split_once('@').ok_or_else(wrong)?;
    let broker = topology.find(name).ok_or_else(|| {
        let last = topology.name(topology.brokers() - 1);
        UsageError(format!("--fail: there is no broker '{name}': they are b0 to {last}"))
    })?;
    let (at, away) = times.split_once('+').map_or((times, None), |(at, away)| (at, Some(away)));
    let away_ns = away.map(|text| duration_ns("fail", text)).transpose()?;
    Ok(BrokerFailure { broker, at_ns: duration_ns("fail", at)?, away_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wished(line: &str) -> Result<SimulationRequest, CommandFailure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read_request(&ParsedOptions::parse_with_bare(&words, &[OPTIONS])?)
    }

    #[test]
    fn options_come_to_a_scenario() {
        let it = wished(
            "B-2B-4C --size 1K --costs 1:0.5 --cores 4 --link-rate 200mbit --link-delay 50us --rate 100 --arrivals poisson \
             --messages 7 --ack confirm --credit 0 --prefetch 9 --queue-limit 2M --straggler 3@500,x2@0.5 \
             --fail b1.1@2s+500ms,b0@1s --jitter 0.1 --seed 5",
        );
        let it = it.unwrap_or_else(|why| panic!("{why}")).scenario;
        assert_eq!((it.message_bytes, it.cores, it.messages, it.seed), (1_024, 3, 7, 5));
        assert_eq!((it.link.bits_per_s, it.link.delay_ns), (Some(200_000_000), 50_000));
        assert_eq!(
            (it.arrivals, it.ack, it.credit, it.prefetch),
            (ArrivalProcess::Poisson(100.0), AckMode::Confirm, None, Some(9))
        );
        assert_eq!((it.queue_bytes_max, it.stragglers.len()), (Some(2 << 20), 3));
        assert_eq!(it.failures[0], BrokerFailure { broker: 2, at_ns: 2_000_000_000, away_ns: Some(500_000_000) });
        assert_eq!(it.failures[1], BrokerFailure { broker: 0, at_ns: 1_000_000_000, away_ns: None });
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("", "simulate needs a topology"),
            ("B-C B-C", "unexpected argument 'B-C'"),
            ("B-C", "simulate needs the size of a message"),
            ("B-0C --size 1", "'B-0C' is not a topology such as"),
            ("B-C --size x", "'x' is not a number of bytes"),
            ("B-C --size 1", "nothing limits the rate"),
            ("B-C --size 0 --costs 1:1", "a message has from 1 to"),
            ("B-C --size 1 --costs 1", "--costs are microseconds"),
            ("B-C --size 1 --costs 1:-1", "--costs are microseconds"),
            ("B-C --size 1 --costs 1:1 --profile x", "--profile and --costs exclude"),
            ("B-C --size 1 --costs 1:1 --transport tcp", "--transport and --extrapolate need a"),
            ("B-C --size 1 --profile /nowhere.json", "/nowhere.json: "),
            ("B-C --size 1 --costs 1:1 --credit 70000", "--credit is a number from 0 to 65535"),
            ("B-C --size 1 --costs 1:1 --queue-limit x", "'x' is not a number of bytes"),
            ("B-C --size 1 --costs 1:1 --arrivals poisson", "--arrivals needs a --rate"),
            ("B-C --size 1 --costs 1:1 --rate 0", "--rate is a number from 0.001"),
            ("B-C --size 1 --costs 1:1 --messages 0", "--messages is a number from 1"),
            ("B-C --size 1 --costs 1:1 --messages 1 --seconds 1", "--messages and --seconds exclude"),
            ("B-C --size 1 --costs 1:1 --link-delay 5", "--link-delay is a time"),
            ("B-C --size 1 --costs 1:1 --straggler 5", "--straggler is a consumer's number"),
            ("B-C --size 1 --costs 1:1 --straggler 1@5", "there is no consumer 1: they are 0 to 0"),
            ("B-C --size 1 --costs 1:1 --straggler x2@5", "2 slow consumers are requested, of 1"),
            ("B-C --size 1 --costs 1:1 --straggler 0@0", "a consumer takes from 0.001"),
            ("B-C --size 1 --costs 1:1 --fail b1.0@1s", "--fail: there is no broker 'b1.0': they are b0 to b0"),
            ("B-C --size 1 --costs 1:1 --fail b0", "--fail is a broker with a time"),
            ("B-C --size 1 --costs 1:1 --fail b0@1s,b0@2s", "b0 fails again before it is back"),
            ("B-200000B-200000C --size 1 --costs 1:1", "at most 100000 brokers"),
        ] {
            let why = wished(line).err().map_or_else(|| "nothing".to_owned(), |why| why.to_string());
            assert!(why.contains(expected), "{line}: {why}");
        }
    }

    #[test]
    fn a_stream_of_so_many_seconds_has_as_many_messages() {
        let it = wished("B-C --size 64 --costs 5:5 --seconds 2").unwrap_or_else(|why| panic!("{why}"));
        let messages = messages_of(&it.scenario, 2.0).unwrap_or_else(|why| panic!("{why}"));
        assert!((199_000..=200_000).contains(&messages), "{messages}");
    }
}
