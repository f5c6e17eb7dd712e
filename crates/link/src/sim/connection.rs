//! A simulated connection as its simulator sees it: time, readiness edges, faults. It decides nothing by itself.

use super::SimOptions;
use super::direction::SimDirection;
use splitmix::SplitMix64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of the two ends of a simulated connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimSide {
    /// The first link of a pair.
    Left,
    /// The second link of a pair.
    Right,
}

impl SimSide {
    /// The other end.
    pub fn other(self) -> SimSide {
        match self {
            SimSide::Left => SimSide::Right,
            SimSide::Right => SimSide::Left,
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Readiness edges of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimEdges {
    /// Bytes or the end of the stream have arrived.
    pub readable: bool,
    /// There is room again after `Blocked`.
    pub writable: bool,
    /// The peer's stream has ended, or the connection broke.
    pub closed: bool,
}

impl SimEdges {
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimCut {
    /// Both ends lose the connection at once, with all bytes in flight (a reset).
    Reset,
    /// This end's process vanishes: its stream ends with what has arrived, and it never reads again.
    Vanish(SimSide),
    /// No byte passes any more, and neither end notices.
    Silence,
}

/// The state of the connection as one end has seen it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SimEndState {
    Connected,
    /// It is lost, and the owner has not seen the error yet.
    Broken,
    /// It has ended, and the owner has seen that.
    Closed,
}

pub(super) struct SimState {
    pub step: u64,
    pub chance: SplitMix64,
    pub options: SimOptions,
    directions: [SimDirection; 2],
    end_states: [SimEndState; 2],
    edges: [SimEdges; 2],
    silent: bool,
    cut_at: [Option<(u64, SimCut)>; 2],
}

impl SimState {
    /// The direction in which an end sends.
    pub fn outbound(&mut self, side: SimSide) -> &mut SimDirection {
        &mut self.directions[side.index()]
    }

    /// The direction from which an end receives.
    pub fn inbound(&mut self, side: SimSide) -> &mut SimDirection {
        &mut self.directions[side.other().index()]
    }

    pub fn end_state(&mut self, side: SimSide) -> &mut SimEndState {
        &mut self.end_states[side.index()]
    }

    pub fn edges(&mut self, side: SimSide) -> &mut SimEdges {
        &mut self.edges[side.index()]
    }

    /// The step in which bytes sent now arrive; `None`: at once.
    pub fn arrival_step(&mut self) -> Option<u64> {
        let max = self.options.delay_steps_max;
        if max == 0
            && !self.options.scatter
            && !self.silent
            && self.directions.iter().all(|direction| direction.bytes_per_step_max.is_none())
        {
            return None;
        }
        let delay = self.chance.between(0, u64::from(max));
        Some(self.step + delay)
    }

    /// Raises the edges for what has arrived at an end.
    pub fn note_arrival(&mut self, side: SimSide) {
        let direction = self.inbound(side);
        let ended = direction.end_arrived() && !direction.end_reported;
        direction.end_reported |= ended;
        let edges = self.edges(side);
        edges.readable = true;
        edges.closed |= ended;
    }

    /// Makes a scheduled cut once its byte is reached.
    pub fn check_cut(&mut self, from: SimSide) {
        if let Some((bytes, cut)) = self.cut_at[from.index()]
            && self.directions[from.index()].received_bytes >= bytes
        {
            self.cut_at[from.index()] = None;
            self.cut(cut);
        }
    }

    /// Bytes that may still pass before a scheduled cut.
    pub fn bytes_until_cut(&mut self, from: SimSide) -> usize {
        let passed = self.directions[from.index()].received_bytes;
        self.cut_at[from.index()].map_or(usize::MAX, |(bytes, _)| bytes.saturating_sub(passed) as usize)
    }

    /// Loses the connection at one end: the owner's next call returns the error.
    pub fn break_end(&mut self, side: SimSide) {
        self.inbound(side).discard_bytes(true);
        if *self.end_state(side) == SimEndState::Connected {
            *self.end_state(side) = SimEndState::Broken;
            *self.edges(side) = SimEdges { readable: true, writable: true, closed: true };
        }
    }

    /// An end is dropped: what it sent can still be read, then its stream ends; bytes sent to it are discarded.
    pub fn close_end(&mut self, side: SimSide, keep_under_way: bool) {
        *self.end_state(side) = SimEndState::Closed;
        if self.silent {
            return;
        }
        let incoming = self.inbound(side);
        let unread = !incoming.is_empty();
        incoming.discard_bytes(true);
        incoming.receiver_gone = true;
        let waited = std::mem::take(&mut incoming.sender_blocked);
        if waited {
            self.edges(side.other()).writable = true;
        }
        if unread {
            // As in TCP, closing with unread bytes resets the connection.
            self.break_end(side.other());
            return;
        }
        let outgoing = self.outbound(side);
        outgoing.finished = true;
        if !keep_under_way {
            outgoing.discard_bytes(false);
        }
        if outgoing.end_arrived() {
            self.note_arrival(side.other());
        }
    }

    /// An end aborts the connection.
    pub fn abort(&mut self, side: SimSide) {
        *self.end_state(side) = SimEndState::Closed;
        self.inbound(side).discard_bytes(true);
        self.inbound(side).receiver_gone = true;
        if !self.silent {
            self.break_end(side.other());
        }
    }

    fn cut(&mut self, cut: SimCut) {
        match cut {
            // After a silent cut nothing reaches either end, not even a reset.
            SimCut::Reset if self.silent => {}
            SimCut::Reset => {
                self.break_end(SimSide::Left);
                self.break_end(SimSide::Right);
            }
            SimCut::Vanish(side) => self.close_end(side, false),
            SimCut::Silence => self.silent = true,
        }
    }
}

/// The simulator's handle on a connection. Clones are handles on the same one.
#[derive(Clone)]
pub struct SimConnection(Arc<Mutex<SimState>>);

impl SimConnection {
    pub(super) fn new(options: &SimOptions) -> Self {
        let window = options.window();
        SimConnection(Arc::new(Mutex::new(SimState {
            step: 0,
            chance: SplitMix64::new(options.seed),
            options: options.clone(),
            directions: [SimDirection::new(window), SimDirection::new(window)],
            end_states: [SimEndState::Connected; 2],
            // Both edges are set, as a poll reports on registration.
            edges: [SimEdges { readable: true, writable: true, closed: false }; 2],
            silent: false,
            cut_at: [None; 2],
        })))
    }

    /// Whether both are handles on one connection.
    pub fn is_same(&self, other: &SimConnection) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SimState> {
        // A test that panics with the lock held has failed already; the state is consistent between calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances time by one step: bytes that are due arrive. Returns whether something did.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        let SimState { step, chance, options, directions: ways, silent, .. } = &mut *state;
        *step += 1;
        if *silent {
            return false;
        }
        let moved = [0, 1].map(|direction: usize| {
            let had_ended = ways[direction].end_arrived();
            let arrived = ways[direction].advance(*step, options.scatter, chance);
            arrived || (!had_ended && ways[direction].end_arrived())
        });
        for side in [SimSide::Left, SimSide::Right] {
            if moved[side.index()] {
                state.note_arrival(side.other());
            }
            let direction = state.outbound(side);
            if direction.sender_blocked && direction.free_bytes() > 0 {
                direction.sender_blocked = false;
                state.edges(side).writable = true;
            }
        }
        moved[0] || moved[1]
    }

    /// Takes the edges of an end since the last call, as an edge-triggered poll would report them.
    pub fn take_edges(&self, side: SimSide) -> SimEdges {
        std::mem::take(self.state().edges(side))
    }

    /// Whether there are edges to take.
    pub fn has_edges(&self, side: SimSide) -> bool {
        self.state().edges(side).any()
    }

    /// Cuts the connection now.
    pub fn cut(&self, cut: SimCut) {
        self.state().cut(cut);
    }

    /// Cuts the connection once `bytes` more bytes from `from` have been received, at any point of the protocol above.
    pub fn cut_after(&self, from: SimSide, bytes: u64, cut: SimCut) {
        let mut state = self.state();
        let at = state.outbound(from).received_bytes + bytes;
        state.cut_at[from.index()] = Some((at, cut));
    }

    /// Simulates a slow reader: at most so many bytes arrive at `side` in a step; zero stops it, `None` lifts the
    /// limit.
    pub fn limit_rate(&self, side: SimSide, bytes_per_step: Option<usize>) {
        self.state().inbound(side).bytes_per_step_max = bytes_per_step;
    }

    /// Bytes that were sent to an end and that it has not received.
    pub fn unread_bytes(&self, side: SimSide) -> usize {
        let mut state = self.state();
        let direction = state.inbound(side);
        direction.buffered_bytes()
    }

    /// Bytes of the heap that an end has allocated for what it sends: they are the connection's, and outlive the end.
    pub fn outbound_heap_bytes(&self, side: SimSide) -> isize {
        self.state().outbound(side).heap_bytes
    }

    /// Whether bytes are in flight, an end has edges to take, or the next step raises one.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        let under_way = |direction: &SimDirection| {
            let resumes = direction.sender_blocked && direction.free_bytes() > 0;
            resumes || direction.bytes_per_step_max != Some(0) && direction.is_in_flight()
        };
        let awaited =
            |side: SimSide| state.edges[side.index()].any() && state.end_states[side.index()] != SimEndState::Closed;
        (!state.silent && state.directions.iter().any(under_way)) || awaited(SimSide::Left) || awaited(SimSide::Right)
    }

    /// Whether this end's link was dropped or aborted, or has reported the loss of the connection.
    pub fn is_closed(&self, side: SimSide) -> bool {
        *self.state().end_state(side) == SimEndState::Closed
    }
}
