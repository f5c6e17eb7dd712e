//! The shape of the tree as a Markdown table: `cargo run -p harrier-house --example shape`.
//!
//! Enters: the sources in `crates/*/src`, without their tests.
//! Leaves: for each crate its lines of code, public items, the object with most methods, and circles of modules.

use std::collections::BTreeMap;
use std::path::Path;

/// What is counted of a crate.
#[derive(Default)]
struct CrateShape {
    lines: usize,
    public_items: usize,
    /// Methods and fields by type.
    methods: BTreeMap<String, usize>,
    fields: BTreeMap<String, usize>,
}

/// The name behind `impl`, without generics and the trait.
fn implemented(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(_) => {
            let mut depth = 0;
            let end = rest.char_indices().find_map(|(at, c)| {
                depth += i32::from(c == '<') - i32::from(c == '>');
                (depth == 0).then_some(at + 1)
            })?;
            &rest[end..]
        }
        None => rest,
    };
    // Methods of a trait are asked for by the trait.
    (!rest.contains(" for ")).then(|| {
        let name = rest.trim_start();
        name[..name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len())].to_owned()
    })
}

fn count(path: &Path, shape: &mut CrateShape) {
    let source = house::read(path);
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = house::source::code(source);
    let (mut object, mut record) = (None, None);
    for line in code.lines() {
        let item = line.trim_start();
        if item.is_empty() {
            continue;
        }
        shape.lines += 1;
        shape.public_items += usize::from(item.starts_with("pub ") && !item.starts_with("pub use"));
        if !line.starts_with(char::is_whitespace) {
            if line.starts_with("impl") {
                object = implemented(line);
            }
            let words: Vec<_> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let is_struct = line.ends_with('{');
            record = words.windows(2).find(|pair| pair[0] == "struct" && is_struct).map(|pair| pair[1].to_owned());
        }
        if line.starts_with('}') {
            (object, record) = (None, None);
        }
        let is_member = line.starts_with("    ") && !line.starts_with("     ");
        if let Some(object) = object.as_ref().filter(|_| is_member && is_function(item)) {
            *shape.methods.entry(object.clone()).or_default() += 1;
        }
        if let Some(record) = record.as_ref().filter(|_| is_member && item.contains(':')) {
            *shape.fields.entry(record.clone()).or_default() += 1;
        }
    }
}

fn is_function(item: &str) -> bool {
    let item = item.strip_prefix("pub").unwrap_or(item);
    let item = item.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(item, |(_, rest)| rest).trim_start();
    ["fn ", "const fn ", "unsafe fn "].iter().any(|start| item.starts_with(start))
}

fn main() {
    let mut crates: BTreeMap<String, CrateShape> = BTreeMap::new();
    for path in house::files("crates", ".rs") {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        let is_code = parts.get(2).is_some_and(|part| part == "src")
            && !parts.iter().any(|part| part == "tests" || part == "tests.rs");
        if is_code {
            count(&path, crates.entry(parts[1].clone()).or_default());
        }
    }
    let modules = house::modules::of_crates();
    println!("| crate | lines of code | public items | largest object: methods, fields | modules in circles |");
    println!("|---|---|---|---|---|");
    for (name, shape) in &crates {
        let largest = shape.methods.iter().max_by_key(|(_, methods)| **methods);
        let largest = largest.map_or_else(String::new, |(object, methods)| {
            format!("`{object}`: {methods}, {}", shape.fields.get(object).copied().unwrap_or(0))
        });
        let in_circles = modules.get(name).map_or(0, |modules| modules.in_circles().len());
        println!("| {name} | {} | {} | {largest} | {in_circles} |", shape.lines, shape.public_items);
    }
}
