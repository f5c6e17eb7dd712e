//! Series that are measured together: at each point all contestants have their runs in turns, and then the table has a row.

use gauge::validity;
use report::document::{MeasuredRun, MeasuredSeries, SeriesPoint};
use report::{OsuTable, ProgressLine};

use harness::failure::CommandFailure;
use harness::measure_options::MeasureOptions;
use harness::run_recorder::{RunRecorder, check_interrupted};

/// The series, which come last in the document until they are done.
pub(crate) struct MeasuredTurns<'a> {
    record: &'a mut RunRecorder,
    /// Where the series begin.
    first: usize,
    runs: usize,
    table: Option<OsuTable>,
}

/// How far a command is that measures series in turns.
pub(crate) struct TurnProgress {
    line: ProgressLine,
    /// Runs of one contestant: those that are done, and all.
    done: usize,
    all: usize,
}

/// A contestant's run that begins.
pub(crate) struct Turn<'a> {
    pub contestant: usize,
    run: usize,
    runs: usize,
    progress: &'a TurnProgress,
}

impl TurnProgress {
    /// `all`: runs of all contestants at all points.
    pub fn begin(all: usize) -> Self {
        TurnProgress { line: ProgressLine::begin(), done: 0, all }
    }
}

impl Turn<'_> {
    /// Shows what it does.
    pub fn show(&self, doing: &str) {
        let TurnProgress { line, done, all } = self.progress;
        line.show(*done as f64 / *all as f64, &format!("{doing}, run {} of {}", self.run, self.runs));
    }
}

impl<'a> MeasuredTurns<'a> {
    /// Begins with the head of their table, if rows are printed as they are measured.
    pub fn begin(
        record: &'a mut RunRecorder,
        setup: &MeasureOptions,
        series: impl IntoIterator<Item = MeasuredSeries>,
    ) -> Result<Self, CommandFailure> {
        let first = record.document.series.len();
        record.document.series.extend(series);
        let table = match setup.output.format.is_incremental() {
            true => {
                let begun: Vec<&MeasuredSeries> = record.document.series[first..].iter().collect();
                Some(OsuTable::begin(&record.document, &begun, setup.output.full)?)
            }
            false => None,
        };
        Ok(MeasuredTurns { record, first, runs: setup.runs, table })
    }

    /// Measures a point. Each contestant has `N` series next to one another, and each of its runs a result for each.
    pub fn measure<const N: usize>(
        &mut self,
        at: f64,
        size_bytes: f64,
        progress: &mut TurnProgress,
        mut measure: impl FnMut(&Turn<'_>) -> Result<[MeasuredRun; N], CommandFailure>,
    ) -> Result<(), CommandFailure> {
        let MeasuredTurns { record, first, runs, table } = self;
        let series = &mut record.document.series[*first..];
        series.iter_mut().for_each(|series| series.points.push(SeriesPoint { at, size_bytes, runs: Vec::new() }));
        let contestants = series.len() / N;
        for run in 1..=*runs {
            for position in 0..contestants {
                check_interrupted()?;
                // Every second run takes them in reverse order, so that none is always first.
                let contestant = if run % 2 == 1 { position } else { contestants - 1 - position };
                let results = measure(&Turn { contestant, run, runs: *runs, progress })?;
                for (series, mut result) in series[N * contestant..].iter_mut().zip(results) {
                    result.invalid.extend(validity::unoptimised(&record.document.environment));
                    if let Some(point) = series.points.last_mut() {
                        point.runs.push(result);
                    }
                }
                progress.done += 1;
            }
        }
        progress.line.clear();
        if let Some(table) = table {
            let points: Vec<&SeriesPoint> = series.iter().filter_map(|series| series.points.last()).collect();
            table.row(&points)?;
        }
        Ok(())
    }
}
