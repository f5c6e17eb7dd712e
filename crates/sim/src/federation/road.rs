//! Roads: the cables between brokers, and the dials that become one.
//!
//! Enters: dials of shards, time.  Leaves: cables, refusals.
//! Owns:   how long a dial takes, whether it succeeds, how soon a broker may try again.
//! Never:  knows what goes over a road.

use crate::federation::Run;
use federation::LinkLogin;
use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN, REFUSED_WAIT};
use link::sim::{SimConnection, SimOptions, SimSide, pair};
use shard::{DialRequest, DialError, DialedLink};
use std::time::{Duration, Instant};

/// An end of a road.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The broker, and which life of it.
    pub place: usize,
    /// Which of its lives.
    pub life: u32,
    /// The shard.
    pub shard: usize,
    /// The slot there.
    pub slot: u32,
}

/// A connection between two brokers.
pub struct Road {
    /// The cable: whoever dialled is its left side.
    pub cable: SimConnection,
    /// Both ends, the left one first.
    pub ends: [End; 2],
    /// It will be cut when some more bytes have gone over it.
    pub is_doomed: bool,
}

/// A dial under way.
pub struct Dialling {
    place: usize,
    life: u32,
    shard: usize,
    dial: DialRequest,
    due: Instant,
}

/// Who dials: one direction of a link.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The broker.
    pub place: usize,
    /// Which of its links, by the address and, for the direction, by the shard's number for it.
    url: Box<str>,
    shard: usize,
    link: shard::FederationLinkId,
}

impl Caller {
    fn new(place: usize, shard: usize, dial: &DialRequest) -> Self {
        Caller { place, url: dial.url.clone(), shard, link: dial.link }
    }
}

/// The last failure of a link, how many tries have failed one after the other, and how long it waits at least.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    at: Instant,
    tries: u32,
    least: Duration,
}

/// A connection that a broker has made, until the broker has lost it.
pub struct Call {
    caller: Caller,
    cable: SimConnection,
}

/// The least wait after so many tries.
fn least(tries: u32) -> Duration {
    (BACK_OFF_MIN * (1 << tries.saturating_sub(1).min(10))).min(BACK_OFF_MAX) / 2
}

impl Run {
    /// Shards ask for connections, and those that were asked for are made or not.
    pub(super) fn dials(&mut self) -> bool {
        let mut moved = false;
        self.note_losses();
        for place in 0..self.places.len() {
            if !self.places[place].is_up {
                continue;
            }
            for shard in 0..self.places[place].world.nodes.len() {
                while let Some(dial) = self.places[place].world.nodes[shard].shard.next_dial() {
                    moved = true;
                    self.tally.dials += 1;
                    self.note(|_| format!("b{place} dials {}", dial.url));
                    self.check_back_off(&Caller::new(place, shard, &dial));
                    let due = self.now + Duration::from_micros(self.chance.below(3_000));
                    self.dialling.push(Dialling { place, life: self.places[place].lives, shard, dial, due });
                }
            }
        }
        let (now, waiting) = (self.now, std::mem::take(&mut self.dialling));
        for dialling in waiting {
            let Dialling { place, life, .. } = dialling;
            if !self.places[place].is_up || self.places[place].lives != life {
                continue;
            }
            if dialling.due > now {
                self.dialling.push(dialling);
                continue;
            }
            moved = true;
            self.make_road(dialling);
        }
        moved
    }

    fn check_back_off(&mut self, caller: &Caller) {
        let Some(Failed { at, tries, least }) = self.failed.get(caller).copied() else { return };
        let waited = self.now.duration_since(at);
        if waited < least {
            let Caller { place, url, .. } = caller;
            self.broken(format!("b{place} dials {url} again after {waited:?}; {tries} tries have failed"));
        }
    }

    /// The tries of a link begin anew: whoever orders something may have it dialled at once.
    pub(super) fn forget_failures(&mut self, place: usize, url: &str) {
        self.failed.retain(|caller, _| caller.place != place || *caller.url != *url);
        self.calls.retain(|call| call.caller.place != place || *call.caller.url != *url);
    }

    /// A broker is killed, and has forgotten whom it has called.
    pub(super) fn forget_calls(&mut self, place: usize) {
        self.failed.retain(|caller, _| caller.place != place);
        // Nor has it said whom it refuses.
        let address = format!("@b{place}/");
        self.failed.retain(|caller, failed| failed.least < REFUSED_WAIT / 2 || !caller.url.contains(&address));
        self.calls.retain(|call| call.caller.place != place);
    }

    /// Connections that brokers have lost: they wait before they make others. How many tries failed before is not known here, for
    /// a route may have run.
    fn note_losses(&mut self) {
        let now = self.now;
        let failed = &mut self.failed;
        self.calls.retain(|Call { caller, cable }| {
            let is_lost = cable.is_closed(SimSide::Left);
            if is_lost {
                failed.entry(caller.clone()).or_insert(Failed { at: now, tries: 1, least: least(1) });
            }
            !is_lost
        });
    }

    fn make_road(&mut self, Dialling { place, shard, dial, .. }: Dialling) {
        let target =
            dial.url.rsplit_once("@b").and_then(|(_, rest)| rest.split('/').next()).and_then(|n| n.parse().ok());
        let Some(target) = target.filter(|target: &usize| *target < self.places.len()) else {
            return self.broken(format!("b{place} dials {}", dial.url));
        };
        let fails = !self.resting && self.setting.cuts && self.chance.permille(200);
        if fails || !self.places[target].is_up {
            let caller = Caller::new(place, shard, &dial);
            let tries = self.failed.get(&caller).map_or(0, |failed| failed.tries) + 1;
            let is_refusal = !self.resting && self.setting.refusals && self.chance.permille(200);
            let least = if is_refusal { REFUSED_WAIT / 2 } else { least(tries) };
            self.failed.insert(caller, Failed { at: self.now, tries, least });
            let refused = DialError { text: "refused".into(), is_refusal };
            self.tally.refused += 1;
            _ = self.places[place].world.dialled(shard, &dial, Err(refused));
            return;
        }
        let is_known = self.resting || !self.setting.refusals || !self.chance.permille(50);
        let options = self.cable_options();
        let (near, far, cable) = pair(&options);
        let there = self.places[target].world.admit(far, cable.clone());
        let login = LinkLogin {
            user: "guest".into(),
            password: if is_known { "guest" } else { "guessed" }.into(),
            vhost: "/".into(),
            address: format!("b{target}").into(),
            external: false,
        };
        let dialled = DialedLink { link: Box::new(near), login, bootstrap: None };
        self.cables.push(cable.clone());
        let Some(here) = self.places[place].world.dialled(shard, &dial, Ok((dialled, cable.clone()))) else { return };
        let end = |run: &Run, place: usize, wire: usize| {
            let Run { places, .. } = run;
            let wire = &places[place].world.wires[wire];
            End { place, life: places[place].lives, shard: wire.shard, slot: wire.slot }
        };
        let ends = [end(self, place, here), end(self, target, there)];
        let caller = Caller::new(place, shard, &dial);
        self.failed.remove(&caller);
        if !is_known {
            // From now on at the earliest: that it is refused is yet to be heard.
            self.failed.insert(caller.clone(), Failed { at: self.now, tries: 1, least: REFUSED_WAIT / 2 });
            self.tally.refused += 1;
            // It is cut by nobody else, and carries nothing.
            return self.book.cut(place, target);
        }
        self.calls.push(Call { caller, cable: cable.clone() });
        self.tally.roads += 1;
        self.roads.push(Road { cable, ends, is_doomed: false });
    }

    pub(super) fn cable_options(&mut self) -> SimOptions {
        // Links of a few bytes only make runs long.
        self.setting.bounds.cable(512, &mut self.chance)
    }

    /// Forgets roads that are over, and looks at what is under way on the others.
    pub(super) fn check_credit(&mut self) {
        self.roads.retain(|road| !road.cable.is_closed(SimSide::Left) && !road.cable.is_closed(SimSide::Right));
        let mut complaint = None;
        for road in &self.roads {
            let [near, far] = road.ends;
            let credits = self.book.routes.iter().filter(|route| route.edge.ends() == (near.place, far.place));
            let credits: Vec<_> =
                credits.map(|route| if route.edge.keeps() { route.edge.spec.credit } else { 0 }).collect();
            if credits.is_empty() || credits.contains(&0) {
                continue;
            }
            let most = u64::from(credits.iter().copied().max().unwrap_or(0));
            for end in road.ends {
                let place = &self.places[end.place];
                if !place.is_up || place.lives != end.life {
                    continue;
                }
                let broker = place.world.nodes[end.shard].shard.broker();
                for channel in 1..=credits.len() as u16 {
                    let under_way = broker.in_flight(end.slot, channel);
                    if under_way > most {
                        let (from, to) = (near.place, far.place);
                        let at = end.place;
                        complaint = Some(format!(
                            "{under_way} messages are under way at b{at} on channel {channel} of the link of b{from} to b{to}, \
                             whose credit is {most}"
                        ));
                    }
                }
            }
        }
        if let Some(complaint) = complaint {
            self.broken(complaint);
        }
    }
}
