//! What a process has used: processor time, context switches, page faults, memory.
//!
//! Enters: a process id.  Leaves: a snapshot, and the difference of two.
//! Owns:   the reading of `/proc` and of processor clocks.
//! Never:  guesses: what cannot be read is `None`.

use std::fs;
use std::ops::Sub;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// Totals of one process since its start, threads that have ended included (context switches: living threads only).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user space and kernel together, in nanoseconds.
    pub cpu_ns: u64,
    /// The part in user space, in nanoseconds (in steps of the kernel's tick, 10 ms as a rule).
    pub user_ns: u64,
    /// Context switches, voluntary and not.
    pub context_switches: u64,
    /// Page faults that needed no disk.
    pub page_faults: u64,
}

impl Usage {
    /// Reads the totals of `pid`.
    pub fn of(pid: u32) -> Option<Self> {
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
        let time = clock_gettime(clock).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may hold blanks; fields are counted after it (proc(5): minflt is 10, utime 14).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let tick_ns = crate::look::tick_ns()?;
        Some(Self {
            cpu_ns: time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
            user_ns: field(14)? * tick_ns,
            context_switches: context_switches(pid),
            page_faults: field(10)?,
        })
    }

    /// The sum over several processes; those that are gone count nothing.
    pub fn of_all(pids: &[u32]) -> Self {
        pids.iter().filter_map(|&pid| Self::of(pid)).fold(Self::default(), |sum, one| Self {
            cpu_ns: sum.cpu_ns + one.cpu_ns,
            user_ns: sum.user_ns + one.user_ns,
            context_switches: sum.context_switches + one.context_switches,
            page_faults: sum.page_faults + one.page_faults,
        })
    }
}

impl Sub for Usage {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            page_faults: self.page_faults.saturating_sub(earlier.page_faults),
        }
    }
}

fn context_switches(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .map(|status| {
            status
                .lines()
                .filter(|line| line.contains("ctxt_switches"))
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .sum::<u64>()
        })
        .sum()
}

/// Resident memory of a process in bytes (`VmRSS`).
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_seen() {
        let pid = std::process::id();
        let first = Usage::of(pid).expect("own process");
        let mut sum = 0_u64;
        while (Usage::of(pid).expect("own process") - first).cpu_ns < 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(resident_bytes(pid).expect("own memory") > 100_000);
    }
}
