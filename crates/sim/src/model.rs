//! The shadow model: what was asked for, what was answered, and what follows from that for every message.
//!
//! Enters: deeds and answers of clients, with a clock that counts events.  Leaves: what must be so, and what may be so.
//! Owns:   lives of exchanges, queues and bindings; the fate of every message; what each queue owes.
//! Never:  guesses the moment of a change: between question and answer both outcomes may be seen.

use crate::features::Traits;
use crate::letters::Ways;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wire::Table;

/// A count of events: what happened earlier has a smaller one.
pub type Moment = u64;

/// The existence of a thing that clients make and unmake.
#[derive(Clone, Debug)]
pub struct Life {
    /// When it was asked for.
    pub asked: Moment,
    /// When that was answered.
    pub made: Option<Moment>,
    /// When its end was first asked for or possible.
    pub ending: Option<Moment>,
    /// When that was answered.
    pub ended: Option<Moment>,
}

impl Life {
    /// Asked for now.
    pub fn asked(now: Moment) -> Self {
        Life { asked: now, made: None, ending: None, ended: None }
    }

    /// It was there at every moment of this span.
    pub fn surely(&self, from: Moment, to: Moment) -> bool {
        self.made.is_some_and(|made| made <= from) && self.ending.is_none_or(|ending| ending >= to)
    }

    /// It may have been there at some moment of this span.
    pub fn perhaps(&self, from: Moment, to: Moment) -> bool {
        self.asked <= to && self.ended.is_none_or(|ended| ended >= from)
    }

    /// It may end from now on.
    pub fn may_end(&mut self, now: Moment) {
        self.ending.get_or_insert(now);
    }
}

/// The type of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The exchange without a name.
    Default,
    /// By equal keys.
    Direct,
    /// To all.
    Fanout,
    /// By patterns.
    Topic,
    /// By headers.
    Headers,
}

/// An exchange.
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Where goes what nothing matches.
    pub alternate: Option<usize>,
    /// It goes with the last binding from it.
    pub auto_delete: bool,
    /// Its existence.
    pub life: Life,
}

/// Headers of a message, or of a binding, by the names in `HEADER_NAMES`.
pub type Headers = [Option<u8>; 3];

/// Their names. The last one counts only where it is asked for.
pub const HEADER_NAMES: [&str; 3] = ["a", "b", "x-c"];

/// The value of a binding's header that asks for no more than that there is one.
pub const VOID: u8 = u8::MAX;

/// What a binding of a headers exchange asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// One of them is enough.
    pub any: bool,
    /// Names that begin with `x-` count.
    pub with_x: bool,
    /// The headers.
    pub headers: Headers,
}

/// Where a binding leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A queue.
    Queue(usize),
    /// An exchange.
    Exchange(usize),
}

/// A binding.
pub struct Binding {
    /// Its exchange.
    pub source: usize,
    /// Where it leads.
    pub target: Target,
    /// Its key or pattern.
    pub key: String,
    /// What a headers exchange matches.
    pub headers: Option<Wanted>,
    /// The times it existed.
    pub lives: Vec<Life>,
    /// A change is under way, or its outcome was never heard: nobody changes it again.
    pub locked: bool,
}

impl Message {
    /// All its routing keys.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.key).chain(self.copies.iter().flatten())
    }
}

/// What has become of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// In a transaction that is not committed.
    Staged,
    /// Sent; nothing was heard.
    Open,
    /// The broker has answered for it.
    Safe,
    /// Sent, and nothing will be heard any more.
    Unknown,
    /// It was rolled back: nobody may see it.
    Never,
}

/// A message.
pub struct Message {
    /// The channel that published it.
    pub channel: u32,
    /// Its exchange.
    pub exchange: usize,
    /// Its routing key.
    pub key: String,
    /// Its further routing keys: those that travel with it, and those that do not.
    pub copies: [Vec<String>; 2],
    /// Its headers.
    pub headers: Headers,
    /// Its properties in wire form.
    pub properties: Vec<u8>,
    /// Its size.
    pub body_bytes: usize,
    /// It comes back if no queue takes it.
    pub mandatory: bool,
    /// When it was sent (committed, in a transaction).
    pub sent: Moment,
    /// When it was known to be routed.
    pub routed: Option<Moment>,
    /// When the broker said of this very message that it has it.
    pub accepted: Option<Moment>,
    /// What has become of it.
    pub fate: Fate,
    /// It came back.
    pub returned: bool,
    /// The period it was sent in.
    pub period: u32,
    /// A queue had no room for it.
    pub declined: bool,
    /// Its priority.
    pub priority: Option<u8>,
    /// How long it may wait.
    pub expiration_us: Option<u64>,
    /// When it was sent, in simulated time.
    pub sent_us: u64,
}

/// Whether a message was settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Settled {
    /// It was not.
    #[default]
    No,
    /// It was said.
    Said,
    /// It was said, and a later answer proves that it was heard.
    Heard,
}

/// A message in one queue, as its consumers saw it.
#[derive(Default)]
pub struct Seen {
    /// How often it came.
    pub times: u32,
    /// The channel that has it.
    pub holder: Option<u32>,
    /// Whether it was settled.
    pub settled: Settled,
    /// Whether somebody said that it is not wanted.
    pub rejected: bool,
    /// How often it had come back when it came: a bit for each number, where the queue counts that.
    pub returns: u64,
}

/// A queue.
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Its existence.
    pub life: Life,
    /// The connection that alone may use it.
    pub owner: Option<u32>,
    /// It goes with its last consumer.
    pub auto_delete: bool,
    /// What it must deliver.
    pub owed: BTreeSet<u64>,
    /// What it delivered.
    pub seen: HashMap<u64, Seen>,
    /// The newest message that came unflagged, for each stream of deliveries, publishing channel and level.
    pub newest: HashMap<(u64, u32, u8), u64>,
    /// Messages up to this one may have gone without a trace: purged, or sent to a consumer that needs no acknowledgement.
    pub forgiven: u64,
    /// From now to the end of this period messages may go without a trace.
    pub leaky: bool,
    /// The last period in which a consumer left with deliveries on their way.
    pub departed: Option<u32>,
    /// Something came back to it once.
    pub disturbed: bool,
    /// An exclusive consumer was tried.
    pub contested: bool,
    /// Consumers that are active: their numbers, their channels, and whether they are exclusive.
    pub active: Vec<(u64, u32, bool)>,
    /// What it does beyond queueing.
    pub traits: Traits,
    /// Its arguments.
    pub arguments: Table,
    /// It was declared durable.
    pub durable: bool,
    /// The last period in which it was declared again.
    pub redeclared: Option<u32>,
    /// Somebody left who may have got messages of it without knowing that.
    pub blind: bool,
    /// When the newest message was sent that came, for each stream of deliveries and level.
    pub sent_below: BTreeMap<(u64, u8), Moment>,
    /// The consumer and the channel that got its last delivery.
    pub served: Option<(u64, u32)>,
}

impl Queue {
    /// Messages may go without a trace until the next rest; for good, if limits may hold back whoever takes them.
    pub fn leak(&mut self, roomy: bool) {
        self.leaky = true;
        if !roomy {
            self.forgiven = u64::MAX;
        }
    }
}

/// Everything that was said and heard.
pub struct Model {
    /// Now.
    pub now: Moment,
    /// Grows each time everything has come to rest.
    pub period: u32,
    /// When everything last came to rest.
    pub rested: Moment,
    /// Exchanges; the first is the default one.
    pub exchanges: Vec<Exchange>,
    /// Queues.
    pub queues: Vec<Queue>,
    /// Bindings.
    pub bindings: Vec<Binding>,
    /// Messages by number, beginning with 1.
    pub messages: BTreeMap<u64, Message>,
    /// The ways of dead letters.
    pub ways: Ways,
}

impl Model {
    /// A broker in which nothing was made.
    pub fn new() -> Self {
        let life = Life { made: Some(0), ..Life::asked(0) };
        let default = Exchange { name: String::new(), kind: Kind::Default, alternate: None, auto_delete: false, life };
        Model {
            now: 1,
            period: 0,
            rested: 0,
            exchanges: vec![default],
            queues: Vec::new(),
            bindings: Vec::new(),
            messages: BTreeMap::new(),
            ways: Ways::default(),
        }
    }

    /// The next moment.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// The number of the last message.
    pub fn newest(&self) -> u64 {
        self.messages.last_key_value().map_or(0, |(&id, _)| id)
    }

    /// A queue just asked for.
    pub fn add_queue(&mut self, name: String, owner: Option<u32>, auto_delete: bool) -> usize {
        self.queues.push(Queue {
            name,
            life: Life::asked(self.now),
            owner,
            auto_delete,
            owed: BTreeSet::new(),
            seen: HashMap::new(),
            newest: HashMap::new(),
            forgiven: 0,
            leaky: false,
            departed: None,
            disturbed: false,
            contested: false,
            active: Vec::new(),
            traits: Traits::default(),
            arguments: Table::default(),
            durable: false,
            redeclared: None,
            blind: false,
            sent_below: BTreeMap::new(),
            served: None,
        });
        self.queues.len() - 1
    }

    /// The broker has answered for a message: it is in the queues it must be in. `Err` names a broken promise. Without a
    /// word on this very message, queues that may refuse it are left out.
    pub fn is_safe(&mut self, id: u64, by_name: bool) -> Result<(), String> {
        let now = self.now;
        let Some(message) = self.messages.get_mut(&id) else { return Ok(()) };
        message.fate = Fate::Safe;
        message.routed = Some(now);
        message.accepted = by_name.then_some(now);
        let Some(message) = self.messages.get(&id) else { return Ok(()) };
        let must = self.reach(message, now, true);
        if message.returned {
            return match must.first() {
                Some(&queue) => Err(format!("message {id} came back, but queue {} takes it", self.queues[queue].name)),
                None => Ok(()),
            };
        }
        if message.mandatory
            && self.is_exchange(message.exchange, message.sent, now)
            && must.is_empty()
            && self.reach(message, now, false).is_empty()
        {
            return Err(format!("message {id} is mandatory, no queue takes it, and it did not come back"));
        }
        for queue in must {
            let queue = &mut self.queues[queue];
            if queue.traits.refuses && !by_name {
                continue;
            }
            if queue.seen.get(&id).is_none_or(|seen| seen.settled == Settled::No) {
                queue.owed.insert(id);
            }
        }
        Ok(())
    }

    /// Everything has come to rest: what was leaking has leaked.
    pub fn end_period(&mut self) {
        let newest = self.newest();
        self.period += 1;
        self.rested = self.now;
        for at in 0..self.exchanges.len() {
            if self.is_kept(at) == Some(false) {
                self.exchanges[at].life.ended = Some(self.now);
            }
        }
        for queue in &mut self.queues {
            if std::mem::take(&mut queue.leaky) {
                queue.forgiven = queue.forgiven.max(newest);
            }
        }
    }

    /// Whether an exchange was there at every moment of a span. One that goes with its last binding was, if one binding from
    /// it was, or if it never had any.
    pub fn is_exchange(&self, at: usize, from: Moment, to: Moment) -> bool {
        let exchange = &self.exchanges[at];
        let mut bindings = self.bindings.iter().filter(|binding| binding.source == at).peekable();
        let holds = |binding: &Binding| {
            let target = match binding.target {
                Target::Queue(queue) => self.queues[queue].life.surely(from, to),
                Target::Exchange(other) => {
                    !self.exchanges[other].auto_delete && self.exchanges[other].life.surely(from, to)
                }
            };
            target && binding.lives.iter().any(|life| life.surely(from, to))
        };
        exchange.life.surely(from, to) && (!exchange.auto_delete || bindings.peek().is_none() || bindings.any(holds))
    }

    /// Whether an exchange may have gone by now.
    pub fn may_be_gone(&self, at: usize) -> bool {
        self.exchanges[at].life.ending.is_some() || !self.is_exchange(at, self.now, self.now)
    }

    /// At rest: whether an exchange that goes with its last binding has one left; `None` if that is not known, or it is not
    /// of that kind.
    pub fn is_kept(&self, at: usize) -> Option<bool> {
        let exchange = &self.exchanges[at];
        if !exchange.auto_delete || exchange.life.made.is_none() || exchange.life.ending.is_some() {
            return None;
        }
        if exchange.life.ended.is_some() {
            return Some(false);
        }
        if self.is_exchange(at, self.now, self.now) {
            return Some(true);
        }
        let over = |binding: &Binding| {
            let target = match binding.target {
                Target::Queue(queue) => &self.queues[queue].life,
                Target::Exchange(other) => &self.exchanges[other].life,
            };
            target.ended.is_some() || binding.lives.last().is_some_and(|life| life.ended.is_some())
        };
        let mut bindings = self.bindings.iter().filter(|binding| binding.source == at);
        let mut was_bound = false;
        let all_over = bindings.all(|binding| {
            was_bound |= binding.lives.iter().any(|life| life.made.is_some());
            over(binding)
        });
        (all_over && was_bound).then_some(false)
    }

    /// Queues that surely exist, or that their consumers may have taken along.
    pub fn living_queues(&self) -> Vec<usize> {
        let living = |queue: &Queue| {
            let life = &queue.life;
            let goes_by_itself = queue.auto_delete || queue.traits.expires_soon;
            life.made.is_some() && life.ended.is_none() && (life.ending.is_none() || goes_by_itself)
        };
        (0..self.queues.len()).filter(|&at| living(&self.queues[at])).collect()
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}
