//! Where a value came from, and what is wrong with it.
//!
//! Enters: a file and line, a variable, an option.  Leaves: errors that say where to look.
//! Owns:   the form of an error of configuration: one line a fault, `place: key: why`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere.
    Default,
    File {
        path: Arc<Path>,
        /// The line, from 1; 0 means the file as a whole.
        line: u32,
    },
    /// In this variable of the environment.
    Environment(String),
    /// By this option of the command line, with its dashes; empty for the command line as a whole.
    CommandLine(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => to.write_str("default"),
            Origin::File { path, line: 0 } => write!(to, "{}", path.display()),
            Origin::File { path, line } => write!(to, "{}:{line}", path.display()),
            Origin::Environment(variable) => to.write_str(variable),
            Origin::CommandLine(option) => to.write_str(option),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// Where.
    pub origin: Origin,
    /// The key of the file, such as `shards` or `user.password`; empty if it is about no key.
    pub key: String,
    /// Why, to stand behind a colon.
    pub why: String,
}

impl ConfigFault {
    pub(crate) fn new(origin: Origin, key: impl Into<String>, why: impl Into<String>) -> Self {
        ConfigFault { origin, key: key.into(), why: why.into() }
    }
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.origin.to_string();
        // A variable or an option names its key itself.
        let key = if matches!(self.origin, Origin::File { .. } | Origin::Default) { &self.key } else { "" };
        for part in [&*place, key].into_iter().filter(|part| !part.is_empty()) {
            write!(to, "{part}: ")?;
        }
        to.write_str(&self.why)
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// In the order of the command line, the environment and the file. Never empty.
    pub faults: Vec<ConfigFault>,
}

impl ConfigError {
    /// Whether the command line is (also) at fault, rather than the file or the environment alone.
    pub fn is_usage(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.origin, Origin::CommandLine(_)))
    }
}

impl From<ConfigFault> for ConfigError {
    fn from(fault: ConfigFault) -> Self {
        ConfigError { faults: vec![fault] }
    }
}

/// One line a fault.
impl fmt::Display for ConfigError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            write!(to, "{}{fault}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// A file's path and the lines of its text.
pub(crate) struct SourceText<'a> {
    path: Arc<Path>,
    text: &'a str,
}

impl<'a> SourceText<'a> {
    pub fn new(path: PathBuf, text: &'a str) -> Self {
        SourceText { path: path.into(), text }
    }

    /// Where the byte `at` of the text stands.
    pub fn line_of(&self, at: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
        Origin::File { path: Arc::clone(&self.path), line: before as u32 + 1 }
    }
}
