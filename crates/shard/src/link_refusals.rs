//! What a federation link does with messages that one of its two brokers refuses for good.

use crate::event_outcome::EventOutcome;
use crate::federation_link::FederationLink;
use crate::given_up::GiveUpReason;
use crate::link_context::LinkContext;
use crate::local_routes::LocalRoute;
use crate::push_probe::{AfterRefusal, PushProbe, settle, settle_carefully};
use broker::ConnectionSlot;
use federation::{AckMode, RouteDirection, RouteId, RouteSpec};
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

    /// The other broker has closed the connection with an error, perhaps because of one of the messages that it was sent. They are
    /// sent again one at a time; one behind which it closes the connection again and again is given up.
    #[cold]
    pub fn on_closed_for_message(&mut self, slot: ConnectionSlot, text: &str, cx: &mut LinkContext<'_>) {
        let searching = self.routes.searching();
        let in_flight = self.confirmed_in_flight(slot, cx);
        if let [(route, channel, 1)] = *in_flight
            && searching == Some(route)
            && let Some(message) = cx.broker.oldest_unsettled(slot, channel)
        {
            if self.close_count.add(message) {
                self.give_up_in_flight(route, slot, channel, text, cx);
            }
            return;
        }
        self.close_count.reset();
        for (route, _, messages) in in_flight {
            let probe = &mut self.routes.entry(route).probe;
            *probe = Some(PushProbe::on_link(messages, *probe));
        }
    }

    /// The pushed routes that have messages in flight, and how many. What is sent without confirms is forgotten at once.
    fn confirmed_in_flight(&self, slot: ConnectionSlot, cx: &LinkContext<'_>) -> Vec<(RouteId, ChannelNumber, u64)> {
        let is_confirmed = |spec: &RouteSpec| spec.direction == RouteDirection::Push && spec.ack == AckMode::Confirm;
        let routes = self.session.routes.iter().filter(|(_, spec)| is_confirmed(spec));
        let channels = routes.filter_map(|(route, _)| Some((route, self.session.routes.channel(route)?)));
        let counted = channels.map(|(route, channel)| (route, channel, cx.broker.in_flight(slot, channel)));
        counted.filter(|(.., messages)| *messages > 0).collect()
    }

    /// Gives up the only message in flight of a route whose connection is over.
    fn give_up_in_flight(
        &mut self,
        route: RouteId,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        text: &str,
        cx: &mut LinkContext<'_>,
    ) {
        let Some(title) = self.session.routes.spec(route).map(RouteSpec::title) else { return };
        let local = self.routes.entry(route);
        local.counts.given_up.count(GiveUpReason::Refused, (&self.spec.key.peer, &title), text);
        local.probe = local.probe.and_then(PushProbe::after_one);
        self.end_local_channel(slot, channel, true, cx);
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
            let LocalRoute { probe, left, .. } = self.routes.entry(route);
            let was_probing = probe.is_some();
            let outcome = match left.has_end() {
                true => left
                    .settle(slot, channel, method, cx, |method, cx| settle_carefully(probe, slot, channel, method, cx)),
                false => settle_carefully(probe, slot, channel, method, cx),
            };
            if was_probing && probe.is_none() {
                self.end_search(slot, channel, cx);
            }
            self.update_holds(cx);
            return outcome;
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
        if spec.direction != RouteDirection::Pull || !local.left.take_one() {
            // It was sent messages, and has none to send, or none that is wanted.
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
