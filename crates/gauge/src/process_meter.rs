//! Measures the resources that processes use between its start and its stop, as a `RoleUsage`.
//!
//! It has no thread of its own: peaks are those of the samples its caller takes.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::now_ns;
use crate::process_snapshot::{ProcessSnapshot, ThreadSnapshot};
use crate::role_usage::RoleUsage;

/// Measures processes over an interval: `start`, occasional calls of `sample`, `stop`.
///
/// Threads that have ended are counted up to the last sample. For a thread that started and ended between two samples the
/// kernel adds its processor time to the process, but its context switches and run-queue waits are lost. For this process
/// itself the kernel reports all context switches.
#[derive(Debug)]
pub struct ProcessMeter {
    began_ns: u64,
    processes: Vec<MeteredProcess>,
    resident_bytes_max: u64,
}

#[derive(Debug)]
struct MeteredProcess {
    pid: u32,
    first: ProcessSnapshot,
    last: ProcessSnapshot,
    threads: BTreeMap<u32, ThreadSpan>,
    /// Earlier threads whose ids were reused.
    ended_threads: Vec<ThreadSpan>,
    threads_max: usize,
}

/// A thread from its first snapshot (zero if it started later) to its last one.
#[derive(Debug, Default)]
struct ThreadSpan {
    first: ThreadSnapshot,
    last: ThreadSnapshot,
}

impl ProcessMeter {
    /// Starts measuring; unreadable processes are skipped (see [`RoleUsage::processes`]).
    pub fn start(pids: &[u32]) -> Self {
        let distinct: BTreeSet<u32> = pids.iter().copied().collect();
        let watched: Vec<MeteredProcess> = distinct.into_iter().filter_map(MeteredProcess::begin).collect();
        let resident_bytes_max = watched.iter().map(|watched| watched.first.resident_bytes).sum();
        // The clock is read last: taking the snapshots is not part of the interval.
        Self { began_ns: now_ns(), processes: watched, resident_bytes_max }
    }

    /// Starts measuring this process.
    pub fn of_self() -> Self {
        Self::start(&[std::process::id()])
    }

    /// Samples the processes: keeps the peak of resident memory and the usage of threads that may end.
    pub fn sample(&mut self) {
        self.processes.iter_mut().for_each(MeteredProcess::sample);
        let resident_bytes = self.processes.iter().map(|watched| watched.last.resident_bytes).sum();
        self.resident_bytes_max = self.resident_bytes_max.max(resident_bytes);
    }

    pub fn stop(mut self) -> RoleUsage {
        let elapsed_s = now_ns().saturating_sub(self.began_ns).max(1) as f64 / 1e9;
        self.sample();
        let mut usage: RoleUsage =
            self.processes.iter().map(|watched| watched.usage(elapsed_s)).collect::<Vec<_>>().iter().collect();
        // A peak of one process that no sample caught is used alone, because the other processes may have used less at that time.
        let unseen = self.processes.iter().map(MeteredProcess::unseen_peak_bytes).max().unwrap_or(0);
        usage.resident_bytes = self.resident_bytes_max.max(unseen);
        usage
    }
}

impl MeteredProcess {
    fn begin(pid: u32) -> Option<Self> {
        let first = ProcessSnapshot::read(pid)?;
        let threads = first
            .threads
            .iter()
            .map(|(&id, thread)| (id, ThreadSpan { first: thread.clone(), last: thread.clone() }))
            .collect();
        let threads_max = first.threads.len();
        Some(Self { pid, last: first.clone(), first, threads, ended_threads: Vec::new(), threads_max })
    }

    /// Samples one process; if it has ended, or its id was reused, the last snapshot stays.
    fn sample(&mut self) {
        let Some(look) = ProcessSnapshot::read(self.pid).filter(|look| look.started == self.first.started) else {
            self.last.resident_bytes = 0;
            return;
        };
        for (&id, thread) in &look.threads {
            let span = self.threads.entry(id).or_default();
            if thread.cpu_ns < span.last.cpu_ns || thread.voluntary < span.last.voluntary {
                self.ended_threads.push(std::mem::take(span));
            }
            span.last = thread.clone();
        }
        self.threads_max = self.threads_max.max(look.threads.len());
        self.last = look;
    }

    fn unseen_peak_bytes(&self) -> u64 {
        if self.last.resident_bytes_peak > self.first.resident_bytes_peak { self.last.resident_bytes_peak } else { 0 }
    }

    fn usage(&self, elapsed_s: f64) -> RoleUsage {
        let (first, last) = (&self.first, &self.last);
        let cpu_s = last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / 1e9;
        let user_s = cpu_s * user_share(first, last);
        let spans = || self.threads.values().chain(&self.ended_threads);
        let sum = |count: &dyn Fn(&ThreadSnapshot) -> u64| -> u64 {
            spans().map(|span| count(&span.last).saturating_sub(count(&span.first))).sum()
        };
        let (voluntary_switches, involuntary_switches) = match (first.switches, last.switches) {
            (Some(before), Some(after)) => (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1)),
            _ => (sum(&|thread| thread.voluntary), sum(&|thread| thread.involuntary)),
        };
        let allowed: BTreeSet<u32> = spans().flat_map(|span| span.last.allowed.iter().copied()).collect();
        let allowed = if allowed.is_empty() { crate::processors() } else { allowed.len() };
        let busiest_thread_ns =
            spans().map(|span| span.last.cpu_ns.saturating_sub(span.first.cpu_ns)).max().unwrap_or(0);
        RoleUsage {
            processes: 1,
            user_s,
            system_s: cpu_s - user_s,
            voluntary_switches,
            involuntary_switches,
            minor_faults: last.minor_faults.saturating_sub(first.minor_faults),
            major_faults: last.major_faults.saturating_sub(first.major_faults),
            resident_bytes: last.resident_bytes,
            run_queue_s: sum(&|thread| thread.waited_ns) as f64 / 1e9,
            busiest_cores: cpu_s / elapsed_s,
            cores_max: self.threads_max.max(1).min(allowed) as f64,
            busiest_thread_cores: busiest_thread_ns as f64 / 1e9 / elapsed_s,
            written_bytes: last.written_bytes.zip(first.written_bytes).map(|(last, first)| last.saturating_sub(first)),
        }
    }
}

/// The share of user-space processor time in this interval, or over the process's life if the interval is shorter than a tick.
fn user_share(first: &ProcessSnapshot, last: &ProcessSnapshot) -> f64 {
    let user_ns = last.user_ns.saturating_sub(first.user_ns);
    let system_ns = last.system_ns.saturating_sub(first.system_ns);
    let share = |user_ns: u64, system_ns: u64| user_ns as f64 / (user_ns + system_ns) as f64;
    match (user_ns + system_ns, last.user_ns + last.system_ns) {
        (0, 0) => 1.0,
        (0, _) => share(last.user_ns, last.system_ns),
        _ => share(user_ns, system_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// Burns `ns` of processor time in this thread.
    fn burn(ns: u64) {
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        let now = || {
            let time = nix::time::clock_gettime(clock).expect("the thread has a clock");
            time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
        };
        let end = now() + ns;
        while now() < end {}
    }

    #[test]
    fn own_work_is_seen_and_earlier_work_is_not() {
        burn(20_000_000);
        let meter = ProcessMeter::of_self();
        burn(30_000_000);
        let usage = meter.stop();
        assert_eq!(usage.processes, 1);
        assert!(usage.cpu_s() >= 0.030, "{usage:?}");
        assert!(
            usage.busiest_thread_cores > 0.0 && usage.busiest_thread_cores <= usage.busiest_cores + 0.05,
            "{usage:?}"
        );
        assert!(usage.cores_max >= 1.0 && usage.cores_max <= crate::processors() as f64, "{usage:?}");
        assert!(usage.resident_bytes > 100_000);
    }

    #[test]
    fn switches_of_threads_that_ended_are_counted() {
        let meter = ProcessMeter::of_self();
        // Both sides wait for the other's byte in the kernel, so each round trip has at least one wait.
        let (mut here, mut there) = UnixStream::pair().expect("two ends");
        let other = std::thread::spawn(move || {
            let mut byte = [0];
            while there.read_exact(&mut byte).is_ok() {
                there.write_all(&byte).expect("somebody reads");
            }
        });
        for _ in 0..400 {
            here.write_all(&[1]).expect("the thread lives");
            here.read_exact(&mut [0]).expect("the thread answers");
        }
        drop(here);
        other.join().expect("the thread ends well");
        let usage = meter.stop();
        assert!(usage.voluntary_switches >= 100, "{usage:?}");
    }

    #[test]
    fn memory_that_came_and_went_is_seen() {
        const BYTES: usize = 64 << 20;
        let mut meter = ProcessMeter::of_self();
        let block = vec![1_u8; BYTES];
        meter.sample();
        drop(std::hint::black_box(block));
        let usage = meter.stop();
        assert!(usage.resident_bytes >= BYTES as u64, "{usage:?}");
        assert!(usage.minor_faults > 0, "{usage:?}");
    }

    #[test]
    fn bytes_that_are_written_to_storage_are_counted() {
        const BYTES: usize = 256 << 10;
        // A folder that is on a disk, and not in memory.
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("written-{}.test", std::process::id()));
        let meter = ProcessMeter::of_self();
        let written = std::fs::write(&path, vec![1; BYTES]);
        let synced = written.and_then(|()| std::fs::File::open(&path)?.sync_all());
        let usage = meter.stop();
        std::fs::remove_file(&path).expect("it is removed");
        synced.expect("it is written");
        assert!(usage.written_bytes.is_none_or(|bytes| bytes >= BYTES as u64), "{usage:?}");
    }

    #[test]
    fn another_process_and_its_end() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat starts");
        let mut meter = ProcessMeter::start(&[child.id(), child.id(), u32::MAX]);
        meter.sample();
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        let usage = meter.stop();
        assert_eq!(usage.processes, 1, "each process once, those that are not there not at all");
        assert_eq!(ProcessMeter::start(&[child.id()]).stop().known(), None);
    }

    #[test]
    fn times_are_split_where_ticks_are_too_coarse() {
        let at = |user_ns, system_ns| ProcessSnapshot { user_ns, system_ns, ..ProcessSnapshot::default() };
        assert_eq!(user_share(&at(10, 10), &at(40, 20)), 0.75);
        assert_eq!(user_share(&at(30, 10), &at(30, 10)), 0.75);
        assert_eq!(user_share(&at(0, 0), &at(0, 0)), 1.0);
    }
}
