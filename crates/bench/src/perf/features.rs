//! The cost of queue features, relative to a plain queue.
//!
//! The goals are from the issue "Everything a RabbitMQ client relies on".

use super::PerfRun;
use super::broker_goals::{SMALL, perf_contestant, ratio};
use harness::placement::CpuPlacement;
use harness::queue_feature::QueueFeature;
use harness::role_protocol::TrafficShape;
use load::interleaved::PerfSeries;
use load::perf_table::GoalBound;
use load::scenario::Scenario;

const PLAIN: &str = "plain";
/// Name, feature and maximum cost of each contestant.
const FEATURES: [(&str, QueueFeature, f64); 6] = [
    ("TTL", QueueFeature::Ttl, 1.1),
    ("length limits", QueueFeature::Limits, 1.1),
    ("10 priorities", QueueFeature::Priorities, 1.1),
    ("dead letters, none", QueueFeature::DeadLetters, 1.1),
    ("dead letters, expired", QueueFeature::Expired, 2.5),
    ("dead letters, no room", QueueFeature::NoRoom, 2.5),
];

impl PerfRun {
    pub(super) fn features(&mut self) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let mut contestants = vec![perf_contestant(PLAIN, &broker, Scenario::default())];
        contestants.extend(FEATURES.map(|(name, feature, _)| perf_contestant(name, &broker, Scenario::with(feature))));
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        for (name, feature, most) in FEATURES {
            let of = |name: &str| all.iter().find(|series| series.name == name).map_or(f64::NAN, PerfSeries::cpu);
            let detail = format!("{name} {:.3} s/M, {PLAIN} {:.3} s/M", of(name), of(PLAIN));
            let what = if feature.dead_letters() {
                format!("64 B, {name}: CPU of publish, death and delivery, times a plain hop's")
            } else {
                format!("64 B, queue with {name}: CPU, times a plain queue's")
            };
            self.row(&what, GoalBound::AtMost(most), ratio(&all, name, PLAIN, PerfSeries::cpu), detail);
        }
        self.record_series("64 B, features of queues", all);
        Ok(())
    }
}
