//! What the process has of the system, and may have.

use rustix::process::{Resource, getrlimit};
use std::fs;

/// Descriptors, threads, and the disk of the state folder. What the system does not tell of the first two is zero.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct ProcessResources {
    pub descriptors: u64,
    pub descriptors_max: u64,
    pub threads: u64,
    pub threads_max: u64,
    /// `None`: there is no state folder, or it is not known.
    pub disk_free_bytes: Option<u64>,
}

impl ProcessResources {
    /// As they are now; without a state folder there is no disk.
    pub fn read(state_folder: &str) -> Self {
        let descriptors = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let threads_max = fs::read_to_string("/proc/sys/kernel/threads-max").unwrap_or_default();
        ProcessResources {
            // One is the folder that was just read.
            descriptors: descriptors.saturating_sub(1),
            descriptors_max: getrlimit(Resource::Nofile).current.unwrap_or(u64::from(u32::MAX)),
            threads: threads(&status).unwrap_or(0),
            threads_max: threads_max.trim().parse().unwrap_or(0),
            disk_free_bytes: disk_free_bytes(state_folder),
        }
    }
}

/// Bytes that are free on the disk of the state folder; `None`: there is none, or it is not known.
pub fn disk_free_bytes(state_folder: &str) -> Option<u64> {
    let disk = (!state_folder.is_empty()).then(|| rustix::fs::statvfs(state_folder).ok()).flatten()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn threads(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ProcessResources, threads};

    #[test]
    fn a_process_has_descriptors_threads_and_a_disk() {
        assert_eq!(threads("Name:\tx\nThreads:\t12\nSigQ:\t0/1\n"), Some(12));
        let before = ProcessResources::read("/");
        let files = [(); 10].map(|()| std::fs::File::open("/").expect("it is there"));
        let after = ProcessResources::read("");
        // Tests beside this one open and close files of their own.
        assert!(after.descriptors >= files.len() as u64 && after.descriptors < after.descriptors_max);
        assert!(before.threads > 0 && before.threads < before.threads_max);
        assert!(before.disk_free_bytes > Some(0) && after.disk_free_bytes.is_none());
    }
}
