//! The parts of `perf` and their goals, from the issues "The broker and the main job, end to end" and "Twice as fast again".
//!
//! Goals of queue features, memory and TLS are in the files beside this one.

use super::PerfRun;
use harness::delivery_window::DeliveryWindow;
use harness::placement::CpuPlacement;
use harness::role_protocol::TrafficShape;
use harness::target::BenchmarkTarget;
use load::interleaved::{PerfContestant, PerfSeries, compare};
use load::perf_table::{GoalBound, PerfRow};
use load::scenario::{Scenario, SegmentFigures};

pub(super) const SMALL: usize = 64;
const KIB: usize = 1_024;
pub(super) const LARGE: usize = 64 * KIB;
const MIB: usize = 1_024 * KIB;

/// Scenario with confirms and acknowledgements.
pub(super) fn confirmed() -> Scenario {
    Scenario { confirm_window: 1_000, ack_every: 100, ..Scenario::default() }
}

pub(super) fn perf_contestant<'a>(
    name: &'a str,
    target: &'a BenchmarkTarget,
    scenario: Scenario,
) -> PerfContestant<'a> {
    PerfContestant { name, target, scenario }
}

/// Finds a series by its name.
pub(super) fn find_series<'a>(all: &'a [PerfSeries], name: &str) -> Option<&'a PerfSeries> {
    all.iter().find(|series| series.name == name)
}

pub(super) fn ratio(all: &[PerfSeries], one: &str, other: &str, value: impl Fn(&PerfSeries) -> f64) -> Option<f64> {
    Some(value(find_series(all, one)?) / value(find_series(all, other)?))
}

impl PerfRun {
    pub(super) fn compared(
        &mut self,
        contestants: &[PerfContestant<'_>],
        shape: TrafficShape,
        size_bytes: usize,
        placement: &CpuPlacement,
    ) -> Result<Vec<PerfSeries>, String> {
        compare(self.effort, contestants, shape, size_bytes, placement)
    }

    pub(super) fn record_series(&mut self, part: &str, all: Vec<PerfSeries>) {
        self.record.keep(part, &all);
    }

    pub(super) fn row(&mut self, what: &str, bound: GoalBound, value: Option<f64>, detail: String) {
        let missing = self.rabbit.as_ref().err().cloned().unwrap_or_else(|| "not measured".to_owned());
        self.record.rows.push(PerfRow::new(what, bound, value, if value.is_some() { detail } else { missing }));
    }

    /// The same with an aim beyond the goal.
    pub(super) fn row_with_aim(&mut self, what: &str, bound: GoalBound, aim: f64, value: Option<f64>, detail: String) {
        self.row(what, bound, value, detail);
        if let Some(row) = self.record.rows.last_mut() {
            row.set_aim(aim);
        }
    }

    /// Takes RabbitMQ out of `self` for the call, so that `self` can be borrowed beside it.
    pub(super) fn with_rabbit<T>(
        &mut self,
        use_it: impl FnOnce(&mut Self, Option<&BenchmarkTarget>) -> Result<T, String>,
    ) -> Result<T, String> {
        let rabbit = std::mem::replace(&mut self.rabbit, Err("lent".to_owned()));
        let outcome = use_it(self, rabbit.as_ref().ok());
        self.rabbit = rabbit;
        outcome
    }

    pub(super) fn throughput(&mut self) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let anywhere = CpuPlacement::default();
        let measured = self.with_rabbit(|perf, rabbit| {
            let mut measure = |scenario: &Scenario, size: usize| {
                let mut contestants = vec![perf_contestant("harrier", &broker, scenario.clone())];
                contestants.extend(rabbit.map(|rabbit| perf_contestant("rabbitmq", rabbit, scenario.clone())));
                perf.compared(&contestants, TrafficShape::Stream, size, &anywhere)
            };
            Ok([
                measure(&Scenario::default(), SMALL)?,
                measure(&confirmed(), SMALL)?,
                measure(&Scenario::default(), KIB)?,
            ])
        })?;
        let [direct, confirms, kilobyte] = measured;
        let rates = |all: &[PerfSeries]| {
            all.iter().map(|series| format!("{} {:.0}/s", series.name, series.rate())).collect::<Vec<_>>().join(", ")
        };
        let cpus = |all: &[PerfSeries]| {
            all.iter().map(|series| format!("{} {:.3} s/M", series.name, series.cpu())).collect::<Vec<_>>().join(", ")
        };
        let (rate, cpu) = (PerfSeries::rate, PerfSeries::cpu);
        self.row(
            "64 B direct 1 x 1: rate, times RabbitMQ's (aim: 80)",
            GoalBound::AtLeast(40.0),
            ratio(&direct, "harrier", "rabbitmq", rate),
            rates(&direct),
        );
        self.row(
            "the same: broker CPU s per million messages",
            GoalBound::AtMost(0.085),
            find_series(&direct, "harrier").map(cpu),
            cpus(&direct),
        );
        self.row(
            "the same: of RabbitMQ's CPU",
            GoalBound::AtMost(1.0 / 60.0),
            ratio(&direct, "harrier", "rabbitmq", cpu),
            cpus(&direct),
        );
        self.row(
            "64 B, confirms (1,000), acks each 100: rate, times RabbitMQ's",
            GoalBound::AtLeast(40.0),
            ratio(&confirms, "harrier", "rabbitmq", rate),
            rates(&confirms),
        );
        let times = find_series(&confirms, "harrier")
            .zip(find_series(&direct, "harrier"))
            .map(|(confirmed, plain)| confirmed.cpu() / plain.cpu());
        self.row("the same: CPU, times that of the first line", GoalBound::AtMost(2.0), times, cpus(&confirms));
        self.row(
            "the same: broker CPU s per million messages",
            GoalBound::AtMost(0.14),
            find_series(&confirms, "harrier").map(cpu),
            cpus(&confirms),
        );
        self.row(
            "1 KiB direct: rate, times RabbitMQ's",
            GoalBound::AtLeast(12.0),
            ratio(&kilobyte, "harrier", "rabbitmq", rate),
            rates(&kilobyte),
        );
        self.row(
            "the same: broker CPU s per million messages",
            GoalBound::AtMost(0.5),
            find_series(&kilobyte, "harrier").map(cpu),
            cpus(&kilobyte),
        );
        self.record_series("64 B direct", direct);
        self.record_series("64 B confirms and acks", confirms);
        self.record_series("1 KiB direct", kilobyte);
        Ok(())
    }

    pub(super) fn large(&mut self) -> Result<(), String> {
        let (broker, relay) =
            (self.broker("harrier", None)?, BenchmarkTarget::relay(0, &harness::placement::CpuList::default())?);
        let in_flight = |messages| Scenario { window: DeliveryWindow { messages }, ..Scenario::default() };
        for (name, size, scenario, least) in [
            ("64 KiB direct", LARGE, Scenario::default(), 0.8),
            ("64 KiB direct, 16 in flight", LARGE, in_flight(16), 0.97),
            ("64 KiB direct, 64 in flight", LARGE, in_flight(64), 0.97),
            ("64 KiB direct, 512 in flight", LARGE, in_flight(512), 0.97),
            ("1 MiB direct", MIB, Scenario::default(), 0.98),
        ] {
            let contestants =
                [perf_contestant("harrier", &broker, scenario.clone()), perf_contestant("relay", &relay, scenario)];
            let all = self.compared(&contestants, TrafficShape::Stream, size, &CpuPlacement::default())?;
            let rate = |series: &PerfSeries| series.median(SegmentFigures::mb_per_s);
            let detail = all
                .iter()
                .map(|series| format!("{} {:.0} MB/s", series.name, rate(series)))
                .collect::<Vec<_>>()
                .join(", ");
            self.row(
                &format!("{name}: MB/s, times the raw relay's"),
                GoalBound::AtLeast(least),
                ratio(&all, "harrier", "relay", rate),
                detail,
            );
            self.record_series(name, all);
        }
        Ok(())
    }

    pub(super) fn latency(&mut self) -> Result<(), String> {
        let apart = self.latency_placement.clone();
        self.round_trips("64 B round trip", &apart, true, 1.15)?;
        if apart != CpuPlacement::together() {
            self.round_trips("64 B round trip, all on one processor", &CpuPlacement::together(), false, 1.05)?;
        }
        Ok(())
    }

    /// Round trips in one placement: against the sleeping relay and RabbitMQ, and with a spinning broker if it has a processor to
    /// spin on.
    fn round_trips(
        &mut self,
        what: &str,
        placement: &CpuPlacement,
        with_spinning: bool,
        of_relay_max: f64,
    ) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let spinning = match with_spinning {
            true => Some(self.broker("harrier, spinning", Some(&self.spin_options.clone()))?),
            false => None,
        };
        let relay = BenchmarkTarget::relay(0, &placement.broker)?;
        let all = self.with_rabbit(|perf, rabbit| {
            let plain = Scenario::default;
            let mut contestants =
                vec![perf_contestant("harrier", &broker, plain()), perf_contestant("relay", &relay, plain())];
            contestants.extend(spinning.as_ref().map(|spinning| perf_contestant("spinning", spinning, plain())));
            contestants.extend(rabbit.map(|rabbit| perf_contestant("rabbitmq", rabbit, plain())));
            perf.compared(&contestants, TrafficShape::PingPong, SMALL, placement)
        })?;
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let us = |series: &PerfSeries| series.quantile_us(share);
            let figures: Vec<String> =
                all.iter().map(|series| format!("{} {:.1} us", series.name, us(series))).collect();
            let detail = format!("{}; {placement}", figures.join(", "));
            let against = |one: &str, other: &str| ratio(&all, one, other, us);
            let (relay, rabbit) = (against("harrier", "relay"), against("harrier", "rabbitmq"));
            let (spin_relay, spin_rabbit) = (against("spinning", "relay"), against("spinning", "rabbitmq"));
            self.row(
                &format!("{what} {name}, times the sleeping relay's"),
                GoalBound::AtMost(of_relay_max),
                relay,
                detail.clone(),
            );
            self.row(&format!("{what} {name}, times RabbitMQ's"), GoalBound::AtMost(1.0 / 3.0), rabbit, detail.clone());
            if with_spinning {
                let what = format!("{what} {name}, spinning");
                self.row(
                    &format!("{what}, times the sleeping relay's"),
                    GoalBound::AtMost(0.75),
                    spin_relay,
                    detail.clone(),
                );
                self.row(&format!("{what}, times RabbitMQ's"), GoalBound::AtMost(1.0 / 3.0), spin_rabbit, detail);
            }
        }
        self.record_series(what, all);
        Ok(())
    }

    pub(super) fn fanout(&mut self) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let small = self.compared(
            &[perf_contestant("harrier", &broker, Scenario::fanout(32))],
            TrafficShape::Stream,
            SMALL,
            &CpuPlacement::default(),
        )?;
        let detail = |all: &[PerfSeries]| {
            all.iter()
                .map(|series| format!("{:.0} deliveries/s", series.median(SegmentFigures::delivered_per_s)))
                .collect::<String>()
        };
        self.row(
            "fan-out to 32, 64 B: CPU s per million deliveries",
            GoalBound::AtMost(0.035),
            find_series(&small, "harrier").map(PerfSeries::cpu),
            detail(&small),
        );
        let large = self.compared(
            &[perf_contestant("harrier", &broker, Scenario::fanout(32))],
            TrafficShape::Stream,
            LARGE,
            &CpuPlacement::default(),
        )?;
        // Copying 64 KiB takes at least 5 us, passing a reference far less.
        let user = |series: &PerfSeries| {
            series.median(|figures| {
                figures.broker.map_or(f64::NAN, |usage| usage.user_s * 1e6 / figures.delivered as f64)
            })
        };
        self.row(
            "fan-out to 32, 64 KiB: user-space CPU us a delivery (a copy is 5 and more)",
            GoalBound::AtMost(2.0),
            find_series(&large, "harrier").map(user),
            detail(&large),
        );
        self.row(
            "fan-out to 32, 64 KiB: MB/s delivered",
            GoalBound::AtLeast(5_500.0),
            find_series(&large, "harrier").map(|series| series.median(SegmentFigures::mb_per_s)),
            detail(&large),
        );
        self.record_series("fan-out to 32, 64 B", small);
        self.record_series("fan-out to 32, 64 KiB", large);
        Ok(())
    }

    pub(super) fn topic(&mut self) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let contestants = [
            perf_contestant("1 pattern, 1 key", &broker, Scenario::topic(1, 1)),
            perf_contestant("1,024 patterns, 1 key", &broker, Scenario::topic(1_024, 1)),
            perf_contestant("1,024 patterns, 1,000 keys", &broker, Scenario::topic(1_024, 1_000)),
        ];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        let detail =
            all.iter().map(|series| format!("{} {:.0}/s", series.name, series.rate())).collect::<Vec<_>>().join("; ");
        let times = |name: &str| ratio(&all, name, "1 pattern, 1 key", PerfSeries::rate);
        let (repeated, in_turn) = (times("1,024 patterns, 1 key"), times("1,024 patterns, 1,000 keys"));
        self.row(
            "topic, 1,024 patterns, one repeated key: rate, times one pattern's",
            GoalBound::AtLeast(0.97),
            repeated,
            detail.clone(),
        );
        self.row(
            "topic, 1,024 patterns, 1,000 keys in turn: rate, times one pattern's",
            GoalBound::AtLeast(0.7),
            in_turn,
            detail,
        );
        self.record_series("64 B topic", all);
        Ok(())
    }

    pub(super) fn pairs(&mut self) -> Result<(), String> {
        let broker = self.broker("harrier", None)?;
        let eight = Scenario { pairs: 8, ..Scenario::default() };
        let contestants =
            [perf_contestant("1 pair", &broker, Scenario::default()), perf_contestant("8 pairs", &broker, eight)];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        let detail =
            all.iter().map(|series| format!("{} {:.0}/s", series.name, series.rate())).collect::<Vec<_>>().join(", ");
        self.row(
            "64 B, 8 pairs: total rate, times one pair's",
            GoalBound::AtLeast(0.95),
            ratio(&all, "8 pairs", "1 pair", PerfSeries::rate),
            detail,
        );
        self.record_series("64 B, pairs", all);
        Ok(())
    }

    pub(super) fn shards(&mut self) -> Result<(), String> {
        let options = |shards: &str| ["--shards".to_owned(), shards.to_owned()];
        let (one, two) = (self.broker("1 shard", Some(&options("1")))?, self.broker("2 shards", Some(&options("2")))?);
        let pairs = Scenario { pairs: 8, ..Scenario::default() };
        let contestants = [perf_contestant("1 shard", &one, pairs.clone()), perf_contestant("2 shards", &two, pairs)];
        let all = self.compared(&contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default())?;
        let detail = all
            .iter()
            .map(|series| format!("{} {:.0}/s, {:.3} s/M", series.name, series.rate(), series.cpu()))
            .collect::<Vec<_>>()
            .join("; ");
        // A second shard needs a core that publishers and consumers do not use.
        if gauge::processors() >= 6 {
            self.row(
                "64 B, 8 pairs, 2 shards: rate, times one shard's",
                GoalBound::AtLeast(1.7),
                ratio(&all, "2 shards", "1 shard", PerfSeries::rate),
                detail,
            );
        } else {
            self.row(
                "64 B, 8 pairs, 2 shards (no core to spare): CPU, times one shard's",
                GoalBound::AtMost(1.05),
                ratio(&all, "2 shards", "1 shard", PerfSeries::cpu),
                detail,
            );
        }
        self.record_series("64 B, shards", all);
        Ok(())
    }
}
