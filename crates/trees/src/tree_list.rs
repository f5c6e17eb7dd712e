//! Reads lists of trees: arguments, or the output of `harrier topology plan`.

use serde_json::Value;
use std::io::Read;
use topology::Tree;

use crate::limits::{LISTED_BYTES_MAX, LISTED_TREES_MAX};
use harness::arguments::UsageError;
use harness::failure::CommandFailure;

/// The trees of a text, each once. In JSON, every member `tree`; otherwise the first word of each line that is a tree.
///
/// # Errors
/// There is none, or more than are measured at once.
pub(super) fn trees(text: &str) -> Result<Vec<Tree>, UsageError> {
    let mut found = Vec::new();
    match serde_json::from_str::<Value>(text) {
        Ok(value) => members(&value, &mut found),
        Err(error) if text.trim_start().starts_with(['{', '[']) => {
            return Err(UsageError(format!("standard input begins like JSON, but is not: {error}")));
        }
        Err(_) => {
            let words = text.lines().filter_map(|line| line.split_whitespace().find_map(|word| word.parse().ok()));
            found.extend(words);
        }
    }
    let mut trees: Vec<Tree> = Vec::new();
    for tree in found {
        if !trees.contains(&tree) {
            trees.push(tree);
        }
    }
    match trees.len() {
        0 => Err(UsageError("there is no tree on standard input, as in B-2B-4B-16C".to_owned())),
        1..=LISTED_TREES_MAX => Ok(trees),
        more => Err(UsageError(format!("standard input has {more} trees; at most {LISTED_TREES_MAX} are measured"))),
    }
}

/// All of standard input.
///
/// # Errors
/// It cannot be read, or is too long.
pub(super) fn standard_input() -> Result<String, CommandFailure> {
    let mut text = String::new();
    let read = std::io::stdin().take(LISTED_BYTES_MAX + 1).read_to_string(&mut text);
    match read.map_err(|error| format!("standard input: {error}"))? as u64 {
        ..=LISTED_BYTES_MAX => Ok(text),
        _ => Err(CommandFailure::Usage(format!("standard input has more than {LISTED_BYTES_MAX} bytes"))),
    }
}

fn members(value: &Value, found: &mut Vec<Tree>) {
    match value {
        Value::Object(object) => {
            let tree = object.get("tree").and_then(Value::as_str).and_then(|text| text.parse().ok());
            found.extend(tree);
            object.values().for_each(|member| members(member, found));
        }
        Value::Array(all) => all.iter().for_each(|one| members(one, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown = trees(text)
            .map_or_else(|wrong| wrong.0, |trees| trees.iter().map(Tree::to_string).collect::<Vec<_>>().join(" "));
        assert!(shown.starts_with(expected), "{text}: {shown}");
    }

    #[test]
    fn tables_and_json_have_trees() {
        check("B-16C\n", "B-16C");
        check("# trees\n  1  B-2B-16C  100/s\n  2  B-16C  50/s\nB-16C\n", "B-2B-16C B-16C");
        check(
            r#"{"chosen": {"tree": "B-4B-16C"}, "front": [{"tree": "B-16C", "rate": 1}, {"tree": "B-4B-16C"}]}"#,
            "B-4B-16C B-16C",
        );
    }

    #[test]
    fn a_text_without_trees_is_refused() {
        check("", "there is no tree on standard input");
        check("nothing here\n", "there is no tree on standard input");
        check("{\"tree\": ", "standard input begins like JSON");
        let many: String = (2..=LISTED_TREES_MAX + 2).map(|consumers| format!("B-{consumers}C\n")).collect();
        check(&many, "standard input has 65 trees");
    }
}
