//! What a crate shows to others: its public items, and which of them somebody outside of its `src` names.
//!
//! Names are compared, not what they mean: an item is taken for named if a crate that depends on its own, a test, example,
//! bench or fuzz target has its identifier. What the compiler knows better stays with it: an item that is not public and not
//! used is dead code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source;

/// A public item that can be reached from outside: at the top of a public module or re-exported, or in an inherent
/// implementation of such a type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SurfaceItem {
    pub path: PathBuf,
    /// Counted from 1.
    pub line: usize,
    pub name: String,
}

/// The sources of one library, without their tests.
#[derive(Default)]
pub struct CrateSurface {
    files: BTreeMap<PathBuf, String>,
    public_files: BTreeSet<PathBuf>,
    /// Names in `pub use` of public modules.
    reexported: BTreeSet<String>,
}

impl CrateSurface {
    /// The library whose root is `root`, with all its files as code without comments and literals.
    pub fn new(root: &Path, files: BTreeMap<PathBuf, String>) -> Self {
        let mut surface = Self { files, ..Self::default() };
        let mut waiting = vec![root.to_path_buf()];
        while let Some(path) = waiting.pop() {
            let Some(code) = surface.files.get(&path) else { continue };
            let uses: Vec<String> = public_uses(code);
            for used in &uses {
                surface.reexported.extend(source::identifiers(used).map(|(_, name)| name.to_owned()));
            }
            let is_opened = |module: &str| uses.iter().any(|used| used.contains(&format!("{module}::*")));
            let folder = match path.file_name().and_then(|name| name.to_str()) {
                Some("lib.rs" | "mod.rs") => path.parent().map(Path::to_path_buf).unwrap_or_default(),
                _ => path.with_extension(""),
            };
            for line in code.lines() {
                let Some((before, module)) = line.trim().strip_suffix(';').and_then(|line| line.split_once("mod "))
                else {
                    continue;
                };
                if before == "pub " || (before.is_empty() && is_opened(module)) {
                    waiting.push(folder.join(format!("{module}.rs")));
                    waiting.push(folder.join(module).join("mod.rs"));
                }
            }
            surface.public_files.insert(path);
        }
        surface
    }

    /// Its public items, without the types that others get from public items and need not name.
    pub fn items(&self) -> Vec<SurfaceItem> {
        let mut items = Vec::new();
        let mut types = BTreeSet::new();
        let shown: BTreeSet<&str> = self.files.values().flat_map(|code| shown_names(code)).collect();
        for (path, code) in &self.files {
            for (at, line) in code.lines().enumerate() {
                let Some((kind, name)) = item(line) else { continue };
                if !self.public_files.contains(path) && !self.reexported.contains(name) {
                    continue;
                }
                let is_type = matches!(kind, "struct" | "enum" | "union" | "trait" | "type");
                if is_type {
                    types.insert(name);
                }
                if !is_type || !shown.contains(name) {
                    items.push(SurfaceItem { path: path.clone(), line: at + 1, name: name.to_owned() });
                }
            }
        }
        for (path, code) in &self.files {
            let mut of_surface = false;
            let mut head = None;
            for (at, line) in code.lines().enumerate() {
                if line.starts_with("impl") {
                    head = Some(String::new());
                }
                if let Some(text) = &mut head {
                    text.push_str(line);
                    text.push(' ');
                    if line.contains('{') {
                        of_surface = implemented(text).is_some_and(|name| types.contains(name));
                        head = None;
                    }
                } else if line == "}" {
                    of_surface = false;
                }
                let inner = line.strip_prefix("    ").filter(|_| of_surface);
                if let Some((_, name)) = inner.and_then(item) {
                    items.push(SurfaceItem { path: path.clone(), line: at + 1, name: name.to_owned() });
                }
            }
        }
        items
    }
}

/// The public items of all libraries that nobody outside of their `src` names.
pub fn unnamed() -> Vec<SurfaceItem> {
    let mut named_by: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut crates: BTreeMap<String, BTreeMap<PathBuf, String>> = BTreeMap::new();
    for path in ["crates", "fuzz", "tests"].iter().flat_map(|folder| crate::files(folder, ".rs")) {
        let code = source::code(&crate::read(&path));
        let unit = unit_of(&path);
        for (_, name) in source::identifiers(&code) {
            if !named_by.get(name).is_some_and(|units| units.contains(&unit)) {
                named_by.entry(name.to_owned()).or_default().insert(unit.clone());
            }
        }
        if let Some(name) = unit.strip_suffix("/src") {
            let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
            crates.entry(name.to_owned()).or_default().insert(path, code);
        }
    }
    let below = dependencies();
    let mut unnamed = Vec::new();
    for (name, files) in crates {
        // Nothing depends on this crate, and its own tests are all that it is for.
        let root = PathBuf::from(format!("{name}/src/lib.rs"));
        if name == "crates/house" || !files.contains_key(&root) {
            continue;
        }
        let own = format!("{name}/src");
        let folder = name.trim_start_matches("crates/");
        // Whoever does not depend on the crate means something else by the same name.
        let is_other = |unit: &String| {
            let user = unit.strip_prefix("crates/").and_then(|unit| unit.split('/').next());
            user.is_some_and(|user| user != folder && !below.get(user).is_some_and(|below| below.contains(folder)))
        };
        let is_unnamed = |item: &SurfaceItem| named_by[&item.name].iter().all(|unit| *unit == own || is_other(unit));
        unnamed.extend(CrateSurface::new(&root, files).items().into_iter().filter(is_unnamed));
    }
    unnamed.sort();
    unnamed
}

/// The crates on which each crate depends by layers.toml, for its tests as well, and those on which they depend.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let stated: toml::Table = crate::read("layers.toml").parse().expect("layers.toml is TOML");
    let crates = stated["crate"].as_table().expect("it has crates");
    let names = |entry: &toml::Value, key| {
        let list = entry.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let closure = |entry: &toml::Value| {
        let (mut found, mut waiting) = (BTreeSet::new(), [names(entry, "uses"), names(entry, "tests_use")].concat());
        while let Some(name) = waiting.pop() {
            waiting.extend(names(&crates[&name], "uses").into_iter().filter(|below| !found.contains(below)));
            found.insert(name);
        }
        found
    };
    crates.iter().map(|(name, entry)| (name.clone(), closure(entry))).collect()
}

/// `crates/NAME/src` for what a library or program is made of; the folder for everything else, which only uses it.
fn unit_of(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    // A program beside a library sees what others see of it.
    if path.ends_with("src/main.rs") {
        return format!("{}/{}/main", parts[0], parts[1]);
    }
    parts[..parts.len().saturating_sub(1).min(3)].join("/")
}

/// What stands in the `pub use` of some code.
fn public_uses(code: &str) -> Vec<String> {
    let uses = code.split("pub use ").skip(1);
    uses.filter_map(|rest| rest.split_once(';')).map(|(used, _)| used.to_owned()).collect()
}

/// What the declarations of public items and of implementations of traits name beside themselves: who is given one of these
/// types need not name it, and it must be as public as they are.
fn shown_names(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    // The braces that are open in the body of an enum or a trait, whose every line is public.
    let mut body: Option<i32> = None;
    let mut in_head = false;
    for line in code.lines() {
        let text = line.trim_start();
        let kind = item(text);
        let is_body = kind.is_some_and(|(kind, _)| matches!(kind, "enum" | "trait"));
        let begins =
            kind.is_some() || text.starts_with("pub ") || text.starts_with("impl") || text.starts_with("type ");
        if body.is_none() && begins && !text.starts_with("pub use") && !text.starts_with("pub mod") {
            (in_head, body) = (true, is_body.then_some(0));
        }
        if in_head || body.is_some() {
            let own = kind.map(|(_, name)| name);
            // Whose inherent methods follow is no reason to be public.
            let is_inherent = text.starts_with("impl") && !text.contains(" for ");
            let found = source::identifiers(line).map(|(_, name)| name).filter(|name| Some(*name) != own);
            names.extend(found.filter(|_| !is_inherent));
        }
        let opened = line.matches('{').count() as i32 - line.matches('}').count() as i32;
        match &mut body {
            Some(depth) => {
                *depth += opened;
                if *depth <= 0 && line.contains(['}', ';']) {
                    (body, in_head) = (None, false);
                }
            }
            // An argument on a line of its own ends with a comma, too; what follows is taken for a part of the head.
            None => in_head &= !line.contains(['{', ';']) && !text.starts_with("pub ") || line.ends_with('('),
        }
    }
    names
}

/// The kind and the name of the public item that a line declares.
fn item(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("pub ")?.split_whitespace().peekable();
    let mut kind = words.next()?;
    while matches!(kind, "const" | "unsafe" | "async")
        && words.peek().is_some_and(|next| matches!(*next, "fn" | "unsafe" | "async" | "trait"))
    {
        kind = words.next()?;
    }
    if !matches!(kind, "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union") {
        return None;
    }
    let name = source::identifiers(words.next()?).next()?.1;
    Some((kind, name))
}

/// The type of an inherent implementation.
fn implemented(head: &str) -> Option<&str> {
    let rest = head.strip_prefix("impl")?;
    if rest.split('{').next()?.contains(" for ") {
        return None;
    }
    let mut depth = 0;
    let after_generics = rest.char_indices().find(|&(_, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => return depth == 0 && c.is_alphabetic(),
        }
        false
    })?;
    source::identifiers(&rest[after_generics.0..]).next().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, code)| (PathBuf::from(path), (*code).to_owned())).collect();
        CrateSurface::new(Path::new("c/src/lib.rs"), files).items().into_iter().map(|item| item.name).collect()
    }

    #[test]
    fn what_lies_in_public_modules_or_is_re_exported_is_on_the_surface() {
        let found = names(&[
            ("c/src/lib.rs", "pub mod open;\nmod shut;\nmod spread;\npub use shut::Shown;\npub use spread::*;\n"),
            ("c/src/open.rs", "pub const fn f() {}\npub(crate) fn g() {}\nfn h() {}\npub mod deep;\n"),
            ("c/src/open/deep.rs", "pub const LIMIT: u8 = 1;\n    pub fn indented() {}\n"),
            ("c/src/shut.rs", "pub struct Shown;\npub struct Hidden;\n"),
            ("c/src/spread.rs", "pub enum Spread {}\n"),
        ]);
        assert_eq!(found, ["LIMIT", "f", "Shown", "Spread"]);
    }

    #[test]
    fn types_that_public_items_give_are_needed() {
        let code = "pub struct Given;\npub struct Kept;\npub fn give(\n    number: u8,\n) -> Given {\n    Kept\n}\npub struct Open {\n    \
                    pub field: Field,\n}\npub enum Field {\n    One(Inner),\n}\npub struct Inner;\nimpl Kept {}\n";
        assert_eq!(names(&[("c/src/lib.rs", code)]), ["Kept", "give", "Open"]);
    }

    #[test]
    fn methods_are_on_the_surface_with_their_types() {
        let code = "pub struct A<T>(T);\nstruct B;\nimpl<T: Into<u8>> A<T>\nwhere\n    T: Copy,\n{\n    pub fn own() {}\n    fn not() {}\n}\n\
                    impl B {\n    pub fn hidden() {}\n}\nimpl From<u8> for B {\n}\nimpl A<u8> {\n    pub const MOST: u8 = 2;\n}\n";
        assert_eq!(names(&[("c/src/lib.rs", code)]), ["A", "own", "MOST"]);
    }
}
