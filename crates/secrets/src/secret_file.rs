//! Files that are nobody else's business: how those with passwords are made, and who else can read them and the store's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permission bits of the group and of others to read.
const READ_BY_OTHERS: u32 = 0o044;

/// Creates a file that only its owner can read. A leftover of this name is removed; a link is not followed.
///
/// # Errors
/// The system refuses it, or somebody else has just made a file of this name.
pub fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(no_follow()).open(path)
}

/// The flag by which a link is not followed (`O_NOFOLLOW`).
pub fn no_follow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()
}

/// A warning if a file with passwords can be read by others than its owner.
pub fn warning(path: impl AsRef<Path>) -> Option<String> {
    warning_about(path.as_ref(), "passwords")
}

/// A warning if a file with private keys can be read by others than its owner.
pub fn key_warning(path: impl AsRef<Path>) -> Option<String> {
    warning_about(path.as_ref(), "private keys")
}

/// A warning about the first file of a folder of the store that others than its owner can read.
pub fn store_warning(folder: &Path) -> Option<String> {
    // A folder that cannot be read is an error of the start, which comes after this.
    let mut files: Vec<_> = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort_unstable();
    files.iter().find_map(|file| warning_about(file, "messages or definitions"))
}

fn warning_about(path: &Path, content: &str) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & READ_BY_OTHERS != 0).then(|| {
        format!(
            "{}: others can read it, and it has {content} (mode {:04o}; 0600 is enough)",
            path.display(),
            mode & 0o7777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{create, key_warning, warning};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_created_in_place_of_a_link_and_for_its_owner() {
        let folder = std::env::temp_dir().join(format!("harrier-secret-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (target, path) = (folder.join("target"), folder.join("file.new"));
        std::fs::write(&target, "untouched").expect("written");
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        create(&path).expect("a file").write_all(b"secret").expect("written");
        assert_eq!(std::fs::read_to_string(&target).expect("it is there"), "untouched");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "secret");
        assert_eq!(warning(&path), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("its owner may");
        let told = warning(&path).expect("the group can read it");
        assert!(told.contains("file.new") && told.contains("mode 0640"), "{told}");
        assert!(key_warning(&path).is_some_and(|told| told.contains("it has private keys")));
        assert_eq!(warning(folder.join("nothing")), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
