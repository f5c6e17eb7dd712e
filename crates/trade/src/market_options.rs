//! Options that the market commands share, except those of brokers (see `setup`).

use market::Matching;
use market::limits::{GATEWAYS_MAX, ORDERS_IN_FLIGHT_MAX, SYMBOLS_MAX};
use serde::{Deserialize, Serialize};

use crate::limits::{MARKET_ORDERS_MAX, MARKET_RATE_MAX};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};

/// Trading options.
pub(crate) const TRADING: &[OptionSpec] = &[
    option("orders", None, "N", "orders of all gateways together (default 100000)"),
    option("gateways", None, "N", "gateways, each a process with its own queue (default 1)"),
    option("symbols", None, "N", "symbols, each with its own book (default 16)"),
    option("seed", None, "N", "seed of the random orders (default 1)"),
    option("matching", None, "HOW", "crossing (default), or exact: only at the same price, as in the paper"),
    option("sample", None, "N", "orders between two measurements (default 10000, as in the paper)"),
    option("window", None, "N", "without a rate: orders in flight of each gateway (default 1000)"),
    option(
        "confirms",
        None,
        "",
        "publisher confirms and acknowledgements everywhere, and a journal, so that nothing is lost",
    ),
];

/// The load of a market without its rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MarketLoad {
    /// Of all gateways together.
    pub orders: u64,
    pub gateways: u16,
    pub symbols: u16,
    pub seed: u64,
    pub exact: bool,
    /// Orders between two samples.
    pub sample: u64,
    /// Orders in flight without a rate.
    pub window: u64,
    /// Publisher confirms, acknowledgements, and a journal.
    pub confirms: bool,
}

impl MarketLoad {
    /// Reads the options; `orders` is the default number of orders.
    pub(crate) fn read(given: &ParsedOptions, orders: u64) -> Result<Self, UsageError> {
        let load = Self {
            orders: given.number("orders", orders, 1, MARKET_ORDERS_MAX)?,
            gateways: given.number("gateways", 1, 1, GATEWAYS_MAX as u64)? as u16,
            symbols: given.number("symbols", 16, 1, SYMBOLS_MAX as u64)? as u16,
            seed: given.number("seed", 1, 0, i64::MAX as u64)?,
            exact: given.one_of("matching", &["crossing", "exact"])? == "exact",
            sample: given.number("sample", 10_000, 1, MARKET_ORDERS_MAX)?,
            window: given.number("window", 1_000, 1, ORDERS_IN_FLIGHT_MAX)?,
            confirms: given.has("confirms"),
        };
        if load.gateways > load.symbols {
            return Err(UsageError(format!(
                "--gateways {}: each gateway needs a symbol of its own, and there are {} (--symbols)",
                load.gateways, load.symbols
            )));
        }
        if load.orders < u64::from(load.gateways) {
            return Err(UsageError(format!("--orders {}: there are {} gateways", load.orders, load.gateways)));
        }
        Ok(load)
    }

    pub(crate) fn matching(&self) -> Matching {
        if self.exact { Matching::Exact } else { Matching::Crossing }
    }

    /// How many orders a gateway sends.
    pub(crate) fn orders_of(&self, gateway: u16) -> u64 {
        let (gateway, gateways) = (u64::from(gateway), u64::from(self.gateways));
        self.orders * (gateway + 1) / gateways - self.orders * gateway / gateways
    }

    /// The load in words.
    pub(crate) fn describe(&self) -> String {
        let count = |count: u16, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} orders, {}, {}, matching {}, seed {}{}",
            self.orders,
            count(self.gateways, "gateway"),
            count(self.symbols, "symbol"),
            self.matching(),
            self.seed,
            if self.confirms { ", confirms, acknowledgements and a journal" } else { "" }
        )
    }
}

/// Orders a second: a number, or `max` for as fast as possible.
pub(crate) fn rate(text: &str) -> Result<Option<f64>, UsageError> {
    if text == "max" {
        return Ok(None);
    }
    match text.parse() {
        Ok(rate) if (1.0..=MARKET_RATE_MAX).contains(&rate) => Ok(Some(rate)),
        _ => Err(UsageError(format!(
            "--rate is a number of orders a second from 1 to {MARKET_RATE_MAX}, or max, not '{text}'"
        ))),
    }
}

/// A list of rates.
pub(crate) fn rates(text: &str) -> Result<Vec<Option<f64>>, UsageError> {
    text.split(',').map(|text| rate(text.trim())).collect()
}

/// A rate as in tables.
pub(crate) fn rate_label(rate: Option<f64>) -> String {
    rate.map_or_else(|| "max".to_owned(), |rate| rate.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(line: &str) -> Result<MarketLoad, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ParsedOptions::parse(&words, &[TRADING])
            .and_then(|given| MarketLoad::read(&given, 100))
            .map_err(|wrong| wrong.0)
    }

    #[test]
    fn orders_are_shared_between_gateways() {
        let load = load("--orders 10 --gateways 3").expect("nothing is wrong");
        assert_eq!((0..3).map(|gateway| load.orders_of(gateway)).collect::<Vec<_>>(), [3, 3, 4]);
        assert_eq!(load.describe(), "10 orders, 3 gateways, 16 symbols, matching crossing, seed 1");
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (line, expected) in [
            (
                "--gateways 3 --symbols 2",
                "--gateways 3: each gateway needs a symbol of its own, and there are 2 (--symbols)",
            ),
            ("--gateways 17", "--gateways is a number from 1 to 16, not '17'"),
            ("--gateways 2 --orders 1", "--orders 1: there are 2 gateways"),
            ("--matching fuzzy", "--matching is one of crossing, exact, not 'fuzzy'"),
            ("--symbols 0", "--symbols is a number from 1 to 10000, not '0'"),
        ] {
            assert_eq!(load(line), Err(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn rates_are_numbers_or_as_fast_as_it_goes() {
        assert_eq!(rates("1000, 2.5,max"), Ok(vec![Some(1_000.0), Some(2.5), None]));
        assert!(rate("0").is_err() && rate("fast").is_err() && rates("1,,2").is_err());
        assert_eq!(rate_label(Some(8_000.0)), "8000");
        assert_eq!(rate_label(None), "max");
    }
}
