//! What STYLE.md says of sources and can be counted.

use std::path::{Path, PathBuf};

/// Crates that may do what the compiler cannot check.
const UNSAFE_CRATES: [&str; 2] = ["slab", "ib"];
/// Files of other crates that may, and why.
const UNSAFE_FILES: [(&str, &str); 7] = [
    ("crates/capi/src/channel_api.rs", "functions of C have names that nobody mangles"),
    ("crates/capi/src/connection_api.rs", "functions of C have names that nobody mangles"),
    ("crates/capi/src/foreign.rs", "texts and bytes of C are at addresses that C gives"),
    ("crates/capi/src/message_api.rs", "functions of C have names that nobody mangles"),
    ("crates/capi/src/field_api.rs", "functions of C have names that nobody mangles"),
    ("crates/capi/src/property_api.rs", "functions of C have names that nobody mangles"),
    ("crates/python/src/buffer.rs", "Python's buffer protocol hands out addresses of message memory"),
];
/// Words that name nothing.
const VAGUE_WORDS: [&str; 10] =
    ["util", "utils", "common", "helper", "helpers", "misc", "manager", "managers", "base", "stuff"];
const LINES_MAX: usize = 600;

fn sources() -> Vec<PathBuf> {
    let files = house::files("crates", ".rs");
    files.into_iter().filter(|path| path.components().any(|part| part.as_os_str() == "src")).collect()
}

fn crate_of(path: &Path) -> String {
    path.components().nth(1).expect("crates/CRATE/…").as_os_str().to_string_lossy().into_owned()
}

fn is_unsafe_file(path: &Path) -> bool {
    UNSAFE_FILES.iter().any(|(file, _)| path == Path::new(file))
}

fn is_tests(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

fn check(broken: Vec<String>, rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

#[test]
fn unsafe_stays_in_its_crates() {
    let mut roots = 0;
    for path in sources() {
        let source = house::read(&path);
        let may = UNSAFE_CRATES.contains(&&*crate_of(&path));
        if ["lib.rs", "main.rs"].iter().any(|name| path.ends_with(Path::new("src").join(name))) {
            roots += 1;
            let forbids = source.lines().any(|line| line == "#![forbid(unsafe_code)]");
            // Where a file may, its crate can only deny it to the others.
            let denies = source.lines().any(|line| line == "#![deny(unsafe_code)]");
            let excepted = UNSAFE_FILES.iter().any(|(file, _)| crate_of(Path::new(file)) == crate_of(&path));
            assert_eq!((forbids, denies), (!may && !excepted, excepted), "{}: unsafe_code", path.display());
        }
        if may || is_unsafe_file(&path) {
            let code: Vec<_> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            // Built from pieces, lest a search for the word find this file.
            let openings = [concat!("un", "safe {"), concat!("un", "safe impl")];
            let blocks = code.iter().filter(|line| openings.iter().any(|opening| line.contains(opening))).count();
            let promises = source.matches("SAFETY:").count();
            assert!(blocks <= promises, "{}: {blocks} such blocks, {promises} SAFETY comments", path.display());
        }
    }
    assert!(roots > 10, "only {roots} crates were found");
    // Tests and examples are crates of their own, which the line in `lib.rs` does not reach.
    let others = house::files("crates", ".rs")
        .into_iter()
        .filter(|path| !UNSAFE_CRATES.contains(&&*crate_of(path)) && !is_unsafe_file(path));
    let found = others.flat_map(|path| {
        let code = house::source::code(&house::read(&path));
        let lines = house::source::identifiers(&code).filter(|(_, word)| *word == "unsafe").map(|(line, _)| line);
        lines.map(|line| format!("{}:{line}", path.display())).collect::<Vec<_>>()
    });
    check(found.collect(), "unsafe code is in `slab`, `ib` and the files that are listed alone");
}

#[test]
fn a_file_holds_one_noun() {
    let long = sources().into_iter().filter(|path| !is_tests(path)).filter_map(|path| {
        let lines = house::read(&path).lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines}", path.display()))
    });
    check(long.collect(), "a file has 600 lines at most");
}

/// Openings of lines that fill a place and say nothing.
const EMPTY_LINES: [&str; 6] = [
    "Enters: nothing.",
    "Leaves: nothing.",
    "Owns: nothing.",
    "Enters: everything.",
    "Owns: everything.",
    "Never: nothing.",
];

#[test]
fn a_module_introduces_itself() {
    let broken = sources().into_iter().filter(|path| !is_tests(path)).filter_map(|path| {
        let source = house::read(&path);
        let head: Vec<_> = source.lines().take_while(|line| line.starts_with("//!")).collect();
        // Columns are aligned with spaces.
        let words = head.join("\n").split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let empty = EMPTY_LINES.into_iter().find(|line| words.contains(line));
        match (head.is_empty(), empty) {
            (true, _) => Some(format!("{}: no head", path.display())),
            (_, Some(line)) => Some(format!("{}: `{line}` tells nobody anything", path.display())),
            _ => None,
        }
    });
    check(broken.collect(), "a file opens with what it is, in lines that say something");
}

#[test]
fn names_mean_something() {
    let empty = sources().into_iter().filter(|path| {
        path.with_extension("").components().any(|part| VAGUE_WORDS.contains(&&*part.as_os_str().to_string_lossy()))
    });
    check(empty.map(|path| path.display().to_string()).collect(), "words that name nothing");
}

#[test]
fn nothing_is_left_for_later() {
    // Built from pieces, lest this file find itself.
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore"), concat!("dbg", "!(")];
    let left = house::files("crates", ".rs").into_iter().flat_map(|path| {
        let source = house::read(&path);
        let found = marks.into_iter().filter(move |mark| source.contains(mark));
        found.map(move |mark| format!("{}: {mark}", path.display())).collect::<Vec<_>>()
    });
    check(left.collect(), "nothing is left for later");
}

/// Compiling a crate once more to find that its documentation has no examples takes a second or more, for each.
#[test]
fn crates_with_examples_in_their_documentation_alone_have_them_run() {
    let broken = house::files("crates", "Cargo.toml").into_iter().filter_map(|manifest| {
        let text = house::read(&manifest);
        let name = crate_of(&manifest);
        let are_run = !text.lines().any(|line| line == "doctest = false");
        let has_examples = sources().into_iter().filter(|path| crate_of(path) == name).any(|path| {
            let fences = ["//! ```", "/// ```"];
            house::read(&path).lines().any(|line| fences.iter().any(|fence| line.trim_start().starts_with(fence)))
        });
        let has_library = text.lines().any(|line| line == "[lib]");
        (has_library && are_run != has_examples)
            .then(|| format!("{name}: examples are run: {are_run}, and there are some: {has_examples}"))
    });
    check(broken.collect(), "`doctest = false` is where documentation has no examples");
}
