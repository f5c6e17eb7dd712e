//! System calls per message, counted by the kernel with a histogram trigger on the `raw_syscalls:sys_enter` tracepoint.
//!
//! Unlike a debugger, tracing does not stop the process. The trigger is removed at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{POLLS, RdmaGoals};
use harness::broker_network::{NetworkBroker, TCP};
use harness::placement::CpuPlacement;
use harness::role_protocol::{LoadSegment, TrafficShape};
use load::perf_table::GoalBound;
use load::scenario::{RunningScenario, Scenario};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const TRIGGER: &str = "hist:keys=id,common_pid:size=4096";
const CALLS_A_THOUSAND_MAX: f64 = 20.0;
/// Messages per second of the requested length.
const MESSAGES_A_SECOND: f64 = 100_000.0;
/// Names of a broker's system calls; the numbers are those of x86-64.
#[cfg(target_arch = "x86_64")]
const NAMES: [(u64, &str); 15] = [
    (0, "read"),
    (1, "write"),
    (7, "poll"),
    (9, "mmap"),
    (16, "ioctl"),
    (19, "readv"),
    (20, "writev"),
    (24, "sched_yield"),
    (28, "madvise"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (202, "futex"),
    (232, "epoll_wait"),
    (271, "ppoll"),
];
#[cfg(not(target_arch = "x86_64"))]
const NAMES: [(u64, &str); 0] = [];

/// A running count; dropping it removes the trigger.
struct SyscallTrace {
    point: PathBuf,
}

impl SyscallTrace {
    fn begin() -> Result<Self, String> {
        let place = PLACES.iter().map(|place| Path::new(place).join("events/raw_syscalls/sys_enter"));
        let point = place.into_iter().find(|point| point.join("trigger").exists()).ok_or(
            "the kernel's tracing is not to be seen: it needs root, and `mount -t tracefs tracefs /sys/kernel/tracing`",
        )?;
        fs::write(point.join("trigger"), TRIGGER)
            .map_err(|error| format!("{}: {error}", point.join("trigger").display()))?;
        Ok(Self { point })
    }

    /// System calls of a process's threads so far.
    fn counts_of(&self, pid: u32) -> Result<BTreeMap<u64, u64>, String> {
        let failed = |error: std::io::Error| format!("kernel calls: {error}");
        let threads: Vec<u64> = fs::read_dir(format!("/proc/{pid}/task"))
            .map_err(failed)?
            .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        parse_counts(&fs::read_to_string(self.point.join("hist")).map_err(failed)?, &threads)
    }
}

impl Drop for SyscallTrace {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.point.join("trigger"), format!("!{TRIGGER}")) {
            cli::print_error(&format!("harrier bench: the kernel goes on counting calls: {error}"));
        }
    }
}

/// Parses the calls of these threads from the kernel's histogram.
fn parse_counts(text: &str, threads: &[u64]) -> Result<BTreeMap<u64, u64>, String> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let number = |name: &str| -> Option<u64> {
            let (_, behind) = line.split_once(name)?;
            behind.trim_start().split(|end: char| !end.is_ascii_digit()).next()?.parse().ok()
        };
        if line.trim_start().starts_with("Dropped:") && number("Dropped:") != Some(0) {
            return Err("kernel calls: the kernel had no room to count them all".to_owned());
        }
        if let (Some(id), Some(thread), Some(hits)) = (number("{ id:"), number("common_pid:"), number("hitcount:"))
            && threads.contains(&thread)
        {
            *found.entry(id).or_default() += hits;
        }
    }
    Ok(found)
}

impl RdmaGoals {
    pub(super) fn calls(&mut self) -> Result<(), String> {
        let calls = SyscallTrace::begin();
        for poll in POLLS {
            let what = format!("64 B, {poll}: broker's kernel calls for 1,000 messages under load");
            let bound = GoalBound::AtMost(CALLS_A_THOUSAND_MAX);
            match &calls {
                Ok(calls) => {
                    let (value, detail) = self.calls_of(calls, &self.broker(poll)?)?;
                    self.row(&what, bound, Some(value), detail)?;
                }
                Err(why) => self.row(&what, bound, None, why.clone())?,
            }
        }
        if let Ok(calls) = &calls {
            let broker = NetworkBroker::start(&TCP, self.address, &["--shards", "1"])?;
            let (value, detail) = self.calls_of(calls, &broker)?;
            self.row("the same over TCP", GoalBound::Nothing, Some(value), detail)?;
        }
        Ok(())
    }

    /// System calls per thousand messages, and which they are.
    fn calls_of(&self, calls: &SyscallTrace, broker: &NetworkBroker) -> Result<(f64, String), String> {
        let mut running =
            RunningScenario::start(&Scenario::default(), &broker.target("broker")?, &CpuPlacement::default())?;
        let count = (self.effort.seconds * MESSAGES_A_SECOND) as u64;
        let segment = |count| LoadSegment { shape: TrafficShape::Stream, size_bytes: 64, count };
        running.segment(&segment(count / 4 + 1))?;
        let before = calls.counts_of(broker.pid())?;
        let figures = running.segment(&segment(count))?;
        let after = calls.counts_of(broker.pid())?;
        let of_thousand = |hits: u64| hits as f64 * 1e3 / figures.delivered as f64;
        let mut counts: Vec<(u64, u64)> =
            after.iter().map(|(&id, &hits)| (hits - before.get(&id).copied().unwrap_or(0), id)).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let shown = |&(hits, id): &(u64, u64)| {
            let name = NAMES.iter().find(|(number, _)| *number == id);
            let name = name.map_or_else(|| format!("call {id}"), |(_, name)| (*name).to_owned());
            format!("{name} {:.1}", of_thousand(hits))
        };
        let most: Vec<String> = counts.iter().filter(|(hits, _)| *hits > 0).take(5).map(shown).collect();
        let all: u64 = counts.iter().map(|(hits, _)| hits).sum();
        Ok((of_thousand(all), format!("of {}: {}", figures.delivered, most.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::parse_counts;

    #[test]
    fn calls_of_the_threads_asked_for() {
        let text = "# event histogram\n#\n\n\
            { id:          1, common_pid:        163 } hitcount:          7\n\
            { id:          1, common_pid:        164 } hitcount:          2\n\
            { id:        232, common_pid:       1163 } hitcount:          9\n\
            \nTotals:\n    Hits: 18\n    Entries: 3\n    Dropped: 0\n";
        let found = parse_counts(text, &[163, 164]).expect("whole");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(1, 9)]);
        assert!(parse_counts("    Dropped: 3\n", &[]).is_err());
    }
}
