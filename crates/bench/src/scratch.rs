//! A temporary directory for documents passed from one command to another.

use std::fs;
use std::path::PathBuf;

use report::document::Document;
use report::json;

/// The folder.
pub(crate) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// A new one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("harrier-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// A document that lies there.
    ///
    /// # Errors
    /// It is not there, or none.
    pub fn read(&self, name: &str) -> Result<Document, String> {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        json::read(&text)
    }

    /// The words that have a command write its document there.
    pub fn words(&self, name: &str) -> [String; 2] {
        ["--json".to_owned(), self.0.join(name).to_string_lossy().into_owned()]
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // What is left there harms nobody.
        let _left = fs::remove_dir_all(&self.0);
    }
}
