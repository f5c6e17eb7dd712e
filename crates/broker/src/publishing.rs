//! Publishing: from `basic.publish` or `tx.commit` to routed messages, returned messages and confirms.

use crate::admin_request::{AdminRequest, AdminRequestError};
use crate::channel::{ChannelMode, not_open};
use crate::data_plane::DataPlane;
use crate::deferred_work::{DeferredPublish, DeferredWork};
use crate::direct_reply::{PSEUDO_QUEUE, ReplyAddress};
use crate::dispatcher::EnqueueResult;
use crate::effects::Effects;
use crate::flow_control::FlowControl;
use crate::forwarder::ForwardResult;
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey, SessionIdentity, ShardIdentity};
use crate::limits::{ADMIN_REQUEST_BYTES_MAX, HEADERS_PER_WORK};
use crate::message_stats::ExchangeStats;
use crate::publish_answers::PublishAnswers;
use crate::publish_origin::{PublishOrigin, Publisher};
use crate::publish_route::{PublishRouteCache, same};
use crate::session_state::ReadControl;
use crate::sessions::Sessions;
use crate::shard_message::ShardMessage;
use crate::stamps::remove_stamp;
use crate::transaction::TransactionOperation;
use catalog::{Catalog, ExchangeId, PermissionKind, QueueRoute, REQUEST_QUEUE, Refusal, Resource, RouteDependence};
use queues::{AppendResult, BodyRef, Content, carbon_copies};
use std::sync::Arc;
use wire::method::basic;
use wire::{ChannelNumber, RawProperties, ReplyCode, ShortStr};

/// A publish as it arrives.
#[derive(Clone, Copy)]
pub struct Publish<'a> {
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Return the message if no queue takes it.
    pub mandatory: bool,
    /// Not supported; refused.
    pub immediate: bool,
    /// Properties, validated.
    pub properties: RawProperties<'a>,
    pub body: BodyRef<'a>,
}

/// The objects that a publish needs.
pub(crate) struct Publishing<'a> {
    pub identity: ShardIdentity,
    pub sessions: &'a mut Sessions,
    pub catalog: &'a mut Catalog,
    pub data: &'a mut DataPlane,
}

impl Publishing<'_> {
    /// What answers to publishes touch.
    pub fn answers(&mut self) -> PublishAnswers<'_> {
        PublishAnswers { sessions: self.sessions, data: self.data }
    }

    /// `basic.publish` with its content.
    #[inline]
    pub fn publish<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        publish: Publish<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let session = self.sessions.get(slot).ok_or_else(not_open)?;
        let key = session.channel(number).ok_or_else(not_open)?;
        let first = !session.has_published;
        let publisher = Publisher::Connection(slot);
        if publish.immediate {
            return Err(Refusal::connection(ReplyCode::NotImplemented, "NOT_IMPLEMENTED - immediate=true"));
        }
        self.data.published += 1;
        let rewritten;
        let mut properties = publish.properties;
        if properties.has_reply_to()
            && properties.reply_to().is_some_and(|reply_to| reply_to.as_bytes() == PSEUDO_QUEUE.as_bytes())
        {
            rewritten = self
                .with_reply_address(key, properties)
                .map_err(|refusal| self.exchange_refusal_or(slot, publish.exchange, refusal))?;
            properties = RawProperties::new(&rewritten);
        }
        if properties.has_user_id() || properties.has_expiration() {
            self.check_properties(slot, properties)
                .map_err(|refusal| self.exchange_refusal_or(slot, publish.exchange, refusal))?;
        }
        let mut rewrite = None;
        if properties.has_headers() {
            let mut entries = 0;
            rewrite = carbon_copies::parse(properties, &mut entries)
                .map_err(|refusal| self.exchange_refusal_or(slot, publish.exchange, refusal))?;
            self.data.dispatcher.work.draw(entries / HEADERS_PER_WORK);
            if self.catalog.is_pulled_from() && !self.sessions.get(slot).is_some_and(|session| session.is_link) {
                remove_stamp(properties, &mut rewrite);
            }
        }
        let route = match &rewrite {
            Some(rewrite) if !rewrite.keys.is_empty() => {
                self.route_copies((publisher, key), publish.exchange, publish.routing_key, &rewrite.keys, properties)?
            }
            _ => self.route(publisher, key, publish.exchange, publish.routing_key, properties)?,
        };
        if route.as_ref().is_ok_and(|route| route.stamped) {
            self.data.forwarder.stamps.stamp_publish(properties, &mut rewrite);
        }
        if let Some(changed) = rewrite.as_ref().and_then(|rewrite| rewrite.properties.as_deref()) {
            properties = RawProperties::new(changed);
        }
        let content = Content {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: properties.as_bytes(),
            body: publish.body,
            bcc: rewrite.as_ref().map_or(&[], |rewrite| rewrite.bcc.as_slice()),
            arrived_us: self.data.dispatcher.now_us,
        };
        let channel = self.data.dispatcher.channels.count_publish(key)?;
        self.data.body_sizes.record(content.body.len());
        let awaited = match &mut channel.mode {
            ChannelMode::Plain => None,
            ChannelMode::Confirm => {
                channel.confirms.published += 1;
                self.data.confirms.mark_due(key, &mut channel.confirms);
                Some(PublishKey { channel: key, number: channel.confirms.published })
            }
            ChannelMode::Transaction(transaction) => {
                transaction.check_capacity("messages")?;
                let (message, mandatory) = (content.keep(fx.pool()), publish.mandatory);
                let further_keys =
                    rewrite.filter(|rewrite| !rewrite.keys.is_empty()).map(|rewrite| rewrite.keys.into());
                transaction.push(TransactionOperation::Publish { message, mandatory, further_keys });
                return Ok(match route {
                    Ok(route) => self.after_publish(slot, first, &route, fx),
                    Err(_) => self.after_deferral(slot, first, fx),
                });
            }
        };
        let route = match route {
            Ok(route) => {
                if let Some(cache) = &mut channel.route_cache {
                    cache.count(&route, 1);
                }
                route
            }
            Err(search) => {
                let message = content.keep(fx.pool());
                let origin = PublishOrigin { slot, number, channel: key };
                let deferred = DeferredPublish { origin, message, mandatory: publish.mandatory, search, awaited };
                self.defer_publish(Box::new(deferred));
                return Ok(self.after_deferral(slot, first, fx));
            }
        };
        let next_dead_letter = self.data.dispatcher.queues.housekeeping.dead_letters.next_number();
        let origin = PublishOrigin { slot, number, channel: key };
        self.forward(origin, &route, &content, publish.mandatory, awaited, fx);
        if self.data.dispatcher.queues.housekeeping.dead_letters.next_number() != next_dead_letter {
            self.route_dead_letters_of(slot, next_dead_letter, fx);
        }
        Ok(self.after_publish(slot, first, &route, fx))
    }

    /// Routes the dead letters that publishes of a connection have caused, the first of which has this number. If their consumers
    /// are slow, `slow_queue` says so.
    pub fn route_dead_letters_of<E: Effects>(&mut self, slot: ConnectionSlot, begin: u64, fx: &mut E) {
        self.data.dispatcher.flow.slow_dead_letter_queue = None;
        self.data.dispatch_due(self.sessions, self.catalog, fx);
        // They go before its next publish, so that they are no more than a turn can cause.
        if let Some(numbers) = self.data.dead_letters_since(begin) {
            self.sessions.defer(slot, DeferredWork::AwaitDeadLetters(numbers));
        }
        // A publisher of nothing but dead letters is throttled by the consumers of those.
        let flow = &mut self.data.dispatcher.flow;
        flow.slow_queue = flow.slow_queue.or(flow.slow_dead_letter_queue.take());
    }

    /// The content of a `basic.publish` has begun to arrive. Refuses what its exchange would not take before memory is taken for
    /// it; from now on the connection is a publisher, which waits while memory is low.
    pub fn begin<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        exchange: &[u8],
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let key = self.sessions.channel_key(slot, number).ok_or_else(not_open)?;
        let version = self.catalog.version();
        let cache = &self.data.dispatcher.channels.open_channel(key)?.route_cache;
        let is_known = cache.as_ref().is_some_and(|cache| cache.version == version && same(&cache.exchange, exchange));
        if !is_known {
            self.exchange(Publisher::Connection(slot), exchange)?;
        }
        let session = self.sessions.get_mut(slot).ok_or_else(not_open)?;
        let first = !std::mem::replace(&mut session.has_published, true);
        if !self.sessions.is_alarmed() {
            return Ok(ReadControl::Continue);
        }
        if first {
            let _one = self.sessions.notify_blocked(slot, fx);
        }
        Ok(self.sessions.read_control(slot))
    }

    /// A publish that is a duplicate: it goes nowhere, and is confirmed.
    pub fn publish_duplicate(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> Result<ReadControl, Refusal> {
        let key = self.sessions.channel_key(slot, number).ok_or_else(not_open)?;
        let channel = self.data.dispatcher.channels.count_publish(key)?;
        self.data.published += 1;
        if matches!(channel.mode, ChannelMode::Confirm) {
            channel.confirms.published += 1;
            self.data.confirms.mark_due(key, &mut channel.confirms);
        }
        Ok(self.sessions.read_control(slot))
    }

    /// A publish that nobody will accept: it goes nowhere, and is refused (`basic.nack`) if its channel has confirms.
    pub fn publish_refused(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> Result<ReadControl, Refusal> {
        let key = self.sessions.channel_key(slot, number).ok_or_else(not_open)?;
        let channel = self.data.dispatcher.channels.count_publish(key)?;
        if matches!(channel.mode, ChannelMode::Confirm) {
            channel.confirms.published += 1;
            channel.confirms.refused.insert(channel.confirms.published);
            self.data.confirms.mark_due(key, &mut channel.confirms);
        }
        Ok(self.sessions.read_control(slot))
    }

    /// Whether the user of a connection may publish messages to an exchange at all, so that a refusal is for one message.
    #[cold]
    pub fn may_publish(&mut self, slot: ConnectionSlot, exchange: &[u8]) -> Result<(), Refusal> {
        self.exchange(Publisher::Connection(slot), exchange).map(drop)
    }

    /// What is wrong with a message counts only if its exchange would take it, as in RabbitMQ.
    #[cold]
    fn exchange_refusal_or(&mut self, slot: ConnectionSlot, exchange: &[u8], refusal: Refusal) -> Refusal {
        self.exchange(Publisher::Connection(slot), exchange).err().unwrap_or(refusal)
    }

    /// Whether the publisher may continue.
    #[inline]
    pub fn after_publish<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        first: bool,
        route: &QueueRoute,
        fx: &mut E,
    ) -> ReadControl {
        // A connection whose publishes were all refused is no publisher: it would be blocked without a notification.
        if first && let Some(session) = self.sessions.get_mut(slot) {
            session.has_published = true;
        }
        let dispatcher = &mut self.data.dispatcher;
        if let Some(queue) = dispatcher.flow.slow_queue.take() {
            FlowControl::throttle(slot, queue, &mut dispatcher.queues.table, self.sessions, fx);
            let _blocked = dispatcher.flow.block(slot, route, self.sessions, fx);
            return ReadControl::Pause;
        }
        if (self.sessions.is_alarmed() && first) || dispatcher.flow.is_any_full() {
            return dispatcher.flow.block(slot, route, self.sessions, fx);
        }
        if self.sessions.is_alarmed() || !self.sessions.deferred.is_empty() {
            self.sessions.read_control(slot)
        } else {
            ReadControl::Continue
        }
    }

    /// The queues of a publish are not found yet. Its publisher is blocked all the same, if publishers are, and told so.
    #[cold]
    fn after_deferral<E: Effects>(&mut self, slot: ConnectionSlot, first: bool, fx: &mut E) -> ReadControl {
        if first && let Some(session) = self.sessions.get_mut(slot) {
            session.has_published = true;
            let _one = self.sessions.notify_blocked(slot, fx);
        }
        self.sessions.read_control(slot)
    }

    /// Leaves the search for the queues of a publish to other turns.
    #[cold]
    pub fn defer_publish(&mut self, publish: Box<DeferredPublish>) {
        if let Some(awaited) = publish.awaited
            && let Some(channel) = self.data.dispatcher.channels.get_mut(awaited.channel)
        {
            channel.confirms.pending.push_back((awaited.number, 1));
        }
        self.sessions.defer_publish(publish.origin.slot, DeferredWork::Publish(publish));
    }

    /// Goes on with the search for the queues of a publish, and forwards it once they are found. Returns it otherwise.
    pub fn run_publish<E: Effects>(
        &mut self,
        mut publish: Box<DeferredPublish>,
        fx: &mut E,
    ) -> Option<Box<DeferredPublish>> {
        let mut content = publish.message.content();
        let work = &mut self.data.dispatcher.work;
        let properties = content.properties();
        let Some(route) = carbon_copies::continue_search(&mut publish.search, properties, self.catalog, work) else {
            return Some(publish);
        };
        if route.decided < RouteDependence::ByMessage && publish.search.holds_at(self.catalog.version()) {
            // The next publish is often to the same queues.
            let (version, exchange) = (self.catalog.version(), publish.search.exchange());
            let mut cache = Box::new(PublishRouteCache::new(version, content.exchange, exchange));
            cache.set(content.routing_key, properties, &route);
            self.data.dispatcher.channels.replace_route(publish.origin.channel, cache);
        }
        let stamped;
        if route.stamped
            && let Some(changed) = self.data.forwarder.stamps.stamp(content.properties())
        {
            stamped = changed;
            content.properties = &stamped;
        }
        let routed = ExchangeStats { publish_in: 1, publish_out: route.queues.len() as u64 };
        self.data.dispatcher.channels.counts.exchanges.add(publish.search.exchange(), routed);
        let result = self.forward_route(publish.origin, &route, &content, publish.mandatory, publish.awaited, fx);
        // Its publisher has waited for this, and need not be throttled for it.
        self.data.dispatcher.flow.slow_queue = None;
        if let Some(awaited) = publish.awaited {
            self.await_more(awaited, &result, fx);
            self.answers().on_answer(awaited, fx);
        }
        None
    }

    pub fn identity(&self, publisher: Publisher) -> Result<SessionIdentity, Refusal> {
        match publisher {
            Publisher::Connection(slot) => self.sessions.identity(slot),
            Publisher::Identity(identity) => Ok(identity),
        }
    }

    /// The exchange of a publish, if the user may publish to it.
    pub fn exchange(&mut self, publisher: Publisher, name: &[u8]) -> Result<ExchangeId, Refusal> {
        let identity = self.identity(publisher)?;
        self.catalog.check(identity.user, identity.vhost, PermissionKind::Write, Resource::Exchange, name)?;
        let id = self.catalog.exchange(identity.vhost, name);
        let id = id.ok_or_else(|| self.catalog.no_exchange(identity.vhost, name))?;
        self.catalog.check_publishable(id)?;
        Ok(id)
    }

    /// Forwards a routed publish, and notes what its channel awaits.
    #[inline]
    pub fn forward<E: Effects>(
        &mut self,
        origin: PublishOrigin,
        route: &Arc<QueueRoute>,
        content: &Content<'_>,
        mandatory: bool,
        publish: Option<PublishKey>,
        fx: &mut E,
    ) {
        // Most publishes are for one queue of this shard. What that answers fits into registers, other than a `ForwardResult`.
        let result = match &*route.queues {
            [only] if self.identity.is_home(only.home) && route.held.is_empty() => {
                match self.data.dispatcher.enqueue_or_deliver(only.id, content, &mut None, true, fx) {
                    EnqueueResult::Accepted(AppendResult::Durable) => return,
                    enqueued => ForwardResult::of(enqueued),
                }
            }
            _ => self.forward_route(origin, route, content, mandatory, publish, fx),
        };
        if let Some(publish) = publish {
            self.note_awaited(publish, &result, fx);
        }
    }

    /// Notes what a publish awaits.
    fn note_awaited<E: Effects>(&mut self, publish: PublishKey, result: &ForwardResult, fx: &mut E) {
        let Some(channel) = self.data.dispatcher.channels.get_mut(publish.channel) else { return };
        if result.answers_awaited > 0 {
            channel.confirms.pending.push_back((publish.number, result.answers_awaited));
        }
        if result.refused {
            channel.confirms.refused.insert(publish.number);
        }
        if let Some(ticket) = result.ticket {
            self.data.confirms.await_store(ticket, publish, &mut channel.confirms, fx);
        }
    }

    /// A publish that waits for its forwarding to go on waits for more.
    pub fn await_more<E: Effects>(&mut self, publish: PublishKey, result: &ForwardResult, fx: &mut E) {
        let Some(channel) = self.data.dispatcher.channels.get_mut(publish.channel) else { return };
        channel.confirms.await_more(publish.number, result.answers_awaited);
        if result.refused {
            channel.confirms.refused.insert(publish.number);
        }
        if let Some(ticket) = result.ticket {
            self.data.confirms.await_store(ticket, publish, &mut channel.confirms, fx);
        }
    }

    /// Forwards a routed publish. Returns what its channel awaits; what the turn has left is deferred.
    fn forward_route<E: Effects>(
        &mut self,
        origin: PublishOrigin,
        route: &Arc<QueueRoute>,
        content: &Content<'_>,
        mandatory: bool,
        publish: Option<PublishKey>,
        fx: &mut E,
    ) -> ForwardResult {
        if route.is_empty() {
            let refused = !self.on_unroutable(origin, content, mandatory, fx);
            return ForwardResult { refused, ..ForwardResult::default() };
        }
        let DataPlane { dispatcher, forwarder, confirms, .. } = &mut *self.data;
        let mut result = forwarder.forward(route, content, publish, (dispatcher, confirms), self.catalog, fx);
        if let Some((message, next)) = result.rest.take() {
            let route = Arc::clone(route);
            self.sessions.defer_publish(origin.slot, DeferredWork::Forward { message, route, next, publish });
            result.answers_awaited += 1;
        }
        result
    }

    /// A message without queues may be an admin request or a direct reply, or is returned. Returns whether it was accepted.
    #[cold]
    fn on_unroutable<E: Effects>(
        &mut self,
        PublishOrigin { slot, number, channel }: PublishOrigin,
        content: &Content<'_>,
        mandatory: bool,
        fx: &mut E,
    ) -> bool {
        // Otherwise nobody is there to get it back, and the slot may be another connection's.
        let is_open = self.data.dispatcher.channels.get(channel).is_some_and(|channel| !channel.closing);
        // What comes over a link was published by others than the administrator in whose name the link publishes.
        let is_link = self.sessions.get(slot).is_some_and(|session| session.is_link);
        if is_open && content.exchange.is_empty() && content.routing_key == REQUEST_QUEUE.as_bytes() && !is_link {
            match self.admin_request(slot, number, content, fx) {
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
            && address.shard.0 < self.identity.shards
        {
            if self.identity.is_home(address.shard) {
                self.data.dispatcher.channels.deliver_reply(address, content, fx);
            } else {
                let message = content.keep(fx.pool());
                fx.batch(address.shard).push(ShardMessage::DirectReply { address, message });
            }
            return true;
        }
        self.data.forwarder.unroutable += 1;
        if is_open {
            self.data.dispatcher.channels.count(channel, |stats| *stats.unroutable(mandatory) += 1);
        }
        if mandatory && is_open {
            let refusal = Refusal::channel(ReplyCode::NoRoute, "NO_ROUTE");
            fx.return_message(slot, number, &refusal, *content);
        }
        true
    }

    /// A message to the request queue. Returns whether anybody accepts requests; where nobody does it is a message without a
    /// queue. What the message says of its sender is not believed.
    #[cold]
    fn admin_request<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        content: &Content<'_>,
        fx: &mut E,
    ) -> Result<bool, Refusal> {
        let user = self.sessions.identity(slot)?.user;
        let user_name = self.catalog.user_name(user);
        if !self.catalog.is_administrator(user) {
            let detail = format!("user '{user_name}' is no administrator, and '{REQUEST_QUEUE}' hears no others");
            return Err(Refusal::detail(ReplyCode::AccessRefused, detail));
        }
        let wrong = |detail: String| Refusal::detail(ReplyCode::PreconditionFailed, detail);
        let bytes = content.body.len();
        if bytes > ADMIN_REQUEST_BYTES_MAX {
            return Err(wrong(format!("a request of {bytes} bytes; {ADMIN_REQUEST_BYTES_MAX} are the most")));
        }
        let key = self.sessions.channel_key(slot, number).ok_or_else(not_open)?;
        let properties = content.properties();
        let named = properties.reply_to().and_then(|reply_to| ReplyAddress::parse(reply_to.as_bytes()));
        let own = self.data.dispatcher.channels.reply_address(key);
        let Some(reply_to) = own.filter(|own| named == Some(*own)) else {
            return Err(wrong("the reply-to of a request is 'amq.rabbitmq.reply-to' of its own channel".to_owned()));
        };
        let request = AdminRequest {
            user: user_name.into(),
            reply_to,
            correlation_id: properties.correlation_id().map(|id| id.as_bytes().into()),
            body: match content.body {
                BodyRef::Small(bytes) => bytes.into(),
                BodyRef::Large(slice) => slice[..].into(),
            },
        };
        match fx.admin_request(request) {
            Ok(()) => Ok(true),
            Err(AdminRequestError::Unavailable) => Ok(false),
            Err(AdminRequestError::Busy) => Err(Refusal::channel(
                ReplyCode::ResourceError,
                "RESOURCE_ERROR - too many requests wait to be answered",
            )),
        }
    }

    /// Checks properties as RabbitMQ does: the user that a message claims to be from, and the form of its expiration.
    #[cold]
    fn check_properties(&self, slot: ConnectionSlot, properties: RawProperties<'_>) -> Result<(), Refusal> {
        if let Some(claimed) = properties.user_id() {
            let actual = self.catalog.user_name(self.sessions.identity(slot)?.user);
            if claimed.as_bytes() != actual.as_bytes() {
                let detail = format!("user_id property set to '{claimed}' but authenticated user was '{actual}'");
                return Err(Refusal::detail(ReplyCode::PreconditionFailed, detail));
            }
        }
        match properties.expiration() {
            Some(expiration) => queues::check_expiration(&String::from_utf8_lossy(expiration.as_bytes())),
            None => Ok(()),
        }
    }

    /// The properties of a request whose `reply-to` names the pseudo-queue, with the channel's address instead.
    #[cold]
    fn with_reply_address(&self, key: ChannelKey, properties: RawProperties<'_>) -> Result<Vec<u8>, Refusal> {
        let Some(address) = self.data.dispatcher.channels.reply_address(key) else {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - fast reply consumer does not exist",
            ));
        };
        let mut owned = properties.to_properties().map_err(|fault| Refusal::detail(fault.reply_code(), fault))?;
        let name = address.name();
        owned.reply_to = Some(ShortStr::truncated(&name).to_owned());
        Ok(owned.to_bytes())
    }
}
