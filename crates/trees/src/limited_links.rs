//! Trees on links of limited speed: the share that each delivers of what its narrowest link allows, and the best tree
//! against one broker.
//!
//! What a link allows excludes the headers of TCP and below.

use topology::Tree;

use super::federation_goals::FederationGoals;
use super::live_tree::TreePlan;
use super::paper;
use super::tree_environment::NodeHosting;
use super::tree_measurement::MeasurementEffort;
use super::tree_segment_figures::TreeSegmentFigures;
use gauge::HostEnvironment;
use harness::arguments::ParsedOptions;
use harness::failure::CommandFailure;
use load::perf_table::GoalBound;

const FLAT: &str = "B-16C";
const SIZE_BYTES: usize = 64 << 10;
const SHARE_MIN: f64 = 0.9;
const BEST_ERROR_MAX: f64 = 0.1;
const SECONDS_MIN: f64 = 3.0;
/// The theory assumes that the streams of a link share it evenly. Those of bbr do not: one child gets its messages
/// late, and its own link, as busy as its parent's, cannot make up for that (0.85 instead of 0.99 of what B-4B-16C is
/// allowed).
const FAIR_CONTROL: &str = "cubic";
/// The share of an Ethernet frame that is TCP payload: 1,500 bytes without the headers of IP and of TCP with a
/// timestamp, and 14 more for the frame's own.
const CARRIED: f64 = 1_448.0 / 1_514.0;

/// Broker options that make streams share a link evenly; `None` if the command line has others, or the kernel lacks
/// that congestion control.
pub(super) fn fair_options(given: &ParsedOptions) -> Option<Vec<String>> {
    let is_fair = !given.has("broker-options")
        && HostEnvironment::read().congestion_controls.iter().any(|name| name == FAIR_CONTROL);
    is_fair.then(|| ["--tcp-congestion", FAIR_CONTROL].map(str::to_owned).to_vec())
}

/// Bytes on the link for this many bytes of TCP payload.
pub(super) fn with_heads(bytes: f64) -> f64 {
    bytes / CARRIED
}

/// Copies of each message on the busiest link of a tree: those of the broker with the most children.
fn copies_max(tree: &Tree) -> u32 {
    (0..).take(tree.levels().len()).map(|level| tree.degree(level)).max().unwrap_or(1)
}

/// What all consumers together can get, in MB/s: each stream as fast as the busiest link carries its copies.
fn allowed_mb_per_s(tree: &Tree, bits_per_s: u64) -> f64 {
    let stream = bits_per_s as f64 / 8e6 * CARRIED / f64::from(copies_max(tree));
    stream * f64::from(tree.consumers())
}

pub(super) fn run(goals: &mut FederationGoals<'_>, bits_per_s: u64) -> Result<(), CommandFailure> {
    let mut notations = vec![FLAT];
    notations.extend(paper::topologies("sixteen-consumers"));
    let hosting = NodeHosting::Namespaces(Some(bits_per_s));
    let seconds = if goals.given.has("seconds") { goals.effort.seconds } else { SECONDS_MIN };
    let usual = goals.effort;
    goals.effort = MeasurementEffort { seconds, ..usual };
    let mut plans =
        notations.iter().map(|notation| goals.plan(notation, "none", 0)).collect::<Result<Vec<TreePlan>, _>>()?;
    let fair = fair_options(goals.given);
    let with = if fair.is_some() { format!("; TCP {FAIR_CONTROL}") } else { String::new() };
    if let Some(options) = fair {
        plans.iter_mut().for_each(|plan| plan.broker_options.clone_from(&options));
    }
    let all = match goals.measure_interleaved(&plans, &hosting, SIZE_BYTES) {
        // Without root or iproute2 the other parts still run.
        Err(CommandFailure::Failed(why)) if why.contains("--namespaces") => Err(why),
        all => Ok(all?),
    };
    let mut flat = None;
    let mut best: Option<(&str, f64, f64)> = None;
    for (index, (notation, plan)) in notations.iter().zip(&plans).enumerate() {
        let what = format!("{notation}, 64 KiB: delivered, as a share of what its narrowest link allows");
        let bound = GoalBound::AtLeast(SHARE_MIN);
        let measured = match all.as_ref().map(|all| all.get(index)) {
            Ok(Some(measured)) => measured,
            Ok(None) => continue,
            Err(why) => {
                goals.row(&what, bound, None, why.clone())?;
                continue;
            }
        };
        let (got, allowed) =
            (measured.median(TreeSegmentFigures::aggregate_mb_per_s), allowed_mb_per_s(&plan.tree, bits_per_s));
        let (copies, raw) = (copies_max(&plan.tree), allowed / CARRIED);
        let detail = format!(
            "{got:.1} of {allowed:.1} MB/s aggregate ({raw:.1} with headers): the narrowest link has {copies} copies{with}"
        );
        goals.row(&what, bound, Some(got / allowed), detail)?;
        match *notation {
            FLAT => flat = Some((got, allowed)),
            _ if best.is_none_or(|(_, most, _)| got > most) => best = Some((notation, got, allowed)),
            _ => {}
        }
    }
    goals.effort = usual;
    if let (Some((flat, flat_allowed)), Some((notation, got, allowed))) = (flat, best) {
        let (times, theory) = (got / flat, allowed / flat_allowed);
        goals.row(
            &format!("{notation}, the best, against {FLAT}: relative distance from the theory"),
            GoalBound::AtMost(BEST_ERROR_MAX),
            Some((times / theory - 1.0).abs()),
            format!("{times:.2} times; theory {theory:.2}"),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_link_decides() {
        for (notation, copies) in [
            ("B-16C", 16),
            ("B-2B-16C", 8),
            ("B-4B-16C", 4),
            ("B-2B-4B-16C", 4),
            ("B-4B-8B-16C", 4),
            ("B-2B-4B-8B-16C", 2),
            ("B-B-C", 1),
        ] {
            let tree: Tree = notation.parse().expect("a tree");
            assert_eq!(copies_max(&tree), copies, "{notation}");
        }
    }

    #[test]
    fn a_flat_broker_delivers_its_link_and_a_binary_tree_eight_times_that() {
        let of = |notation: &str| allowed_mb_per_s(&notation.parse().expect("a tree"), 200_000_000);
        assert!((of("B-16C") - 25.0 * CARRIED).abs() < 1e-9);
        assert!((of("B-2B-4B-8B-16C") / of("B-16C") - 8.0).abs() < 1e-9);
    }
}
