//! The search for a message of a pushed route that the destination refuses for good.
//!
//! A refusal closes the channel and does not say which of the messages in flight it means. The route begins again and sends those
//! one at a time; the one behind which the channel is closed again is given up. Then the others follow as before. Where the whole
//! connection was closed, the routes of the link search one after the other ([`CloseCount`](crate::close_count::CloseCount)).
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
    /// There was none when that was last checked.
    is_idle: bool,
    /// The whole connection was closed, and not the channel alone: the other routes of the link wait for the end of the search.
    pub is_of_link: bool,
}

impl PushProbe {
    /// Among so many messages, for one behind which the channel is closed.
    pub fn among(messages: u64) -> Option<Self> {
        (messages > 0).then_some(PushProbe { left: messages, is_idle: false, is_of_link: false })
    }

    /// Among so many messages and those that are left of a search under way, for one behind which the connection is closed.
    pub fn on_link(messages: u64, under_way: Option<Self>) -> Self {
        let left = under_way.map_or(0, |probe| probe.left);
        PushProbe { left: left.max(messages), is_idle: false, is_of_link: true }
    }

    /// A message is found to be good, or is given up. Returns the search for the rest.
    pub fn after_one(self) -> Option<Self> {
        Some(PushProbe { left: self.left.saturating_sub(1), is_idle: false, ..self }).filter(|probe| probe.left > 0)
    }

    /// Checks from time to time whether the search finds nothing more, since its messages have left their queue in another way.
    /// Returns whether it is over.
    pub fn is_exhausted(&mut self, in_flight: u64) -> bool {
        let was_idle = std::mem::replace(&mut self.is_idle, in_flight == 0);
        was_idle && self.is_idle
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

/// The destination has answered messages (`basic.ack`, `basic.nack`) of a route that searches, or that has given messages up. If that
/// ends its search, [`end_probe`] follows.
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
        && let Some(oldest) =
            cx.broker.oldest_unsettled(slot, channel).map(|oldest| oldest.tag).filter(|tag| *tag < last)
    {
        outcome = settle(slot, channel, with_tag(&method, oldest), cx);
    }
    *probing = probing.and_then(PushProbe::after_one);
    outcome
}

/// A route sends as many messages as before: as its credit says, or within this limit unless it is 0.
#[cold]
pub(crate) fn end_probe(
    limit: u16,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    cx: &mut LinkContext<'_>,
) -> Result<ReadControl, catalog::Refusal> {
    if let Some(output) = cx.link_output(slot) {
        output.set_probing(channel, false);
    }
    limit_in_flight(limit, slot, channel, cx)
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

#[cfg(test)]
mod tests {
    use super::PushProbe;

    #[test]
    fn a_search_ends_with_its_last_message_or_when_none_comes_any_more() {
        assert_eq!(PushProbe::among(0), None);
        let mut probe = PushProbe::among(2).expect("two");
        assert!(!probe.is_exhausted(0) && !probe.is_exhausted(1) && !probe.is_exhausted(0));
        let mut after_one = probe.after_one().expect("one more");
        assert!(!after_one.is_exhausted(0), "one has come since");
        assert!(after_one.is_exhausted(0));
        assert_eq!(after_one.after_one(), None);
    }

    #[test]
    fn a_search_on_a_link_goes_on_with_what_is_left() {
        let probe = PushProbe::on_link(3, PushProbe::among(1));
        assert_eq!(probe, PushProbe::on_link(1, Some(probe)));
        assert_eq!(probe, PushProbe::on_link(3, None));
        let rest = probe.after_one().expect("two more");
        assert!(rest.is_of_link && !PushProbe::among(1).expect("one").is_of_link);
        assert_eq!(rest.after_one().and_then(PushProbe::after_one), None);
    }
}
