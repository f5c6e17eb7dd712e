//! Parameters and other definitions that a catalog has no objects for: kept for exports, tools and the links that some of them
//! make, in the state folder if there is one.

use crate::checked_text;
use crate::state_folder::StateFolder;
use definitions::{Json, KeptSections};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Its name in the state folder.
pub const FILE: &str = "parameters.json";

/// What is kept. Clones are handles on the same.
#[derive(Clone, Default)]
pub struct KeptDefinitions(Arc<Kept>);

#[derive(Default)]
struct Kept {
    sections: Mutex<KeptSections>,
    /// How often they have changed.
    version: AtomicU64,
    /// Without a folder it ends with the broker.
    folder: Option<Arc<StateFolder>>,
}

impl KeptDefinitions {
    /// What a state folder has.
    ///
    /// # Errors
    /// The file cannot be read, or is not what the broker has written.
    pub fn open(folder: Option<Arc<StateFolder>>) -> Result<Self, String> {
        let sections = folder.as_deref().map(load).transpose()?.unwrap_or_default();
        Ok(KeptDefinitions(Arc::new(Kept { sections: Mutex::new(sections), version: AtomicU64::new(0), folder })))
    }

    fn sections(&self) -> MutexGuard<'_, KeptSections> {
        self.0.sections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is kept, durably. Another change waits for it.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed.
    pub fn change(&self, change: impl FnOnce(&KeptSections) -> KeptSections) -> Result<(), String> {
        let mut sections = self.sections();
        let changed = change(&sections);
        let text = changed.to_json().line();
        if let Some(folder) = &self.0.folder
            && text != sections.to_json().line()
        {
            let written = folder.write(FILE, &checked_text::seal(&format!("{text}\n")));
            written.map_err(|error| format!("{} cannot be written: {error}", folder.path_of(FILE)))?;
        }
        *sections = changed;
        self.0.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Another one once something has changed. Read it before what is kept: what changes meanwhile is found again.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    pub fn get(&self) -> KeptSections {
        self.sections().clone()
    }
}

fn load(folder: &StateFolder) -> Result<KeptSections, String> {
    let named = |why: String| format!("{}: {why}", folder.path_of(FILE));
    match folder.read(FILE) {
        Ok(Some(text)) => read(&text).map_err(named),
        Ok(None) => Ok(KeptSections::default()),
        Err(error) => Err(named(format!("cannot be read: {error}"))),
    }
}

fn read(text: &str) -> Result<KeptSections, String> {
    checked_text::check(text)?;
    // The checksum is a line of its own.
    let json = text.lines().next().unwrap_or_default();
    let json = Json::read(json.as_bytes()).map_err(|why| format!("it is not JSON: {why}"))?;
    KeptSections::from_json(json).ok_or_else(|| "it is no object of lists".to_owned())
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::checked_text::seal;

    #[test]
    fn what_was_not_written_by_the_broker_is_told() {
        let text = "{\"parameters\":[{\"name\":\"a\"}]}\n";
        assert_eq!(read(&seal(text)).expect("sound").to_json().line(), text.trim_end());
        let error = |text: &str| read(text).expect_err("refused");
        assert!(error(&seal(text).replace("\"a\"", "\"b\"")).contains("its checksum differs"));
        assert!(error("").starts_with("it is not JSON"));
        assert_eq!(error(&seal("[]\n")), "it is no object of lists");
    }
}
