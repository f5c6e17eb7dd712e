//! `harrier topology verify`: compares predictions of trees with measurements.
//!
//! The compared figure is a stream's rate where hosts or links are the limit, and processor time where all nodes share
//! one host.

use planner::{
    Bottleneck, Estimate, HostModel, LimitingResource, NodeModel, Prediction, Profile, Sharing, SizeCosts, predict,
    processors_us, search,
};
use report::ProgressLine;
use report::page::{PageSection, number, write_file};
use report::stdout::put;
use serde::Serialize;
use topology::Tree;

use super::calibrate::minutes;
use super::calibration_sweeps::{nodes, seconds};
use super::interleaved_runs::{InterleavedRuns, RunProgress};
use super::limited_links::fair_options;
use super::live_tree::TreePlan;
use super::prediction_verdict::{BetterDirection, CheckedTree, PredictionTolerance, PredictionVerdict, ranks};
use super::run_command::section;
use super::tree_enumeration::TreeEnumeration;
use super::tree_environment::NodeHosting;
use super::tree_measurement::{MeasurementEffort, SizeMeasurement};
use super::tree_options::{self, HOSTING, bits_per_s, hosting, sizes, tree};
use super::tree_segment_figures::TreeSegmentFigures;
use super::{plan_output, profile_files, tree_list};
use crate::limits::{LISTED_TREES_MAX, TREE_CONSUMERS_MAX};
use gauge::{HostEnvironment, validity};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::launcher::{has_ranks, lone_ranks};
use harness::limits::RUNS_MAX;
use harness::open_files::raise_for;
use load::limits::SECONDS_MAX;
use report::section_text::text;

const MEASURED: &[OptionSpec] = &[
    option("profile", None, "FILE", "the profile that predicts (default profile.json)"),
    option(
        "all",
        None,
        "",
        "every tree of --consumers whose brokers have at least two children (of too many: the uniform ones)",
    ),
    option("consumers", None, "N", "with --all: how many consumers"),
    option("sizes", Some('m'), "LIST", "message sizes (default: those of the profile)"),
    option("ack", None, "HOW", "between brokers: none (default), or confirm"),
    option("runs", None, "N", "runs of each (default 3)"),
    option("seconds", None, "S", "length of a run, about (default 2)"),
    option("within", None, "PERCENT", "largest error of a prediction (default 15)"),
    option("behind", None, "PERCENT", "largest distance of the chosen tree from the best one (default 5)"),
    option("extrapolate", None, "", "also sizes beyond those of the profile; marked as extrapolated"),
];

const TREES: &[OptionSpec] = &[
    option("exchange", None, "TYPE", "fanout (default), direct or topic"),
    option("credit", None, "N", "messages in flight between two brokers with ack confirm; 0: unlimited (default 1000)"),
    option("prefetch", None, "N", "consumers acknowledge, N ahead; 0: unlimited (default: they acknowledge none)"),
    option("url", None, "URL", "under mpirun or srun: the broker where the ranks meet, which is not measured"),
];

const OUT: &[OptionSpec] =
    &[option("json", None, "FILE", "write everything as JSON"), option("help", Some('h'), "", "this text")];

const ABOUT: &str = "\
Measures trees and compares them with their predictions: errors, Spearman's rank correlation, and whether the tree
that was chosen is the best measured one, or close to it. Trees are arguments (as in B-2B-4B-16C), or, for -, the output of plan on
standard input, whose first tree is the chosen one; without it, the best predicted tree counts as chosen.
Rates are compared if each node has its own host, or a link of limited speed; on one host, the processor time of all brokers.
The status is 3 if a tree outside the calibration is too far from its prediction, or the chosen tree too far from the best.";

const EXAMPLES: &[(&str, &str)] = &[
    ("verify B-16C B-4B-16C B-2B-4B-16C", "three trees, by profile.json"),
    ("plan --consumers 16 --size 64K --json | harrier topology verify -", "the trees that the planner has found"),
    (
        "verify --all --consumers 16 --sizes 64K --namespaces --link-rate 200mbit",
        "every uniform tree of sixteen consumers, on links of 200 Mbit/s (as root)",
    ),
];

/// What is verified.
struct Verification {
    profile: Profile,
    trees: Vec<(TreePlan, NodeHosting)>,
    /// The planner's choice for each size; without one, the best predicted tree counts as chosen.
    chosen: Vec<Option<Tree>>,
    sizes: Vec<SizeCosts>,
    extrapolated: Vec<u64>,
    host: HostModel,
    effort: MeasurementEffort,
    tolerance: PredictionTolerance,
    better: BetterDirection,
    /// How many trees of the same number of consumers are not measured.
    left_out: u64,
}

/// A metric of a run.
type SegmentMetric<'a> = &'a dyn Fn(&TreeSegmentFigures) -> Option<f64>;

/// The result of a size, for the JSON file.
#[derive(Serialize)]
struct SizeVerification {
    message_bytes: u64,
    guessed: bool,
    compared: &'static str,
    trees: Vec<CheckedTree>,
    verdict: PredictionVerdict,
}

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology verify TREE... | - [OPTIONS]", ABOUT, &[MEASURED, TREES, HOSTING, OUT], EXAMPLES)
        .with_words("[TREE...]")
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a profile that cannot be used, a node that failed, a message that went wrong, a miss.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    let (given, listed) = match given.bare() {
        [word] if word == "-" && !given.has("all") => {
            let (given, trees) = trees_of_plan(words, given)?;
            (given, Some(trees))
        }
        _ => (given, None),
    };
    let environment = HostEnvironment::read();
    let verification = Verification::of(&given, listed)?;
    put(&format!("# harrier topology verify\n# {}\n{}", environment.line(), verification.describe()))?;
    let all = verification.measure()?;
    let results = verification.results(&all);
    for result in &results {
        put(&format!("\n{}", text(&verification.table(result))))?;
    }
    if let Some(file) = given.text("json") {
        let document = serde_json::json!({
            "schema": "harrier-verification",
            "version": 1,
            "began": gauge::clock::timestamp(),
            "machine": environment.line(),
            "profile": profile_files::conditions(&verification.profile),
            "asked": verification.tolerance,
            "runs": verification.effort.runs,
            "sizes": results,
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
        write_file(file.as_ref(), &(text + "\n"))?;
    }
    if let Some(why) = validity::unoptimised(&environment) {
        return Err(CommandFailure::Invalid(why));
    }
    let missed = results
        .iter()
        .flat_map(|result| result.verdict.missed.iter().map(|why| format!("{} bytes: {why}", result.message_bytes)));
    let missed: Vec<String> = missed.collect();
    match missed.as_slice() {
        [] => Ok(()),
        some => Err(CommandFailure::Missed(format!("missed: {}", some.join("; ")))),
    }
}

impl Verification {
    /// From the command line, and the trees on standard input if it asks for those, the chosen one first.
    fn of(given: &ParsedOptions, listed: Option<Vec<Tree>>) -> Result<Self, CommandFailure> {
        let hosting = hosting(given)?;
        let was_chosen = listed.is_some();
        let TreeEnumeration { mut trees, left_out } = match listed {
            Some(trees) => TreeEnumeration { trees, left_out: 0 },
            None => trees_of_arguments(given)?,
        };
        let profile = profile_files::read(given.text("profile").unwrap_or("profile.json").as_ref())?;
        let ack = given.one_of("ack", &["none", "confirm"])?;
        let transport = tree_options::plan(trees.first().cloned().unwrap_or(tree("B-C")?), given)?.transport.name();
        let Some(set) = profile.costs_of(transport, ack) else {
            let known: Vec<String> =
                profile.costs.iter().map(|set| format!("{} with ack {}", set.transport, set.ack)).collect();
            return Err(CommandFailure::Usage(format!(
                "the profile has no costs over {transport} with ack {ack}: it has {}",
                if known.is_empty() { "nothing".to_owned() } else { known.join(", ") }
            )));
        };
        let wanted: Vec<u64> = match given.has("sizes") {
            true => sizes(given)?.into_iter().map(|size| size as u64).collect(),
            false => set.sizes.iter().map(|costs| costs.message_bytes).collect(),
        };
        let mut priced = Vec::new();
        let mut guessed = Vec::new();
        for size in wanted {
            let (costs, resting) = set.for_size(size, given.has("extrapolate")).map_err(|why| {
                CommandFailure::Usage(format!(
                    "there is no prediction for {size} bytes: {why} (--extrapolate accepts that)"
                ))
            })?;
            if matches!(resting, planner::CostSource::Beyond(_)) {
                guessed.push(size);
            }
            priced.push(costs);
        }
        let own = lone_ranks().is_some_and(|ranks| trees.iter().all(|tree| ranks >= nodes(tree) as usize));
        let sharing = if own { Sharing::OwnHosts } else { Sharing::OneHost };
        let link_bits_per_s = given.text("link-rate").map(bits_per_s).transpose()?;
        let host = HostModel { cores: profile.cores, link_bits_per_s, sharing };
        let percent = |name: &str, usual: f64| Ok::<f64, UsageError>(given.decimal(name, usual, 0.0, 1_000.0)? / 100.0);
        let asked = PredictionTolerance { error_max: percent("within", 15.0)?, behind_max: percent("behind", 5.0)? };
        let effort = MeasurementEffort {
            messages: None,
            seconds: given.decimal("seconds", 2.0, 0.01, SECONDS_MAX)?,
            runs: given.number("runs", 3, 1, RUNS_MAX as u64)? as usize,
            singles: 0,
        };
        let by_rate = own || link_bits_per_s.is_some();
        let better = if by_rate { BetterDirection::Higher } else { BetterDirection::Lower };
        let fair = link_bits_per_s.filter(|_| !has_ranks()).and_then(|_| fair_options(given)).unwrap_or_default();
        let chosen = match (given.has("all") && by_rate, trees.first().cloned()) {
            (true, Some(one)) => planner_choices(&priced, host, one.consumers())?.into_iter().map(Some).collect(),
            (false, first) if was_chosen => vec![first; priced.len()],
            _ => vec![None; priced.len()],
        };
        for choice in chosen.iter().flatten() {
            if !trees.contains(choice) {
                trees.push(choice.clone());
            }
        }
        let plans = trees.iter().map(|tree| {
            let mut plan = tree_options::plan(tree.clone(), given)?;
            plan.broker_options.extend(fair.clone());
            Ok((plan, hosting.clone()))
        });
        let plans = plans.collect::<Result<Vec<_>, UsageError>>()?;
        let most = trees.iter().map(Tree::consumers).max().unwrap_or(1);
        raise_for(most as usize)?;
        Ok(Self {
            profile,
            trees: plans,
            chosen,
            sizes: priced,
            extrapolated: guessed,
            host,
            effort,
            tolerance: asked,
            better,
            left_out,
        })
    }

    fn describe(&self) -> String {
        let sizes: Vec<usize> = self.sizes.iter().map(|costs| costs.message_bytes as usize).collect();
        let trees = self.trees.iter().map(|(plan, _)| &plan.tree);
        let seconds = seconds(trees, &sizes, &self.effort, self.host.link_bits_per_s);
        let compared = match self.better {
            BetterDirection::Higher => "The rate of a stream is compared.".to_owned(),
            BetterDirection::Lower => format!(
                "All nodes share the {} processors of this host, so that rates say nothing: processor time is compared.",
                gauge::processors()
            ),
        };
        let left_out = match self.left_out {
            0 => String::new(),
            some => format!("# left out: {some} uneven trees\n"),
        };
        format!(
            "# the profile: {}\n{left_out}# {} trees, {} sizes, {} runs of {} s, in turns: about {}\n# {compared}\n",
            profile_files::conditions(&self.profile),
            self.trees.len(),
            sizes.len(),
            self.effort.runs,
            self.effort.seconds,
            minutes(seconds)
        )
    }

    fn measure(&self) -> Result<Vec<Vec<SizeMeasurement>>, CommandFailure> {
        let progress = ProgressLine::begin();
        let sizes: Vec<usize> = self.sizes.iter().map(|costs| costs.message_bytes as usize).collect();
        let all = (self.trees.len() * sizes.len() * self.effort.runs).max(1) as f64;
        let mut done = 0.0;
        InterleavedRuns { trees: &self.trees, sizes: &sizes, effort: self.effort }.all(|step| {
            match step {
                RunProgress::Starting { index, round } => {
                    let (tree, runs) = (&self.trees[index].0.tree, self.effort.runs);
                    progress.show(done / all, &format!("{tree}, run {} of {runs}", round + 1));
                }
                RunProgress::Measured { index, measured } => {
                    done += 1.0;
                    if let Some(why) = measured.problem() {
                        return Err(CommandFailure::Invalid(format!("{}: {why}", self.trees[index].0.tree)));
                    }
                }
            }
            Ok(())
        })
    }

    fn results(&self, all: &[Vec<SizeMeasurement>]) -> Vec<SizeVerification> {
        let of_size = |(costs, chosen): (&SizeCosts, &Option<Tree>)| {
            let of_tree = |((plan, _), sizes): (&(TreePlan, NodeHosting), &Vec<SizeMeasurement>)| {
                let size = costs.message_bytes as usize;
                let measured = sizes.iter().find(|measured| measured.size_bytes == size)?;
                self.checked_tree(plan, costs, measured)
            };
            let trees: Vec<CheckedTree> = self.trees.iter().zip(all).filter_map(of_tree).collect();
            let chosen = chosen.as_ref().map(Tree::to_string).or_else(|| predicted_best(&trees, self.better));
            SizeVerification {
                message_bytes: costs.message_bytes,
                guessed: self.extrapolated.contains(&costs.message_bytes),
                compared: match self.better {
                    BetterDirection::Higher => "messages a second of a stream",
                    BetterDirection::Lower => "processor time of all brokers for a message, us",
                },
                verdict: PredictionVerdict::of(&trees, chosen.as_deref(), self.better, self.tolerance),
                trees,
            }
        };
        self.sizes.iter().zip(&self.chosen).map(of_size).collect()
    }

    /// A tree's prediction and measurement; `None` if its brokers could not be metered.
    fn checked_tree(&self, plan: &TreePlan, costs: &SizeCosts, measured: &SizeMeasurement) -> Option<CheckedTree> {
        let tree = &plan.tree;
        let prediction: Prediction = predict(tree, costs, &self.host);
        let (predicted, value): (Estimate, SegmentMetric<'_>) = match self.better {
            BetterDirection::Higher => (prediction.stream_per_s, &|figures| Some(figures.per_stream_per_s())),
            BetterDirection::Lower => (processors_us(&NodeModel::new(costs, self.host), tree), &|figures| {
                let levels = figures.level_cpu_us(tree)?;
                Some(levels.iter().zip(tree.levels()).map(|(us, &count)| us * f64::from(count)).sum())
            }),
        };
        let runs: Vec<f64> = measured.runs.iter().filter_map(value).collect();
        let edge = |pick: fn(f64, f64) -> f64| runs.iter().copied().reduce(pick);
        let median = measured.median_of(value)?;
        let busy = measured.median(TreeSegmentFigures::processors_busy) / gauge::processors() as f64;
        let is_it = |one: &planner::Observation| {
            one.tree == *tree
                && one.message_bytes == costs.message_bytes
                && one.transport == plan.transport.name()
                && one.ack == plan.ack
        };
        Some(CheckedTree {
            tree: tree.to_string(),
            brokers: tree.brokers_count(),
            calibrated: self.profile.observations.iter().any(is_it),
            predicted,
            measured: Estimate { value: median, low: edge(f64::min)?, high: edge(f64::max)? },
            bottleneck: limit_label(&prediction.bottleneck),
            processors_share: busy,
        })
    }

    fn table(&self, result: &SizeVerification) -> PageSection {
        let verdict = &result.verdict;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let allowed = |missed: bool| if missed { "MISS" } else { "pass" };
        let mut facts = vec![format!("compared: {}; * was in the calibration", result.compared)];
        if result.guessed {
            facts.push("EXTRAPOLATED: the size is beyond those of the profile".to_owned());
        }
        facts.push(match &verdict.farthest {
            Some((tree, error)) => format!(
                "{}: the largest error of a tree outside the calibration is {} ({tree}; {} allowed)",
                allowed(error.abs() > self.tolerance.error_max),
                percent(error.abs()),
                percent(self.tolerance.error_max)
            ),
            None => "every tree was in the calibration, so that no prediction was tested".to_owned(),
        });
        if let (Some(chosen), Some(best), Some(behind)) = (&verdict.chosen, &verdict.best, verdict.behind) {
            let how = if chosen == best {
                "is the best measured".to_owned()
            } else {
                format!("is {} behind {best}", percent(behind))
            };
            facts.push(format!(
                "{}: the chosen tree {chosen} {how} ({} allowed)",
                allowed(behind > self.tolerance.behind_max),
                percent(self.tolerance.behind_max)
            ));
        }
        facts.extend(verdict.spearman.map(|spearman| format!("Spearman's rank correlation: {spearman:.3}")));
        let columns = [
            "tree",
            "brokers",
            "predicted",
            "from",
            "to",
            "place",
            "measured",
            "least",
            "most",
            "place",
            "error",
            "limit",
            "processors",
        ];
        let mut table = section(format!("{} bytes", result.message_bytes), facts, &columns);
        let of =
            |value: fn(&CheckedTree) -> f64| ranks(&result.trees.iter().map(value).collect::<Vec<f64>>(), self.better);
        let (predicted, measured) = (of(|pair| pair.predicted.value), of(|pair| pair.measured.value));
        table.rows = result
            .trees
            .iter()
            .zip(predicted.iter().zip(&measured))
            .map(|(pair, (place_predicted, place_measured))| {
                vec![
                    format!("{}{}", pair.tree, if pair.calibrated { "*" } else { "" }),
                    pair.brokers.to_string(),
                    number(Some(pair.predicted.value)),
                    number(Some(pair.predicted.low)),
                    number(Some(pair.predicted.high)),
                    place_predicted.to_string(),
                    number(Some(pair.measured.value)),
                    number(Some(pair.measured.low)),
                    number(Some(pair.measured.high)),
                    place_measured.to_string(),
                    format!("{:+.1} %", pair.error() * 100.0),
                    pair.bottleneck.clone(),
                    format!("{:.0} %", pair.processors_share * 100.0),
                ]
            })
            .collect();
        table
    }
}

/// What limits a tree, in a few words.
fn limit_label(bottleneck: &Bottleneck) -> String {
    let why = match bottleneck.resource {
        LimitingResource::Cores => "processor",
        LimitingResource::Egress => "link out",
        LimitingResource::Ingress => "link in",
        LimitingResource::SharedCores => return "this host".to_owned(),
    };
    let level = bottleneck.level;
    let broker = if level == 0 { "b0".to_owned() } else { format!("b{level}.0") };
    format!("{why} of {broker}, {} copies", bottleneck.degree)
}

/// The best tree by prediction; of equal ones, the one with the fewest brokers.
fn predicted_best(pairs: &[CheckedTree], better: BetterDirection) -> Option<String> {
    let sign = if better == BetterDirection::Higher { 1.0 } else { -1.0 };
    let best = pairs.iter().max_by(|one, other| {
        let by_value = (sign * one.predicted.value).total_cmp(&(sign * other.predicted.value));
        by_value.then(other.brokers.cmp(&one.brokers))
    });
    best.map(|pair| pair.tree.clone())
}

/// The planner's choice for each size: the fastest tree, and of equally fast ones the one with the fewest brokers.
fn planner_choices(sizes: &[SizeCosts], host: HostModel, consumers: u32) -> Result<Vec<Tree>, CommandFailure> {
    let hosting = planner::TreeRequirements { consumers, extrapolate: true, ..planner::TreeRequirements::default() };
    let choice = |costs: &SizeCosts| {
        let refused =
            |why: String| CommandFailure::Usage(format!("the planner finds no tree of {consumers} consumers: {why}"));
        let front = search(&NodeModel::new(costs, host), &hosting).map_err(|why| refused(why.to_string()))?;
        front.trees.first().map(|one| one.tree.clone()).ok_or_else(|| refused("there is none".to_owned()))
    };
    sizes.iter().map(choice).collect()
}

/// The trees on standard input. Of a plan, the chosen one comes first, and its messages apply unless the command line
/// overrides them.
fn trees_of_plan(words: &[String], given: ParsedOptions) -> Result<(ParsedOptions, Vec<Tree>), CommandFailure> {
    if has_ranks() {
        return Err(CommandFailure::Usage(
            "under a launcher there is no common standard input: name the trees".to_owned(),
        ));
    }
    let text = tree_list::standard_input()?;
    let mut trees = tree_list::trees(&text)?;
    trees.iter().try_for_each(|one| tree(&one.to_string()).map(drop))?;
    // Lists other than plans are accepted as well.
    let Ok((chosen, of_plan)) = plan_output::parse_chosen(&text) else { return Ok((given, trees)) };
    trees.retain(|one| *one != chosen);
    trees.insert(0, chosen);
    let more = of_plan.chunks(2).filter(|pair| !given.has(pair[0].trim_start_matches('-'))).flatten().cloned();
    let all: Vec<String> = words.iter().cloned().chain(more).collect();
    Ok((declared().parse(&all)?, trees))
}

/// The trees that the command line names.
fn trees_of_arguments(given: &ParsedOptions) -> Result<TreeEnumeration, CommandFailure> {
    let whole = |trees: Vec<Tree>| TreeEnumeration { trees, left_out: 0 };
    let consumers = given.number_if_given("consumers", 1, u64::from(TREE_CONSUMERS_MAX))?;
    match (given.has("all"), consumers, given.bare()) {
        (true, Some(consumers), []) => Ok(TreeEnumeration::of(consumers as u32)?),
        (true, None, _) => Err(CommandFailure::Usage("--all needs --consumers".to_owned())),
        (true, _, [word, ..]) => {
            Err(CommandFailure::Usage(format!("--all selects the trees; unexpected argument '{word}'")))
        }
        (false, Some(_), _) => Err(CommandFailure::Usage("--consumers needs --all".to_owned())),
        (false, None, []) => Err(CommandFailure::Usage(
            "verify needs trees, as in B-2B-4B-16C, or - to read them from standard input".to_owned(),
        )),
        (false, None, words) => {
            let mut trees = Vec::new();
            for word in words {
                let one = tree(word)?;
                if trees.contains(&one) {
                    return Err(CommandFailure::Usage(format!("{one} is given twice")));
                }
                trees.push(one);
            }
            if trees.len() > LISTED_TREES_MAX {
                return Err(CommandFailure::Usage(format!("at most {LISTED_TREES_MAX} trees are measured")));
            }
            Ok(whole(trees))
        }
    }
}
