//! `harrier topology plan`: recommends a tree for a number of consumers and a message size, names its bottleneck and
//! prints its routes.
//!
//! Extrapolates beyond the measurements only if asked to, and says so.

use std::path::Path;

use planner::{
    Basis, Candidate, CostSet, CostSource, HostModel, NodeModel, Prediction, Profile, Sharing, SizeCosts,
    TreeRequirements, Unsatisfiable, search,
};
use report::page::write_file;
use report::stdout::put;

use super::plan_output::PlanOutput;
use super::tree_layout::{self, TreeLayout};
use super::tree_options::bits_per_s;
use super::{paper_report, profile_files};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::command_spec::CommandSpec;
use harness::failure::CommandFailure;
use harness::limits::MESSAGE_BYTES_MAX;
use harness::role_protocol::bytes;

const OPTIONS: &[OptionSpec] = &[
    option("consumers", Some('n'), "N", "consumers of the tree"),
    option("size", Some('m'), "S", "bytes of a message, as in 64 or 4K"),
    option("profile", None, "FILE", "what a calibration measured (default profile.json)"),
    option("objective", None, "WHICH", "best by rate (default), latency or brokers: the fewest"),
    option("max-brokers", None, "N", "maximum number of brokers"),
    option("min-rate", None, "R", "minimum rate of one stream, in messages a second"),
    option("hosts", None, "FILE", "hosts for the brokers, an address a line; limits the number of brokers"),
    option("transport", None, "NAME", "between brokers: tcp (default), unix or rdma"),
    option("ack", None, "HOW", "between brokers: none (default), or confirm"),
    option("cores", None, "N", "cores of each broker's host (default: those of the profile)"),
    option("link-rate", None, "RATE", "speed of each host's link, as in 10gbit (default: that of the profile)"),
    option("extrapolate", None, "", "also sizes, degrees and levels that were not measured; marked"),
    option("exchange", None, "NAME", "exchange of the routes (default amq.fanout)"),
    option("routes", None, "FILE", "write the routes for harrier route apply"),
    option("json", None, "", "print everything as JSON"),
    option("paper", None, "", "instead, predict Tables 7 and 8 of the 2009 paper from Tables 1 to 6"),
    option("help", Some('h'), "", "this text"),
];

const ABOUT: &str = "\
Considers all trees for a number of consumers and prints the Pareto front: no other tree is as good or better in rate,
latency and brokers. Recommends the best by the objective (of those within 1 % of the best, the one with the fewest brokers),
names its bottleneck, and prints the load of its brokers and the routes that join them. Each broker has a host of its own.
Costs come from harrier topology calibrate. Nothing is started.";

const EXAMPLES: &[(&str, &str)] = &[
    ("plan --consumers 128 --size 64", "from profile.json"),
    ("plan -n 10000 -m 4K --objective latency --max-brokers 200", "the lowest latency with at most 200 brokers"),
    ("plan -n 16 -m 64 --min-rate 100000 --objective brokers", "the fewest brokers that reach that rate"),
    ("plan -n 16 -m 64 | harrier topology run -", "measures the recommended tree here"),
    ("plan -n 128 -m 64 --hosts hosts.txt --routes routes.toml", "then: harrier route apply routes.toml"),
    ("plan --paper", "how well the model predicts what the 2009 paper measured"),
];

/// Relative difference up to which a tree counts as good as the best.
const EQUALITY_TOLERANCE: f64 = 0.01;
const OBJECTIVES: [&str; 3] = ["rate", "latency", "brokers"];

/// The command as declared.
pub(super) fn declared() -> CommandSpec {
    CommandSpec::new("harrier topology plan --consumers N --size S [OPTIONS]", ABOUT, &[OPTIONS], EXAMPLES)
}

/// Runs the command.
///
/// # Errors
/// Wrong usage, a profile that cannot be used, requirements that cannot be met.
pub(super) fn run(words: &[String]) -> Result<(), CommandFailure> {
    let Some(given) = declared().given(words)? else { return Ok(()) };
    if given.has("paper") {
        if words.len() > 1 {
            return Err(CommandFailure::Usage("--paper excludes all other options".to_owned()));
        }
        return Ok(put(&paper_report::paper()?)?);
    }
    let request = PlanRequest::read(&given)?;
    let file = Path::new(given.text("profile").unwrap_or("profile.json"));
    let profile = profile_files::read(file)?;
    let (costs, resting) = request.costs(&profile, file)?;
    let host = HostModel {
        cores: request.cores.unwrap_or(profile.cores),
        link_bits_per_s: request.link_bits_per_s.or(profile.link_bits_per_s),
        sharing: Sharing::OwnHosts,
    };
    let nodes = NodeModel::new(&costs, host);
    let front = search(&nodes, &request.requirements())
        .map_err(|why| CommandFailure::Usage(request.explain_unsatisfiable(&why, file)))?;
    let chosen = choose(&front.trees, request.objective)
        .ok_or_else(|| CommandFailure::Usage(format!("{}: no latencies were measured", file.display())))?;
    let planned = PlanOutput {
        facts: request.facts(&profile, file, &nodes, resting),
        front: &front.trees,
        chosen,
        objective: request.objective,
        message_bytes: request.message_bytes,
        transport: request.transport,
        ack: request.ack,
        reach: costs.reach,
        extrapolates_size: matches!(resting, CostSource::Beyond(_)),
        examined: front.examined,
        layout: TreeLayout::new(
            &chosen.tree,
            request.hosts.as_deref(),
            &request.exchange,
            request.transport,
            request.ack,
        ),
    };
    if let Some(file) = given.text("routes") {
        write_file(file.as_ref(), &planned.layout.file())?;
    }
    match given.has("json") {
        true => Ok(put(&format!("{}\n", planned.document()))?),
        false => Ok(put(&planned.text())?),
    }
}

/// What the command line asks for.
struct PlanRequest {
    consumers: u32,
    message_bytes: u64,
    objective: &'static str,
    brokers_max: Option<u32>,
    rate_min: Option<f64>,
    hosts: Option<Vec<String>>,
    transport: &'static str,
    ack: &'static str,
    cores: Option<u32>,
    link_bits_per_s: Option<u64>,
    beyond: bool,
    exchange: String,
}

impl PlanRequest {
    fn read(given: &ParsedOptions) -> Result<Self, CommandFailure> {
        let (Some(consumers), Some(size)) =
            (given.number_if_given("consumers", 0, u64::from(u32::MAX))?, given.text("size"))
        else {
            return Err(CommandFailure::Usage(
                "plan needs to know --consumers N, and --size S of their messages".to_owned(),
            ));
        };
        let message_bytes = bytes(size).map_err(UsageError)?;
        if !(1..=MESSAGE_BYTES_MAX).contains(&message_bytes) {
            return Err(CommandFailure::Usage(format!(
                "--size: messages have from 1 to {MESSAGE_BYTES_MAX} bytes, not {size}"
            )));
        }
        let rate_min = given.text("min-rate").map(|_| given.decimal("min-rate", 0.0, 0.0, 1e12)).transpose()?;
        let exchange = given.text("exchange").unwrap_or("amq.fanout");
        if exchange.is_empty() || exchange.contains(char::is_whitespace) {
            return Err(CommandFailure::Usage(format!("--exchange is a name without spaces, not '{exchange}'")));
        }
        Ok(Self {
            consumers: consumers as u32,
            message_bytes: message_bytes as u64,
            objective: given.one_of("objective", &OBJECTIVES)?,
            brokers_max: given.number_if_given("max-brokers", 0, u64::from(u32::MAX))?.map(|most| most as u32),
            rate_min,
            hosts: given.text("hosts").map(|file| tree_layout::hosts(file.as_ref())).transpose()?,
            transport: given.one_of("transport", &["tcp", "unix", "rdma"])?,
            ack: given.one_of("ack", &["none", "confirm"])?,
            cores: given.number_if_given("cores", 1, 4_096)?.map(|cores| cores as u32),
            link_bits_per_s: given.text("link-rate").map(bits_per_s).transpose()?,
            beyond: given.has("extrapolate"),
            exchange: exchange.to_owned(),
        })
    }

    fn requirements(&self) -> TreeRequirements {
        let hosts = self.hosts.as_ref().map(|hosts| hosts.len() as u32);
        let brokers_max = [self.brokers_max, hosts].into_iter().flatten().min();
        TreeRequirements { consumers: self.consumers, brokers_max, rate_min: self.rate_min, extrapolate: self.beyond }
    }

    fn costs(&self, profile: &Profile, file: &Path) -> Result<(SizeCosts, CostSource), CommandFailure> {
        let Self { transport, ack, message_bytes, .. } = self;
        let file = file.display();
        let set = profile.costs_of(transport, ack).ok_or_else(|| {
            let has = |set: &CostSet| format!("{} with ack {}", set.transport, set.ack);
            let known: Vec<String> = profile.costs.iter().map(has).collect();
            CommandFailure::Usage(format!(
                "{file} has no costs over {transport} with ack {ack}; it has {}",
                known.join(", ")
            ))
        })?;
        set.for_size(*message_bytes, self.beyond).map_err(|why| {
            let hint = match why {
                planner::MissingCosts::Beyond(..) => " (--extrapolate accepts that, and marks it)",
                _ => "",
            };
            CommandFailure::Usage(format!("{file} has no costs of messages of {message_bytes} bytes: {why}{hint}"))
        })
    }

    /// Which requirement cannot be met, with the name of its option.
    fn explain_unsatisfiable(&self, why: &Unsatisfiable, file: &Path) -> String {
        let brokers = match (&self.hosts, self.brokers_max) {
            (Some(hosts), most) if most.is_none_or(|most| hosts.len() as u64 <= u64::from(most)) => {
                format!("--hosts with {} of them", hosts.len())
            }
            (_, most) => format!("--max-brokers {}", most.unwrap_or_default()),
        };
        let rate = format!("--min-rate {}", self.rate_min.unwrap_or_default());
        match why {
            Unsatisfiable::NoConsumers | Unsatisfiable::TooManyConsumers => {
                format!("--consumers {}: {why}", self.consumers)
            }
            Unsatisfiable::Reach { .. } => {
                let file = file.display();
                format!("--consumers {}: in {file} {why} (--extrapolate accepts that, and marks it)", self.consumers)
            }
            Unsatisfiable::Brokers { .. } => format!("{brokers}: {why}"),
            Unsatisfiable::Rate { .. } => format!("{rate}: {why}"),
            Unsatisfiable::Together { .. } => format!("{rate} and {brokers}: {why}"),
        }
    }

    /// What a reader should know before the figures.
    fn facts(&self, profile: &Profile, file: &Path, nodes: &NodeModel<'_>, resting: CostSource) -> Vec<String> {
        let Self { consumers, message_bytes, transport, ack, .. } = self;
        let link = match nodes.host.link_bits_per_s {
            Some(bits) => format!("a link of {} Mbit/s", bits / 1_000_000),
            None => "an unlimited link (--link-rate)".to_owned(),
        };
        let costs = match nodes.costs.basis {
            Basis::Wall => {
                format!("costs are times between messages, from brokers on hosts of their own; each has {link} here")
            }
            Basis::Processor => format!(
                "costs are processor time, from one host that all nodes shared: rates follow for brokers with a host each, \
                 of {} ({}) and {link}",
                plural(nodes.host.cores, "core"),
                plural(nodes.shards(), "shard")
            ),
        };
        let mut facts = vec![
            format!(
                "harrier topology plan: {consumers} consumers, messages of {message_bytes} bytes, over {transport}, ack {ack}"
            ),
            format!("{}: {}", file.display(), profile_files::conditions(profile)),
            costs,
        ];
        match resting {
            CostSource::Measured => {}
            CostSource::Between(less, more) => {
                facts.push(format!("this size was not measured; interpolated between {less} and {more} bytes"));
            }
            CostSource::Beyond(nearest) => {
                facts.push(format!(
                    "EXTRAPOLATED: this size was not measured; the nearest measured size is {nearest} bytes"
                ));
            }
        }
        facts
    }
}

fn plural(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The best tree of a front by an objective; `None` for the lowest latency if none was measured.
fn choose<'a>(front: &'a [Candidate], objective: &str) -> Option<&'a Candidate> {
    let rate = |one: &Candidate| one.prediction.stream_per_s.value;
    let latency = |one: &Candidate| one.prediction.latency_us.map_or(0.0, |us| us.value);
    let by = |value: fn(&Prediction) -> Option<f64>| -> Option<Vec<&'a Candidate>> {
        let values = front.iter().map(|one| value(&one.prediction)).collect::<Option<Vec<f64>>>()?;
        let best = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some(
            front
                .iter()
                .zip(values)
                .filter(|(_, value)| *value <= best * (1.0 + EQUALITY_TOLERANCE))
                .map(|(one, _)| one)
                .collect(),
        )
    };
    let good = match objective {
        // The time between messages: the lowest is best.
        "rate" => by(|prediction| Some(1.0 / prediction.stream_per_s.value))?,
        "latency" => by(|prediction| prediction.latency_us.map(|us| us.value))?,
        _ => front.iter().collect(),
    };
    good.into_iter().min_by(|one, two| {
        let brokers = one.tree.brokers_count().cmp(&two.tree.brokers_count());
        brokers.then(rate(two).total_cmp(&rate(one))).then(latency(one).total_cmp(&latency(two)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::{paper, paper_comparison};

    fn given(line: &str) -> Result<ParsedOptions, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ParsedOptions::parse(&words, &[OPTIONS])
    }

    /// The costs of the paper's first six tables.
    fn of_the_paper() -> Profile {
        let observations = paper::observations(1..=6);
        let costs = planner::fit(&observations, Sharing::OwnHosts).expect("costs");
        Profile {
            schema: planner::SCHEMA.to_owned(),
            version: planner::VERSION,
            sharing: Sharing::OwnHosts,
            cores: 8,
            link_bits_per_s: None,
            made_by: "the paper".to_owned(),
            observations,
            costs,
        }
    }

    fn chosen(line: &str) -> Result<String, String> {
        let told = |failure: CommandFailure| failure.to_string();
        let request = PlanRequest::read(&given(line).map_err(|wrong| wrong.0)?).map_err(told)?;
        let (profile, file) = (of_the_paper(), Path::new("p.json"));
        let (costs, _) = request.costs(&profile, file).map_err(told)?;
        let host = HostModel { cores: profile.cores, link_bits_per_s: None, sharing: Sharing::OwnHosts };
        let nodes = NodeModel::new(&costs, host);
        let front = search(&nodes, &request.requirements()).map_err(|why| request.explain_unsatisfiable(&why, file))?;
        Ok(choose(&front.trees, request.objective).ok_or("no latencies")?.tree.to_string())
    }

    /// For small messages the paper recommends two brokers below each, and at most four consumers on a leaf.
    #[test]
    fn from_the_paper_s_costs_comes_the_paper_s_advice() {
        assert!(paper_comparison::compare_with_paper().is_ok());
        for size in ["64", "256", "1K", "4K"] {
            let tree: topology::Tree = chosen(&format!("-n 16 -m {size}")).expect(size).parse().expect("a tree");
            let leaves = tree.levels().len() as u32 - 1;
            assert!((0..leaves).all(|level| tree.degree(level) <= 2) && tree.degree(leaves) <= 4, "{size}: {tree}");
        }
    }

    #[test]
    fn objectives_and_constraints_choose() {
        // Within 1 % of the best: three of four brokers on the last level have one consumer less.
        assert_eq!(chosen("-n 8 -m 64 --objective brokers").as_deref(), Ok("B-8C"));
        assert_eq!(chosen("-n 16 -m 64 --objective brokers").as_deref(), Ok("B-2B-16C"));
        for (line, why) in [
            ("-n 0 -m 64", "--consumers 0: a tree without consumers delivers nothing"),
            ("-n 16 -m 64 --max-brokers 2", "--max-brokers 2: 3 brokers are needed at least, as in B-2B-16C"),
            ("-n 16 -m 64 --min-rate 100000", "--min-rate 100000: no tree is predicted to be faster than "),
            (
                "-n 16 -m 64 --min-rate 10000 --max-brokers 4",
                "--min-rate 10000 and --max-brokers 4: either is possible",
            ),
            ("-n 100000 -m 64", "--consumers 100000: in p.json 5 levels, 4 brokers below a broker and 8 consumers"),
            (
                "-n 16 -m 1M",
                "p.json has no costs of messages of 1048576 bytes: messages of 64 to 262144 bytes were measured (--ex",
            ),
            ("-n 16 -m 64 --ack confirm", "p.json has no costs over tcp with ack confirm; it has tcp with ack none"),
            ("-n 16 -m 64 --objective latency", "no latencies"),
            ("-n 16", "plan needs to know --consumers N, and --size S"),
            ("-n 16 -m 0", "--size: messages have from 1 to"),
            ("-n 16 -m 64 --objective speed", "--objective is one of rate, latency, brokers"),
            ("-n 16 -m 64 --min-rate -1", "--min-rate is a number from 0"),
            ("-n 16 -m 64 --hosts /nowhere/hosts", "/nowhere/hosts: "),
        ] {
            let told = chosen(line).expect_err(line);
            assert!(told.starts_with(why), "{line}: {told}");
        }
        assert!(chosen("-n 100000 -m 64 --extrapolate").is_ok());
        assert!(chosen("-n 16 -m 1M --extrapolate").is_ok());
    }
}
