//! What a broker process may hold according to the kernel: its memory limit and a tenth. A program that holds more than a tenth
//! at rest, such as a debug build beside a small limit, may hold that as well.

pub struct ResidentLimit {
    pid: u32,
    limit_kib: u64,
    /// What the process holds before anybody has connected.
    rest_kib: u64,
}

impl ResidentLimit {
    /// The limit of a process that is at rest now.
    pub fn at_rest(pid: u32, limit_mib: u64) -> Self {
        ResidentLimit { pid, limit_kib: limit_mib << 10, rest_kib: status_kib(pid, "VmRSS:") }
    }

    /// Panics if the process has ever held more.
    pub fn check(&self, load: &str) {
        let (peak_kib, now_kib) = (status_kib(self.pid, "VmHWM:"), status_kib(self.pid, "VmRSS:"));
        let tenth_kib = self.limit_kib / 10;
        let rest_kib = if self.rest_kib > tenth_kib { self.rest_kib } else { 0 };
        let most_kib = self.limit_kib + tenth_kib + rest_kib;
        let line = format!(
            "{load}: held {} MiB at most and {} MiB now, of {} MiB and {} MiB at rest",
            peak_kib >> 10,
            now_kib >> 10,
            self.limit_kib >> 10,
            self.rest_kib >> 10
        );
        println!("{line}");
        assert!(peak_kib <= most_kib, "{line}");
    }
}

/// A line of the kernel's status of a process that runs, in KiB.
fn status_kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux states it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
