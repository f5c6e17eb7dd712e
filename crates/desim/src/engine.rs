//! What happens, event by event.
//!
//! Enters: a scenario.  Leaves: an outcome.
//! Owns:   brokers, connections and consumers while they run, and the calendar.
//! Never:  looks ahead: whatever is decided follows from what has happened.

use crate::calendar::Calendar;
use crate::chance::Chance;
use crate::edge::{Below, Edge, Taker};
use crate::film::{Film, Tally};
use crate::grove::Grove;
use crate::limits::{BATCH_BYTES, EVENTS_MAX, QUEUE_RESUMES_PERCENT, SIMULATED_NS_MAX, TRAIN_BYTES, WINDOW_BYTES};
use crate::outcome::{Outcome, told};
use crate::run::{Run, Runs};
use crate::scenario::{Ack, Impossible, Pace, Scenario};
use crate::watch::{Arrival, Watch};
use std::collections::VecDeque;

/// How long a slow consumer takes messages in before it acknowledges them, in nanoseconds: those of one read.
const TAKEN_TOGETHER_NS: f64 = 1e6;

/// Events until somebody is asked whether to go on.
const EVENTS_A_QUESTION: u32 = 1 << 16;

/// What happens at some time. An epoch that is over makes it void.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next message of an open loop is due.
    Due,
    /// A batch has been copied for one connection, by a broker in its epoch.
    Copied { edge: u32, run: Run, epoch: u32 },
    /// A batch is over.
    Done { broker: u32, run: Run, epoch: u32 },
    /// The link of the upper end has carried a run.
    Carried { edge: u32, run: Run, epoch: u32, host_epoch: u32 },
    /// A run is at the lower end.
    Arrived { edge: u32, run: Run, epoch: u32 },
    /// It is known at the upper end that so many are no longer under way.
    Settled { edge: u32, count: u32, epoch: u32 },
    /// A slow consumer has taken a run, which came in an epoch of its connection.
    Taken { taker: u32, run: Run, epoch: u32 },
    /// A broker goes.
    Fails { failure: u32 },
    /// It is back.
    Returns { broker: u32 },
    /// A connection stands again.
    Stands { edge: u32, epoch: u32 },
}

/// A host: that of a broker, or the publisher's.
#[derive(Debug, Default)]
pub(crate) struct Host {
    pub is_up: bool,
    pub is_busy: bool,
    pub epoch: u32,
    /// What has come, and is not read.
    pub inbox: Runs,
    pub unread_max: u64,
    /// Messages of the batch that it works on.
    pub batch: u32,
    /// Of what it has read or not, what came by a connection that is no more: the next to be settled are nobody's.
    pub stale: u64,
    /// Queues of it that are over their limit.
    pub full: u32,
    pub until_ns: u64,
    pub busy_ns: u64,
    pub link: Lane,
    /// When it went, last.
    pub gone_ns: u64,
}

/// A host's link, in the direction away from it.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub is_busy: bool,
    pub until_ns: u64,
    pub busy_ns: u64,
    /// Connections that wait for it, in turns.
    pub turns: VecDeque<u32>,
}

pub(crate) struct Engine<'a> {
    pub scenario: &'a Scenario,
    pub grove: &'a Grove,
    pub calendar: Calendar<Event>,
    pub chance: Chance,
    /// Those of brokers by number, and the publisher's behind them.
    pub hosts: Vec<Host>,
    /// That to each broker by its number (the root's is the publisher's), and those to consumers behind them.
    pub edges: Vec<Edge>,
    /// Connections to the consumers of each broker, as a range of `edges`.
    pub to_consumers: Vec<std::ops::Range<u32>>,
    pub takers: Vec<Taker>,
    pub watch: Watch,
    pub film: Film,
    due: u32,
    due_ns: f64,
    batch_messages: u64,
    /// Nanoseconds of one copy on a link; 0 where it has no speed.
    copy_wire_ns: f64,
    train_messages: u64,
    pub last_ns: u64,
}

/// Simulates a scenario.
///
/// # Errors
/// A scenario that cannot be.
pub fn simulate(scenario: &Scenario) -> Result<Outcome, Impossible> {
    simulate_while(scenario, || true)
}

/// The same as long as somebody wants it, who is asked now and then.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_while(scenario: &Scenario, goes_on: impl FnMut() -> bool) -> Result<Outcome, Impossible> {
    scenario.check()?;
    let mut engine = Engine::new(scenario);
    let cut_short = engine.run(goes_on);
    Ok(told(engine, cut_short))
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let grove = &scenario.grove;
        let wire_bytes = scenario.wire_bytes;
        let window = ((WINDOW_BYTES as f64 / wire_bytes) as u64).max(1);
        let copy_wire_ns = scenario.link.bits_per_s.map_or(0.0, |bits| wire_bytes * 8e9 / bits as f64);
        let mut engine = Self {
            scenario,
            grove,
            calendar: Calendar::new(),
            chance: Chance::new(scenario.seed),
            hosts: (0..=grove.brokers()).map(|_| Host { is_up: true, ..Host::default() }).collect(),
            edges: Vec::new(),
            to_consumers: Vec::new(),
            takers: Vec::new(),
            watch: Watch::new(scenario.messages),
            film: Film::new(grove),
            due: 0,
            due_ns: 0.0,
            batch_messages: (BATCH_BYTES / scenario.message_bytes).max(1),
            copy_wire_ns,
            train_messages: ((TRAIN_BYTES as f64 / wire_bytes) as u64).max(1),
            last_ns: 0,
        };
        engine.lay_edges(window);
        engine
    }

    /// Connections between brokers, then those to consumers: the stragglers of a leaf one by one, the others as one group.
    fn lay_edges(&mut self, window: u64) {
        let (scenario, grove) = (self.scenario, self.grove);
        let keeps = scenario.ack == Ack::Confirm;
        let credit = scenario.credit.filter(|_| keeps).map_or(window, |credit| window.min(u64::from(credit)));
        let threads = scenario.cores;
        for (number, node) in grove.nodes().iter().enumerate() {
            let room = if node.above.is_some() { credit } else { window };
            let mut edge = Edge::new(node.above, Below::Broker(number as u32), 1, room, keeps);
            edge.delay_ns = scenario.link.delay_ns;
            if let Some(above) = node.above {
                let upper = &grove.nodes()[above as usize];
                let place = number as u32 - upper.below.start;
                let copies = place / threads + 1;
                edge.copied_ns = upper.work.take_in_ns + f64::from(copies) * upper.work.to_broker_ns;
                edge.delay_ns += scenario.hop_delay_ns + (f64::from(place) * scenario.place_delay_ns) as u64;
            }
            self.edges.push(edge);
        }
        let slow = self.slow_consumers();
        let mut slow = slow.iter().peekable();
        let keeps = scenario.prefetch.is_some();
        let room = scenario.prefetch.map_or(window, |prefetch| window.min(u64::from(prefetch)));
        for (number, node) in grove.nodes().iter().enumerate() {
            let from = self.edges.len() as u32;
            let end = node.consumers_from + node.consumers;
            let mut own = Vec::new();
            while let Some(&&(_, take_ns)) = slow.peek().filter(|(consumer, _)| *consumer < end) {
                slow.next();
                own.push(take_ns);
            }
            let children = node.below.len() as u32;
            let to_children_ns = f64::from(children.div_ceil(threads)) * node.work.to_broker_ns;
            let mut place = 0;
            let group = node.consumers - own.len() as u32;
            let groups =
                (group > 0).then_some((group, 0.0)).into_iter().chain(own.into_iter().map(|take_ns| (1, take_ns)));
            for (copies, take_ns) in groups {
                let taker = self.takers.len() as u32;
                let mut edge = Edge::new(Some(number as u32), Below::Consumers(taker), copies, room, keeps);
                place += copies;
                let to_consumers_ns = f64::from(place.div_ceil(threads)) * node.work.to_consumer_ns;
                edge.copied_ns = node.work.take_in_ns + to_children_ns + to_consumers_ns;
                let places_ns = f64::from(children + place - 1) * scenario.place_delay_ns;
                edge.delay_ns = scenario.link.delay_ns + scenario.consumer_delay_ns + places_ns as u64;
                let rest = f64::from(copies - 1);
                edge.spread_ns = rest * (node.work.to_consumer_ns / f64::from(threads) + scenario.place_delay_ns);
                let number = self.edges.len() as u32;
                self.takers.push(Taker { edge: number, consumers: copies, take_ns, ..Taker::default() });
                self.edges.push(edge);
            }
            self.to_consumers.push(from..self.edges.len() as u32);
        }
    }

    /// Slow consumers by number, with the time that they take for a message. Those that nobody named are drawn.
    fn slow_consumers(&mut self) -> Vec<(u32, f64)> {
        let mut slow: Vec<(u32, f64)> = Vec::new();
        let mut taken: std::collections::BTreeSet<u32> = std::collections::BTreeSet::new();
        taken.extend(self.scenario.stragglers.iter().filter_map(|one| one.consumer));
        for straggler in &self.scenario.stragglers {
            let consumer = straggler.consumer.unwrap_or_else(|| {
                let mut drawn = self.chance.below(u64::from(self.grove.consumers())) as u32;
                // The next free one, round about: the scenario was checked to have as many.
                while !taken.insert(drawn) {
                    drawn = (drawn + 1) % self.grove.consumers();
                }
                drawn
            });
            slow.push((consumer, 1e9 / straggler.per_s));
        }
        slow.sort_by_key(|(consumer, _)| *consumer);
        slow
    }

    /// Runs until nothing is left to happen. Why it was cut short, if it was.
    fn run(&mut self, mut goes_on: impl FnMut() -> bool) -> Option<&'static str> {
        let mut events = 0u32;
        for (number, failure) in self.scenario.failures.iter().enumerate() {
            self.calendar.at(failure.at_ns, Event::Fails { failure: number as u32 });
        }
        match self.scenario.pace {
            Pace::Closed => {
                let all = Run { first: 0, count: self.scenario.messages, again: false };
                self.edges[0].enqueue(all, 0);
                self.pump(0);
            }
            Pace::Even(_) | Pace::Poisson(_) => self.calendar.at(0, Event::Due),
        }
        while let Some(at_ns) = self.calendar.next_ns() {
            if self.calendar.made() > EVENTS_MAX {
                return Some("too many events");
            }
            if at_ns > SIMULATED_NS_MAX {
                return Some("a day was simulated");
            }
            events = events.wrapping_add(1);
            if events.is_multiple_of(EVENTS_A_QUESTION) && !goes_on() {
                return Some("interrupted");
            }
            while self.film.next_ns() <= at_ns {
                self.shoot();
            }
            if let Some(event) = self.calendar.next() {
                self.happen(event);
            }
        }
        None
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Due => self.publish(),
            Event::Copied { edge, run, epoch } => self.copied(edge, run, epoch),
            Event::Done { broker, run, epoch } => self.done(broker, run, epoch),
            Event::Carried { edge, run, epoch, host_epoch } => self.carried(edge, run, epoch, host_epoch),
            Event::Arrived { edge, run, epoch } => self.arrived(edge, run, epoch),
            Event::Settled { edge, count, epoch } => self.settled(edge, count, epoch),
            Event::Taken { taker, run, epoch } => self.taken(taker, run, epoch),
            Event::Fails { failure } => self.fails(failure),
            Event::Returns { broker } => self.returns(broker),
            Event::Stands { edge, epoch } => self.stands(edge, epoch),
        }
    }

    fn publisher(&self) -> usize {
        self.hosts.len() - 1
    }

    /// The host at the upper end of a connection.
    fn host_above(&self, edge: u32) -> usize {
        self.edges[edge as usize].above.map_or(self.publisher(), |broker| broker as usize)
    }

    fn publish(&mut self) {
        let now_ns = self.calendar.now_ns();
        let run = Run { first: self.due, count: 1, again: false };
        self.watch.published(run, now_ns);
        self.edges[0].enqueue(run, now_ns);
        self.due += 1;
        if self.due < self.scenario.messages {
            self.due_ns = match self.scenario.pace {
                Pace::Poisson(rate) => self.due_ns + self.chance.exponential() * 1e9 / rate,
                Pace::Even(rate) => f64::from(self.due) * 1e9 / rate,
                Pace::Closed => self.due_ns,
            };
            self.calendar.at((self.due_ns as u64).max(now_ns), Event::Due);
        }
        self.pump(0);
    }

    /// Sends what waits for a connection and has room on it.
    pub fn pump(&mut self, number: u32) {
        let now_ns = self.calendar.now_ns();
        let host = self.host_above(number);
        while let Some(run) = self.edges[number as usize].send(now_ns) {
            if host == self.publisher() && self.scenario.pace == Pace::Closed && !run.again {
                self.watch.published(run, now_ns);
            }
            let edge = &mut self.edges[number as usize];
            if self.copy_wire_ns > 0.0 {
                if edge.outbox.is_empty() {
                    self.hosts[host].link.turns.push_back(number);
                }
                edge.outbox.push(run);
                self.carry(host);
            } else {
                let event = Event::Arrived { edge: number, run, epoch: edge.epoch };
                self.calendar.at(now_ns + edge.delay_ns, event);
            }
        }
        self.drained(number);
    }

    /// A queue that was full may have room again.
    pub fn drained(&mut self, number: u32) {
        let Some(most) = self.scenario.queue_bytes_max else { return };
        let edge = &mut self.edges[number as usize];
        let Some(above) = edge.above.filter(|_| edge.is_full) else { return };
        if edge.queue.len() * self.scenario.message_bytes * 100 <= most.saturating_mul(QUEUE_RESUMES_PERCENT) {
            edge.is_full = false;
            self.hosts[above as usize].full -= 1;
            self.read(above);
        }
    }

    /// The link of a host carries the next train of the connection whose turn it is.
    fn carry(&mut self, host: usize) {
        let now_ns = self.calendar.now_ns();
        let (copy_wire_ns, most) = (self.copy_wire_ns, self.train_messages);
        let Host { link, epoch: host_epoch, .. } = &mut self.hosts[host];
        while !link.is_busy {
            let Some(number) = link.turns.pop_front() else { return };
            let edge = &mut self.edges[number as usize];
            let Some(run) = edge.outbox.take(most) else { continue };
            let takes_ns = (f64::from(run.count) * f64::from(edge.copies) * copy_wire_ns).round() as u64;
            (link.is_busy, link.until_ns) = (true, now_ns + takes_ns);
            link.busy_ns += takes_ns;
            if !edge.outbox.is_empty() {
                link.turns.push_back(number);
            }
            let event = Event::Carried { edge: number, run, epoch: edge.epoch, host_epoch: *host_epoch };
            self.calendar.at(link.until_ns, event);
        }
    }

    fn carried(&mut self, number: u32, run: Run, epoch: u32, host_epoch: u32) {
        let host = self.host_above(number);
        if self.hosts[host].epoch != host_epoch {
            return;
        }
        self.hosts[host].link.is_busy = false;
        let edge = &self.edges[number as usize];
        if edge.epoch == epoch {
            let at_ns = self.calendar.now_ns() + edge.delay_ns;
            self.calendar.at(at_ns, Event::Arrived { edge: number, run, epoch });
        }
        self.carry(host);
    }

    fn arrived(&mut self, number: u32, run: Run, epoch: u32) {
        let edge = &self.edges[number as usize];
        if edge.epoch != epoch {
            return;
        }
        match edge.below {
            Below::Broker(broker) => {
                let host = &mut self.hosts[broker as usize];
                host.inbox.push(run);
                host.unread_max = host.unread_max.max(host.inbox.len());
                self.read(broker);
            }
            Below::Consumers(number) => {
                let taker = &mut self.takers[number as usize];
                if taker.take_ns > 0.0 {
                    taker.inbox.push(run);
                    self.take(number);
                } else {
                    self.take_at_once(number, run);
                }
            }
        }
    }

    /// A broker that has nothing else to do reads what has come, unless a queue of it is full.
    pub fn read(&mut self, broker: u32) {
        let now_ns = self.calendar.now_ns();
        let host = &mut self.hosts[broker as usize];
        if !host.is_up || host.is_busy || host.full > 0 {
            return;
        }
        let Some(run) = host.inbox.take(self.batch_messages) else { return };
        let node = &self.grove.nodes()[broker as usize];
        let jitter = match self.scenario.jitter {
            0.0 => 1.0,
            jitter => 1.0 + jitter * (2.0 * self.chance.share() - 1.0),
        };
        let count = f64::from(run.count) * jitter;
        let epoch = host.epoch;
        let mut takes_ns = (count * node.work.take_in_ns).round() as u64;
        for edge in node.below.clone().chain(self.to_consumers[broker as usize].clone()) {
            let copied_ns = (count * self.edges[edge as usize].copied_ns).round() as u64;
            takes_ns = takes_ns.max(copied_ns);
            self.calendar.at(now_ns + copied_ns, Event::Copied { edge, run, epoch });
        }
        let host = &mut self.hosts[broker as usize];
        (host.is_busy, host.until_ns) = (true, now_ns + takes_ns);
        host.busy_ns += takes_ns;
        host.batch = run.count;
        self.calendar.at(host.until_ns, Event::Done { broker, run, epoch });
        if self.scenario.ack == Ack::None {
            // Without confirms what is read makes room.
            self.answer(broker, run.count);
        }
    }

    fn copied(&mut self, number: u32, run: Run, epoch: u32) {
        let now_ns = self.calendar.now_ns();
        let host = self.host_above(number);
        if self.hosts[host].epoch != epoch {
            return;
        }
        let edge = &mut self.edges[number as usize];
        if !edge.collects {
            return;
        }
        edge.enqueue(run, now_ns);
        self.pump(number);
        self.filled(number);
    }

    /// A queue may be full now.
    pub fn filled(&mut self, number: u32) {
        let Some(most) = self.scenario.queue_bytes_max else { return };
        let edge = &mut self.edges[number as usize];
        if let Some(above) = edge.above
            && !edge.is_full
            && edge.queue.len() * self.scenario.message_bytes > most
        {
            edge.is_full = true;
            self.hosts[above as usize].full += 1;
        }
    }

    fn done(&mut self, broker: u32, run: Run, epoch: u32) {
        let host = &mut self.hosts[broker as usize];
        if host.epoch != epoch {
            return;
        }
        host.is_busy = false;
        if self.scenario.ack == Ack::Confirm {
            self.answer(broker, run.count);
        }
        self.read(broker);
    }

    /// A broker lets the one above know what it has read or routed, as far as that came by the connection that there is.
    fn answer(&mut self, broker: u32, count: u32) {
        let host = &mut self.hosts[broker as usize];
        let stale = host.stale.min(u64::from(count));
        host.stale -= stale;
        self.settle(broker, count - stale as u32);
    }

    /// Tells the upper end of a connection that so many are no longer under way.
    fn settle(&mut self, number: u32, count: u32) {
        if count == 0 {
            return;
        }
        let edge = &self.edges[number as usize];
        match edge.delay_ns {
            0 => self.settled(number, count, edge.epoch),
            delay_ns => {
                let event = Event::Settled { edge: number, count, epoch: edge.epoch };
                self.calendar.at(self.calendar.now_ns() + delay_ns, event);
            }
        }
    }

    fn settled(&mut self, number: u32, count: u32, epoch: u32) {
        let edge = &mut self.edges[number as usize];
        if edge.epoch == epoch {
            edge.settle(u64::from(count));
            self.pump(number);
        }
    }

    /// Consumers that are never behind have a run.
    fn take_at_once(&mut self, number: u32, run: Run) {
        let now_ns = self.calendar.now_ns() as f64;
        let (edge, copies) = (self.takers[number as usize].edge, self.takers[number as usize].consumers);
        let one_ns = self.copy_wire_ns;
        let each_ns = one_ns * f64::from(copies);
        let spread_ns = if one_ns > 0.0 { each_ns - one_ns } else { self.edges[edge as usize].spread_ns };
        let first_ns = now_ns - f64::from(run.count - 1) * each_ns - spread_ns;
        self.account(number, run, Arrival { first_ns, each_ns, spread_ns, copies });
        self.settle(edge, run.count);
    }

    /// A slow consumer begins with what has come.
    fn take(&mut self, number: u32) {
        let taker = &mut self.takers[number as usize];
        if taker.is_busy {
            return;
        }
        let most = ((TAKEN_TOGETHER_NS / taker.take_ns) as u64).max(1);
        let Some(run) = taker.inbox.take(most) else { return };
        taker.is_busy = true;
        let takes_ns = (f64::from(run.count) * taker.take_ns).round() as u64;
        let epoch = self.edges[taker.edge as usize].epoch;
        self.calendar.at(self.calendar.now_ns() + takes_ns, Event::Taken { taker: number, run, epoch });
    }

    fn taken(&mut self, number: u32, run: Run, epoch: u32) {
        let now_ns = self.calendar.now_ns() as f64;
        let taker = &mut self.takers[number as usize];
        taker.is_busy = false;
        let (edge, each_ns) = (taker.edge, taker.take_ns);
        let first_ns = now_ns - f64::from(run.count - 1) * each_ns;
        self.account(number, run, Arrival { first_ns, each_ns, spread_ns: 0.0, copies: 1 });
        if self.edges[edge as usize].epoch == epoch {
            self.settle(edge, run.count);
        }
        self.take(number);
    }

    fn account(&mut self, number: u32, run: Run, arrival: Arrival) {
        let now_ns = self.calendar.now_ns();
        let taker = &mut self.takers[number as usize];
        let new = taker.seen.take(run);
        let behind = f64::from(new.first - run.first);
        self.watch.arrived(new, Arrival { first_ns: arrival.first_ns + behind * arrival.each_ns, ..arrival });
        if taker.quarter.is_none() && taker.seen.unique * 4 >= u64::from(self.scenario.messages) {
            taker.quarter = Some((taker.seen.unique, now_ns));
        }
        taker.last_ns = now_ns;
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// Takes a picture.
    fn shoot(&mut self) {
        let at_ns = self.film.next_ns();
        let tallies = self.film.brokers().iter().map(|&broker| {
            let host = &self.hosts[broker as usize];
            let past = |is_busy: bool, busy_ns: u64, until_ns: u64| {
                if is_busy { busy_ns - until_ns.saturating_sub(at_ns) } else { busy_ns }
            };
            let node = &self.grove.nodes()[broker as usize];
            let own = node.below.clone().chain(self.to_consumers[broker as usize].clone());
            let queued = own.map(|edge| self.edges[edge as usize].queue.len()).max().unwrap_or(0);
            Tally {
                busy_ns: past(host.is_busy, host.busy_ns, host.until_ns),
                link_ns: past(host.link.is_busy, host.link.busy_ns, host.link.until_ns),
                carried: self.edges[broker as usize].carried,
                queued,
                unread: host.inbox.len(),
                is_up: host.is_up,
            }
        });
        let tallies = tallies.collect();
        self.film.keep(tallies);
    }
}
