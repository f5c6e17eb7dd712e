//! Compares layers.toml, which states the layers and dependencies of the crates, with `cargo metadata` and the sources.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    layers: Vec<Vec<String>>,
    #[serde(rename = "crate")]
    crates: BTreeMap<String, CrateEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrateEntry {
    does: String,
    uses: BTreeSet<String>,
    #[serde(default)]
    tests_use: BTreeSet<String>,
    #[serde(default)]
    pure: bool,
}

impl Layers {
    fn read() -> Self {
        toml::from_str(&house::read("layers.toml")).expect("layers.toml has the form that its head describes")
    }

    /// 0 is the top.
    fn layer(&self, name: &str) -> usize {
        let layer = self.layers.iter().position(|layer| layer.iter().any(|other| other == name));
        layer.unwrap_or_else(|| panic!("the crate {name} is in no layer of layers.toml"))
    }
}

/// A member of the workspace as Cargo sees it.
struct Member {
    /// Dependencies by kind: normal and build together, and those of tests.
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

/// The members of the workspace by the name of their folder.
fn members() -> BTreeMap<String, Member> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(house::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut members = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let folder = |path: String| Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name_of_folder = folder(text(&package["manifest_path"]).replace("/Cargo.toml", ""));
        let mut member = Member { uses: BTreeSet::new(), tests_use: BTreeSet::new() };
        for dependency in list(&package["dependencies"]) {
            let name = match &dependency["path"] {
                serde_json::Value::String(path) => folder(path.clone()),
                _ => format!("crates.io/{}", text(&dependency["name"])),
            };
            match text(&dependency["kind"]).as_str() {
                "dev" => member.tests_use.insert(name),
                _ => member.uses.insert(name),
            };
        }
        let expected =
            if name_of_folder == "harrier" { "harrier".to_owned() } else { format!("harrier-{name_of_folder}") };
        assert_eq!(text(&package["name"]), expected, "a package is named after its folder");
        members.insert(name_of_folder, member);
    }
    members.remove("house").expect("this crate is a member of the workspace");
    members
}

fn within_workspace(names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().filter(|name| !name.starts_with("crates.io/")).cloned().collect()
}

#[test]
fn every_crate_and_every_dependency_is_stated() {
    let (stated, members) = (Layers::read(), members());
    let written: Vec<_> = stated.crates.keys().collect();
    let real: Vec<_> = members.keys().collect();
    assert_eq!(written, real, "left: the crates of layers.toml, right: the workspace");
    for (name, entry) in &stated.crates {
        assert_eq!(
            entry.uses,
            within_workspace(&members[name].uses),
            "{name} uses; left: layers.toml, right: Cargo.toml"
        );
        let for_tests: BTreeSet<_> =
            within_workspace(&members[name].tests_use).difference(&entry.uses).cloned().collect();
        assert_eq!(entry.tests_use, for_tests, "{name} uses in its tests; left: layers.toml, right: Cargo.toml");
        let sentences = entry.does.trim_end_matches('.').matches(". ").count() + 1;
        assert!(entry.does.ends_with('.') && sentences == 1, "{name}: what a crate does fits in one sentence");
    }
}

#[test]
fn dependencies_point_down() {
    let stated = Layers::read();
    let listed: BTreeSet<_> = stated.layers.iter().flatten().collect();
    assert_eq!(listed, stated.crates.keys().collect(), "each crate is in one layer");
    for (name, entry) in &stated.crates {
        for below in &entry.uses {
            assert!(stated.layer(name) < stated.layer(below), "{name} uses {below}, which is not below it");
        }
        // Not even tests reach past the top of the crate they test, unless they run a whole broker.
        for other in &entry.tests_use {
            assert!(stated.crates.contains_key(other) && other != "harrier", "{name} tests with {other}");
        }
    }
}

#[test]
fn pure_crates_touch_nothing() {
    const CRATES: [&str; 14] = [
        "async-std",
        "crossbeam",
        "libc",
        "log",
        "mio",
        "nix",
        "parking_lot",
        "rand",
        "rustix",
        "serde_json",
        "smol",
        "socket2",
        "tokio",
        "tracing",
    ];
    const WORDS: [&str; 9] =
        ["std::fs", "std::net", "std::os", "std::process", "std::thread", "Mutex", "RwLock", "async fn", "SystemTime"];
    let (stated, members) = (Layers::read(), members());
    for (name, _) in stated.crates.iter().filter(|(_, entry)| entry.pure) {
        for other in members[name].uses.iter().filter_map(|other| other.strip_prefix("crates.io/")) {
            assert!(!CRATES.contains(&other), "{name} is pure, and {other} is not");
        }
        for path in house::files(&format!("crates/{name}/src"), ".rs") {
            let source = house::read(&path);
            // Tests may do what they like; those within a file stand at its end.
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for (at, line) in source.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                let word = WORDS.iter().find(|word| line.contains(**word));
                assert!(word.is_none(), "{}:{}: {} in a pure crate", path.display(), at + 1, word.unwrap_or(&""));
            }
        }
    }
}
