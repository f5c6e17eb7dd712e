//! One run: deeds of clients and moves of the world in random order, then rest, drain and the last checks.
//!
//! Enters: a setting.  Leaves: a tally, or the first broken promise.
//! Owns:   the order of everything, drawn from the seed.
//! Never:  goes on after a broken promise.

use crate::actor::{Actor, Standing};
use crate::client::{Client, Heard};
use crate::limits::{REST_QUIET_ROUNDS, REST_QUIET_STEP_US, REST_ROUNDS_MAX, SCRATCH_BYTES, TRACE_LINES_SHOWN};
use crate::model::Model;
use crate::setting::Setting;
use crate::terms::{Terms, some_instant};
use crate::world::World;
use link::sim::SplitMix64;
use slab::{Pool, PoolOptions};

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages published.
    pub published: u64,
    /// Messages the broker answered for.
    pub confirmed: u64,
    /// Messages the broker refused: a queue had no room.
    pub declined: u64,
    /// Deliveries of dead letters.
    pub dead: u64,
    /// Of these, letters that more than one queue gave up.
    pub chained: u64,
    /// Of these, letters that came back too often.
    pub worn: u64,
    /// Channels that had a delivery for too long.
    pub overdue: u64,
    /// Deliveries, gets included.
    pub delivered: u64,
    /// Of these, flagged as redelivered.
    pub redelivered: u64,
    /// Questions answered.
    pub answers: u64,
    /// Channels that the broker closed, as it should.
    pub refusals: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections cut.
    pub cuts: u64,
    /// Times a client was told that it is held back.
    pub blocked: u64,
    /// Messages found at the end.
    pub drained: u64,
    /// One if the run ended with publishers that nothing would let go on.
    pub held_for_good: u64,
    /// Ticks of shards.
    pub ticks: u64,
    /// A digest of everything heard: the same for the same seed.
    pub digest: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        // Named one by one, so that a new count is not forgotten.
        let Tally {
            published,
            confirmed,
            declined,
            dead,
            chained,
            worn,
            overdue,
            delivered,
            redelivered,
            answers,
            refusals,
            connections,
            cuts,
            blocked,
            drained,
            held_for_good,
            ticks,
            digest,
        } = other;
        self.published += published;
        self.confirmed += confirmed;
        self.declined += declined;
        self.dead += dead;
        self.chained += chained;
        self.worn += worn;
        self.overdue += overdue;
        self.delivered += delivered;
        self.redelivered += redelivered;
        self.answers += answers;
        self.refusals += refusals;
        self.connections += connections;
        self.cuts += cuts;
        self.blocked += blocked;
        self.drained += drained;
        self.held_for_good += held_for_good;
        self.ticks += ticks;
        self.digest ^= digest;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} messages published, {} answered for, {} refused, {} delivered ({} again, {} dead letters of which {} had \
             died before, {} worn out), {} found at the end; {} questions answered, {} channels refused, {} of them for a \
             timeout; {} connections, {} cut, {} times blocked, {} runs held back for good; {} ticks; digest {:016x}",
            self.published,
            self.confirmed,
            self.declined,
            self.delivered,
            self.redelivered,
            self.dead,
            self.chained,
            self.worn,
            self.drained,
            self.answers,
            self.refusals,
            self.overdue,
            self.connections,
            self.cuts,
            self.blocked,
            self.held_for_good,
            self.ticks,
            self.digest
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
        let Setting { shards, clients, steps, bounds, switches, .. } = &self.setting;
        let consumer_timeout_ms = bounds.consumer_timeout_ms;
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        writeln!(f, "{shards} shards, {clients} clients, {steps} steps, consumer timeout {consumer_timeout_ms} ms")?;
        writeln!(f, "switches: {switches}")?;
        write!(f, "reproduce with: cargo run -p harrier-sim --release -- --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}

/// A run under way.
pub struct Run {
    pub(crate) setting: Setting,
    pub(crate) chance: SplitMix64,
    pub(crate) world: World,
    pub(crate) pool: Pool,
    pub(crate) model: Model,
    pub(crate) actors: Vec<Actor>,
    pub(crate) tally: Tally,
    pub(crate) uids: u64,
    /// Everybody but the drain has gone: what comes now comes in the order of the queues.
    pub(crate) draining: bool,
    pub(crate) drainer: Option<u32>,
    /// Messages that came out of order: their queue, the period they were sent in, and the words for it.
    pub(crate) disorder: Vec<(usize, u32, String)>,
    /// Messages that came flagged for no known reason: their queue, and the words for it.
    pub(crate) flagged: Vec<(usize, String)>,
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
        let Setting { seed, shards, bounds, .. } = setting;
        let terms = Terms { name: "harrier".into(), seed, shards, bounds, now: some_instant() };
        Run {
            chance: SplitMix64::new(setting.seed),
            world: World::new(&terms),
            pool: Pool::new(PoolOptions::default()),
            model: Model::new(),
            actors: Vec::new(),
            tally: Tally::default(),
            uids: 0,
            draining: false,
            drainer: None,
            disorder: Vec::new(),
            flagged: Vec::new(),
            broken: None,
            trace: traced.then(Vec::new),
            scratch: vec![0; SCRATCH_BYTES],
            setting,
        }
    }

    fn all(&mut self) {
        self.note(|run| format!("{:?}", run.setting));
        self.prepare();
        let mut next_rest = self.chance.between(60, 600);
        for step in 0..self.setting.steps {
            if self.is_broken() {
                return;
            }
            self.shift();
            self.deeds();
            next_rest -= 1;
            if next_rest == 0 || step + 1 == self.setting.steps {
                self.rest();
                next_rest = self.chance.between(60, 600);
            }
        }
        self.finish();
        self.tally.ticks = self.world.ticks;
    }

    /// A number that nothing else in this run has.
    pub(crate) fn uid(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    /// Whether a promise was broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Notes a broken promise; the first one counts.
    pub(crate) fn broken(&mut self, what: String) {
        if self.broken.is_none() {
            self.note(|_| format!("BROKEN: {what}"));
            self.broken = Some(what);
        }
    }

    /// Notes an event, if the run is traced.
    pub(crate) fn note(&mut self, event: impl FnOnce(&Run) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>6} {}", self.model.now, event(self));
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
        }
    }

    /// A client connects.
    pub(crate) fn arrive(&mut self) -> usize {
        let uid = self.uid() as u32;
        let options = self.setting.bounds.cable(0, &mut self.chance);
        let (link, wire) = self.world.connect(&options);
        let cable = self.world.wires[wire].cable.clone();
        let client = Client::new(link, cable, self.setting.bounds.session(), &self.pool, self.world.now);
        let shard = self.world.wires[wire].shard;
        self.tally.connections += 1;
        self.note(|_| format!("client {uid} connects to shard {shard}"));
        self.actors.push(Actor {
            client,
            uid,
            wire,
            standing: Standing::Arriving,
            blocked: false,
            channels: Vec::new(),
            cut: false,
        });
        self.actors.len() - 1
    }

    /// The world moves a little, in random order.
    pub(crate) fn shift(&mut self) {
        let us = self.chance.below(400);
        self.world.pass(us);
        for actor in 0..self.actors.len() {
            if self.chance.permille(500) {
                let wire = self.actors[actor].wire;
                self.world.step_wire(wire);
            }
            if self.chance.permille(400) {
                self.pump(actor);
            }
        }
        let nodes = self.world.nodes.len();
        for _ in 0..self.chance.below(2 * nodes as u64 + 1) {
            let node = self.chance.below(nodes as u64) as usize;
            self.world.run(node);
        }
        self.sweep();
    }

    /// A client reads and sends.
    pub(crate) fn pump(&mut self, actor: usize) -> bool {
        let mut heard = Vec::new();
        let now = self.world.now;
        let moved = self.actors[actor].client.pump(&self.pool, &mut self.scratch, now, &mut heard);
        for one in heard {
            if self.is_broken() {
                break;
            }
            self.digest(actor, &one);
            self.hear(actor, one);
        }
        moved
    }

    fn digest(&mut self, actor: usize, heard: &Heard) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.tally.digest, self.actors[actor].uid, heard).hash(&mut hasher);
        self.tally.digest = hasher.finish();
    }

    /// Forgets clients that are gone.
    fn sweep(&mut self) {
        self.actors.retain(|actor| actor.standing != Standing::Gone);
    }

    /// No deeds until nothing moves any more; then the model may be sure of more, and nobody may wait.
    pub(crate) fn rest(&mut self) {
        for actor in &mut self.actors {
            actor.client.paused = false;
        }
        for wire in &self.world.wires {
            wire.cable.limit_rate(link::sim::SimSide::Left, None);
            wire.cable.limit_rate(link::sim::SimSide::Right, None);
        }
        // Long enough for a broker to give up a peer that it hears nothing of.
        let heartbeat_us = u64::from(self.setting.bounds.heartbeat_s) * 3_000_000 / u64::from(REST_QUIET_ROUNDS);
        let mut quiet = 0;
        let mut before = (self.model.now, self.tally.digest);
        for _ in 0..REST_ROUNDS_MAX {
            if self.is_broken() {
                return;
            }
            let mut moved = false;
            for actor in 0..self.actors.len() {
                let wire = self.actors[actor].wire;
                self.world.step_wire(wire);
                moved |= self.pump(actor);
            }
            for wire in 0..self.world.wires.len() {
                moved |= self.world.step_wire(wire);
            }
            for node in 0..self.world.nodes.len() {
                if self.chance.permille(800) {
                    self.world.run(node);
                }
            }
            self.sweep();
            moved |= self.world.is_busy();
            if moved {
                // One that has said goodbye hears no more of what it is sent, and reads it all the same: heartbeats too, for ever.
                let reads = |actor: &Actor| actor.standing == Standing::Leaving && self.setting.bounds.heartbeat_s == 0;
                if self.actors.iter().any(reads) {
                    quiet = 0;
                }
                self.world.pass(self.chance.below(100));
                continue;
            }
            // Heartbeats go on for ever; it is quiet when nobody hears anything else.
            let so_far = (self.model.now, self.tally.digest);
            quiet = if so_far == before { quiet + 1 } else { 0 };
            before = so_far;
            if quiet > REST_QUIET_ROUNDS {
                self.note(|_| "at rest".into());
                self.check_rest();
                self.model.end_period();
                return;
            }
            self.world.pass(REST_QUIET_STEP_US.max(heartbeat_us));
        }
        let busy: Vec<String> = self.world.busy();
        self.broken(format!("nothing is asked any more, and the system does not come to rest: {}", busy.join(", ")));
    }
}
