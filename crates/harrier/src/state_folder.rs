//! The state folder: what a broker keeps across restarts.
//!
//! A lock keeps other brokers out while this one runs. Files are replaced atomically and are readable by their owner
//! only.

use crate::checked_text;
use crate::process::seed;
use definitions::toml_text;
use secrets::secret_file;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a broker's name: it becomes part of queue names at other brokers, with an exchange's name.
const NAME_BYTES_MAX: usize = 100;
/// Bytes of a file: enough for every link and route.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the number of a process and the end of its line.
const PID_BYTES_MAX: u64 = 16;
/// The lock file, in which its owner's process id is.
const LOCK: &str = "lock";
/// The file with the broker's name.
pub const IDENTITY: &str = "identity.toml";

/// A broker's name and its state folder.
pub struct BrokerIdentity {
    pub cluster_name: String,
    /// The name survives a restart.
    pub persists_name: bool,
    /// Without a folder nothing is stored.
    pub folder: Option<Arc<StateFolder>>,
}

impl BrokerIdentity {
    /// Locks the folder, if there is one, for the lifetime of the result; reads or creates the name.
    ///
    /// # Errors
    /// The setting at fault, and what is wrong with the folder or the name.
    pub fn open(folder: Option<&str>, wanted: Option<&str>) -> Result<BrokerIdentity, (&'static str, String)> {
        if let Some(name) = wanted {
            check(name).map_err(|why| ("cluster_name", why))?;
        }
        let Some(path) = folder else {
            let name = wanted.map_or_else(random_name, |name| Ok(name.to_owned()));
            let cluster_name = name.map_err(|error| ("cluster_name", error.to_string()))?;
            return Ok(BrokerIdentity { cluster_name, persists_name: wanted.is_some(), folder: None });
        };
        let named = |why: String| ("state", format!("{path}: {why}"));
        let folder = StateFolder::lock(Path::new(path)).map_err(named)?;
        let kept = folder.identity().map_err(named)?;
        let cluster_name = match (wanted, &kept) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) => name.clone(),
            (None, None) => random_name().map_err(|error| named(error.to_string()))?,
        };
        if kept.as_ref() != Some(&cluster_name) {
            let text = format!(
                "# Who this broker is to others. Written once, and when --cluster-name says something else.\n\
                 cluster_name = {}\n",
                config::quoted(&cluster_name)
            );
            folder
                .write(IDENTITY, &checked_text::seal(&text))
                .map_err(|error| named(format!("{IDENTITY} cannot be written: {error}")))?;
        }
        Ok(BrokerIdentity { cluster_name, persists_name: true, folder: Some(Arc::new(folder)) })
    }
}

/// Checks a name.
fn check(name: &str) -> Result<(), String> {
    match name.len() {
        1..=NAME_BYTES_MAX if !name.chars().any(char::is_control) => Ok(()),
        1..=NAME_BYTES_MAX => Err("a name must not contain control characters".to_owned()),
        bytes => Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes, not {bytes}")),
    }
}

/// `harrier@HOST-xxxxxx`
fn random_name() -> io::Result<String> {
    let mut chance = seed()?;
    let letters: String = std::iter::repeat_with(|| {
        let letter = b"abcdefghijklmnopqrstuvwxyz234567"[(chance % 32) as usize];
        chance /= 32;
        char::from(letter)
    })
    .take(6)
    .collect();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let host: String = host.chars().filter(|letter| !letter.is_control()).take(60).collect();
    Ok(format!("harrier@{host}-{letters}"))
}

/// A folder that this process has locked.
pub struct StateFolder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl StateFolder {
    /// Locks the folder, which is created if absent.
    fn lock(path: &Path) -> Result<StateFolder, String> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| format!("the folder cannot be made: {error}"))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(secret_file::no_follow())
            .open(path.join(LOCK))
            .map_err(|error| format!("{LOCK} cannot be opened: {error}"))?;
        match lock.try_lock() {
            Ok(()) => {
                write_pid(&lock).map_err(|error| format!("{LOCK} cannot be written: {error}"))?;
                Ok(StateFolder { path: path.to_owned(), _lock: lock })
            }
            Err(TryLockError::WouldBlock) => {
                let owner = read_pid(&lock).map_or(String::new(), |pid| format!(" (process {pid})"));
                Err(format!("another broker{owner} uses this folder; each broker needs its own"))
            }
            Err(TryLockError::Error(error)) => Err(format!("{LOCK} cannot be locked: {error}")),
        }
    }

    /// Keeps brokers out of a folder that exists, without changing anything in it.
    ///
    /// # Errors
    /// There is no such folder, or a broker uses it.
    pub fn lock_to_read(path: &Path) -> Result<StateFolder, String> {
        let open = |path: &Path| OpenOptions::new().read(true).custom_flags(secret_file::no_follow()).open(path);
        if !path.is_dir() {
            return Err("there is no such folder".to_owned());
        }
        let lock = open(&path.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "this is no state folder of a broker".to_owned(),
            _ => format!("{LOCK} cannot be opened: {error}"),
        })?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(StateFolder { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err("a broker uses this folder; stop it first".to_owned()),
            Err(TryLockError::Error(error)) => Err(format!("{LOCK} cannot be locked: {error}")),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stored name, if there is one.
    fn identity(&self) -> Result<Option<String>, String> {
        let Some(text) = self.read(IDENTITY).map_err(|error| format!("{IDENTITY} cannot be read: {error}"))? else {
            return Ok(None);
        };
        let wrong = |why: &str| format!("{IDENTITY}: {why}");
        checked_text::check(&text).map_err(|why| wrong(&why))?;
        let table = toml_text::read(&text).map_err(|why| wrong(&why))?;
        match table.get("cluster_name") {
            Some(definitions::Json::Text(name)) => {
                check(name).map_err(|why| wrong(&why))?;
                Ok(Some(name.clone()))
            }
            _ => Err(wrong("there is no cluster_name")),
        }
    }

    /// The text of a file, if present.
    ///
    /// # Errors
    /// It cannot be read, is too long, or is not UTF-8.
    pub fn read(&self, name: &str) -> io::Result<Option<String>> {
        let file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        Ok(Some(text))
    }

    /// Replaces a file atomically: a reader finds the old or the new content, even after a crash.
    ///
    /// # Errors
    /// The system refuses a step; the file is unchanged.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write_file(&self.path, name, text)
    }

    /// Makes the names of what is in it durable.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// The path of a file, for messages.
    pub fn path_of(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

/// Replaces a file of a folder atomically.
///
/// # Errors
/// The system refuses a step; the file is unchanged.
pub fn write_file(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let (new, place) = (folder.join(format!("{name}.new")), folder.join(name));
    let mut file = secret_file::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &place)?;
    // The rename is durable once the folder is synced.
    File::open(folder)?.sync_all()
}

/// Makes a folder one that a broker may lock.
///
/// # Errors
/// The system refuses it.
pub fn make_lock(folder: &Path) -> io::Result<()> {
    secret_file::create(&folder.join(LOCK)).map(drop)
}

/// Writes into the lock file which process has the lock.
fn write_pid(mut lock: &File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

/// The process that has the lock, as far as its file tells: it may have just got it.
fn read_pid(lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{BrokerIdentity, StateFolder};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A path for one test, removed when dropped.
    struct TestPath(PathBuf);

    impl TestPath {
        fn new(name: &str) -> Self {
            TestPath(std::env::temp_dir().join(format!("harrier-state-{}-{name}", std::process::id())))
        }

        fn take(&self, wanted: Option<&str>) -> Result<BrokerIdentity, String> {
            BrokerIdentity::open(Some(&self.0.to_string_lossy()), wanted)
                .map_err(|(setting, why)| format!("{setting}: {why}"))
        }
    }

    impl Drop for TestPath {
        fn drop(&mut self) {
            if self.0.exists() {
                std::fs::remove_dir_all(&self.0).expect("removed");
            }
        }
    }

    #[test]
    fn a_name_is_made_once_and_kept() {
        let own = TestPath::new("kept");
        let first = own.take(None).expect("a folder").cluster_name;
        assert!(first.starts_with("harrier@") && first.len() > 15, "{first}");
        assert_eq!(own.take(None).expect("the folder").cluster_name, first);
        assert_eq!(own.take(Some("root")).expect("the folder").cluster_name, "root");
        assert_eq!(own.take(None).expect("the folder").cluster_name, "root", "what was chosen is kept");
        let mode = std::fs::metadata(own.0.join("identity.toml")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let nameless = BrokerIdentity::open(None, None).expect("a name").cluster_name;
        assert_ne!(
            BrokerIdentity::open(None, None).expect("a name").cluster_name,
            nameless,
            "without a folder, by chance"
        );
    }

    #[test]
    fn a_folder_belongs_to_one() {
        let own = TestPath::new("taken");
        let state = own.take(None).expect("a folder");
        let error = own.take(None).err().expect("it is taken");
        let owner = format!("another broker (process {}) uses this folder", std::process::id());
        assert!(error.contains(&owner), "{error}");
        drop(state);
        own.take(None).expect("it is free again");
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let (own, other) = (TestPath::new("linked"), TestPath::new("target"));
        [&own, &other].into_iter().for_each(|path| std::fs::create_dir_all(&path.0).expect("a folder"));
        let (target, lock) = (other.0.join("file"), own.0.join("lock"));
        std::fs::write(&target, "somebody else's").expect("written");
        std::os::unix::fs::symlink(&target, &lock).expect("a link");
        let error = own.take(None).err().expect("refused");
        assert!(error.starts_with("state: ") && error.contains(": lock cannot be opened: "), "{error}");
        let error = StateFolder::lock_to_read(&own.0).err().expect("refused");
        assert!(error.starts_with("lock cannot be opened: "), "{error}");
        // A copy of a folder is one that a broker may lock.
        super::make_lock(&own.0).expect("in its place");
        assert_eq!(std::fs::read_to_string(&target).expect("it is there"), "somebody else's");
        own.take(None).expect("the lock is its own");
        assert_eq!(std::fs::read_to_string(&target).expect("it is there"), "somebody else's");
    }

    #[test]
    fn what_is_no_state_is_told() {
        let own = TestPath::new("wrong");
        drop(own.take(None).expect("a folder"));
        for (text, expect) in [
            ("cluster_name = 7\n", "identity.toml: there is no cluster_name"),
            ("cluster_name = \"\"\n", "identity.toml: a name has 1 to 100 bytes, not 0"),
            ("cluster_name = \n", "identity.toml: line 1: "),
        ] {
            std::fs::write(own.0.join("identity.toml"), text).expect("written");
            let error = own.take(None).err().expect("refused");
            assert!(error.starts_with("state: ") && error.contains(expect), "{error}");
        }
        let kept = own.0.join("identity.toml");
        std::fs::remove_file(&kept).expect("removed");
        drop(own.take(Some("root")).expect("a folder"));
        let text = std::fs::read_to_string(&kept).expect("a text");
        std::fs::write(&kept, text.replace("root", "roof")).expect("written");
        let error = own.take(None).err().expect("refused");
        assert!(error.contains("identity.toml: it is not what the broker has written"), "{error}");
        let error = BrokerIdentity::open(None, Some(&"x".repeat(101))).err().expect("refused");
        assert_eq!(error, ("cluster_name", "a name has 1 to 100 bytes, not 101".to_owned()));
        assert!(BrokerIdentity::open(Some("/proc/nowhere"), None).is_err(), "no folder can be made there");
    }
}
