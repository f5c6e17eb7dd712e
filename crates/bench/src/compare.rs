//! `harrier bench compare A B`: compares two saved documents metric by metric, with intervals and verdicts.

use std::fs;
use std::path::Path;

use report::Document;
use report::stdout::put;

use harness::arguments::{OptionSpec, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;

const OPTIONS: &[OptionSpec] = &[
    option("format", None, "text|json|md", "output format (default text)"),
    option("full", Some('f'), "", "all figures, not only those a benchmark shows by default"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Pairs the measurements of both documents (same benchmark, parameters and value on the axis; same target, unless each has
only one) and prints the ratio B/A of the medians with a bootstrap interval. A difference is noise if its interval contains 1
or if a side has fewer than five runs. Warnings about other differences (machine, kernel, options) come first.";

const EXAMPLES: &[(&str, &str)] = &[
    ("compare before.json after.json", "is it faster now?"),
    ("compare harrier.json rabbitmq.json -f --format md", "everything, for a document"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench compare A.json B.json [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES).with_words("FILE...")
}

/// # Errors
/// A usage error, an unreadable file, an invalid document, or nothing in common.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let format = given.one_of("format", &["text", "json", "md"])?;
    let [a, b] = given.bare() else {
        return Err(UsageError("expected two documents: harrier bench compare A.json B.json".to_owned()).into());
    };
    let (first, second) = (read(a)?, read(b)?);
    let (name_a, name_b) = if a == b { (format!("{a} (A)"), format!("{b} (B)")) } else { (a.clone(), b.clone()) };
    let comparison = report::compare::documents((&name_a, &first), (&name_b, &second), given.has("full"));
    put(&match format {
        "json" => comparison.json()?,
        "md" => comparison.markdown(),
        _ => comparison.text(),
    })?;
    match comparison.rows.is_empty() {
        true => Err(CommandFailure::Failed(format!("{a} and {b} have no metric in common"))),
        false => Ok(()),
    }
}

/// Reads a saved document. Like a missing workload file, a missing document is a usage error.
pub(crate) fn read(file: &str) -> Result<Document, CommandFailure> {
    let text =
        fs::read_to_string(Path::new(file)).map_err(|error| CommandFailure::Usage(format!("{file}: {error}")))?;
    report::json::read(&text).map_err(|why| CommandFailure::Usage(format!("{file}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        run(&words).map_or_else(|failure| format!("{} {failure}", failure.status()), |()| "ok".to_owned())
    }

    #[test]
    fn wrong_command_lines_and_files() {
        let two = "2 expected two documents: harrier bench compare A.json B.json";
        assert_eq!([ends(""), ends("a"), ends("a b c")], [two, two, two]);
        assert_eq!(ends("a b --format xml"), "2 --format is one of text, json, md, not 'xml'");
        assert_eq!(ends("no-such-file b"), "2 no-such-file: No such file or directory (os error 2)");
        let path = std::env::temp_dir().join(format!("harrier-compare-{}.json", std::process::id()));
        fs::write(&path, "{}").expect("a file");
        let name = path.to_string_lossy().into_owned();
        let found = ends(&format!("{name} b"));
        fs::remove_file(&path).expect("the file is removed");
        assert_eq!(found, format!("2 {name}: this is not a document of `harrier bench`: it has no field `schema`"));
    }
}
