//! `harrier rdma calibrate`: measures at which message sizes one path becomes faster than another on this device.
//!
//! Prints settings as TOML or JSON, with the measurements behind them.

use super::findings::{self, Problem};
use super::message_paths::{BODY_BYTES_MAX, ConnectedEnds, MessagePath, TimedBody};
use super::self_test::StepResult;
use cli::{print, print_error, usage_error};
use gauge::{RunSummary, bootstrap_interval, ratio_interval};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Default number of rounds. Each round measures each path once, so that other load on the machine affects all alike.
pub const ROUNDS: u32 = 11;
/// Fewer rounds give a useless interval.
const ROUNDS_MIN: u32 = 5;
const ROUNDS_MAX: u32 = 1_000;
/// Approximate time per path and round.
const ROUND: Duration = Duration::from_millis(5);
const TIMES_MAX: u32 = 5_000;
const CONFIDENCE: f64 = 0.95;
const SMALL: [usize; 9] = [8, 16, 32, 64, 96, 128, 160, 188, 220];
const LARGE: [usize; 9] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18];
const _: () = assert!(LARGE[LARGE.len() - 1] == BODY_BYTES_MAX);

/// Two paths at one size: microseconds of each, and the ratio of the first to the second.
struct PathComparison {
    bytes: usize,
    one_us: RunSummary,
    other_us: RunSummary,
    ratio: RunSummary,
}

/// The measurements on a device.
struct CalibrationResult {
    device: String,
    is_software: Option<bool>,
    address: IpAddr,
    rounds: u32,
    /// Inline against eager.
    inline: Vec<PathComparison>,
    /// Rendezvous against eager.
    rendezvous: Vec<PathComparison>,
}

/// Runs `harrier rdma calibrate`.
pub fn main(given: &cli::ArgMatches) -> ExitCode {
    let (json, device) = (cli::has(given, "json"), cli::text(given, "device"));
    let rounds = match cli::text(given, "rounds").map(|text| (text, text.parse())) {
        None => ROUNDS,
        Some((_, Ok(rounds))) if (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) => rounds,
        Some((text, _)) => {
            return usage_error(&format!("--rounds is a number from {ROUNDS_MIN} to {ROUNDS_MAX}, not '{text}'"));
        }
    };
    match measure(device, rounds) {
        Ok(found) => print(&if json { found.json() } else { found.lines() }),
        Err(Problem { what, fix }) => {
            print_error(&format!("harrier: {what}"));
            print_error(&format!("needed: {fix}"));
            ExitCode::FAILURE
        }
    }
}

fn measure(device: Option<&str>, rounds: u32) -> StepResult<CalibrationResult> {
    let (context, address) = findings::first(device)?;
    let mut ends = ConnectedEnds::connect(address)?;
    let inline_max = ends.inline_bytes_max();
    let small = SMALL.into_iter().filter(|&bytes| bytes <= inline_max);
    let inline = small
        .map(|bytes| compare_with_eager(&mut ends, bytes, MessagePath::Inline, rounds))
        .collect::<StepResult<_>>()?;
    let rendezvous = LARGE.map(|bytes| compare_with_eager(&mut ends, bytes, MessagePath::Rendezvous, rounds));
    Ok(CalibrationResult {
        device: context.name(),
        is_software: context.is_software(),
        address,
        rounds,
        inline,
        rendezvous: rendezvous.into_iter().collect::<StepResult<_>>()?,
    })
}

/// Compares a path with the eager one, in turns, in the opposite order every second round.
fn compare_with_eager(
    ends: &mut ConnectedEnds,
    bytes: usize,
    path: MessagePath,
    rounds: u32,
) -> StepResult<PathComparison> {
    let mut body = ends.body(bytes)?;
    let paths = [path, MessagePath::Eager];
    let mut times = [1; 2];
    for (at, &path) in paths.iter().enumerate() {
        // The first call runs with cold memory; the second tells how many fit into a round.
        ends.time(path, &mut body, 1)?;
        let one = ends.time(path, &mut body, 2)?.max(Duration::from_nanos(100));
        times[at] = (ROUND.as_nanos() / one.as_nanos()).clamp(1, u128::from(TIMES_MAX)) as u32;
    }
    let mut us = [Vec::new(), Vec::new()];
    for round in 0..rounds as usize {
        for at in [round % 2, 1 - round % 2] {
            us[at].push(time_us(ends, paths[at], &mut body, times[at])?);
        }
    }
    let none = || Problem::new("the clock gave no time", "tell us");
    let of = |values: &[f64]| bootstrap_interval(values, CONFIDENCE, bytes as u64).ok_or_else(none);
    let ratio = ratio_interval(&us[0], &us[1], CONFIDENCE, bytes as u64).ok_or_else(none)?;
    Ok(PathComparison { bytes, one_us: of(&us[0])?, other_us: of(&us[1])?, ratio })
}

fn time_us(ends: &mut ConnectedEnds, path: MessagePath, body: &mut TimedBody, times: u32) -> StepResult<f64> {
    Ok(ends.time(path, body, times)?.as_secs_f64() * 1e6)
}

/// The largest size at and below which the first path is never slower.
fn largest_not_slower(comparison: &[PathComparison]) -> usize {
    comparison
        .iter()
        .take_while(|comparison| comparison.ratio.median <= 1.0)
        .last()
        .map_or(0, |comparison| comparison.bytes)
}

/// The smallest size at and above which the first path is never slower.
fn smallest_not_slower(comparison: &[PathComparison]) -> Option<usize> {
    comparison
        .iter()
        .rev()
        .take_while(|comparison| comparison.ratio.median <= 1.0)
        .last()
        .map(|comparison| comparison.bytes)
}

/// Whether the interval includes 1.
fn is_undecided(comparison: &PathComparison) -> bool {
    comparison.ratio.low <= 1.0 && comparison.ratio.high >= 1.0
}

const SOFTWARE: &str = "this is a software device: the result says nothing about a card";

impl CalibrationResult {
    /// The size from which bodies are offered for reading. If eager sends always win, the largest size that was tried.
    fn rendezvous_from(&self) -> usize {
        smallest_not_slower(&self.rendezvous).unwrap_or(BODY_BYTES_MAX)
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut put = |line: String| _ = writeln!(text, "{line}");
        put(format!("# harrier rdma calibrate: {} over {}, {} rounds", self.device, self.address, self.rounds));
        if self.is_software == Some(true) {
            put(format!("# {SOFTWARE}"));
        }
        for (name, all) in [("inline", &self.inline), ("rendezvous", &self.rendezvous)] {
            put("#".to_owned());
            put(format!("# {:>8} {:>16} {:>12} {:>8}  95 %", "bytes", format!("{name} (us)"), "eager (us)", "ratio"));
            for comparison in all {
                let RunSummary { median, low, high, .. } = comparison.ratio;
                let open = if is_undecided(comparison) { "  open" } else { "" };
                let (one, other) = (comparison.one_us.median, comparison.other_us.median);
                put(format!(
                    "# {:>8} {one:>16.2} {other:>12.2} {median:>8.3}  {low:.3} to {high:.3}{open}",
                    comparison.bytes
                ));
            }
        }
        put("#".to_owned());
        if smallest_not_slower(&self.rendezvous).is_none() {
            put(format!("# Eager sends are never beaten up to {BODY_BYTES_MAX} bytes."));
        }
        // There is no setting for it: the transport sends inline whatever the device accepts.
        put(format!("# Inline sends are no slower up to {} bytes.", largest_not_slower(&self.inline)));
        put(format!("rdma_rendezvous_bytes_min = {}", self.rendezvous_from()));
        text
    }

    fn json(&self) -> String {
        let summary = |of: &RunSummary| json!({ "median": of.median, "low": of.low, "high": of.high, "confidence": of.confidence });
        let list = |comparison: &[PathComparison]| -> Value {
            let one = |comparison: &PathComparison| {
                json!({
                    "bytes": comparison.bytes,
                    "us": summary(&comparison.one_us),
                    "eager_us": summary(&comparison.other_us),
                    "ratio": summary(&comparison.ratio),
                    "open": is_undecided(comparison),
                })
            };
            comparison.iter().map(one).collect()
        };
        let value = json!({
            "device": self.device,
            "software": self.is_software,
            "address": self.address.to_string(),
            "rounds": self.rounds,
            "inline": list(&self.inline),
            "rendezvous": list(&self.rendezvous),
            "inline_bytes_max": largest_not_slower(&self.inline),
            "settings": {
                "rdma_rendezvous_bytes_min": self.rendezvous_from(),
            },
        });
        format!("{value:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::{PathComparison, RunSummary, is_undecided, largest_not_slower, smallest_not_slower};

    fn comparison(ratios: &[f64]) -> Vec<PathComparison> {
        let summary = |median: f64| RunSummary { median, low: median - 0.05, high: median + 0.05, confidence: 0.95 };
        let one = |(at, &ratio): (usize, &f64)| PathComparison {
            bytes: 1 << at,
            one_us: summary(ratio),
            other_us: summary(1.0),
            ratio: summary(ratio),
        };
        ratios.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_threshold_holds_for_all_sizes_on_its_side() {
        for (ratios, small, large) in [
            (&[0.5, 0.8, 1.2, 0.9][..], 2, Some(8)),
            (&[1.2, 1.1, 0.9, 0.5], 0, Some(4)),
            (&[0.9, 0.9], 2, Some(1)),
            (&[1.1, 1.2], 0, None),
            (&[], 0, None),
        ] {
            let comparison = comparison(ratios);
            assert_eq!(
                (largest_not_slower(&comparison), smallest_not_slower(&comparison)),
                (small, large),
                "{ratios:?}"
            );
        }
        let comparison = comparison(&[0.9, 0.97, 1.04, 1.2]);
        assert_eq!(comparison.iter().map(is_undecided).collect::<Vec<_>>(), [false, true, true, false]);
    }
}
