//! rooms.toml says what the rooms are and what they may know; this holds it against `cargo metadata` and the sources.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct House {
    floors: Vec<Vec<String>>,
    room: BTreeMap<String, Room>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Room {
    does: String,
    uses: BTreeSet<String>,
    #[serde(default)]
    tests_use: BTreeSet<String>,
    #[serde(default)]
    pure: bool,
}

impl House {
    fn read() -> Self {
        toml::from_str(&house::read("rooms.toml")).expect("rooms.toml has the form that its head describes")
    }

    /// 0 is the roof.
    fn floor(&self, room: &str) -> usize {
        let floor = self.floors.iter().position(|floor| floor.iter().any(|name| name == room));
        floor.unwrap_or_else(|| panic!("the room {room} stands on no floor of rooms.toml"))
    }
}

/// A member of the workspace as Cargo sees it.
struct Member {
    /// Dependencies by kind: normal and build together, and those of tests.
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

/// The rooms as they are: members by the name of their folder.
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
        let room = folder(text(&package["manifest_path"]).replace("/Cargo.toml", ""));
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
        let expected = if room == "harrier" { "harrier".to_owned() } else { format!("harrier-{room}") };
        assert_eq!(text(&package["name"]), expected, "a package is called after its room");
        members.insert(room, member);
    }
    members.remove("house").expect("this crate is a member, and no room");
    members
}

fn rooms_only(names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().filter(|name| !name.starts_with("crates.io/")).cloned().collect()
}

#[test]
fn every_room_and_every_arrow_is_written_down() {
    let (house, members) = (House::read(), members());
    let written: Vec<_> = house.room.keys().collect();
    let real: Vec<_> = members.keys().collect();
    assert_eq!(written, real, "left: the rooms of rooms.toml, right: the workspace");
    for (name, room) in &house.room {
        assert_eq!(room.uses, rooms_only(&members[name].uses), "{name} uses; left: rooms.toml, right: Cargo.toml");
        let for_tests: BTreeSet<_> = rooms_only(&members[name].tests_use).difference(&room.uses).cloned().collect();
        assert_eq!(room.tests_use, for_tests, "{name} uses in its tests; left: rooms.toml, right: Cargo.toml");
        let sentences = room.does.trim_end_matches('.').matches(". ").count() + 1;
        assert!(room.does.ends_with('.') && sentences == 1, "{name}: what a room does fits in one sentence");
    }
}

#[test]
fn arrows_point_down() {
    let house = House::read();
    let standing: BTreeSet<_> = house.floors.iter().flatten().collect();
    assert_eq!(standing, house.room.keys().collect(), "each room stands on one floor");
    for (name, room) in &house.room {
        for below in &room.uses {
            assert!(house.floor(name) < house.floor(below), "{name} uses {below}, which is not below it");
        }
        // Not even tests reach past the roof of the room they test, unless they run a whole broker.
        for other in &room.tests_use {
            assert!(house.room.contains_key(other) && other != "harrier", "{name} tests with {other}");
        }
    }
}

#[test]
fn pure_rooms_touch_nothing() {
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
    let (house, members) = (House::read(), members());
    for (name, _) in house.room.iter().filter(|(_, room)| room.pure) {
        for other in members[name].uses.iter().filter_map(|other| other.strip_prefix("crates.io/")) {
            assert!(!CRATES.contains(&other), "{name} is pure, and {other} is not");
        }
        for path in house::files(&format!("crates/{name}/src"), ".rs") {
            let source = house::read(&path);
            // Tests may do what they like; those within a file stand at its end.
            let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for (at, line) in source.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                let word = WORDS.iter().find(|word| line.contains(**word));
                assert!(word.is_none(), "{}:{}: {} in a pure room", path.display(), at + 1, word.unwrap_or(&""));
            }
        }
    }
}
