//! Federation on a shard: what an operator orders of it, and what flows on routes.
//!
//! Enters: orders of the operator, what became of dials, messages and settlements of other brokers.  Leaves: publishes and
//! settlements for the broker core.
//! Owns:   which message goes on, and which has been here.
//! Never:  dials by itself: whoever runs the shard asks for what is to be dialled.

use crate::desk::Desk;
use crate::household::Household;
use crate::serve::Next;
use crate::shard::Shard;
use crate::stamped::enter;
use crate::tie::{Stage, Tie};
use crate::ties::{Dial, DialError, Dialled, Ties};
use broker::{BodyRef, Broker, ReadControl, Publish, ConnectionSlot};
use federation::limits::RETURN_WAIT;
use federation::{Ack, Direction, LinkKey, LinkSpec, Order, Peering, RouteSpec, Verdict};
use link::Abort;
use session::{Body, Event};
use std::time::Instant;
use wire::Method;
use wire::method::basic;

/// An event of another broker: what flows on routes is done at once, all else is for the peering.
#[inline]
pub(crate) fn hear(
    ties: &mut Ties,
    number: u32,
    slot: ConnectionSlot,
    event: Event<'_>,
    broker: &mut Broker,
    desk: &mut Desk,
    household: &Household,
) -> Next {
    let Some(tie) = ties.get(number) else { return Next::Leave };
    match event {
        Event::Deliver { channel, delivery_tag, redelivered, routing_key, properties, body, .. } => {
            let Some(number) = tie.peering.route_of(channel) else { return Next::Go };
            let Tie { routes, peering, spec: link, .. } = tie;
            let vhost = &*link.key.vhost;
            let (Some(route), Some(spec)) = (routes.get_mut(number), peering.spec(number)) else { return Next::Go };
            let Some(tracer) = &mut route.tracer else { return Next::Go };
            let mut verdict = tracer.take(properties, redelivered);
            if let Some(stamp) = tracer.stamp()
                && verdict == Verdict::On
                && !enter(
                    household,
                    desk,
                    slot,
                    channel,
                    (spec.ack == Ack::Confirm).then_some(delivery_tag),
                    stamp.at(vhost, spec.exchange.as_bytes()),
                )
            {
                verdict = Verdict::Over;
            }
            let body = match &body {
                Body::Small(bytes) => BodyRef::Small(bytes),
                Body::Large(slice) => BodyRef::Large(slice),
            };
            route.bytes += body.len() as u64;
            route.redelivered += u64::from(redelivered);
            let published = match verdict {
                Verdict::On => {
                    route.messages += 1;
                    let (exchange, properties) = (spec.exchange.as_bytes(), tracer.properties());
                    let (mandatory, immediate) = (false, false);
                    let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
                    broker.publish(slot, channel, publish, desk)
                }
                // It counts all the same: its number is its delivery tag's.
                Verdict::Over => {
                    route.dropped += 1;
                    broker.publish_duplicate(slot, channel)
                }
            };
            match published {
                Ok(ReadControl::Continue) if delivery_tag.is_multiple_of(route.ack_every) => Next::Acknowledge,
                Ok(ReadControl::Continue) => Next::Go,
                Ok(ReadControl::Pause | ReadControl::Batch) => Next::Wait,
                Err(refusal) => Next::Refuse { channel, refusal, method: basic::Publish::ID },
            }
        }
        Event::Method { channel, method: Method::BasicAck(ack) } => settle(slot, channel, ack.into(), broker, desk),
        Event::Method { channel, method: Method::BasicNack(nack) } => {
            settle(slot, channel, basic::Nack { requeue: true, ..nack }.into(), broker, desk)
        }
        event => Next::Heard(tie.peering.hear(&event)),
    }
}

/// The destination of a pushed route has taken messages, or not.
fn settle(slot: ConnectionSlot, channel: u16, method: Method<'_>, broker: &mut Broker, desk: &mut Desk) -> Next {
    let id = method.id();
    match broker.command(slot, channel, method, desk) {
        Ok(ReadControl::Continue) => Next::Go,
        Ok(ReadControl::Pause | ReadControl::Batch) => Next::Wait,
        Err(refusal) => Next::Refuse { channel, refusal, method: id },
    }
}

/// Why this broker has given up a connection to another one, for who looks at the link.
pub(crate) fn given_up(why: Abort) -> &'static str {
    match why {
        Abort::Silent => "given up: the other broker was silent for two heartbeats",
        Abort::Overdue => "given up: the other broker does not answer as it should in time",
        Abort::Slow => "given up: the other broker does not read",
        other => other.as_str(),
    }
}

impl Shard {
    /// Carries out an order; it makes sense, see `federation::Plan`.
    pub fn federate(&mut self, order: Order, now: Instant) {
        match order {
            Order::AddLink(spec) => {
                if self.ties.find(&spec.key, Direction::Pull).is_none() {
                    self.add_tie(spec, Direction::Pull, now);
                }
            }
            Order::ChangeLink(spec) => {
                for direction in [Direction::Pull, Direction::Push] {
                    if let Some(number) = self.ties.find(&spec.key, direction) {
                        self.change_tie(number, spec.clone(), now);
                    }
                }
            }
            Order::RemoveLink(key) => {
                for direction in [Direction::Pull, Direction::Push] {
                    if let Some(number) = self.ties.find(&key, direction) {
                        self.remove_tie(number, now);
                    }
                }
            }
            Order::AddRoute(key, spec) => self.order_route(&key, spec, false, now),
            Order::ReturnRoute(key, spec) => self.order_route(&key, spec, true, now),
            Order::RemoveRoute(key, spec) => {
                if let Some(number) = self.ties.find(&key, spec.direction) {
                    self.remove_route(number, &spec, now);
                }
            }
        }
        self.ties.plan();
    }

    fn order_route(&mut self, key: &LinkKey, spec: RouteSpec, returns: bool, now: Instant) {
        let Some(link) = self.ties.find(key, Direction::Pull) else { return };
        let number = match self.ties.find(key, spec.direction) {
            Some(number) => number,
            None => {
                let Some(link) = self.ties.get(link).map(|tie| tie.spec.clone()) else { return };
                self.add_tie(link, spec.direction, now)
            }
        };
        self.add_route(number, spec, returns, now);
    }

    fn add_tie(&mut self, spec: LinkSpec, direction: Direction, now: Instant) -> u32 {
        let own =
            federation::Identity { cluster_name: self.options.cluster_name.clone(), vhost: spec.key.vhost.clone() };
        let peering = Peering::new(own, self.tie_limits(None), self.desk.output_bytes_max());
        self.ties.add(Tie::new(spec, direction, peering, now))
    }

    /// The next connection that is wanted. Whoever makes it, or cannot, tells [`dialled`](Self::dialled).
    pub fn next_dial(&mut self) -> Option<Dial> {
        self.ties.dials.pop_front()
    }

    /// What became of a dial. Answers the slot of the connection, whose link is to be registered.
    pub fn dialled(&mut self, dial: &Dial, outcome: Result<Dialled, DialError>, now: Instant) -> Option<ConnectionSlot> {
        let is_awaited =
            self.ties.get(dial.tie).is_some_and(|tie| tie.stage == Stage::Dialling && tie.serial == dial.serial);
        match outcome {
            Ok(mut dialled) if !is_awaited || self.draining => {
                dialled.link.abort(Abort::Shutdown);
                None
            }
            Ok(mut dialled) => {
                if !self.household.add_connection(self.options.shard.0) {
                    dialled.link.abort(Abort::Limit);
                    self.tie_lost(
                        dial.tie,
                        Some("this broker has as many connections as it may".into()),
                        false,
                        false,
                        now,
                    );
                    return None;
                }
                Some(self.tie_up(dial.tie, dialled, now))
            }
            Err(DialError { text, is_refusal }) => {
                if is_awaited {
                    self.tie_lost(dial.tie, Some(text), is_refusal, false, now);
                }
                None
            }
        }
    }

    fn add_route(&mut self, number: u32, spec: RouteSpec, returns: bool, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        if tie.peering.find_route(&spec).is_some() {
            return;
        }
        let route = tie.peering.add_route(spec, returns);
        if returns {
            tie.waits_until = Some(now + RETURN_WAIT);
        }
        *tie.route(route) = Default::default();
        match tie.stage {
            Stage::Idle => tie.stage = Stage::Waiting { until: now, refused: false },
            Stage::Connected { slot } if tie.peering.is_open() => self.begin_route(number, route, slot, now),
            _ => {}
        }
    }

    fn remove_route(&mut self, number: u32, spec: &RouteSpec, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        let Some(route) = tie.peering.find_route(spec) else { return };
        let slot = match tie.stage {
            Stage::Connected { slot } => Some(slot),
            _ => None,
        };
        if let Some(watch) = self.ties.get(number).and_then(|tie| tie.route(route).watch.take()) {
            self.broker.catalog_mut().unwatch_bindings(watch);
        }
        let left = self.left_of_push(number, route);
        if let Some(slot) = slot {
            // What is safe here does not come again.
            self.desk.acknowledge(slot, None);
        }
        let Some(tie) = self.ties.get(number) else { return };
        let mut channel = None;
        if let Some(slot) = slot
            && let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && let Some((out, pool)) = self.desk.writer(slot)
        {
            channel = tie.peering.remove_route(route, Some((&mut connection.inbound, out, pool)));
        } else {
            tie.peering.remove_route(route, None);
        }
        *tie.route(route) = Default::default();
        if let (Some(slot), Some(channel)) = (slot, channel) {
            self.close_here(slot, channel);
        }
        if let Some((vhost, queue)) = left {
            self.broker.delete_queue(vhost, &queue, &mut self.desk);
        }
        match (slot, self.ties.get(number)) {
            (Some(slot), Some(_)) => self.end_empty(number, slot, now),
            (None, Some(tie)) if tie.peering.routes().next().is_none() && tie.stage != Stage::Dialling => {
                tie.stage = Stage::Idle;
            }
            _ => {}
        }
    }

    /// Another login: what waits for routes at either end goes on waiting.
    fn change_tie(&mut self, number: u32, spec: LinkSpec, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        tie.spec = spec;
        match tie.stage {
            Stage::Idle => {}
            Stage::Waiting { .. } => tie.stage = Stage::Waiting { until: now, refused: false },
            // What comes of the dial under way is not awaited any more.
            Stage::Dialling => self.ties.dial(number),
            Stage::Connected { slot } => self.dial_anew(number, slot, "it has another login", now),
        }
    }

    fn remove_tie(&mut self, number: u32, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        tie.leaves = true;
        let routes: Vec<_> = tie.peering.routes().map(|(_, spec)| spec.clone()).collect();
        for spec in routes {
            self.remove_route(number, &spec, now);
        }
        // One that is connected goes with its connection, which ends when what its routes had here is gone.
        if self.ties.get(number).is_some_and(|tie| !matches!(tie.stage, Stage::Connected { .. }) && !tie.ending) {
            self.ties.remove(number);
        }
    }
}
