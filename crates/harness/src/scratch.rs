//! A temporary directory for documents passed from one command to another.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use report::document::Document;
use report::json;

/// A temporary directory, deleted when dropped.
pub struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// The error of the system.
    /// It cannot be made.
    pub fn new() -> Result<Self, String> {
        Self::new_in(&std::env::temp_dir())
    }

    /// The same in another folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new_in(dir: &Path) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("harrier-bench-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads a document from the directory.
    ///
    /// # Errors
    /// A missing or invalid document.
    pub fn read(&self, name: &str) -> Result<Document, String> {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        json::read(&text)
    }

    /// The options that make a command write its document here.
    pub fn words(&self, name: &str) -> [String; 2] {
        ["--json".to_owned(), self.0.join(name).to_string_lossy().into_owned()]
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // A directory that cannot be deleted does no harm.
        let _left = fs::remove_dir_all(&self.0);
    }
}
