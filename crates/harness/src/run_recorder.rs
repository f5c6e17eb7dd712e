//! Builds a run's document, writes it and determines the exit status.
//!
//! Files are written first, then the document is printed. Results measured before a failure are kept.

use std::collections::BTreeMap;
use std::path::Path;

use gauge::HostEnvironment;
use report::document::{Document, MeasuredRun, SCHEMA};
use report::{invalid_reasons_of_run, json};

use crate::arguments::ParsedOptions;
use crate::failure::CommandFailure;
use crate::interrupt;
use crate::launcher;
use crate::measure_options::{MeasureOptions, OutputOptions};
use crate::target::BenchmarkTarget;
use report::page::{PageSection, write_file};
use report::stdout::put;

/// The recorder of a run's document.
pub struct RunRecorder {
    /// The document. Commands add series to it, and points and runs as soon as they are measured.
    pub document: Document,
    pub output: OutputOptions,
}

impl RunRecorder {
    /// Begins the document of `harrier bench COMMAND WORDS`.
    pub fn begin(
        command: &str,
        words: &[String],
        given: &ParsedOptions,
        setup: &MeasureOptions,
        targets: &[BenchmarkTarget],
    ) -> Self {
        let mut options = given.shown();
        for name in ["url", "against"] {
            if let Some(urls) = options.get_mut(name) {
                *urls = urls.split(' ').map(without_password).collect::<Vec<_>>().join(" ");
            }
        }
        let mut record = Self {
            document: Document {
                schema: SCHEMA.to_owned(),
                command: command_line(command, words),
                began: gauge::clock::timestamp(),
                ended: None,
                commit: option_env!("BENCH_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned),
                environment: HostEnvironment::read(),
                placement: launcher::placement().unwrap_or_else(|| setup.placement.to_string()),
                options: BTreeMap::new(),
                targets: targets.iter().map(|target| target.facts.clone()).collect(),
                series: Vec::new(),
                cut_short: None,
            },
            output: setup.output.clone(),
        };
        record.document.options = options;
        record.note_option("runs", setup.runs);
        record.note_option(
            "iterations",
            setup.iterations.map_or_else(|| "by size".to_owned(), |count| count.to_string()),
        );
        record.note_option("check", if setup.checks { "yes" } else { "no" });
        record.note_option("cpus", "any");
        record
    }

    /// Records the value of an option that was used but not given on the command line.
    pub fn note_option(&mut self, option: &str, value: impl ToString) {
        self.document.options.entry(option.to_owned()).or_insert_with(|| value.to_string());
    }

    /// Completes the document, or marks it as cut short if `outcome` is an error, and writes it in either case.
    ///
    /// # Errors
    /// The error of `outcome`, files that cannot be written, or `CommandFailure::Invalid` for INVALID figures.
    pub fn end(self, outcome: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
        self.end_with(outcome, &[])
    }

    /// The same, with additional sections on the page.
    ///
    /// # Errors
    /// As `end`.
    pub fn end_with(
        mut self,
        outcome: Result<(), CommandFailure>,
        sections: &[PageSection],
    ) -> Result<(), CommandFailure> {
        for series in &mut self.document.series {
            series.points.retain(|point| !point.runs.is_empty());
        }
        for (name, fact) in launcher::facts() {
            self.note_option(&name, fact);
        }
        let outcome = conclude(&mut self.document, outcome);
        finish(&self.document, outcome, self.write(sections))
    }

    fn write(&self, sections: &[PageSection]) -> Result<(), CommandFailure> {
        let OutputOptions { format, full, json, html } = &self.output;
        if let Some(file) = json {
            write_file(file, &json::write(&self.document)?)?;
        }
        if let Some(file) = html {
            write_file(file, &report::page::render_with([&self.document], sections))?;
        }
        if !format.is_incremental() {
            put(&format.write(&self.document, *full)?)?;
            return Ok(());
        }
        if self.document.targets.len() > 1 && self.has_runs() {
            put(&comparison(&self.document, *full))?;
        }
        if let Some(why) = &self.document.cut_short {
            let what =
                if self.has_runs() { "what was measured until then stands above" } else { "nothing was measured" };
            put(&format!("# cut short: {why}; {what}\n"))?;
        }
        Ok(())
    }

    fn has_runs(&self) -> bool {
        self.document.series.iter().flat_map(|series| &series.points).any(|point| !point.runs.is_empty())
    }
}

/// Records the outcome in the document: complete, or cut short.
pub fn conclude(document: &mut Document, outcome: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
    let outcome = outcome.map_err(CommandFailure::or_interrupted);
    match &outcome {
        Ok(()) => document.ended = Some(gauge::clock::timestamp()),
        Err(failure) => document.cut_short = Some(failure.to_string()),
    }
    outcome
}

/// Determines the command's outcome, once its document is `written`.
///
/// # Errors
/// The error of `outcome`, otherwise that of `written`, otherwise `CommandFailure::Invalid` for INVALID figures.
pub fn finish(
    document: &Document,
    outcome: Result<(), CommandFailure>,
    written: Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    outcome?;
    written?;
    match verdict(document) {
        Some(why) => Err(CommandFailure::Invalid(why)),
        None => Ok(()),
    }
}

/// The ratios between brokers as comment lines, which parsers of rows skip.
fn comparison(document: &Document, full: bool) -> String {
    let mut text = String::new();
    let mut brokers = document.clone();
    // Yardsticks already have columns.
    brokers.targets.retain(|target| !["relay", "null"].contains(&target.transport.as_str()));
    for comparison in report::compare::targets(&brokers, full) {
        text.push_str(&format!("\n# Ratios: {} (B) to {} (A)\n", comparison.b, comparison.a));
        for line in comparison.text().lines() {
            let mark = if line.starts_with('#') || line.is_empty() { "" } else { "# " };
            text.push_str(&format!("{mark}{line}\n"));
        }
    }
    text
}

pub fn write_page(file: &Path, document: &Document) -> Result<(), String> {
    write_file(file, &report::page::render([document]))
}

/// Why the document is INVALID: the first reason, and the number of further ones.
pub fn verdict(document: &Document) -> Option<String> {
    let mut reasons = Vec::new();
    for series in &document.series {
        for point in &series.points {
            for why in point.runs.iter().flat_map(invalid_reasons_of_run) {
                reasons.push(format!("{} on {}, {} bytes: {why}", series.benchmark, series.target, point.size_bytes));
            }
        }
    }
    let first = reasons.first()?;
    Some(match reasons.len() {
        1 => first.clone(),
        more => format!("{first}; and {} more", more - 1),
    })
}

/// Whether a run lost, duplicated or corrupted messages, which is always an error.
pub fn is_broken(run: &MeasuredRun) -> bool {
    run.faults.total() + run.refused > 0
}

/// The command line without passwords.
pub fn command_line(command: &str, words: &[String]) -> String {
    let mut text = format!("harrier bench {command}");
    for word in words {
        text.push(' ');
        text.push_str(&without_password(word));
    }
    text
}

/// Replaces the password of a URL by three dots; other text is unchanged.
fn without_password(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let end = text[start..].find(['/', '?']).map_or(text.len(), |at| start + at);
    let Some((login, _)) = text[start..end].rsplit_once('@') else { return text.to_owned() };
    match login.split_once(':') {
        Some((user, _)) => format!("{}{user}:…{}", &text[..start], &text[start + login.len()..]),
        None => text.to_owned(),
    }
}

/// Fails if the run was interrupted or a rank has failed.
pub fn check_interrupted() -> Result<(), CommandFailure> {
    if interrupt::requested() { Err(CommandFailure::Interrupted) } else { Ok(launcher::check()?) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_written() {
        for (text, expected) in [
            ("amqp://u:secret@host:1/v", "amqp://u:…@host:1/v"),
            ("--url=amqp://u:p%40@host", "--url=amqp://u:…@host"),
            ("amqp+unix://u:p@/run/x.sock", "amqp+unix://u:…@/run/x.sock"),
            ("amqp://host/a:b@c", "amqp://host/a:b@c"),
            ("amqp://u@host", "amqp://u@host"),
            ("1:1M", "1:1M"),
        ] {
            assert_eq!(without_password(text), expected);
        }
        assert_eq!(
            command_line("de-pp", &["--url".to_owned(), "amqp://u:p@h".to_owned()]),
            "harrier bench de-pp --url amqp://u:…@h"
        );
    }
}
