//! Broker failures and recoveries, and what becomes of the connections.
//!
//! A failed broker loses what it has not forwarded and what was in flight from it; messages are kept in memory only.
//! The broker above notices at once: with confirms it keeps everything in flight and everything that arrives later,
//! without confirms it drops both. Brokers below, consumers and the publisher reconnect with exponential back-off, as
//! the real ones do; the publisher keeps what is due.

use crate::edge::EdgeTarget;
use crate::limits::{BACK_OFF_NS_MAX, BACK_OFF_NS_MIN, RETURN_NS};
use crate::scenario::AckMode;
use crate::simulation::{Simulation, SimulationEvent};

impl Simulation<'_> {
    pub fn on_broker_fails(&mut self, number: u32) {
        let now_ns = self.calendar.now_ns();
        let failure = self.scenario.failures[number as usize];
        let broker = failure.broker;
        let host = &mut self.hosts[broker as usize];
        (host.is_up, host.failed_ns) = (false, now_ns);
        host.epoch += 1;
        host.inbox.clear();
        (host.full_queues, host.stale) = (0, 0);
        if host.is_busy {
            host.busy_ns -= host.until_ns - now_ns;
        }
        if host.link.is_busy {
            host.link.busy_ns -= host.link.until_ns - now_ns;
        }
        (host.is_busy, host.link.is_busy) = (false, false);
        host.link.waiting.clear();
        let node = &self.tree.nodes()[broker as usize];
        for edge in node.children.clone().chain(self.to_consumers[broker as usize].clone()) {
            let edge = &mut self.edges[edge as usize];
            edge.is_full = false;
            edge.disconnect(false, now_ns);
            match edge.target {
                // The connection resumes with its retained queue.
                EdgeTarget::Broker(below) => {
                    let host = &mut self.hosts[below as usize];
                    let worked_on = if host.is_busy && self.scenario.ack == AckMode::Confirm { host.batch } else { 0 };
                    host.stale = host.inbox.len() + u64::from(worked_on);
                }
                EdgeTarget::Consumers(group) => self.consumer_groups[group as usize].inbox.clear(),
            }
        }
        // The publisher keeps what it has not sent; a broker above keeps what awaits a confirm.
        let keeps = match node.parent {
            None => true,
            Some(above) => self.scenario.ack == AckMode::Confirm && self.hosts[above as usize].is_up,
        };
        self.edges[broker as usize].disconnect(keeps, now_ns);
        self.on_queue_drained(broker);
        self.on_queue_filled(broker);
        if let Some(away_ns) = failure.away_ns {
            self.calendar.schedule(now_ns + away_ns, SimulationEvent::BrokerReturns { broker });
        }
    }

    pub fn on_broker_returns(&mut self, broker: u32) {
        let now_ns = self.calendar.now_ns();
        self.hosts[broker as usize].is_up = true;
        let gone_ns = self.hosts[broker as usize].failed_ns;
        let node = &self.tree.nodes()[broker as usize];
        let above_ns = match node.parent {
            None => Some(self.reconnect_ns(gone_ns, now_ns)),
            // The broker reconnects at once, but accepts nothing before those below had time to declare their bindings.
            Some(above) if self.hosts[above as usize].is_up => {
                Some(now_ns + if self.scenario.ack == AckMode::Confirm { RETURN_NS } else { 0 })
            }
            Some(_) => None,
        };
        if let Some(at_ns) = above_ns {
            self.calendar.schedule(
                at_ns,
                SimulationEvent::Reconnected { edge: broker, epoch: self.edges[broker as usize].epoch },
            );
        }
        for edge in node.children.clone().filter(|child| self.hosts[*child as usize].is_up).collect::<Vec<_>>() {
            self.schedule_reconnect(edge, gone_ns, now_ns);
        }
        for edge in self.to_consumers[broker as usize].clone() {
            self.schedule_reconnect(edge, gone_ns, now_ns);
        }
    }

    fn schedule_reconnect(&mut self, edge: u32, gone_ns: u64, back_ns: u64) {
        let at_ns = self.reconnect_ns(gone_ns, back_ns);
        self.calendar.schedule(at_ns, SimulationEvent::Reconnected { edge, epoch: self.edges[edge as usize].epoch });
    }

    /// The first attempt after the broker above is back, by a broker that has retried since the failure: each wait is
    /// between half and all of an interval that doubles.
    fn reconnect_ns(&mut self, gone_ns: u64, back_ns: u64) -> u64 {
        let (mut at_ns, mut whole_ns) = (gone_ns, BACK_OFF_NS_MIN);
        loop {
            at_ns += whole_ns / 2 + self.random.below(whole_ns / 2 + 1);
            if at_ns >= back_ns {
                return at_ns;
            }
            whole_ns = (whole_ns * 2).min(BACK_OFF_NS_MAX);
        }
    }

    pub fn on_reconnected(&mut self, number: u32, epoch: u32) {
        let edge = &self.edges[number as usize];
        let is_up = |broker: Option<u32>| broker.is_none_or(|broker| self.hosts[broker as usize].is_up);
        let below = match edge.target {
            EdgeTarget::Broker(broker) => Some(broker),
            EdgeTarget::Consumers(_) => None,
        };
        if edge.epoch != epoch || !is_up(edge.above) || !is_up(below) {
            return;
        }
        let edge = &mut self.edges[number as usize];
        (edge.is_up, edge.has_queue) = (true, true);
        self.send_queued(number);
    }
}
