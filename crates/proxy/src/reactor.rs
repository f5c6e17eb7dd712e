//! The reactor: one thread that waits for edges and gives each connection its turn.
//!
//! Enters: events of the poll, links that were accepted or dialled elsewhere, edges of a device.  Leaves: turns.
//! Owns:   the poll, the connections of its thread, and (on the first) the listeners.
//! Never:  waits anywhere but in the poll.

use crate::bridge::{Bridge, Reason, Turn};
use crate::counts::{Board, Totals};
use crate::dialler::{Door, Found};
use crate::limits::{EVENTS, LISTENERS_MAX, LOOK_UP};
use crate::road::Road;
use link::{AbortReason, Link, Listeners};
use mio::{Events, Poll, Token};
use slab::Pool;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use verbs::ReadinessEdges;

/// The token of the waker.
pub(crate) const WAKER: Token = Token(usize::MAX);
/// The token of a device's descriptors.
pub(crate) const DEVICE: Token = Token(usize::MAX - 1);
/// Listeners count down from here.
const LISTENERS: usize = usize::MAX - 2;

/// What comes to a thread from others.
pub(crate) enum Arrival {
    /// A client, who is counted already.
    Client(Box<dyn Link>),
    /// What became of a question to the dialler.
    Dialled { slot: u32, ticket: u64, outcome: io::Result<Found> },
}

/// What all threads share.
pub(crate) struct Shared {
    pub stopping: AtomicBool,
    pub boards: Vec<Board>,
    pub connections_max: usize,
}

impl Shared {
    pub fn totals(&self) -> (Totals, usize) {
        let mut totals = Totals::default();
        self.boards.iter().for_each(|board| board.add_to(&mut totals));
        (totals, self.connections())
    }

    fn connections(&self) -> usize {
        self.boards.iter().map(|board| board.connections.load(Ordering::Relaxed)).sum()
    }
}

/// How clients reach their threads: the first accepts, and hands each to the thread with the fewest.
pub(crate) struct Front {
    pub listeners: Listeners,
    pub doors: Vec<Door>,
}

pub(crate) struct Reactor {
    pub id: usize,
    pub poll: Poll,
    pub pool: Pool,
    pub front: Option<Front>,
    pub incoming: Receiver<Arrival>,
    pub door: Door,
    pub road: Road,
    pub shared: Arc<Shared>,
    pub totals: Totals,
    pub dial_timeout: Duration,
    pub drain_timeout: Duration,
    /// How often the totals are logged, and when next; on the first thread.
    pub stats: Option<(Duration, Instant)>,
    pub table: Table,
}

/// The connections of a thread.
#[derive(Default)]
pub(crate) struct Table {
    bridges: Vec<Option<Bridge>>,
    vacant: Vec<u32>,
    /// Those that have a turn to come.
    ready: Vec<u32>,
    /// Those with a deadline, and some that had one.
    timed: Vec<u32>,
    next_ticket: u64,
    next_look: Option<Instant>,
    edges: Vec<(u32, ReadinessEdges)>,
}

impl Table {
    fn get(&mut self, slot: usize) -> Option<&mut Bridge> {
        self.bridges.get_mut(slot)?.as_mut()
    }

    /// It shall have a turn.
    fn touch(&mut self, slot: u32) {
        if let Some(bridge) = self.bridges.get_mut(slot as usize).and_then(Option::as_mut)
            && !std::mem::replace(&mut bridge.is_ready, true)
        {
            self.ready.push(slot);
        }
    }

    fn is_empty(&self) -> bool {
        self.vacant.len() == self.bridges.len()
    }
}

impl Reactor {
    /// Runs until the proxy stops and its connections are gone, or the time for that is over.
    #[expect(clippy::disallowed_methods, reason = "the reactor is where time enters")]
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut accept_again = self.register_listeners()?;
        let mut stop_at: Option<Instant> = None;
        loop {
            let now = Instant::now();
            while let Ok(arrival) = self.incoming.try_recv() {
                match arrival {
                    Arrival::Client(link) => self.adopt(link, now),
                    Arrival::Dialled { slot, ticket, outcome } => self.dialled(slot, ticket, outcome, now),
                }
            }
            if accept_again {
                accept_again = self.accept(now);
            }
            self.road.round(self.poll.registry(), &mut self.table.edges);
            self.take_edges();
            self.turns(now);
            self.check(now);
            if self.shared.stopping.load(Ordering::Acquire) {
                self.front = None;
                accept_again = false;
                let stop_at = *stop_at.get_or_insert(now + self.drain_timeout);
                let is_over = now >= stop_at;
                if is_over {
                    self.end_all(now);
                }
                if is_over || (self.table.is_empty() && self.road.is_quiet()) {
                    self.road.flush();
                    self.publish();
                    return Ok(());
                }
            }
            self.road.flush();
            self.publish();
            self.log_totals(now);
            let wait = self.will_wait(now, accept_again || stop_at.is_some());
            wait_for(&mut self.poll, &mut events, wait)?;
            for event in &events {
                match event.token() {
                    WAKER | DEVICE => {}
                    Token(token) if token > LISTENERS - LISTENERS_MAX => accept_again = true,
                    Token(token) => {
                        let closed = event.is_read_closed() || event.is_error();
                        let (readable, writable) = (event.is_readable(), event.is_writable());
                        if let Some(bridge) = self.table.get(token / 2) {
                            match token % 2 {
                                0 => bridge.client_edge(readable, writable, closed),
                                _ => bridge.upstream_edge(readable, writable, closed),
                            }
                        }
                        self.table.touch((token / 2) as u32);
                    }
                }
            }
        }
    }

    /// How long to wait for events; `None`: for as long as it takes.
    fn will_wait(&mut self, now: Instant, looks: bool) -> Option<Duration> {
        if !self.table.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let nap = self.road.will_sleep(self.poll.registry(), &mut self.table.edges);
        if !self.table.edges.is_empty() {
            return Some(Duration::ZERO);
        }
        let look = (looks || !self.table.timed.is_empty()).then_some(LOOK_UP);
        let stats = self.stats.map(|(_, at)| at.saturating_duration_since(now));
        [nap, look, stats].into_iter().flatten().min()
    }

    fn publish(&mut self) {
        self.road.count(&mut self.totals);
        self.shared.boards[self.id].publish(self.totals);
    }

    fn log_totals(&mut self, now: Instant) {
        let Some((every, at)) = &mut self.stats else { return };
        if now < *at {
            return;
        }
        *at = now + *every;
        let (totals, connections) = self.shared.totals();
        let waiting_bytes: usize = self.table.bridges.iter().flatten().map(Bridge::waiting_bytes).sum();
        tracing::info!(
            connections,
            accepted = totals.accepted,
            refused = totals.refused,
            unreachable = totals.unreachable,
            broken = totals.broken,
            to_broker_bytes = totals.to_upstream_bytes,
            to_client_bytes = totals.to_client_bytes,
            copied_bytes = totals.copied_bytes,
            waiting_bytes,
            doorbells = totals.doorbells,
            "totals"
        );
    }

    fn register_listeners(&mut self) -> io::Result<bool> {
        let Some(front) = &mut self.front else { return Ok(false) };
        front.listeners.register(self.poll.registry(), Token(LISTENERS))?;
        Ok(true)
    }

    /// Accepts what waits. Answers whether to try again later: the system had no room for another connection.
    fn accept(&mut self, now: Instant) -> bool {
        let Some(Front { listeners, doors }) = &mut self.front else { return false };
        let mut mine = Vec::new();
        let mut again = false;
        listeners.accept(|found| match found {
            Ok(mut link) if self.shared.connections() >= self.shared.connections_max => {
                tracing::warn!(client = &*link.peer().address, "too many connections: one more is refused");
                self.totals.refused += 1;
                link.abort(AbortReason::Limit);
            }
            Ok(link) => {
                let boards = self.shared.boards.iter().enumerate();
                let fewest = boards.min_by_key(|(_, board)| board.connections.load(Ordering::Relaxed));
                let Some((thread, board)) = fewest else { return };
                board.connections.fetch_add(1, Ordering::Relaxed);
                match thread == self.id {
                    true => mine.push(link),
                    false => doors[thread].send(Arrival::Client(link)),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                again = true;
            }
        });
        for link in mine {
            self.adopt(link, now);
        }
        again
    }

    /// A client of this thread's, for whom a way upstream is begun.
    fn adopt(&mut self, mut client: Box<dyn Link>, now: Instant) {
        self.totals.accepted += 1;
        let table = &mut self.table;
        let slot = table.vacant.pop().unwrap_or_else(|| {
            table.bridges.push(None);
            (table.bridges.len() - 1) as u32
        });
        table.next_ticket += 1;
        let ticket = table.next_ticket;
        tracing::debug!(client = &*client.peer().address, "accepted");
        let registry = self.poll.registry();
        let token = Token(slot as usize * 2);
        let registered = client.register(registry, token).map_err(|error| format!("cannot wait for it: {error}"));
        let begun = registered.and_then(|()| self.road.begin((slot, ticket), &self.door, &self.pool, registry));
        let deadline = now + self.dial_timeout;
        match begun {
            Ok((far, link_id)) => {
                let mut bridge = Bridge::new(client, far, ticket, now, deadline);
                bridge.link_id = link_id;
                self.table.bridges[slot as usize] = Some(bridge);
                self.table.timed.push(slot);
            }
            Err(why) => {
                let far = crate::bridge::Far::Dialling(Arc::default());
                self.table.bridges[slot as usize] = Some(Bridge::new(client, far, ticket, now, deadline));
                self.end(slot, &Reason::Unreachable(why), now);
            }
        }
    }

    fn dialled(&mut self, slot: u32, ticket: u64, outcome: io::Result<Found>, now: Instant) {
        let Some(bridge) = self.table.get(slot as usize).filter(|bridge| bridge.ticket == ticket) else { return };
        let registry = self.poll.registry();
        let joined = outcome.and_then(|found| {
            match found {
                Found::Link(mut link) => {
                    link.register(registry, Token(slot as usize * 2 + 1))?;
                    bridge.join(link);
                }
                Found::Token(token, shown) => {
                    let (end, id) = self.road.ask(slot, token, &self.pool, registry).map_err(io::Error::other)?;
                    bridge.ask(end, id, shown);
                }
            }
            Ok(())
        });
        match joined {
            Ok(()) => self.table.touch(slot),
            Err(error) => self.end(slot, &Reason::Unreachable(error.to_string()), now),
        }
    }

    fn take_edges(&mut self) {
        let mut edges = std::mem::take(&mut self.table.edges);
        for (slot, ReadinessEdges { readable, writable, closed }) in edges.drain(..) {
            if let Some(bridge) = self.table.get(slot as usize) {
                bridge.upstream_edge(readable, writable, closed);
            }
            self.table.touch(slot);
        }
        self.table.edges = edges;
    }

    /// Everybody who is ready has a turn; who has more to do is ready again.
    fn turns(&mut self, now: Instant) {
        let ready = std::mem::take(&mut self.table.ready);
        for slot in ready {
            let Some(bridge) = self.table.bridges.get_mut(slot as usize).and_then(Option::as_mut) else { continue };
            bridge.is_ready = false;
            let had_deadline = bridge.deadline.is_some();
            let (there, back) = bridge.bytes();
            let turn = bridge.run(now, &self.pool, &mut self.totals);
            let bytes = bridge.bytes();
            self.totals.to_upstream_bytes += bytes.0 - there;
            self.totals.to_client_bytes += bytes.1 - back;
            if bridge.deadline.is_some() && !had_deadline {
                self.table.timed.push(slot);
            }
            match turn {
                Turn::Going { more: true } => self.table.touch(slot),
                Turn::Going { more: false } => {}
                Turn::Over(reason) => self.end(slot, &reason, now),
            }
        }
    }

    /// Looks for deadlines that have passed.
    fn check(&mut self, now: Instant) {
        if self.table.timed.is_empty() || self.table.next_look.is_some_and(|at| now < at) {
            return;
        }
        self.table.next_look = Some(now + LOOK_UP);
        let mut late = Vec::new();
        let Table { timed, bridges, .. } = &mut self.table;
        timed.retain(|slot| {
            let bridge = bridges[*slot as usize].as_ref();
            let deadline = bridge.and_then(|bridge| bridge.deadline);
            let is_late = deadline.is_some_and(|deadline| now >= deadline);
            if is_late {
                late.push(*slot);
            }
            deadline.is_some() && !is_late
        });
        // A place that was given to another since may be there twice.
        timed.sort_unstable();
        timed.dedup();
        for slot in late {
            if let Some(reason) = self.table.get(slot as usize).map(|bridge| bridge.overdue()) {
                self.end(slot, &reason, now);
            }
        }
    }

    fn end_all(&mut self, now: Instant) {
        for slot in 0..self.table.bridges.len() as u32 {
            self.end(slot, &Reason::Stopped, now);
        }
    }

    /// A connection is over: its links end, and a line says what it was.
    fn end(&mut self, slot: u32, reason: &Reason, now: Instant) {
        let Some(bridge) = self.table.bridges[slot as usize].take() else { return };
        self.table.vacant.push(slot);
        self.road.forget(bridge.link_id);
        self.shared.boards[self.id].connections.fetch_sub(1, Ordering::Relaxed);
        let (to_broker_bytes, to_client_bytes) = bridge.bytes();
        let ms = now.saturating_duration_since(bridge.began).as_millis() as u64;
        let client = bridge.client();
        match reason {
            Reason::Unreachable(_) => {
                self.totals.unreachable += 1;
                tracing::warn!(client, ms, %reason, "connection refused");
            }
            reason => {
                self.totals.broken += u64::from(!matches!(reason, Reason::Closed));
                tracing::info!(client, to_broker_bytes, to_client_bytes, ms, %reason, "connection ended");
            }
        }
        bridge.end(reason, self.poll.registry());
    }
}

/// One wait; a signal is no reason to end.
fn wait_for(poll: &mut Poll, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, wait) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        outcome => outcome,
    }
}
