//! One word, one meaning (docs/glossary.md): retired words stay away, and names tell things apart.
//!
//! Enters: the sources, and `words.toml` beside this folder, which has the retired words and the exceptions with their reasons.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many types of the whole tree may share a name.
const TYPES_OF_A_NAME_MAX: usize = 3;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    /// A word, or several joined by `_`, and what to say instead.
    retired: BTreeMap<String, String>,
    /// Identifiers that have a retired word, and why they may.
    identifiers: BTreeMap<String, String>,
    /// Names of types that several have, and why they may.
    types: BTreeMap<String, String>,
    /// `CRATE/STEM` of files that share it, and why they may.
    files: BTreeMap<String, String>,
}

fn read_words() -> Words {
    toml::from_str(&house::read("crates/house/words.toml")).expect("words.toml has the form that its head describes")
}

fn sources() -> Vec<PathBuf> {
    house::files("crates", ".rs")
}

fn crate_of(path: &Path) -> String {
    path.components().nth(1).expect("crates/CRATE/…").as_os_str().to_string_lossy().into_owned()
}

/// The name of a file: that of its folder for `mod.rs`.
fn stem(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem(path).as_str() {
        "mod" => stem(path.parent().unwrap_or(path)),
        _ => stem(path),
    }
}

fn check(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn retired_words_do_not_come_back() {
    let words = read_words();
    let retired: Vec<(Vec<&str>, &str)> =
        words.retired.iter().map(|(word, instead)| (word.split('_').collect(), instead.as_str())).collect();
    let find = |identifier: &str| {
        if words.identifiers.contains_key(identifier) {
            return None;
        }
        let parts = house::source::words(identifier);
        retired.iter().find(|(word, _)| parts.windows(word.len()).any(|part| part == *word))
    };
    let mut broken = Vec::new();
    let mut sources = sources();
    sources.extend(house::files("fuzz", ".rs"));
    for path in sources {
        let code = house::source::code(&house::read(&path));
        let of_file = (1, stem(&path));
        let identifiers = house::source::identifiers(&code).map(|(line, name)| (line, name.to_owned()));
        let found: BTreeSet<_> = identifiers.chain([of_file]).collect();
        for (line, identifier) in found {
            if let Some((word, instead)) = find(&identifier) {
                let (path, word) = (path.display(), word.join("_"));
                broken.push(format!("{path}:{line}: {identifier}: `{word}` is retired; say {instead}"));
            }
        }
    }
    check(broken, "retired words");
}

#[test]
fn a_name_of_a_type_means_one_thing() {
    let words = read_words();
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in sources() {
        for name in house::source::types(&house::source::code(&house::read(&path))) {
            found.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    assert!(found.len() > 500, "only {} names of types were found", found.len());
    let mut broken = Vec::new();
    for (name, paths) in &found {
        let crates: BTreeSet<_> = paths.iter().map(|path| crate_of(path)).collect();
        let is_shared = crates.len() < paths.len() || paths.len() > TYPES_OF_A_NAME_MAX;
        match (is_shared, words.types.contains_key(name)) {
            (true, false) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                broken.push(format!("{name}: {}", paths.join(", ")));
            }
            (false, true) => broken.push(format!("{name}: the exception in words.toml is not needed any more")),
            _ => {}
        }
    }
    broken
        .extend(words.types.keys().filter(|name| !found.contains_key(*name)).map(|name| format!("{name}: is no type")));
    check(broken, "two types of a crate, or more than three of the tree, share a name");
}

#[test]
fn a_file_name_means_one_thing_in_its_crate() {
    let words = read_words();
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in sources() {
        if path.components().nth(2).is_some_and(|part| part.as_os_str() == "src") && stem(&path) != "tests" {
            found.entry(format!("{}/{}", crate_of(&path), stem(&path))).or_default().push(path);
        }
    }
    let broken = found.iter().filter_map(|(name, paths)| match (paths.len() > 1, words.files.contains_key(name)) {
        (true, false) => {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            Some(format!("{name}: {}", paths.join(", ")))
        }
        (false, true) => Some(format!("{name}: the exception in words.toml is not needed any more")),
        _ => None,
    });
    check(broken.collect(), "two files of a crate share a name");
}
