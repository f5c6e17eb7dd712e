//! The record of a topology command: the document and its tables, and how both are written.
//!
//! At the end the files are written before the exit status is decided, so that measurements survive a later failure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use report::document::{Document, LoopMode, MeasuredSeries, SCHEMA, SeriesPoint, TargetFacts};
use report::page::{PageSection, render_with, write_file};
use report::stdout::put;

use super::live_tree::TreePlan;
use super::tree_measurement::SizeMeasurement;
use gauge::HostEnvironment;
use harness::arguments::ParsedOptions;
use harness::failure::CommandFailure;
use harness::launcher;
use harness::run_recorder::{command_line, conclude, finish};
use report::section_text;

pub(super) struct TreeRecord {
    document: Document,
    sections: Vec<PageSection>,
    json: Option<PathBuf>,
    page: Option<PathBuf>,
}

impl TreeRecord {
    /// Begins the record of `harrier topology COMMAND WORDS`, and checks that its files can be written.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn begin(command: &str, words: &[String], given: &ParsedOptions) -> Result<Self, CommandFailure> {
        let [json, page] = ["json", "report"].map(|name| given.text(name).map(PathBuf::from));
        harness::measure_options::OutputOptions {
            format: report::DocumentFormat::Osu,
            full: false,
            json: json.clone(),
            html: page.clone(),
        }
        .prepare()?;
        let mut options = given.shown();
        options.remove("url");
        let said = command_line(&format!("topology {command}"), words).replacen("harrier bench ", "harrier ", 1);
        let document = Document {
            schema: SCHEMA.to_owned(),
            command: said,
            began: gauge::clock::timestamp(),
            ended: None,
            commit: option_env!("BENCH_COMMIT").filter(|commit| !commit.is_empty()).map(str::to_owned),
            environment: HostEnvironment::read(),
            placement: "any".to_owned(),
            options,
            targets: Vec::new(),
            series: Vec::new(),
            cut_short: None,
        };
        Ok(Self { document, sections: Vec::new(), json, page })
    }

    /// The machine, in one line.
    pub fn environment(&self) -> String {
        self.document.environment.line()
    }

    /// Records where the nodes run.
    pub fn note_environment(&mut self, places: String) {
        self.document.placement = places;
    }

    /// Records the value of an option that the command line did not give.
    pub fn note_option(&mut self, option: &str, value: impl ToString) {
        self.document.options.entry(option.to_owned()).or_insert_with(|| value.to_string());
    }

    /// Records the measurement of one size, after earlier runs of it.
    pub fn add_measurement(&mut self, benchmark: &str, plan: &TreePlan, measured: &SizeMeasurement) {
        let name = plan.tree.to_string();
        if self.document.targets.iter().all(|facts| facts.name != name) {
            self.document.targets.push(TargetFacts {
                name: name.clone(),
                transport: plan.transport.name().to_owned(),
                product: Some("Harrier".to_owned()),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                ..TargetFacts::default()
            });
        }
        let parameters = parameters(plan);
        let is_it = |series: &MeasuredSeries| {
            series.benchmark == benchmark && series.target == name && series.parameters == parameters
        };
        let index = self.document.series.iter().position(is_it).unwrap_or_else(|| {
            self.document.series.push(MeasuredSeries {
                benchmark: benchmark.to_owned(),
                target: name.clone(),
                pace: LoopMode::Closed,
                parameters: parameters.clone(),
                axis: "size_bytes".to_owned(),
                points: Vec::new(),
            });
            self.document.series.len() - 1
        });
        let size_bytes = measured.size_bytes as f64;
        let runs = measured.runs.iter().map(|figures| figures.to_run(&measured.latencies)).collect();
        let points = &mut self.document.series[index].points;
        match points.iter_mut().find(|point| point.at == size_bytes) {
            Some(point) => point.runs.extend::<Vec<_>>(runs),
            None => points.push(SeriesPoint { at: size_bytes, size_bytes, runs }),
        }
    }

    /// Prints a table, and keeps it for the page.
    pub fn table(&mut self, section: PageSection) -> Result<(), CommandFailure> {
        put(&format!("\n{}", section_text::text(&section)))?;
        self.sections.push(section);
        Ok(())
    }

    /// Ends the record. The document is written in any case, and is complete if `outcome` is `Ok`.
    ///
    /// # Errors
    /// The error of `outcome`, files that cannot be written, or `Failure::Invalid` for figures that must not be
    /// trusted.
    pub fn finish(mut self, outcome: Result<(), CommandFailure>) -> Result<(), CommandFailure> {
        // The roles of ranks are in `placement` here.
        for (name, fact) in launcher::facts().into_iter().filter(|(name, _)| !is_rank(name)) {
            self.note_option(&name, fact);
        }
        let outcome = conclude(&mut self.document, outcome);
        finish(&self.document, outcome, self.write())
    }

    fn write(&self) -> Result<(), CommandFailure> {
        if let Some(file) = &self.json {
            write_file(file, &report::json::write(&self.document)?)?;
        }
        if let Some(file) = &self.page {
            write_file(file, &render_with([&self.document], &self.sections))?;
        }
        Ok(())
    }
}

/// Whether a launcher fact is a rank's role in a benchmark: `rank 3`.
fn is_rank(fact: &str) -> bool {
    fact.strip_prefix("rank ").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parameters(plan: &TreePlan) -> BTreeMap<String, String> {
    let credit = |credit: u16| if credit == 0 { "unlimited".to_owned() } else { credit.to_string() };
    let mut parameters = BTreeMap::from([
        ("exchange".to_owned(), plan.exchange.name().to_owned()),
        ("brokers".to_owned(), plan.tree.brokers_count().to_string()),
        ("consumers".to_owned(), plan.tree.consumers().to_string()),
    ]);
    if plan.tree.brokers_count() > 1 {
        parameters.insert("ack".to_owned(), plan.ack.to_owned());
        parameters.insert("credit".to_owned(), credit(plan.credit));
    }
    parameters.extend(plan.prefetch.map(|prefetch| ("prefetch".to_owned(), credit(prefetch))));
    parameters
}
