//! Publishing: from a message to its queues, and the confirms.
//!
//! Enters: `basic.publish` with its content.  Leaves: deliveries, waiting messages, mail, returns, confirms.
//! Owns:   the walk from exchange to queues, and which publishes wait for whom.
//! Never:  looks into a body.

use super::dispatch::EnqueueResult;
use super::{Broker, ReadControl, copies, find, no_channel};
use crate::channel::{ChannelKey, RouteCache, ChannelMode, TransactionOperation, same};
use crate::direct_reply::{ReplyAddress, PSEUDO_QUEUE};
use crate::effects::{Confirm, ConfirmOutcome, Effects, ConnectionSlot, AppendResult};
use crate::shard_message::{ShardMessage, ShardPayload};
use crate::limits::TRANSACTION_ITEMS_MAX;
use crate::message::{BodyRef, Content, Message};
use catalog::{Operation, QueueId, REQUEST_QUEUE, Refusal, Resource, Route, ShardId};
use std::sync::Arc;
use wire::method::basic;
use wire::{RawProperties, ReplyCode, ShortStr};

/// A publish as it arrives.
#[derive(Clone, Copy)]
pub struct Publish<'a> {
    /// Name of the exchange.
    pub exchange: &'a [u8],
    /// The routing key.
    pub routing_key: &'a [u8],
    /// Return it if no queue takes it.
    pub mandatory: bool,
    /// Not supported; refused.
    pub immediate: bool,
    /// Properties, validated.
    pub properties: RawProperties<'a>,
    /// The body.
    pub body: BodyRef<'a>,
}

/// Which publish of which channel waits for an answer.
pub(super) type PublishKey = (ChannelKey, u64);

impl Broker {
    /// `basic.publish` with its content.
    #[inline]
    pub fn publish<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        publish: Publish<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let Some(Some(peer)) = self.tables.peers.get_mut(slot as usize) else {
            return Err(no_channel());
        };
        let key = peer.channel(number).ok_or_else(no_channel)?;
        let first = !peer.has_published;
        if publish.immediate {
            return Err(Refusal::connection(ReplyCode::NotImplemented, "NOT_IMPLEMENTED - immediate=true"));
        }
        self.counters.published += 1;
        let rewritten;
        let mut properties = publish.properties;
        if properties.reply_to().is_some_and(|reply_to| reply_to.as_bytes() == PSEUDO_QUEUE.as_bytes()) {
            rewritten = self
                .with_reply_address(key, properties)
                .map_err(|refusal| self.exchange_first(slot, publish.exchange, refusal))?;
            properties = RawProperties::new(&rewritten);
        }
        if properties.user_id().is_some() || properties.expiration().is_some() {
            self.check_properties(slot, properties)
                .map_err(|refusal| self.exchange_first(slot, publish.exchange, refusal))?;
        }
        let mut copies = None;
        if properties.has_headers() {
            copies = copies::of(properties).map_err(|refusal| self.exchange_first(slot, publish.exchange, refusal))?;
            if self.catalog.is_pulled_from() {
                self.take_stamp_off(slot, properties, &mut copies);
            }
        }
        let route = match &copies {
            Some(copies) if !copies.keys.is_empty() => {
                self.route_copies(slot, publish.exchange, publish.routing_key, &copies.keys, properties)?
            }
            _ => self.route(slot, key, publish.exchange, publish.routing_key, properties)?,
        };
        if route.stamped {
            self.stamp_publish(properties, &mut copies);
        }
        if let Some(changed) = copies.as_ref().and_then(|copies| copies.properties.as_deref()) {
            properties = RawProperties::new(changed);
        }
        let content = Content {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: properties.as_bytes(),
            body: publish.body,
            bcc: copies.as_ref().map_or(&[], |copies| copies.blind.as_slice()),
            arrived_us: self.now_us,
        };
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        let publication = match &mut channel.mode {
            ChannelMode::Plain => None,
            ChannelMode::Confirm => {
                channel.confirms.published += 1;
                if !channel.confirms.due {
                    channel.confirms.due = true;
                    self.confirms_due.push(key);
                }
                Some((key, channel.confirms.published))
            }
            ChannelMode::Transaction(steps) => {
                if steps.len() >= TRANSACTION_ITEMS_MAX {
                    return Err(Refusal::channel(
                        ReplyCode::ResourceError,
                        "RESOURCE_ERROR - transaction holds too many messages",
                    ));
                }
                let (message, mandatory) = (content.keep(fx.pool()), publish.mandatory);
                let copies = copies.filter(|copies| !copies.keys.is_empty()).map(|copies| copies.keys.into());
                steps.push(TransactionOperation::Publish { message, mandatory, copies });
                return Ok(self.after_publish(slot, first, &route, fx));
            }
        };
        self.spread(slot, number, &route, &content, publish.mandatory, publication, fx);
        if !self.dead.is_empty() {
            self.outrun_by_letters = None;
            self.dispatch_due(fx);
            // Who publishes nothing but dead letters is paced by those who take them.
            self.outrun = self.outrun.or(self.outrun_by_letters.take());
        }
        Ok(self.after_publish(slot, first, &route, fx))
    }

    /// What is wrong with a message is said only if its exchange would take it, as in RabbitMQ.
    #[cold]
    fn exchange_first(&mut self, slot: ConnectionSlot, exchange: &[u8], refusal: Refusal) -> Refusal {
        self.exchange_for_publish(slot, exchange).err().unwrap_or(refusal)
    }

    /// Whether the publisher may go on.
    #[inline]
    fn after_publish<E: Effects>(&mut self, slot: ConnectionSlot, first: bool, route: &Route, fx: &mut E) -> ReadControl {
        // One whose publishes were all refused is no publisher: it would be held back and not told.
        if first && let Some(peer) = self.peer_mut(slot) {
            peer.has_published = true;
        }
        if let Some(queue) = self.outrun.take() {
            self.pace(slot, queue, fx);
            let _held = self.hold_back(slot, route, fx);
            return ReadControl::Pause;
        }
        if (self.alarmed && first) || !self.full.is_empty() {
            return self.hold_back(slot, route, fx);
        }
        if self.alarmed && !self.may_read(slot) { ReadControl::Pause } else { ReadControl::Continue }
    }

    /// The queues for a publish, by the channel's last route if it repeats itself.
    #[inline]
    pub(super) fn route(
        &mut self,
        slot: ConnectionSlot,
        key: ChannelKey,
        exchange: &[u8],
        routing_key: &[u8],
        properties: RawProperties<'_>,
    ) -> Result<Arc<Route>, Refusal> {
        let version = self.catalog.version();
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        let known = match &mut channel.route_cache {
            Some(last) if last.version == version && same(&last.exchange, exchange) => {
                if let Some(route) = last.get(routing_key, properties) {
                    return Ok(Arc::clone(route));
                }
                Some(last.exchange_id)
            }
            _ => None,
        };
        let exchange_id = match known {
            Some(id) => id,
            None => self.exchange_for_publish(slot, exchange)?,
        };
        if self.catalog.restricts_topics() {
            let (user, ..) = self.whose(slot)?;
            self.catalog.check_topic(user, exchange_id, Operation::Write, routing_key)?;
        }
        let route = self.catalog.route(exchange_id, routing_key, properties);
        let Some(channel) = self.tables.channels.get_mut(key) else {
            return Ok(route);
        };
        let last = match &mut channel.route_cache {
            Some(last) if known.is_some() => last,
            last => last.insert(Box::new(RouteCache::new(version, exchange, exchange_id))),
        };
        last.set(routing_key, properties, &route);
        Ok(route)
    }

    pub(super) fn exchange_for_publish(&mut self, slot: ConnectionSlot, name: &[u8]) -> Result<catalog::ExchangeId, Refusal> {
        let Some(Some(peer)) = self.tables.peers.get(slot as usize) else {
            return Err(no_channel());
        };
        let (user, vhost) = (peer.user, peer.vhost);
        self.catalog.check(user, vhost, Operation::Write, Resource::Exchange, name)?;
        let id = self.catalog.exchange(vhost, name).ok_or_else(|| self.catalog.no_exchange(vhost, name))?;
        self.catalog.check_publishable(id)?;
        Ok(id)
    }

    /// Hands a routed message to its queues, here and on other shards.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "one publish, spelled out")]
    pub(super) fn spread<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        route: &Route,
        content: &Content<'_>,
        mandatory: bool,
        publication: Option<PublishKey>,
        fx: &mut E,
    ) {
        let mut kept: Option<Message> = None;
        let mut waits = 0;
        let mut declined = !route.held.is_empty() && !self.hold(route, content, fx);
        match &*route.queues {
            [] if route.held.is_empty() => declined |= !self.unroutable(slot, number, content, mandatory, fx),
            [] => {}
            [only] if self.is_home(only.home) => {
                let offered = self.offer(only.id, content, &mut kept, true, fx);
                declined |= offered == EnqueueResult::Declined;
                waits += self.await_store(offered, publication);
            }
            [only] => {
                waits += self.send_abroad(only.home, std::iter::once(only.id), content, &mut kept, publication, fx)
            }
            queues => {
                let count = queues.len();
                let here = self.options.shard;
                let body = content.share_body(fx.pool());
                let content = &Content { body: body.as_ref().map_or(content.body, BodyRef::Large), ..*content };
                for (at, queue) in queues.iter().enumerate().filter(|(_, queue)| queue.home == here) {
                    let offered = self.offer(queue.id, content, &mut kept, at + 1 == count, fx);
                    declined |= offered == EnqueueResult::Declined;
                    waits += self.await_store(offered, publication);
                }
                if self.options.shards > 1 {
                    waits += self.spread_abroad(route, content, &mut kept, publication, fx);
                }
            }
        }
        if let Some((key, number)) = publication
            && (waits > 0 || declined)
            && let Some(channel) = self.tables.channels.get_mut(key)
        {
            if waits > 0 {
                channel.confirms.pending.push_back((number, waits));
            }
            if declined {
                channel.confirms.refused.insert(number);
            }
        }
    }

    pub(super) fn spread_abroad<E: Effects>(
        &mut self,
        route: &Route,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        publication: Option<PublishKey>,
        fx: &mut E,
    ) -> u32 {
        let mut waits = 0;
        let here = self.options.shard;
        for shard in (0..self.options.shards).map(ShardId).filter(|&shard| shard != here) {
            let mut there = route.queues.iter().filter(|queue| queue.home == shard).map(|queue| queue.id).peekable();
            if there.peek().is_none() {
                continue;
            }
            waits += self.send_abroad(shard, there, content, kept, publication, fx);
        }
        waits
    }

    /// Mails a message to queues of one other shard. Answers how many answers its publisher must wait for.
    #[inline]
    pub(super) fn send_abroad<E: Effects>(
        &mut self,
        shard: ShardId,
        queues: impl Iterator<Item = QueueId> + Clone,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        publication: Option<PublishKey>,
        fx: &mut E,
    ) -> u32 {
        let confirm = publication.is_some();
        if !fx.batch(shard).push_publish(content, queues.clone(), confirm) {
            let parcel = ShardPayload::Shared(kept.get_or_insert_with(|| content.keep(fx.pool())).clone());
            let batch = fx.batch(shard);
            let queues = batch.push_queues(queues);
            batch.push(ShardMessage::Publish { payload: parcel, messages: 1, queues, confirm });
        }
        let Some(publication) = publication else { return 0 };
        self.accepting[shard.0 as usize].push_back(publication);
        1
    }

    fn await_store(&mut self, offered: EnqueueResult, publication: Option<PublishKey>) -> u32 {
        match (offered, publication) {
            (EnqueueResult::Taken(AppendResult::Pending(ticket)), Some((key, number))) => {
                self.storing.push_back((ticket, key, number));
                1
            }
            _ => 0,
        }
    }

    /// No queue wants it: perhaps it is a request or a direct reply, perhaps it goes back. Answers whether the broker is done with it.
    #[cold]
    fn unroutable<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        content: &Content<'_>,
        mandatory: bool,
        fx: &mut E,
    ) -> bool {
        if content.exchange.is_empty() && content.routing_key == REQUEST_QUEUE.as_bytes() {
            match self.request(slot, number, content, fx) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(refusal) => {
                    fx.refuse(slot, number, refusal, basic::Publish::ID);
                    return false;
                }
            }
        }
        if content.exchange.is_empty()
            && let Some(address) = ReplyAddress::parse(content.routing_key)
            && address.shard.0 < self.options.shards
        {
            if self.is_home(address.shard) {
                self.direct_reply(address, content, fx);
            } else {
                let message = content.keep(fx.pool());
                fx.batch(address.shard).push(ShardMessage::DirectReply { address, message });
            }
            return true;
        }
        self.counters.unroutable += 1;
        if mandatory {
            let refusal = Refusal::channel(ReplyCode::NoRoute, "NO_ROUTE");
            fx.return_message(slot, number, &refusal, *content);
        }
        true
    }

    #[cold]
    fn pace<E: Effects>(&mut self, slot: ConnectionSlot, id: QueueId, fx: &mut E) {
        if let Some(queue) = find(&mut self.queues, id) {
            queue.throttled.push(slot);
            queue.throttled_at_bytes = queue.memory_bytes();
        }
        if let Some(peer) = self.peer_mut(slot) {
            peer.throttled_by = Some(id);
            fx.throttle(slot);
        }
    }

    /// Holds a publisher back while a queue it feeds is full, or the memory is.
    fn hold_back<E: Effects>(&mut self, slot: ConnectionSlot, route: &Route, fx: &mut E) -> ReadControl {
        let full = route.queues.iter().map(|queue| queue.id).find(|id| self.full.contains(id));
        if let (Some(queue), Some(peer)) = (full, self.peer_mut(slot)) {
            peer.blocked_by = Some(queue);
        }
        self.tell_blocked(slot, fx);
        if self.may_read(slot) { ReadControl::Continue } else { ReadControl::Pause }
    }

    /// `confirm.select`.
    pub(super) fn confirm_select(&mut self, key: ChannelKey) -> Result<(), Refusal> {
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        match channel.mode {
            ChannelMode::Transaction(_) => Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
            )),
            ChannelMode::Confirm => Ok(()),
            ChannelMode::Plain => {
                channel.mode = ChannelMode::Confirm;
                Ok(())
            }
        }
    }

    /// One `basic.ack` per channel for everything that has become safe, up to what a queue refused: that gets a `basic.nack`
    /// of its own.
    pub(super) fn flush_confirms<E: Effects>(&mut self, fx: &mut E) {
        while let Some(key) = self.confirms_due.pop() {
            let Some(channel) = self.tables.channels.get_mut(key) else {
                continue;
            };
            channel.confirms.due = false;
            let safe = channel.confirms.last_safe();
            if !matches!(channel.mode, ChannelMode::Confirm) || safe <= channel.confirms.confirmed {
                continue;
            }
            let (slot, number) = (channel.slot, channel.number);
            let mut told = channel.confirms.confirmed;
            channel.confirms.confirmed = safe;
            while let Some(declined) = channel.confirms.next_refused(safe) {
                ack(slot, number, told, declined - 1, fx);
                let outcome = ConfirmOutcome::Refused;
                fx.confirm(slot, number, Confirm { delivery_tag: declined, multiple: false, outcome });
                told = declined;
            }
            ack(slot, number, told, safe, fx);
        }
    }

    /// One answer for a publish: from another shard, or from the store.
    pub(super) fn publication_answered<E: Effects>(&mut self, (key, number): PublishKey, fx: &mut E) {
        let Some(channel) = self.tables.channels.get_mut(key) else {
            return;
        };
        channel.confirms.on_answer(number);
        match channel.mode {
            ChannelMode::Transaction(_) => self.finish_commit(key, fx),
            _ if !channel.confirms.due => {
                channel.confirms.due = true;
                self.confirms_due.push(key);
            }
            _ => {}
        }
    }

    /// The store has made everything up to this ticket durable.
    pub fn durable<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        while let Some(&(at, key, number)) = self.storing.front()
            && at <= ticket
        {
            self.storing.pop_front();
            self.publication_answered((key, number), fx);
        }
    }

    /// What RabbitMQ checks in properties: the user that a message claims to be from, and the form of its expiration.
    #[cold]
    fn check_properties(&self, slot: ConnectionSlot, properties: RawProperties<'_>) -> Result<(), Refusal> {
        if let Some(claimed) = properties.user_id() {
            let (user, ..) = self.whose(slot)?;
            let actual = self.catalog.user_name(user);
            if claimed.as_bytes() != actual.as_bytes() {
                let detail = format!("user_id property set to '{claimed}' but authenticated user was '{actual}'");
                return Err(Refusal::detail(ReplyCode::PreconditionFailed, detail));
            }
        }
        match properties.expiration() {
            Some(expiration) => crate::expiration::check(&String::from_utf8_lossy(expiration.as_bytes())),
            None => Ok(()),
        }
    }

    /// The properties of a request whose `reply-to` names the pseudo-queue, with the channel's address in its place.
    #[cold]
    fn with_reply_address(&mut self, key: ChannelKey, properties: RawProperties<'_>) -> Result<Vec<u8>, Refusal> {
        let mailbox = self.tables.channels.get(key).and_then(|channel| channel.reply_consumer.as_ref());
        let Some(mailbox) = mailbox else {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - fast reply consumer does not exist",
            ));
        };
        let address = ReplyAddress { shard: self.options.shard, channel: key, nonce: mailbox.nonce };
        let mut owned = properties.to_properties().map_err(|fault| Refusal::detail(fault.reply_code(), fault))?;
        let name = address.name();
        owned.reply_to = Some(ShortStr::truncated(&name).to_owned());
        Ok(owned.to_bytes())
    }

    pub(super) fn direct_reply<E: Effects>(&mut self, address: ReplyAddress, content: &Content<'_>, fx: &mut E) {
        let Some(channel) = self.tables.channels.get_mut(address.channel) else {
            return;
        };
        let Some(mailbox) = channel.reply_consumer.as_ref().filter(|mailbox| mailbox.nonce == address.nonce) else {
            return;
        };
        let tag = channel.ledger.assign_settled();
        self.counters.delivered += 1;
        fx.deliver(
            channel.slot,
            channel.number,
            crate::effects::Delivery {
                consumer_tag: &mailbox.consumer_tag,
                tag,
                redelivered: false,
                content: *content,
            },
        );
    }
}

/// One confirm for all publishes behind `told` up to `safe`.
fn ack<E: Effects>(slot: ConnectionSlot, channel: u16, told: u64, safe: u64, fx: &mut E) {
    if safe > told {
        let multiple = safe - told > 1;
        fx.confirm(slot, channel, Confirm { delivery_tag: safe, multiple, outcome: ConfirmOutcome::Accepted });
    }
}
