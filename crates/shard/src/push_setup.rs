//! The setup of a pushed route at its source, which is this broker: a queue, an internal exchange, and a consumer on the
//! channel that publishes at the other end.
//!
//! Owns:   the order of the commands. None of them is answered to the link, whose peer expects publishes alone.

use crate::link_context::LinkContext;
use crate::link_output::PushRoute;
use crate::push_probe::limit_in_flight;
use crate::route_end::MessagesLeft;
use broker::{ConnectionSlot, ReadControl};
use catalog::Refusal;
use federation::{AckMode, LinkSession, LocalSetup, RouteId, RouteKind, RouteSpec, Tracer};
use wire::method::{Method, basic, channel};
use wire::{ChannelNumber, ShortStr, TableRef};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PushStep {
    /// The n-th definition is next.
    Define(u8),
    Qos,
    /// One message at a time, where one is searched for that the destination refuses.
    Limit,
    /// None, where another route searches.
    Hold,
    Consume,
    Done,
}

/// What a call of [`PushSetup::advance`] came to.
#[derive(Debug)]
pub(crate) enum PushProgress {
    Done,
    /// The broker core answers later; the connection gets its turn then.
    Waiting,
    Refused {
        channel: ChannelNumber,
        refusal: Refusal,
    },
    /// The route or the other broker is not known any more.
    Gone,
}

/// How far a pushed route is set up here.
pub(crate) struct PushSetup {
    step: PushStep,
    /// It sends nothing for now, because another route searches for a message that the destination refuses, or is about to.
    pub is_held: bool,
}

impl PushSetup {
    pub fn new(is_held: bool) -> Self {
        PushSetup { step: PushStep::Define(0), is_held }
    }

    pub fn is_done(&self) -> bool {
        self.step == PushStep::Done
    }

    /// Carries out as many steps as can be without waiting.
    pub fn advance(
        &mut self,
        session: &LinkSession,
        route: RouteId,
        slot: ConnectionSlot,
        (link, is_probing, left): (&str, bool, MessagesLeft),
        cx: &mut LinkContext<'_>,
    ) -> PushProgress {
        let routes = &session.routes;
        let (Some(spec), Some(channel)) = (routes.spec(route), routes.channel(route)) else {
            return PushProgress::Gone;
        };
        let Some(peer) = session.peer() else { return PushProgress::Gone };
        let setup = LocalSetup::new(spec, peer);
        while !self.is_done() {
            if !cx.broker.may_read(slot) {
                // An answer is awaited; its arrival brings this connection's turn.
                if let Some(connection) = cx.connections.get_mut(slot) {
                    connection.has_unparsed = true;
                }
                return PushProgress::Waiting;
            }
            let (next_step, outcome) = match self.step {
                PushStep::Define(number) => match setup.method(number) {
                    Some(method) => {
                        (PushStep::Define(number + 1), cx.broker.command(slot, channel, method, cx.effects))
                    }
                    None => (PushStep::Qos, Ok(ReadControl::Continue)),
                },
                PushStep::Qos => (PushStep::Limit, set_qos(slot, channel, spec, cx)),
                PushStep::Limit if is_probing => (PushStep::Hold, limit_in_flight(1, slot, channel, cx)),
                PushStep::Limit => {
                    let limited = left.in_flight_max().filter(|limit| *limit > 0);
                    let limited = limited.map(|limit| limit_in_flight(limit, slot, channel, cx));
                    (PushStep::Hold, limited.unwrap_or(Ok(ReadControl::Continue)))
                }
                PushStep::Hold if self.is_held || left.is_exhausted() => {
                    let flow = channel::Flow { active: false };
                    (PushStep::Consume, cx.broker.command(slot, channel, flow.into(), cx.effects))
                }
                PushStep::Hold => (PushStep::Consume, Ok(ReadControl::Continue)),
                PushStep::Consume => {
                    let own = session.own();
                    let uri = format!("federation of {}", own.cluster_name);
                    let tracer = Tracer::new(peer.clone(), own, &uri, spec.source_exchange(), spec.hops_max);
                    let tracer = match &spec.options.shovel {
                        Some(shovel) => tracer.of_shovel(shovel.forward_header.as_ref()),
                        None => tracer.of_queue(matches!(spec.kind, RouteKind::Queue { .. })),
                    };
                    let tracer = tracer.within(cx.properties_bytes_max(slot));
                    if let Some(output) = cx.link_output(slot) {
                        output.set_push_route(channel, Some(PushRoute::new(spec, link, tracer)));
                        output.set_probing(channel, is_probing);
                        if left.has_end() {
                            output.set_ending(channel);
                        }
                    }
                    (PushStep::Done, consume(slot, channel, spec, &setup.queue, cx))
                }
                PushStep::Done => break,
            };
            match outcome {
                Ok(ReadControl::Batch) => cx.broker.flush_definitions(slot, cx.effects),
                Ok(ReadControl::Continue | ReadControl::Pause) => {}
                Err(refusal) => return PushProgress::Refused { channel, refusal },
            }
            self.step = next_step;
        }
        PushProgress::Done
    }
}

fn set_qos(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    spec: &RouteSpec,
    cx: &mut LinkContext<'_>,
) -> Result<ReadControl, Refusal> {
    if spec.ack == AckMode::None || spec.credit == 0 {
        return Ok(ReadControl::Continue);
    }
    let qos = basic::Qos { prefetch_size: 0, prefetch_count: spec.credit, global: false };
    cx.broker.command(slot, channel, qos.into(), cx.effects)
}

fn consume(
    slot: ConnectionSlot,
    channel: ChannelNumber,
    spec: &RouteSpec,
    queue: &[u8],
    cx: &mut LinkContext<'_>,
) -> Result<ReadControl, Refusal> {
    let consume = basic::Consume {
        queue: ShortStr::new(queue).unwrap_or(ShortStr::EMPTY),
        consumer_tag: ShortStr::literal("federation"),
        no_local: false,
        no_ack: spec.ack == AckMode::None,
        exclusive: false,
        no_wait: true,
        arguments: TableRef::EMPTY,
    };
    cx.broker.command(slot, channel, Method::from(consume), cx.effects)
}
