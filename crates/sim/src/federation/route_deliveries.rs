//! Checks of deliveries in a federation: once, in order, by paths that exist, and flagged when they are repeated.
//!
//! Messages that were not delivered are found at the next rest.

use super::expectations::{Expectations, ExpectedRoute};
use super::route_actions::NUMBER_BYTES;
use super::topology::FederationSettings;
use crate::client_connection::{ClientEvent, ReceivedMessage};
use crate::simulated_client::{ClientChannel, ConnectionState};
use crate::world::SimulatedWorld;
use catalog::trace;
use wire::method::basic;
use wire::{DeliveryTag, RawProperties, ValueRef};

/// The path of a message: the brokers that it has passed, the last one first, and whether one of them had sent it before.
fn path_of(properties: &[u8]) -> Option<(Vec<usize>, bool)> {
    let (mut path, mut again) = (Vec::new(), false);
    for hop in trace(RawProperties::new(properties)).iter().flat_map(|trace| trace.iter()) {
        let ValueRef::Table(hop) = hop.ok()? else { return None };
        let name = String::from_utf8(hop.get("cluster-name")?.as_bytes()?.to_vec()).ok()?;
        path.push(name.strip_prefix('b')?.parse().ok()?);
        again |= matches!(hop.get("redelivered")?, ValueRef::Bool(true));
    }
    Some((path, again))
}

/// Handles the events of clients, and compares deliveries with the expectations.
pub struct FederationEventHandler<'a> {
    pub world: &'a mut SimulatedWorld,
    pub expectations: &'a mut Expectations,
    pub settings: &'a FederationSettings,
}

impl FederationEventHandler<'_> {
    /// A client receives something.
    pub fn on_event(&mut self, client: usize, event: ClientEvent) {
        let one = &mut self.world.clients[client];
        let broker = one.broker;
        let is_closing = one.state == ConnectionState::Closing;
        match event {
            ClientEvent::Opened => {
                if let Some(number) = one.connection.open_channel(&self.world.memory.pool) {
                    one.channels.push(ClientChannel::new(number, one.uid));
                }
            }
            ClientEvent::ChannelOpened(_) | ClientEvent::Reply(..) => {}
            ClientEvent::Confirm(_, tag, multiple, true) => match one.channels[0].confirm(tag, multiple) {
                Ok(messages) => self.world.tally.confirmed += messages.len() as u64,
                Err(violation) => self.world.trace.fail(violation),
            },
            ClientEvent::Deliver(_, tag, message) => {
                self.world.tally.delivered += 1;
                if let Some(violation) = self.violation(broker, &tag, &message) {
                    self.world.trace.fail(violation);
                }
                if self.world.settings.faults.client_cuts {
                    self.world.send(client, 0, basic::Ack { delivery_tag: DeliveryTag(message.tag), multiple: false });
                }
            }
            ClientEvent::Blocked | ClientEvent::Unblocked => {}
            ClientEvent::CancelledByBroker(..) | ClientEvent::Over if is_closing => {}
            other => self.world.trace.fail(format!("at b{broker}: a client received {other:?}")),
        }
    }

    /// What is wrong with a delivery. `tag`: the tag of the consumer, which is the number of its queue.
    fn violation(&mut self, broker: usize, tag: &str, message: &ReceivedMessage) -> Option<String> {
        let Some(at) = tag.parse().ok().filter(|at: &usize| *at < self.expectations.queues.len()) else {
            return Some(format!("a delivery for {tag}"));
        };
        let number =
            message.body.first_chunk::<NUMBER_BYTES>().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or_default();
        let name = self.expectations.queues[at].name.clone();
        let Some((path, passed_again)) = path_of(&message.properties) else {
            return Some(format!("message {number} has a path that cannot be read"));
        };
        let again = passed_again || message.redelivered;
        let flag = if again { ", again" } else { "" };
        self.world.trace.note(|| format!("message {number} is delivered to {name} at b{broker}, by {path:?}{flag}"));
        let what = format!("message {number} is delivered to {name} at b{broker} by {path:?}");
        let Some(sent) = self.expectations.message(number) else {
            return Some(format!("{what}, after a rest"));
        };
        if message.body[NUMBER_BYTES..].iter().any(|&byte| byte != number as u8) {
            return Some(format!("{what}, changed"));
        }
        if message.routing_key != sent.key.as_bytes() || message.exchange != format!("x{}", sent.exchange).as_bytes() {
            return Some(format!("{what}, with another exchange or key"));
        }
        if !self.expectations.may_deliver(sent, &self.expectations.queues[at]) {
            return Some(format!("{what}, which is not bound by {}", sent.key));
        }
        if path.last().unwrap_or(&broker) != &sent.at {
            return Some(format!("{what}, published at b{}", sent.at));
        }
        // From its first broker to this one.
        let whole: Vec<_> = path.iter().rev().copied().chain([broker]).collect();
        if (1..whole.len()).any(|n| whole[..n].contains(&whole[n])) || path.len() > usize::from(self.settings.hops_max)
        {
            return Some(format!("{what}: it passed a cycle, or too many brokers"));
        }
        for pair in whole.windows(2) {
            let is = |route: &&ExpectedRoute| {
                let route = &route.settings;
                route.source == pair[0] && route.destination == pair[1] && route.exchange == sent.exchange
            };
            if !self.expectations.routes.iter().any(|route| is(&route)) {
                return Some(format!("{what}: there is no such route"));
            }
        }
        if passed_again && !self.expectations.disturbed {
            return Some(format!("{what}, flagged as redelivered, and nothing was cut"));
        }
        if message.redelivered && self.expectations.queues[at].cut != self.expectations.period {
            return Some(format!("{what}, flagged as redelivered, and its client stayed"));
        }
        let (publisher, exchange) = (sent.publisher, sent.exchange);
        self.world.tally.crossed += u64::from(!path.is_empty());
        let (tree, calm) = (self.settings.is_tree(), self.expectations.calm);
        let is_windowed = self.settings.forced && self.expectations.is_undisturbed();
        // Messages that a source gave to a connection that became silent arrive behind those of the next connection.
        let is_held = self.world.settings.faults.silences && !self.expectations.is_undisturbed();
        let queue = &mut self.expectations.queues[at];
        let times = queue.deliveries.entry(number).or_default();
        *times += 1;
        if *times > 1 {
            self.world.tally.redelivered += 1;
            if !message.redelivered && (path.is_empty() || is_windowed || (tree && (calm || !again))) {
                return Some(format!(
                    "{what} for the {times}. time{}",
                    if calm || is_windowed { ", and nothing was cut" } else { ", unflagged" }
                ));
            }
            return None;
        }
        // Messages are in order on each path, whichever connection they take: a connection that is cut loses what was under
        // path, and one that ended is over before the next begins (docs/operations/federation.md). A redelivered message may be
        // late.
        let in_order = (tree || calm) && !is_held;
        let last = queue.last.entry((publisher, exchange, path)).or_default();
        if *last > number && in_order && !again {
            return Some(format!("{what} behind {last} of the same publisher"));
        }
        *last = (*last).max(number);
        None
    }
}
