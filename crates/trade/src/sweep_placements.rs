//! The placements of a sweep: which processors suit which broker.
//!
//! The best placement is the one with the lowest median of the runs' 99th percentiles; INVALID runs do not count.

use gauge::RunValues;

use super::market_figures::MarketFigures;
use super::market_options::rate_label;
use crate::limits::PLACES_MAX;
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::launcher::has_ranks;
use harness::placement::CpuPlacement;
use harness::target::BenchmarkTarget;

/// Further placements.
pub(super) const PLACEMENTS: &[OptionSpec] = &[option(
    "also-cpus",
    None,
    "PLACES",
    "also run everything on these CPUs, interleaved with --cpus; may be repeated: reports where each broker is fastest",
)];

/// The placements of a sweep, in turn.
pub(super) struct SweepPlacements(Vec<CpuPlacement>);

impl SweepPlacements {
    /// Reads the options; the first placement is that of --cpus.
    ///
    /// # Errors
    /// A placement is not understood, there are too many, or a launcher places the ranks itself.
    pub(super) fn read(given: &ParsedOptions, first: &CpuPlacement) -> Result<Self, UsageError> {
        let others = given.texts("also-cpus");
        if others.len() >= PLACES_MAX {
            return Err(UsageError(format!("--also-cpus: at most {PLACES_MAX} placements are tried")));
        }
        if has_ranks() && !others.is_empty() {
            return Err(UsageError("--also-cpus: under a launcher, the launcher places the ranks".to_owned()));
        }
        let others = others.iter().map(|text| CpuPlacement::parse(if text == "any" { "" } else { text }));
        let all: Vec<CpuPlacement> = [Ok(first.clone())].into_iter().chain(others).collect::<Result<_, _>>()?;
        all.iter()
            .skip(1)
            .try_for_each(CpuPlacement::check_processors)
            .map_err(|why| UsageError(format!("--also-cpus: {why}")))?;
        match (1..all.len()).find(|&index| all[..index].contains(&all[index])) {
            Some(index) => Err(UsageError(format!("--also-cpus: '{}' is given twice", all[index]))),
            None => Ok(Self(all)),
        }
    }

    pub(super) fn all(&self) -> &[CpuPlacement] {
        &self.0
    }

    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The initial placement of a broker that allows all others: a process cannot move to processors outside its
    /// initial set.
    pub(super) fn at_start(&self) -> CpuPlacement {
        if self.are_several() { CpuPlacement::default() } else { self.0[0].clone() }
    }

    /// Checks that every broker can be moved to its placements.
    ///
    /// # Errors
    /// A broker's process is unknown.
    pub(super) fn check_movable(&self, targets: &[BenchmarkTarget]) -> Result<(), UsageError> {
        let moves = self.are_several() && self.0.iter().any(|place| !place.broker.is_any());
        match targets.iter().find(|target| moves && target.pid.is_none()) {
            Some(target) => Err(UsageError(format!(
                "--also-cpus: {} cannot be moved: its process is not on this host, or unknown (--broker-pid)",
                target.name
            ))),
            None => Ok(()),
        }
    }

    /// A broker's name in rows.
    pub(super) fn label(&self, broker: &str, place: usize) -> String {
        if self.are_several() { format!("{broker} @{}", place + 1) } else { broker.to_owned() }
    }

    /// How many letters that adds to a name.
    pub(super) fn letters(&self) -> usize {
        self.label("", 0).len()
    }

    /// The legend of placement names.
    pub(super) fn facts(&self) -> Vec<String> {
        if !self.are_several() {
            return Vec::new();
        }
        self.0.iter().enumerate().map(|(index, place)| format!("@{}: {place}", index + 1)).collect()
    }
}

pub(super) struct SweepRun {
    pub rate: Option<f64>,
    pub broker: String,
    pub placement: usize,
    pub figures: MarketFigures,
}

/// For each rate: the first broker at its best placement, and how many times longer the others take at theirs.
pub(super) fn best(places: &SweepPlacements, runs: &[SweepRun]) -> Vec<String> {
    let mut lines = Vec::new();
    if !places.are_several() {
        return lines;
    }
    let mut rates: Vec<Option<f64>> = Vec::new();
    let mut brokers: Vec<&str> = Vec::new();
    for run in runs {
        if !rates.contains(&run.rate) {
            rates.push(run.rate);
        }
        if !brokers.contains(&run.broker.as_str()) {
            brokers.push(&run.broker);
        }
    }
    for rate in rates {
        let of = |broker: &str, place: usize| {
            let these = runs.iter().filter(|run| run.rate == rate && run.broker == broker && run.placement == place);
            let valid = these.filter(|run| run.figures.invalid().is_empty());
            let p99s = valid.filter_map(|run| run.figures.completion().supported_quantile_us(0.99));
            p99s.collect::<RunValues>().median()
        };
        lines.push(format!("{} orders/s: {}", rate_label(rate), ranked(&brokers, places.all().len(), of)));
    }
    lines
}

/// Each broker at the placement with the lowest figure.
fn ranked(brokers: &[&str], places: usize, of: impl Fn(&str, usize) -> Option<f64>) -> String {
    let best_of = |broker: &str| {
        let all = (0..places).filter_map(|place| Some((of(broker, place)?, place)));
        all.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let first = brokers.first().and_then(|broker| best_of(broker));
    let told: Vec<String> = brokers
        .iter()
        .enumerate()
        .map(|(index, broker)| match (best_of(broker), first) {
            (None, _) => format!("{broker}: no valid run"),
            (Some((us, place)), Some((least, _))) if index > 0 => {
                format!("{broker} @{} {us:.0} us, {:.2} times {}'s", place + 1, us / least, brokers[0])
            }
            (Some((us, place)), _) => format!("{broker} @{} {us:.0} us", place + 1),
        })
        .collect();
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(words: &[&str]) -> Result<SweepPlacements, UsageError> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        SweepPlacements::read(&ParsedOptions::parse(&words, &[PLACEMENTS])?, &CpuPlacement::default())
    }

    #[test]
    fn each_broker_is_told_where_it_does_best() {
        let us = |broker: &str, place: usize| match (broker, place) {
            ("a", 0) => Some(400.0),
            ("a", _) => Some(100.0),
            ("b", 0) => Some(750.0),
            ("b", _) => Some(2_000.0),
            _ => None,
        };
        assert_eq!(ranked(&["a", "b", "c"], 2, us), "a @2 100 us; b @1 750 us, 7.50 times a's; c: no valid run");
        assert_eq!(ranked(&["c", "a"], 2, us), "c: no valid run; a @2 100 us");
    }

    #[test]
    fn places_have_numbers_where_there_are_several() {
        let one = places(&[]).expect("no place of its own");
        assert_eq!((one.label("a", 0), one.facts().len()), ("a".to_owned(), 0));
        let two = places(&["--also-cpus", "broker=0,publisher=0,consumer=0"]).expect("two places");
        assert_eq!(two.label("a", 1), "a @2");
        assert_eq!(two.facts(), ["@1: broker=any publisher=any consumer=any", "@2: broker=0 publisher=0 consumer=0"]);
        assert_eq!(two.at_start(), CpuPlacement::default());
    }

    #[test]
    fn wrong_places_are_refused() {
        let why = |words: &[&str]| places(words).map_or_else(|wrong| wrong.0, |_| String::new());
        assert!(why(&["--also-cpus", "any"]).ends_with("is given twice"));
        assert!(why(&["--also-cpus", "broker"]).contains("expected role=processors"));
        assert!(why(&["--also-cpus", "consumer=1023"]).starts_with("--also-cpus: cannot run on processor 1023: "));
        let many: Vec<String> = (0..PLACES_MAX).map(|cpu| format!("--also-cpus=broker={cpu}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(why(&many).contains("at most"));
    }
}
