//! The routes of one link at this broker: tracers, counts, retries, and what has been set up here.

use crate::binding_watch::BindingWatch;
use crate::effects::ShardEffects;
use crate::event_outcome::EventOutcome;
use crate::given_up::GiveUpReason;
use crate::link_context::LinkContext;
use crate::link_timers::back_off;
use crate::push_probe::{AfterRefusal, PushProbe};
use crate::push_setup::PushSetup;
use crate::route_counts::RouteCounts;
use crate::route_end::MessagesLeft;
use crate::shared_state::SharedState;
use crate::stamp_check::{record_stamp, release_stamps};
use broker::{Broker, ConnectionSlot, Publish, ReadControl};
use catalog::Refusal;
use federation::{AckMode, LinkSession, LinkSpec, QueueHop, RouteDirection, RouteId, RouteSpec, TraceVerdict, Tracer};
use queues::BodyRef;
use std::time::Instant;
use wire::method::basic;
use wire::{ChannelNumber, DeliveryTag, RawProperties, ReplyCode};

/// A message that arrived on a pulled route.
pub(crate) struct PulledMessage<'a> {
    pub channel: ChannelNumber,
    pub delivery_tag: DeliveryTag,
    pub redelivered: bool,
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    pub properties: RawProperties<'a>,
    pub body: BodyRef<'a>,
}

/// A route at this broker.
#[derive(Default)]
pub(crate) struct LocalRoute {
    /// Of a pulled route that runs: adds the other broker to the trace of each message.
    pub tracer: Option<Tracer>,
    /// Of the route of a federated queue that runs: adds what its messages tell of their way.
    pub queue_hop: Option<QueueHop>,
    /// Of a pulled route with acknowledgements: how many messages form a batch, after which they may be sent.
    pub ack_batch: u64,
    /// Of a pushed route: how far its setup here has come.
    pub push: Option<PushSetup>,
    pub retry_at: Option<Instant>,
    attempts: u32,
    pub counts: RouteCounts,
    pub left: MessagesLeft,
    /// Of a pushed route: which messages it sends one at a time.
    pub probe: Option<PushProbe>,
    /// What reports changes of the bindings here.
    pub watch: Option<BindingWatch>,
}

impl LocalRoute {
    /// The destination has refused one of the messages in flight for good: it is given up if there is but one, and searched for
    /// otherwise.
    #[cold]
    pub fn on_message_refused(
        &mut self,
        spec: &RouteSpec,
        link: &str,
        (slot, channel): (ConnectionSlot, ChannelNumber),
        text: &str,
        cx: &LinkContext<'_>,
    ) -> AfterRefusal {
        if spec.direction != RouteDirection::Push {
            return AfterRefusal::Fail;
        }
        let in_flight = cx.broker.in_flight(slot, channel);
        if spec.ack == AckMode::Confirm && in_flight != 1 {
            self.probe = PushProbe::among(in_flight);
            return if in_flight > 0 { AfterRefusal::GoOn } else { AfterRefusal::Fail };
        }
        self.counts.given_up.count(GiveUpReason::Refused, (link, &spec.title()), text);
        self.probe = self.probe.and_then(PushProbe::after_one);
        AfterRefusal::GiveUp
    }

    /// The route has failed: it begins again after a wait.
    pub fn fail(&mut self, chance: u64, now: Instant) {
        (self.tracer, self.queue_hop, self.push) = (None, None, None);
        self.retry_at = Some(now + back_off(self.attempts + 2, chance));
        self.attempts = self.attempts.saturating_add(1);
    }

    /// The destination has closed the channel for one message: the route goes on at once.
    pub fn resume(&mut self, now: Instant) {
        (self.tracer, self.queue_hop, self.push) = (None, None, None);
        self.retry_at = Some(now);
    }

    /// Messages flow: the next failure is the first again.
    pub fn reset_attempts(&mut self) {
        (self.attempts, self.retry_at) = (0, None);
    }

    /// Publishes a message of the other broker in this one, unless it has been here already.
    #[inline]
    pub fn publish(
        &mut self,
        spec: &RouteSpec,
        link: &LinkSpec,
        slot: ConnectionSlot,
        message: PulledMessage<'_>,
        (broker, effects, shared): (&mut Broker, &mut ShardEffects, &SharedState),
    ) -> EventOutcome {
        let Some(tracer) = &mut self.tracer else { return EventOutcome::Continue };
        if !self.left.take_one() {
            return EventOutcome::Continue;
        }
        let PulledMessage { channel, delivery_tag, redelivered, exchange, routing_key, properties, body } = message;
        if let Some(queue) = spec.federated_queue()
            && !has_queue(broker, &link.key.vhost, queue)
        {
            // It stays at the source, which has it back when the channel is closed.
            let text = format!("NOT_FOUND - no queue '{queue}' in vhost '{}'", link.key.vhost);
            let refusal = Refusal::channel(ReplyCode::NotFound, text);
            return EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID };
        }
        let mut verdict = tracer.trace(properties, redelivered);
        if let Some(stamp) = tracer.stamp()
            && verdict == TraceVerdict::Forward
        {
            let stamp = stamp.at(&link.key.vhost, spec.exchange.as_bytes());
            let confirm_as = (spec.ack == AckMode::Confirm).then_some(delivery_tag);
            if !record_stamp(shared, effects, slot, channel, confirm_as, stamp) {
                verdict = TraceVerdict::Drop;
            }
        }
        let body_bytes = body.len();
        if let Some(hop) = &mut self.queue_hop
            && verdict == TraceVerdict::Forward
            && !hop.add(tracer.properties(), (exchange, routing_key), redelivered)
        {
            verdict = TraceVerdict::TooLarge;
        }
        let properties = self.queue_hop.as_ref().map_or_else(|| tracer.properties(), QueueHop::properties);
        let published = match verdict {
            TraceVerdict::Forward => {
                let exchange = spec.exchange.as_bytes();
                let routing_key = spec.options.destination_key.as_deref().map_or(routing_key, str::as_bytes);
                let (mandatory, immediate) = (false, false);
                let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
                broker.publish(slot, channel, publish, effects)
            }
            // It counts all the same: its number is its delivery tag's.
            TraceVerdict::Drop => broker.publish_duplicate(slot, channel),
            TraceVerdict::TooLarge => {
                let text = format!("{} bytes of properties", properties.as_bytes().len());
                let reason = (GiveUpReason::LargeProperties, &*text);
                return self.give_up(spec, link, (slot, channel, delivery_tag), reason, broker, effects);
            }
        };
        if let Err(refusal) = &published
            && broker.has_channel(slot, channel)
            && broker.may_publish(slot, spec.exchange.as_bytes()).is_ok()
        {
            // The exchange would take another message.
            let reason = (GiveUpReason::Refused, &*refusal.text);
            return self.give_up(spec, link, (slot, channel, delivery_tag), reason, broker, effects);
        }
        self.counts.count(verdict, body_bytes, redelivered);
        match published {
            Ok(ReadControl::Continue) if delivery_tag.0.is_multiple_of(self.ack_batch) => {
                EventOutcome::AcknowledgeEarly
            }
            Ok(ReadControl::Continue) => EventOutcome::Continue,
            Ok(ReadControl::Pause | ReadControl::Batch) => EventOutcome::Wait,
            Err(refusal) => EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID },
        }
    }

    /// Gives up a message of the other broker, which drops it or makes it a dead letter.
    #[cold]
    pub fn give_up(
        &mut self,
        spec: &RouteSpec,
        link: &LinkSpec,
        (slot, channel, tag): (ConnectionSlot, ChannelNumber, DeliveryTag),
        (reason, text): (GiveUpReason, &str),
        broker: &mut Broker,
        effects: &mut ShardEffects,
    ) -> EventOutcome {
        self.counts.given_up.count(reason, (&link.key.peer, &spec.title()), text);
        if spec.ack == AckMode::Confirm
            && let Some(output) = effects.output(slot).and_then(|output| output.link_output.as_mut())
        {
            output.give_up(channel, tag);
        }
        // It counts all the same: its number is its delivery tag's.
        match broker.publish_refused(slot, channel) {
            Ok(ReadControl::Continue) => EventOutcome::Continue,
            Ok(ReadControl::Pause | ReadControl::Batch) => EventOutcome::Wait,
            Err(refusal) => EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID },
        }
    }
}

/// Whether a federated queue is there.
fn has_queue(broker: &Broker, vhost: &str, queue: &str) -> bool {
    let catalog = broker.catalog();
    catalog.vhost_by_name(vhost).is_some_and(|vhost| catalog.queue(vhost, queue.as_bytes()).is_some())
}

/// The routes of one link at this broker, by their ids.
#[derive(Default)]
pub(crate) struct LocalRoutes {
    routes: Vec<LocalRoute>,
}

impl LocalRoutes {
    #[inline]
    pub fn get(&self, route: RouteId) -> Option<&LocalRoute> {
        self.routes.get(route.index())
    }

    #[inline]
    pub fn get_mut(&mut self, route: RouteId) -> Option<&mut LocalRoute> {
        self.routes.get_mut(route.index())
    }

    /// A route, which is added if it is new.
    pub fn entry(&mut self, route: RouteId) -> &mut LocalRoute {
        if self.routes.len() <= route.index() {
            self.routes.resize_with(route.index() + 1, LocalRoute::default);
        }
        &mut self.routes[route.index()]
    }

    /// Forgets everything about a route, whose id may be used again.
    pub fn reset(&mut self, route: RouteId) {
        *self.entry(route) = LocalRoute::default();
    }

    /// The connection is gone, and with it what was set up on it.
    pub fn disconnect(&mut self) {
        for route in &mut self.routes {
            (route.tracer, route.queue_hop) = (None, None);
            (route.push, route.retry_at) = (None, None);
            route.left.disconnect();
        }
    }

    /// The route whose turn it is to search for a message for which the connection is closed. One that fails for another reason does
    /// not hold up the others.
    pub fn searching(&self) -> Option<RouteId> {
        let searches = |route: &LocalRoute| route.probe.is_some_and(|probe| probe.is_of_link) && route.attempts == 0;
        self.routes.iter().position(searches).map(RouteId::at)
    }

    /// Whether a route sends nothing while another one searches.
    pub fn has_held(&self) -> bool {
        self.routes.iter().any(|route| route.push.as_ref().is_some_and(|push| push.is_held))
    }

    /// When the next route is to be tried again.
    pub fn next_retry(&self) -> Option<Instant> {
        self.routes.iter().filter_map(|route| route.retry_at).min()
    }

    /// Whether the retry of a route is due; it will be made now.
    pub fn take_retry(&mut self, route: RouteId, now: Instant) -> bool {
        self.get_mut(route).is_some_and(|route| route.retry_at.take_if(|at| *at <= now).is_some())
    }

    /// Adds what routes have pushed on a connection, or on one channel of it, to their counts; they push no more.
    pub fn keep_counts(
        &mut self,
        session: &LinkSession,
        slot: ConnectionSlot,
        only: Option<ChannelNumber>,
        cx: &mut LinkContext<'_>,
    ) {
        release_stamps(cx.shared, cx.effects, slot, only);
        let Some(output) = cx.link_output(slot) else { return };
        for (route, _) in session.routes.iter() {
            if let Some(channel) = session.routes.channel(route)
                && only.is_none_or(|only| only == channel)
                && let Some(pushed) = output.set_push_route(channel, None)
            {
                self.entry(route).counts.add(pushed.counts);
            }
        }
    }
}
