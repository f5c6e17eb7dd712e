//! What clients hear, held against the book.
//!
//! Enters: deliveries, confirms.  Leaves: broken promises.
//! Owns:   once, in order, by ways that exist, flagged when it came again.
//! Never:  waits for what has not come: that is looked at when nothing moves.

use crate::client::{Came, Heard};
use crate::federation::Run;
use crate::federation::deeds::NUMBER_BYTES;
use catalog::trace;
use std::hash::{DefaultHasher, Hash, Hasher};
use wire::method::basic;
use wire::{RawProperties, ValueRef};

/// The way of a message: the brokers that it was in before, the last one first, and whether one of them had sent it before.
fn way(properties: &[u8]) -> Option<(Vec<usize>, bool)> {
    let (mut way, mut again) = (Vec::new(), false);
    for hop in trace(RawProperties::new(properties)).iter().flat_map(|trace| trace.iter()) {
        let ValueRef::Table(hop) = hop.ok()? else { return None };
        let name = String::from_utf8(hop.get("cluster-name")?.as_bytes()?.to_vec()).ok()?;
        way.push(name.strip_prefix('b')?.parse().ok()?);
        again |= matches!(hop.get("redelivered")?, ValueRef::Bool(true));
    }
    Some((way, again))
}

impl Run {
    /// The clients of a broker read and send.
    pub(super) fn pump(&mut self, place: usize) -> bool {
        let mut moved = false;
        for tells in [false, true] {
            let free = if tells { &mut self.places[place].teller } else { &mut self.places[place].taker };
            let Some(seat) = free else { continue };
            let (mut heard, mut came, mut wrong) = (Vec::new(), Vec::new(), None);
            moved |= seat.client.pump(&self.pool, &mut self.scratch, self.now, &mut heard);
            for one in heard {
                let mut hasher = DefaultHasher::new();
                (self.tally.digest, place, &one).hash(&mut hasher);
                self.tally.digest = hasher.finish();
                match seat.hear(one, &self.pool) {
                    Ok(Some(Heard::Deliver(_, tag, message))) => came.push((tag, message)),
                    Ok(_) => {}
                    Err(what) => wrong = Some(what),
                }
            }
            if let Some(what) = wrong {
                self.broken(format!("at b{place}: {what}"));
            }
            for (tag, message) in came {
                if let Some(what) = self.take(place, &tag, &message) {
                    self.broken(what);
                }
                if self.setting.client_cuts {
                    self.say(place, false, basic::Ack { delivery_tag: message.tag, multiple: false });
                }
            }
        }
        moved
    }

    /// A message comes. Answers what is wrong with it.
    fn take(&mut self, place: usize, tag: &str, came: &Came) -> Option<String> {
        self.tally.delivered += 1;
        let Some(at) = tag.parse().ok().filter(|at: &usize| *at < self.book.boxes.len()) else {
            return Some(format!("a delivery for {tag}"));
        };
        let number =
            came.body.first_chunk::<NUMBER_BYTES>().map(|bytes| u64::from_le_bytes(*bytes)).unwrap_or_default();
        let name = self.book.boxes[at].name.clone();
        let Some((way, passed_again)) = way(&came.properties) else {
            return Some(format!("message {number} has a trace that cannot be read"));
        };
        let again = passed_again || came.redelivered;
        self.note(|_| {
            format!("message {number} comes to {name} at b{place}, by {way:?}{}", if again { ", again" } else { "" })
        });
        let what = format!("message {number} comes to {name} at b{place} by {way:?}");
        let Some(sent) = self.book.message(number) else {
            return Some(format!("{what}, after a rest"));
        };
        if came.body[NUMBER_BYTES..].iter().any(|&byte| byte != number as u8) {
            return Some(format!("{what}, changed"));
        }
        if came.routing_key != sent.key.as_bytes() || came.exchange != format!("x{}", sent.exchange).as_bytes() {
            return Some(format!("{what}, with another exchange or key"));
        }
        if !self.book.may(sent, &self.book.boxes[at]) {
            return Some(format!("{what}, which is not bound by {}", sent.key));
        }
        if way.last().unwrap_or(&place) != &sent.at {
            return Some(format!("{what}, published at b{}", sent.at));
        }
        // From there to here.
        let whole: Vec<_> = way.iter().rev().copied().chain([place]).collect();
        if (1..whole.len()).any(|n| whole[..n].contains(&whole[n])) || way.len() > usize::from(self.setting.hops_max) {
            return Some(format!("{what}: it went in a circle, or too far"));
        }
        for pair in whole.windows(2) {
            let is = |route: &&super::book::Route| {
                let edge = &route.edge;
                edge.source == pair[0] && edge.destination == pair[1] && edge.exchange == sent.exchange
            };
            if !self.book.routes.iter().any(|route| is(&route)) {
                return Some(format!("{what}: there is no such route"));
            }
        }
        if passed_again && !self.book.disturbed {
            return Some(format!("{what}, flagged as redelivered, and nothing was cut"));
        }
        if came.redelivered && self.book.boxes[at].cut != self.book.period {
            return Some(format!("{what}, flagged as redelivered, and its client stayed"));
        }
        let (publisher, exchange) = (sent.publisher, sent.exchange);
        self.tally.crossed += u64::from(!way.is_empty());
        let (tree, calm) = (self.setting.is_tree(), self.book.calm);
        let is_windowed = self.setting.forced && self.book.is_undisturbed();
        // What a source had given to a connection that fell silent, sent or not, is behind what the next one brings.
        let is_held = self.setting.silences && !self.book.is_undisturbed();
        let queue = &mut self.book.boxes[at];
        let times = queue.came.entry(number).or_default();
        *times += 1;
        if *times > 1 {
            self.tally.again += 1;
            if !came.redelivered && (way.is_empty() || is_windowed || (tree && (calm || !again))) {
                return Some(format!(
                    "{what} for the {times}. time{}",
                    if calm || is_windowed { ", and nothing was cut" } else { ", unflagged" }
                ));
            }
            return None;
        }
        // What comes by several ways is in order on each, on whichever connection: a broken one loses what was on its way, and an
        // ended one is over before the next begins (docs/operations/federation.md). What comes again may be late. What was sent before comes to queues that were not bound then.
        let in_order = (tree || calm) && !is_held;
        let last = queue.last.entry((publisher, exchange, way)).or_default();
        if *last > number && in_order && !again {
            return Some(format!("{what} behind {last} of the same publisher"));
        }
        *last = (*last).max(number);
        None
    }
}
