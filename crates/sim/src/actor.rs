//! A client with its memory: channels, consumers, deliveries it holds, questions it waits on.
//!
//! Enters: nothing by itself.  Leaves: nothing by itself.
//! Owns:   what one connection knows of its own doings.
//! Never:  knows what other clients do.

use crate::client::Client;
use crate::model::Moment;
use std::collections::BTreeMap;

/// How publishes of a channel are made safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Not at all.
    Plain,
    /// They are confirmed.
    Confirm,
    /// They wait for the commit.
    Tx,
}

/// A question that a channel waits on.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// `queue.declare` of a queue that was not there.
    Declare(usize),
    /// `queue.declare`, passive.
    Look(usize),
    /// `queue.declare` of a queue that is there; whether as it is.
    Again(usize, bool),
    /// `queue.delete`; whether only if unused or empty.
    Delete(usize, bool),
    /// `queue.purge`.
    Purge(usize),
    /// `queue.bind` or `exchange.bind`, and the number of its life.
    Bind(usize, usize),
    /// `queue.unbind` or `exchange.unbind`.
    Unbind(usize, usize),
    /// `exchange.declare`.
    DeclareExchange(usize),
    /// `exchange.delete`.
    DeleteExchange(usize),
    /// `basic.consume`: the place of the consumer.
    Consume(usize),
    /// `basic.cancel`.
    Cancel(usize),
    /// `basic.get`: the queue, and whether it needs no acknowledgement.
    Get(usize, bool),
    /// `basic.qos` for consumers to come.
    Prefetch(u32),
    /// `basic.qos` for the channel.
    PrefetchShared(u32),
    /// `channel.flow`.
    Flow(bool),
    /// `basic.recover`.
    Recover,
    /// `confirm.select` or `tx.select`.
    Select(Mode),
    /// `tx.commit`.
    Commit,
    /// `tx.rollback`.
    Rollback,
}

/// A question with what it proves once it is answered.
pub struct Pending {
    /// What was asked.
    pub question: Question,
    /// When.
    pub asked: Moment,
    /// How many of the channel's plain publishes were sent before.
    pub plains: usize,
    /// How many of its settlements.
    pub settles: usize,
}

/// How far a consumer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It was asked for.
    Asked,
    /// It consumes.
    Active,
    /// It was cancelled, and that is not answered.
    Cancelling,
    /// It is gone.
    Gone,
}

/// A consumer.
pub struct Consumer {
    /// Tells all consumers of a run apart.
    pub uid: u64,
    /// Its tag; empty until the broker has named it.
    pub tag: String,
    /// Its queue.
    pub queue: usize,
    /// It needs no acknowledgement.
    pub no_ack: bool,
    /// It wants the queue alone.
    pub exclusive: bool,
    /// Deliveries it may hold; zero is no limit.
    pub prefetch: u32,
    /// Deliveries it holds.
    pub held: u32,
    /// How far it is.
    pub stage: Stage,
}

/// A delivery that a channel holds.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Its queue.
    pub queue: usize,
    /// The message.
    pub message: u64,
    /// The consumer it came to; `None` for a get.
    pub consumer: Option<usize>,
    /// A settlement of the open transaction names it already.
    pub staged: bool,
    /// When it came, in simulated time.
    pub since_us: u64,
}

/// How far a channel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Door {
    /// It was asked for.
    Opening,
    /// It is open.
    Open,
    /// The client has closed it.
    Closing,
    /// It is gone.
    Gone,
}

/// What becomes of a settled delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settling {
    /// Acknowledged.
    Done,
    /// Rejected for good.
    Rejected,
    /// It goes back.
    Requeue,
}

/// A channel.
pub struct Channel {
    /// Its number on the connection.
    pub number: u16,
    /// Tells all channels of a run apart.
    pub uid: u32,
    /// How far it is.
    pub door: Door,
    /// How publishes are made safe.
    pub mode: Mode,
    /// The tag of the last delivery.
    pub last_tag: u64,
    /// Deliveries that are not settled.
    pub held: BTreeMap<u64, Held>,
    /// How many of them came to consumers.
    pub consumers_hold: u32,
    /// Consumers, those that are gone too.
    pub consumers: Vec<Consumer>,
    /// The question it waits on.
    pub pending: Option<Pending>,
    /// Publishes that were confirmed up to a number.
    pub published: u64,
    /// Publishes that are not confirmed.
    pub unconfirmed: BTreeMap<u64, u64>,
    /// Publishes that only a later answer proves.
    pub plains: Vec<u64>,
    /// Settlements that only a later answer proves: queue, message, and whether it was rejected.
    pub settles: Vec<(usize, u64, bool)>,
    /// Publishes of the open transaction.
    pub staged: Vec<u64>,
    /// Settlements of the open transaction.
    pub staged_settles: Vec<(u64, Settling)>,
    /// What a commit under way makes safe, and settles.
    pub committing: Vec<u64>,
    /// Prefetch of consumers to come.
    pub prefetch: u32,
    /// Prefetch of the channel; zero is no limit.
    pub prefetch_shared: u32,
    /// It wants deliveries.
    pub flow: bool,
    /// When it first asked for messages that it must settle, in simulated time.
    pub owing_since_us: Option<u64>,
    /// The broker may have refused it before it heard that the client closes it.
    pub doubtful: bool,
    /// Promises that are broken unless the broker has ended the channel already and its word is on the way; and when they
    /// were noticed.
    pub suspicions: Vec<(Moment, String)>,
}

impl Channel {
    /// A channel just asked for.
    pub fn new(number: u16, uid: u32) -> Self {
        Channel {
            number,
            uid,
            door: Door::Opening,
            mode: Mode::Plain,
            last_tag: 0,
            held: BTreeMap::new(),
            consumers_hold: 0,
            consumers: Vec::new(),
            pending: None,
            published: 0,
            unconfirmed: BTreeMap::new(),
            plains: Vec::new(),
            settles: Vec::new(),
            staged: Vec::new(),
            staged_settles: Vec::new(),
            committing: Vec::new(),
            prefetch: 0,
            prefetch_shared: 0,
            flow: true,
            owing_since_us: None,
            doubtful: false,
            suspicions: Vec::new(),
        }
    }

    /// Whether it can be told something.
    pub fn is_open(&self) -> bool {
        self.door == Door::Open
    }

    /// Whether messages of a queue may be on their way to it.
    pub fn may_get_from(&self, queue: usize) -> bool {
        let asked = self
            .pending
            .as_ref()
            .is_some_and(|pending| matches!(pending.question, Question::Get(from, _) if from == queue));
        asked || self.consumers.iter().any(|consumer| consumer.queue == queue && consumer.stage != Stage::Gone)
    }

    /// Whether it can be asked something.
    pub fn is_free(&self) -> bool {
        self.is_open() && self.pending.is_none()
    }
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It logs in.
    Arriving,
    /// It works.
    Here,
    /// It has said goodbye.
    Leaving,
    /// It is gone.
    Gone,
}

/// A client with its memory.
pub struct Actor {
    /// Its connection.
    pub client: Client,
    /// Tells all connections of a run apart.
    pub uid: u32,
    /// The number of its wire.
    pub wire: usize,
    /// How far it is.
    pub standing: Standing,
    /// The broker told it that it is held back.
    pub blocked: bool,
    /// Its channels, by the order of opening; gone ones are removed.
    pub channels: Vec<Channel>,
    /// Its connection was cut, or will be: it may end at any moment.
    pub cut: bool,
}
