//! Carries out an event of a client as far as the broker core alone is concerned.

use crate::effects::ShardEffects;
use crate::event_outcome::EventOutcome;
use crate::login::LoginRequest;
use crate::publish_dispatch::{dispatch_publish, dispatch_publish_run};
use crate::shared_state::SharedState;
use broker::{Broker, ConnectionSlot, Publish, ReadControl};
use queues::BodyRef;
use session::{Body, Event};
use wire::Method;
use wire::method::basic;

/// Whether a method settles deliveries: the only ones that come as often as messages, and they take no memory.
#[inline]
fn is_settlement(method: (u16, u16)) -> bool {
    matches!(method, basic::Ack::ID | basic::Nack::ID | basic::Reject::ID)
}

/// Carries out an event of a client as far as the broker core alone is concerned. `left_bytes` tells how much of it is to be
/// presented again. `follows`: the connection may go where the queue lives of which its client wants messages.
#[inline]
pub(crate) fn dispatch_event(
    slot: ConnectionSlot,
    event: Event<'_>,
    follows: bool,
    left_bytes: &mut usize,
    broker: &mut Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> EventOutcome {
    match event {
        Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body } => {
            let body = match &body {
                Body::Small(bytes) => BodyRef::Small(bytes),
                Body::Large(slice) => BodyRef::Large(slice),
            };
            let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
            dispatch_publish(slot, channel, publish, broker, effects, shared)
        }
        Event::PublishRun { channel, exchange, routing_key, mandatory, immediate, properties, bodies } => {
            let body = BodyRef::Small(bodies.first());
            let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
            let (taken, outcome) = dispatch_publish_run(slot, channel, publish, bodies, broker, effects, shared);
            *left_bytes = (bodies.len() - taken) * bodies.message_bytes();
            outcome
        }
        Event::PublishBegun { channel, exchange } => match broker.begin_publish(slot, channel, exchange, effects) {
            Ok(ReadControl::Continue) => EventOutcome::Continue,
            Ok(ReadControl::Pause | ReadControl::Batch) => EventOutcome::Wait,
            Err(refusal) => EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID },
        },
        Event::Method { method: Method::ConnectionUpdateSecret(_), .. } => EventOutcome::UpdateSecret,
        Event::Method { channel, method } => {
            let id = method.id();
            if follows
                && matches!(id, basic::Consume::ID | basic::Get::ID)
                && let Some(to) = broker.queue_elsewhere(slot, channel, &method)
            {
                return EventOutcome::Follow { to };
            }
            match broker.command(slot, channel, method, effects) {
                Ok(ReadControl::Continue) if is_settlement(id) => EventOutcome::Continue,
                Ok(ReadControl::Continue) => EventOutcome::Grow,
                Ok(ReadControl::Pause) => EventOutcome::Wait,
                Ok(ReadControl::Batch) => EventOutcome::Gather { channel },
                Err(refusal) => EventOutcome::Refuse { channel, refusal, method: id },
            }
        }
        Event::ChannelOpened { channel } => EventOutcome::OpenChannel { channel },
        Event::ChannelClosed { channel, .. } => EventOutcome::CloseChannel { channel },
        Event::Login { mechanism, response, client_properties, capabilities, .. } => {
            EventOutcome::LogIn(LoginRequest::new(mechanism, response, client_properties, capabilities))
        }
        Event::Open { vhost } => EventOutcome::OpenVhost { vhost: vhost.as_bytes().into() },
        Event::Tuned(tuning) => EventOutcome::Tuned(tuning),
        Event::CloseRequested { .. } | Event::CloseOk => EventOutcome::Close,
        Event::ChannelCloseOk { .. } => EventOutcome::Continue,
        // A challenge is never sent, and the rest is for clients.
        Event::LoginResponse { .. }
        | Event::Deliver { .. }
        | Event::PassedOver { .. }
        | Event::GetOk { .. }
        | Event::Return { .. }
        | Event::Start(_)
        | Event::Secure { .. }
        | Event::Tune(_)
        | Event::OpenOk
        | Event::Blocked { .. }
        | Event::Unblocked => EventOutcome::Close,
    }
}
