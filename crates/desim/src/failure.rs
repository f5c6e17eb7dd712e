//! Brokers that go and come back, and what becomes of the connections.
//!
//! Enters: who goes, and when.  Leaves: queues that are lost or wait, connections that stand again.
//! Owns:   when who dials whom again.
//! Never:  keeps what a broker held: messages are in memory.
//!
//! With a broker goes what it had not handed on, and what was on its way from it. The broker above notices at once; with
//! confirms it keeps what was under way and all that comes later, without it forgets both. Those below dial again with waits
//! that double, as the real ones do; consumers do the same, and the publisher, who keeps what is due.

use crate::edge::Below;
use crate::engine::{Engine, Event};
use crate::limits::{BACK_OFF_NS_MAX, BACK_OFF_NS_MIN, RETURN_NS};
use crate::scenario::Ack;

impl Engine<'_> {
    pub fn fails(&mut self, number: u32) {
        let now_ns = self.calendar.now_ns();
        let failure = self.scenario.failures[number as usize];
        let broker = failure.broker;
        let host = &mut self.hosts[broker as usize];
        (host.is_up, host.gone_ns) = (false, now_ns);
        host.epoch += 1;
        host.inbox.clear();
        (host.full, host.stale) = (0, 0);
        if host.is_busy {
            host.busy_ns -= host.until_ns - now_ns;
        }
        if host.link.is_busy {
            host.link.busy_ns -= host.link.until_ns - now_ns;
        }
        (host.is_busy, host.link.is_busy) = (false, false);
        host.link.turns.clear();
        let node = &self.grove.nodes()[broker as usize];
        for edge in node.below.clone().chain(self.to_consumers[broker as usize].clone()) {
            let edge = &mut self.edges[edge as usize];
            edge.is_full = false;
            edge.break_off(false, now_ns);
            match edge.below {
                // It goes on with what it has.
                Below::Broker(below) => {
                    let host = &mut self.hosts[below as usize];
                    let worked_on = if host.is_busy && self.scenario.ack == Ack::Confirm { host.batch } else { 0 };
                    host.stale = host.inbox.len() + u64::from(worked_on);
                }
                Below::Consumers(taker) => self.takers[taker as usize].inbox.clear(),
            }
        }
        // The publisher keeps what it has not sent, a broker above what is to be confirmed.
        let keeps = match node.above {
            None => true,
            Some(above) => self.scenario.ack == Ack::Confirm && self.hosts[above as usize].is_up,
        };
        self.edges[broker as usize].break_off(keeps, now_ns);
        self.drained(broker);
        self.filled(broker);
        if let Some(away_ns) = failure.away_ns {
            self.calendar.at(now_ns + away_ns, Event::Returns { broker });
        }
    }

    pub fn returns(&mut self, broker: u32) {
        let now_ns = self.calendar.now_ns();
        self.hosts[broker as usize].is_up = true;
        let gone_ns = self.hosts[broker as usize].gone_ns;
        let node = &self.grove.nodes()[broker as usize];
        let above_ns = match node.above {
            None => Some(self.dials_again(gone_ns, now_ns)),
            // It dials at once, and takes nothing before those below had time to ask for what they want.
            Some(above) if self.hosts[above as usize].is_up => {
                Some(now_ns + if self.scenario.ack == Ack::Confirm { RETURN_NS } else { 0 })
            }
            Some(_) => None,
        };
        if let Some(at_ns) = above_ns {
            self.calendar.at(at_ns, Event::Stands { edge: broker, epoch: self.edges[broker as usize].epoch });
        }
        for edge in node.below.clone().filter(|child| self.hosts[*child as usize].is_up).collect::<Vec<_>>() {
            self.dial(edge, gone_ns, now_ns);
        }
        for edge in self.to_consumers[broker as usize].clone() {
            self.dial(edge, gone_ns, now_ns);
        }
    }

    fn dial(&mut self, edge: u32, gone_ns: u64, back_ns: u64) {
        let at_ns = self.dials_again(gone_ns, back_ns);
        self.calendar.at(at_ns, Event::Stands { edge, epoch: self.edges[edge as usize].epoch });
    }

    /// The first try after a broker was back, of one that has tried since it went: each wait is between half and all of what
    /// doubles.
    fn dials_again(&mut self, gone_ns: u64, back_ns: u64) -> u64 {
        let (mut at_ns, mut whole_ns) = (gone_ns, BACK_OFF_NS_MIN);
        loop {
            at_ns += whole_ns / 2 + self.chance.below(whole_ns / 2 + 1);
            if at_ns >= back_ns {
                return at_ns;
            }
            whole_ns = (whole_ns * 2).min(BACK_OFF_NS_MAX);
        }
    }

    pub fn stands(&mut self, number: u32, epoch: u32) {
        let edge = &self.edges[number as usize];
        let is_up = |broker: Option<u32>| broker.is_none_or(|broker| self.hosts[broker as usize].is_up);
        let below = match edge.below {
            Below::Broker(broker) => Some(broker),
            Below::Consumers(_) => None,
        };
        if edge.epoch != epoch || !is_up(edge.above) || !is_up(below) {
            return;
        }
        let edge = &mut self.edges[number as usize];
        (edge.is_up, edge.collects) = (true, true);
        self.pump(number);
    }
}
