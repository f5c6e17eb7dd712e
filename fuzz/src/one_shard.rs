//! A broker of one shard with one client, or with several that have turns, for targets that ask what peers can do to it.
//!
//! Enters: methods and messages of clients, time.  Leaves: refusals, messages, how much work there was.
//! Owns:   the broker, its memory, what it had carried out last.
//! Never:  uses a frame or a socket: the targets `wire` and `session` have those.

use broker::{
    AdminRequest, AdminRequestError, Broker, BrokerCounters, BrokerOptions, ClientCapabilities, Confirm,
    ConnectionSlot, Delivery, Effects, Publish, ReadControl, SessionLogin, ShardBatch,
};
use catalog::{Catalog, CatalogLimits, QueueUid, Refusal, SessionId, ShardId, UserId, VhostId, default_definitions};
use queues::{AppendResult, BodyRef, Content, Message, MessageStorage, QueuePosition};
use slab::{Pool, PoolOptions};
use wire::method::{basic, queue};
use wire::{ChannelNumber, DeliveryTag, Method, RawProperties, ShortStr, TableRef};

const SLOT: ConnectionSlot = ConnectionSlot::new(0);
const CHANNEL: ChannelNumber = ChannelNumber(1);
const MS_US: u64 = 1_000;

/// A message that came to a client.
pub struct Got {
    /// The connection and the channel that it came to.
    pub at: (ConnectionSlot, ChannelNumber),
    /// Its delivery tag.
    pub tag: DeliveryTag,
    /// Its properties in wire form.
    pub properties: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

/// What the broker had carried out since it was asked last.
struct Noted {
    pool: Pool,
    batch: ShardBatch,
    random_state: u64,
    got: Vec<Got>,
    refused: Vec<(ConnectionSlot, ChannelNumber, Refusal)>,
    throttled: Vec<ConnectionSlot>,
}

fn got(at: (ConnectionSlot, ChannelNumber), tag: DeliveryTag, content: &Content<'_>) -> Got {
    let body = match content.body {
        BodyRef::Small(bytes) => bytes.to_vec(),
        BodyRef::Large(slice) => slice.to_vec(),
    };
    Got { at, tag, properties: content.properties.to_vec(), body }
}

impl MessageStorage for Noted {
    fn pool(&self) -> &Pool {
        &self.pool
    }
    fn append(&mut self, _queue: QueueUid, _place: QueuePosition, _message: Message) -> AppendResult {
        AppendResult::Durable
    }
    fn append_run(&mut self, _queue: QueueUid, _first: QueuePosition, _messages: &[Message]) -> AppendResult {
        AppendResult::Durable
    }
    fn forget(&mut self, _queue: QueueUid, _place: QueuePosition, _count: u32) {}
    fn mark_delivered(&mut self, _: QueueUid, _: QueuePosition, _: u32) {}
    fn mark_returned(&mut self, _: QueueUid, _: QueuePosition, _times: u32) {}
    fn begin_commit(&mut self) {}
    fn end_commit(&mut self) -> AppendResult {
        AppendResult::Durable
    }
    fn await_durable(&mut self, _ticket: u64) {}
    fn settled(&mut self) -> AppendResult {
        AppendResult::Durable
    }

    fn drop_queue(&mut self, _: QueueUid) {}

    /// Everything stays in memory.
    fn page_out(&mut self, _: QueueUid, _: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        false
    }

    fn page_in(&mut self, _: QueueUid, _: QueuePosition, _: QueuePosition) {}

    fn forget_paged(&mut self, _: QueueUid, _: QueuePosition, _: QueuePosition) {}
}

impl Effects for Noted {
    fn random(&mut self) -> u64 {
        self.random_state = self.random_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random_state
    }
    fn has_capacity(&self, _slot: ConnectionSlot) -> bool {
        true
    }
    fn deliver(&mut self, slot: ConnectionSlot, channel: ChannelNumber, delivery: Delivery<'_>) {
        self.got.push(got((slot, channel), delivery.tag, &delivery.content));
    }
    fn accepted_deliveries(&self, _: ConnectionSlot, _: &Delivery<'_>, most: usize) -> usize {
        most
    }
    fn get_ok(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        tag: DeliveryTag,
        _again: bool,
        _left: u32,
        content: Content<'_>,
    ) {
        self.got.push(got((slot, channel), tag, &content));
    }
    fn return_message(
        &mut self,
        _slot: ConnectionSlot,
        _channel: ChannelNumber,
        _refusal: &Refusal,
        _content: Content<'_>,
    ) {
    }
    fn reply(&mut self, _slot: ConnectionSlot, _channel: ChannelNumber, _method: Method<'_>) {}
    fn confirm(&mut self, _slot: ConnectionSlot, _channel: ChannelNumber, _confirm: Confirm) {}
    fn refuse(&mut self, slot: ConnectionSlot, channel: ChannelNumber, refusal: Refusal, _method: (u16, u16)) {
        self.refused.push((slot, channel, refusal));
    }
    fn resume(&mut self, _slot: ConnectionSlot) {}
    fn throttle(&mut self, slot: ConnectionSlot) {
        self.throttled.push(slot);
    }
    fn batch(&mut self, _to: ShardId) -> &mut ShardBatch {
        &mut self.batch
    }
    fn admin_request(&mut self, _request: AdminRequest) -> Result<(), AdminRequestError> {
        Err(AdminRequestError::Unavailable)
    }
}

/// The broker and its clients.
pub struct OneShard {
    broker: Broker,
    noted: Noted,
    now_us: u64,
    identity: (UserId, VhostId),
    /// Connections that there have been.
    sessions: u32,
}

impl OneShard {
    /// With the definitions of a broker that was told nothing. `as_classic`: other types of queues are taken as classic ones.
    pub fn new(as_classic: bool) -> Self {
        let mut shard = Self::with_budget(as_classic, broker::limits::WORK_PER_TURN);
        shard.connect(SLOT);
        shard.broker.open_channel(SLOT, CHANNEL);
        shard
    }

    /// The same without a client, and with turns of so many units of work.
    pub fn with_budget(as_classic: bool, work_per_turn: u32) -> Self {
        let mut catalog =
            Catalog::new(CatalogLimits { queue_types_as_classic: as_classic, ..CatalogLimits::default() });
        for definition in default_definitions() {
            catalog.execute(&definition).expect("the first definitions");
        }
        let options = BrokerOptions {
            shard: ShardId(0),
            shards: 1,
            queue_bytes_max: 1 << 30,
            consumer_timeout_ms: 0,
            epoch_unix_s: 1_000_000_000,
            work_per_turn,
        };
        let mut broker = Broker::new(options, catalog);
        let user = broker.catalog_mut().authenticate(b"guest", b"guest", true).expect("the guest");
        let vhost = broker.catalog().open_vhost(user, b"/").expect("the default virtual host");
        let noted = Noted {
            pool: Pool::new(PoolOptions::default()),
            batch: ShardBatch::default(),
            random_state: 1,
            got: Vec::new(),
            refused: Vec::new(),
            throttled: Vec::new(),
        };
        OneShard { broker, noted, now_us: 0, identity: (user, vhost), sessions: 0 }
    }

    /// A client connects. It has no channel yet.
    pub fn connect(&mut self, slot: ConnectionSlot) {
        self.sessions += 1;
        let (user, vhost) = self.identity;
        let capabilities = ClientCapabilities { consumer_cancel_notify: true, connection_blocked: true };
        let session = SessionId { shard: ShardId(0), slot, serial: self.sessions };
        self.broker.open_session(slot, SessionLogin { session, user, vhost, capabilities });
    }

    /// One turn: what `act` does, or as much of it as it does before [`Broker::is_turn_over`].
    pub fn turn<T>(&mut self, act: impl FnOnce(&mut OneTurn<'_>) -> T) -> T {
        self.broker.start_turn();
        let done = act(&mut OneTurn { broker: &mut self.broker, noted: &mut self.noted });
        self.finish_turn();
        done
    }

    fn finish_turn(&mut self) {
        self.broker.flush_batch(&mut self.noted);
        assert!(self.noted.batch.is_empty(), "one shard has nobody to write to");
    }

    /// A turn of what is due, and one of what other turns have left. Returns whether there was anything.
    pub fn run_deferred(&mut self) -> bool {
        while let Some(slot) = self.noted.throttled.pop() {
            self.broker.end_throttle(slot, &mut self.noted);
        }
        let is_due = self.broker.next_timer().is_some_and(|at| at <= self.now_us);
        if is_due {
            self.broker.start_turn();
            self.broker.run_timers(&mut self.noted);
        }
        let is_left = self.broker.has_deferred();
        if is_left {
            self.broker.start_turn();
            self.broker.run_deferred(&mut self.noted);
        }
        self.finish_turn();
        is_due || is_left
    }

    /// Commands that were refused since this was last asked.
    pub fn refusals(&mut self) -> Vec<(ConnectionSlot, ChannelNumber, Refusal)> {
        std::mem::take(&mut self.noted.refused)
    }

    /// The broker, to look at.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// What it has counted.
    pub fn counters(&self) -> BrokerCounters {
        self.broker.counters()
    }

    /// A method. One that is refused ends its channel, and a new one is opened, as a client would.
    pub fn say<'a>(&mut self, method: impl Into<Method<'a>>) -> Result<(), Refusal> {
        let method = method.into();
        self.turn(|turn| turn.command(SLOT, CHANNEL, method));
        self.answered()
    }

    fn answered(&mut self) -> Result<(), Refusal> {
        while self.run_deferred() {}
        match self.refusals().pop() {
            Some((_, _, refusal)) => {
                self.broker.close_channel(SLOT, CHANNEL, &mut self.noted);
                self.broker.open_channel(SLOT, CHANNEL);
                Err(refusal)
            }
            None => Ok(()),
        }
    }

    /// A message.
    pub fn publish(&mut self, exchange: &str, key: &str, properties: &[u8], body: &[u8]) -> Result<(), Refusal> {
        self.turn(|turn| turn.publish(SLOT, CHANNEL, (exchange, key), properties, body));
        self.answered()
    }

    /// A queue.
    pub fn declare(&mut self, name: &str, arguments: &[u8]) -> Result<(), Refusal> {
        self.say(queue::Declare {
            queue: ShortStr::truncated(name),
            passive: false,
            durable: false,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments: TableRef::new(arguments),
        })
    }

    /// A message from a queue, if there is one.
    pub fn get(&mut self, queue: &str, no_ack: bool) -> Option<Got> {
        let queue = ShortStr::truncated(queue);
        // A queue that is gone has none.
        self.say(basic::Get { queue, no_ack }).ok()?;
        self.noted.got.pop()
    }

    /// Everything that consumers were sent since the last look.
    pub fn deliveries(&mut self) -> Vec<Got> {
        std::mem::take(&mut self.noted.got)
    }

    /// Time passes, and nothing is left to do.
    pub fn pass(&mut self, ms: u64) {
        self.set_clock(ms);
        while self.run_deferred() {}
    }

    /// Time has passed. What is due is left to do.
    pub fn set_clock(&mut self, ms: u64) {
        self.now_us += ms * MS_US;
        self.broker.set_now(self.now_us);
    }

    /// Whether there is a queue of this name.
    pub fn has_queue(&self, name: &str) -> bool {
        let vhost = self.broker.catalog().vhost_by_name("/");
        vhost.is_some_and(|vhost| self.broker.catalog().queue(vhost, name.as_bytes()).is_some())
    }

    /// Whether there is an exchange of this name.
    pub fn has_exchange(&self, name: &str) -> bool {
        let vhost = self.broker.catalog().vhost_by_name("/");
        vhost.is_some_and(|vhost| self.broker.catalog().exchange(vhost, name.as_bytes()).is_some())
    }

    /// Messages that wait in all queues.
    pub fn waiting(&self) -> usize {
        self.broker.queues().map(|queue| queue.ready.len()).sum()
    }
}

/// A turn of the broker.
pub struct OneTurn<'a> {
    broker: &'a mut Broker,
    noted: &'a mut Noted,
}

impl OneTurn<'_> {
    /// Whether nothing more of a connection is done in this turn.
    pub fn is_over(&self, slot: ConnectionSlot) -> bool {
        self.broker.is_turn_over() || !self.broker.may_read(slot) || !self.noted.refused.is_empty()
    }

    /// A method of a client.
    pub fn command<'a>(&mut self, slot: ConnectionSlot, channel: ChannelNumber, method: impl Into<Method<'a>>) {
        let answer = self.broker.command(slot, channel, method.into(), self.noted);
        if let Ok(ReadControl::Batch) = answer {
            self.broker.flush_definitions(slot, self.noted);
        }
        self.note(slot, channel, answer);
    }

    fn note(&mut self, slot: ConnectionSlot, channel: ChannelNumber, answer: Result<ReadControl, Refusal>) {
        if let Err(refusal) = answer {
            self.noted.refused.push((slot, channel, refusal));
        }
    }

    /// A message of a client, to an exchange with a key.
    pub fn publish(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        (exchange, key): (&str, &str),
        properties: &[u8],
        body: &[u8],
    ) {
        let publish = Publish {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            mandatory: false,
            immediate: false,
            properties: RawProperties::new(properties),
            body: BodyRef::Small(body),
        };
        let answer = self.broker.publish(slot, channel, publish, self.noted);
        self.note(slot, channel, answer);
    }

    /// A channel begins.
    pub fn open_channel(&mut self, slot: ConnectionSlot, channel: ChannelNumber) {
        self.broker.open_channel(slot, channel);
    }

    /// A channel ends.
    pub fn close_channel(&mut self, slot: ConnectionSlot, channel: ChannelNumber) {
        self.broker.close_channel(slot, channel, self.noted);
    }

    /// A connection ends.
    pub fn close_session(&mut self, slot: ConnectionSlot) {
        self.broker.close_session(slot, self.noted);
    }
}
