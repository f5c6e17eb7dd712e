//! Resources used by the processes of one role in an interval.

use serde::{Deserialize, Serialize};

/// Resources used by the processes of one role in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleUsage {
    /// Number of processes; if zero, none was readable and the other fields are meaningless.
    pub processes: u32,
    /// User CPU seconds.
    pub user_s: f64,
    /// Kernel CPU seconds.
    pub system_s: f64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Peak resident bytes of all processes together.
    pub resident_bytes: u64,
    /// Seconds in which a thread was ready to run without a free processor (run queue).
    pub run_queue_s: f64,
    /// Processors used by the busiest process (1.0: one core busy all the time).
    pub busiest_cores: f64,
    /// The maximum that this process could use: its threads or its permitted processors.
    pub cores_max: f64,
    /// Processors used by the busiest thread; near 1.0 it is the bottleneck.
    #[serde(default)]
    pub busiest_thread_cores: f64,
    /// Bytes that the processes caused to be written to storage (`write_bytes` in `/proc/PID/io`); `None` if that was not readable.
    #[serde(default)]
    pub written_bytes: Option<u64>,
}

impl RoleUsage {
    /// CPU seconds, user and kernel together.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    /// `None` if no process was readable.
    pub fn known(self) -> Option<Self> {
        (self.processes > 0).then_some(self)
    }

    /// Adds other processes of the same role in the same interval.
    pub fn add(&mut self, other: &Self) {
        self.written_bytes = match (self.processes, self.written_bytes, other.written_bytes) {
            (0, _, first) => first,
            (_, Some(sum), Some(more)) => Some(sum + more),
            _ => None,
        };
        self.processes += other.processes;
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.resident_bytes += other.resident_bytes;
        self.run_queue_s += other.run_queue_s;
        // The busiest process is the one closest to its maximum, not the one with the largest number.
        if other.share_of_cores() > self.share_of_cores() || self.cores_max == 0.0 {
            self.busiest_cores = other.busiest_cores;
            self.cores_max = other.cores_max;
        }
        self.busiest_thread_cores = self.busiest_thread_cores.max(other.busiest_thread_cores);
    }

    /// Share of its maximum that the busiest process used: 0 to 1.
    pub(crate) fn share_of_cores(&self) -> f64 {
        if self.cores_max > 0.0 { self.busiest_cores / self.cores_max } else { 0.0 }
    }
}

impl<'a> FromIterator<&'a RoleUsage> for RoleUsage {
    fn from_iter<I: IntoIterator<Item = &'a RoleUsage>>(usages: I) -> Self {
        let mut sum = Self::default();
        usages.into_iter().for_each(|usage| sum.add(usage));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_process_that_is_nearest_to_its_limit() {
        let wide = RoleUsage { processes: 1, user_s: 2.0, busiest_cores: 2.0, cores_max: 8.0, ..RoleUsage::default() };
        let narrow =
            RoleUsage { processes: 1, user_s: 0.9, busiest_cores: 0.9, cores_max: 1.0, ..RoleUsage::default() };
        for order in [[&wide, &narrow], [&narrow, &wide]] {
            let sum: RoleUsage = order.into_iter().collect();
            assert_eq!((sum.processes, sum.busiest_cores, sum.cores_max), (2, 0.9, 1.0));
            assert!((sum.cpu_s() - 2.9).abs() < 1e-9);
        }
        assert_eq!(RoleUsage::default().known(), None);
        let wrote = |bytes: Option<u64>| RoleUsage { processes: 1, written_bytes: bytes, ..RoleUsage::default() };
        let sum = |all: &[RoleUsage]| all.iter().collect::<RoleUsage>().written_bytes;
        assert_eq!(sum(&[wrote(Some(1)), wrote(Some(2))]), Some(3));
        assert_eq!(sum(&[wrote(Some(1)), wrote(None)]), None, "what one of them wrote is unknown");
    }

    #[test]
    fn a_document_without_the_busiest_thread_is_read() {
        let old = serde_json::to_string(&RoleUsage::default()).expect("it has a form");
        let without = old.replace(",\"busiest_thread_cores\":0.0", "");
        assert_ne!(old, without);
        assert_eq!(serde_json::from_str::<RoleUsage>(&without).expect("an older form"), RoleUsage::default());
    }
}
