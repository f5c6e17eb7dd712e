//! `store.toml` in the state folder: which store is there, in which format, with how many logs and where they are.
//!
//! Its folders are made before it is: a store without one of them has lost it.

use crate::process::store_id;
use crate::state_folder::StateFolder;
use crate::toml_text;
use definitions::Json;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Its name in the state folder.
pub const FILE: &str = "store.toml";

/// The only format that this program reads and writes.
const FORMAT: i64 = 1;

/// The folder of the definitions' segments.
const DEFINITIONS: &str = "definitions";

/// The folder of the messages' segments, unless the number of logs has been changed.
const LOG: &str = "log";
/// The folder of messages that left the memory.
const SPILL: &str = "spill";

/// Which store a state folder has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreFile {
    /// Drawn at random when the store was made.
    pub id: u128,
    /// One for each shard.
    pub logs: u16,
    /// The name of the folder with the messages' segments.
    pub log_folder: String,
}

impl StoreFile {
    /// The store of a state folder, which is made with so many logs if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written or is wrong, or a folder is missing or cannot be made.
    pub fn open(folder: &StateFolder, logs: u16) -> Result<StoreFile, String> {
        if let Some(file) = StoreFile::load(folder)? {
            return Ok(file);
        }
        let file = StoreFile { id: store_id().map_err(|error| error.to_string())?, logs, log_folder: LOG.to_owned() };
        for path in [file.definitions_path(folder), file.log_path(folder)] {
            make_empty(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        file.store(folder)?;
        Ok(file)
    }

    /// The store of a state folder, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or is wrong, or a folder is missing.
    pub fn load(folder: &StateFolder) -> Result<Option<StoreFile>, String> {
        let named = |why: String| format!("{FILE}: {why}");
        let text = folder.read(FILE).map_err(|error| named(format!("it cannot be read: {error}")))?;
        let Some(file) = text.map(|text| parse(&text)).transpose().map_err(named)? else { return Ok(None) };
        for path in [file.definitions_path(folder), file.log_path(folder)] {
            if !path.is_dir() {
                return Err(format!("{} is missing, which is a part of the store that {FILE} names", path.display()));
            }
        }
        Ok(Some(file))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The system refuses it; the file is unchanged.
    pub fn store(&self, folder: &StateFolder) -> Result<(), String> {
        let StoreFile { id, logs, log_folder } = self;
        let log_folder = config::quoted(log_folder);
        let text = format!(
            "# The store of durable definitions and messages. Written by the broker; not to be edited.\n\
             format = {FORMAT}\nid = \"{id:032x}\"\nlogs = {logs}\nlog_folder = {log_folder}\n"
        );
        folder.write(FILE, &text).map_err(|error| format!("{FILE} cannot be written: {error}"))
    }

    /// The folder of the definitions' segments.
    pub fn definitions_path(&self, folder: &StateFolder) -> PathBuf {
        folder.path().join(DEFINITIONS)
    }

    /// The folder of messages that left the memory, which is made if there is none.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn spill_path(&self, folder: &StateFolder) -> Result<PathBuf, String> {
        let path = folder.path().join(SPILL);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }

    /// The folder of the messages' segments.
    pub fn log_path(&self, folder: &StateFolder) -> PathBuf {
        folder.path().join(&self.log_folder)
    }
}

/// Makes a folder, which may have been made before but has nothing in it: a store whose file is lost is not replaced.
fn make_empty(path: &std::path::Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match std::fs::read_dir(path)?.next() {
        None => Ok(()),
        Some(_) => {
            Err(io::Error::other(format!("it has files, but there is no {FILE} that says which store they are")))
        }
    }
}

fn parse(text: &str) -> Result<StoreFile, String> {
    let table = toml_text::read(text)?;
    match table.get("format") {
        Some(Json::Int(FORMAT)) => {}
        Some(Json::Int(other)) => {
            return Err(format!("the store has format {other}, and this version reads format {FORMAT} only"));
        }
        _ => return Err("there is no format".to_owned()),
    }
    let Some(Json::Text(id)) = table.get("id") else { return Err("there is no id".to_owned()) };
    let id = u128::from_str_radix(id, 16).map_err(|_| format!("the id '{id}' is no hexadecimal number"))?;
    let logs = match table.get("logs") {
        Some(Json::Int(logs)) => u16::try_from(*logs).ok().filter(|logs| *logs > 0),
        _ => None,
    };
    let logs = logs.ok_or("there is no number of logs")?;
    match table.get("log_folder") {
        // A name, and no path that leads elsewhere.
        Some(Json::Text(name)) if name.starts_with(LOG) && !name.contains('/') => {
            Ok(StoreFile { id, logs, log_folder: name.clone() })
        }
        _ => Err("there is no log_folder".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE, StoreFile, parse};
    use crate::state_folder::BrokerIdentity;
    use std::path::PathBuf;

    /// A state folder, removed when dropped.
    struct TestState(PathBuf, BrokerIdentity);

    impl TestState {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("harrier-store-file-{}-{name}", std::process::id()));
            let identity = BrokerIdentity::open(path.to_str(), None).expect("a folder");
            TestState(path, identity)
        }

        fn open(&self, logs: u16) -> Result<StoreFile, String> {
            StoreFile::open(self.1.folder.as_ref().expect("it has one"), logs)
        }
    }

    impl Drop for TestState {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("removed");
        }
    }

    #[test]
    fn a_store_is_made_once_and_found_again() {
        let state = TestState::new("made");
        let made = state.open(3).expect("a store");
        assert_eq!((made.logs, &*made.log_folder), (3, "log"));
        assert_eq!(state.open(5), Ok(made.clone()), "the number of its logs is that of its files");
        assert_ne!(TestState::new("other").open(3).expect("a store").id, made.id);
    }

    #[test]
    fn a_store_of_which_a_part_is_missing_is_neither_used_nor_replaced() {
        let state = TestState::new("missing");
        state.open(1).expect("a store");
        std::fs::remove_dir(state.0.join("log")).expect("removed");
        let error = state.open(1).expect_err("the log is missing");
        assert!(error.contains("/log is missing"), "{error}");
        std::fs::remove_file(state.0.join(FILE)).expect("removed");
        std::fs::write(state.0.join("definitions/00-00000001.seg"), "").expect("written");
        let error = state.open(1).expect_err("there are segments of some store");
        assert!(error.contains("definitions: it has files, but there is no store.toml"), "{error}");
    }

    #[test]
    fn what_is_no_store_file_is_told() {
        let sound = "format = 1\nid = \"0f\"\nlogs = 2\nlog_folder = \"log-2\"\n";
        assert_eq!(parse(sound), Ok(StoreFile { id: 15, logs: 2, log_folder: "log-2".to_owned() }));
        for (old, new, expect) in [
            ("format = 1", "format = 2", "the store has format 2, and this version reads format 1 only"),
            ("format = 1", "", "there is no format"),
            ("\"0f\"", "\"x\"", "the id 'x' is no hexadecimal number"),
            ("id = \"0f\"", "", "there is no id"),
            ("logs = 2", "logs = 0", "there is no number of logs"),
            ("log-2", "log/../..", "there is no log_folder"),
            ("logs = 2", "logs = ", "line 3: "),
        ] {
            let error = parse(&sound.replace(old, new)).expect_err(expect);
            assert!(error.starts_with(expect), "{error}");
        }
    }
}
