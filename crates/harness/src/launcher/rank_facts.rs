//! Facts about a run on many hosts for the document. Hosts are numbered in the order of their first ranks and never named.

use super::assignment::RankAssignment;
use super::clock_mapping::{ClockComparison, ClockMapping};
use super::membership::RankMembership;
use super::rank_controller::RankState;

/// See [`super::one_clock`].
pub fn one_clock(ranks: &[RankState]) -> Result<(), u64> {
    let others: Vec<&RankState> = ranks.iter().filter(|rank| !rank.one_clock).collect();
    if others.is_empty() {
        return Ok(());
    }
    // Times of two ranks are both mapped to rank 0's clock, each with its own error.
    Err(others.iter().filter_map(|rank| rank.clocks.error_ns()).max().unwrap_or(u64::MAX / 2).saturating_mul(2))
}

/// See [`super::facts`].
pub fn of(membership: &RankMembership, ranks: &[RankState], assignment: &RankAssignment) -> Vec<(String, String)> {
    let mut facts = vec![("launcher".to_owned(), launcher(membership, ranks))];
    for host in 0..hosts(ranks) {
        let here = ranks.iter().find(|rank| rank.host_number == host);
        facts.extend(here.map(|rank| (format!("host {host}"), rank.host.environment.line())));
    }
    for (rank, state) in ranks.iter().enumerate() {
        let mut parts = Vec::new();
        for (part, list) in [("publisher", &assignment.publishers), ("consumer", &assignment.consumers)] {
            parts.extend(list.contains(&rank).then_some(part));
        }
        parts.extend((assignment.agent == Some(rank)).then_some("agent"));
        parts.extend((rank == 0).then_some("controller"));
        let part = if parts.is_empty() { "idle".to_owned() } else { parts.join(", ") };
        facts.push((format!("rank {rank}"), format!("host {}: {part}", state.host_number)));
        if rank > 0 {
            facts.push((format!("rank {rank} clock"), clock(state.one_clock, &state.clocks)));
        }
    }
    facts
}

/// See [`super::placement`].
pub fn placement(membership: &RankMembership, ranks: &[RankState], assignment: &RankAssignment) -> String {
    let on = |list: &[usize]| {
        let places: Vec<String> =
            list.iter().map(|&rank| format!("rank {rank} on host {}", ranks[rank].host_number)).collect();
        places.join(" + ")
    };
    let agent = assignment.agent.map(|agent| format!(" agent={}", on(&[agent]))).unwrap_or_default();
    format!(
        "{}: publishers={} consumers={}{agent}",
        launcher(membership, ranks),
        on(&assignment.publishers),
        on(&assignment.consumers)
    )
}

fn hosts(ranks: &[RankState]) -> usize {
    ranks.iter().map(|rank| rank.host_number + 1).max().unwrap_or(0)
}

fn launcher(membership: &RankMembership, ranks: &[RankState]) -> String {
    let hosts = hosts(ranks);
    format!("{}, {} ranks on {hosts} host{}", membership.launcher, ranks.len(), if hosts == 1 { "" } else { "s" })
}

fn clock(one: bool, clocks: &ClockMapping) -> String {
    let shown = |ClockComparison { offset, .. }: ClockComparison| {
        format!("{:+.1} us within {:.1} us", offset.offset_ns as f64 / 1e3, offset.error_ns as f64 / 1e3)
    };
    let (Some(first), Some(last)) = (clocks.first(), clocks.last()) else { return "not compared".to_owned() };
    let drift = clocks.drift_ppm().map(|ppm| format!(", drift {ppm:+.1} ppm")).unwrap_or_default();
    let compared = format!("ahead by {} at first, {} at last{drift}", shown(first), shown(last));
    if one { format!("the same as rank 0's (compared: {compared})") } else { compared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauge::ClockOffset;

    #[test]
    fn clocks_in_words() {
        let mut clocks = ClockMapping::default();
        assert_eq!(clock(true, &clocks), "not compared");
        clocks.add(ClockComparison { at_ns: 0, offset: ClockOffset { offset_ns: -1_500, error_ns: 2_000 } });
        clocks.add(ClockComparison { at_ns: 1_000_000_000, offset: ClockOffset { offset_ns: 8_500, error_ns: 3_000 } });
        let compared = "ahead by -1.5 us within 2.0 us at first, +8.5 us within 3.0 us at last, drift +10.0 ppm";
        assert_eq!(clock(false, &clocks), compared);
        assert_eq!(clock(true, &clocks), format!("the same as rank 0's (compared: {compared})"));
    }
}
