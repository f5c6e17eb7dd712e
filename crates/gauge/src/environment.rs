//! Facts about the machine, recorded with every document: processor, kernel, memory, network settings, version.
//!
//! The names of the machine and its user are not recorded.

use std::fs;

use serde::{Deserialize, Serialize};

/// The kernel's default without any request: 2,000 seconds.
const CPU_LATENCY_UNBOUNDED_US: i32 = 2_000_000_000;

/// The machine of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostEnvironment {
    /// Date of the run, UTC.
    pub date: String,
    /// The processor's model name.
    pub processor: String,
    /// Processors that this program may use.
    pub processors: usize,
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// TCP congestion control.
    pub congestion_control: String,
    /// Congestion controls that the kernel provides.
    #[serde(default)]
    pub congestion_controls: Vec<String>,
    /// Minimum, default and maximum bytes of an automatically sized TCP receive buffer.
    #[serde(default)]
    pub tcp_rmem: String,
    /// The same for the send buffer.
    #[serde(default)]
    pub tcp_wmem: String,
    /// The CPU frequency governor: `performance`, `powersave`, …; `None` if the system does not tell, as in most virtual machines.
    #[serde(default)]
    pub governor: Option<String>,
    /// Whether the processors are virtual; `None` if they do not tell.
    #[serde(default)]
    pub virtualised: Option<bool>,
    /// The PM QoS limit on CPU wake-up latency in microseconds; `None` if nobody has requested one or it is not readable (it is for
    /// root).
    #[serde(default)]
    pub cpu_latency_us: Option<i32>,
    /// Load average of the minute before the run.
    #[serde(default)]
    pub load_before: Option<f64>,
    /// Version of this program.
    pub version: String,
    /// Whether this program is an optimised build.
    pub optimised: bool,
}

impl HostEnvironment {
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
            congestion_controls: text("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            tcp_rmem: spaced(&text("/proc/sys/net/ipv4/tcp_rmem")),
            tcp_wmem: spaced(&text("/proc/sys/net/ipv4/tcp_wmem")),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|name| name.trim().to_owned()),
            virtualised: virtualised(&text("/proc/cpuinfo")),
            cpu_latency_us: fs::read("/dev/cpu_dma_latency").ok().and_then(|bytes| cpu_latency_us(&bytes)),
            load_before: text("/proc/loadavg").split_whitespace().next().and_then(|load| load.parse().ok()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            optimised: !cfg!(debug_assertions),
        }
    }

    /// The facts on one line.
    pub fn line(&self) -> String {
        let Self { processor, processors, memory_mib, kernel, congestion_control, version, optimised, .. } = self;
        let wake = self.wake();
        let build = if *optimised { "" } else { " (NOT OPTIMISED: figures mean nothing)" };
        format!(
            "harrier {version}{build}, {processors} x {processor}, {memory_mib} MiB, Linux {kernel}, TCP {congestion_control}{wake}"
        )
    }

    /// The wake-up latency limit, if any, as the end of a line.
    pub fn wake(&self) -> String {
        self.cpu_latency_us.map_or_else(String::new, |bound_us| format!(", processors wake within {bound_us} us"))
    }
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// On x86, virtual processors have the flag `hypervisor`.
fn virtualised(processors: &str) -> Option<bool> {
    let flags = processors.lines().find(|line| line.starts_with("flags"))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The file contains four bytes in native byte order: the smallest latency requested.
fn cpu_latency_us(bytes: &[u8]) -> Option<i32> {
    let bound_us = i32::from_ne_bytes(*bytes.first_chunk()?);
    (bound_us < CPU_LATENCY_UNBOUNDED_US).then_some(bound_us)
}

/// The number of processors this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let environment = HostEnvironment::read();
        assert!(environment.processors >= 1 && environment.memory_mib > 0);
        assert!(environment.congestion_controls.contains(&environment.congestion_control), "{environment:?}");
        assert_eq!(environment.tcp_rmem.split(' ').count(), 3, "{}", environment.tcp_rmem);
        assert!(environment.load_before.is_some());
        assert_eq!(environment.optimised, !cfg!(debug_assertions));
    }

    #[test]
    fn virtual_machines() {
        assert_eq!(virtualised("flags\t\t: fpu hypervisor sse\n"), Some(true));
        assert_eq!(virtualised("flags\t\t: fpu sse\n"), Some(false));
        assert_eq!(virtualised("Features\t: fp asimd\n"), None);
    }

    #[test]
    fn processors_that_somebody_holds_awake() {
        assert_eq!(cpu_latency_us(&0_i32.to_ne_bytes()), Some(0));
        assert_eq!(cpu_latency_us(&2_000_000_000_i32.to_ne_bytes()), None);
        assert_eq!(cpu_latency_us(&[0, 0]), None);
        let awake = HostEnvironment { cpu_latency_us: Some(2), ..HostEnvironment::default() };
        assert!(awake.line().ends_with(", processors wake within 2 us"), "{}", awake.line());
        assert_eq!(HostEnvironment::default().wake(), "");
    }

    #[test]
    fn an_older_description_is_read() {
        let mut value = serde_json::to_value(HostEnvironment::read()).expect("it has a form");
        let fields = value.as_object_mut().expect("an object");
        let news =
            ["congestion_controls", "tcp_rmem", "tcp_wmem", "governor", "virtualised", "cpu_latency_us", "load_before"];
        for new in news {
            assert!(fields.remove(new).is_some(), "{new}");
        }
        assert!(serde_json::from_value::<HostEnvironment>(value).is_ok());
    }
}
