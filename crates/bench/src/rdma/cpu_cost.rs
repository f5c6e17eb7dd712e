//! The broker's user time per message: RDMA against TCP, and large bodies against small ones.
//!
//! Kernel time is left out: with a software device the kernel does work that a real card does itself.

use super::{POLLS, RdmaGoals, of};
use harness::broker_network::{NetworkBroker, TCP};
use harness::placement::CpuPlacement;
use harness::role_protocol::TrafficShape;
use load::interleaved::{PerfContestant, PerfSeries, compare};
use load::perf_table::GoalBound;
use load::scenario::Scenario;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// Size, name and maximum cost of RDMA relative to TCP.
const SIZES: [(usize, &str, GoalBound); 4] = [
    (64, "64 B", GoalBound::AtMost(1.1)),
    (KIB, "1 KiB", GoalBound::Nothing),
    (64 * KIB, "64 KiB", GoalBound::Nothing),
    (MIB, "1 MiB", GoalBound::Nothing),
];
const LARGE_TIMES_MAX: f64 = 1.2;

impl RdmaGoals {
    pub(super) fn user(&mut self) -> Result<(), String> {
        let tcp = NetworkBroker::start(&TCP, self.address, &["--shards", "1"])?;
        let verbs = [self.broker(POLLS[0])?, self.broker(POLLS[1])?];
        let mut targets = vec![("TCP".to_owned(), tcp.target("TCP")?)];
        for (broker, poll) in verbs.iter().zip(POLLS) {
            targets.push((poll.to_owned(), broker.target(poll)?));
        }
        let mut large: [Vec<Option<f64>>; 2] = [Vec::new(), Vec::new()];
        for (size_bytes, name, bound) in SIZES {
            let contestants: Vec<PerfContestant<'_>> = targets
                .iter()
                .map(|(name, target)| PerfContestant { name, target, scenario: Scenario::default() })
                .collect();
            let all = compare(self.effort, &contestants, TrafficShape::Stream, size_bytes, &CpuPlacement::default())?;
            let user = |name: &str| of(&all, name, PerfSeries::user_us);
            for (poll, large) in POLLS.iter().zip(&mut large) {
                let detail = format!("{poll} {}, TCP {}", cost(&all, poll), cost(&all, "TCP"));
                let times = user(poll).zip(user("TCP")).map(|(verbs, tcp)| verbs / tcp);
                self.row(&format!("{name}, {poll}: broker's user time, times that over TCP"), bound, times, detail)?;
                large.push(user(poll));
            }
            self.record.keep(name, &all);
        }
        for (poll, large) in POLLS.iter().zip(large) {
            let [.., Some(middle), Some(most)] = large[..] else { continue };
            self.row(
                &format!("1 MiB, {poll}: broker's user time, times that of 64 KiB"),
                GoalBound::AtMost(LARGE_TIMES_MAX),
                Some(most / middle),
                format!("64 KiB {middle:.2} us, 1 MiB {most:.2} us"),
            )?;
        }
        Ok(())
    }
}

/// User and kernel time in words.
pub(super) fn cost(all: &[PerfSeries], name: &str) -> String {
    let [user, kernel] =
        [of(all, name, PerfSeries::user_us), of(all, name, PerfSeries::kernel_us)].map(|us| us.unwrap_or(f64::NAN));
    format!("{user:.2} us (and {kernel:.2} in the kernel)")
}
