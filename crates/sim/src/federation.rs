//! Federation in the simulation: several brokers on one thread, joined by links, from a seed, against a book of what is wanted.
//!
//! Enters: a setting.  Leaves: a tally, or the first broken promise.
//! Owns:   the order of everything, drawn from the seed: storms, rests, calms, the end.
//! Never:  goes on after a broken promise.
//!
//! Begin with [`run`]. A storm publishes, changes bindings, cuts links, stops brokers and removes routes; behind it comes a
//! rest, at which bindings must be what is wanted and everything that must have come is there; then a calm, in which nothing
//! but publishing is done, and what comes where is known beforehand.

mod book;
mod deeds;
mod finish;
mod hear;
mod misfortune;
mod place;
mod rest;
mod road;
mod setting;
mod settle;

pub use setting::{Edge, Kind, Setting, Shape};

use crate::limits::{SCRATCH_BYTES, TRACE_LINES_SHOWN};
use crate::terms::some_instant;
use book::Book;
use link::sim::{SimConnection, SplitMix64, SimSide};
use place::Place;
use road::{Dialling, Failed, Road};
use slab::{Pool, PoolOptions};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages published.
    pub published: u64,
    /// Deliveries to clients.
    pub delivered: u64,
    /// Of them, by way of another broker.
    pub crossed: u64,
    /// Of them, those that had been there.
    pub again: u64,
    /// Messages that had to come, and did.
    pub owed: u64,
    /// Bindings added and removed under load.
    pub bindings: u64,
    /// Dials.
    pub dials: u64,
    /// Of them, refused.
    pub refused: u64,
    /// Connections between brokers.
    pub roads: u64,
    /// Of them, cut.
    pub cuts: u64,
    /// Connections between brokers that fell silent.
    pub silences: u64,
    /// Connections of clients that broke.
    pub client_cuts: u64,
    /// Runs with second paths that are forced.
    pub forced: u64,
    /// Brokers stopped.
    pub stops: u64,
    /// Routes removed.
    pub reroutes: u64,
    /// Ticks of shards.
    pub ticks: u64,
    /// A digest of everything heard: the same for the same seed.
    pub digest: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        // Named one by one, so that a new count is not forgotten.
        let Tally { published, delivered, crossed, again, owed, bindings, dials, .. } = other;
        let Tally { refused, roads, cuts, stops, reroutes, ticks, digest, .. } = other;
        let Tally { silences, client_cuts, forced, .. } = other;
        self.published += published;
        self.delivered += delivered;
        self.crossed += crossed;
        self.again += again;
        self.owed += owed;
        self.bindings += bindings;
        self.dials += dials;
        self.refused += refused;
        self.roads += roads;
        self.cuts += cuts;
        self.silences += silences;
        self.client_cuts += client_cuts;
        self.forced += forced;
        self.stops += stops;
        self.reroutes += reroutes;
        self.ticks += ticks;
        self.digest ^= digest;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { published, delivered, crossed, again, owed, bindings, dials, refused, .. } = self;
        let Tally { roads, cuts, silences, client_cuts, forced, stops, reroutes, ticks, digest, .. } = self;
        write!(
            f,
            "{published} messages published, {delivered} delivered ({crossed} of them from other brokers, {again} again, {owed} \
             were owed); {bindings} bindings changed, {stops} brokers stopped, {reroutes} routes removed; {dials} dials, \
             {refused} refused, {roads} links, {cuts} cut, {silences} silent; {client_cuts} clients cut; {forced} with forced paths; \
             {ticks} ticks; digest {digest:016x}"
        )
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// What was broken.
    pub what: String,
    /// The kind of run it was.
    pub setting: Setting,
    /// What happened before, if it was traced.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace[self.trace.len().saturating_sub(TRACE_LINES_SHOWN)..] {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        let Setting { shape, shards, exchanges, edges, hops_max, .. } = &self.setting;
        writeln!(f, "{shape:?} of brokers with {shards:?} shards, exchanges {exchanges:?}, at most {hops_max} hops")?;
        for edge in edges {
            let (spec, feed) = (&edge.spec, edge.feed.unwrap_or_default());
            let (title, ack, credit) = (spec.title(), spec.ack, spec.credit);
            writeln!(f, "  b{} -> b{}: {title} {feed} {ack:?} credit {credit}", edge.source, edge.destination)?;
        }
        write!(f, "reproduce with: cargo run -p harrier-sim --release -- --federation --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}

/// A run under way.
struct Run {
    setting: Setting,
    chance: SplitMix64,
    pool: Pool,
    now: Instant,
    start: Instant,
    places: Vec<Place>,
    /// Every cable that is not over, clients' and roads'.
    cables: Vec<SimConnection>,
    roads: Vec<Road>,
    dialling: Vec<Dialling>,
    failed: BTreeMap<road::Caller, Failed>,
    calls: Vec<road::Call>,
    /// Connections that fell silent, as long as an end has not noticed.
    silent: Vec<misfortune::Silent>,
    book: Book,
    tally: Tally,
    uids: u64,
    messages: u64,
    /// Nothing is done, and nothing fails.
    resting: bool,
    broken: Option<String>,
    trace: Option<Vec<String>>,
    scratch: Vec<u8>,
}

/// Runs a seed. `traced`: with a list of events for its failure.
pub fn run(seed: u64, traced: bool) -> Result<Tally, Box<Failure>> {
    let setting = Setting::of(seed);
    let mut run = Run::new(setting, traced);
    run.all();
    match run.broken {
        None => Ok(run.tally),
        Some(what) => Err(Box::new(Failure { seed, what, setting: run.setting, trace: run.trace.unwrap_or_default() })),
    }
}

impl Run {
    fn new(setting: Setting, traced: bool) -> Self {
        let now = some_instant();
        let mut run = Run {
            chance: SplitMix64::new(setting.seed),
            pool: Pool::new(PoolOptions::default()),
            now,
            start: now,
            places: Vec::new(),
            cables: Vec::new(),
            roads: Vec::new(),
            dialling: Vec::new(),
            failed: BTreeMap::new(),
            calls: Vec::new(),
            silent: Vec::new(),
            book: Book::new(&setting),
            tally: Tally::default(),
            uids: 0,
            messages: 0,
            resting: false,
            broken: None,
            trace: traced.then(Vec::new),
            scratch: vec![0; SCRATCH_BYTES],
            setting,
        };
        run.places = (0..run.setting.shards.len()).map(|place| Place::new(&run.terms(place))).collect();
        run
    }

    fn all(&mut self) {
        self.note(|run| format!("{:?}", run.setting));
        self.tally.forced = u64::from(self.setting.forced);
        self.draw_boxes();
        for place in 0..self.places.len() {
            self.settle_in(place);
        }
        self.rest();
        for _ in 0..self.setting.storms {
            self.storm();
            self.rest();
            self.calm();
            self.rest();
        }
        self.finish();
        self.tally.ticks += self.places.iter().map(|place| place.world.ticks).sum::<u64>();
    }

    /// A number that nothing else in this run has.
    fn uid(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Notes a broken promise; the first one counts.
    fn broken(&mut self, what: String) {
        if self.broken.is_none() {
            self.note(|_| format!("BROKEN: {what}"));
            self.broken = Some(what);
        }
    }

    /// Notes an event, if the run is traced.
    fn note(&mut self, event: impl FnOnce(&Run) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>10} {}", self.now.duration_since(self.start).as_micros(), event(self));
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
        }
    }

    /// Time passes, for every broker.
    fn pass(&mut self, us: u64) {
        self.now += Duration::from_micros(us);
        for place in &mut self.places {
            place.world.pass(us);
        }
    }

    /// The world moves a little, in random order.
    fn shift(&mut self) {
        let us = self.chance.below(self.setting.step_us_max);
        self.pass(us);
        for cable in &self.cables {
            if self.chance.permille(600) {
                cable.step();
            }
        }
        for place in 0..self.places.len() {
            if self.chance.permille(400) {
                self.pump(place);
            }
            let nodes = self.places[place].world.nodes.len();
            for _ in 0..self.chance.below(2 * nodes as u64 + 1) {
                let node = self.chance.below(nodes as u64) as usize;
                if self.places[place].is_up {
                    self.places[place].world.run(node);
                }
            }
        }
        self.dials();
        self.check_credit();
        self.sweep();
    }

    /// Forgets what is over.
    fn sweep(&mut self) {
        self.cables.retain(|cable| !cable.is_closed(SimSide::Left) || !cable.is_closed(SimSide::Right));
        for place in &mut self.places {
            place.world.forget_wires();
        }
    }
}
