//! The reports of a shard: hands them to a reader outside, a piece a tick, and closes connections by their names.
//!
//! Enters: requests of other threads.  Leaves: pieces, each of a bounded number of objects. While nobody asks, nothing is noted.

use crate::connection::ConnectionPhase;
use crate::connection_report::{ConnectionReport, connection_name};
use crate::dispatcher::Dispatcher;
use crate::limits::{
    CONNECTIONS_CLOSED_PER_TICK, CONNECTIONS_SEARCHED_PER_TICK, REPORT_IDLE, REPORT_OBJECTS_MAX, REPORT_REQUESTS_MAX,
    SEARCHES_MAX,
};
use crate::sessions::Sessions;
use crate::shard_report::{ShardReport, ShardTotals};
use crate::thread_stats::ThreadStats;
use broker::{ConnectionSlot, ReportPart};
use catalog::{Refusal, SessionId};
use durability::ShardStoreMetrics;
use link::AbortReason;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::time::Instant;
use wire::{ChannelNumber, ReplyCode};

/// Which connections are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionSelector {
    /// The one with this name.
    Name(Box<str>),
    /// All of this user.
    User(Box<str>),
}

/// Connections that an operator wants closed.
pub(crate) struct CloseRequest {
    pub selector: ConnectionSelector,
    /// What their clients are told.
    pub reason: Box<str>,
    /// Gets how many were closed.
    pub reply: Sender<u32>,
}

/// A walk over the connections of the shard, which closes those that are meant.
struct ConnectionSearch {
    request: CloseRequest,
    closed: u32,
    next: u32,
}

/// What threads outside have asked this shard for.
#[derive(Default)]
pub(crate) struct ReportService {
    /// When somebody last asked for a report, while changes are noted.
    asked_at: Option<Instant>,
    waiting: VecDeque<Sender<ShardReport>>,
    searches: VecDeque<ConnectionSearch>,
    /// Connections that were told with a rendezvous under way, by slot and serial number: they are told again in the next round.
    pending_links: Vec<(ConnectionSlot, u32)>,
    /// The reader knew everything after the last piece.
    is_round_over: bool,
    /// As its thread has last told.
    pub thread: ThreadStats,
}

impl ReportService {
    /// Somebody asks for the next piece. If too many do, the request is dropped, and its reader knows by that.
    pub fn request(&mut self, reply: Sender<ShardReport>) {
        if self.waiting.len() < REPORT_REQUESTS_MAX {
            self.waiting.push_back(reply);
        }
    }

    /// Somebody wants connections closed. The request may be dropped likewise.
    pub fn close_connections(&mut self, request: CloseRequest) {
        if self.searches.len() < SEARCHES_MAX {
            self.searches.push_back(ConnectionSearch { request, closed: 0, next: 0 });
        }
    }

    /// Whether a request waits.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.waiting.is_empty() || !self.searches.is_empty()
    }

    /// Answers one request of each kind, or goes on with it.
    #[inline]
    pub fn serve(&mut self, dispatcher: &mut Dispatcher, now: Instant) {
        if self.has_work() || self.asked_at.is_some_and(|asked_at| now >= asked_at + REPORT_IDLE) {
            self.serve_requests(dispatcher, now);
        }
    }

    #[cold]
    fn serve_requests(&mut self, dispatcher: &mut Dispatcher, now: Instant) {
        if let Some(reply) = self.waiting.pop_front() {
            let report = self.report(&mut dispatcher.sessions, now);
            // A reader that has gone has no use for it, and the next one begins anew.
            if reply.send(report).is_err() {
                self.stop(&mut dispatcher.sessions);
            }
        } else if self.asked_at.is_some_and(|asked_at| now >= asked_at + REPORT_IDLE) {
            self.stop(&mut dispatcher.sessions);
        }
        if let Some(search) = self.searches.pop_front()
            && let Some(unfinished) = search.proceed(dispatcher, now)
        {
            self.searches.push_front(unfinished);
        }
    }

    /// The next piece of what has changed.
    pub fn report(&mut self, sessions: &mut Sessions, now: Instant) -> ShardReport {
        if self.asked_at.replace(now).is_none() {
            sessions.connections.changes.start();
            sessions.connections.closed_traffic.start();
            sessions.broker.observer().start();
        }
        if std::mem::take(&mut self.is_round_over) {
            self.pending_links.drain(..).for_each(|(slot, serial)| note_link(sessions, slot, serial));
        }
        let connections = changed_connections(sessions);
        let is_pending = |report: &&ConnectionReport| report.rdma.is_some_and(|usage| usage.is_pending());
        let pending = connections.changed.iter().filter(is_pending).map(|report| (report.id.slot, report.id.serial));
        self.pending_links.extend(pending);
        let room = REPORT_OBJECTS_MAX - connections.len();
        let closed_traffic: Vec<_> =
            std::iter::from_fn(|| sessions.connections.closed_traffic.next_report()).take(room).collect();
        sessions.broker.start_turn();
        let broker = sessions.broker.observer().report(room - closed_traffic.len());
        // What the channels in it have counted is among these.
        let totals = ShardTotals { thread: self.thread, ..totals(sessions) };
        let connection_table = &sessions.connections;
        let is_told = connection_table.changes.is_empty() && connection_table.closed_traffic.is_reported();
        let more = broker.more || !is_told;
        self.is_round_over = !more;
        let (shard, time_us) = (sessions.options.shard, sessions.options.time_us(now));
        ShardReport { shard, time_us, totals, connections, closed_traffic, broker, more }
    }

    /// Nobody reads any more.
    fn stop(&mut self, sessions: &mut Sessions) {
        self.asked_at = None;
        self.pending_links.clear();
        sessions.connections.changes.stop();
        sessions.connections.closed_traffic.stop();
        sessions.broker.observer().stop();
    }
}

fn totals(sessions: &mut Sessions) -> ShardTotals {
    let used_bytes = sessions.used_bytes() as u64;
    let connections = sessions.connections.len() as u64;
    let observer = sessions.broker.observer();
    let held = observer.held();
    ShardTotals {
        stats: observer.stats(),
        connections,
        channels: held.channels,
        consumers: held.consumers,
        waiting: held.waiting,
        waiting_bytes: held.waiting_bytes,
        unacknowledged: held.unacknowledged,
        held_dead_letters: held.held_dead_letters,
        dropped_dead_letters: observer.dropped_dead_letters(),
        used_bytes,
        logins: sessions.logins,
        moves: sessions.moves.stats,
        mail: sessions.effects.mailbox.stats(),
        store: sessions.store_metrics(),
        thread: ThreadStats::default(),
    }
}

impl Sessions {
    /// The numbers of this shard's store; `None` without one.
    pub fn store_metrics(&self) -> Option<ShardStoreMetrics> {
        let store = self.effects.store.as_ref()?;
        Some(ShardStoreMetrics {
            shard: self.options.shard,
            messages: store.metrics(),
            spill: store.spill_metrics(),
            journal: self.effects.journal.as_ref().map(|journal| journal.metrics()),
        })
    }
}

/// The connections that are new, have changed or are gone: as many as a piece may have.
fn changed_connections(sessions: &mut Sessions) -> ReportPart<ConnectionReport, SessionId> {
    let mut changes = std::mem::take(&mut sessions.connections.changes);
    let mut part = ReportPart { begins_anew: changes.take_begins_anew(), ..ReportPart::default() };
    let shard = sessions.options.shard;
    let places = sessions.connections.places();
    let mut looked_at = 0;
    while part.len() < REPORT_OBJECTS_MAX && looked_at < CONNECTIONS_SEARCHED_PER_TICK {
        looked_at += 1;
        let Some(place) = changes.next_place(places) else { break };
        add_report(sessions, ConnectionSlot::new(place as u32), None, &mut part);
    }
    while part.len() < REPORT_OBJECTS_MAX
        && let Some((slot, serial)) = changes.next_changed()
    {
        add_report(sessions, slot, Some(serial), &mut part);
    }
    while part.len() < REPORT_OBJECTS_MAX
        && let Some((slot, serial)) = changes.next_gone()
    {
        part.gone.push(SessionId { shard, slot, serial });
    }
    sessions.connections.changes = changes;
    part
}

/// The link of a connection may have changed.
fn note_link(sessions: &mut Sessions, slot: ConnectionSlot, serial: u32) {
    if sessions.connections.get(slot).is_some_and(|connection| connection.serial == serial) {
        sessions.connections.note_change(slot);
    }
}

fn add_report(
    sessions: &mut Sessions,
    slot: ConnectionSlot,
    serial: Option<u32>,
    part: &mut ReportPart<ConnectionReport, SessionId>,
) {
    let Some(connection) = sessions.connections.get_mut(slot) else { return };
    if serial.is_none_or(|serial| serial == connection.serial) {
        connection.is_reported = true;
        part.changed.extend(sessions.connection_report(slot));
    }
}

impl ConnectionSearch {
    /// Looks at some connections. Returns the search if there are more.
    fn proceed(mut self, dispatcher: &mut Dispatcher, now: Instant) -> Option<ConnectionSearch> {
        let places = dispatcher.sessions.connections.places() as u32;
        let (mut looked_at, mut done) = (0, 0);
        while self.next < places && looked_at < CONNECTIONS_SEARCHED_PER_TICK && done < CONNECTIONS_CLOSED_PER_TICK {
            looked_at += 1;
            let slot = ConnectionSlot::new(self.next);
            self.next += 1;
            if self.is_meant(&dispatcher.sessions, slot) {
                done += 1;
                self.close(dispatcher, slot, now);
            }
        }
        if self.next < places {
            return Some(self);
        }
        // Whoever has asked may have gone.
        let _sent = self.request.reply.send(self.closed);
        None
    }

    fn is_meant(&self, sessions: &Sessions, slot: ConnectionSlot) -> bool {
        let Some(connection) = sessions.connections.get(slot) else { return false };
        match &self.request.selector {
            ConnectionSelector::Name(name) => {
                let peer = connection.link.peer();
                let id = SessionId { shard: sessions.options.shard, slot, serial: connection.serial };
                name.starts_with(&*peer.address) && *name == connection_name(peer, id)
            }
            ConnectionSelector::User(name) => match connection.phase {
                ConnectionPhase::Open { user, .. } | ConnectionPhase::LoggedIn { user } => {
                    sessions.broker.catalog().user_name(user) == &**name
                }
                ConnectionPhase::Greeting | ConnectionPhase::Closing | ConnectionPhase::Leaving => false,
            },
        }
    }

    fn close(&mut self, dispatcher: &mut Dispatcher, slot: ConnectionSlot, now: Instant) {
        let phase = dispatcher.sessions.connections.get(slot).map(|connection| connection.phase);
        match phase {
            Some(ConnectionPhase::Open { .. }) => {
                dispatcher.sessions.broker.start_turn();
                let text = format!("CONNECTION_FORCED - {}", self.request.reason);
                let refusal = Refusal::connection(ReplyCode::ConnectionForced, text);
                dispatcher.refuse(slot, ChannelNumber::CONNECTION, refusal, (0, 0), now);
            }
            Some(ConnectionPhase::Greeting | ConnectionPhase::LoggedIn { .. }) => {
                dispatcher.abort_connection(slot, AbortReason::Operator, now);
            }
            // It is being closed already.
            Some(ConnectionPhase::Closing | ConnectionPhase::Leaving) | None => return,
        }
        self.closed += 1;
    }
}
