//! What connections that are gone have carried, by virtual host: the counts of a virtual host never fall.
//!
//! Enters: the traffic of each connection that ends.  Leaves: the counts that a reader of reports does not know yet.

use crate::connection_traffic::ConnectionTraffic;
use crate::limits::CLOSED_TRAFFIC_SPARE;
use catalog::VhostId;
use std::collections::{BTreeMap, VecDeque};

struct VhostTotal {
    traffic: ConnectionTraffic,
    /// A reader of reports knows it as it is.
    is_reported: bool,
}

/// The counts of each virtual host in which a connection has ended.
#[derive(Default)]
pub(crate) struct ClosedTraffic {
    totals: BTreeMap<VhostId, VhostTotal>,
    /// How many there may be before those of virtual hosts that are gone are removed.
    totals_max: usize,
    is_read: bool,
    /// From here on a new reader knows nothing; `None`: it knows the whole table.
    next: Option<VhostId>,
    changed: VecDeque<VhostId>,
}

impl ClosedTraffic {
    /// A connection in a virtual host is gone. `is_there`: whether there still is a virtual host.
    pub fn add(&mut self, vhost: VhostId, traffic: ConnectionTraffic, is_there: impl Fn(VhostId) -> bool) {
        if !is_there(vhost) {
            self.totals.remove(&vhost);
            return;
        }
        if self.totals.len() >= self.totals_max.max(CLOSED_TRAFFIC_SPARE) && !self.totals.contains_key(&vhost) {
            self.totals.retain(|vhost, _| is_there(*vhost));
            self.changed.retain(|vhost| self.totals.contains_key(vhost));
            self.totals_max = self.totals.len() * 2;
        }
        let new = || VhostTotal { traffic: ConnectionTraffic::default(), is_reported: true };
        let total = self.totals.entry(vhost).or_insert_with(new);
        total.traffic += traffic;
        if self.is_read && std::mem::take(&mut total.is_reported) {
            self.changed.push_back(vhost);
        }
    }

    /// A reader has come, which knows nothing.
    pub fn start(&mut self) {
        (self.is_read, self.next) = (true, Some(VhostId(0)));
        self.changed.clear();
    }

    /// Nobody reads any more.
    pub fn stop(&mut self) {
        (self.is_read, self.next) = (false, None);
        self.changed.clear();
    }

    /// The next virtual host that a reader is to be told of.
    pub fn next_report(&mut self) -> Option<(VhostId, ConnectionTraffic)> {
        if let Some(from) = self.next {
            if let Some((vhost, total)) = self.totals.range_mut(from..).next() {
                self.next = Some(VhostId(vhost.0 + 1));
                total.is_reported = true;
                return Some((*vhost, total.traffic));
            }
            self.next = None;
        }
        while let Some(vhost) = self.changed.pop_front() {
            if let Some(total) = self.totals.get_mut(&vhost) {
                total.is_reported = true;
                return Some((vhost, total.traffic));
            }
        }
        None
    }

    /// Whether a reader knows everything.
    pub fn is_reported(&self) -> bool {
        self.next.is_none() && self.changed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::ClosedTraffic;
    use crate::connection_traffic::ConnectionTraffic;
    use crate::limits::CLOSED_TRAFFIC_SPARE;
    use catalog::VhostId;

    fn bytes(received_bytes: u64) -> ConnectionTraffic {
        ConnectionTraffic { received_bytes, receives: 1, ..ConnectionTraffic::default() }
    }

    /// Virtual hosts by number, with the bytes received there.
    fn told(closed: &mut ClosedTraffic) -> Vec<(u32, u64)> {
        let told = std::iter::from_fn(|| closed.next_report());
        told.map(|(vhost, traffic)| (vhost.0, traffic.received_bytes)).collect()
    }

    #[test]
    fn a_reader_is_told_sums_once_and_again_when_they_grow() {
        let mut closed = ClosedTraffic::default();
        for (vhost, sum) in [(1, 5), (2, 7), (1, 6)] {
            closed.add(VhostId(vhost), bytes(sum), |_| true);
        }
        assert!(closed.is_reported() && told(&mut closed).is_empty(), "nobody reads");
        closed.start();
        assert!(!closed.is_reported());
        assert_eq!(told(&mut closed), [(1, 11), (2, 7)]);
        assert!(closed.is_reported() && told(&mut closed).is_empty());
        closed.add(VhostId(2), bytes(1), |_| true);
        assert!(!closed.is_reported());
        assert_eq!(told(&mut closed), [(2, 8)]);
        // The next reader knows nothing, and what changes before it is told of it is told again or at once.
        closed.add(VhostId(1), bytes(1), |_| true);
        closed.stop();
        closed.add(VhostId(2), bytes(1), |_| true);
        closed.start();
        closed.add(VhostId(1), bytes(1), |_| true);
        closed.add(VhostId(2), bytes(1), |_| true);
        let told_last = |told: Vec<(u32, u64)>, vhost| told.into_iter().rfind(|(of, _)| *of == vhost);
        let all = told(&mut closed);
        assert_eq!((told_last(all.clone(), 1), told_last(all, 2)), (Some((1, 13)), Some((2, 10))));
        assert!(closed.is_reported());
        closed.add(VhostId(2), bytes(1), |_| true);
        assert_eq!(told(&mut closed), [(2, 11)]);
    }

    #[test]
    fn virtual_hosts_that_are_gone_take_no_memory_for_good() {
        let mut closed = ClosedTraffic::default();
        closed.start();
        let many = 10 * CLOSED_TRAFFIC_SPARE as u32;
        for vhost in 0..many {
            // There are two at a time.
            closed.add(VhostId(vhost), bytes(1), |known| known.0 + 1 >= vhost);
            assert!(closed.totals.len() <= CLOSED_TRAFFIC_SPARE && closed.changed.len() <= CLOSED_TRAFFIC_SPARE);
        }
        closed.add(VhostId(many - 1), bytes(1), |_| false);
        assert!(!closed.totals.contains_key(&VhostId(many - 1)));
    }
}
