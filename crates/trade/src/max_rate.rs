//! `harrier market max`: searches the highest rate at which order completion stays within a limit.
//!
//! A rate that passed a short trial is run once more, for longer.

use super::market_figures::MarketFigures;
use super::market_options::{MarketLoad, TRADING};
use super::run_market::{MarketBench, TURNS};
use super::running_market::MarketRun;
use crate::limits::MARKET_ORDERS_MAX;
use harness::arguments::{OptionSpec, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::measure_options::{MeasureOptions, OUTPUT, TARGETS};
use load::rate_search::RateSearch;
use load::workload::units;

const OWN: &[OptionSpec] = &[
    option("limit", None, "pQ=TIME", "limit of the completion time (default p99=1ms)"),
    option("from", None, "R", "the first rate to try (default 20000)"),
    option("probe-seconds", None, "S", "length of a trial (default 1)"),
    option("seconds", None, "S", "length of the final run at the result (default 3)"),
    option("probes", None, "N", "maximum number of trials (default 16)"),
];

const ABOUT: &str = "\
Searches for the highest rate of orders whose p99 completion stays under a limit: doubling and halving, then bisection,
until the rate is known to 5 % or the trials are used up; then runs the result once more, for longer. A rate at which the gateways
fall behind their schedule, or an order is not answered, exceeds the limit.";

const EXAMPLES: &[(&str, &str)] = &[
    ("max", "the highest rate with p99 under a millisecond"),
    ("max --limit p99.9=10ms --url amqp://127.0.0.1:5673", "another limit, another broker"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    // Rates and seconds determine the number of orders.
    let trading: Vec<OptionSpec> =
        TRADING.iter().filter(|option| !["orders", "window"].contains(&option.name)).copied().collect();
    CommandSpec::new("harrier market max [OPTIONS]", ABOUT, &[OWN, TURNS, &trading, TARGETS, OUTPUT], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a program or broker that failed, no rate within the limit.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (load, setup) = (MarketLoad::read(&given, 100_000)?, MeasureOptions::read(&given)?);
    let limit = CompletionLimit::parse(given.text("limit").unwrap_or("p99=1ms"))?;
    let effort = SearchEffort {
        from: given.decimal("from", 20_000.0, 100.0, 5_000_000.0)?,
        probe_s: given.decimal("probe-seconds", 1.0, 0.1, 60.0)?,
        seconds: given.decimal("seconds", 3.0, 0.1, 600.0)?,
        probes: given.number("probes", 16, 1, 100)?,
    };
    let mut market = MarketBench::begin("max", words, &given, setup, load)?;
    let mut missed = Vec::new();
    let outcome = market.print_header().and_then(|()| {
        for target in 0..market.targets.len() {
            let name = market.targets[target].name.clone();
            match search(&mut market, target, &limit, &effort)? {
                Some(rate) => {
                    market.show(&format!("# {name}: {rate:.0} orders/s is the highest rate found within {limit}\n"))?
                }
                None => missed.push(format!("{limit}: no rate that was tried stays within it on {name}")),
            }
        }
        Ok(())
    });
    market.finish(outcome)?;
    if missed.is_empty() { Ok(()) } else { Err(CommandFailure::Missed(missed.join("; "))) }
}

struct SearchEffort {
    from: f64,
    probe_s: f64,
    seconds: f64,
    probes: u64,
}

/// A limit on a quantile of the completion time.
struct CompletionLimit {
    text: String,
    quantile: f64,
    most_us: f64,
}

impl std::fmt::Display for CompletionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl CompletionLimit {
    fn parse(text: &str) -> Result<Self, UsageError> {
        let wrong = || UsageError(format!("--limit is a quantile and a time, as in p99=1ms, not '{text}'"));
        let (quantile, time) = text.split_once('=').ok_or_else(wrong)?;
        let most_us = units::duration_ns(time)? as f64 / 1e3;
        if most_us <= 0.0 {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), quantile: units::quantile(quantile)?, most_us })
    }

    fn is_kept(&self, figures: &MarketFigures) -> bool {
        let us = figures.completion().supported_quantile_us(self.quantile);
        figures.invalid().is_empty() && us.is_some_and(|us| us <= self.most_us)
    }
}

fn search(
    market: &mut MarketBench,
    target: usize,
    limit: &CompletionLimit,
    effort: &SearchEffort,
) -> Result<Option<f64>, CommandFailure> {
    let mut search = RateSearch::from(effort.from);
    for _probe in 0..effort.probes {
        let Some(rate) = search.rate() else { break };
        let figures = one(market, target, rate, effort.probe_s)?;
        search.observe(limit.is_kept(&figures));
    }
    let mut best = search.best();
    while let Some(rate) = best {
        let figures = one(market, target, rate, effort.seconds)?;
        if limit.is_kept(&figures) {
            market.add_run(Some(rate), target, None, &figures);
            return Ok(Some(rate));
        }
        best = search.step_down();
    }
    Ok(None)
}

fn one(market: &mut MarketBench, target: usize, rate: f64, seconds: f64) -> Result<MarketFigures, CommandFailure> {
    let orders = ((rate * seconds) as u64).clamp(u64::from(market.load.gateways), MARKET_ORDERS_MAX);
    let load = MarketLoad { orders, ..market.load.clone() };
    let figures =
        market.measure(&MarketRun { load: &load, rate: Some(rate), file: None, kill_engine_s: None }, target)?;
    market.show_row(Some(rate), &market.targets[target].name, &figures)?;
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_quantile_and_a_time() {
        let limit = CompletionLimit::parse("p99=1ms").expect("it is one");
        assert_eq!((limit.quantile, limit.most_us), (0.99, 1_000.0));
        for wrong in ["p99", "p99=0ms", "99=1ms", "p99=1"] {
            assert!(CompletionLimit::parse(wrong).is_err(), "{wrong}");
        }
    }
}
