//! The output of a federation link: what the broker core says to a client becomes what a client says to a broker.
//!
//! Enters: deliveries of the side here of a pushed route; confirms of what was pulled.  Leaves: `basic.publish`; `basic.ack`.
//! Owns:   the acknowledgements that wait for more; the rule that the n-th delivery of a channel is the n-th publish at the other end, so that tags need no table.
//! Never:  leaves a delivery out: one that must not go on is published to nowhere.

use broker::Delivery;
use federation::{AckBatcher, Tracer, TraceVerdict};
use session::{BodyOut, Outbound, PublishHead};
use slab::Pool;
use std::time::Instant;
use wire::method::basic;

/// A pushed route: deliveries on its channel go to an exchange of the other broker.
pub struct PushRoute {
    /// The exchange there.
    pub exchange: Box<str>,
    /// Writes this broker into the trace.
    pub tracer: Tracer,
    /// Messages sent.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Of them, those that were sent before.
    pub redelivered: u64,
    /// Messages that went nowhere, since the other broker, or too many, had them.
    pub dropped: u64,
}

impl PushRoute {
    /// To this exchange there.
    pub fn new(exchange: &str, tracer: Tracer) -> Self {
        PushRoute { exchange: exchange.into(), tracer, messages: 0, bytes: 0, redelivered: 0, dropped: 0 }
    }

    /// A delivery becomes a publish.
    pub fn send(&mut self, out: &mut Outbound, pool: &Pool, channel: u16, delivery: &Delivery<'_>, body: BodyOut<'_>) {
        let content = &delivery.content;
        let verdict = self.tracer.trace(content.properties(), delivery.redelivered);
        let (exchange, routing_key) = match verdict {
            TraceVerdict::Forward => (self.exchange.as_bytes(), content.routing_key),
            TraceVerdict::Drop => (&b""[..], &b""[..]),
        };
        match verdict {
            TraceVerdict::Forward => self.messages += 1,
            TraceVerdict::Drop => self.dropped += 1,
        }
        self.bytes += content.body.len() as u64;
        self.redelivered += u64::from(delivery.redelivered);
        let head = PublishHead { exchange, routing_key, mandatory: false, immediate: false };
        out.publish(pool, channel, &head, self.tracer.properties().as_bytes(), body);
    }
}

/// What the output of a link has that others have not: its pushed routes, by their channels.
#[derive(Default)]
pub struct LinkOutput {
    push_routes: Vec<Option<Box<PushRoute>>>,
    /// Of pulled routes, by their channels.
    ack_batchers: Vec<Option<AckBatcher>>,
    /// It is on the desk's list of those with acknowledgements that wait.
    pub is_queued: bool,
}

impl LinkOutput {
    /// What comes on this channel is acknowledged so, or not any more.
    pub fn set_ack_batcher(&mut self, channel: u16, acks: Option<AckBatcher>) {
        let index = usize::from(channel);
        if self.ack_batchers.len() <= index {
            self.ack_batchers.resize_with(index + 1, || None);
        }
        self.ack_batchers[index] = acks;
    }

    /// The acknowledgements of a channel.
    #[inline]
    pub fn ack_batcher(&mut self, channel: u16) -> Option<&mut AckBatcher> {
        self.ack_batchers.get_mut(usize::from(channel))?.as_mut()
    }

    /// Writes what is to be acknowledged at this time; `None`: all. Answers when it must be looked at again.
    pub fn write_acks(&mut self, out: &mut Outbound, pool: &Pool, now: Option<Instant>) -> Option<Instant> {
        let mut again: Option<Instant> = None;
        for (channel, acks) in self.ack_batchers.iter_mut().enumerate() {
            let Some(acks) = acks.as_mut().filter(|acks| acks.is_pending()) else { continue };
            if let Some((delivery_tag, multiple)) = acks.next_ack(now) {
                out.method(pool, channel as u16, &basic::Ack { delivery_tag, multiple }.into());
            }
            again = again.into_iter().chain(acks.due()).min();
        }
        again
    }

    /// Deliveries on this channel go there.
    pub fn set_push_route(&mut self, channel: u16, pushed: Option<PushRoute>) -> Option<PushRoute> {
        let index = usize::from(channel);
        if self.push_routes.len() <= index {
            self.push_routes.resize_with(index + 1, || None);
        }
        std::mem::replace(&mut self.push_routes[index], pushed.map(Box::new)).map(|pushed| *pushed)
    }

    /// The pushed route of a channel.
    pub fn push_route(&mut self, channel: u16) -> Option<&mut PushRoute> {
        self.push_routes.get_mut(usize::from(channel))?.as_deref_mut()
    }
}
