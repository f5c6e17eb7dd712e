//! The house rules as tests: documents, layers.toml and sources are held to one another (see `tests`).
//!
//! Enters: the tree.  Leaves: its files, and the links of its documents.
//! Owns:   the way to find them.
//! Never:  is used by another crate: nothing depends on this crate.
#![forbid(unsafe_code)]

pub mod book;
pub mod modules;
pub mod source;
pub mod surface;

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what was made, not what was written.
const MADE: [&str; 7] = ["target", "out", "node_modules", "__pycache__", "venv", "corpus", "vendor"];

/// The root of the tree.
pub fn root() -> PathBuf {
    // Asked when the test runs: two checkouts may share one target folder.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).ancestors().nth(2).expect("crates/house lies two folders down").to_path_buf()
}

/// The text of a file, by its path from the root.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every written file below a folder whose name ends so, by its path from the root, sorted.
pub fn files(below: &str, ending: &str) -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join(below)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("an entry of a folder can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && !MADE.contains(&&*name) {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                found.push(path.strip_prefix(&root).expect("it lies below the root").to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// A link of a Markdown document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkdownLink {
    /// Line, counted from 1.
    pub line: usize,
    /// Where it leads, as written.
    pub target: String,
}

/// The inline links `[text](target)` of a document, but for those in code.
pub fn links(document: &str) -> Vec<MarkdownLink> {
    let mut links = Vec::new();
    let mut in_block = false;
    for (at, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        // Every second piece between backquotes is code.
        let prose: Vec<&str> = line.split('`').step_by(2).collect();
        for piece in prose.join("").split("](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                links.push(MarkdownLink { line: at + 1, target: target.to_owned() });
            }
        }
    }
    links
}

/// The anchors that a document's headings get: lower case, spaces to hyphens, other signs dropped.
pub fn anchors(document: &str) -> Vec<String> {
    let mut in_block = false;
    let headings = document.lines().filter(|line| {
        in_block ^= line.trim_start().starts_with("```");
        !in_block && line.starts_with('#')
    });
    let anchor = |heading: &str| -> String {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::{anchors, links};

    #[test]
    fn links_are_found_in_prose_and_not_in_code() {
        let document = "a [b](c.md#d) and `[not](this)` and [`e`](f)\n```\n[nor](that)\n```\n";
        let targets: Vec<_> = links(document).into_iter().map(|link| link.target).collect();
        assert_eq!(targets, ["c.md#d", "f"]);
    }

    #[test]
    fn anchors_are_those_of_headings() {
        assert_eq!(anchors("# The walk, of `one` message\n```\n# no\n```\n## b"), ["the-walk-of-one-message", "b"]);
    }
}
