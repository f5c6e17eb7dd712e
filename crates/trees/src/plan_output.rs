//! The output of a plan, as a table and as a document, and its parsing by `harrier topology run -`.

use std::fmt::Write;

use planner::{Bottleneck, Candidate, Estimate, LimitingResource, MeasuredRange, Prediction, TreePosition};
use serde_json::{Value, json};
use topology::Tree;

use super::tree_layout::TreeLayout;
use crate::limits::{PLAN_ROUTES_SHOWN_MAX, PLAN_ROWS_SHOWN_MAX};
use harness::arguments::UsageError;

/// The document's schema and version.
pub(super) const SCHEMA: (&str, u32) = ("harrier-plan", 1);
/// Prefix of the table line with the chosen tree.
const CHOSEN: &str = "chosen: ";

/// What a plan prints.
pub(super) struct PlanOutput<'a> {
    /// Lines about its assumptions.
    pub facts: Vec<String>,
    pub front: &'a [Candidate],
    /// One of the front.
    pub chosen: &'a Candidate,
    pub objective: &'static str,
    pub message_bytes: u64,
    pub transport: &'static str,
    pub ack: &'static str,
    /// What was measured.
    pub reach: MeasuredRange,
    /// The size is outside those that were measured.
    pub extrapolates_size: bool,
    pub examined: u64,
    pub layout: TreeLayout<'a>,
}

/// Explains what limits a broker.
pub(super) fn explain_bottleneck(bottleneck: &Bottleneck) -> String {
    let Bottleneck { level, position: place, degree, resource: reason, time_us } = bottleneck;
    let who = match place {
        TreePosition::Alone | TreePosition::Root => "the root".to_owned(),
        TreePosition::Inner => format!("each broker of level {level}"),
        TreePosition::Leaf => format!("each leaf (level {level})"),
    };
    let copies = match (degree, place.is_last()) {
        (1, true) => "1 copy to a consumer".to_owned(),
        (1, false) => "1 copy to a broker".to_owned(),
        (count, true) => format!("{count} copies to consumers"),
        (count, false) => format!("{count} copies to brokers"),
    };
    let time = format!("{} us a message", rounded(time_us.value));
    match reason {
        LimitingResource::Cores => format!("{who}: one message in and {copies} take its busiest thread {time}"),
        LimitingResource::Egress => format!("{who}: {copies} take its outbound link {time}"),
        LimitingResource::Ingress => format!("{who}: one message takes its inbound link {time}"),
        LimitingResource::SharedCores => format!("all brokers together take {time} of the cores that they share"),
    }
}

/// A short form for a column.
fn bottleneck_label(bottleneck: &Bottleneck) -> String {
    let reason = match bottleneck.resource {
        LimitingResource::Cores => "cores",
        LimitingResource::Egress => "egress",
        LimitingResource::Ingress => "ingress",
        LimitingResource::SharedCores => "shared cores",
    };
    let who = match bottleneck.position {
        TreePosition::Alone | TreePosition::Root => "root".to_owned(),
        TreePosition::Inner => format!("level {}", bottleneck.level),
        TreePosition::Leaf => "leaves".to_owned(),
    };
    format!("{who}: {reason}, degree {}", bottleneck.degree)
}

/// Rounds to three significant digits.
fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// What of a tree exceeds everything that was measured.
fn extrapolations(tree: &Tree, reach: &MeasuredRange, beyond_sizes: bool) -> Vec<String> {
    let levels = tree.levels().len() as u32;
    let (consumers, brokers) = (tree.degree(levels - 1), (0..levels - 1).map(|level| tree.degree(level)).max());
    let mut found = Vec::new();
    if beyond_sizes {
        found.push("size".to_owned());
    }
    if consumers > reach.consumers {
        found.push(format!("{consumers} consumers of a broker"));
    }
    if let Some(brokers) = brokers.filter(|&brokers| brokers > reach.brokers) {
        found.push(format!("{brokers} brokers below one"));
    }
    if levels > reach.levels {
        found.push(format!("{levels} levels"));
    }
    found
}

impl PlanOutput<'_> {
    /// For people, and for `run -`.
    pub fn text(&self) -> String {
        let mut text: String = self.facts.iter().map(|fact| format!("# {fact}\n")).collect();
        // Before all other trees, so that a reader of the list sees the chosen one first.
        let Candidate { tree, prediction } = self.chosen;
        let sizes = format!("--sizes {} --transport {} --ack {}", self.message_bytes, self.transport, self.ack);
        let _infallible = writeln!(text, "{CHOSEN}{tree} {sizes}");
        let uneven = if tree.is_uniform() {
            ""
        } else {
            "; if a level does not divide evenly, the first brokers get one child more"
        };
        let _infallible = writeln!(text, "# best by {}{uneven}", self.objective);
        let _infallible = writeln!(text, "# slowest: {}", explain_bottleneck(&prediction.bottleneck));
        let further = extrapolations(tree, &self.reach, self.extrapolates_size);
        if !further.is_empty() {
            let _infallible = writeln!(text, "# EXTRAPOLATED: {}", further.join(", "));
        }
        text.push_str(&loads(prediction));
        let _infallible = writeln!(
            text,
            "# Pareto front of {}, from {} examined subtrees: no other tree is as good or better in rate, latency and brokers",
            count(self.front.len(), "tree", "trees"),
            self.examined
        );
        let width = self.front.iter().map(|one| one.tree.to_string().len()).max().unwrap_or_default().clamp(8, 60);
        let _infallible = writeln!(
            text,
            "# {:<width$}{:>9}{:>13}{:>25}{:>12}{:>23}  Slowest broker",
            "Tree", "Brokers", "Messages/s", "95 % from - to", "Latency us", "95 % from - to"
        );
        let shown = self.shown_indexes();
        for &at in &shown {
            let Candidate { tree, prediction } = &self.front[at];
            let ends = |of: &Estimate| format!("{} - {}", rounded(of.low), rounded(of.high));
            let (latency, between) = match &prediction.latency_us {
                Some(latency) => (rounded(latency.value), ends(latency)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let rate = &prediction.stream_per_s;
            let further = extrapolations(tree, &self.reach, self.extrapolates_size);
            let mark =
                if further.is_empty() { String::new() } else { format!("  EXTRAPOLATED: {}", further.join(", ")) };
            let _infallible = writeln!(
                text,
                "{:<w$}{:>9}{:>13}{:>25}{latency:>12}{between:>23}  {}{mark}",
                tree.to_string(),
                tree.brokers_count(),
                rounded(rate.value),
                ends(rate),
                bottleneck_label(&prediction.bottleneck),
                w = width + 2
            );
        }
        if shown.len() < self.front.len() {
            let _infallible = writeln!(text, "# {} of {}; --json has all", shown.len(), self.front.len());
        }
        let routes = self.layout.routes_count() as usize;
        if routes > 0 {
            let _infallible = writeln!(text, "# {}, the upper ones first", count(routes, "route", "routes"));
            self.layout.commands().take(PLAN_ROUTES_SHOWN_MAX).for_each(|line| text.push_str(&(line + "\n")));
            if routes > PLAN_ROUTES_SHOWN_MAX {
                let _infallible =
                    writeln!(text, "# and so on: --routes FILE writes all of them for harrier route apply");
            }
        }
        text
    }

    /// Indexes of the shown part of the front: all, or an evenly spaced selection with the first, the last and the
    /// chosen one.
    fn shown_indexes(&self) -> Vec<usize> {
        let (all, most) = (self.front.len(), PLAN_ROWS_SHOWN_MAX);
        if all <= most {
            return (0..all).collect();
        }
        let mut shown: Vec<usize> = (0..most).map(|at| at * (all - 1) / (most - 1)).collect();
        shown.extend(self.front.iter().position(|one| one == self.chosen));
        shown.sort_unstable();
        shown.dedup();
        shown
    }

    /// For programs, and for `run -`.
    pub fn document(&self) -> Value {
        let of = |one: &Candidate| self.candidate(one);
        json!({
            "schema": SCHEMA.0,
            "version": SCHEMA.1,
            "facts": self.facts,
            "objective": self.objective,
            "message_bytes": self.message_bytes,
            "transport": self.transport,
            "ack": self.ack,
            "examined": self.examined,
            "chosen": of(self.chosen),
            "front": self.front.iter().map(of).collect::<Vec<_>>(),
            "layout": self.layout.document(),
        })
    }

    fn candidate(&self, Candidate { tree, prediction }: &Candidate) -> Value {
        let Prediction { stream_per_s, latency_us, bottleneck, load } = prediction;
        let load = load.iter().map(|level| {
            json!({"brokers": level.brokers, "least": level.least, "most": level.most, "cores_share": level.cores_share,
                "egress_share": level.egress_share, "ingress_share": level.ingress_share})
        });
        json!({
            "tree": tree.to_string(),
            "is_uniform": tree.is_uniform(),
            "brokers": tree.brokers_count(),
            "stream_per_s": stream_per_s,
            "latency_us": latency_us,
            "bottleneck": {"level": bottleneck.level, "degree": bottleneck.degree, "time_us": bottleneck.time_us,
                "reason": format!("{:?}", bottleneck.resource).to_lowercase(), "why": explain_bottleneck(bottleneck)},
            "levels": load.collect::<Vec<_>>(),
            "extrapolated": extrapolations(tree, &self.reach, self.extrapolates_size),
        })
    }
}

fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The load of each level at the predicted rate.
fn loads(prediction: &Prediction) -> String {
    let share = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let mut text = format!(
        "# {:<8}{:>10}{:>14}{:>10}{:>10}{:>10}\n",
        "Level", "Brokers", "below each", "Cores", "Egress", "Ingress"
    );
    for (level, load) in prediction.load.iter().enumerate() {
        let below =
            if load.least == load.most { load.most.to_string() } else { format!("{} - {}", load.least, load.most) };
        let _infallible = writeln!(
            text,
            "# {level:<8}{:>10}{below:>14}{:>10}{:>10}{:>10}",
            load.brokers,
            share(Some(load.cores_share)),
            share(load.egress_share),
            share(load.ingress_share)
        );
    }
    text
}

/// The tree that a plan has chosen, and the options for its measurement, without the tree.
///
/// # Errors
/// The text is not a plan.
pub(super) fn parse_chosen(text: &str) -> Result<(Tree, Vec<String>), UsageError> {
    let none = || {
        UsageError(
            "standard input is not a plan: it has no line 'chosen: ' as printed by harrier topology plan".to_owned(),
        )
    };
    let tree = |text: &str| text.parse().map_err(|why: topology::TreeParseError| UsageError(why.to_string()));
    if text.trim_start().starts_with('{') {
        let broken = |why: String| UsageError(format!("standard input is not a plan: {why}"));
        let plan: Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        if plan["schema"].as_str() != Some(SCHEMA.0) || plan["version"].as_u64() != Some(u64::from(SCHEMA.1)) {
            let (schema, version) = SCHEMA;
            return Err(broken(format!(
                "it is {} of version {}, not \"{schema}\" of version {version}",
                plan["schema"], plan["version"]
            )));
        }
        let said = |name: &str| plan[name].as_str().ok_or_else(|| broken(format!("it has no {name}")));
        let bytes = plan["message_bytes"].as_u64().ok_or_else(|| broken("it has no message_bytes".to_owned()))?;
        let chosen = plan["chosen"]["tree"].as_str().ok_or_else(|| broken("it has no chosen tree".to_owned()))?;
        let words = ["--sizes", &bytes.to_string(), "--transport", said("transport")?, "--ack", said("ack")?];
        return Ok((tree(chosen)?, words.map(str::to_owned).to_vec()));
    }
    let line = text.lines().find_map(|line| line.strip_prefix(CHOSEN)).ok_or_else(none)?;
    let mut words = line.split_whitespace();
    let tree = tree(words.next().ok_or_else(none)?)?;
    let words: Vec<String> = words.map(str::to_owned).collect();
    // Only these options: a text must not control the measurement in any other way.
    let known = ["--sizes", "--transport", "--ack"];
    let is_known =
        words.chunks(2).all(|pair| pair.len() == 2 && known.contains(&&*pair[0]) && !pair[1].starts_with('-'));
    if is_known {
        Ok((tree, words))
    } else {
        Err(UsageError(format!("standard input is not a plan: '{CHOSEN}{line}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let shown =
            parse_chosen(text).map_or_else(|wrong| wrong.0, |(tree, words)| format!("{tree} {}", words.join(" ")));
        assert!(shown.starts_with(expected), "{text}: {shown}");
    }

    #[test]
    fn the_chosen_tree_is_found() {
        check(
            "# facts\nB-16C 1 2\nchosen: B-3B-16C --sizes 64 --transport tcp --ack none\nharrier route\n",
            "B-3B-16C --sizes 64 --transport tcp --ack none",
        );
        check(
            r#"{"schema":"harrier-plan","version":1,"message_bytes":64,"transport":"unix","ack":"confirm",
                "front":[{"tree":"B-4C"}],"chosen":{"tree":"B-2B-4C"}}"#,
            "B-2B-4C --sizes 64 --transport unix --ack confirm",
        );
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        for (text, expected) in [
            ("", "standard input is not a plan: it has no line 'chosen: '"),
            ("B-16C\n", "standard input is not a plan: it has no line 'chosen: '"),
            ("chosen: tree\n", "'tree' is not a topology"),
            ("chosen: B-C --broker-options x\n", "standard input is not a plan: 'chosen: B-C --broker-options x'"),
            ("chosen: B-C --sizes\n", "standard input is not a plan: 'chosen: B-C --sizes'"),
            ("{", "standard input is not a plan: "),
            (
                r#"{"schema":"harrier-plan","version":2}"#,
                "standard input is not a plan: it is \"harrier-plan\" of version 2",
            ),
            (r#"{"schema":"harrier-plan","version":1}"#, "standard input is not a plan: it has no message_bytes"),
        ] {
            check(text, expected);
        }
    }
}
