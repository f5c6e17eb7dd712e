//! The event loop of a simulation: brokers, connections, consumers and their events.

use crate::calendar::Calendar;
use crate::edge::{ConsumerGroup, Edge, EdgeTarget};
use crate::latency_tracker::{BatchArrival, LatencyTracker};
use crate::limits::{BATCH_BYTES, EVENTS_MAX, QUEUE_RESUMES_PERCENT, SIMULATED_NS_MAX, TRAIN_BYTES, WINDOW_BYTES};
use crate::load_trace::{BrokerCounters, LoadTrace};
use crate::scenario::{AckMode, ArrivalProcess, InvalidScenario, Scenario};
use crate::sequence_ranges::SequenceRange;
use crate::simulated_host::SimulatedHost;
use crate::simulation_result::{SimulationResult, summarize};
use crate::simulation_rng::SimulationRng;
use crate::tree_topology::TreeTopology;

/// How long a slow consumer collects messages before it acknowledges them, in nanoseconds: one read.
const ACK_BATCH_NS: f64 = 1e6;

/// Events between two calls of the caller's `goes_on`.
const EVENTS_PER_CHECK: u32 = 1 << 16;

/// An event. One whose epoch has ended is ignored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SimulationEvent {
    /// The next message of an open loop is due.
    PublishDue,
    /// A broker has copied a batch for one connection.
    Copied {
        edge: u32,
        range: SequenceRange,
        epoch: u32,
    },
    /// A broker has finished a batch.
    BatchDone {
        broker: u32,
        range: SequenceRange,
        epoch: u32,
    },
    /// The link of the upper end has transmitted a range.
    Transmitted {
        edge: u32,
        range: SequenceRange,
        epoch: u32,
        host_epoch: u32,
    },
    /// A range has reached the lower end.
    Arrived {
        edge: u32,
        range: SequenceRange,
        epoch: u32,
    },
    /// The upper end learns that `count` messages are no longer in flight.
    Settled {
        edge: u32,
        count: u32,
        epoch: u32,
    },
    /// A slow consumer has consumed a range, which arrived in this epoch of its connection.
    Consumed {
        group: u32,
        range: SequenceRange,
        epoch: u32,
    },
    BrokerFails {
        failure: u32,
    },
    /// A broker is back.
    BrokerReturns {
        broker: u32,
    },
    /// A connection is up again.
    Reconnected {
        edge: u32,
        epoch: u32,
    },
}

pub(crate) struct Simulation<'a> {
    pub scenario: &'a Scenario,
    pub tree: &'a TreeTopology,
    pub calendar: Calendar<SimulationEvent>,
    pub random: SimulationRng,
    /// The brokers' hosts by number, then the publisher's.
    pub hosts: Vec<SimulatedHost>,
    /// The edge to each broker by its number (the root's is the publisher's), then the edges to consumers.
    pub edges: Vec<Edge>,
    /// Edges to the consumers of each broker, as a range of `edges`.
    pub to_consumers: Vec<std::ops::Range<u32>>,
    pub consumer_groups: Vec<ConsumerGroup>,
    pub latencies: LatencyTracker,
    pub trace: LoadTrace,
    due: u32,
    due_ns: f64,
    batch_messages: u64,
    /// Transmission time of one copy in nanoseconds; 0 if links have no speed limit.
    copy_wire_ns: f64,
    train_messages: u64,
    pub last_ns: u64,
}

/// Simulates a scenario.
///
/// # Errors
/// The scenario is invalid.
pub fn simulate(scenario: &Scenario) -> Result<SimulationResult, InvalidScenario> {
    simulate_while(scenario, || true)
}

/// Simulates a scenario as long as `goes_on`, which is called now and then, returns true.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_while(scenario: &Scenario, goes_on: impl FnMut() -> bool) -> Result<SimulationResult, InvalidScenario> {
    scenario.check()?;
    let mut engine = Simulation::new(scenario);
    let cut_short = engine.run(goes_on);
    Ok(summarize(engine, cut_short))
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let topology = &scenario.tree;
        let wire_bytes = scenario.wire_bytes;
        let window = ((WINDOW_BYTES as f64 / wire_bytes) as u64).max(1);
        let copy_wire_ns = scenario.link.bits_per_s.map_or(0.0, |bits| wire_bytes * 8e9 / bits as f64);
        let mut engine = Self {
            scenario,
            tree: topology,
            calendar: Calendar::new(),
            random: SimulationRng::new(scenario.seed),
            hosts: (0..=topology.brokers())
                .map(|_| SimulatedHost { is_up: true, ..SimulatedHost::default() })
                .collect(),
            edges: Vec::new(),
            to_consumers: Vec::new(),
            consumer_groups: Vec::new(),
            latencies: LatencyTracker::new(scenario.messages),
            trace: LoadTrace::new(topology),
            due: 0,
            due_ns: 0.0,
            batch_messages: (BATCH_BYTES / scenario.message_bytes).max(1),
            copy_wire_ns,
            train_messages: ((TRAIN_BYTES as f64 / wire_bytes) as u64).max(1),
            last_ns: 0,
        };
        engine.create_edges(window);
        engine
    }

    /// Creates the edges between brokers, then those to consumers: one for each straggler of a leaf, and one for the
    /// group of all others.
    fn create_edges(&mut self, window: u64) {
        let (scenario, topology) = (self.scenario, self.tree);
        let keeps = scenario.ack == AckMode::Confirm;
        let credit = scenario.credit.filter(|_| keeps).map_or(window, |credit| window.min(u64::from(credit)));
        let threads = scenario.cores;
        for (number, node) in topology.nodes().iter().enumerate() {
            let room = if node.parent.is_some() { credit } else { window };
            let mut edge = Edge::new(node.parent, EdgeTarget::Broker(number as u32), 1, room, keeps);
            edge.delay_ns = scenario.link.delay_ns;
            if let Some(above) = node.parent {
                let upper = &topology.nodes()[above as usize];
                let place = number as u32 - upper.children.start;
                let copies = place / threads + 1;
                edge.copied_ns = upper.service.receive_ns + f64::from(copies) * upper.service.to_broker_ns;
                edge.delay_ns += scenario.hop_delay_ns + (f64::from(place) * scenario.sibling_delay_ns) as u64;
            }
            self.edges.push(edge);
        }
        let slow = self.slow_consumers();
        let mut slow = slow.iter().peekable();
        let keeps = scenario.prefetch.is_some();
        let room = scenario.prefetch.map_or(window, |prefetch| window.min(u64::from(prefetch)));
        for (number, node) in topology.nodes().iter().enumerate() {
            let from = self.edges.len() as u32;
            let end = node.consumers_from + node.consumers;
            let mut own = Vec::new();
            while let Some(&&(_, take_ns)) = slow.peek().filter(|(consumer, _)| *consumer < end) {
                slow.next();
                own.push(take_ns);
            }
            let children = node.children.len() as u32;
            let to_children_ns = f64::from(children.div_ceil(threads)) * node.service.to_broker_ns;
            let mut place = 0;
            let group = node.consumers - own.len() as u32;
            let groups =
                (group > 0).then_some((group, 0.0)).into_iter().chain(own.into_iter().map(|take_ns| (1, take_ns)));
            for (copies, take_ns) in groups {
                let group = self.consumer_groups.len() as u32;
                let mut edge = Edge::new(Some(number as u32), EdgeTarget::Consumers(group), copies, room, keeps);
                place += copies;
                let to_consumers_ns = f64::from(place.div_ceil(threads)) * node.service.to_consumer_ns;
                edge.copied_ns = node.service.receive_ns + to_children_ns + to_consumers_ns;
                let places_ns = f64::from(children + place - 1) * scenario.sibling_delay_ns;
                edge.delay_ns = scenario.link.delay_ns + scenario.consumer_delay_ns + places_ns as u64;
                let rest = f64::from(copies - 1);
                edge.spread_ns = rest * (node.service.to_consumer_ns / f64::from(threads) + scenario.sibling_delay_ns);
                let number = self.edges.len() as u32;
                self.consumer_groups.push(ConsumerGroup {
                    edge: number,
                    consumers: copies,
                    service_ns: take_ns,
                    ..ConsumerGroup::default()
                });
                self.edges.push(edge);
            }
            self.to_consumers.push(from..self.edges.len() as u32);
        }
    }

    /// Slow consumers by number, with their service times. Those without a number are drawn.
    fn slow_consumers(&mut self) -> Vec<(u32, f64)> {
        let mut slow: Vec<(u32, f64)> = Vec::new();
        let mut taken: std::collections::BTreeSet<u32> = std::collections::BTreeSet::new();
        taken.extend(self.scenario.stragglers.iter().filter_map(|one| one.consumer));
        for straggler in &self.scenario.stragglers {
            let consumer = straggler.consumer.unwrap_or_else(|| {
                let mut drawn = self.random.below(u64::from(self.tree.consumers())) as u32;
                // The next free consumer, cyclically; the scenario was checked to have enough.
                while !taken.insert(drawn) {
                    drawn = (drawn + 1) % self.tree.consumers();
                }
                drawn
            });
            slow.push((consumer, 1e9 / straggler.per_s));
        }
        slow.sort_by_key(|(consumer, _)| *consumer);
        slow
    }

    /// Runs until no event is left. Returns why the run was cut short, if it was.
    fn run(&mut self, mut goes_on: impl FnMut() -> bool) -> Option<&'static str> {
        let mut events = 0u32;
        for (number, failure) in self.scenario.failures.iter().enumerate() {
            self.calendar.schedule(failure.at_ns, SimulationEvent::BrokerFails { failure: number as u32 });
        }
        match self.scenario.arrivals {
            ArrivalProcess::Closed => {
                let all = SequenceRange { first: 0, count: self.scenario.messages, is_redelivered: false };
                self.edges[0].enqueue(all, 0);
                self.send_queued(0);
            }
            ArrivalProcess::Even(_) | ArrivalProcess::Poisson(_) => {
                self.calendar.schedule(0, SimulationEvent::PublishDue)
            }
        }
        while let Some(at_ns) = self.calendar.next_event_ns() {
            if self.calendar.scheduled() > EVENTS_MAX {
                return Some("too many events");
            }
            if at_ns > SIMULATED_NS_MAX {
                return Some("a day was simulated");
            }
            events = events.wrapping_add(1);
            if events.is_multiple_of(EVENTS_PER_CHECK) && !goes_on() {
                return Some("interrupted");
            }
            while self.trace.next_sample_ns() <= at_ns {
                self.sample_loads();
            }
            if let Some(event) = self.calendar.pop() {
                self.handle(event);
            }
        }
        None
    }

    fn handle(&mut self, event: SimulationEvent) {
        match event {
            SimulationEvent::PublishDue => self.publish(),
            SimulationEvent::Copied { edge, range, epoch } => self.on_copied(edge, range, epoch),
            SimulationEvent::BatchDone { broker, range, epoch } => self.on_batch_done(broker, range, epoch),
            SimulationEvent::Transmitted { edge, range, epoch, host_epoch } => {
                self.on_transmitted(edge, range, epoch, host_epoch)
            }
            SimulationEvent::Arrived { edge, range, epoch } => self.on_arrived(edge, range, epoch),
            SimulationEvent::Settled { edge, count, epoch } => self.on_settled(edge, count, epoch),
            SimulationEvent::Consumed { group, range, epoch } => self.on_consumed(group, range, epoch),
            SimulationEvent::BrokerFails { failure } => self.on_broker_fails(failure),
            SimulationEvent::BrokerReturns { broker } => self.on_broker_returns(broker),
            SimulationEvent::Reconnected { edge, epoch } => self.on_reconnected(edge, epoch),
        }
    }

    fn publisher(&self) -> usize {
        self.hosts.len() - 1
    }

    /// The host at the upper end of an edge.
    fn host_above(&self, edge: u32) -> usize {
        self.edges[edge as usize].above.map_or(self.publisher(), |broker| broker as usize)
    }

    fn publish(&mut self) {
        let now_ns = self.calendar.now_ns();
        let range = SequenceRange { first: self.due, count: 1, is_redelivered: false };
        self.latencies.on_published(range, now_ns);
        self.edges[0].enqueue(range, now_ns);
        self.due += 1;
        if self.due < self.scenario.messages {
            self.due_ns = match self.scenario.arrivals {
                ArrivalProcess::Poisson(rate) => self.due_ns + self.random.exponential() * 1e9 / rate,
                ArrivalProcess::Even(rate) => f64::from(self.due) * 1e9 / rate,
                ArrivalProcess::Closed => self.due_ns,
            };
            self.calendar.schedule((self.due_ns as u64).max(now_ns), SimulationEvent::PublishDue);
        }
        self.send_queued(0);
    }

    /// Sends from the edge's queue as far as its window has capacity.
    pub fn send_queued(&mut self, number: u32) {
        let now_ns = self.calendar.now_ns();
        let host = self.host_above(number);
        while let Some(range) = self.edges[number as usize].send(now_ns) {
            if host == self.publisher() && self.scenario.arrivals == ArrivalProcess::Closed && !range.is_redelivered {
                self.latencies.on_published(range, now_ns);
            }
            let edge = &mut self.edges[number as usize];
            if self.copy_wire_ns > 0.0 {
                if edge.outbox.is_empty() {
                    self.hosts[host].link.waiting.push_back(number);
                }
                edge.outbox.push(range);
                self.transmit_next(host);
            } else {
                let event = SimulationEvent::Arrived { edge: number, range, epoch: edge.epoch };
                self.calendar.schedule(now_ns + edge.delay_ns, event);
            }
        }
        self.on_queue_drained(number);
    }

    /// The queue of an edge may no longer be full.
    pub fn on_queue_drained(&mut self, number: u32) {
        let Some(most) = self.scenario.queue_bytes_max else { return };
        let edge = &mut self.edges[number as usize];
        let Some(above) = edge.above.filter(|_| edge.is_full) else { return };
        if edge.queue.len() * self.scenario.message_bytes * 100 <= most.saturating_mul(QUEUE_RESUMES_PERCENT) {
            edge.is_full = false;
            self.hosts[above as usize].full_queues -= 1;
            self.start_batch(above);
        }
    }

    /// The link of a host transmits the next train of the connection whose turn it is.
    fn transmit_next(&mut self, host: usize) {
        let now_ns = self.calendar.now_ns();
        let (copy_wire_ns, most) = (self.copy_wire_ns, self.train_messages);
        let SimulatedHost { link, epoch: host_epoch, .. } = &mut self.hosts[host];
        while !link.is_busy {
            let Some(number) = link.waiting.pop_front() else { return };
            let edge = &mut self.edges[number as usize];
            let Some(range) = edge.outbox.take(most) else { continue };
            let takes_ns = (f64::from(range.count) * f64::from(edge.copies) * copy_wire_ns).round() as u64;
            (link.is_busy, link.until_ns) = (true, now_ns + takes_ns);
            link.busy_ns += takes_ns;
            if !edge.outbox.is_empty() {
                link.waiting.push_back(number);
            }
            let event =
                SimulationEvent::Transmitted { edge: number, range, epoch: edge.epoch, host_epoch: *host_epoch };
            self.calendar.schedule(link.until_ns, event);
        }
    }

    fn on_transmitted(&mut self, number: u32, range: SequenceRange, epoch: u32, host_epoch: u32) {
        let host = self.host_above(number);
        if self.hosts[host].epoch != host_epoch {
            return;
        }
        self.hosts[host].link.is_busy = false;
        let edge = &self.edges[number as usize];
        if edge.epoch == epoch {
            let at_ns = self.calendar.now_ns() + edge.delay_ns;
            self.calendar.schedule(at_ns, SimulationEvent::Arrived { edge: number, range, epoch });
        }
        self.transmit_next(host);
    }

    fn on_arrived(&mut self, number: u32, range: SequenceRange, epoch: u32) {
        let edge = &self.edges[number as usize];
        if edge.epoch != epoch {
            return;
        }
        match edge.target {
            EdgeTarget::Broker(broker) => {
                let host = &mut self.hosts[broker as usize];
                host.inbox.push(range);
                host.unread_max = host.unread_max.max(host.inbox.len());
                self.start_batch(broker);
            }
            EdgeTarget::Consumers(number) => {
                let group = &mut self.consumer_groups[number as usize];
                if group.service_ns > 0.0 {
                    group.inbox.push(range);
                    self.start_consuming(number);
                } else {
                    self.consume_at_once(number, range);
                }
            }
        }
    }

    /// An idle broker reads what has arrived, unless one of its queues is full.
    pub fn start_batch(&mut self, broker: u32) {
        let now_ns = self.calendar.now_ns();
        let host = &mut self.hosts[broker as usize];
        if !host.is_up || host.is_busy || host.full_queues > 0 {
            return;
        }
        let Some(range) = host.inbox.take(self.batch_messages) else { return };
        let node = &self.tree.nodes()[broker as usize];
        let jitter = match self.scenario.jitter {
            0.0 => 1.0,
            jitter => 1.0 + jitter * (2.0 * self.random.uniform() - 1.0),
        };
        let count = f64::from(range.count) * jitter;
        let epoch = host.epoch;
        let mut takes_ns = (count * node.service.receive_ns).round() as u64;
        for edge in node.children.clone().chain(self.to_consumers[broker as usize].clone()) {
            let copied_ns = (count * self.edges[edge as usize].copied_ns).round() as u64;
            takes_ns = takes_ns.max(copied_ns);
            self.calendar.schedule(now_ns + copied_ns, SimulationEvent::Copied { edge, range, epoch });
        }
        let host = &mut self.hosts[broker as usize];
        (host.is_busy, host.until_ns) = (true, now_ns + takes_ns);
        host.busy_ns += takes_ns;
        host.batch = range.count;
        self.calendar.schedule(host.until_ns, SimulationEvent::BatchDone { broker, range, epoch });
        if self.scenario.ack == AckMode::None {
            // Without confirms, reading frees the window.
            self.settle_upstream(broker, range.count);
        }
    }

    fn on_copied(&mut self, number: u32, range: SequenceRange, epoch: u32) {
        let now_ns = self.calendar.now_ns();
        let host = self.host_above(number);
        if self.hosts[host].epoch != epoch {
            return;
        }
        let edge = &mut self.edges[number as usize];
        if !edge.has_queue {
            return;
        }
        edge.enqueue(range, now_ns);
        self.send_queued(number);
        self.on_queue_filled(number);
    }

    /// The queue of an edge may be full now.
    pub fn on_queue_filled(&mut self, number: u32) {
        let Some(most) = self.scenario.queue_bytes_max else { return };
        let edge = &mut self.edges[number as usize];
        if let Some(above) = edge.above
            && !edge.is_full
            && edge.queue.len() * self.scenario.message_bytes > most
        {
            edge.is_full = true;
            self.hosts[above as usize].full_queues += 1;
        }
    }

    fn on_batch_done(&mut self, broker: u32, range: SequenceRange, epoch: u32) {
        let host = &mut self.hosts[broker as usize];
        if host.epoch != epoch {
            return;
        }
        host.is_busy = false;
        if self.scenario.ack == AckMode::Confirm {
            self.settle_upstream(broker, range.count);
        }
        self.start_batch(broker);
    }

    /// A broker settles what it has read or routed with the one above, as far as it arrived on the current connection.
    fn settle_upstream(&mut self, broker: u32, count: u32) {
        let host = &mut self.hosts[broker as usize];
        let stale = host.stale.min(u64::from(count));
        host.stale -= stale;
        self.settle(broker, count - stale as u32);
    }

    /// Tells the upper end of an edge that `count` messages are no longer in flight.
    fn settle(&mut self, number: u32, count: u32) {
        if count == 0 {
            return;
        }
        let edge = &self.edges[number as usize];
        match edge.delay_ns {
            0 => self.on_settled(number, count, edge.epoch),
            delay_ns => {
                let event = SimulationEvent::Settled { edge: number, count, epoch: edge.epoch };
                self.calendar.schedule(self.calendar.now_ns() + delay_ns, event);
            }
        }
    }

    fn on_settled(&mut self, number: u32, count: u32, epoch: u32) {
        let edge = &mut self.edges[number as usize];
        if edge.epoch == epoch {
            edge.settle(u64::from(count));
            self.send_queued(number);
        }
    }

    /// Consumers that are never behind receive a range.
    fn consume_at_once(&mut self, number: u32, range: SequenceRange) {
        let now_ns = self.calendar.now_ns() as f64;
        let (edge, copies) =
            (self.consumer_groups[number as usize].edge, self.consumer_groups[number as usize].consumers);
        let one_ns = self.copy_wire_ns;
        let each_ns = one_ns * f64::from(copies);
        let spread_ns = if one_ns > 0.0 { each_ns - one_ns } else { self.edges[edge as usize].spread_ns };
        let first_ns = now_ns - f64::from(range.count - 1) * each_ns - spread_ns;
        self.record_delivery(number, range, BatchArrival { first_ns, each_ns, spread_ns, copies });
        self.settle(edge, range.count);
    }

    /// A slow consumer starts on what has arrived.
    fn start_consuming(&mut self, number: u32) {
        let group = &mut self.consumer_groups[number as usize];
        if group.is_busy {
            return;
        }
        let most = ((ACK_BATCH_NS / group.service_ns) as u64).max(1);
        let Some(range) = group.inbox.take(most) else { return };
        group.is_busy = true;
        let takes_ns = (f64::from(range.count) * group.service_ns).round() as u64;
        let epoch = self.edges[group.edge as usize].epoch;
        self.calendar
            .schedule(self.calendar.now_ns() + takes_ns, SimulationEvent::Consumed { group: number, range, epoch });
    }

    fn on_consumed(&mut self, number: u32, range: SequenceRange, epoch: u32) {
        let now_ns = self.calendar.now_ns() as f64;
        let group = &mut self.consumer_groups[number as usize];
        group.is_busy = false;
        let (edge, each_ns) = (group.edge, group.service_ns);
        let first_ns = now_ns - f64::from(range.count - 1) * each_ns;
        self.record_delivery(number, range, BatchArrival { first_ns, each_ns, spread_ns: 0.0, copies: 1 });
        if self.edges[edge as usize].epoch == epoch {
            self.settle(edge, range.count);
        }
        self.start_consuming(number);
    }

    fn record_delivery(&mut self, number: u32, range: SequenceRange, arrival: BatchArrival) {
        let now_ns = self.calendar.now_ns();
        let group = &mut self.consumer_groups[number as usize];
        let new = group.received.receive(range);
        let behind = f64::from(new.first - range.first);
        self.latencies
            .on_arrived(new, BatchArrival { first_ns: arrival.first_ns + behind * arrival.each_ns, ..arrival });
        if group.quarter.is_none() && group.received.unique * 4 >= u64::from(self.scenario.messages) {
            group.quarter = Some((group.received.unique, now_ns));
        }
        group.last_ns = now_ns;
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// Adds a sample to the load trace.
    fn sample_loads(&mut self) {
        let at_ns = self.trace.next_sample_ns();
        let tallies = self.trace.brokers().iter().map(|&broker| {
            let host = &self.hosts[broker as usize];
            let past = |is_busy: bool, busy_ns: u64, until_ns: u64| {
                if is_busy { busy_ns - until_ns.saturating_sub(at_ns) } else { busy_ns }
            };
            let node = &self.tree.nodes()[broker as usize];
            let own = node.children.clone().chain(self.to_consumers[broker as usize].clone());
            let queued = own.map(|edge| self.edges[edge as usize].queue.len()).max().unwrap_or(0);
            BrokerCounters {
                busy_ns: past(host.is_busy, host.busy_ns, host.until_ns),
                link_ns: past(host.link.is_busy, host.link.busy_ns, host.link.until_ns),
                carried: self.edges[broker as usize].carried,
                queued,
                unread: host.inbox.len(),
                is_up: host.is_up,
            }
        });
        let tallies = tallies.collect();
        self.trace.push(tallies);
    }
}
