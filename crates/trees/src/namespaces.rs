//! Network namespaces as hosts: each with an address and a link of a given speed, on a bridge in a namespace of its
//! own.
//!
//! The namespaces are removed with this object. Their names identify the process that owns them, so that those of dead
//! processes can be removed; other namespaces are not touched.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use crate::limits::{LINK_BURST_BYTES_MIN, LINK_QUEUE_MS};
use harness::interrupt;

/// Folder of named namespaces.
const FOLDER: &str = "/run/netns";
const MARK: &str = "harrier-";
const BRIDGE: &str = "bridge";
/// Hosts in one of the 256 networks of 10.77.0.0/16.
const HOSTS_A_NETWORK: usize = 250;

#[derive(Clone, Debug)]
pub(super) struct NamespaceHost {
    name: String,
    /// Its address; all hosts are in one network.
    pub address: IpAddr,
}

impl NamespaceHost {
    /// The arguments that precede a program's to run it there.
    pub fn command_prefix(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.name].map(str::to_owned).to_vec()
    }
}

/// Hosts on one bridge.
pub(super) struct NetworkNamespaces {
    mark: String,
    bits_per_s: Option<u64>,
    hosts: usize,
}

impl NetworkNamespaces {
    /// Creates the bridge, after removing namespaces of dead processes.
    ///
    /// # Errors
    /// Not root, no iproute2, or an error of it.
    pub fn new(bits_per_s: Option<u64>) -> Result<Self, String> {
        ready(bits_per_s.is_some())?;
        clean()?;
        let pid = std::process::id();
        let began = gauge::start_ticks(pid).ok_or("this process cannot be read in /proc")?;
        let this = Self { mark: format!("{MARK}{pid}-{began}"), bits_per_s, hosts: 0 };
        let switch = this.bridge_namespace();
        run("ip", &["netns", "add", &switch], "")?;
        batch(&switch, &format!("link add name {BRIDGE} type bridge\nlink set {BRIDGE} up\n"))?;
        Ok(this)
    }

    fn bridge_namespace(&self) -> String {
        format!("{}-switch", self.mark)
    }

    /// Adds a host.
    ///
    /// # Errors
    /// An error of `ip` or `tc`.
    pub fn add(&mut self, label: &str) -> Result<NamespaceHost, String> {
        let (name, switch, number) = (format!("{}-{label}", self.mark), self.bridge_namespace(), self.hosts);
        self.hosts += 1;
        let address = Ipv4Addr::new(10, 77, (number / HOSTS_A_NETWORK) as u8, (number % HOSTS_A_NETWORK + 1) as u8);
        run("ip", &["netns", "add", &name], "")?;
        let port = format!("port{number}");
        batch(
            &switch,
            &format!(
                "link add name {port} type veth peer name eth0 netns {name}\nlink set {port} master {BRIDGE} up\n"
            ),
        )?;
        batch(&name, &format!("addr add {address}/16 dev eth0\nlink set eth0 up\nlink set lo up\n"))?;
        if let Some(bits_per_s) = self.bits_per_s {
            // Each end limits its outbound direction: together, both directions of the host's link.
            for (space, device) in [(&name, "eth0"), (&switch, port.as_str())] {
                limit(space, device, bits_per_s)?;
            }
        }
        Ok(NamespaceHost { name, address: address.into() })
    }
}

impl Drop for NetworkNamespaces {
    fn drop(&mut self) {
        for name in names().into_iter().filter(|name| name.starts_with(&format!("{}-", self.mark))) {
            if let Err(why) = run("ip", &["netns", "del", &name], "") {
                cli::print_error(&format!("harrier topology: {why}; `harrier topology clean` tries again"));
            }
        }
    }
}

fn limit(space: &str, device: &str, bits_per_s: u64) -> Result<(), String> {
    let burst = (bits_per_s / 8 / 100).max(LINK_BURST_BYTES_MIN);
    let (rate, burst, latency) = (format!("{bits_per_s}bit"), burst.to_string(), format!("{LINK_QUEUE_MS}ms"));
    let words = [
        "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst, "latency", &latency,
    ];
    run("tc", &words, "").map_err(|why| format!("the speed of links cannot be limited: {why}"))
}

/// Checks that namespaces, and limited links if they are wanted, are available.
fn ready(limited: bool) -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("--namespaces needs root, to create and remove network namespaces".to_owned());
    }
    let tools = if limited { &["ip", "tc"][..] } else { &["ip"] };
    for tool in tools {
        if Command::new(tool)
            .arg("-V")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_err()
        {
            return Err(format!("--namespaces needs the program {tool} of the package iproute2"));
        }
    }
    Ok(())
}

/// Removes the namespaces of dead processes, and returns how many there were.
///
/// # Errors
/// An error of `ip`.
pub(super) fn clean() -> Result<usize, String> {
    let left: Vec<String> = names().into_iter().filter(|name| is_left(name, gauge::start_ticks)).collect();
    left.iter().try_for_each(|name| run("ip", &["netns", "del", name], ""))?;
    Ok(left.len())
}

fn names() -> Vec<String> {
    // Without that folder no named namespace was ever created.
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(MARK)).collect()
}

/// Whether a namespace is one of ours whose process is dead. A process is identified by its id and start time.
fn is_left(name: &str, began: impl Fn(u32) -> Option<u64>) -> bool {
    let mut parts = name.strip_prefix(MARK).unwrap_or_default().splitn(3, '-');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    match (number(), number()) {
        (Some(pid), Some(then)) => u32::try_from(pid).is_ok_and(|pid| began(pid) != Some(then)),
        _ => false,
    }
}

fn batch(space: &str, lines: &str) -> Result<(), String> {
    run("ip", &["-n", space, "-batch", "-"], lines)
}

fn run(program: &str, words: &[&str], input: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{program} cannot be run: {error}");
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    // It reads a few lines completely before it ends, and reports errors at its end.
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return written.map_err(failed);
    }
    if interrupt::requested() && output.stderr.is_empty() {
        return Err(interrupt::MESSAGE.to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", words.join(" "), said.trim().replace('\n', "; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_the_dead_are_left_over() {
        let began = |pid: u32| (pid == 7).then_some(100);
        for (name, left) in [
            ("harrier-7-100-b0", false),
            ("harrier-7-99-b0", true),
            ("harrier-8-100-switch", true),
            ("harrier-x-100-b0", false),
            ("harrier-7", false),
            ("harrier-99999999999-1-b0", false),
            ("other-8-100-b0", false),
        ] {
            assert_eq!(is_left(name, began), left, "{name}");
        }
    }

    #[test]
    fn a_process_is_told_by_when_it_began() {
        let pid = std::process::id();
        assert!(gauge::start_ticks(pid).is_some_and(|at| at > 0));
        assert_eq!(gauge::start_ticks(u32::MAX), None);
    }
}
