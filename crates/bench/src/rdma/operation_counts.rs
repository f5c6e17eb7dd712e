//! Device operations and copies per message, taken from the counters that a broker logs when it exits.

use serde_json::Value;

use super::{POLLS, RdmaGoals};
use harness::placement::CpuPlacement;
use harness::role_protocol::{LoadSegment, TrafficShape};
use load::perf_table::GoalBound;
use load::scenario::{RunningScenario, Scenario};

/// A load: name, traffic pattern, size, and messages per second of the requested length.
const LOADS: [(&str, TrafficShape, usize, f64); 5] = [
    ("64 B under load", TrafficShape::Stream, 64, 20_000.0),
    ("64 B, one at a time", TrafficShape::PingPong, 64, 500.0),
    ("1 KiB under load", TrafficShape::Stream, 1 << 10, 10_000.0),
    ("64 KiB under load", TrafficShape::Stream, 64 << 10, 300.0),
    ("1 MiB under load", TrafficShape::Stream, 1 << 20, 60.0),
];
/// Bodies of at least this size must not be copied.
const LARGE_BYTES: usize = 16 << 10;
const COUNTERS: [(&str, &str); 6] = [
    ("rdma_doorbells", "doorbells"),
    ("rdma_receive_lists", "lists of receives"),
    ("rdma_sends", "sends"),
    ("rdma_receives", "receives"),
    ("rdma_reads", "READs"),
    ("rdma_completions", "completions asked for"),
];

impl RdmaGoals {
    pub(super) fn counts(&mut self) -> Result<(), String> {
        for (name, shape, size_bytes, a_second) in LOADS {
            let count = (a_second * self.effort.seconds).max(10.0) as u64;
            let broker = self.broker(POLLS[0])?;
            let mut running =
                RunningScenario::start(&Scenario::default(), &broker.target("broker")?, &CpuPlacement::default())?;
            let figures = running.segment(&LoadSegment { shape, size_bytes, count })?;
            drop(running);
            // A round trip is two messages.
            let messages = figures.delivered * if shape == TrafficShape::PingPong { 2 } else { 1 };
            let last = broker.end();
            let counters: Value = serde_json::from_str(&last).map_err(|_| format!("the broker said last: {last}"))?;
            let number = |field: &str| counters.get(field).and_then(Value::as_u64);
            let each = |field: &str| number(field).map(|number| number as f64 / messages as f64);
            let detail: Vec<String> = COUNTERS
                .iter()
                .map(|(field, what)| {
                    each(field).map_or_else(|| format!("no {what}"), |each| format!("{what} {each:.3}"))
                })
                .collect();
            self.row(
                &format!("{name}: the broker's doorbells, lists of receives included, for a message"),
                GoalBound::Nothing,
                each("rdma_doorbells").zip(each("rdma_receive_lists")).map(|(sends, receives)| sends + receives),
                format!("of {messages}: {}", detail.join(", ")),
            )?;
            if size_bytes >= LARGE_BYTES {
                let copied = number("body_bytes_copied_in").zip(number("body_bytes_copied_out"));
                let parts =
                    copied.map_or_else(String::new, |(inward, outward)| format!(": {inward} in, {outward} out"));
                self.row(
                    &format!("{name}: body bytes that the broker copied"),
                    GoalBound::AtMost(0.0),
                    copied.map(|(inward, outward)| (inward + outward) as f64),
                    format!("of {}{parts}", figures.delivered * size_bytes as u64),
                )?;
            }
        }
        Ok(())
    }
}
