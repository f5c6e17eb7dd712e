//! `harrier market gateway`, `engine` and `reporter`: each a program by itself, on any host. They print their results
//! at the end.

use std::path::PathBuf;

use client::Url;
use gauge::LatencyHistogram;
use gauge::clock::now_ns;
use market::limits::GATEWAYS_MAX;
use report::stdout::put;
use serde::Serialize;

use super::engine::{EngineProgram, EngineTask};
use super::gateway::{GatewayProgram, GatewayTask};
use super::market_address::MarketAddress;
use super::market_options::{MarketLoad, TRADING, rate};
use super::program_results::{EngineResults, GatewayResults};
use super::reporter::{ReporterProgram, ReporterResults, ReporterTask};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;

/// Options that select the market.
pub(super) const MARKET: &[OptionSpec] = &[
    option("url", None, "URL", "the broker (default amqp://127.0.0.1:5672)"),
    option("name", None, "NAME", "the exchange; names of queues begin with it (default market)"),
];

const SHOWN: &[OptionSpec] = &[
    option("json", None, "", "print the results as one line of JSON at the end"),
    option("help", Some('h'), "", "this text"),
];

const GATEWAY: &[OptionSpec] = &[
    option("gateway", None, "N", "which gateway this is, from 0 (default 0)"),
    option("rate", None, "R", "its orders a second, or max (default 1000)"),
];

const GATEWAY_ABOUT: &str = "\
Sends random orders to the engine's queue and receives trade confirmations, order confirmations and quotes from its own. Orders
have a schedule that does not wait for answers, and completion counts from the scheduled time. Ends when every order is answered; the
status is 3 if one is not. --orders is the total of all gateways, of which each sends its share.";

const GATEWAY_EXAMPLES: &[(&str, &str)] = &[
    ("gateway --url amqp://broker --orders 1000000 --rate 8000", "the paper's gateway at its highest rate"),
    ("gateway --gateway 1 --gateways 2 --rate max", "the second of two, as fast as possible"),
];

const ENGINE: &[OptionSpec] = &[
    option("journal", None, "FILE", "journal of accepted orders; confirms and acknowledges everything (--confirms)"),
    option("stay", None, "", "continue after all gateways have ended, until Ctrl-C or SIGTERM"),
];

const ENGINE_ABOUT: &str = "\
Receives orders from its queue, keeps a book for each symbol, and sends trade confirmations, order confirmations, rejections and quotes
to the gateways' queues. Ends when all gateways have, or at Ctrl-C or SIGTERM. With --journal it may be killed at any time: started
again with the same journal, it loses no order and repeats no trade.";

const ENGINE_EXAMPLES: &[(&str, &str)] = &[
    ("engine --url amqp://broker --symbols 16 --matching exact", "the paper's matching engine"),
    ("engine --journal /var/lib/market.journal", "an engine that survives kill -9"),
];

const REPORTER: &[OptionSpec] = &[option("file", None, "FILE", "file for the measurements, a line of JSON each")];

const REPORTER_ABOUT: &str = "\
Writes the measurements of gateways and engine as lines of JSON; also, while it runs, the
rejections of messages in which no order could be read and whose sender named no queue. Ends at Ctrl-C or SIGTERM, when nothing
arrives any more.";

const REPORTER_EXAMPLES: &[(&str, &str)] = &[("reporter --url amqp://broker --file measurements.jsonl", "")];

/// The market's address.
pub(super) fn market_address(given: &ParsedOptions, gateways: u16) -> Result<MarketAddress, UsageError> {
    let url = given.text("url").unwrap_or("amqp://127.0.0.1:5672").to_owned();
    Url::parse(&url).map_err(|error| UsageError(error.to_string()))?;
    let name = given.text("name").unwrap_or("market").to_owned();
    // Queue names, including their suffix, have at most 255 bytes.
    if name.is_empty() || name.len() > 200 {
        return Err(UsageError("--name has from 1 to 200 bytes".to_owned()));
    }
    Ok(MarketAddress { url, name, gateways })
}

/// Prints results as JSON or in words.
fn print_results<T: Serialize>(
    given: &ParsedOptions,
    found: &T,
    words: impl FnOnce() -> String,
) -> Result<(), CommandFailure> {
    let line = match given.has("json") {
        true => serde_json::to_string(found).map_err(|error| error.to_string())?,
        false => words(),
    };
    Ok(put(&format!("{line}\n"))?)
}

/// The command as declared.
pub(super) fn gateway_declared() -> CommandSpec {
    CommandSpec::new(
        "harrier market gateway [OPTIONS]",
        GATEWAY_ABOUT,
        &[MARKET, GATEWAY, TRADING, SHOWN],
        GATEWAY_EXAMPLES,
    )
}

/// Runs one gateway.
///
/// # Errors
/// Wrong usage, a broker that fails, an unanswered order.
pub(super) fn gateway(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = gateway_declared().given(words)? else { return Ok(()) };
    let load = MarketLoad::read(&given, 100_000)?;
    let gateway = given.number("gateway", 0, 0, u64::from(load.gateways) - 1)? as u16;
    let task = GatewayTask {
        place: market_address(&given, load.gateways)?,
        gateway,
        rate: rate(given.text("rate").unwrap_or("1000"))?,
        load,
    };
    let found = GatewayProgram::start(task)?.work(now_ns())?;
    print_results(&given, &found, || gateway_words(&found))?;
    match found.problems().first() {
        None => Ok(()),
        Some(_) => Err(CommandFailure::Invalid(found.problems().join("; "))),
    }
}

fn gateway_words(found: &GatewayResults) -> String {
    let mut completion = LatencyHistogram::default();
    completion.merge(&found.completion);
    let seconds = found.sent_at_ns.saturating_sub(found.began_ns).max(1) as f64 / 1e9;
    format!(
        "gateway {}: {} orders, {:.0} a second; {} trades, {} order confirmations, {} quotes, {} rejects; completion mean {:.1} us, \
         p50 {:.1}, p99 {:.1}, max {:.1}; {} answers came twice; checksum of all trades {:016x}",
        found.gateway,
        found.orders,
        found.orders as f64 / seconds,
        found.trades,
        found.confirmations,
        found.quotes,
        found.rejects,
        completion.mean_us(),
        completion.quantile_us(0.5),
        completion.quantile_us(0.99),
        completion.max_us(),
        found.repeated,
        found.checksum
    )
}

/// The command as declared.
pub(super) fn engine_declared() -> CommandSpec {
    // The gateways decide how many orders there are.
    let trading: Vec<OptionSpec> = TRADING
        .iter()
        .filter(|option| ["gateways", "symbols", "matching", "sample"].contains(&option.name))
        .copied()
        .collect();
    CommandSpec::new(
        "harrier market engine [OPTIONS]",
        ENGINE_ABOUT,
        &[MARKET, ENGINE, &trading, SHOWN],
        ENGINE_EXAMPLES,
    )
}

/// Runs the matching engine.
///
/// # Errors
/// Wrong usage, a broker or a journal that fails.
pub(super) fn engine(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = engine_declared().given(words)? else { return Ok(()) };
    let load = MarketLoad::read(&given, GATEWAYS_MAX as u64)?;
    let task = EngineTask {
        place: market_address(&given, load.gateways)?,
        load,
        journal: given.text("journal").map(PathBuf::from),
        ends_with_gateways: !given.has("stay"),
    };
    let found = EngineProgram::start(task)?.work()?;
    print_results(&given, &found, || engine_words(&found))
}

fn engine_words(found: &EngineResults) -> String {
    format!(
        "engine: {} orders, {} of them from the journal, {} came twice, {} never; {} trades, {} order confirmations, {} quotes, \
         {} rejects, {} malformed messages; checksum of all trades {:016x}",
        found.orders,
        found.replayed,
        found.repeated,
        found.missing,
        found.trades,
        found.confirmations,
        found.quotes,
        found.rejects,
        found.malformed,
        found.checksum
    )
}

/// The command as declared.
pub(super) fn reporter_declared() -> CommandSpec {
    let gateways: Vec<OptionSpec> = TRADING.iter().filter(|option| option.name == "gateways").copied().collect();
    CommandSpec::new(
        "harrier market reporter --file FILE [OPTIONS]",
        REPORTER_ABOUT,
        &[MARKET, REPORTER, &gateways, SHOWN],
        REPORTER_EXAMPLES,
    )
}

/// Runs the statistics reporter.
///
/// # Errors
/// Wrong usage, a broker or a file that fails.
pub(super) fn reporter(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = reporter_declared().given(words)? else { return Ok(()) };
    let gateways = given.number("gateways", 1, 1, GATEWAYS_MAX as u64)? as u16;
    let file = given
        .text("file")
        .map(PathBuf::from)
        .ok_or_else(|| UsageError("--file says where measurements go".to_owned()))?;
    let found =
        ReporterProgram::start(&ReporterTask { place: market_address(&given, gateways)?, file: Some(file) })?.work()?;
    let ReporterResults { gateway, engine, rejections, strays } = found;
    print_results(&given, &found, || {
        format!(
            "reporter: {gateway} measurements of gateways, {engine} of the engine, {rejections} rejections of messages that were no \
             orders, {strays} messages that were none of these"
        )
    })
}
