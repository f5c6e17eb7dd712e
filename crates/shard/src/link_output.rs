//! The output of a federation link: deliveries of the broker core become `basic.publish`, its confirms `basic.ack`.
//!
//! Owns:   acknowledgements that wait to be batched; the rule that the n-th delivery of a channel is the n-th publish at the
//!         other end, so that delivery tags need no table.

use crate::given_up::GiveUpReason;
use crate::route_counts::RouteCounts;
use broker::Delivery;
use federation::{AckBatcher, AckMode, RouteSpec, TraceVerdict, Tracer};
use session::{BodyOut, Outbound, PublishHead};
use slab::Pool;
use std::time::Instant;
use wire::{ChannelNumber, DeliveryTag, RawProperties, method::basic};

/// A pushed route: deliveries on its channel go to an exchange of the other broker.
pub struct PushRoute {
    exchange: Box<str>,
    /// The routing key there, instead of that of the message.
    key: Option<Box<str>>,
    /// Adds this broker to the trace of each message.
    tracer: Tracer,
    /// The link and the route, for the log.
    names: (Box<str>, Box<str>),
    /// The destination confirms its messages.
    is_confirmed: bool,
    pub(crate) counts: RouteCounts,
}

impl PushRoute {
    /// A route over a link to this broker.
    pub fn new(spec: &RouteSpec, link: &str, tracer: Tracer) -> Self {
        PushRoute {
            exchange: spec.exchange.clone(),
            key: spec.options.destination_key.clone(),
            tracer,
            names: (link.into(), spec.title().into()),
            is_confirmed: spec.ack == AckMode::Confirm,
            counts: RouteCounts::default(),
        }
    }

    /// Publishes a delivery. Returns whether it is given up and still to be rejected here, because its properties do not fit a
    /// frame. One that must not be forwarded is published to the default exchange without a routing key, where
    /// it reaches no queue: its number is the next delivery tag all the same.
    pub fn send(
        &mut self,
        out: &mut Outbound,
        pool: &Pool,
        channel: ChannelNumber,
        delivery: &Delivery<'_>,
        body: BodyOut<'_>,
    ) -> bool {
        let content = &delivery.content;
        let verdict = self.tracer.trace(content.properties(), delivery.redelivered);
        if verdict == TraceVerdict::TooLarge {
            let (link, route) = &self.names;
            let text = format!("{} bytes of properties", self.tracer.properties().as_bytes().len());
            self.counts.given_up.count(GiveUpReason::LargeProperties, (link, route), &text);
            let head = PublishHead { exchange: b"", routing_key: b"", mandatory: false, immediate: false };
            out.publish(pool, channel, &head, RawProperties::EMPTY.as_bytes(), BodyOut::Copy(b""));
            return self.is_confirmed;
        }
        let (exchange, routing_key) = match verdict {
            TraceVerdict::Forward => {
                (self.exchange.as_bytes(), self.key.as_deref().map_or(content.routing_key, str::as_bytes))
            }
            TraceVerdict::Drop | TraceVerdict::TooLarge => (&b""[..], &b""[..]),
        };
        self.counts.count(verdict, content.body.len(), delivery.redelivered);
        let head = PublishHead { exchange, routing_key, mandatory: false, immediate: false };
        out.publish(pool, channel, &head, self.tracer.properties().as_bytes(), body);
        false
    }
}

/// What the output of a federation link has beside its encoder, by channel.
#[derive(Default)]
pub struct LinkOutput {
    push_routes: Vec<Option<Box<PushRoute>>>,
    /// The acknowledgements of pulled routes.
    ack_batchers: Vec<Option<AckBatcher>>,
    /// Messages in flight that are given up, in the order of the tags on each channel: the source drops them, or makes them dead
    /// letters, when it is told. At most as many as there are messages in flight.
    given_up: Vec<(ChannelNumber, DeliveryTag)>,
    /// Channels of pushed routes that send one message at a time.
    probing: Vec<ChannelNumber>,
    /// Channels of pushed routes that have an end.
    ending: Vec<ChannelNumber>,
    /// It is on the list of outputs with pending acknowledgements (`ShardEffects::send_due_acks`).
    pub is_queued: bool,
}

impl LinkOutput {
    /// Sets how the messages of a channel are acknowledged; `None`: not at all.
    pub fn set_ack_batcher(&mut self, channel: ChannelNumber, batcher: Option<AckBatcher>) {
        let index = channel.index();
        if self.ack_batchers.len() <= index {
            self.ack_batchers.resize_with(index + 1, || None);
        }
        self.ack_batchers[index] = batcher;
    }

    #[inline]
    pub fn ack_batcher(&mut self, channel: ChannelNumber) -> Option<&mut AckBatcher> {
        self.ack_batchers.get_mut(channel.index())?.as_mut()
    }

    /// Writes the acknowledgements that are due; `None`: all. Returns when the next one is due.
    pub fn write_acks(&mut self, out: &mut Outbound, pool: &Pool, now: Option<Instant>) -> Option<Instant> {
        let mut next_due: Option<Instant> = None;
        for (channel, batcher) in self.ack_batchers.iter_mut().enumerate() {
            let Some(batcher) = batcher.as_mut().filter(|batcher| batcher.is_pending()) else { continue };
            if let Some((delivery_tag, multiple)) = batcher.next_ack(now) {
                out.method(pool, ChannelNumber(channel as u16), &basic::Ack { delivery_tag, multiple }.into());
            }
            next_due = next_due.into_iter().chain(batcher.due()).min();
        }
        next_due
    }

    /// A message is given up.
    #[cold]
    pub fn give_up(&mut self, channel: ChannelNumber, tag: DeliveryTag) {
        self.given_up.push((channel, tag));
    }

    /// Takes the messages of an answer that were given up: that of the tag, or all up to it.
    pub fn take_given_up(&mut self, channel: ChannelNumber, last: DeliveryTag, multiple: bool) -> Vec<DeliveryTag> {
        let is_meant = |(of, tag): &mut (ChannelNumber, DeliveryTag)| {
            *of == channel && (*tag == last || (multiple && *tag < last))
        };
        self.given_up.extract_if(.., is_meant).map(|(_, tag)| tag).collect()
    }

    /// A pushed route begins to send one message at a time, or has stopped to.
    pub fn set_probing(&mut self, channel: ChannelNumber, is_probing: bool) {
        self.probing.retain(|other| *other != channel);
        if is_probing {
            self.probing.push(channel);
        }
    }

    /// A pushed route has an end.
    pub fn set_ending(&mut self, channel: ChannelNumber) {
        self.ending.push(channel);
    }

    /// Whether answers of the other broker need more than to settle deliveries.
    #[inline]
    pub fn is_careful(&self) -> bool {
        !self.given_up.is_empty() || !self.probing.is_empty() || !self.ending.is_empty()
    }

    /// A channel is closed.
    pub fn forget_channel(&mut self, channel: ChannelNumber) {
        self.given_up.retain(|(of, _)| *of != channel);
        self.ending.retain(|of| *of != channel);
        self.set_probing(channel, false);
    }

    /// Sets where the deliveries of a channel go. Returns the route before.
    pub fn set_push_route(&mut self, channel: ChannelNumber, route: Option<PushRoute>) -> Option<PushRoute> {
        let index = channel.index();
        if self.push_routes.len() <= index {
            self.push_routes.resize_with(index + 1, || None);
        }
        std::mem::replace(&mut self.push_routes[index], route.map(Box::new)).map(|route| *route)
    }

    pub fn push_route(&mut self, channel: ChannelNumber) -> Option<&mut PushRoute> {
        self.push_routes.get_mut(channel.index())?.as_deref_mut()
    }
}
