//! What a federation link does with messages that one of its two brokers refuses for good.

use crate::event_outcome::EventOutcome;
use crate::federation_link::FederationLink;
use crate::given_up::GiveUpReason;
use crate::link_context::LinkContext;
use crate::push_probe::{AfterRefusal, settle, settle_carefully};
use broker::ConnectionSlot;
use federation::{RouteDirection, RouteId};
use session::ContentDefect;
use wire::{ChannelNumber, Method};

impl FederationLink {
    /// The other broker has refused one of a route's messages for good.
    #[cold]
    pub fn on_message_refused(
        &mut self,
        route: RouteId,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        text: &str,
        cx: &mut LinkContext<'_>,
    ) -> AfterRefusal {
        let (Some(local), Some(spec)) = (self.routes.get_mut(route), self.session.routes.spec(route)) else {
            return AfterRefusal::Fail;
        };
        // The channel is no longer the route's, whose counts would be lost with it.
        if let Some(pushed) = cx.link_output(slot).and_then(|output| output.set_push_route(channel, None)) {
            local.counts.add(pushed.counts);
        }
        local.on_message_refused(spec, &self.spec.key.peer, (slot, channel), text, cx)
    }

    /// The other broker has answered messages that it was sent.
    #[inline]
    pub fn settle(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        method: Method<'static>,
        cx: &mut LinkContext<'_>,
    ) -> EventOutcome {
        if cx.link_output(slot).is_some_and(|output| output.is_careful())
            && let Some(route) = self.session.routes.on_channel(channel)
        {
            return settle_carefully(&mut self.routes.entry(route).probe, slot, channel, method, cx);
        }
        settle(slot, channel, method, cx)
    }

    /// A message of the other broker was too large to be received, or malformed.
    #[cold]
    pub fn pass_over(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        defect: ContentDefect,
        cx: &mut LinkContext<'_>,
    ) -> EventOutcome {
        let FederationLink { session, routes, spec: link, .. } = self;
        let Some(route) = session.routes.on_channel(channel) else { return EventOutcome::Continue };
        let (Some(local), Some(spec)) = (routes.get_mut(route), session.routes.spec(route)) else {
            return EventOutcome::Continue;
        };
        if spec.direction != RouteDirection::Pull {
            // It was sent messages, and has none to send.
            return EventOutcome::Continue;
        }
        let (reason, text) = match defect {
            ContentDefect::LargeBody(bytes) => (GiveUpReason::LargeBody, format!("a body of {bytes} bytes").into()),
            ContentDefect::LargeProperties => {
                (GiveUpReason::LargeProperties, "properties that do not fit a frame".into())
            }
            ContentDefect::MalformedHeader(text) => (GiveUpReason::Malformed, text),
        };
        // The n-th delivery of a channel is its n-th publish. Without confirms, the source awaits no answer.
        let tag = cx.broker.next_confirm_tag(slot, channel).unwrap_or_default();
        local.give_up(spec, link, (slot, channel, tag), (reason, &text), cx.broker, cx.effects)
    }
}
