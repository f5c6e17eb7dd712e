//! A copy of a disk whose file system is mounted here, until it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct MountedCopy(PathBuf);

impl MountedCopy {
    pub fn new(copy: &Path) -> Self {
        let folder = copy.with_extension("mounted");
        std::fs::create_dir(&folder).expect("a new folder");
        let mount = Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(copy).arg(&folder).output();
        let mount = mount.expect("mount is installed");
        assert!(mount.status.success(), "{}", String::from_utf8_lossy(&mount.stderr));
        MountedCopy(folder)
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
