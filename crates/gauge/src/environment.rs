//! Facts about the machine that belong to every figure.
//!
//! Enters: nothing.  Leaves: processor, kernel, memory, network settings, version.
//! Owns:   the reading of them.
//! Never:  names the machine, its user or its folders.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine a run was made on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Environment {
    /// Date of the run, UTC.
    pub date: String,
    /// The processor's name.
    pub processor: String,
    /// Processors this program may use.
    pub processors: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// TCP congestion control.
    pub congestion_control: String,
    /// Version of this program.
    pub version: String,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
}

impl Environment {
    /// Reads the facts.
    pub fn read() -> Self {
        let text = |path: &str| {
            fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_else(|_| "unknown".to_owned())
        };
        let value = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory_kib =
            value("/proc/meminfo", "MemTotal").and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
        Self {
            date: crate::clock::date(),
            processor: value("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            processors: processors(),
            memory_mib: memory_kib.unwrap_or(0) / 1_024,
            kernel: text("/proc/sys/kernel/osrelease").split('-').next().unwrap_or("unknown").to_owned(),
            congestion_control: text("/proc/sys/net/ipv4/tcp_congestion_control"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            optimised: !cfg!(debug_assertions),
        }
    }

    /// The facts as one line.
    pub fn line(&self) -> String {
        let Self { processor, processors, memory_mib, kernel, congestion_control, version, optimised, .. } = self;
        let build = if *optimised { "" } else { " (NOT OPTIMISED: figures mean nothing)" };
        format!(
            "harrier {version}{build}, {processors} x {processor}, {memory_mib} MiB, Linux {kernel}, TCP {congestion_control}"
        )
    }
}

/// Processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
