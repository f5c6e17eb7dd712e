//! The pattern of a policy: a regular expression that is compiled once.
//!
//! Enters: the pattern as it is written.  Leaves: what it compiles to, the same for all clones.
//! Owns:   the sharing: whoever checks a policy before it is set has compiled it for the catalogs of all shards.

use crate::name_pattern::NamePattern;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

struct PatternSource {
    written: Box<str>,
    compiled: OnceLock<Result<NamePattern, String>>,
}

/// A regular expression that is looked for anywhere in a name; the empty one is in all of them.
#[derive(Clone)]
pub struct PolicyPattern(Arc<PatternSource>);

impl PolicyPattern {
    /// What it compiles to, or why it is none.
    pub(crate) fn compiled(&self) -> Result<&NamePattern, &str> {
        let compiled = self.0.compiled.get_or_init(|| NamePattern::of_policy(&self.0.written));
        compiled.as_ref().map_err(String::as_str)
    }

    /// States that a byte of a name may visit, if it is not one of a table.
    pub(crate) fn states(&self) -> u32 {
        self.compiled().map_or(0, NamePattern::states)
    }

    /// Why it is none, if so.
    pub fn fault(&self) -> Option<&str> {
        self.compiled().err()
    }

    /// Whether it is somewhere in a name; a pattern that is none is in no name.
    pub fn is_in(&self, name: &[u8]) -> bool {
        self.compiled().is_ok_and(|pattern| pattern.is_in(name))
    }
}

impl<T: Into<Box<str>>> From<T> for PolicyPattern {
    fn from(written: T) -> Self {
        Self(Arc::new(PatternSource { written: written.into(), compiled: OnceLock::new() }))
    }
}

/// As it is written.
impl Deref for PolicyPattern {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.written
    }
}

impl fmt::Debug for PolicyPattern {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, to)
    }
}

impl PartialEq for PolicyPattern {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PolicyPattern {}

#[cfg(test)]
mod tests {
    use super::PolicyPattern;

    #[test]
    fn a_pattern_is_compiled_once_for_all_its_clones() {
        let pattern = PolicyPattern::from("^q[0-9]+$");
        let clone = pattern.clone();
        let compiled = pattern.compiled().expect("a regular expression");
        assert!(std::ptr::eq(compiled, clone.compiled().expect("the same")));
        assert!(clone.is_in(b"q17") && !clone.is_in(b"queue"));
        let wrong = PolicyPattern::from("(");
        assert!(wrong.compiled().is_err() && !wrong.is_in(b"("));
        assert_eq!((&*pattern, pattern == clone, pattern == wrong), ("^q[0-9]+$", true, false));
    }
}
