//! A broker of one shard with one client, for targets that ask what a peer can do to it.
//!
//! Enters: methods and messages of the client, time.  Leaves: refusals, messages.
//! Owns:   the broker, its memory, what it had carried out last.
//! Never:  uses a frame or a socket: the targets `wire` and `session` have those.

use broker::{
    AdminRequest, AdminRequestError, Broker, BrokerOptions, ClientCapabilities, Confirm, ConnectionSlot, Delivery,
    Effects, Publish, SessionLogin, ShardBatch,
};
use catalog::{Catalog, CatalogLimits, QueueUid, Refusal, SessionId, ShardId, default_definitions};
use queues::{AppendResult, BodyRef, Content, Message, MessageStorage, QueuePosition};
use slab::{Pool, PoolOptions};
use wire::method::{basic, queue};
use wire::{ChannelNumber, DeliveryTag, Method, RawProperties, ShortStr, TableRef};

const SLOT: ConnectionSlot = ConnectionSlot::new(0);
const CHANNEL: ChannelNumber = ChannelNumber(1);
const MS_US: u64 = 1_000;

/// A message that came to the client.
pub struct Got {
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
    refused: Option<Refusal>,
}

fn got(tag: DeliveryTag, content: &Content<'_>) -> Got {
    let body = match content.body {
        BodyRef::Small(bytes) => bytes.to_vec(),
        BodyRef::Large(slice) => slice.to_vec(),
    };
    Got { tag, properties: content.properties.to_vec(), body }
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
    fn deliver(&mut self, _slot: ConnectionSlot, _channel: ChannelNumber, delivery: Delivery<'_>) {
        self.got.push(got(delivery.tag, &delivery.content));
    }
    fn accepted_deliveries(&self, _: ConnectionSlot, _: &Delivery<'_>, most: usize) -> usize {
        most
    }
    fn get_ok(
        &mut self,
        _slot: ConnectionSlot,
        _channel: ChannelNumber,
        tag: DeliveryTag,
        _again: bool,
        _left: u32,
        content: Content<'_>,
    ) {
        self.got.push(got(tag, &content));
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
    fn refuse(&mut self, _slot: ConnectionSlot, _channel: ChannelNumber, refusal: Refusal, _method: (u16, u16)) {
        self.refused = Some(refusal);
    }
    fn resume(&mut self, _slot: ConnectionSlot) {}
    fn throttle(&mut self, _slot: ConnectionSlot) {}
    fn batch(&mut self, _to: ShardId) -> &mut ShardBatch {
        &mut self.batch
    }
    fn admin_request(&mut self, _request: AdminRequest) -> Result<(), AdminRequestError> {
        Err(AdminRequestError::Unavailable)
    }
}

/// The broker and its client.
pub struct OneShard {
    broker: Broker,
    noted: Noted,
    now_us: u64,
}

impl OneShard {
    /// With the definitions of a broker that was told nothing. `as_classic`: other types of queues are taken as classic ones.
    pub fn new(as_classic: bool) -> Self {
        let mut catalog =
            Catalog::new(CatalogLimits { queue_types_as_classic: as_classic, ..CatalogLimits::default() });
        for definition in default_definitions() {
            catalog.execute(&definition).expect("the first definitions");
        }
        let shard = ShardId(0);
        let options = BrokerOptions {
            shard,
            shards: 1,
            queue_bytes_max: 1 << 30,
            consumer_timeout_ms: 0,
            epoch_unix_s: 1_000_000_000,
            work_per_turn: broker::limits::WORK_PER_TURN,
        };
        let mut broker = Broker::new(options, catalog);
        let user = broker.catalog_mut().authenticate(b"guest", b"guest", true).expect("the guest");
        let vhost = broker.catalog().open_vhost(user, b"/").expect("the default virtual host");
        let capabilities = ClientCapabilities { consumer_cancel_notify: true, connection_blocked: true };
        let session = SessionId { shard, slot: SLOT, serial: 1 };
        broker.open_session(SLOT, SessionLogin { session, user, vhost, capabilities });
        broker.open_channel(SLOT, CHANNEL);
        let pool = Pool::new(PoolOptions::default());
        let noted = Noted { pool, batch: ShardBatch::default(), random_state: 1, got: Vec::new(), refused: None };
        OneShard { broker, noted, now_us: 0 }
    }

    /// A method. One that is refused ends its channel, and a new one is opened, as a client would.
    pub fn say<'a>(&mut self, method: impl Into<Method<'a>>) -> Result<(), Refusal> {
        let answer = self.broker.command(SLOT, CHANNEL, method.into(), &mut self.noted);
        self.answered(answer.map(drop))
    }

    fn answered(&mut self, answer: Result<(), Refusal>) -> Result<(), Refusal> {
        self.broker.flush_batch(&mut self.noted);
        assert!(self.noted.batch.is_empty(), "one shard has nobody to write to");
        let answer = self.noted.refused.take().map_or(answer, Err);
        if answer.is_err() {
            self.broker.close_channel(SLOT, CHANNEL, &mut self.noted);
            self.broker.open_channel(SLOT, CHANNEL);
        }
        answer
    }

    /// A message.
    pub fn publish(&mut self, exchange: &str, key: &str, properties: &[u8], body: &[u8]) -> Result<(), Refusal> {
        let publish = Publish {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            mandatory: false,
            immediate: false,
            properties: RawProperties::new(properties),
            body: BodyRef::Small(body),
        };
        let answer = self.broker.publish(SLOT, CHANNEL, publish, &mut self.noted);
        self.answered(answer.map(drop))
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

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        self.now_us += ms * MS_US;
        self.broker.set_now(self.now_us);
        self.broker.run_timers(&mut self.noted);
        self.broker.flush_batch(&mut self.noted);
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
