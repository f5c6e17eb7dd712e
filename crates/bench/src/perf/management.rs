//! What the management API costs those who publish and consume, and how fast it answers while the broker is at work.
//!
//! The goals are from the issue "See and steer it".

use std::time::Duration;

use client::{Client, QueueOptions};
use report::stdout::put;

use super::PerfRun;
use super::broker_goals::{SMALL, confirmed, perf_contestant, ratio};
use super::confirm_runs::{ConfirmRun, ConfirmRuns};
use super::declared_queues::DeclaredQueues;
use super::http_floor::HttpFloor;
use super::http_observer::{AskedPaths, HttpObserver, HttpOrigins, ask};
use crate::limits::{
    PERF_BYSTANDER_ATTEMPTS, PERF_BYSTANDER_RATE_MAX, PERF_BYSTANDER_RATE_MIN, PERF_BYSTANDER_SHARE,
    PERF_BYSTANDER_WINDOW, PERF_LISTED_OBJECTS, PERF_LISTED_QUEUES_MANY, PERF_LOOK_INTERVAL, PERF_MANAGEMENT_RUNS_MIN,
};
use harness::open_files;
use harness::placement::CpuPlacement;
use harness::role_client::connect;
use harness::role_protocol::TrafficShape;
use harness::target::{BenchmarkTarget, TargetAddress};
use load::interleaved::{PerfEffort, PerfSeries, compare, turns};
use load::perf_table::{GoalBound, PerfRow};
use load::scenario::Scenario;

const ALONE: &str = "without API";
const OBSERVED: &str = "scraped, page open";
/// What the page asks for while its overview is shown, each third time with what takes longer; and a scrape.
const LOOK: &[&str] = &["/api/overview", "/metrics"];
const LONG_LOOK: &[&str] =
    &["/api/overview", "/api/queues?page=1&page_size=8&sort=messages&sort_reverse=true", "/api/nodes", "/metrics"];
const QUEUES_PAGE: &[&str] = &["/api/queues?page=1&page_size=100"];
const CONNECTIONS_PAGE: &[&str] = &["/api/connections?page=1&page_size=100"];
const OVERVIEW: &[&str] = &["/api/overview"];
const METRICS: &[&str] = &["/metrics"];
const METRICS_PER_OBJECT: &[&str] = &["/metrics/per-object"];
const ALL_QUEUES: &[&str] = &["/api/queues"];
/// Rounds of a shard that took longer are stalls.
const STALL_BOUND: &str = "le=\"0.001024\"";

/// A page that is open, and a scraper.
fn looks(round: usize) -> &'static [&'static str] {
    if round.is_multiple_of(3) { LONG_LOOK } else { LOOK }
}

/// A broker with its API.
struct ManagedBroker {
    target: BenchmarkTarget,
    origins: HttpOrigins,
}

impl ManagedBroker {
    fn url(&self) -> Result<&str, String> {
        match &self.target.address {
            TargetAddress::Amqp(url) => Ok(url),
            _ => Err("the target is not a broker".to_owned()),
        }
    }

    /// Declares so many queues, which go with the client that has declared them.
    fn declare(&self, count: u64) -> Result<DeclaredQueues, String> {
        let exclusive = QueueOptions { exclusive: true, ..QueueOptions::default() };
        DeclaredQueues::declare(&self.target, count, &exclusive)
    }

    fn observe(&self, asked: AskedPaths, rest: Duration) -> Result<HttpObserver, String> {
        HttpObserver::start(&self.origins, asked, rest)
    }

    /// Rounds of all shards so far that took longer than [`STALL_BOUND`].
    fn long_rounds(&self) -> Result<f64, String> {
        let text = ask(&self.origins, "/metrics")?;
        let name = "harrier_shard_round_duration_seconds";
        let sum = |wanted: &str, bound: &str| -> Result<f64, String> {
            let lines =
                text.lines().filter(|line| line.starts_with(&format!("{name}{wanted}{{")) && line.contains(bound));
            let values: Vec<f64> = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
            if values.is_empty() {
                Err(format!("/metrics has no {name}{wanted} {bound}"))
            } else {
                Ok(values.iter().sum())
            }
        };
        Ok(sum("_count", "")? - sum("_bucket", STALL_BOUND)?)
    }
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get(((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1).copied()
}

impl PerfRun {
    pub(super) fn management(&mut self) -> Result<(), String> {
        let options = ["--management-listen", "none", "--metrics-listen", "none"].map(str::to_owned);
        let alone = self.broker(ALONE, Some(&[&self.broker_options[..], &options].concat()))?;
        let observed = self.managed_broker()?;
        self.observed_paths(&alone, &observed)?;
        drop((alone, observed));
        self.many_objects()?;
        self.many_queues()
    }

    fn managed_broker(&self) -> Result<ManagedBroker, String> {
        let options = ["--management-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"].map(str::to_owned);
        let target = self.broker(OBSERVED, Some(&[&self.broker_options[..], &options].concat()))?;
        let origins = HttpOrigins::of(&target.management)?;
        Ok(ManagedBroker { target, origins })
    }

    /// The hot path, with and without somebody who looks.
    fn observed_paths(&mut self, alone: &BenchmarkTarget, observed: &ManagedBroker) -> Result<(), String> {
        // So small a difference needs more runs than others.
        let effort = PerfEffort { runs: self.effort.runs.max(PERF_MANAGEMENT_RUNS_MIN), ..self.effort };
        for (what, scenario) in [
            ("64 B direct", Scenario::default()),
            ("64 B, confirms (1,000), acks each 100", confirmed()),
            ("64 B, fan-out to 32", Scenario::fanout(32)),
        ] {
            let looking = observed.observe(looks, PERF_LOOK_INTERVAL)?;
            let contestants = [
                perf_contestant(ALONE, alone, scenario.clone()),
                perf_contestant(OBSERVED, &observed.target, scenario),
            ];
            let all = compare(effort, &contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default());
            let answers_ms = looking.finish()?;
            let all = all?;
            let mut detail: Vec<String> =
                all.iter().map(|series| format!("{} {:.4} s/M", series.name, series.cpu())).collect();
            detail.push(format!("{} answers", answers_ms.len()));
            self.row(
                &format!("{what}, with the API, a scrape each second and the page open: CPU, times that without"),
                GoalBound::AtMost(1.02),
                ratio(&all, OBSERVED, ALONE, PerfSeries::cpu),
                detail.join(", "),
            );
            self.record_series(&format!("{what}, observed"), all);
        }
        Ok(())
    }

    /// Answers and bystanders of a broker with many connections and queues.
    fn many_objects(&mut self) -> Result<(), String> {
        let connections = PERF_LISTED_OBJECTS;
        // This program and the broker have one for each connection, and a few.
        let open_files = open_files::raise_to_hard_limit()?;
        if open_files < connections as u64 + 100 {
            let why = format!("SKIPPED: only {open_files} files may be open");
            let what = format!("{connections} queues and connections: answers and bystanders");
            self.record.rows.push(PerfRow::new(&what, GoalBound::Nothing, None, why));
            return Ok(());
        }
        let broker = self.managed_broker()?;
        let url = broker.url()?.to_owned();
        let idle: client::Result<Vec<Client>> = (0..connections).map(|_| connect(&url, "idle")).collect();
        let idle = idle.map_err(|error| format!("{connections} connections: {error}"))?;
        let declarer = broker.declare(PERF_LISTED_OBJECTS as u64)?;
        for (what, asked, goal_ms) in [
            ("page 1 of the queues", (|_| QUEUES_PAGE) as AskedPaths, 50.0),
            ("page 1 of the connections", |_| CONNECTIONS_PAGE, 50.0),
            ("the overview", |_| OVERVIEW, 50.0),
            ("/metrics", |_| METRICS, 2.0),
            ("/metrics/per-object", |_| METRICS_PER_OBJECT, 50.0),
        ] {
            self.answers_beside_load(&broker, &broker.origins, what, asked, GoalBound::AtMost(goal_ms))?;
        }
        let floor = HttpFloor::start(ask(&broker.origins, METRICS[0])?.len())?;
        let what = "a thread that only answers, with the bytes of /metrics";
        self.answers_beside_load(&broker, &floor.origins(), what, |_| METRICS, GoalBound::Nothing)?;
        floor.finish()?;
        self.bystander(&broker)?;
        for client in idle {
            client.close().map_err(|error| error.to_string())?;
        }
        declarer.close()
    }

    /// How long answers take while the broker carries messages at full rate.
    fn answers_beside_load(
        &mut self,
        broker: &ManagedBroker,
        origins: &HttpOrigins,
        what: &str,
        asked: AskedPaths,
        goal: GoalBound,
    ) -> Result<(), String> {
        let asking = HttpObserver::start(origins, asked, Duration::ZERO)?;
        let contestants = [perf_contestant(OBSERVED, &broker.target, Scenario::default())];
        let effort = PerfEffort { runs: 1, ..self.effort };
        let load = compare(effort, &contestants, TrafficShape::Stream, SMALL, &CpuPlacement::default());
        let answers_ms = asking.finish()?;
        let rate = load?.first().map_or(f64::NAN, PerfSeries::rate);
        self.row(
            &format!("{PERF_LISTED_OBJECTS} queues and connections, 64 B at full rate: {what}, ms p99"),
            goal,
            quantile(&answers_ms, 0.99),
            format!(
                "p50 {:.2} ms, {} answers beside {rate:.0} msg/s",
                quantile(&answers_ms, 0.5).unwrap_or(f64::NAN),
                answers_ms.len()
            ),
        );
        Ok(())
    }

    /// A run of confirms at this rate, with somebody who looks or without.
    fn confirms(&self, broker: &ManagedBroker, rate: f64, is_observed: bool) -> Result<ConfirmRun, String> {
        let confirms = ConfirmRuns::new(rate, self.effort.seconds, PERF_BYSTANDER_WINDOW)?;
        let looking = is_observed.then(|| broker.observe(looks, PERF_LOOK_INTERVAL)).transpose()?;
        let run = confirms.run(&broker.target);
        looking.map(HttpObserver::finish).transpose()?;
        run
    }

    /// A share of the highest rate that this machine sends in time beside somebody who looks, or why there is none.
    fn bystander_rate(&self, broker: &ManagedBroker) -> Result<Result<f64, String>, String> {
        let mut rate = PERF_BYSTANDER_RATE_MAX;
        loop {
            let trial = self.confirms(broker, rate, true)?;
            let Some(why) = trial.invalid.into_iter().next() else { break };
            put(&format!("  {rate:.0} messages/s are too many: {why}\n"))?;
            rate /= 2.0;
            if rate < PERF_BYSTANDER_RATE_MIN {
                return Ok(Err(format!("SKIPPED: {why}")));
            }
        }
        Ok(Ok(rate * PERF_BYSTANDER_SHARE))
    }

    /// Confirms in open loop, with somebody who looks and without, in turns. A pair of runs counts if both are valid.
    fn bystander(&mut self, broker: &ManagedBroker) -> Result<(), String> {
        let what = |rate: &str| {
            format!(
                "{PERF_LISTED_OBJECTS} queues and connections, {rate} messages/s: confirm p99 with scrape and page, times that without"
            )
        };
        let rate = match self.bystander_rate(broker)? {
            Ok(rate) => rate,
            Err(why) => {
                self.record.rows.push(PerfRow::new(&what("few"), GoalBound::AtMost(1.1), None, why));
                return Ok(());
            }
        };
        let runs = self.effort.runs.max(PERF_MANAGEMENT_RUNS_MIN);
        let (mut pairs, mut problems) = (Vec::new(), Vec::new());
        for run in 0..runs * PERF_BYSTANDER_ATTEMPTS {
            let mut pair = [None, None];
            for index in turns(run, 2) {
                let of_run = self.confirms(broker, rate, index == 1)?;
                pair[index] = of_run.p99_us.filter(|_| of_run.invalid.is_empty());
                problems.extend(of_run.invalid);
            }
            pairs.extend(pair[0].zip(pair[1]));
            if pairs.len() == runs {
                break;
            }
        }
        let (alone_us, observed_us): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        let (alone_us, observed_us) = (super::durable::median(alone_us), super::durable::median(observed_us));
        let us = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} us"));
        self.row(
            &what(&format!("{rate:.0}")),
            GoalBound::AtMost(1.1),
            super::durable::median(pairs.iter().map(|(alone_us, observed_us)| observed_us / alone_us)),
            format!(
                "{} with, {} without, {} pairs of runs; {} runs did not count",
                us(observed_us),
                us(alone_us),
                pairs.len(),
                problems.len()
            ),
        );
        if let (Some(row), Some(why), true) = (self.record.rows.last_mut(), problems.first(), pairs.len() < runs) {
            row.add_detail(&format!("INVALID: {} of {runs} pairs: {why}", pairs.len()));
        }
        Ok(())
    }

    /// All of very many queues in one answer.
    fn many_queues(&mut self) -> Result<(), String> {
        let broker = self.managed_broker()?;
        let declarer = broker.declare(PERF_LISTED_QUEUES_MANY)?;
        // The first answers follow the declarations.
        for _settled in 0..2 {
            ask(&broker.origins, ALL_QUEUES[0])?;
        }
        let before = broker.long_rounds()?;
        let asking = broker.observe(|_| ALL_QUEUES, Duration::ZERO)?;
        let idle_s = Duration::from_secs_f64(self.effort.seconds * self.effort.runs as f64);
        gauge::clock::pause(idle_s);
        let answers_ms = asking.finish()?;
        let stalls = broker.long_rounds()? - before;
        self.row(
            &format!("{PERF_LISTED_QUEUES_MANY} queues listed whole: rounds of a shard above 1 ms"),
            GoalBound::AtMost(0.0),
            Some(stalls),
            format!("{} lists, p50 {:.0} ms", answers_ms.len(), quantile(&answers_ms, 0.5).unwrap_or(f64::NAN)),
        );
        declarer.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_answers() {
        let answers: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&answers, 0.5), Some(50.0));
        assert_eq!(quantile(&answers, 0.99), Some(99.0));
        assert_eq!(quantile(&answers, 1.0), Some(100.0));
        assert_eq!(quantile(&answers[..1], 0.99), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
