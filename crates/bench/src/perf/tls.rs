//! The cost of TLS relative to a plain connection, and to a relay over the same TLS library.
//!
//! The goals are from the issue "Everything a RabbitMQ client relies on".

use super::PerfRun;
use super::broker_goals::{LARGE, SMALL, perf_contestant, ratio};
use harness::placement::{CpuList, CpuPlacement};
use harness::role_protocol::TrafficShape;
use harness::target::BenchmarkTarget;
use load::certificate::TemporaryCertificate;
use load::interleaved::PerfSeries;
use load::perf_table::GoalBound;
use load::scenario::{Scenario, SegmentFigures};

impl PerfRun {
    pub(super) fn tls(&mut self) -> Result<(), String> {
        let certificate = TemporaryCertificate::make()?;
        let (command, options, anywhere) = (self.broker_command.as_deref(), &self.broker_options, CpuList::default());
        let secure = BenchmarkTarget::embedded_tls(command, options, &anywhere, certificate.files())?;
        let plain = self.broker("harrier", None)?;
        let relay = BenchmarkTarget::relay_tls(certificate.files(), &anywhere)?;
        let placement = CpuPlacement::default();
        let contestants = [
            perf_contestant("plain", &plain, Scenario::default()),
            perf_contestant("TLS", &secure, Scenario::default()),
        ];
        let small = self.compared(&contestants, TrafficShape::Stream, SMALL, &placement)?;
        let detail: Vec<String> =
            small.iter().map(|series| format!("{} {:.3} s/M", series.name, series.cpu())).collect();
        let times = ratio(&small, "TLS", "plain", PerfSeries::cpu);
        self.row("64 B over TLS: CPU, times a plain connection's", GoalBound::AtMost(1.5), times, detail.join(", "));
        self.record_series("64 B, TLS", small);
        let contestants = [
            perf_contestant("harrier", &secure, Scenario::default()),
            perf_contestant("relay", &relay, Scenario::default()),
        ];
        let large = self.compared(&contestants, TrafficShape::Stream, LARGE, &placement)?;
        let rate = |series: &PerfSeries| series.median(SegmentFigures::mb_per_s);
        let detail: Vec<String> = large
            .iter()
            .map(|series| format!("{} {:.0} MB/s, {:.1} s/M", series.name, rate(series), series.cpu()))
            .collect();
        let times = ratio(&large, "harrier", "relay", rate);
        let what = "64 KiB over TLS: MB/s, times those of a raw relay over the same library";
        self.row(what, GoalBound::AtLeast(0.8), times, detail.join(", "));
        self.record_series("64 KiB, TLS", large);
        Ok(())
    }
}
