//! The cable between two simulated ends: time, edges, faults.
//!
//! Enters: steps, cuts, paces.  Leaves: the edges that a poll would report.
//! Owns:   both directions of one connection.
//! Never:  decides when something happens; whoever holds the seed does.

use super::SimOptions;
use super::rng::SplitMix64;
use super::direction::SimDirection;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of the two ends.
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
    /// Bytes have arrived, or the end.
    pub readable: bool,
    /// There is room again after `Blocked`.
    pub writable: bool,
    /// The peer's stream has ended, or the connection broke.
    pub closed: bool,
}

impl SimEdges {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimCut {
    /// Both ends lose the connection at once, with whatever was under way (a reset).
    Reset,
    /// This end's process vanishes: its stream ends within what is under way, and it never reads again.
    Vanish(SimSide),
    /// Nothing passes any more, and nobody is told.
    Silence,
}

/// What an end knows of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SimEndState {
    Connected,
    /// It broke, and the owner has not been told.
    Broken,
    /// It is over, and the owner knows.
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
    /// The direction that an end sends to.
    pub fn outbound(&mut self, side: SimSide) -> &mut SimDirection {
        &mut self.directions[side.index()]
    }

    /// The direction that an end receives from.
    pub fn inbound(&mut self, side: SimSide) -> &mut SimDirection {
        &mut self.directions[side.other().index()]
    }

    pub fn end_state(&mut self, side: SimSide) -> &mut SimEndState {
        &mut self.end_states[side.index()]
    }

    pub fn edges(&mut self, side: SimSide) -> &mut SimEdges {
        &mut self.edges[side.index()]
    }

    /// When bytes sent now arrive; `None`: they are there.
    pub fn arrival_step(&mut self) -> Option<u64> {
        let max = self.options.delay_steps_max;
        if max == 0 && !self.options.scatter && !self.silent && self.directions.iter().all(|way| way.bytes_per_step_max.is_none()) {
            return None;
        }
        let delay = self.chance.between(0, u64::from(max));
        Some(self.step + delay)
    }

    /// Reports what has come for an end.
    pub fn note_arrival(&mut self, side: SimSide) {
        let way = self.inbound(side);
        let ended = way.end_arrived() && !way.end_reported;
        way.end_reported |= ended;
        let edges = self.edges(side);
        edges.readable = true;
        edges.closed |= ended;
    }

    /// A scheduled cut may have been reached.
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

    /// An end breaks: its owner is told by its next call.
    pub fn break_end(&mut self, side: SimSide) {
        self.inbound(side).discard_bytes(true);
        if *self.end_state(side) == SimEndState::Connected {
            *self.end_state(side) = SimEndState::Broken;
            *self.edges(side) = SimEdges { readable: true, writable: true, closed: true };
        }
    }

    /// An end is gone without a word: what has arrived can still be read, then the stream ends; bytes for it go nowhere.
    pub fn close_end(&mut self, side: SimSide, keep_under_way: bool) {
        *self.end_state(side) = SimEndState::Closed;
        if self.silent {
            return;
        }
        let inward = self.inbound(side);
        let unread = !inward.is_empty();
        inward.discard_bytes(true);
        inward.receiver_gone = true;
        let waited = std::mem::take(&mut inward.sender_blocked);
        if waited {
            self.edges(side.other()).writable = true;
        }
        if unread {
            // As TCP has it: whoever leaves with bytes unread resets the connection.
            self.break_end(side.other());
            return;
        }
        let outward = self.outbound(side);
        outward.finished = true;
        if !keep_under_way {
            outward.discard_bytes(false);
        }
        if outward.end_arrived() {
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
            // Nor is it told of what comes later.
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

/// The simulator's hold on a connection. Clones are the same cable.
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
            // As a poll does on registration: both directions may be tried.
            edges: [SimEdges { readable: true, writable: true, closed: false }; 2],
            silent: false,
            cut_at: [None; 2],
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SimState> {
        // A test that panics with the lock held has failed already; the state is whole between calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time moves on by one step: what is due arrives. Answers whether something did.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        let SimState { step, chance, options, directions: ways, silent, .. } = &mut *state;
        *step += 1;
        if *silent {
            return false;
        }
        let moved = [0, 1].map(|way: usize| {
            let had_ended = ways[way].end_arrived();
            let arrived = ways[way].advance(*step, options.scatter, chance);
            arrived || (!had_ended && ways[way].end_arrived())
        });
        for side in [SimSide::Left, SimSide::Right] {
            if moved[side.index()] {
                state.note_arrival(side.other());
            }
            let way = state.outbound(side);
            if way.sender_blocked && way.free_bytes() > 0 {
                way.sender_blocked = false;
                state.edges(side).writable = true;
            }
        }
        moved[0] || moved[1]
    }

    /// The edges of an end since the last call, as an edge-triggered poll reports them.
    pub fn take_edges(&self, side: SimSide) -> SimEdges {
        std::mem::take(self.state().edges(side))
    }

    /// Whether there are edges that nobody took, without taking them.
    pub fn has_edges(&self, side: SimSide) -> bool {
        self.state().edges(side).any()
    }

    /// Cuts the connection now.
    pub fn cut(&self, cut: SimCut) {
        self.state().cut(cut);
    }

    /// Cuts it once so many more bytes from `from` have been received: in the middle of anything.
    pub fn cut_after(&self, from: SimSide, bytes: u64, cut: SimCut) {
        let mut state = self.state();
        let at = state.outbound(from).received_bytes + bytes;
        state.cut_at[from.index()] = Some((at, cut));
    }

    /// A slow reader: at most so many bytes arrive at `side` in a step; zero stops it, `None` lifts the limit.
    pub fn limit_rate(&self, side: SimSide, bytes_per_step: Option<usize>) {
        self.state().inbound(side).bytes_per_step_max = bytes_per_step;
    }

    /// Bytes that were sent to an end and not received by it.
    pub fn unread_bytes(&self, side: SimSide) -> usize {
        let mut state = self.state();
        let way = state.inbound(side);
        way.buffered_bytes()
    }

    /// Whether bytes are still under way, or an end has edges that it did not take.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        let under_way = |way: &SimDirection| way.bytes_per_step_max != Some(0) && way.is_in_flight();
        let awaited = |side: SimSide| state.edges[side.index()].any() && state.end_states[side.index()] != SimEndState::Closed;
        (!state.silent && state.directions.iter().any(under_way)) || awaited(SimSide::Left) || awaited(SimSide::Right)
    }

    /// Whether this end's link was dropped, aborted or has lost the connection and knows it.
    pub fn is_closed(&self, side: SimSide) -> bool {
        *self.state().end_state(side) == SimEndState::Closed
    }
}
