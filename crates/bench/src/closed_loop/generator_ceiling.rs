//! Warns when the load generator's own ceiling is too close to a broker's rate.
//!
//! The ceiling should be three times the broker's rate, or nine tenths of what plain sockets carry. A close ceiling does not
//! make a figure INVALID: a saturated generator is detected by the processor time it used in the run itself.

use report::document::SeriesPoint;
use report::{Metric, paired_ratios};

use crate::limits::{CEILING_TIMES_MIN, SOCKET_BASELINE_SHARE_MIN};
use harness::target::{BenchmarkTarget, TargetAddress};

/// The metric that a null broker is compared by.
pub fn metric(way: &TargetAddress) -> Metric {
    match way {
        TargetAddress::Source(_) => Metric::DeliveredPerS,
        _ => Metric::PublishedPerS,
    }
}

/// The index of each null broker that is too close to a broker's rate, with the reason.
pub fn near_ceiling_warnings(contestants: &[&BenchmarkTarget], points: &[&mut SeriesPoint]) -> Vec<(usize, String)> {
    let each = || contestants.iter().zip(points).enumerate();
    let mut found = Vec::new();
    for (index, (null, ceiling)) in each().filter(|(_, (target, _))| is_null(&target.address)) {
        let metric = metric(&null.address);
        let over = |point: &SeriesPoint| paired_ratios::ratio(&metric, ceiling, point);
        let baseline = each().find(|(_, (target, _))| matches!(target.address, TargetAddress::SocketBaseline(_)));
        let of_baseline = baseline.and_then(|(_, (_, point))| over(point));
        for (_, (broker, point)) in each().filter(|(_, (target, _))| matches!(target.address, TargetAddress::Amqp(_))) {
            // The inverse of the ratio in the table: with an even number of turns, the median of inverses differs from the inverse of the
            // median.
            let times = paired_ratios::ratio(&metric, point, ceiling).map(|share| 1.0 / share);
            let why = times.and_then(|times| sentence(&null.name, &broker.name, times, of_baseline));
            found.extend(why.map(|why| (index, why)));
        }
    }
    found
}

fn is_null(way: &TargetAddress) -> bool {
    matches!(way, TargetAddress::Sink(_) | TargetAddress::Source(_))
}

/// The warning for a ceiling that is `times` a broker's rate and the share `of_baseline` of the socket baseline.
fn sentence(null: &str, broker: &str, times: f64, of_baseline: Option<f64>) -> Option<String> {
    if times >= CEILING_TIMES_MIN {
        return None;
    }
    let limit = match of_baseline {
        Some(share) if share >= SOCKET_BASELINE_SHARE_MIN => {
            format!("at {share:.2} of what one hop of sockets carries the sockets are its limit")
        }
        Some(share) => {
            format!("at {share:.2} of what one hop of sockets carries the load generator itself is its limit")
        }
        None => "what limits it is not known".to_owned(),
    };
    Some(format!("{null} is {times:.1} times {broker}, less than {CEILING_TIMES_MIN:.0}; {limit}"))
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_near_ceiling_names_its_limit() {
        for (times, of_baseline, expected) in [
            (3.0, Some(0.2), None),
            (
                2.44,
                Some(0.9),
                Some(
                    "null-sink is 2.4 times harrier, less than 3; at 0.90 of what one hop of sockets carries the sockets are its limit",
                ),
            ),
            (
                2.0,
                Some(0.5),
                Some(
                    "null-sink is 2.0 times harrier, less than 3; at 0.50 of what one hop of sockets carries the load generator itself is its limit",
                ),
            ),
            (1.0, None, Some("null-sink is 1.0 times harrier, less than 3; what limits it is not known")),
        ] {
            assert_eq!(sentence("null-sink", "harrier", times, of_baseline).as_deref(), expected);
        }
    }
}
