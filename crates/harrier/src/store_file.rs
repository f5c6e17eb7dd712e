//! `store.toml` in the state folder: which store is there, in which format, with how many logs and where they are.
//!
//! Its folders are made before it is: a store without one of them has lost it.

use crate::checked_text;
use crate::process::store_id;
use crate::state_folder::StateFolder;
use definitions::{Json, toml_text};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Its name in the state folder.
pub const FILE: &str = "store.toml";

/// The only format that this program reads and writes.
const FORMAT: i64 = 1;

/// The folder of the definitions' segments; each time that the number of logs has changed it has a number behind that.
const DEFINITIONS: &str = "definitions";

/// The folder of the messages' segments, likewise.
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
    /// The name of the folder with the definitions' segments.
    pub definitions_folder: String,
    /// Names of folders that are no part of the store, and to be removed.
    pub unused_folders: Vec<String>,
}

impl StoreFile {
    /// The store of a state folder, which is made with so many logs if there is none.
    ///
    /// # Errors
    /// The file cannot be read or written or is wrong, or a folder is missing or cannot be made.
    pub fn open(folder: &StateFolder, logs: u16) -> Result<StoreFile, String> {
        if let Some(mut file) = StoreFile::load(folder)? {
            file.remove_unused(folder)?;
            return Ok(file);
        }
        let file = StoreFile {
            id: store_id().map_err(|error| error.to_string())?,
            logs,
            log_folder: LOG.to_owned(),
            definitions_folder: DEFINITIONS.to_owned(),
            unused_folders: Vec::new(),
        };
        file.make_folders(folder)?;
        file.store(folder)?;
        Ok(file)
    }

    /// The same store with so many logs, in folders that do not exist yet.
    pub fn successor(&self, logs: u16) -> StoreFile {
        let number = |name: &str| name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(1u64);
        let next = number(&self.log_folder).max(number(&self.definitions_folder)) + 1;
        let (log_folder, definitions_folder) = (format!("{LOG}-{next}"), format!("{DEFINITIONS}-{next}"));
        StoreFile { id: self.id, logs, log_folder, definitions_folder, unused_folders: Vec::new() }
    }

    /// The names of its folders.
    pub fn folders(&self) -> Vec<String> {
        vec![self.log_folder.clone(), self.definitions_folder.clone()]
    }

    /// Makes its folders, which have nothing in them.
    ///
    /// # Errors
    /// The system refuses it, or there is something in them.
    pub fn make_folders(&self, folder: &StateFolder) -> Result<(), String> {
        for path in [self.definitions_path(folder), self.log_path(folder)] {
            make_empty(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        folder.sync().map_err(|error| format!("{}: {error}", folder.path().display()))
    }

    /// Removes the folders that are no part of the store.
    ///
    /// # Errors
    /// The system refuses it; the file still names them.
    pub fn remove_unused(&mut self, folder: &StateFolder) -> Result<(), String> {
        if self.unused_folders.is_empty() {
            return Ok(());
        }
        for name in &self.unused_folders {
            let path = folder.path().join(name);
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(format!("{} cannot be removed: {error}", path.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        self.unused_folders.clear();
        self.store(folder)
    }

    /// The store of a state folder, if there is one.
    ///
    /// # Errors
    /// The file cannot be read or is wrong, or a folder is missing.
    pub fn load(folder: &StateFolder) -> Result<Option<StoreFile>, String> {
        let named = |why: String| format!("{FILE}: {why}");
        let text = folder.read(FILE).map_err(|error| named(format!("it cannot be read: {error}")))?;
        // A newer format may be checked in another way.
        let checked = |text: String| parse(&text).and_then(|file| checked_text::check(&text).map(|()| file));
        let Some(file) = text.map(checked).transpose().map_err(named)? else { return Ok(None) };
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
        let StoreFile { id, logs, log_folder, definitions_folder, unused_folders } = self;
        let [log_folder, definitions_folder] = [log_folder, definitions_folder].map(|name| config::quoted(name));
        let unused = unused_folders.iter().map(|name| config::quoted(name)).collect::<Vec<_>>().join(", ");
        let text = format!(
            "# The store of durable definitions and messages. Written by the broker; not to be edited.\n\
             format = {FORMAT}\nid = \"{id:032x}\"\nlogs = {logs}\nlog_folder = {log_folder}\n\
             definitions_folder = {definitions_folder}\nunused_folders = [{unused}]\n"
        );
        folder.write(FILE, &checked_text::seal(&text)).map_err(|error| format!("{FILE} cannot be written: {error}"))
    }

    /// The folder of the definitions' segments.
    pub fn definitions_path(&self, folder: &StateFolder) -> PathBuf {
        folder.path().join(&self.definitions_folder)
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
    let log_folder = match table.get("log_folder") {
        Some(Json::Text(name)) if is_folder(name, LOG) => name.clone(),
        _ => return Err("there is no log_folder".to_owned()),
    };
    let definitions_folder = match table.get("definitions_folder") {
        None => DEFINITIONS.to_owned(),
        Some(Json::Text(name)) if is_folder(name, DEFINITIONS) => name.clone(),
        Some(_) => return Err("there is no definitions_folder".to_owned()),
    };
    let file = StoreFile { id, logs, log_folder, definitions_folder, unused_folders: Vec::new() };
    let unused = match table.get("unused_folders") {
        None => &[][..],
        Some(Json::List(names)) => names,
        Some(_) => return Err("unused_folders is no list".to_owned()),
    };
    let used = file.folders();
    let unused = unused.iter().map(|name| match name {
        Json::Text(name) if (is_folder(name, LOG) || is_folder(name, DEFINITIONS)) && !used.contains(name) => {
            Ok(name.clone())
        }
        _ => Err("unused_folders has something else than a folder that is not used".to_owned()),
    });
    let unused_folders = unused.collect::<Result<_, _>>()?;
    Ok(StoreFile { unused_folders, ..file })
}

/// Whether this is the name of a folder that begins so, and no path that leads elsewhere.
fn is_folder(name: &str, beginning: &str) -> bool {
    name.starts_with(beginning) && !name.contains('/')
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
        let path = state.0.join(FILE);
        let text = std::fs::read_to_string(&path).expect("a text");
        std::fs::write(&path, text.replace("logs = 3", "logs = 2")).expect("written");
        let error = state.open(3).expect_err("another number of logs");
        assert!(error.starts_with("store.toml: it is not what the broker has written"), "{error}");
        // One of an earlier version has no checksum.
        let (plain, _) = text.rsplit_once("# crc32c").expect("a checksum");
        std::fs::write(&path, plain).expect("written");
        assert_eq!(state.open(3), Ok(made));
    }

    #[test]
    fn only_folders_that_the_file_names_as_unused_are_removed() {
        let state = TestState::new("unused");
        let mut made = state.open(1).expect("a store");
        for name in ["log-2", "log-3", "definitions-2"] {
            std::fs::create_dir(state.0.join(name)).expect("a folder");
        }
        made.unused_folders = vec!["log-2".to_owned(), "definitions-2".to_owned(), "log-gone".to_owned()];
        made.store(state.1.folder.as_ref().expect("it has one")).expect("written");
        let found = state.open(1).expect("the store");
        assert!(found.unused_folders.is_empty() && state.open(1) == Ok(found));
        let is_there = |name: &str| state.0.join(name).exists();
        assert_eq!(
            ["log", "definitions", "log-2", "definitions-2", "log-3"].map(is_there),
            [true, true, false, false, true]
        );
        let next = made.successor(4);
        assert_eq!((next.logs, next.folders()), (4, vec!["log-2".to_owned(), "definitions-2".to_owned()]));
        assert_eq!(next.successor(1).folders(), ["log-3", "definitions-3"]);
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
        let sound = "format = 1\nid = \"0f\"\nlogs = 2\nlog_folder = \"log-2\"\ndefinitions_folder = \"definitions-2\"\n\
                     unused_folders = [\"log\"]\n";
        let file = StoreFile {
            id: 15,
            logs: 2,
            log_folder: "log-2".to_owned(),
            definitions_folder: "definitions-2".to_owned(),
            unused_folders: vec!["log".to_owned()],
        };
        assert_eq!(parse(sound), Ok(file));
        for (old, new, expect) in [
            ("format = 1", "format = 2", "the store has format 2, and this version reads format 1 only"),
            ("format = 1", "", "there is no format"),
            ("\"0f\"", "\"x\"", "the id 'x' is no hexadecimal number"),
            ("id = \"0f\"", "", "there is no id"),
            ("logs = 2", "logs = 0", "there is no number of logs"),
            ("log-2", "log/../..", "there is no log_folder"),
            ("logs = 2", "logs = ", "line 3: "),
            ("\"definitions-2\"", "\"elsewhere\"", "there is no definitions_folder"),
            ("[\"log\"]", "\"log\"", "unused_folders is no list"),
            ("[\"log\"]", "[\"log-2\"]", "unused_folders has something else than a folder that is not used"),
            ("[\"log\"]", "[\"log/../..\"]", "unused_folders has something else than a folder that is not used"),
        ] {
            let error = parse(&sound.replace(old, new)).expect_err(expect);
            assert!(error.starts_with(expect), "{error}");
        }
    }
}
