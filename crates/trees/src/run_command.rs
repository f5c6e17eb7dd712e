//! `harrier topology run`: measures one tree as the paper did, a row for each size.
//!
//! A run in which a consumer missed a message fails.

use report::page::{PageSection, number};
use report::stdout::put;
use topology::Tree;

use super::live_tree::{LiveTree, TreePlan};
use super::tree_measurement::{SizeMeasurement, measure};
use super::tree_options::{EFFORT, HOSTING, OUTPUT, TREE, effort, hosting, plan, sizes, tree};
use super::tree_record::TreeRecord;
use super::tree_segment_figures::TreeSegmentFigures;
use super::{broker_resources, plan_output, tree_list};
use harness::arguments::{OptionSpec, ParsedOptions, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::{has_ranks, one_clock};
use harness::open_files::raise_for;
use harness::run_recorder::check_interrupted;

const OWN: &[OptionSpec] = &[
    option("uneven", None, "", "levels may divide unevenly: the first brokers of a level get one child more"),
    option("latency", None, "", "also time single messages until the last consumer has them"),
    option("check", Some('c'), "", "check every byte of every message, not its number alone"),
    option("url", None, "URL", "under mpirun or srun: the broker where the ranks meet, which is not measured"),
];

const ABOUT: &str = "\
Starts a tree of brokers as processes, joins them (each pulls from the one above by a dynamic route), connects a publisher
to the root and consumers to the leaves, waits until a message has arrived by every path, measures, and stops everything.
Every consumer must get every message exactly once and in order; otherwise the status is 3.
  aggregate   over all consumers together
  per stream  what each consumer gets: the aggregate divided by the number of consumers
B-2B-4B-16C is a root, two brokers below it, four below those, and sixteen consumers, four on each of the four.";

const EXAMPLES: &[(&str, &str)] = &[
    ("run B-2B-4B-16C", "the best tree of the paper for small messages, as processes of this host"),
    (
        "run B-4B-8B-16C --sizes 64K,256K --ack confirm --credit 100",
        "at least once, 100 messages under way between brokers",
    ),
    ("run B-4B-16C --namespaces --link-rate 200mbit --sizes 64K", "hosts with links of 200 Mbit/s each (as root)"),
    (
        "plan --consumers 16 --size 64 | harrier topology run -",
        "the tree that a plan recommends, with the plan's messages",
    ),
    ("run B-2B-4B-64C --latency --runs 5 --json run.json --report run.html", "more runs, and files of the results"),
];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology run TOPOLOGY [OPTIONS]", ABOUT, &[EFFORT, TREE, HOSTING, OWN, OUTPUT], EXAMPLES)
        .with_words("TOPOLOGY")
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a node that failed, figures that must not be trusted.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (given, tree) = match given.bare() {
        [one] if one == "-" => planned_tree(words, given)?,
        [one] => {
            let tree = tree(one)?;
            // An uneven tree that was written by hand is most likely a mistake; a planned one is not.
            if !tree.is_uniform() && !given.has("uneven") {
                return Err(CommandFailure::Usage(format!(
                    "'{one}': a level does not divide evenly among the one above; --uneven gives the first brokers one child more"
                )));
            }
            (given, tree)
        }
        [] => return Err(CommandFailure::Usage("run needs a topology, as in B-2B-4B-16C".to_owned())),
        [_, more, ..] => return Err(CommandFailure::Usage(format!("unexpected argument '{more}'"))),
    };
    let (plan, hosting, effort, sizes) = (plan(tree, &given)?, hosting(&given)?, effort(&given)?, sizes(&given)?);
    raise_for(plan.tree.consumers() as usize)?;
    let mut record = TreeRecord::begin("run", words, &given)?;
    record.note_option("seconds", effort.seconds);
    record.note_option("runs", effort.runs);
    put(&format!("# harrier topology run {}: {}\n# {}\n", plan.tree, describe_plan(&plan), record.environment()))?;
    let outcome = (|| {
        let mut live_tree = LiveTree::start(&plan, &hosting)?;
        if let Some(places) = live_tree.describe_ranks() {
            put(&format!("# {places}\n"))?;
            record.note_environment(places);
        }
        let with_times = effort.singles > 0;
        if with_times && one_clock().is_err() {
            put("# single messages are not timed: the hosts' clocks differ\n")?;
        }
        put("# every route runs, and every consumer has received a message from the root\n")?;
        put(&head(with_times))?;
        for size_bytes in sizes {
            check_interrupted()?;
            let measured = measure(&mut live_tree, size_bytes, &effort)?;
            put(&row(&measured, with_times))?;
            record.add_measurement("topology", &plan, &measured);
            if given.has("full") {
                record.table(broker_resources::section(&plan.tree, &[&measured]))?;
            }
        }
        Ok(())
    })();
    let whole = record.finish(outcome);
    if whole.is_ok() {
        put(&format!("# every consumer got every message once and in order ({} consumers)\n", plan.tree.consumers()))?;
    }
    whole
}

/// The tree that a plan on standard input has chosen. It is measured with the plan's messages, unless the command line
/// overrides them.
fn planned_tree(words: &[String], given: ParsedOptions) -> Result<(ParsedOptions, Tree), CommandFailure> {
    if has_ranks() {
        return Err(CommandFailure::Usage(
            "under a launcher there is no common standard input: name the tree".to_owned(),
        ));
    }
    let (chosen, planned) = plan_output::parse_chosen(&tree_list::standard_input()?)?;
    let chosen = tree(&chosen.to_string())?;
    let mut all = words.to_vec();
    for pair in planned.chunks(2) {
        if !given.has(pair[0].trim_start_matches('-')) {
            all.extend_from_slice(pair);
        }
    }
    Ok((declared().parse(&all)?, chosen))
}

pub(super) fn describe_plan(plan: &TreePlan) -> String {
    let TreePlan { tree, exchange, prefetch, .. } = plan;
    let count = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![
        format!("{}, {}", count(tree.brokers_count(), "broker"), count(tree.consumers(), "consumer")),
        format!("{} exchange", exchange.name()),
    ];
    if tree.brokers_count() > 1 {
        let credit = match (plan.ack, plan.credit) {
            ("none", _) => String::new(),
            (_, 0) => ", credit unlimited".to_owned(),
            (_, credit) => format!(", credit {credit}"),
        };
        parts.push(format!("between brokers {:?}, ack {}{credit}", plan.transport, plan.ack).to_lowercase());
    }
    parts.push(match prefetch {
        None => "consumers acknowledge nothing".to_owned(),
        Some(0) => "consumers acknowledge, prefetch unlimited".to_owned(),
        Some(prefetch) => format!("consumers acknowledge, prefetch {prefetch}"),
    });
    parts.join("; ")
}

const COLUMNS: [&str; 5] = ["Messages/s", "Messages/s", "MB/s", "MB/s", "Brokers CPU"];
const BELOW: [&str; 5] = ["aggregate", "per stream", "aggregate", "per stream", "s/M"];

fn head(latency: bool) -> String {
    let line = |first: &str, names: &[&str], last: [&str; 2]| {
        let mut text = format!("# {first:<8}");
        names.iter().for_each(|name| text.push_str(&format!("{name:>13}")));
        if latency {
            last.iter().for_each(|name| text.push_str(&format!("{name:>13}")));
        }
        text + "\n"
    };
    line("Size", &COLUMNS, ["Last cons.", "Last cons."]) + &line("", &BELOW, ["p50 us", "p99 us"])
}

fn row(measured: &SizeMeasurement, latency: bool) -> String {
    let cpu = |figures: &TreeSegmentFigures| {
        let usage = figures.brokers().known()?;
        Some(usage.cpu_s() * 1e6 / figures.delivered.max(1) as f64)
    };
    let mut cells = vec![
        format!("{:.0}", measured.median(TreeSegmentFigures::aggregate_per_s)),
        format!("{:.0}", measured.median(TreeSegmentFigures::per_stream_per_s)),
        format!("{:.2}", measured.median(TreeSegmentFigures::aggregate_mb_per_s)),
        format!("{:.2}", measured.median(TreeSegmentFigures::per_stream_mb_per_s)),
        number(measured.median_of(cpu)),
    ];
    if latency {
        let quantile = |share: f64| match measured.latencies.count() {
            0 => "-".to_owned(),
            _ => format!("{:.1}", measured.latencies.quantile_us(share)),
        };
        cells.extend([quantile(0.5), quantile(0.99)]);
    }
    let mut text = format!("{:<10}", measured.size_bytes);
    cells.iter().for_each(|cell| text.push_str(&format!("{cell:>13}")));
    let complaint = measured.problem().map_or_else(String::new, |why| format!("  INVALID: {why}"));
    format!("{text}{complaint}\n")
}

/// A section without rows.
pub(super) fn section(name: String, facts: Vec<String>, columns: &[&str]) -> PageSection {
    let columns = columns.iter().map(|&name| name.to_owned()).collect();
    PageSection { name, facts, columns, rows: Vec::new() }
}
