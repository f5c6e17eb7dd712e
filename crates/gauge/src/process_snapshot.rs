//! A snapshot of the kernel's counters for a process and its threads, from `/proc/PID`, CPU clocks and `getrusage`.

use std::collections::BTreeMap;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};
use procfs::process::Process;

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
        let process = process(pid)?;
        let (stat, status) = (process.stat().ok()?, process.status().ok()?);
        let tick_ns = tick_ns()?;
        let mut look = Self {
            started: stat.starttime,
            cpu_ns: time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64,
            user_ns: stat.utime * tick_ns,
            system_ns: stat.stime * tick_ns,
            minor_faults: stat.minflt,
            major_faults: stat.majflt,
            resident_bytes: status.vmrss.unwrap_or(0) * 1_024,
            resident_bytes_peak: status.vmhwm.unwrap_or(0) * 1_024,
            written_bytes: process.io().ok().map(|io| io.write_bytes),
            switches: None,
            threads: threads(&process),
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

/// Resident memory of a process in bytes (`VmRSS`); `None` if it does not exist or is not readable.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    Some(process(pid)?.status().ok()?.vmrss? * 1_024)
}

/// Whether a process is there and does something, or has anything: a zombie has not. One that is killed is a zombie as soon as
/// its first thread has ended, while its files, and so its ports, are open until the last has.
pub fn is_alive(pid: u32) -> bool {
    process(pid).is_some_and(|process| {
        process.is_alive() || process.stat().is_ok_and(|stat| stat.state == 'Z' && stat.num_threads > 1)
    })
}

/// When a process started, in clock ticks since boot.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Some(process(pid)?.stat().ok()?.starttime)
}

/// Memory of a process that the kernel counts as pinned, for devices or otherwise.
pub fn pinned_bytes(pid: u32) -> Option<u64> {
    let status = process(pid)?.status().ok()?;
    Some((status.vmpin? + status.vmlck?) * 1_024)
}

/// A process that is there.
pub(crate) fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// Nanoseconds per clock tick, the unit of times in `/proc`.
pub(crate) fn tick_ns() -> Option<u64> {
    let per_s = sysconf(SysconfVar::CLK_TCK).ok()??;
    1_000_000_000_u64.checked_div(u64::try_from(per_s).ok()?)
}

fn threads(process: &Process) -> BTreeMap<u32, ThreadSnapshot> {
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let status = task.status().ok()?;
            // Kernels without scheduler statistics lack the file.
            let (cpu_ns, waited_ns) =
                task.schedstat().map_or((0, 0), |times| (times.sum_exec_runtime, times.run_delay));
            let allowed = status.cpus_allowed_list.unwrap_or_default();
            let thread = ThreadSnapshot {
                voluntary: status.voluntary_ctxt_switches?,
                involuntary: status.nonvoluntary_ctxt_switches?,
                cpu_ns,
                waited_ns,
                allowed: allowed.into_iter().flat_map(|(first, last)| first..=last).collect(),
            };
            Some((task.tid as u32, thread))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_clock_tick_is_read_from_the_system() {
        // The value of `getconf CLK_TCK` on every supported Linux machine.
        assert_eq!(tick_ns(), Some(10_000_000));
    }

    #[test]
    fn a_process_whose_first_thread_alone_has_ended_is_alive() {
        // The other thread ends when the pipe to it does.
        let program = "import ctypes, sys, threading\n\
                       threading.Thread(target=sys.stdin.read).start()\n\
                       ctypes.CDLL(None).pthread_exit(None)\n";
        let mut child = Command::new("python3").args(["-c", program]).stdin(Stdio::piped()).spawn().expect("python3");
        let state = || process(child.id()).and_then(|process| process.stat().ok()).map(|stat| stat.state);
        while state() != Some('Z') {
            assert_ne!(state(), None, "it was not waited for");
            std::thread::yield_now();
        }
        assert!(is_alive(child.id()));
        drop(child.stdin.take());
        while is_alive(child.id()) {
            std::thread::yield_now();
        }
        assert!(child.wait().expect("a child").success());
        assert!(!is_alive(child.id()));
    }

    #[test]
    fn a_process_that_is_not_there() {
        assert!(ProcessSnapshot::read(u32::MAX).is_none());
        assert!(ProcessSnapshot::read(i32::MAX as u32).is_none());
        assert_eq!(resident_bytes(u32::MAX), None);
        assert!(resident_bytes(std::process::id()) > Some(100_000));
    }
}
