//! What clients do, drawn at random: publish, settle, send requests, open and close channels and connections.
//!
//! Clients do nothing for which the broker would close their whole connection.

use super::feature_settings::FeatureSettings;
use super::queue_arguments::Generator;
use super::requests::RequestTurn;
use super::shadow_model::{
    HEADER_NAMES, MessageHeaders, PublishOutcome, ShadowExchangeType, ShadowMessage, ShadowModel,
};
use super::swarm::Feature;
use crate::limits::CHANNELS_MAX;
use crate::simulated_client::{ClientChannel, ClientRequest, ClientRole, ConnectionState, PublishMode, Settlement};
use crate::world::{NewMessage, SimulatedWorld};
use wire::method::basic;
use wire::{DeliveryTag, Properties, ShortString, Table, Value};

/// Bytes that a client has not sent at which it stops publishing: its broker blocks it.
const UNSENT_BYTES_MAX: usize = 200_000;

/// How many of a thousand publishes are sent again at once, and how often at most: more than are one run of the broker.
const REPEATED_PERMILLE: u32 = 40;
const REPEATS_MAX: u64 = 100;

/// A client's turn: the client may act.
pub struct ClientTurn<'a> {
    pub world: &'a mut SimulatedWorld,
    pub model: &'a mut ShadowModel,
    pub settings: &'a FeatureSettings,
}

impl ClientTurn<'_> {
    /// Some clients act, and another one may connect.
    pub fn act_all(&mut self) {
        if self.world.clients.len() < self.settings.clients && self.world.chance.permille(100) {
            self.world.connect(0, ClientRole::Any);
        }
        for client in 0..self.world.clients.len() {
            if self.world.chance.permille(350) && self.world.clients[client].state == ConnectionState::Open {
                self.act(client);
            }
        }
    }

    /// Clients act that do not know that their broker ends.
    pub fn act_unaware(&mut self) {
        for client in 0..self.world.clients.len() {
            let one = &self.world.clients[client];
            if one.state == ConnectionState::Open && !one.cut && self.world.chance.permille(350) {
                self.act(client);
            }
        }
    }

    fn act(&mut self, client: usize) {
        let SimulatedWorld { faults, clients, chance, .. } = self.world;
        faults.draw_slow_client(&mut clients[client], chance);
        if faults.draw_client_cut(chance) {
            return self.cut(client);
        }
        if chance.permille(2) {
            return self.leave(client);
        }
        let channels = clients[client].channels.len();
        if channels == 0 || (channels < CHANNELS_MAX && chance.permille(30)) {
            return self.open_channel(client);
        }
        let channel = chance.below(channels as u64) as usize;
        if !clients[client].channels[channel].is_open() {
            return;
        }
        if chance.permille(self.settings.publish_permille) {
            for _ in 0..=self.world.chance.below(4) {
                self.publish(client, channel);
            }
        } else if chance.permille(self.settings.settle_permille) {
            self.settle(client, channel);
        } else if chance.permille(15) {
            self.close_channel(client, channel);
        } else if clients[client].channels[channel].is_idle() {
            let ClientTurn { world, model, settings } = self;
            RequestTurn { world, model, settings, client, channel }.send_any();
        }
    }

    /// The connection is cut: it may end at any moment, and its exclusive queues with it.
    fn cut(&mut self, client: usize) {
        let SimulatedWorld { faults, clients, chance, trace, tally, .. } = self.world;
        tally.client_cuts += 1;
        let client = &mut clients[client];
        self.model.end_owned_queues(client.uid);
        if faults.cut_client(client, chance, trace) {
            self.model.end_connection(client);
        }
    }

    /// The client closes its connection.
    pub fn leave(&mut self, client: usize) {
        let SimulatedWorld { clients, memory, trace, .. } = self.world;
        let client = &mut clients[client];
        trace.note(|| format!("client {} closes its connection", client.uid));
        client.connection.close(&memory.pool);
        client.state = ConnectionState::Closing;
        self.model.end_channels(client);
    }

    pub fn open_channel(&mut self, client: usize) {
        let uid = self.world.uid() as u32;
        let SimulatedWorld { clients, memory, trace, .. } = self.world;
        let client = &mut clients[client];
        if let Some(number) = client.connection.open_channel(&memory.pool) {
            client.channels.push(ClientChannel::new(number, uid));
            trace.note(|| format!("client {} opens channel {number} ({uid})", client.uid));
        }
    }

    fn close_channel(&mut self, client: usize, channel: usize) {
        let SimulatedWorld { clients, memory, trace, .. } = self.world;
        let client = &mut clients[client];
        let channel = &mut client.channels[channel];
        trace.note(|| format!("channel {} is closed", channel.uid));
        client.connection.close_channel(channel.number, &memory.pool);
        self.model.end_channel(channel, true);
    }

    fn generator(&mut self) -> Generator<'_> {
        Generator { model: self.model, switches: self.settings.switches, chance: &mut self.world.chance }
    }

    fn publish(&mut self, client: usize, channel: usize) {
        if self.world.clients[client].connection.out.bytes() > UNSENT_BYTES_MAX {
            return;
        }
        let now = self.model.tick();
        let early = self.draw_undeclared();
        let exchange = if early.is_some() || self.world.chance.permille(400) {
            0
        } else {
            let there = |at: &usize| self.model.is_exchange(*at, now, now);
            let candidates: Vec<usize> = (1..self.model.exchanges.len()).filter(there).collect();
            if candidates.is_empty() {
                0
            } else {
                candidates[self.world.chance.below(candidates.len() as u64) as usize]
            }
        };
        let living = self.model.living_queues();
        let key = match self.model.exchanges[exchange].exchange_type {
            _ if early.is_some() => early.map_or_else(String::new, |queue| self.model.queues[queue].name.clone()),
            ShadowExchangeType::Default if !living.is_empty() => {
                let queue = living[self.world.chance.below(living.len() as u64) as usize];
                self.model.queues[queue].name.clone()
            }
            ShadowExchangeType::Topic => self.generator().words(false),
            _ => format!("k{}", self.world.chance.below(4)),
        };
        // Some are sent again and again, most of these without what a broker would look at in each.
        let repeats =
            if self.world.chance.permille(REPEATED_PERMILLE) { self.world.chance.below(REPEATS_MAX) } else { 0 };
        let is_plain = repeats > 0 && self.world.chance.permille(800);
        let headers: MessageHeaders =
            [(); 3].map(|()| (!is_plain && self.world.chance.below(3) > 0).then(|| self.world.chance.below(3) as u8));
        let mandatory = self.settings.switches.has(Feature::Mandatory, &mut self.world.chance);
        // That it is not returned tells where it is.
        let mandatory = mandatory || early.is_some_and(|_| self.world.chance.permille(800));
        let is_part_of_commit = self.world.clients[client].channels[channel].mode == PublishMode::Tx;
        // More than a frame: a commit, or a group, that is torn between frames.
        let is_large = self.settings.durable.is_some_and(|durable| {
            let of_commits = if is_part_of_commit && durable.commit_crash_permille > 0 { 200 } else { 0 };
            self.world.chance.permille(durable.large_permille.max(of_commits))
        });
        let body_bytes = match self.world.chance.below(100) {
            _ if repeats > 0 => self.world.chance.between(8, 300),
            _ if is_large => self.world.chance.between(20_000, 70_000),
            0..80 => self.world.chance.between(8, 120),
            80..95 => self.world.chance.between(8, 2_500),
            95..98 => self.world.chance.between(3_000, 9_000),
            _ if self.settings.large_bodies => self.world.chance.between(9_000, 70_000),
            _ => 8,
        } as usize;
        let (priority, expiration_ms) = match is_plain {
            true => (None, None),
            false => self.generator().priority_and_expiration(),
        };
        let further_keys = if is_plain { Default::default() } else { self.generator().further_keys() };
        let persistent_permille = self.settings.durable.map_or(500, |durable| durable.message_permille);
        let delivery_mode = self.world.chance.permille(persistent_permille).then_some(2);
        let with = |further_keys: &[&[String]], bare: bool| {
            properties(headers, further_keys, bare, delivery_mode, priority, expiration_ms)
        };
        // The message does not keep BCC, but the table that it was in, even if that is empty.
        let sent = with(&[&further_keys[0], &further_keys[1]], false);
        let properties = with(&[&further_keys[0]], !further_keys[1].is_empty());
        let one = &self.world.clients[client].channels[channel];
        let outcome = if one.mode == PublishMode::Tx { PublishOutcome::Staged } else { PublishOutcome::Open };
        let message = ShadowMessage {
            channel: one.uid,
            exchange,
            key,
            further_keys,
            headers,
            properties,
            body_bytes,
            mandatory,
            sent: now,
            routed: None,
            accepted: None,
            accepted_us: 0,
            outcome,
            returned: false,
            period: self.model.period,
            declined: false,
            persistent: delivery_mode == Some(2),
            priority,
            expiration_us: expiration_ms.map(|ms| ms * 1_000),
            sent_us: self.world.clock.us(),
        };
        for _ in 0..repeats {
            let sent_at = self.model.tick();
            self.send_message(client, channel, &sent, ShadowMessage { sent: sent_at, ..message.clone() });
        }
        let sent_at = self.model.tick();
        self.send_message(client, channel, &sent, ShadowMessage { sent: sent_at, ..message });
    }

    /// Sends a message that is drawn, with these properties.
    fn send_message(&mut self, client: usize, channel: usize, properties: &[u8], message: ShadowMessage) {
        let id = self.model.newest() + 1;
        let ShadowMessage { headers, mandatory, body_bytes, .. } = message;
        self.world.trace.note(|| format!("message {id} has {headers:?}"));
        let exchange = &self.model.exchanges[message.exchange].name;
        let (routing_key, body) = (&*message.key, &*body_of(id, body_bytes));
        let new = NewMessage { id, exchange, routing_key, mandatory, properties, body };
        self.world.publish(client, channel, &new);
        self.model.messages.insert(id, message);
    }

    /// A queue whose declaration is not answered, now and then, if there is a store.
    fn draw_undeclared(&mut self) -> Option<usize> {
        let durable = self.settings.durable?;
        if !self.world.chance.permille(durable.early_permille) {
            return None;
        }
        let is_undeclared = |at: &usize| {
            let queue = &self.model.queues[*at];
            queue.life.made.is_none() && queue.life.ending.is_none() && !queue.name.starts_with('?')
        };
        let undeclared: Vec<usize> = (0..self.model.queues.len()).filter(is_undeclared).collect();
        let at = self.world.chance.below(undeclared.len().max(1) as u64) as usize;
        undeclared.get(at).copied()
    }

    /// Settles a delivery of a channel, or several.
    fn settle(&mut self, client: usize, channel: usize) {
        let one = &self.world.clients[client].channels[channel];
        // While basic.recover is under way the client does not know which deliveries it has.
        if one.pending.as_ref().is_some_and(|pending| matches!(pending.request, ClientRequest::Recover)) {
            return;
        }
        let free: Vec<u64> =
            one.unsettled.iter().filter(|(_, delivery)| !delivery.staged).map(|(&tag, _)| tag).collect();
        if free.is_empty() {
            return;
        }
        let tag = free[self.world.chance.below(free.len() as u64) as usize];
        let switches = self.settings.switches;
        let multiple = switches.has(Feature::Multiple, &mut self.world.chance);
        let requeue = switches.has(Feature::Requeue, &mut self.world.chance);
        let tags: Vec<u64> =
            if multiple { free.into_iter().filter(|&other| other <= tag).collect() } else { vec![tag] };
        self.model.tick();
        let rejection = if requeue { Settlement::Requeue } else { Settlement::Rejected };
        let settlement = match self.world.chance.below(3) {
            0 if !multiple => {
                self.world.send(client, channel, basic::Reject { delivery_tag: DeliveryTag(tag), requeue });
                rejection
            }
            1 if !requeue => {
                self.world.send(client, channel, basic::Ack { delivery_tag: DeliveryTag(tag), multiple });
                Settlement::Done
            }
            _ => {
                self.world.send(client, channel, basic::Nack { delivery_tag: DeliveryTag(tag), multiple, requeue });
                rejection
            }
        };
        let one = &mut self.world.clients[client].channels[channel];
        if one.mode == PublishMode::Tx {
            for tag in tags {
                if let Some(delivery) = one.unsettled.get_mut(&tag) {
                    delivery.staged = true;
                    one.staged_settlements.push((tag, settlement));
                }
            }
            return;
        }
        for tag in tags {
            self.model.settle(one, tag, settlement);
        }
    }
}

/// Properties in wire form, with further routing keys in `CC` and `BCC`.
fn properties(
    headers: MessageHeaders,
    further_keys: &[&[String]],
    bare: bool,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    expiration_ms: Option<u64>,
) -> Vec<u8> {
    let mut table = Table::default();
    let mut put = |name: &str, value: Value| {
        table = std::mem::take(&mut table).with(name, value).expect("a short name");
    };
    for (name, value) in HEADER_NAMES.into_iter().zip(headers) {
        if let Some(value) = value {
            put(name, Value::I32(value.into()));
        }
    }
    for (name, keys) in ["CC", "BCC"].into_iter().zip(further_keys).filter(|(_, keys)| !keys.is_empty()) {
        put(name, Value::List(keys.iter().map(|key| Value::text(key)).collect()));
    }
    let headers = (bare || !table.is_empty()).then_some(table);
    let expiration = expiration_ms.map(|ms| ShortString::try_from(&*ms.to_string()).expect("a short number"));
    Properties { headers, delivery_mode, priority, expiration, ..Properties::default() }.to_bytes()
}

/// The body of a message: its number, then bytes that follow from it.
pub fn body_of(id: u64, bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(&id.to_be_bytes());
    body.extend((8..bytes).map(|at| (id as usize).wrapping_mul(131).wrapping_add(at * 7) as u8));
    body
}
