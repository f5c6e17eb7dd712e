//! Connections between brokers: the dials that their shards request, whether they succeed, and how soon one may be repeated.

use crate::schedule::Workload;
use crate::world::SimulatedWorld;
use federation::LinkLogin;
use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN, REFUSED_WAIT};
use link::sim::{SimConnection, SimSide, pair};
use shard::{DialError, DialRequest, DialedLink};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An end of a connection between two brokers.
#[derive(Clone, Copy, Debug)]
pub struct LinkEnd {
    pub broker: usize,
    /// Which of the broker's lives.
    pub life: u32,
}

/// A connection between two brokers.
pub struct SimulatedLink {
    /// The broker that dialled is on the left.
    pub cable: SimConnection,
    /// The left end first.
    pub ends: [LinkEnd; 2],
    /// It will be cut when some more bytes have passed.
    pub is_marked_cut: bool,
}

/// A dial that is under way.
struct PendingDial {
    broker: usize,
    life: u32,
    shard: usize,
    dial: DialRequest,
    due: Instant,
}

/// Identifies one direction of a federation link at the broker that dials.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DialOrigin {
    broker: usize,
    url: Box<str>,
    shard: usize,
    /// The shard's number for the link and direction.
    link: shard::FederationLinkId,
}

impl DialOrigin {
    fn new(broker: usize, shard: usize, dial: &DialRequest) -> Self {
        DialOrigin { broker, url: dial.url.clone(), shard, link: dial.link }
    }
}

/// The last failure of a direction of a link.
#[derive(Clone, Copy, Debug)]
struct DialFailure {
    at: Instant,
    /// How many dials have failed one after the other.
    tries: u32,
    /// How long the broker must wait at least.
    wait_min: Duration,
}

/// A connection that a broker has dialled, until the broker has lost it.
struct DialledConnection {
    origin: DialOrigin,
    cable: SimConnection,
}

/// All connections between brokers.
#[derive(Default)]
pub struct BrokerLinks {
    /// The connections that run.
    pub open: Vec<SimulatedLink>,
    pending: Vec<PendingDial>,
    failures: BTreeMap<DialOrigin, DialFailure>,
    dialled: Vec<DialledConnection>,
}

/// The least back-off after so many failures.
fn back_off_min(tries: u32) -> Duration {
    (BACK_OFF_MIN * (1 << tries.saturating_sub(1).min(10))).min(BACK_OFF_MAX) / 2
}

impl BrokerLinks {
    /// Accepts the dials that shards request, and completes those that are due. Returns whether there were any.
    pub fn poll<W: Workload>(world: &mut SimulatedWorld, workload: &mut W) -> bool {
        let mut links = std::mem::take(&mut world.links);
        links.record_losses(world.clock.now);
        let mut moved = links.accept_dials(world);
        for dial in links.due_dials(world) {
            moved = true;
            links.complete_dial(dial, world, workload);
        }
        links.open.retain(|link| !link.cable.is_closed(SimSide::Left) && !link.cable.is_closed(SimSide::Right));
        world.links = links;
        moved
    }

    /// Whether dials are under way.
    pub fn is_dialing(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A change of configuration lets a broker dial an address at once.
    pub fn forget_failures(&mut self, broker: usize, url: &str) {
        self.failures.retain(|origin, _| origin.broker != broker || *origin.url != *url);
        self.dialled.retain(|one| one.origin.broker != broker || *one.origin.url != *url);
    }

    /// A broker is stopped: it forgets whom it has dialled and whose login it has refused.
    pub fn forget_broker(&mut self, broker: usize) {
        self.failures.retain(|origin, _| origin.broker != broker);
        let address = format!("@b{broker}/");
        self.failures.retain(|origin, failure| failure.wait_min < REFUSED_WAIT / 2 || !origin.url.contains(&address));
        self.dialled.retain(|one| one.origin.broker != broker);
    }

    /// Brokers wait before they replace a connection that they have lost. How many tries failed before is not known here,
    /// because a route may have run.
    fn record_losses(&mut self, now: Instant) {
        let failures = &mut self.failures;
        self.dialled.retain(|DialledConnection { origin, cable }| {
            let is_lost = cable.is_closed(SimSide::Left);
            if is_lost {
                let failure = DialFailure { at: now, tries: 1, wait_min: back_off_min(1) };
                failures.entry(origin.clone()).or_insert(failure);
            }
            !is_lost
        });
    }

    /// Accepts the dials that shards request.
    fn accept_dials(&mut self, world: &mut SimulatedWorld) -> bool {
        let mut moved = false;
        for broker in 0..world.brokers.len() {
            if !world.brokers[broker].is_up {
                continue;
            }
            for shard in 0..world.brokers[broker].shards.len() {
                while let Some(dial) = world.brokers[broker].shards[shard].shard.next_dial() {
                    moved = true;
                    world.tally.dials += 1;
                    world.trace.note(|| format!("b{broker} dials {}", dial.url));
                    let too_early = self.check_back_off(&DialOrigin::new(broker, shard, &dial), world.clock.now);
                    too_early.into_iter().for_each(|violation| world.trace.fail(violation));
                    let due = world.clock.now + Duration::from_micros(world.chance.below(3_000));
                    let life = world.brokers[broker].lives;
                    self.pending.push(PendingDial { broker, life, shard, dial, due });
                }
            }
        }
        moved
    }

    /// What is wrong with a dial, if the broker should have waited longer.
    fn check_back_off(&self, origin: &DialOrigin, now: Instant) -> Option<String> {
        let &DialFailure { at, tries, wait_min } = self.failures.get(origin)?;
        let waited = now.duration_since(at);
        let DialOrigin { broker, url, .. } = origin;
        (waited < wait_min).then(|| format!("b{broker} dials {url} again after {waited:?}; {tries} tries have failed"))
    }

    /// Removes the dials that are due, and drops those of brokers that were stopped.
    fn due_dials(&mut self, world: &SimulatedWorld) -> Vec<PendingDial> {
        let is_alive = |dial: &PendingDial| {
            let broker = &world.brokers[dial.broker];
            broker.is_up && broker.lives == dial.life
        };
        let pending = std::mem::take(&mut self.pending).into_iter().filter(is_alive);
        let (due, later) = pending.partition(|dial| dial.due <= world.clock.now);
        self.pending = later;
        due
    }

    fn complete_dial<W: Workload>(&mut self, pending: PendingDial, world: &mut SimulatedWorld, workload: &mut W) {
        let PendingDial { broker, shard, dial, .. } = pending;
        let target =
            dial.url.rsplit_once("@b").and_then(|(_, rest)| rest.split('/').next()).and_then(|n| n.parse().ok());
        let Some(target) = target.filter(|target: &usize| *target < world.brokers.len()) else {
            return world.trace.fail(format!("b{broker} dials {}", dial.url));
        };
        let now = world.clock.now;
        let origin = DialOrigin::new(broker, shard, &dial);
        let fails = world.faults.draw_dial_failure(&mut world.chance);
        if fails || !world.brokers[target].is_up {
            let tries = self.failures.get(&origin).map_or(0, |failure| failure.tries) + 1;
            let is_refusal = world.faults.draw_dial_refusal(&mut world.chance);
            let wait_min = if is_refusal { REFUSED_WAIT / 2 } else { back_off_min(tries) };
            self.failures.insert(origin, DialFailure { at: now, tries, wait_min });
            let refused = DialError { text: "refused".into(), is_refusal };
            world.tally.refused += 1;
            _ = world.brokers[broker].on_dial_outcome(shard, &dial, Err(refused), now);
            return;
        }
        let is_known = !world.faults.draw_login_refusal(&mut world.chance);
        let options = world.cable_options();
        let (near, far, cable) = pair(&options);
        world.brokers[target].accept(far, cable.clone(), now);
        let login = LinkLogin {
            user: "guest".into(),
            password: if is_known { "guest" } else { "guessed" }.into(),
            vhost: "/".into(),
            address: format!("b{target}").into(),
            external: false,
        };
        let dialled = DialedLink { link: Box::new(near), login, bootstrap: None };
        world.cables.push(cable.clone());
        let outcome = Ok((dialled, cable.clone()));
        if world.brokers[broker].on_dial_outcome(shard, &dial, outcome, now).is_none() {
            return;
        }
        let ends = [broker, target].map(|broker| LinkEnd { broker, life: world.brokers[broker].lives });
        self.failures.remove(&origin);
        if !is_known {
            // The broker waits from now on at the earliest: it has not received the refusal yet.
            self.failures.insert(origin, DialFailure { at: now, tries: 1, wait_min: REFUSED_WAIT / 2 });
            world.tally.refused += 1;
            // Nothing passes over this connection, and no fault cuts it.
            return workload.on_link_lost(broker, target);
        }
        self.dialled.push(DialledConnection { origin, cable: cable.clone() });
        world.tally.links += 1;
        self.open.push(SimulatedLink { cable, ends, is_marked_cut: false });
    }
}

#[cfg(test)]
mod tests {
    use super::{BrokerLinks, DialFailure, DialOrigin, back_off_min};
    use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN};
    use splitmix::SplitMix64;
    use std::time::Duration;

    #[test]
    fn back_off_grows_to_its_maximum() {
        assert_eq!(back_off_min(1), BACK_OFF_MIN / 2);
        assert_eq!(back_off_min(2), BACK_OFF_MIN);
        assert_eq!(back_off_min(100), BACK_OFF_MAX / 2);
    }

    #[test]
    fn a_dial_that_is_repeated_too_early_is_a_violation_until_failures_are_forgotten() {
        let mut links = BrokerLinks::default();
        let start =
            crate::world::SimulatedWorld::new(crate::settings::Settings::of(crate::settings::Mode::Features, 0), false);
        let (now, url) = (start.clock.now, "amqp://guest:guest@b1/%2F");
        let origin = DialOrigin { broker: 0, url: url.into(), shard: 0, link: shard::FederationLinkId(7) };
        let failure = DialFailure { at: now, tries: 1, wait_min: Duration::from_secs(1) };
        links.failures.insert(origin.clone(), failure);
        let later = now + Duration::from_millis(SplitMix64::new(1).below(999));
        assert!(links.check_back_off(&origin, later).is_some_and(|what| what.contains("1 tries have failed")));
        assert!(links.check_back_off(&origin, now + Duration::from_secs(1)).is_none());
        links.forget_failures(0, url);
        assert!(links.check_back_off(&origin, later).is_none());
    }
}
