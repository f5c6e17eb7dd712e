//! Both benchmarks of the paper with the usual options, and the report: what `make bench` runs.
//!
//! Enters: a folder for the results, options for both.  Leaves: two tables, `report.html`, two JSON files.
//! Owns:   the choice of what a first look shows.
//! Never:  takes longer than three minutes on two processors with this program's own broker.

use std::path::Path;

use crate::arguments::{Given, Option_, help, option};
use crate::paper::{self, Benchmark};
use report::table::put;

const OPTIONS: &[Option_] = &[
    option("out", None, "FOLDER", "where report.html and the JSON files go (default out)"),
    option("url", None, "URL", "measure the broker at amqp://… (default: this program's own)"),
    option("broker-command", None, "COMMAND", "start this broker instead; --listen ADDRESS is added"),
    option("iterations", Some('i'), "COUNT", "messages of each size (default: by size)"),
    option("help", Some('h'), "", "this text"),
];

/// Runs both.
///
/// # Errors
/// As each of them.
pub fn run(words: &[String]) -> Result<(), String> {
    let given = Given::parse(words, &[OPTIONS])?;
    if given.has("help") {
        return put(&help("harrier bench suite [OPTIONS]", &[OPTIONS]));
    }
    let out = Path::new(given.text("out").unwrap_or("out"));
    let report = out.join("report.html");
    for (benchmark, name, runs) in [(Benchmark::DeSpsc, "de-spsc", "3"), (Benchmark::DePp, "de-pp", "3")] {
        let json = out.join(format!("{name}.json"));
        let mut words = vec!["--runs".to_owned(), runs.to_owned()];
        words.extend(["--json".to_owned(), json.to_string_lossy().into_owned()]);
        words.extend(["--report".to_owned(), report.to_string_lossy().into_owned()]);
        for option in ["url", "broker-command", "iterations"] {
            if let Some(value) = given.text(option) {
                words.extend([format!("--{option}"), value.to_owned()]);
            }
        }
        paper::run(benchmark, &words)?;
        put("\n")?;
    }
    put(&format!("# figures: {}\n", report.display()))
}
