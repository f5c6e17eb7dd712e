//! CPU placement of roles: parses `broker=0,publisher=1,consumer=1-3` and pins processes.

use std::fmt;
use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A set of processors; empty means any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// Parses `0`, `0+2`, `1-3`, `0+4-7`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut cpus = Vec::new();
        for part in text.split('+') {
            let number = |text: &str| text.parse::<usize>().map_err(|_| format!("'{text}' is not a processor number"));
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first || last >= CpuSet::count() {
                return Err(format!("'{part}' is not a range of processors"));
            }
            cpus.extend(first..=last);
        }
        Ok(Self(cpus))
    }

    /// The first two processors that the calling thread may use, each by itself.
    pub fn first_two() -> Option<(Self, Self)> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
        Some((Self(vec![cpus.next()?]), Self(vec![cpus.next()?])))
    }

    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Pins the calling thread and the threads it starts.
    pub fn pin_self(&self) -> Result<(), String> {
        if self.is_any() { Ok(()) } else { pin_task(Pid::from_raw(0), self) }
    }

    fn set(&self) -> Result<CpuSet, String> {
        let mut set = CpuSet::new();
        for &cpu in &self.0 {
            set.set(cpu).map_err(|error| format!("processor {cpu}: {error}"))?;
        }
        Ok(set)
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("any");
        }
        for (index, cpu) in self.0.iter().enumerate() {
            write!(f, "{}{cpu}", if index == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

fn pin_task(task: Pid, cpus: &CpuList) -> Result<(), String> {
    sched_setaffinity(task, &cpus.set()?).map_err(|error| format!("cannot run on processor {cpus}: {error}"))
}

/// The processors of each role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPlacement {
    /// The broker, or the relay in its place.
    pub broker: CpuList,
    pub publisher: CpuList,
    pub consumer: CpuList,
}

impl CpuPlacement {
    /// Parses `broker=0,publisher=1,consumer=1`; roles not named run anywhere.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut placement = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (role, cpus) = part.split_once('=').ok_or_else(|| format!("'{part}': expected role=processors"))?;
            let place = match role {
                "broker" => &mut placement.broker,
                "publisher" => &mut placement.publisher,
                "consumer" => &mut placement.consumer,
                _ => return Err(format!("unknown role '{role}' (broker, publisher, consumer)")),
            };
            *place = CpuList::parse(cpus)?;
        }
        Ok(placement)
    }

    /// Checks that this process may use these processors, by pinning a temporary thread.
    pub fn check_processors(&self) -> Result<(), String> {
        let all = [&self.broker, &self.publisher, &self.consumer];
        let result = std::thread::scope(|scope| scope.spawn(|| all.iter().try_for_each(|cpus| cpus.pin_self())).join());
        result.unwrap_or_else(|_| Err("the thread that checks processors failed".to_owned()))
    }

    /// Everything on processor 0, so that no wake-up crosses processors.
    pub fn together() -> Self {
        Self { broker: CpuList(vec![0]), publisher: CpuList(vec![0]), consumer: CpuList(vec![0]) }
    }

    /// The usual placement for latency on a small machine: the broker on processor 0, the clients on 1.
    pub fn broker_apart() -> Self {
        if gauge::processors() < 2 {
            return Self::together();
        }
        Self { broker: CpuList(vec![0]), publisher: CpuList(vec![1]), consumer: CpuList(vec![1]) }
    }
}

impl fmt::Display for CpuPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broker={} publisher={} consumer={}", self.broker, self.publisher, self.consumer)
    }
}

/// Pins all threads of a running process (a broker not started by this program) until dropped.
pub struct PinnedProcess {
    before: Vec<(Pid, CpuSet)>,
}

impl PinnedProcess {
    pub(crate) fn move_process(pid: u32, cpus: &CpuList) -> Result<Self, String> {
        let mut pinned = Self { before: Vec::new() };
        if cpus.is_any() {
            return Ok(pinned);
        }
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|error| format!("process {pid}: {error}"))?;
        for task in tasks.flatten() {
            let Some(task) = task.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::from_raw) else {
                continue;
            };
            // A thread may end after it is listed; then there is nothing to pin.
            if let Ok(before) = sched_getaffinity(task) {
                pin_task(task, cpus)?;
                pinned.before.push((task, before));
            }
        }
        Ok(pinned)
    }
}

impl Drop for PinnedProcess {
    fn drop(&mut self) {
        for (task, before) in &self.before {
            // Fails only for a thread that has ended.
            let _ended = sched_setaffinity(*task, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = CpuPlacement::parse(text).map_or_else(|error| error, |placement| placement.to_string());
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn missing_processors_are_reported() {
        let last = CpuSet::count() - 1;
        let why = CpuPlacement::parse(&format!("consumer={last}")).and_then(|place| place.check_processors());
        assert!(why.is_err_and(|why| why.starts_with(&format!("cannot run on processor {last}: "))));
        assert_eq!(CpuPlacement::default().check_processors(), Ok(()));
    }

    #[test]
    fn placements() {
        check("", "broker=any publisher=any consumer=any");
        check("broker=0,publisher=1,consumer=1", "broker=0 publisher=1 consumer=1");
        check("broker=0+2-3", "broker=0+2+3 publisher=any consumer=any");
        check("broker", "'broker': expected role=processors");
        check("clock=1", "unknown role 'clock' (broker, publisher, consumer)");
        check("broker=x", "'x' is not a processor number");
        check("broker=3-1", "'3-1' is not a range of processors");
    }
}
