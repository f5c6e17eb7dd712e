//! Options that the topology commands share: names, bounds, defaults and parsing.

use std::net::{IpAddr, Ipv4Addr};

use topology::Tree;

use super::live_tree::TreePlan;
use super::tree_environment::NodeHosting;
use super::tree_measurement::MeasurementEffort;
use crate::limits::{
    LINK_BITS_PER_S, TREE_BROKERS_MAX, TREE_CONSUMERS_MAX, TREE_LATENCY_MESSAGES, TREE_MESSAGE_BYTES_MIN,
};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::failure::CommandFailure;
use harness::launcher::has_ranks;
use harness::limits::{MESSAGE_BYTES_MAX, RUNS_MAX, SEGMENT_MESSAGES_MAX};
use harness::role_protocol::bytes;
use harness::role_tasks::TreeTransport;
use load::device_probe::device::first_address;
use load::limits::SECONDS_MAX;
use load::scenario::ScenarioExchange;

/// The paper's sizes: message rates for the small ones, delivered bandwidth for the large ones.
const SIZES: [usize; 7] = [64, 256, 1 << 10, 4 << 10, 64 << 10, 128 << 10, 256 << 10];
/// How much is measured.
pub(super) const EFFORT: &[OptionSpec] = &[
    option("sizes", Some('m'), "LIST", "message sizes (default 64,256,1K,4K,64K,128K,256K: the paper's)"),
    option("seconds", None, "S", "length of a run, about (default 1)"),
    option("messages", None, "N", "messages of a run instead"),
    option("runs", None, "N", "runs of each size; tables show medians (default 1)"),
];

/// Acknowledgement between brokers.
pub(super) const ACK: OptionSpec = option("ack", None, "HOW", "between brokers: none (default), or confirm");
/// Messages in flight between two brokers.
pub(super) const CREDIT: OptionSpec = option(
    "credit",
    None,
    "N",
    "messages in flight between two brokers with --ack confirm; 0: unlimited (default 1000)",
);
/// Prefetch of consumers.
pub(super) const PREFETCH: OptionSpec =
    option("prefetch", None, "N", "consumers acknowledge, N ahead; 0: unlimited (default: they acknowledge none)");

/// The tree's parameters.
pub(super) const TREE: &[OptionSpec] =
    &[option("exchange", None, "TYPE", "fanout (default), direct or topic"), ACK, CREDIT, PREFETCH];

/// Where the tree runs.
pub(super) const HOSTING: &[OptionSpec] = &[
    option("transport", None, "NAME", "between brokers: tcp (default), unix or rdma"),
    option("address", None, "IP", "address of this host for brokers (default 127.0.0.1; rdma: the first device's)"),
    option("namespaces", None, "", "each broker and each group of clients in a network namespace of its own (root)"),
    option("link-rate", None, "RATE", "with --namespaces: speed of each link, as in 200mbit or 1gbit"),
    option("broker-options", None, "OPTIONS", "more options for every broker"),
];

pub(super) const OUTPUT: &[OptionSpec] = &[
    option("full", Some('f'), "", "also print resource usage and traffic of each broker"),
    option("json", None, "FILE", "write everything as JSON"),
    option("report", None, "FILE", "write a page with tables and figures"),
    option("help", Some('h'), "", "this text"),
];

/// Message sizes.
///
/// # Errors
/// No size, or one that is too small or too large.
pub(super) fn sizes(given: &ParsedOptions) -> Result<Vec<usize>, UsageError> {
    let Some(list) = given.text("sizes") else { return Ok(SIZES.to_vec()) };
    let mut sizes = Vec::new();
    for text in list.split(',') {
        let size = bytes(text.trim())?;
        if !(TREE_MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&size) {
            return Err(UsageError(format!(
                "--sizes: messages have from {TREE_MESSAGE_BYTES_MIN} to {MESSAGE_BYTES_MAX} bytes, not {text}"
            )));
        }
        if sizes.contains(&size) {
            return Err(UsageError(format!("--sizes: {text} is given twice")));
        }
        sizes.push(size);
    }
    Ok(sizes)
}

/// How much is measured.
///
/// # Errors
/// A value is not understood.
pub(super) fn effort(given: &ParsedOptions) -> Result<MeasurementEffort, UsageError> {
    if given.has("messages") && given.has("seconds") {
        return Err(UsageError("--messages and --seconds exclude each other".to_owned()));
    }
    Ok(MeasurementEffort {
        messages: given.number_if_given("messages", 1, SEGMENT_MESSAGES_MAX)?,
        seconds: given.decimal("seconds", 1.0, 0.01, SECONDS_MAX)?,
        runs: given.number("runs", 1, 1, RUNS_MAX as u64)? as usize,
        singles: if given.has("latency") { TREE_LATENCY_MESSAGES } else { 0 },
    })
}

/// Where the nodes run.
///
/// # Errors
/// Options that exclude each other, or an invalid speed.
pub(super) fn hosting(given: &ParsedOptions) -> Result<NodeHosting, CommandFailure> {
    hosting_over(given, transport(given)?)
}

/// Where the nodes run if brokers use this transport.
///
/// # Errors
/// As [`hosting`].
pub(super) fn hosting_over(given: &ParsedOptions, transport: TreeTransport) -> Result<NodeHosting, CommandFailure> {
    let rate = given.text("link-rate").map(bits_per_s).transpose()?;
    let address = given.text("address");
    let address =
        address.map(|text| text.parse().map_err(|_| UsageError(format!("--address is an IP address, not '{text}'"))));
    let address: Option<IpAddr> = address.transpose()?;
    if has_ranks() {
        if given.has("namespaces") || address.is_some() || transport != TreeTransport::Tcp {
            return Err(CommandFailure::Usage(
                "under a launcher the ranks' hosts are used, and their brokers use TCP".to_owned(),
            ));
        }
        return Ok(NodeHosting::Ranks(given.text("url").unwrap_or_default().to_owned()));
    }
    if given.has("url") {
        return Err(CommandFailure::Usage("--url needs a launcher".to_owned()));
    }
    if given.has("namespaces") {
        if transport == TreeTransport::Rdma || address.is_some() {
            return Err(CommandFailure::Usage("--namespaces excludes --address and RDMA".to_owned()));
        }
        return Ok(NodeHosting::Namespaces(rate));
    }
    if rate.is_some() {
        return Err(CommandFailure::Usage("--link-rate needs links: --namespaces".to_owned()));
    }
    match (address, transport) {
        (Some(address), _) => Ok(NodeHosting::Local(address)),
        (None, TreeTransport::Rdma) => Ok(first_address().map(NodeHosting::Local)?),
        (None, _) => Ok(NodeHosting::Local(Ipv4Addr::LOCALHOST.into())),
    }
}

fn transport(given: &ParsedOptions) -> Result<TreeTransport, UsageError> {
    let names = TreeTransport::ALL.map(TreeTransport::name);
    let name = given.one_of("transport", &names)?;
    Ok(TreeTransport::ALL.into_iter().find(|one| one.name() == name).unwrap_or(TreeTransport::Tcp))
}

/// A speed in the notation of `tc`: bits a second with a power of 1,000.
pub(super) fn bits_per_s(text: &str) -> Result<u64, UsageError> {
    let lower = text.to_ascii_lowercase();
    let known = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000)];
    let found = known.iter().find_map(|(unit, factor)| {
        lower.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok()?.checked_mul(*factor))
    });
    found.filter(|bits| LINK_BITS_PER_S.contains(bits)).ok_or_else(|| {
        UsageError(format!("--link-rate is a speed from 1mbit to 100gbit, as in 200mbit or 1gbit, not '{text}'"))
    })
}

/// A duration of a simulation, in nanoseconds: a number with its unit.
pub(super) fn duration_ns(name: &str, text: &str) -> Result<u64, UsageError> {
    let known = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let read = |unit: &str, factor: f64| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor);
    let found = known.iter().find_map(|(unit, factor)| read(unit, *factor));
    let most = desim::limits::SIMULATED_NS_MAX;
    match found.filter(|ns| (0.0..=most as f64).contains(ns)) {
        Some(ns) => Ok(ns.round() as u64),
        None => Err(UsageError(format!(
            "--{name} is a time up to {} s, as in 50us, 10ms or 2s, not '{text}'",
            most / 1_000_000_000
        ))),
    }
}

/// A tree from its notation.
///
/// # Errors
/// Not a tree, or one with more nodes than one run starts.
pub(super) fn tree(text: &str) -> Result<Tree, UsageError> {
    let tree: Tree = text.parse().map_err(|error: topology::TreeParseError| UsageError(error.to_string()))?;
    if tree.brokers_count() > TREE_BROKERS_MAX || tree.consumers() > TREE_CONSUMERS_MAX {
        return Err(UsageError(format!(
            "{tree}: at most {TREE_BROKERS_MAX} brokers and {TREE_CONSUMERS_MAX} consumers are started"
        )));
    }
    Ok(tree)
}

/// The plan of a tree.
///
/// # Errors
/// A value is not understood.
pub(super) fn plan(tree: Tree, given: &ParsedOptions) -> Result<TreePlan, UsageError> {
    let exchange = match given.one_of("exchange", &["fanout", "direct", "topic"])? {
        "direct" => ScenarioExchange::Direct,
        "topic" => ScenarioExchange::Topic,
        _ => ScenarioExchange::Fanout,
    };
    Ok(TreePlan {
        tree,
        exchange,
        ack: given.one_of("ack", &["none", "confirm"])?,
        credit: given.number("credit", 1_000, 0, u64::from(u16::MAX))? as u16,
        prefetch: given.number_if_given("prefetch", 0, u64::from(u16::MAX))?.map(|number| number as u16),
        transport: transport(given)?,
        broker_options: given.words("broker-options"),
        checks_bodies: given.has("check"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[OptionSpec] = &[option("url", None, "URL", ""), option("check", None, "", "")];

    fn given(line: &str) -> Result<ParsedOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ParsedOptions::parse_with_bare(&words, &[EFFORT, TREE, HOSTING, OUTPUT, OWN])
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let read = || -> Result<String, CommandFailure> {
            let given = given(line)?;
            let tree = tree(given.bare().first().map_or("B-C", String::as_str))?;
            let (plan, effort, sizes, hosting) =
                (plan(tree, &given)?, effort(&given)?, sizes(&given)?, hosting(&given)?);
            let TreePlan { tree, exchange, ack, credit, prefetch, .. } = plan;
            Ok(format!(
                "{tree} {exchange:?} {ack} {credit} {prefetch:?} {} {hosting:?} {}",
                sizes.len(),
                effort.seconds
            ))
        };
        assert_eq!(read().unwrap_or_else(|wrong| wrong.to_string()), expected, "{line}");
    }

    #[test]
    fn defaults_and_values() {
        check("B-2B-4C", "B-2B-4C Fanout none 1000 None 7 Local(127.0.0.1) 1");
        check(
            "B-C --exchange topic --ack confirm --credit 0 --prefetch 10 --sizes 64,64K --seconds 0.5",
            "B-C Topic confirm 0 Some(10) 2 Local(127.0.0.1) 0.5",
        );
        check("--namespaces", "B-C Fanout none 1000 None 7 Namespaces(None) 1");
        check("--namespaces --link-rate 200mbit", "B-C Fanout none 1000 None 7 Namespaces(Some(200000000)) 1");
        check("--address 10.0.0.1", "B-C Fanout none 1000 None 7 Local(10.0.0.1) 1");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (line, expected) in [
            ("B-4B-3C", "'B-4B-3C' is not a topology such as B-2B-4B-16C: "),
            ("B-257B-257C", "B-257B-257C: at most 256 brokers"),
            ("--sizes 8", "--sizes: messages have from 16 to"),
            ("--sizes 64,64", "--sizes: 64 is given twice"),
            ("--sizes x", "'x' is not a number of bytes"),
            ("--link-rate 1gbit", "--link-rate needs links: --namespaces"),
            ("--namespaces --link-rate fast", "--link-rate is a speed from 1mbit to 100gbit"),
            ("--namespaces --link-rate 1kbit", "--link-rate is a speed"),
            ("--namespaces --transport rdma", "--namespaces excludes --address"),
            ("--url amqp://h", "--url needs a launcher"),
            ("--seconds 1 --messages 1", "--messages and --seconds"),
            ("--credit 70000", "--credit is a number from 0 to 65535"),
            ("--ack all", "--ack is one of none, confirm"),
            ("--transport pigeon", "--transport is one of tcp, unix, rdma"),
        ] {
            let read = || -> Result<(), CommandFailure> {
                let given = given(line)?;
                let tree = tree(given.bare().first().map_or("B-C", String::as_str))?;
                plan(tree, &given)?;
                effort(&given)?;
                sizes(&given)?;
                hosting(&given).map(drop)
            };
            let why = read().map_or_else(|wrong| wrong.to_string(), |()| "nothing".to_owned());
            assert!(why.starts_with(expected), "{line}: {why}");
        }
    }
}
