//! The machine: how many cores and how much memory this process has.
//!
//! Enters: the files in which Linux tells.  Leaves: cores, bytes.
//! Owns:   the search for the limit of the control group, in both versions.

use std::path::{Path, PathBuf};

/// What the process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores, within the process's affinity and control group.
    pub cores: usize,
    /// Bytes of memory: the machine's, or the least limit of a control group around the process.
    pub memory_bytes: Option<u64>,
}

impl Machine {
    pub fn here() -> Self {
        Machine {
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: memory_bytes(Path::new("/")),
        }
    }
}

/// The least of what the files under `root` say.
fn memory_bytes(root: &Path) -> Option<u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| group_limits(root, line));
    limits.chain(machine_bytes(root)).min()
}

/// `MemTotal:       16384 kB` of /proc/meminfo (proc_meminfo(5)).
fn machine_bytes(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits on the way from a group to the root. A line of /proc/self/cgroup is `0::/group` in version 2 and
/// `number:controllers:/group` in version 1 (cgroups(7)).
fn group_limits(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return vec![] };
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return vec![],
    };
    // Inside a container the group may be named as from outside (`/../..`): then the folder itself has the limit.
    let group: PathBuf = group.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
    let folders = group.ancestors().map(|group| root.join(folder).join(group).join(file));
    // `max` is no number, and no limit.
    folders.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::memory_bytes;
    use std::path::Path;

    #[test]
    fn the_least_limit_counts() {
        const MACHINE: (&str, &str) = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:    1000 kB\n");
        type FileReader = &'static [(&'static str, &'static str)];
        let cases: &[(&str, FileReader, Option<u64>)] = &[
            ("nothing is told", &[], None),
            ("machine", &[MACHINE], Some(1_024_000)),
            (
                "no limit",
                &[MACHINE, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")],
                Some(1_024_000),
            ),
            (
                "group",
                &[MACHINE, ("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/b/memory.max", "5000\n")],
                Some(5000),
            ),
            (
                "around it",
                &[MACHINE, ("proc/self/cgroup", "0::/a/b\n"), ("sys/fs/cgroup/a/memory.max", "4000\n")],
                Some(4000),
            ),
            (
                "container",
                &[MACHINE, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "3000\n")],
                Some(3000),
            ),
            (
                "from outside",
                &[MACHINE, ("proc/self/cgroup", "0::/../..\n"), ("sys/fs/cgroup/memory.max", "3000\n")],
                Some(3000),
            ),
            (
                "larger",
                &[MACHINE, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "9000000000\n")],
                Some(1_024_000),
            ),
            (
                "version 1",
                &[
                    MACHINE,
                    ("proc/self/cgroup", "3:cpu:/a\n2:memory,hugetlb:/a\n"),
                    ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7000"),
                ],
                Some(7000),
            ),
            ("nonsense", &[("proc/meminfo", "MemTotal: many kB"), ("proc/self/cgroup", "::::\n\n0")], None),
        ];
        for (at, (name, files, expect)) in cases.iter().enumerate() {
            let root = std::env::temp_dir().join(format!("harrier-machine-{}-{at}", std::process::id()));
            for (path, text) in *files {
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
                std::fs::write(path, text).expect("a file");
            }
            assert_eq!(memory_bytes(&root), *expect, "{name}");
            if root.exists() {
                std::fs::remove_dir_all(root).expect("removed");
            }
        }
    }
}
