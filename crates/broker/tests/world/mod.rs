//! A broker of several shards on one thread: effects are recorded as text, batches are carried from shard to shard.

mod recorded_pages;
mod recorded_store;

use broker::{
    AdminRequest, AdminRequestError, Broker, BrokerOptions, ClientCapabilities, Confirm, ConfirmOutcome,
    ConnectionSlot, Delivery, Effects, Publish, ReadControl, SessionLogin, ShardBatch,
};
use catalog::{
    Catalog, CatalogLimits, Definition, ExecutedDefinition, MessageStamp, Name, Password, Permission, QueueUid,
    Refusal, SessionId, ShardId,
};
use queues::{AppendResult, BodyRef, Content, Message, MessageStorage, QueuePosition};
use recorded_pages::RecordedPages;
use recorded_store::RecordedStore;
use slab::{Pool, PoolOptions};
use std::collections::{BTreeMap, BTreeSet};
use wire::{BodyRun, ChannelNumber, DeliveryTag, Method, RawProperties};

/// The effects of one shard's broker.
pub struct EffectRecorder {
    pool: Pool,
    random_state: u64,
    batches: Vec<ShardBatch>,
    /// What each connection was sent.
    pub sent: BTreeMap<ConnectionSlot, Vec<String>>,
    /// Connections whose outputs are full.
    pub blocked: BTreeSet<ConnectionSlot>,
    /// Deliveries for which outputs have capacity; `None` is any number.
    pub capacity: Option<usize>,
    /// Deliveries for which an output has capacity; those of the others have it for any number.
    pub room: BTreeMap<ConnectionSlot, usize>,
    /// Every delivery comes alone.
    pub delivers_singly: bool,
    /// Deliveries that came in runs.
    pub delivered_in_runs: usize,
    /// Connections that were resumed.
    pub resumed: Vec<ConnectionSlot>,
    /// Admin requests.
    pub requests: Vec<AdminRequest>,
    /// The bodies of deliveries, with the stamps of the messages.
    pub stamps: Vec<(String, Option<MessageStamp>)>,
    /// The properties of what `basic.get` took.
    pub properties: Vec<Vec<u8>>,
    /// Exchange and routing key of what `basic.get` took.
    pub origins: Vec<String>,
    /// The properties of the last delivery.
    pub delivered_properties: Vec<u8>,
    /// Exchange, routing key and properties of each delivery, if they are wanted.
    pub heads: Option<Vec<(ConnectionSlot, String)>>,
    /// The last version that was journaled, if definitions are.
    pub journal: Option<u64>,
    /// The store of the shard, which is off.
    pub store: RecordedStore,
    /// The pages of the shard, which are off.
    pub pages: RecordedPages,
}

/// Admin requests that a shard of this world accepts.
const REQUESTS_MAX: usize = 2;

impl EffectRecorder {
    fn record(&mut self, slot: ConnectionSlot, channel: ChannelNumber, text: String) {
        self.sent.entry(slot).or_default().push(if channel == ChannelNumber(1) {
            text
        } else {
            format!("{channel}:{text}")
        });
    }
}

fn text(content: &Content<'_>) -> String {
    match content.body {
        BodyRef::Small(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        BodyRef::Large(slice) => format!("{} bytes", slice.len()),
    }
}

impl MessageStorage for EffectRecorder {
    fn pool(&self) -> &Pool {
        &self.pool
    }
    fn append(&mut self, queue: QueueUid, position: QueuePosition, message: Message) -> AppendResult {
        self.store.append(queue, position, message)
    }
    fn append_run(&mut self, queue: QueueUid, first: QueuePosition, messages: &[Message]) -> AppendResult {
        self.store.append_run(queue, first, messages)
    }
    fn forget(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        self.store.forget(queue, first, count);
    }
    fn mark_delivered(&mut self, queue: QueueUid, first: QueuePosition, count: u32) {
        self.store.mark_delivered(queue, first, count);
    }
    fn mark_returned(&mut self, queue: QueueUid, position: QueuePosition, times: u32) {
        self.store.mark_returned(queue, position, times);
    }
    fn begin_commit(&mut self) {
        self.store.begin_commit();
    }
    fn end_commit(&mut self) -> AppendResult {
        self.store.end_commit()
    }
    fn settled(&mut self) -> AppendResult {
        self.store.settled()
    }
    fn await_durable(&mut self, ticket: u64) {
        self.store.await_durable(ticket);
    }
    fn drop_queue(&mut self, queue: QueueUid) {
        self.store.drop_queue(queue);
        self.pages.drop_queue(queue);
    }
    fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        self.pages.page_out(queue, messages)
    }
    fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        self.pages.page_in(queue, first, end);
    }
    fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        self.pages.forget_paged(queue, first, end);
    }
}

impl Effects for EffectRecorder {
    fn random(&mut self) -> u64 {
        self.random_state = self.random_state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random_state
    }
    fn has_capacity(&self, slot: ConnectionSlot) -> bool {
        self.capacity != Some(0) && !self.blocked.contains(&slot) && self.room.get(&slot) != Some(&0)
    }
    fn deliver(&mut self, slot: ConnectionSlot, channel: ChannelNumber, delivery: Delivery<'_>) {
        self.capacity = self.capacity.map(|capacity| capacity - 1);
        if let Some(room) = self.room.get_mut(&slot) {
            *room -= 1;
        }
        let again = if delivery.redelivered { "!" } else { "" };
        let tag = String::from_utf8_lossy(delivery.consumer_tag).into_owned();
        self.delivered_properties = delivery.content.properties.to_vec();
        if let Some(heads) = &mut self.heads {
            let Content { exchange, routing_key, properties, .. } = delivery.content;
            let head = [exchange, routing_key, properties].map(<[u8]>::escape_ascii);
            heads.push((slot, head.map(|part| part.to_string()).join("/")));
        }
        self.stamps.push((text(&delivery.content), MessageStamp::of(RawProperties::new(delivery.content.properties))));
        self.record(slot, channel, format!("{tag}#{}={}{again}", delivery.tag, text(&delivery.content)));
    }
    fn accepted_deliveries(&self, slot: ConnectionSlot, _: &Delivery<'_>, most: usize) -> usize {
        // The room that all outputs share is looked at for each delivery.
        let room = self.room.get(&slot).copied().unwrap_or(usize::MAX);
        let is_run = self.has_capacity(slot) && self.capacity.is_none() && !self.delivers_singly;
        if is_run { room.min(most) } else { 0 }
    }
    fn deliver_run(&mut self, slot: ConnectionSlot, channel: ChannelNumber, first: Delivery<'_>, bodies: BodyRun<'_>) {
        self.delivered_in_runs += bodies.len();
        for (tag, body) in (first.tag.0..).map(DeliveryTag).zip(bodies.iter()) {
            let content = Content { body: BodyRef::Small(body), ..first.content };
            self.deliver(slot, channel, Delivery { tag, content, ..first });
        }
    }
    fn get_ok(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        tag: DeliveryTag,
        redelivered: bool,
        left: u32,
        content: Content<'_>,
    ) {
        let again = if redelivered { "!" } else { "" };
        self.properties.push(content.properties.to_vec());
        let [exchange, key] = [content.exchange, content.routing_key].map(String::from_utf8_lossy);
        self.origins.push(format!("{exchange}/{key}"));
        self.record(slot, channel, format!("got#{tag}={}{again} ({left} left)", text(&content)));
    }
    fn return_message(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        refusal: &Refusal,
        content: Content<'_>,
    ) {
        self.record(slot, channel, format!("returned {} {}", refusal.text, text(&content)));
    }
    fn reply(&mut self, slot: ConnectionSlot, channel: ChannelNumber, method: Method<'_>) {
        let words = match method {
            Method::QueueDeclareOk(ok) => {
                format!("declare-ok {} {}/{}", ok.queue, ok.message_count, ok.consumer_count)
            }
            Method::QueuePurgeOk(ok) => format!("purge-ok {}", ok.message_count),
            Method::QueueDeleteOk(ok) => format!("delete-ok {}", ok.message_count),
            Method::BasicConsumeOk(ok) => format!("consume-ok {}", ok.consumer_tag),
            Method::BasicCancelOk(ok) => format!("cancel-ok {}", ok.consumer_tag),
            Method::BasicCancel(cancel) => format!("cancel {}", cancel.consumer_tag),
            Method::ConnectionBlocked(blocked) => format!("blocked: {}", blocked.reason),
            other => other.name().to_owned(),
        };
        self.record(slot, channel, words);
    }
    fn confirm(&mut self, slot: ConnectionSlot, channel: ChannelNumber, confirm: Confirm) {
        let outcome = if confirm.outcome == ConfirmOutcome::Accepted { "ack" } else { "nack" };
        self.record(
            slot,
            channel,
            format!("{outcome} {}{}", confirm.delivery_tag, if confirm.multiple { "+" } else { "" }),
        );
    }
    fn refuse(&mut self, slot: ConnectionSlot, channel: ChannelNumber, refusal: Refusal, _method: (u16, u16)) {
        self.record(slot, channel, format!("refused {}", refusal.text));
    }
    fn throttle(&mut self, _slot: ConnectionSlot) {}
    fn resume(&mut self, slot: ConnectionSlot) {
        self.resumed.push(slot);
    }
    fn batch(&mut self, to: ShardId) -> &mut ShardBatch {
        &mut self.batches[to.0 as usize]
    }
    fn admin_request(&mut self, request: AdminRequest) -> Result<(), AdminRequestError> {
        if self.requests.len() >= REQUESTS_MAX {
            return Err(AdminRequestError::Busy);
        }
        self.requests.push(request);
        Ok(())
    }
    fn journal(
        &mut self,
        version: u64,
        definition: &Definition,
        executed: &ExecutedDefinition,
        _catalog: &Catalog,
    ) -> bool {
        let is_durable = match definition {
            Definition::DeclareQueue { durable, .. } | Definition::DeclareExchange { durable, .. } => *durable,
            _ => executed.queues_removed.iter().any(|queue| queue.uid.is_some()),
        };
        let is_journaled = self.journal.is_some() && is_durable;
        if is_journaled {
            self.journal = Some(version);
        }
        is_journaled
    }
}

/// A connection: its shard and slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WorldConnection(pub usize, pub ConnectionSlot);

/// The whole broker: its shards and the time.
pub struct BrokerWorld {
    pub shards: Vec<(Broker, EffectRecorder)>,
    /// What turns have left undone is done at once; otherwise by [`run_deferred`](Self::run_deferred).
    pub runs_deferred: bool,
    now_us: u64,
}

impl BrokerWorld {
    /// A broker of so many shards with a queue limit in bytes.
    pub fn new(shards: u16, queue_bytes_max: u64) -> BrokerWorld {
        BrokerWorld::with(shards, queue_bytes_max, 0, CatalogLimits::default())
    }

    /// With a consumer timeout, and limits of the definitions.
    pub fn with(shards: u16, queue_bytes_max: u64, consumer_timeout_ms: u64, limits: CatalogLimits) -> BrokerWorld {
        BrokerWorld::with_options(shards, limits, |shard| BrokerOptions {
            shard,
            shards,
            queue_bytes_max,
            epoch_unix_s: 1_000_000_000,
            work_per_turn: broker::limits::WORK_PER_TURN,
            consumer_timeout_ms,
        })
    }

    /// A broker of one shard whose turns have such a budget.
    pub fn with_work(work_per_turn: u32) -> BrokerWorld {
        BrokerWorld::with_budgets(work_per_turn, u64::MAX)
    }

    /// The same with a queue limit in bytes.
    pub fn with_budgets(work_per_turn: u32, queue_bytes_max: u64) -> BrokerWorld {
        BrokerWorld::with_options(1, CatalogLimits::default(), |shard| BrokerOptions {
            shard,
            shards: 1,
            queue_bytes_max,
            epoch_unix_s: 1_000_000_000,
            work_per_turn,
            consumer_timeout_ms: 0,
        })
    }

    fn with_options(shards: u16, limits: CatalogLimits, options: impl Fn(ShardId) -> BrokerOptions) -> BrokerWorld {
        let shards = (0..shards).map(|id| {
            let mut catalog = Catalog::new(limits.clone());
            let vhost = Name::from("/");
            let user = Name::from("guest");
            let put = Definition::PutUser {
                name: user.clone(),
                password: Password::plain("guest"),
                tags: Vec::new(),
                loopback_only: true,
            };
            let permit = Definition::SetPermission { user, vhost: vhost.clone(), permission: Permission::all() };
            for definition in [Definition::CreateVhost { name: vhost }, put, permit] {
                catalog.execute(&definition).expect("the first definitions");
            }
            let recorder = EffectRecorder {
                pool: Pool::new(PoolOptions::default()),
                random_state: 1,
                batches: (0..shards).map(|_| ShardBatch::default()).collect(),
                sent: BTreeMap::new(),
                blocked: BTreeSet::new(),
                capacity: None,
                room: BTreeMap::new(),
                delivers_singly: false,
                delivered_in_runs: 0,
                resumed: Vec::new(),
                requests: Vec::new(),
                stamps: Vec::new(),
                properties: Vec::new(),
                origins: Vec::new(),
                delivered_properties: Vec::new(),
                heads: None,
                journal: None,
                store: RecordedStore::default(),
                pages: RecordedPages::default(),
            };
            (Broker::new(options(ShardId(id)), catalog), recorder)
        });
        BrokerWorld { shards: shards.collect(), runs_deferred: true, now_us: 0 }
    }

    /// Time passes on every shard, in steps as short as their timers want them.
    pub fn advance(&mut self, ms: u64) {
        let until_us = self.now_us + ms * 1_000;
        loop {
            let next = self.shards.iter().filter_map(|(broker, _)| broker.next_timer()).min();
            self.now_us = next.map_or(until_us, |next| next.clamp(self.now_us, until_us));
            for (broker, recorder) in &mut self.shards {
                broker.set_now(self.now_us);
                broker.run_timers(recorder);
            }
            self.exchange_batches();
            let due = self.shards.iter().filter_map(|(broker, _)| broker.next_timer()).any(|next| next <= until_us);
            if self.now_us == until_us && !due {
                return;
            }
        }
    }

    /// One turn of what turns have left undone, on every shard. Returns whether something was.
    pub fn run_deferred(&mut self) -> bool {
        let mut any = false;
        for (broker, recorder) in &mut self.shards {
            broker.start_turn();
            if broker.has_deferred() {
                any = true;
                broker.run_deferred(recorder);
            }
            broker.start_turn();
        }
        self.exchange_batches();
        any
    }

    /// A connection with channel 1 open.
    pub fn connect(&mut self, shard: usize, slot: u32) -> WorldConnection {
        let slot = ConnectionSlot::new(slot);
        let (broker, _) = &mut self.shards[shard];
        let user = broker.catalog_mut().authenticate(b"guest", b"guest", true).expect("the guest");
        let vhost = broker.catalog().open_vhost(user, b"/").expect("the default vhost");
        let session = SessionId { shard: ShardId(shard as u16), slot, serial: 1 };
        let capabilities = ClientCapabilities { consumer_cancel_notify: true, connection_blocked: true };
        broker.open_session(slot, SessionLogin { session, user, vhost, capabilities });
        broker.open_channel(slot, ChannelNumber(1));
        WorldConnection(shard, slot)
    }

    /// Closes a connection.
    pub fn disconnect(&mut self, at: WorldConnection) {
        let (broker, recorder) = &mut self.shards[at.0];
        broker.close_session(at.1, recorder);
        self.exchange_batches();
    }

    /// A command, and all that follows from it. Its refusal is recorded like an effect.
    pub fn command<'a>(&mut self, at: WorldConnection, method: impl Into<Method<'a>>) {
        let _flow = self.command_only(at, method);
        self.exchange_batches();
    }

    /// Commands that arrive together, as a connection reads them: those behind a batch of definitions wait for it.
    pub fn command_all(&mut self, at: WorldConnection, methods: &[Method<'_>]) {
        let mut batching = false;
        for method in methods {
            let (broker, recorder) = &mut self.shards[at.0];
            if batching && !broker.may_batch(at.1, method) {
                broker.flush_definitions(at.1, recorder);
                self.exchange_batches();
            }
            let (broker, recorder) = &mut self.shards[at.0];
            batching = match broker.command(at.1, ChannelNumber(1), *method, recorder) {
                Ok(flow) => flow == ReadControl::Batch,
                Err(refusal) => {
                    recorder.record(at.1, ChannelNumber(1), format!("refused {}", refusal.text));
                    false
                }
            };
            if !batching {
                self.exchange_batches();
            }
        }
        let (broker, recorder) = &mut self.shards[at.0];
        broker.flush_definitions(at.1, recorder);
        self.exchange_batches();
    }

    /// A command, before any batch is carried.
    pub fn command_only<'a>(&mut self, at: WorldConnection, method: impl Into<Method<'a>>) -> ReadControl {
        let (broker, recorder) = &mut self.shards[at.0];
        match broker.command(at.1, ChannelNumber(1), method.into(), recorder) {
            Ok(ReadControl::Batch) => {
                broker.flush_definitions(at.1, recorder);
                ReadControl::Pause
            }
            Ok(flow) => flow,
            Err(refusal) => {
                recorder.record(at.1, ChannelNumber(1), format!("refused {}", refusal.text));
                ReadControl::Continue
            }
        }
    }

    /// A publish. Returns whether the connection may continue.
    pub fn publish(&mut self, at: WorldConnection, exchange: &str, routing_key: &str, body: &str) -> bool {
        let flow = self.publish_only(at, exchange, routing_key, body, &[0, 0], false);
        self.exchange_batches();
        flow == ReadControl::Continue
    }

    /// A publish with properties, to the default exchange.
    pub fn publish_with(&mut self, at: WorldConnection, key: &str, body: &str, properties: &wire::Properties) {
        let _flow = self.publish_only(at, "", key, body, &properties.to_bytes(), false);
        self.exchange_batches();
    }

    pub fn publish_mandatory(&mut self, at: WorldConnection, routing_key: &str, body: &str) {
        let _flow = self.publish_only(at, "", routing_key, body, &[0, 0], true);
        self.exchange_batches();
    }

    /// A publish, before any batch is carried.
    pub fn publish_only(
        &mut self,
        at: WorldConnection,
        exchange: &str,
        key: &str,
        body: &str,
        properties: &[u8],
        mandatory: bool,
    ) -> ReadControl {
        let (broker, recorder) = &mut self.shards[at.0];
        let publish = Publish {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            mandatory,
            immediate: false,
            properties: RawProperties::new(properties),
            body: BodyRef::Small(body.as_bytes()),
        };
        match broker.publish(at.1, ChannelNumber(1), publish, recorder) {
            Ok(flow) => flow,
            Err(refusal) => {
                recorder.record(at.1, ChannelNumber(1), format!("refused {}", refusal.text));
                ReadControl::Continue
            }
        }
    }

    /// Carries one batch from a shard to another, if there is one.
    pub fn carry_batch(&mut self, from: usize, to: usize) -> bool {
        if from == to || self.shards[from].1.batches[to].is_empty() {
            return false;
        }
        let mut batch = std::mem::take(&mut self.shards[from].1.batches[to]);
        let (broker, recorder) = &mut self.shards[to];
        broker.receive(ShardId(from as u16), &mut batch, recorder);
        broker.flush_batch(recorder);
        true
    }

    /// Carries batches until there are none.
    pub fn exchange_batches(&mut self) {
        let count = self.shards.len();
        loop {
            for (broker, recorder) in &mut self.shards {
                broker.start_turn();
                while self.runs_deferred && broker.has_deferred() {
                    broker.run_deferred(recorder);
                    broker.start_turn();
                }
                broker.flush_batch(recorder);
            }
            let mut moved = false;
            for from in 0..count {
                for to in 0..count {
                    moved |= self.carry_batch(from, to);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Gives every shard a store that makes nothing durable by itself.
    pub fn switch_stores_on(&mut self) {
        for (broker, recorder) in &mut self.shards {
            broker.use_store();
            recorder.store.is_on = true;
        }
    }

    /// Has waiting messages of every shard leave the memory beyond so many bytes.
    pub fn switch_paging_on(&mut self, threshold_bytes: u64) {
        for (broker, recorder) in &mut self.shards {
            broker.set_paging_threshold(threshold_bytes);
            recorder.pages.is_on = true;
        }
    }

    /// Answers the first request for messages of one of the queues that have asked, `choice` says of which. Returns whether
    /// one had.
    pub fn answer_page(&mut self, choice: usize) -> bool {
        let asking =
            self.shards.iter().enumerate().flat_map(|(shard, (_, recorder))| {
                recorder.pages.asking().into_iter().map(move |queue| (shard, queue))
            });
        let asking: Vec<(usize, QueueUid)> = asking.collect();
        let Some(&(shard, queue)) = asking.get(choice % asking.len().max(1)) else { return false };
        let (broker, recorder) = &mut self.shards[shard];
        if let Some((first, messages)) = recorder.pages.answer(queue) {
            broker.paged_in(queue, first, messages, recorder);
        }
        self.exchange_batches();
        true
    }

    /// Answers everything that is asked for, and what is asked for then.
    pub fn answer_pages(&mut self, choice: usize) {
        while self.answer_page(choice) {}
    }

    /// What the store of a shard was told since the last call.
    pub fn stored(&mut self, shard: usize) -> String {
        std::mem::take(&mut self.shards[shard].1.store.told).join(" | ")
    }

    /// What the store of a shard would restore.
    pub fn live(&self, shard: usize) -> String {
        self.shards[shard].1.store.live()
    }

    /// The store of a shard reports a ticket durable, before any batch is carried.
    pub fn report_durable(&mut self, shard: usize, ticket: u64) {
        let (broker, recorder) = &mut self.shards[shard];
        recorder.store.note_durable(ticket);
        broker.durable(ticket, recorder);
    }

    /// Everything that a shard has appended becomes durable, and what follows from it happens.
    pub fn make_durable(&mut self, shard: usize) {
        let ticket = self.shards[shard].1.store.last_ticket();
        self.report_durable(shard, ticket);
        self.exchange_batches();
    }

    /// The journal reports a version of the definitions durable, before any batch is carried.
    pub fn report_definitions(&mut self, version: u64) {
        let (broker, recorder) = &mut self.shards[0];
        broker.definitions_durable(version, recorder);
    }

    /// What a connection was sent since the last call.
    pub fn sent(&mut self, at: WorldConnection) -> String {
        self.shards[at.0].1.sent.remove(&at.1).unwrap_or_default().join(" | ")
    }

    /// A connection's output has capacity for so many more deliveries, or for any number.
    pub fn set_room(&mut self, at: WorldConnection, deliveries: Option<usize>) {
        let (broker, recorder) = &mut self.shards[at.0];
        match deliveries {
            Some(deliveries) => _ = recorder.room.insert(at.1, deliveries),
            None => _ = recorder.room.remove(&at.1),
        }
        broker.output_ready(at.1, recorder);
        self.exchange_batches();
    }

    /// Empties or fills a connection's output.
    pub fn set_output_capacity(&mut self, at: WorldConnection, has_capacity: bool) {
        let (broker, recorder) = &mut self.shards[at.0];
        if has_capacity {
            recorder.blocked.remove(&at.1);
            broker.output_ready(at.1, recorder);
        } else {
            recorder.blocked.insert(at.1);
        }
        self.exchange_batches();
    }
}
