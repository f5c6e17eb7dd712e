//! A snapshot of the kernel's counters for a process and its threads, from `/proc/PID`, CPU clocks and `getrusage`.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// The counters of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessSnapshot {
    /// Start time in ticks since boot; together with the id it identifies a process.
    pub started: u64,
    /// Precise processor time.
    pub cpu_ns: u64,
    /// User-space time as estimated by the kernel.
    pub user_ns: u64,
    /// Kernel time.
    pub system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub resident_bytes: u64,
    /// Peak resident memory.
    pub resident_bytes_peak: u64,
    /// Bytes written to storage, of threads that ended as well; `None` if the system does not tell.
    pub written_bytes: Option<u64>,
    /// Voluntary and involuntary context switches of the whole process, ended threads included; only for this process itself.
    pub switches: Option<(u64, u64)>,
    pub threads: BTreeMap<u32, ThreadSnapshot>,
}

/// The counters of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadSnapshot {
    pub voluntary: u64,
    pub involuntary: u64,
    pub cpu_ns: u64,
    /// Time spent ready to run without a processor.
    pub waited_ns: u64,
    /// The processors it may run on.
    pub allowed: Vec<u32>,
}

impl ProcessSnapshot {
    /// Takes a snapshot of a process; `None` if it does not exist or is not readable.
    pub fn read(pid: u32) -> Option<Self> {
        let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
        let time = clock_gettime(clock).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in brackets may contain spaces; fields are counted after it (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok());
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let tick_ns = tick_ns()?;
        let mut look = Self {
            started: field(22)?,
            cpu_ns: time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
            user_ns: field(14)? * tick_ns,
            system_ns: field(15)? * tick_ns,
            minor_faults: field(10)?,
            major_faults: field(12)?,
            resident_bytes: number(&status, "VmRSS:").unwrap_or(0) * 1_024,
            resident_bytes_peak: number(&status, "VmHWM:").unwrap_or(0) * 1_024,
            written_bytes: written_bytes(pid),
            switches: None,
            threads: threads(pid),
        };
        if pid == std::process::id() {
            look.of_self();
        }
        Some(look)
    }

    /// For this process itself, `getrusage` is more precise.
    fn of_self(&mut self) {
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let ns = |time: TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1_000;
            let count = |number: i64| u64::try_from(number).unwrap_or(0);
            self.user_ns = ns(usage.user_time());
            self.system_ns = ns(usage.system_time());
            self.switches =
                Some((count(usage.voluntary_context_switches()), count(usage.involuntary_context_switches())));
        }
    }
}

/// Bytes that a process caused to be written to storage.
fn written_bytes(pid: u32) -> Option<u64> {
    number(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?, "write_bytes:")
}

/// Resident memory of a process in bytes (`VmRSS`); `None` if it does not exist or is not readable.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(number(&status, "VmRSS:")? * 1_024)
}

/// Nanoseconds per clock tick, the unit of times in `/proc`.
pub(crate) fn tick_ns() -> Option<u64> {
    let per_s = sysconf(SysconfVar::CLK_TCK).ok()??;
    1_000_000_000_u64.checked_div(u64::try_from(per_s).ok()?)
}

fn threads(pid: u32) -> BTreeMap<u32, ThreadSnapshot> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return BTreeMap::new() };
    tasks
        .flatten()
        .filter_map(|task| {
            let id = task.file_name().to_str()?.parse().ok()?;
            let status = fs::read_to_string(task.path().join("status")).ok()?;
            // Three numbers: time run, time waited (both in nanoseconds), time slices. Kernels without scheduler statistics lack the file.
            let schedule = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut schedule = schedule.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
            let thread = ThreadSnapshot {
                voluntary: number(&status, "voluntary_ctxt_switches:")?,
                involuntary: number(&status, "nonvoluntary_ctxt_switches:")?,
                cpu_ns: schedule.next().unwrap_or(0),
                waited_ns: schedule.next().unwrap_or(0),
                allowed: line(&status, "Cpus_allowed_list:").map(numbers).unwrap_or_default(),
            };
            Some((id, thread))
        })
        .collect()
}

/// The rest of the line that starts with a key.
pub(crate) fn line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

fn number(text: &str, key: &str) -> Option<u64> {
    line(text, key)?.split_whitespace().next()?.parse().ok()
}

/// Parses a list such as `0-3,8`.
fn numbers(list: &str) -> Vec<u32> {
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(numbers("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(numbers("5"), [5]);
        assert!(numbers("").is_empty());
    }

    #[test]
    fn the_clock_tick_is_read_from_the_system() {
        // The value of `getconf CLK_TCK` on every supported Linux machine.
        assert_eq!(tick_ns(), Some(10_000_000));
    }

    #[test]
    fn keys_are_whole() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t3\n";
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(3));
    }

    #[test]
    fn a_process_that_is_not_there() {
        assert!(ProcessSnapshot::read(u32::MAX).is_none());
        assert!(ProcessSnapshot::read(i32::MAX as u32).is_none());
        assert_eq!(resident_bytes(u32::MAX), None);
        assert!(resident_bytes(std::process::id()) > Some(100_000));
    }
}
