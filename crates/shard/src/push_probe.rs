//! The search for a message of a pushed route that the destination refuses for good.
//!
//! A refusal closes the channel and does not say which of the messages in flight it means. The route begins again and sends those
//! one at a time; the one behind which the channel is closed again is given up. Then the others follow as before.
//!
//! Enters: refusals of the destination, its confirms.  Leaves: settlements of the deliveries here.

use crate::event_outcome::EventOutcome;
use crate::link_context::LinkContext;
use broker::{ConnectionSlot, ReadControl};
use wire::method::{Method, basic};
use wire::{ChannelNumber, DeliveryTag};

/// What becomes of a route whose channel the destination has closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterRefusal {
    /// It goes on without what was in flight.
    GiveUp,
    /// It sends again what was in flight.
    GoOn,
    /// The refusal is not of a message: it waits before the next try.
    Fail,
}

/// A search that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PushProbe {
    /// Messages that are still to be sent one at a time.
    left: u64,
}

impl PushProbe {
    /// Among so many messages.
    pub fn among(messages: u64) -> Option<Self> {
        (messages > 0).then_some(PushProbe { left: messages })
    }

    /// A message is found to be good, or is given up. Returns the search for the rest.
    pub fn after_one(self) -> Option<Self> {
        Self::among(self.left - 1)
    }
}

/// Limits how many messages of a probed route are in flight. 0 lifts the limit.
pub(crate) fn limit_in_flight(
    messages: u16,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    cx: &mut LinkContext<'_>,
) -> Result<ReadControl, catalog::Refusal> {
    let qos = basic::Qos { prefetch_size: 0, prefetch_count: messages, global: true };
    cx.broker.command(slot, channel, qos.into(), cx.effects)
}

/// The destination has answered messages (`basic.ack`, `basic.nack`) of a route that searches, or that has given messages up.
#[cold]
pub(crate) fn settle_carefully(
    probing: &mut Option<PushProbe>,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    method: Method<'static>,
    cx: &mut LinkContext<'_>,
) -> EventOutcome {
    let (last, multiple) = match &method {
        Method::BasicAck(ack) => (ack.delivery_tag, ack.multiple),
        Method::BasicNack(nack) => (nack.delivery_tag, nack.multiple),
        _ => return EventOutcome::Continue,
    };
    let given_up = cx.link_output(slot).map(|output| output.take_given_up(channel, last, multiple)).unwrap_or_default();
    let mut settlements: Vec<Method<'static>> =
        given_up.iter().map(|&delivery_tag| basic::Reject { delivery_tag, requeue: false }.into()).collect();
    if !given_up.contains(&last) {
        settlements.push(method);
    }
    let mut outcome = EventOutcome::Continue;
    for settlement in settlements {
        outcome = settle(slot, channel, settlement, cx);
        if matches!(outcome, EventOutcome::Refuse { .. }) {
            return outcome;
        }
    }
    // The last tag of several is settled already and stands for none of the others: they are settled one by one.
    while multiple
        && given_up.contains(&last)
        && let Some(oldest) = cx.broker.oldest_unsettled(slot, channel).filter(|oldest| *oldest < last)
    {
        outcome = settle(slot, channel, with_tag(&method, oldest), cx);
    }
    if let Some(probe) = *probing {
        *probing = probe.after_one();
        if probing.is_none() {
            if let Some(output) = cx.link_output(slot) {
                output.set_probing(channel, false);
            }
            if let Err(refusal) = limit_in_flight(0, slot, channel, cx) {
                return EventOutcome::Refuse { channel, refusal, method: basic::Qos::ID };
            }
        }
    }
    outcome
}

fn with_tag(method: &Method<'static>, delivery_tag: DeliveryTag) -> Method<'static> {
    match method {
        Method::BasicNack(nack) => basic::Nack { delivery_tag, multiple: false, ..*nack }.into(),
        _ => basic::Ack { delivery_tag, multiple: false }.into(),
    }
}

/// Settles deliveries of a pushed route: the destination has accepted or refused its messages.
pub(crate) fn settle(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    method: Method<'_>,
    cx: &mut LinkContext<'_>,
) -> EventOutcome {
    let id = method.id();
    match cx.broker.command(slot, channel, method, cx.effects) {
        Ok(ReadControl::Continue) => EventOutcome::Continue,
        Ok(ReadControl::Pause | ReadControl::Batch) => EventOutcome::Wait,
        Err(refusal) => EventOutcome::Refuse { channel, refusal, method: id },
    }
}
