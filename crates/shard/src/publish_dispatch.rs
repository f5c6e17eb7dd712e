//! Dispatch of publishes: one of them, and several that are alike.

use crate::effects::ShardEffects;
use crate::event_outcome::EventOutcome;
use crate::shared_state::SharedState;
use crate::stamp_check::is_duplicate;
use broker::{Broker, ConnectionSlot, Publish, ReadControl};
use queues::BodyRef;
use wire::method::basic;
use wire::{BodyRun, ChannelNumber};

/// Carries out a publish of a client or of another broker.
#[inline]
pub(crate) fn dispatch_publish(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    publish: Publish<'_>,
    broker: &mut Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> EventOutcome {
    let is_known = publish.properties.has_headers()
        && broker.is_link(slot)
        && is_duplicate(slot, channel, &publish, broker, effects, shared);
    let published = match is_known {
        false => broker.publish(slot, channel, publish, effects),
        true => broker.publish_duplicate(slot, channel),
    };
    match published {
        Ok(ReadControl::Continue) => EventOutcome::Continue,
        Ok(ReadControl::Pause | ReadControl::Batch) => EventOutcome::Wait,
        Err(refusal) => EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID },
    }
}

/// Carries out publishes that differ from `publish`, the first of them, in their bodies alone, until one of them has the
/// connection wait or the turn end. Returns how many, at least one, and the outcome of the last.
#[inline]
pub(crate) fn dispatch_publish_run(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    publish: Publish<'_>,
    bodies: BodyRun<'_>,
    broker: &mut Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> (usize, EventOutcome) {
    let mut taken = 0;
    while let Some(body) = bodies.skip(taken).map(|bodies| bodies.first()) {
        let publish = Publish { body: BodyRef::Small(body), ..publish };
        let outcome = dispatch_publish(slot, channel, publish, broker, effects, shared);
        taken += 1;
        if !matches!(outcome, EventOutcome::Continue) || must_stop(slot, broker, effects) {
            return (taken, outcome);
        }
        // The first has shown the way.
        if taken == 1
            && let Some(rest) = bodies.skip(1)
        {
            taken += broker.publish_repeats(slot, channel, &publish, rest, effects);
            if must_stop(slot, broker, effects) {
                break;
            }
        }
    }
    (taken, EventOutcome::Continue)
}

/// Whether nothing more of a connection is read in this turn, or until it has received what waits for it.
#[inline]
fn must_stop(slot: ConnectionSlot, broker: &Broker, effects: &ShardEffects) -> bool {
    effects.is_full(slot) || broker.is_turn_over()
}
