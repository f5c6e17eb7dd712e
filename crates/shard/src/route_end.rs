//! The end of a route that moves so many messages and no more.
//!
//! Owns:   how many are left, counted from each connection on. A pulled route ignores what its source sends beyond them, which is
//!         not acknowledged and stays there. A pushed one never has more messages in flight than are left.

use crate::event_outcome::EventOutcome;
use crate::link_context::LinkContext;
use crate::push_probe::limit_in_flight;
use broker::ConnectionSlot;
use federation::{RouteEnd, RouteSpec};
use wire::method::{Method, channel};
use wire::{ChannelNumber, method::basic};

/// How many messages a route has still to move.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessagesLeft {
    left: Option<u64>,
    /// All have been moved, and acknowledged. It stays so.
    is_complete: bool,
}

impl MessagesLeft {
    /// A connection begins. `waiting`: messages of the queue at the source.
    pub fn begin(&mut self, spec: &RouteSpec, waiting: Option<u64>) {
        let end = spec.options.shovel.as_ref().and_then(|shovel| shovel.end);
        self.left = match (end, self.is_complete) {
            (None, _) => None,
            (Some(_), true) => Some(0),
            (Some(RouteEnd::Messages(messages)), false) => Some(messages),
            (Some(RouteEnd::QueueLength), false) => Some(waiting.unwrap_or(0)),
        };
    }

    /// The connection is gone.
    pub fn disconnect(&mut self) {
        self.left = None;
    }

    /// Whether one more message is to be moved, which is counted.
    #[inline]
    pub fn take_one(&mut self) -> bool {
        match &mut self.left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    /// Whether there is an end, and it is reached but for acknowledgements.
    pub fn is_exhausted(&self) -> bool {
        self.left == Some(0)
    }

    pub fn has_end(&self) -> bool {
        self.left.is_some()
    }

    /// Whether all that the route should move has been moved. `in_flight`: messages without an acknowledgement.
    pub fn check_complete(&mut self, in_flight: u64) -> bool {
        self.is_complete |= self.is_exhausted() && in_flight == 0;
        self.is_complete
    }

    /// Messages that a pushed route may have in flight; `None`: as many as its credit says.
    pub fn in_flight_max(&self) -> Option<u16> {
        self.left.map(|left| u16::try_from(left).unwrap_or(u16::MAX))
    }

    /// The destination has answered messages of a pushed route. Nothing is sent until what is left is known.
    #[cold]
    pub fn settle(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        method: Method<'static>,
        cx: &mut LinkContext<'_>,
        settle_all: impl FnOnce(Method<'static>, &mut LinkContext<'_>) -> EventOutcome,
    ) -> EventOutcome {
        let is_taken = matches!(method, Method::BasicAck(_));
        let refused = flow(false, slot, channel, cx);
        let before = cx.broker.in_flight(slot, channel);
        let outcome = settle_all(method, cx);
        let settled = before.saturating_sub(cx.broker.in_flight(slot, channel));
        if is_taken && let Some(left) = &mut self.left {
            *left = left.saturating_sub(settled);
        }
        let goes_on = match self.in_flight_max() {
            // A limit of none would be no limit: nothing is sent any more.
            Some(0) => Ok(()),
            Some(limit) => limit_in_flight(limit, slot, channel, cx)
                .and_then(|_| flow(true, slot, channel, cx).map_or(Ok(()), Err)),
            None => Ok(()),
        };
        match (refused, goes_on) {
            (None, Ok(())) => outcome,
            (Some(refusal), _) | (_, Err(refusal)) => EventOutcome::Refuse { channel, refusal, method: basic::Ack::ID },
        }
    }
}

/// Lets a pushed route send, or not. Returns why that is refused.
fn flow(
    active: bool,
    slot: ConnectionSlot,
    channel: ChannelNumber,
    cx: &mut LinkContext<'_>,
) -> Option<catalog::Refusal> {
    cx.broker.command(slot, channel, channel::Flow { active }.into(), cx.effects).err()
}

#[cfg(test)]
mod tests {
    use super::MessagesLeft;
    use federation::{AckMode, RouteDirection, RouteEnd, RouteKind, RouteSpec, ShovelOptions};

    fn spec(end: Option<RouteEnd>) -> RouteSpec {
        let mut spec = RouteSpec {
            exchange: "".into(),
            kind: RouteKind::Queue { queue: "q".into() },
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 1,
            durable: false,
            forced: false,
            dead_letter_exchange: None,
            options: federation::RouteOptions::default(),
        };
        spec.options.shovel = Some(Box::new(ShovelOptions { end, ..ShovelOptions::default() }));
        spec
    }

    #[test]
    fn so_many_are_taken_and_it_is_over_once_none_is_in_flight() {
        let mut endless = MessagesLeft::default();
        endless.begin(&spec(None), Some(3));
        assert!(endless.take_one() && !endless.has_end() && !endless.check_complete(0));
        for (end, waiting) in [(RouteEnd::Messages(2), Some(7)), (RouteEnd::QueueLength, Some(2))] {
            let mut left = MessagesLeft::default();
            left.begin(&spec(Some(end)), waiting);
            assert_eq!(left.in_flight_max(), Some(2));
            assert!(left.take_one() && !left.check_complete(0) && left.take_one() && !left.take_one());
            assert!(!left.check_complete(1) && left.check_complete(0));
            // Another connection moves nothing.
            left.disconnect();
            left.begin(&spec(Some(end)), waiting);
            assert!(!left.take_one() && left.check_complete(0));
        }
        let mut empty = MessagesLeft::default();
        empty.begin(&spec(Some(RouteEnd::QueueLength)), Some(0));
        assert!(empty.check_complete(0));
    }
}
