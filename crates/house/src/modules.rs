//! The modules of a crate and which of them use which: what is at the top of `src`, each with all that lies below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files whose names are those of the whole crate: every module may use them, and they all modules.
const ROOTS: [&str; 2] = ["lib", "main"];

/// The modules of one crate, and the modules that each of them names.
#[derive(Default)]
pub struct ModuleGraph {
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl ModuleGraph {
    /// Adds some code of the file `crates/CRATE/src/…`.
    pub fn add(&mut self, path: &Path, code: &str) {
        let module = path.components().nth(3).map(|part| part.as_os_str().to_string_lossy().into_owned());
        let module = module.unwrap_or_default().trim_end_matches(".rs").to_owned();
        let named = named_in(code).into_iter().filter(|name| *name != module);
        self.uses.entry(module.clone()).or_default().extend(named);
    }

    /// The modules that reach themselves through others.
    pub fn in_circles(&self) -> Vec<&str> {
        let modules = self.uses.keys().map(String::as_str);
        modules.filter(|module| !ROOTS.contains(module) && self.reached_from(module).contains(module)).collect()
    }

    fn used_by(&self, module: &str) -> impl Iterator<Item = &str> {
        self.uses.get(module).into_iter().flatten().map(String::as_str)
    }

    fn reached_from(&self, module: &str) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut left: Vec<&str> = self.used_by(module).collect();
        while let Some(module) = left.pop() {
            if !ROOTS.contains(&module) && seen.insert(module) {
                left.extend(self.used_by(module));
            }
        }
        seen
    }
}

/// The modules of all crates, without their tests.
pub fn of_crates() -> BTreeMap<String, ModuleGraph> {
    let mut crates: BTreeMap<String, ModuleGraph> = BTreeMap::new();
    for path in crate::files("crates", ".rs") {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        let is_code = parts.get(2).is_some_and(|part| part == "src")
            && !parts.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_code {
            let source = crate::read(&path);
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            crates.entry(parts[1].clone()).or_default().add(&path, &crate::source::code(source));
        }
    }
    crates
}

/// The modules that some code names from the root of its crate: `crate::name` and `crate::{name, …}`.
fn named_in(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(first_words(list)),
            None => names.push(word(rest)),
        }
    }
    // Types and constants of the root are not modules.
    names.retain(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
    names
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// The first word of each entry of a list that ends with the brace that closes it.
fn first_words(list: &str) -> Vec<String> {
    let mut words = vec![word(list.trim_start())];
    let mut depth = 0;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(word(list[at + 1..].trim_start())),
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{ModuleGraph, named_in};
    use std::path::Path;

    #[test]
    fn modules_are_named_by_paths_and_by_lists() {
        let code = "use crate::one::{Two, three::Four};\nuse crate::{\n    five::{Six, seven},\n    Eight, nine,\n};\ncrate::ten()";
        assert_eq!(named_in(code), ["one", "five", "nine", "ten"]);
    }

    #[test]
    fn a_circle_is_found_through_other_modules_and_not_through_the_root() {
        let mut graph = ModuleGraph::default();
        let mut add = |file: &str, code: &str| graph.add(Path::new("crates/some/src").join(file).as_path(), code);
        add("lib.rs", "use crate::free::Free;");
        add("first.rs", "use crate::second::Second;");
        add("second/part.rs", "use crate::{third, second::Other};");
        add("third.rs", "fn of() -> crate::first::First {}");
        add("free.rs", "use crate::first::First; use crate::lib::Name;");
        assert_eq!(graph.in_circles(), ["first", "second", "third"]);
    }
}
