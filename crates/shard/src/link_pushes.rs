//! The pushed routes of a link: their setup here, and which of them send while messages are searched for that the destination
//! refuses.
//!
//! Owns:   the rule that then one route sends at a time, and only once everything else is set up. If the connection is closed,
//!         nothing but its message can be the reason.

use crate::federation_link::{FederationLink, LinkPhase};
use crate::link_context::LinkContext;
use crate::local_routes::LocalRoute;
use crate::push_probe::end_probe;
use crate::push_setup::{PushProgress, PushSetup};
use broker::ConnectionSlot;
use federation::RouteId;
use wire::ChannelNumber;
use wire::method::channel;

impl FederationLink {
    /// Begins the setup of a pushed route.
    pub fn begin_push(&mut self, route: RouteId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let is_held = self.routes.searching().is_some();
        self.routes.entry(route).push = Some(PushSetup::new(is_held));
        self.advance_push(route, slot, cx);
    }

    fn advance_push(&mut self, route: RouteId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let Some(local) = self.routes.get_mut(route) else { return };
        let is_probing = local.probe.is_some();
        let Some(push) = &mut local.push else { return };
        match push.advance(&self.session, route, slot, (&self.spec.key.peer, is_probing, local.left), cx) {
            PushProgress::Done => {
                if let Some((out, pool)) = cx.effects.writer(slot) {
                    self.session.on_local_side_ready(route, out, pool);
                }
            }
            PushProgress::Refused { channel, refusal } => self.on_refusal(slot, channel, &refusal.text, cx),
            PushProgress::Waiting | PushProgress::Gone => {}
        }
    }

    /// Goes on with routes whose setup here waited for an answer of the broker core.
    pub fn resume_pushes(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let waits = |route: RouteId| {
            self.routes.get(route).and_then(|route| route.push.as_ref()).is_some_and(|push| !push.is_done())
        };
        let waiting = self.session.routes.iter().map(|(route, _)| route).filter(|route| waits(*route));
        let waiting: Vec<_> = waiting.collect();
        for route in waiting {
            self.advance_push(route, slot, cx);
        }
    }

    /// Lets the route send whose turn it is to search, or all routes if none searches. To be called when a route has been set up,
    /// has had an answer, has ended its search, has failed or is gone.
    pub fn update_holds(&mut self, cx: &mut LinkContext<'_>) {
        let LinkPhase::Connected { slot } = self.phase else { return };
        let searching = self.routes.searching();
        if searching.is_none() && !self.routes.has_held() {
            return;
        }
        let channels = self.session.routes.iter().map(|(route, _)| route);
        let channels = channels.filter_map(|route| Some((route, self.session.routes.channel(route)?)));
        let (own, others): (Vec<_>, Vec<_>) = channels.partition(|(route, _)| Some(*route) == searching);
        let is_alone = others.iter().all(|(_, channel)| cx.broker.in_flight(slot, *channel) == 0);
        for (route, channel) in others {
            self.hold(route, searching.is_some(), (slot, channel), cx);
        }
        for (route, channel) in own {
            self.hold(route, !is_alone || !self.session.is_set_up(), (slot, channel), cx);
        }
    }

    /// Has a route that is set up here send nothing, or send again.
    fn hold(
        &mut self,
        route: RouteId,
        is_held: bool,
        (slot, channel): (ConnectionSlot, ChannelNumber),
        cx: &mut LinkContext<'_>,
    ) {
        let push = self.routes.get_mut(route).and_then(|route| route.push.as_mut());
        let Some(push) = push.filter(|push| push.is_done() && push.is_held != is_held) else { return };
        push.is_held = is_held;
        if !is_held && self.routes.get(route).is_some_and(|route| route.left.is_exhausted()) {
            return;
        }
        let flow = channel::Flow { active: !is_held };
        if let Err(refusal) = cx.broker.command(slot, channel, flow.into(), cx.effects) {
            self.on_refusal(slot, channel, &refusal.text, cx);
        }
    }

    /// A route has ended its search, and sends as many messages as before when no other one searches.
    #[cold]
    pub fn end_search(&mut self, slot: ConnectionSlot, channel: ChannelNumber, cx: &mut LinkContext<'_>) {
        // First of all it stops, if it is the turn of another one.
        self.update_holds(cx);
        let left = self.session.routes.on_channel(channel).map(|route| self.routes.entry(route).left);
        let limit = left.and_then(|left| left.in_flight_max()).unwrap_or(0);
        if let Err(refusal) = end_probe(limit, slot, channel, cx) {
            self.on_refusal(slot, channel, &refusal.text, cx);
        }
    }

    /// Ends searches whose messages have left their queues in another way. To be called from time to time.
    pub fn check_searches(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let all: Vec<_> = self.session.routes.iter().map(|(route, _)| route).collect();
        for route in all {
            let Some(channel) = self.session.routes.channel(route) else { continue };
            let Some(LocalRoute { probe, push: Some(push), .. }) = self.routes.get_mut(route) else { continue };
            let in_flight = cx.broker.in_flight(slot, channel);
            if push.is_done() && !push.is_held && probe.take_if(|probe| probe.is_exhausted(in_flight)).is_some() {
                self.end_search(slot, channel, cx);
            }
        }
        self.update_holds(cx);
    }
}
