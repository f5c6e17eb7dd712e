//! The closed-loop benchmarks: the five of the 2008 paper, publisher confirms, and the raw-socket floor beneath them.
//!
//! `benchmarks` declares what each one measures, `runner` measures it.

mod benchmarks;
mod generator_ceiling;
mod options;
mod run_length;
mod runner;

use harness::failure::CommandFailure;
use harness::measure_options::MeasureOptions;
use harness::run_recorder::RunRecorder;

pub use benchmarks::{ALL, Benchmark, find};
use options::ClosedLoopOptions;
use runner::ClosedLoopRunner;

/// Runs a benchmark.
///
/// # Errors
/// A usage error, a target that fails (earlier results are written), INVALID figures.
pub fn run(benchmark: &Benchmark, words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = benchmark.declared().given(words)? else { return Ok(()) };
    let setup = MeasureOptions::read(&given)?;
    let options = ClosedLoopOptions::read(benchmark, &given, &setup)?;
    setup.output.prepare()?;
    harness::open_files::raise_for(options.connections_max())?;
    let targets = if benchmark.is_raw { Vec::new() } else { setup.targets()? };
    let mut record = RunRecorder::begin(benchmark.command, words, &given, &setup, &targets);
    options.record(&mut record);
    let outcome = ClosedLoopRunner::new(benchmark, &options, &setup, &targets, &mut record).run();
    record.end(outcome)
}
