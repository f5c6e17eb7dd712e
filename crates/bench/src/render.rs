//! `harrier bench report FILE…`: renders saved documents as an HTML page or in another format.

use std::path::Path;

use report::stdout::put;
use report::{Document, DocumentFormat, page};

use crate::compare::read;
use harness::arguments::{OptionSpec, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;

const OPTIONS: &[OptionSpec] = &[
    option("html", None, "FILE", "write a page with figures and tables of all documents"),
    option("format", None, DocumentFormat::NAMES, "print them in this format (default osu, unless a page is written)"),
    option("full", Some('f'), "", "all figures, not only those a benchmark shows by default"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Shows results saved with --json on a self-contained page (no scripts, no network access), or as text. Several documents are
shown side by side on one page.";

const EXAMPLES: &[(&str, &str)] = &[
    ("report suite.json --html suite.html", "the page of a saved run"),
    ("report tcp.json unix.json --html networks.html", "two networks side by side"),
    ("report suite.json --format csv", "one row a run, for another program"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier bench report FILE.json... [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES).with_words("FILE...")
}

/// Runs the command.
///
/// # Errors
/// A usage error, an unreadable or unwritable file, an invalid document.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let format = given.text("format").map(DocumentFormat::parse).transpose().map_err(UsageError)?;
    if given.bare().is_empty() {
        return Err(UsageError("which documents? harrier bench report FILE.json...".to_owned()).into());
    }
    let documents = given.bare().iter().map(|file| read(file)).collect::<Result<Vec<Document>, CommandFailure>>()?;
    if let Some(file) = given.text("html") {
        page::write_file(Path::new(file), &page::render(&documents))?;
    }
    if format.is_some() || !given.has("html") {
        for document in &documents {
            put(&format.unwrap_or(DocumentFormat::Osu).write(document, given.has("full"))?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_command_lines() {
        let ends = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            run(&words).map_or_else(|failure| format!("{} {failure}", failure.status()), |()| "ok".to_owned())
        };
        assert_eq!(ends(""), "2 which documents? harrier bench report FILE.json...");
        assert_eq!(ends("x --format xml"), "2 --format is one of osu|json|csv|md, not 'xml'");
        assert_eq!(ends("no-such-file"), "2 no-such-file: No such file or directory (os error 2)");
    }
}
