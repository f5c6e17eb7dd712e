//! What connections in each virtual host have carried on each shard, those that are gone included.
//!
//! Enters: what shards tell of connections that are gone, and once a round those that are open.  Leaves: counts that never fall.

use crate::management::live_tables::first;
use crate::management::rated::{Rated, Round};
use catalog::VhostId;
use shard::ConnectionTraffic;
use std::collections::HashMap;

/// By the number of the shard and the virtual host.
type VhostKey = (u16, VhostId);

#[derive(Default)]
pub struct VhostTraffic {
    closed: HashMap<VhostKey, ConnectionTraffic>,
    all: HashMap<VhostKey, Rated<ConnectionTraffic>>,
}

impl VhostTraffic {
    /// A shard tells of connections that are gone: sums since its start.
    pub fn take_closed(&mut self, shard: u16, told: Vec<(VhostId, ConnectionTraffic)>) {
        self.closed.extend(told.into_iter().map(|(vhost, traffic)| ((shard, vhost), traffic)));
    }

    /// Adds up what there is now: every shard has told everything. `rounds` has each shard's, and whether what it tells of for the
    /// first time is new.
    pub fn end_round(
        &mut self,
        open: impl Iterator<Item = (u16, VhostId, ConnectionTraffic)>,
        rounds: &[(Round, bool)],
        is_there: impl Fn(VhostId) -> bool,
    ) {
        self.closed.retain(|(_, vhost), _| is_there(*vhost));
        self.all.retain(|(_, vhost), _| is_there(*vhost));
        let mut sums = self.closed.clone();
        for (shard, vhost, traffic) in open.filter(|(_, vhost, _)| is_there(*vhost)) {
            *sums.entry((shard, vhost)).or_default() += traffic;
        }
        for (key, sum) in sums {
            let Some((round, is_new)) = rounds.get(usize::from(key.0)).copied() else { continue };
            match self.all.get_mut(&key) {
                Some(known) if *known.now() != sum => known.update(sum, round),
                Some(_) => {}
                None => _ = self.all.insert(key, first(sum, round, is_new)),
            }
        }
    }

    pub fn get(&self, shard: u16, vhost: VhostId) -> Option<&Rated<ConnectionTraffic>> {
        self.all.get(&(shard, vhost))
    }
}

#[cfg(test)]
mod tests {
    use super::VhostTraffic;
    use crate::management::rated::Round;
    use catalog::VhostId;
    use shard::ConnectionTraffic;

    fn bytes(received_bytes: u64) -> ConnectionTraffic {
        ConnectionTraffic { received_bytes, ..ConnectionTraffic::default() }
    }

    #[test]
    fn a_connection_that_ends_takes_nothing_away_and_makes_no_rate() {
        let (mut traffic, vhost) = (VhostTraffic::default(), VhostId(3));
        let rounds = |number| [(Round { number, seconds: 2.0 }, number > 1)];
        let told = |traffic: &VhostTraffic, round| {
            let count = traffic.get(0, vhost).expect("it is known").count(round, |of| of.received_bytes);
            (count.total, count.rate)
        };
        let open = |sum: u64| [(0, vhost, bytes(sum)), (0, vhost, bytes(5)), (1, vhost, bytes(7))].into_iter();
        traffic.end_round(open(10), &rounds(1), |_| true);
        assert_eq!(told(&traffic, 1), (15, 0.0), "what was carried before has no rate");
        assert!(traffic.get(1, vhost).is_none(), "that shard has told nothing yet");
        traffic.end_round(open(30), &rounds(2), |_| true);
        assert_eq!(told(&traffic, 2), (35, 10.0));
        traffic.take_closed(0, vec![(vhost, bytes(35))]);
        traffic.end_round([].into_iter(), &rounds(3), |_| true);
        assert_eq!((told(&traffic, 3), told(&traffic, 2)), ((35, 0.0), (35, 10.0)), "it has not changed");
        // One that comes between two rounds counts for the second.
        traffic.end_round([(0, VhostId(9), bytes(8))].into_iter(), &rounds(4), |_| true);
        assert_eq!(traffic.get(0, VhostId(9)).expect("new").count(4, |of| of.received_bytes).rate, 4.0);
        traffic.end_round([].into_iter(), &rounds(5), |known| known != vhost);
        assert!(traffic.get(0, vhost).is_none() && traffic.closed.is_empty());
    }
}
