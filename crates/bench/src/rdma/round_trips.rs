//! Round-trip latency through the broker compared with four one-way sends of the bare device.

use report::Metric;
use report::document::Document;

use super::cpu_cost::cost;
use super::{RdmaGoals, of};
use crate::networks::{median, point};
use crate::verbs;
use harness::broker_network::{NetworkBroker, TCP};
use harness::failure::CommandFailure;
use harness::placement::CpuPlacement;
use harness::role_protocol::TrafficShape;
use harness::scratch::ScratchDirectory;
use load::interleaved::{PerfContestant, PerfSeries, compare};
use load::perf_table::GoalBound;
use load::scenario::Scenario;

const TIMES_MAX: f64 = 1.5;
/// Publish, its delivery, the answer, its delivery.
const HOPS: f64 = 4.0;
/// The sizes of one run of the baseline: 64 B, 2 KiB, 64 KiB.
const SIZES: [(usize, &str, GoalBound); 3] = [
    (64, "64 B", GoalBound::AtMost(TIMES_MAX)),
    (2 << 10, "2 KiB", GoalBound::Nothing),
    (64 << 10, "64 KiB", GoalBound::Nothing),
];
const SIZE_WORDS: [&str; 2] = ["--sizes=64:64K", "--step=32"];
/// How the broker waits; its clients sleep.
const POLLS: [&str; 3] = ["event", "adaptive", "busy"];

impl RdmaGoals {
    pub(super) fn trips(&mut self) -> Result<(), String> {
        let folder = ScratchDirectory::new()?;
        // Before and after the rest, since the load of this host may change.
        let before = [self.measure_device(&folder, "events")?, self.measure_device(&folder, "busy")?];
        let tcp = NetworkBroker::start(&TCP, self.address, &["--shards", "1"])?;
        let mut brokers = vec![("TCP", tcp)];
        for poll in POLLS {
            brokers.push((poll, self.broker(poll)?));
        }
        let mut targets = Vec::new();
        for (name, broker) in &brokers {
            targets.push((*name, broker.target(name)?));
        }
        let mut measured = Vec::new();
        for (size_bytes, ..) in SIZES {
            let contestants: Vec<PerfContestant<'_>> = targets
                .iter()
                .map(|(name, target)| PerfContestant { name, target, scenario: Scenario::default() })
                .collect();
            measured.push(compare(
                self.effort,
                &contestants,
                TrafficShape::PingPong,
                size_bytes,
                &CpuPlacement::default(),
            )?);
        }
        drop((targets, brokers));
        let after = [self.measure_device(&folder, "events")?, self.measure_device(&folder, "busy")?];
        for ((size_bytes, name, bound), all) in SIZES.into_iter().zip(measured) {
            let p50 = |name: &str| of(&all, name, |series: &PerfSeries| series.quantile_us(0.5));
            // For a broker that sleeps: time spent polling is no part of a message's path.
            let own = of(&all, "event", PerfSeries::user_us);
            let [asleep, polling] = [0, 1].map(|way: usize| {
                let size = size_bytes as f64;
                let [one, other] = [&before[way], &after[way]].map(|document| one_way_us(document, size));
                one.zip(other).map(|(one, other)| (one + other) / 2.0)
            });
            let shown = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1} us"));
            for poll in POLLS {
                let bound = if poll == "event" { bound } else { GoalBound::Nothing };
                let least = asleep.zip(own).map(|(trip, own)| HOPS * trip + own);
                let who = if poll == "event" { "all ends asleep".to_owned() } else { format!("broker {poll}") };
                self.row(
                    &format!("{name}, {who}: round trip, times 4 sends of sleeping ends and the broker's own time"),
                    bound,
                    p50(poll).zip(least).map(|(trip, least)| trip / least),
                    format!(
                        "p50 {}, TCP {}; one send asleep {}, polling {}; broker's own {}",
                        shown(p50(poll)),
                        shown(p50("TCP")),
                        shown(asleep),
                        shown(polling),
                        cost(&all, "event"),
                    ),
                )?;
            }
            self.record.keep(&format!("{name} round trip"), &all);
        }
        Ok(())
    }

    /// One-way sends of the bare device.
    fn measure_device(&self, folder: &ScratchDirectory, poll: &str) -> Result<Document, String> {
        let Self { address, effort, .. } = self;
        let mut words = ["--kind=send", "--shape=latency"].map(str::to_owned).to_vec();
        words.extend(SIZE_WORDS.map(str::to_owned));
        words.extend([format!("--poll={poll}"), format!("--address={address}"), format!("--runs={}", effort.runs)]);
        words.push(format!("--seconds={}", effort.seconds / 2.0));
        words.extend(folder.words(poll));
        CommandFailure::tolerated(verbs::run(&words))?;
        folder.read(poll)
    }
}

/// Half of the median round trip at a size.
fn one_way_us(document: &Document, size: f64) -> Option<f64> {
    let metric = Metric::LatencyUs("round_trip".to_owned(), 0.5);
    median(&metric, point(document, |_| true, size)).map(|us| us / 2.0)
}
