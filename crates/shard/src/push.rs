//! Pushed routes: this broker is the source, and its own queue for the route is consumed on the channel that publishes there.
//!
//! Enters: a route whose exchange was found at the destination.  Leaves: a queue, an internal exchange and a consumer here.
//! Owns:   the order in which they are made, each a command of the link's session in the core.
//! Never:  writes an answer of the core to the destination: every command is one that nobody waits for.

use crate::pushed::Pushed;
use crate::shard::Shard;
use crate::tie::Tie;
use broker::{ReadControl, ConnectionSlot};
use catalog::{Refusal, VhostId};
use federation::{Ack, Direction, RouteKind, RouteSpec, Tracer, push_definitions};
use std::time::Instant;
use wire::method::{Method, basic};
use wire::{ShortStr, TableRef};

/// Steps of the side here: definitions first, then these.
pub(crate) const BEGUN: u8 = 1;
const QOS: u8 = 128;
const CONSUME: u8 = 129;
const MADE: u8 = 130;

impl Shard {
    /// Makes the side here of a pushed route, as far as it can be made without waiting.
    pub(crate) fn make_push(&mut self, number: u32, route: usize, slot: ConnectionSlot, now: Instant) {
        loop {
            let Some(tie) = self.ties.get(number) else { return };
            let (Some(spec), Some(channel)) = (tie.peering.spec(route).cloned(), tie.peering.channel(route)) else {
                return;
            };
            let Some(peer) = tie.peering.peer().cloned() else { return };
            let own = tie.peering.own().clone();
            let made = tie.route(route).made;
            if made == MADE {
                return self.here_is_made(number, route, slot);
            }
            if !self.broker.may_read(slot) {
                // An answer is awaited; its arrival brings this connection's turn.
                if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                    connection.unparsed = true;
                }
                return;
            }
            let definitions = push_definitions(&spec, &peer);
            let queue = definitions.queue.clone();
            let (next, outcome) = match made {
                QOS => (CONSUME, self.push_qos(slot, channel, &spec)),
                CONSUME => {
                    let uri = format!("federation of {}", own.cluster_name);
                    let tracer = Tracer::new(peer, &own, &uri, &spec.exchange, spec.hops_max);
                    let tracer = tracer.of_queue(matches!(spec.kind, RouteKind::Queue { .. }));
                    if let Some(out) = self.desk.outlet(slot).and_then(|outlet| outlet.tie.as_mut()) {
                        out.push(channel, Some(Pushed::new(&spec.exchange, tracer)));
                    }
                    (MADE, self.push_consume(slot, channel, &spec, &queue))
                }
                step => match definitions.method(step - BEGUN) {
                    Some(method) => (step + 1, self.broker.command(slot, channel, method, &mut self.desk)),
                    None => (QOS, Ok(ReadControl::Continue)),
                },
            };
            match outcome {
                Ok(ReadControl::Batch) => self.broker.flush_definitions(slot, &mut self.desk),
                Ok(ReadControl::Continue | ReadControl::Pause) => {}
                Err(refusal) => return self.route_refused(slot, channel, &refusal.text, now),
            }
            if let Some(tie) = self.ties.get(number) {
                tie.route(route).made = next;
            }
        }
    }

    fn push_qos(&mut self, slot: ConnectionSlot, channel: u16, spec: &RouteSpec) -> Result<ReadControl, Refusal> {
        if spec.ack == Ack::None || spec.credit == 0 {
            return Ok(ReadControl::Continue);
        }
        let qos = basic::Qos { prefetch_size: 0, prefetch_count: spec.credit, global: false };
        self.broker.command(slot, channel, qos.into(), &mut self.desk)
    }

    fn push_consume(&mut self, slot: ConnectionSlot, channel: u16, spec: &RouteSpec, queue: &[u8]) -> Result<ReadControl, Refusal> {
        let consume = basic::Consume {
            queue: ShortStr::new(queue).unwrap_or(ShortStr::EMPTY),
            consumer_tag: ShortStr::literal("federation"),
            no_local: false,
            no_ack: spec.ack == Ack::None,
            exclusive: false,
            no_wait: true,
            arguments: TableRef::EMPTY,
        };
        self.broker.command(slot, channel, Method::from(consume), &mut self.desk)
    }

    /// Goes on with routes whose side here waited for an answer.
    pub(crate) fn go_on_here(&mut self, number: u32, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        let waits =
            |tie: &Tie, route: usize| tie.routes.get(route).is_some_and(|here| (BEGUN..MADE).contains(&here.made));
        let routes: Vec<_> = tie.peering.routes().map(|(route, _)| route).filter(|route| waits(tie, *route)).collect();
        for route in routes {
            self.make_push(number, route, slot, now);
        }
    }

    /// What a pushed route that is removed leaves here, connected or not: its queue. The internal exchange goes with that.
    pub(crate) fn left_of_push(&mut self, number: u32, route: usize) -> Option<(VhostId, Box<[u8]>)> {
        let tie = self.ties.get(number)?;
        let (spec, peer) = (tie.peering.spec(route)?, tie.peering.peer()?);
        if spec.direction != Direction::Push || matches!(spec.kind, RouteKind::Queue { .. }) {
            return None;
        }
        let queue = push_definitions(spec, peer).queue;
        Some((self.vhost_of_tie(number)?, queue))
    }

    /// Ends a connection that carries nothing any more.
    pub(crate) fn end_empty(&mut self, number: u32, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        if tie.peering.is_open() && tie.peering.routes().next().is_none() {
            self.end_tie(number, slot, "it has no routes", false, now);
        }
    }
}
