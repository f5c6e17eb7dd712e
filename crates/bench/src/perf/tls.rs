//! What TLS costs, times a plain connection, and how it stands beside a relay over the same library.
//!
//! Enters: brokers with and without TLS, a relay with it.  Leaves: rows.
//! Owns:   the numbers asked for (issue "Everything a RabbitMQ client relies on", figures to reach).
//! Never:  compares two ciphers: all ends agree on the broker's first choice.

use super::goals::{LARGE, SMALL, contestant, ratio};
use super::record::Bound;
use super::series::Series;
use super::{Certificate, Perf};
use crate::placement::{Cpus, Placement};
use crate::plan::Shape;
use crate::scenario::{Figures, Scenario};
use crate::target::Target;

impl Perf {
    pub(super) fn tls(&mut self) -> Result<(), String> {
        let certificate = Certificate::make()?;
        let (command, options, anywhere) = (self.broker_command.as_deref(), &self.broker_options, Cpus::default());
        let secure = Target::embedded_tls(command, options, &anywhere, certificate.files())?;
        let plain = self.broker("harrier", None)?;
        let relay = Target::relay_tls(certificate.files(), &anywhere)?;
        let placement = Placement::default();
        let contestants =
            [contestant("plain", &plain, Scenario::default()), contestant("TLS", &secure, Scenario::default())];
        let small = self.compared(&contestants, Shape::Stream, SMALL, &placement)?;
        let detail: Vec<String> =
            small.iter().map(|series| format!("{} {:.3} s/M", series.name, series.cpu())).collect();
        let times = ratio(&small, "TLS", "plain", Series::cpu);
        self.row("64 B over TLS: CPU, times a plain connection's", Bound::AtMost(1.5), times, detail.join(", "));
        self.keep("64 B, TLS", small);
        let contestants =
            [contestant("harrier", &secure, Scenario::default()), contestant("relay", &relay, Scenario::default())];
        let large = self.compared(&contestants, Shape::Stream, LARGE, &placement)?;
        let rate = |series: &Series| series.median(Figures::mb_per_s);
        let detail: Vec<String> = large
            .iter()
            .map(|series| format!("{} {:.0} MB/s, {:.1} s/M", series.name, rate(series), series.cpu()))
            .collect();
        let times = ratio(&large, "harrier", "relay", rate);
        let what = "64 KiB over TLS: MB/s, times those of a raw relay over the same library";
        self.row(what, Bound::AtLeast(0.8), times, detail.join(", "));
        self.keep("64 KiB, TLS", large);
        Ok(())
    }
}
