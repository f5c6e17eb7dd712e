//! A file system that a disk has, and a copy of a disk whose file system is mounted here until it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

/// XFS has no smaller ones.
const XFS_BYTES: u64 = 320 << 20;
const EXT4_BYTES: u64 = 192 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    Ext4 {
        /// 1,024 is what it takes on a small disk, 4,096 on a large one.
        block_bytes: usize,
    },
    Xfs,
}

impl FileSystem {
    /// As `mount` takes it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 { .. } => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// Of a disk.
    pub fn bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 { .. } => EXT4_BYTES,
            FileSystem::Xfs => XFS_BYTES,
        }
    }

    /// What it believes that a disk writes as a whole: ext4 changes its superblocks in place, XFS each block.
    pub fn block_bytes(self) -> usize {
        match self {
            FileSystem::Ext4 { block_bytes } => block_bytes,
            FileSystem::Xfs => 4_096,
        }
    }

    /// Makes an empty one.
    pub fn make(self, disk: &Path) {
        let name = format!("mkfs.{}", self.name());
        let mut command = Command::new(&name);
        match self {
            FileSystem::Ext4 { block_bytes } => command.args(["-q", "-F", "-b", &block_bytes.to_string()]),
            FileSystem::Xfs => command.args(["-q", "-f"]),
        };
        let made = command.arg(disk).status().unwrap_or_else(|error| panic!("{name} is installed: {error}"));
        assert!(made.success(), "{name}: {made}");
    }
}

pub struct MountedCopy(PathBuf);

impl MountedCopy {
    pub fn new(copy: &Path, file_system: FileSystem) -> Result<Self, String> {
        let folder = copy.with_extension("mounted");
        std::fs::create_dir(&folder).expect("a new folder");
        let mount =
            Command::new("mount").args(["-t", file_system.name(), "-o", "loop"]).arg(copy).arg(&folder).output();
        let mount = mount.expect("mount is installed");
        if !mount.status.success() {
            std::fs::remove_dir(&folder).expect("it is empty");
            return Err(String::from_utf8_lossy(&mount.stderr).into_owned());
        }
        Ok(MountedCopy(folder))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MountedCopy {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success());
        if !std::thread::panicking() {
            assert!(unmounted, "{} is unmounted", self.0.display());
            std::fs::remove_dir(&self.0).expect("it is empty");
        }
    }
}
