//! A broker of several shards on one thread: effects are noted down as text, mail is carried from shard to shard.
//!
//! Enters: commands.  Leaves: what each client was sent, in words.
//! Owns:   the brokers, the mail between them.
//! Never:  uses a socket or a thread.

use broker::{
    Batch, BodyRef, Broker, BrokerOptions, Capabilities, Confirm, ConfirmOutcome, Content, Delivery, Effects, Flow, Login,
    Message, NotTaken, Place, Publish, Request, Slot, Stored,
};
use catalog::{Catalog, Definition, Limits, Name, Password, Permission, QueueId, Refusal, SessionId, ShardId, Stamp};
use slab::{Pool, PoolOptions};
use std::collections::{BTreeMap, BTreeSet};
use wire::{Method, RawProperties};

/// What one shard's broker had carried out.
pub struct Recorder {
    pool: Pool,
    chance: u64,
    batches: Vec<Batch>,
    /// What each connection was sent.
    pub sent: BTreeMap<Slot, Vec<String>>,
    /// Connections without room in their outputs.
    pub blocked: BTreeSet<Slot>,
    /// Connections that may go on.
    pub resumed: Vec<Slot>,
    /// Administrative requests.
    pub requests: Vec<Request>,
    /// The bodies of deliveries, with the stamps of the messages.
    pub stamps: Vec<(String, Option<Stamp>)>,
}

/// Requests that a shard of this world takes.
const REQUESTS_MAX: usize = 2;

impl Recorder {
    fn say(&mut self, slot: Slot, channel: u16, text: String) {
        self.sent.entry(slot).or_default().push(if channel == 1 { text } else { format!("{channel}:{text}") });
    }
}

fn text(content: &Content<'_>) -> String {
    match content.body {
        BodyRef::Small(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        BodyRef::Large(slice) => format!("{} bytes", slice.len()),
    }
}

impl Effects for Recorder {
    fn pool(&self) -> &Pool {
        &self.pool
    }
    fn chance(&mut self) -> u64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.chance
    }
    fn has_room(&self, slot: Slot) -> bool {
        !self.blocked.contains(&slot)
    }
    fn deliver(&mut self, slot: Slot, channel: u16, delivery: Delivery<'_>) {
        let again = if delivery.redelivered { "!" } else { "" };
        let tag = String::from_utf8_lossy(delivery.consumer_tag).into_owned();
        self.stamps.push((text(&delivery.content), Stamp::of(RawProperties::new(delivery.content.properties))));
        self.say(slot, channel, format!("{tag}#{}={}{again}", delivery.tag, text(&delivery.content)));
    }
    fn got(&mut self, slot: Slot, channel: u16, tag: u64, redelivered: bool, left: u32, content: Content<'_>) {
        let again = if redelivered { "!" } else { "" };
        self.say(slot, channel, format!("got#{tag}={}{again} ({left} left)", text(&content)));
    }
    fn returned(&mut self, slot: Slot, channel: u16, refusal: &Refusal, content: Content<'_>) {
        self.say(slot, channel, format!("returned {} {}", refusal.text, text(&content)));
    }
    fn reply(&mut self, slot: Slot, channel: u16, method: Method<'_>) {
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
        self.say(slot, channel, words);
    }
    fn confirm(&mut self, slot: Slot, channel: u16, confirm: Confirm) {
        let outcome = if confirm.outcome == ConfirmOutcome::Accepted { "ack" } else { "nack" };
        self.say(slot, channel, format!("{outcome} {}{}", confirm.delivery_tag, if confirm.multiple { "+" } else { "" }));
    }
    fn refuse(&mut self, slot: Slot, channel: u16, refusal: Refusal, _method: (u16, u16)) {
        self.say(slot, channel, format!("refused {}", refusal.text));
    }
    fn pace(&mut self, _slot: Slot) {}
    fn resume(&mut self, slot: Slot) {
        self.resumed.push(slot);
    }
    fn batch(&mut self, to: ShardId) -> &mut Batch {
        &mut self.batches[to.0 as usize]
    }
    fn request(&mut self, request: Request) -> Result<(), NotTaken> {
        if self.requests.len() >= REQUESTS_MAX {
            return Err(NotTaken::Busy);
        }
        self.requests.push(request);
        Ok(())
    }
    fn append(&mut self, _queue: QueueId, _place: Place, _message: &Message) -> Stored {
        Stored::Now
    }
    fn forget(&mut self, _queue: QueueId, _place: Place) {}
}

/// A connection: its shard and slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct At(pub usize, pub Slot);

/// The whole broker.
pub struct World {
    pub shards: Vec<(Broker, Recorder)>,
    now_us: u64,
}

impl World {
    /// A broker of so many shards with a queue limit in bytes.
    pub fn new(shards: u16, queue_bytes_max: u64) -> World {
        World::with(shards, queue_bytes_max, 0, Limits::default())
    }

    /// With a consumer timeout, and limits of the definitions.
    pub fn with(shards: u16, queue_bytes_max: u64, consumer_timeout_ms: u64, limits: Limits) -> World {
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
            let options = BrokerOptions {
                shard: ShardId(id),
                shards,
                queue_bytes_max,
                epoch_unix_s: 1_000_000_000,
                consumer_timeout_ms,
            };
            let recorder = Recorder {
                pool: Pool::new(PoolOptions::default()),
                chance: 1,
                batches: (0..shards).map(|_| Batch::default()).collect(),
                sent: BTreeMap::new(),
                blocked: BTreeSet::new(),
                resumed: Vec::new(),
                requests: Vec::new(),
                stamps: Vec::new(),
            };
            (Broker::new(options, catalog), recorder)
        });
        World { shards: shards.collect(), now_us: 0 }
    }

    /// Time passes on every shard, in steps as short as their timers want them.
    pub fn pass(&mut self, ms: u64) {
        let until_us = self.now_us + ms * 1_000;
        loop {
            let next = self.shards.iter().filter_map(|(broker, _)| broker.next_timer()).min();
            self.now_us = next.map_or(until_us, |next| next.clamp(self.now_us, until_us));
            for (broker, recorder) in &mut self.shards {
                broker.set_now(self.now_us);
                broker.fire(recorder);
            }
            self.settle();
            let due = self.shards.iter().filter_map(|(broker, _)| broker.next_timer()).any(|next| next <= until_us);
            if self.now_us == until_us && !due {
                return;
            }
        }
    }

    /// A connection with channel 1 open.
    pub fn connect(&mut self, shard: usize, slot: Slot) -> At {
        let (broker, _) = &mut self.shards[shard];
        let user = broker.catalog_mut().authenticate(b"guest", b"guest", true).expect("the guest");
        let vhost = broker.catalog().open_vhost(user, b"/").expect("the default vhost");
        let session = SessionId { shard: ShardId(shard as u16), slot, serial: 1 };
        let capabilities = Capabilities { consumer_cancel_notify: true, connection_blocked: true };
        broker.open_session(slot, Login { session, user, vhost, capabilities });
        broker.open_channel(slot, 1);
        At(shard, slot)
    }

    /// The connection is gone.
    pub fn cut(&mut self, at: At) {
        let (broker, recorder) = &mut self.shards[at.0];
        broker.close_session(at.1, recorder);
        self.settle();
    }

    /// A command; its refusal is noted like everything else.
    pub fn say<'a>(&mut self, at: At, method: impl Into<Method<'a>>) {
        let _flow = self.say_first(at, method);
        self.settle();
    }

    /// Commands that arrive together, as a connection reads them: what comes behind a run of definitions waits for it.
    pub fn say_all(&mut self, at: At, methods: &[Method<'_>]) {
        let mut gathering = false;
        for method in methods {
            let (broker, recorder) = &mut self.shards[at.0];
            if gathering && !broker.gathers(at.1, method) {
                broker.end_run(at.1, recorder);
                self.settle();
            }
            let (broker, recorder) = &mut self.shards[at.0];
            gathering = match broker.command(at.1, 1, *method, recorder) {
                Ok(flow) => flow == Flow::Gather,
                Err(refusal) => {
                    recorder.say(at.1, 1, format!("refused {}", refusal.text));
                    false
                }
            };
            if !gathering {
                self.settle();
            }
        }
        let (broker, recorder) = &mut self.shards[at.0];
        broker.end_run(at.1, recorder);
        self.settle();
    }

    /// A command, before anybody has heard of it.
    pub fn say_first<'a>(&mut self, at: At, method: impl Into<Method<'a>>) -> Flow {
        let (broker, recorder) = &mut self.shards[at.0];
        match broker.command(at.1, 1, method.into(), recorder) {
            Ok(Flow::Gather) => {
                broker.end_run(at.1, recorder);
                Flow::Wait
            }
            Ok(flow) => flow,
            Err(refusal) => {
                recorder.say(at.1, 1, format!("refused {}", refusal.text));
                Flow::Go
            }
        }
    }

    /// A publish. Answers whether the connection may go on.
    pub fn publish(&mut self, at: At, exchange: &str, routing_key: &str, body: &str) -> bool {
        let flow = self.publish_first(at, exchange, routing_key, body, &[0, 0], false);
        self.settle();
        flow == Flow::Go
    }

    /// A publish with properties, to the default exchange.
    pub fn publish_with(&mut self, at: At, key: &str, body: &str, properties: &wire::Properties) {
        let _flow = self.publish_first(at, "", key, body, &properties.to_bytes(), false);
        self.settle();
    }

    /// A mandatory publish.
    pub fn publish_mandatory(&mut self, at: At, routing_key: &str, body: &str) {
        let _flow = self.publish_first(at, "", routing_key, body, &[0, 0], true);
        self.settle();
    }

    /// A publish that nobody has heard of yet.
    pub fn publish_first(
        &mut self,
        at: At,
        exchange: &str,
        key: &str,
        body: &str,
        properties: &[u8],
        mandatory: bool,
    ) -> Flow {
        let (broker, recorder) = &mut self.shards[at.0];
        let publish = Publish {
            exchange: exchange.as_bytes(),
            routing_key: key.as_bytes(),
            mandatory,
            immediate: false,
            properties: RawProperties::new(properties),
            body: BodyRef::Small(body.as_bytes()),
        };
        match broker.publish(at.1, 1, publish, recorder) {
            Ok(flow) => flow,
            Err(refusal) => {
                recorder.say(at.1, 1, format!("refused {}", refusal.text));
                Flow::Go
            }
        }
    }

    /// Carries one batch from a shard to another, if there is one.
    pub fn carry(&mut self, from: usize, to: usize) -> bool {
        if from == to || self.shards[from].1.batches[to].is_empty() {
            return false;
        }
        let mut batch = std::mem::take(&mut self.shards[from].1.batches[to]);
        let (broker, recorder) = &mut self.shards[to];
        broker.receive(ShardId(from as u16), &mut batch, recorder);
        broker.end_of_batch(recorder);
        true
    }

    /// Carries mail until there is none.
    pub fn settle(&mut self) {
        let count = self.shards.len();
        loop {
            for (broker, recorder) in &mut self.shards {
                broker.end_of_batch(recorder);
            }
            let mut moved = false;
            for from in 0..count {
                for to in 0..count {
                    moved |= self.carry(from, to);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// What a connection was sent since the last look.
    pub fn heard(&mut self, at: At) -> String {
        self.shards[at.0].1.sent.remove(&at.1).unwrap_or_default().join(" | ")
    }

    /// Gives a connection's output room, or takes it.
    pub fn room(&mut self, at: At, room: bool) {
        let (broker, recorder) = &mut self.shards[at.0];
        if room {
            recorder.blocked.remove(&at.1);
            broker.output_ready(at.1, recorder);
        } else {
            recorder.blocked.insert(at.1);
        }
        self.settle();
    }
}
