//! `harrier topology experiment`: measures the topologies of the 2009 paper's tables, and prints them beside the
//! paper's numbers.
//!
//! Everything is measured with two credit modes: bounded, and unlimited as in the paper. Absolute numbers are not
//! compared with the paper's, only what grows, what falls, and in which order.

use std::collections::BTreeMap;

use report::page::{PageSection, number};
use report::stdout::put;

use super::interleaved_runs::{InterleavedRuns, RunProgress};
use super::live_tree::TreePlan;
use super::paper::{self, EXPERIMENTS, PaperCell, is_large};
use super::run_command::{describe_plan, section};
use super::tree_environment::NodeHosting;
use super::tree_measurement::{MeasurementEffort, SizeMeasurement};
use super::tree_options::{EFFORT, HOSTING, OUTPUT, effort, hosting, plan, sizes};
use super::tree_record::TreeRecord;
use super::tree_segment_figures::TreeSegmentFigures;
use super::{broker_resources, tree_options};
use harness::arguments::{OptionSpec, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;

const OWN: &[OptionSpec] = &[
    option(
        "credit",
        None,
        "N",
        "bounded credit: messages in flight between two brokers, and prefetch of consumers (default 1000)",
    ),
    option("only", None, "KIND", "bounded or unlimited credit (default: both)"),
    option("exchange", None, "TYPE", "fanout (default), direct or topic"),
    option("latency", None, "", "single messages, too"),
];

const EXAMPLES: &[(&str, &str)] = &[
    ("experiment consumer-fanout", "does the rate collapse at eight consumers of one broker, as in the paper?"),
    (
        "experiment sixteen-consumers --namespaces --link-rate 1gbit --report sixteen.html",
        "on links of one Gbit/s each",
    ),
    ("experiment multi-level --sizes 64,64K --seconds 0.3", "a quick look"),
];

/// How many messages may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CreditMode {
    Bounded,
    Unlimited,
}

impl CreditMode {
    const ALL: [Self; 2] = [Self::Bounded, Self::Unlimited];

    fn name(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::Unlimited => "unlimited",
        }
    }
}

/// The result of a topology at a size: one stream's messages a second, or all consumers' MB/s, as the paper counts.
type ExperimentResults = BTreeMap<(String, usize, CreditMode), f64>;

fn about() -> String {
    let list: Vec<String> = EXPERIMENTS.iter().map(|(name, what)| format!("  {name:<18} {what}")).collect();
    format!(
        "Runs the topologies of an experiment of the 2009 paper and shows the paper's numbers beside: what share of the first\n\
         row's figure each has, and in which order they come; the numbers themselves are of other machines. Message rates are\n\
         those of one stream, bandwidth is that of all consumers together, as the paper counts. Everything is measured with\n\
         bounded credit, and with unlimited credit, between brokers (--ack confirm) and at consumers, who acknowledge.\n{}",
        list.join("\n")
    )
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology experiment NAME [OPTIONS]", about(), &[EFFORT, OWN, HOSTING, OUTPUT], EXAMPLES)
        .with_words("NAME")
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a node that failed, figures that must not be trusted.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let names: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
    let name = match given.bare() {
        [one] => names.iter().copied().find(|name| name == one).ok_or_else(|| {
            CommandFailure::Usage(format!("unknown experiment '{one}': there are {}", names.join(", ")))
        })?,
        [] => return Err(CommandFailure::Usage(format!("experiment needs a name: {}", names.join(", ")))),
        [_, more, ..] => return Err(CommandFailure::Usage(format!("unexpected argument '{more}'"))),
    };
    let kinds = match given.text("only") {
        None => CreditMode::ALL.to_vec(),
        Some(_) => {
            let wanted = given.one_of("only", &["bounded", "unlimited"])?;
            CreditMode::ALL.into_iter().filter(|credit| credit.name() == wanted).collect()
        }
    };
    let (hosting, effort, sizes) = (hosting(&given)?, effort(&given)?, sizes(&given)?);
    let credit = given.number("credit", 1_000, 1, u64::from(u16::MAX))? as u16;
    let mut trees = Vec::new();
    for notation in paper::topologies(name) {
        let tree = tree_options::tree(notation)?;
        for &kind in &kinds {
            let credit = if kind == CreditMode::Bounded { credit } else { 0 };
            let plan = TreePlan { ack: "confirm", credit, prefetch: Some(credit), ..plan(tree.clone(), &given)? };
            trees.push((notation, kind, plan));
        }
    }
    let mut record = TreeRecord::begin(&format!("experiment {name}"), words.get(1..).unwrap_or_default(), &given)?;
    record.note_option("seconds", effort.seconds);
    record.note_option("runs", effort.runs);
    put(&format!("# harrier topology experiment {name}\n# {}\n", record.environment()))?;
    let experiment = Experiment { name, trees, hosting, effort, sizes };
    let outcome = experiment.all(&mut record).and_then(|all| {
        let results = experiment.results(&all);
        tables(name, &kinds, &results, &mut record)?;
        collapses(name, &kinds, &results, &mut record)?;
        record.table(resource_table(name, experiment.used(&all)))
    });
    record.finish(outcome)
}

/// An experiment: its trees, sizes and effort.
struct Experiment<'a> {
    name: &'a str,
    trees: Vec<(&'static str, CreditMode, TreePlan)>,
    hosting: NodeHosting,
    effort: MeasurementEffort,
    sizes: Vec<usize>,
}

impl Experiment<'_> {
    /// Measures everything, interleaved. Returns the measurements of each tree by size.
    fn all(&self, record: &mut TreeRecord) -> Result<Vec<Vec<SizeMeasurement>>, CommandFailure> {
        let trees: Vec<(TreePlan, NodeHosting)> =
            self.trees.iter().map(|(_, _, plan)| (plan.clone(), self.hosting.clone())).collect();
        InterleavedRuns { trees: &trees, sizes: &self.sizes, effort: self.effort }.all(|step| match step {
            RunProgress::Starting { index, round } => {
                let (notation, kind, plan) = &self.trees[index];
                Ok(put(&format!("# {notation}, {} credit, run {}: {}\n", kind.name(), round + 1, describe_plan(plan)))?)
            }
            RunProgress::Measured { index, measured } => {
                put(&line(measured))?;
                record.add_measurement(&format!("topology {}", self.name), &self.trees[index].2, measured);
                Ok(())
            }
        })
    }

    fn results(&self, all: &[Vec<SizeMeasurement>]) -> ExperimentResults {
        let each = self.trees.iter().zip(all).flat_map(|((notation, kind, _), sizes)| {
            sizes.iter().map(|one| (((*notation).to_owned(), one.size_bytes, *kind), figure(one)))
        });
        each.collect()
    }

    /// What each broker used at the smallest and at the largest size.
    fn used(&self, all: &[Vec<SizeMeasurement>]) -> Vec<Vec<String>> {
        let ends = [self.sizes.iter().min(), self.sizes.iter().max()];
        let mut rows = Vec::new();
        for ((notation, kind, _), sizes) in self.trees.iter().zip(all) {
            let who = [(*notation).to_owned(), kind.name().to_owned()];
            let shown = sizes.iter().filter(|one| ends.contains(&Some(&one.size_bytes)));
            rows.extend(shown.flat_map(broker_resources::rows).map(|row| [&who[..], &row].concat()));
        }
        rows
    }
}

/// What the paper counts at this size.
fn figure(measured: &SizeMeasurement) -> f64 {
    if is_large(measured.size_bytes) {
        measured.median(TreeSegmentFigures::aggregate_mb_per_s)
    } else {
        measured.median(TreeSegmentFigures::per_stream_per_s)
    }
}

fn line(measured: &SizeMeasurement) -> String {
    let complaint = measured.problem().map_or_else(String::new, |why| format!("  INVALID: {why}"));
    format!(
        "  {:>7} B  {:>12.0} msg/s per stream {:>12.0} aggregate {:>10.2} MB/s aggregate{complaint}\n",
        measured.size_bytes,
        measured.median(TreeSegmentFigures::per_stream_per_s),
        measured.median(TreeSegmentFigures::aggregate_per_s),
        measured.median(TreeSegmentFigures::aggregate_mb_per_s),
    )
}

/// The paper's tables with ours beside: figure, share of the first row's, and rank.
fn tables(
    name: &str,
    kinds: &[CreditMode],
    results: &ExperimentResults,
    record: &mut TreeRecord,
) -> Result<(), CommandFailure> {
    for number in paper::tables(name) {
        let cells: Vec<PaperCell> = paper::table(number).into_iter().filter(|cell| has(results, cell, kinds)).collect();
        if !cells.is_empty() {
            record.table(table(number, &cells, kinds, results))?;
        }
    }
    Ok(())
}

fn has(results: &ExperimentResults, cell: &PaperCell, kinds: &[CreditMode]) -> bool {
    kinds.iter().all(|&kind| results.contains_key(&(cell.topology.to_owned(), cell.size_bytes, kind)))
}

fn table(table: u32, cells: &[PaperCell], kinds: &[CreditMode], results: &ExperimentResults) -> PageSection {
    let large = cells.first().is_some_and(|cell| is_large(cell.size_bytes));
    let unit = if large { "MB/s, aggregate" } else { "messages/s, per stream" };
    let mut columns = ["size", "topology", "paper", "of first", "place"].map(str::to_owned).to_vec();
    for kind in kinds {
        columns.extend([kind.name().to_owned(), "of first".to_owned(), "place".to_owned()]);
    }
    let mut sizes: Vec<usize> = cells.iter().map(|cell| cell.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = Vec::new();
    let mut agreeing = vec![(0, 0); kinds.len()];
    for size_bytes in sizes {
        let row: Vec<&PaperCell> = cells.iter().filter(|cell| cell.size_bytes == size_bytes).collect();
        let papers: Vec<f64> = row.iter().map(|cell| cell.value).collect();
        let of = |kind: CreditMode| -> Vec<f64> {
            let value = |cell: &&PaperCell| results.get(&(cell.topology.to_owned(), size_bytes, kind)).copied();
            row.iter().map(|cell| value(cell).unwrap_or(f64::NAN)).collect()
        };
        let ours: Vec<Vec<f64>> = kinds.iter().map(|&kind| of(kind)).collect();
        for (sum, values) in agreeing.iter_mut().zip(&ours) {
            let (alike, pairs) = pairs_alike(&papers, values);
            *sum = (sum.0 + alike, sum.1 + pairs);
        }
        for (index, cell) in row.iter().enumerate() {
            let mut cells = vec![size_bytes.to_string(), cell.topology.to_owned()];
            for values in std::iter::once(&papers).chain(&ours) {
                let first = values.first().copied().unwrap_or(f64::NAN);
                let share = number(Some(values[index] / first).filter(|share| share.is_finite()));
                cells.extend([number(Some(values[index])), share, rank(values, index).to_string()]);
            }
            rows.push(cells);
        }
    }
    let facts = kinds.iter().zip(agreeing).map(|(kind, (alike, pairs))| {
        format!("{} credit: {alike} of {pairs} pairs of topologies are in the paper's order", kind.name())
    });
    PageSection { name: format!("Table {table} of the paper: {unit}"), facts: facts.collect(), columns, rows }
}

/// The rank of a value, the largest first.
fn rank(values: &[f64], index: usize) -> usize {
    1 + values.iter().filter(|&&value| value > values[index]).count()
}

/// How many pairs have the same order in both lists, and how many pairs there are.
fn pairs_alike(one: &[f64], other: &[f64]) -> (usize, usize) {
    let (mut alike, mut pairs) = (0, 0);
    for second in 0..one.len().min(other.len()) {
        for first in 0..second {
            pairs += 1;
            alike += usize::from((one[first] < one[second]) == (other[first] < other[second]));
        }
    }
    (alike, pairs)
}

/// Where the paper's brokers collapsed: from one number of copies to another, and the share that the copies alone would
/// explain.
const COLLAPSES: [(&str, &str, &str, f64); 4] = [
    ("consumer-fanout", "B-4C", "B-8C", 4.0 / 8.0),
    ("consumer-fanout", "B-2C", "B-4C", 2.0 / 4.0),
    ("federated-fanout", "B-2B-2C", "B-3B-3C", 2.0 / 3.0),
    ("federated-fanout", "B-3B-3C", "B-4B-4C", 3.0 / 4.0),
];
/// A rate has collapsed if it falls by this many times more than its copies explain.
const COLLAPSE_TIMES: f64 = 2.0;

fn collapses(
    name: &str,
    kinds: &[CreditMode],
    results: &ExperimentResults,
    record: &mut TreeRecord,
) -> Result<(), CommandFailure> {
    let cells = paper::cells();
    let mut columns = vec!["from", "to", "size", "copies explain", "paper"];
    columns.extend(kinds.iter().map(|kind| kind.name()));
    columns.push("here");
    let facts = vec![
        "the rate of a stream after the step, as a share of that before it; for a broker that only copies, it is what copies explain".to_owned(),
        format!("collapsed: less than a share of 1/{COLLAPSE_TIMES} of that"),
    ];
    let mut table = section("Steps at which the paper's brokers collapsed".to_owned(), facts, &columns);
    for (_, from, to, explained) in COLLAPSES.iter().filter(|(experiment, ..)| *experiment == name) {
        let is_small =
            |cell: &&PaperCell| cell.experiment == name && cell.topology == *to && !is_large(cell.size_bytes);
        for cell in cells.iter().filter(is_small) {
            let size_bytes = cell.size_bytes;
            let before = cells
                .iter()
                .find(|one| one.experiment == name && one.topology == *from && one.size_bytes == size_bytes);
            let share = |kind: &CreditMode| {
                let of = |notation: &str| results.get(&(notation.to_owned(), size_bytes, *kind)).copied();
                Some(of(to)? / of(from)?)
            };
            let ours: Option<Vec<f64>> = kinds.iter().map(share).collect();
            let (Some(ours), Some(before)) = (ours, before) else { continue };
            let collapsed: Vec<&str> = kinds
                .iter()
                .zip(&ours)
                .filter(|(_, share)| **share < explained / COLLAPSE_TIMES)
                .map(|(kind, _)| kind.name())
                .collect();
            let verdict = match collapsed.as_slice() {
                [] => "no collapse".to_owned(),
                some => format!("collapsed: {}", some.join(", ")),
            };
            let mut row = vec![(*from).to_owned(), (*to).to_owned(), size_bytes.to_string()];
            row.extend([number(Some(*explained)), number(Some(cell.value / before.value))]);
            row.extend(ours.iter().map(|&share| number(Some(share))));
            row.push(verdict);
            table.rows.push(row);
        }
    }
    if table.rows.is_empty() { Ok(()) } else { record.table(table) }
}

fn resource_table(name: &str, rows: Vec<Vec<String>>) -> PageSection {
    let columns = [
        "topology",
        "credit",
        "broker",
        "size",
        "MB/s in",
        "MB/s out",
        "switches/s",
        "page faults/s",
        "CPU %",
        "CPU us/message",
    ];
    let facts = vec![
        "smallest and largest size; the others are in the document (--json). Bytes are those of TCP sockets, without headers".to_owned(),
        "the paper has these figures from sar, for hosts, as Figures 8, 11 and 14, without numbers".to_owned(),
    ];
    let mut table = section(format!("{name}: resource usage and traffic of each broker"), facts, &columns);
    table.rows = rows;
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_pairs() {
        let (paper, ours) = ([3.0, 2.0, 1.0], [30.0, 10.0, 20.0]);
        assert_eq!([0, 1, 2].map(|index| rank(&ours, index)), [1, 3, 2]);
        assert_eq!(pairs_alike(&paper, &ours), (2, 3));
        assert_eq!(pairs_alike(&paper, &paper), (3, 3));
    }

    #[test]
    fn a_table_has_the_papers_shape_beside_ours() {
        let cells: Vec<PaperCell> = paper::table(3).into_iter().filter(|cell| cell.size_bytes == 64).collect();
        let mut results = ExperimentResults::new();
        for (cell, value) in cells.iter().zip([100.0, 90.0, 80.0, 40.0]) {
            results.insert((cell.topology.to_owned(), 64, CreditMode::Bounded), value);
        }
        let section = table(3, &cells, &[CreditMode::Bounded], &results);
        assert_eq!(section.facts, ["bounded credit: 6 of 6 pairs of topologies are in the paper's order"]);
        assert_eq!(section.rows.len(), 4);
        assert_eq!(section.rows[3], ["64", "B-8C", "2570", "0.091", "4", "40.0", "0.400", "4"]);
        assert!(has(&results, &cells[0], &[CreditMode::Bounded]) && !has(&results, &cells[0], &CreditMode::ALL));
    }

    #[test]
    fn the_steps_are_between_topologies_of_the_paper() {
        for (experiment, from, to, _) in COLLAPSES {
            let known = paper::topologies(experiment);
            assert!(known.contains(&from) && known.contains(&to), "{experiment}");
        }
    }
}
