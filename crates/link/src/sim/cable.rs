//! The cable between two simulated ends: time, edges, faults.
//!
//! Enters: steps, cuts, paces.  Leaves: the edges that a poll would report.
//! Owns:   both directions of one connection.
//! Never:  decides when something happens; whoever holds the seed does.

use super::SimOptions;
use super::chance::Chance;
use super::way::Way;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first link of a pair.
    Left,
    /// The second link of a pair.
    Right,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Readiness edges of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Bytes have arrived, or the end.
    pub readable: bool,
    /// There is room again after `Blocked`.
    pub writable: bool,
    /// The peer's stream has ended, or the connection broke.
    pub closed: bool,
}

impl Edges {
    /// Whether there is any.
    pub fn any(self) -> bool {
        self.readable || self.writable || self.closed
    }
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends lose the connection at once, with whatever was under way (a reset).
    Reset,
    /// This end's process vanishes: its stream ends within what is under way, and it never reads again.
    Vanish(Side),
    /// Nothing passes any more, and nobody is told.
    Silence,
}

/// What an end knows of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Alive,
    /// It broke, and the owner has not been told.
    Broken,
    /// It is over, and the owner knows.
    Over,
}

pub(super) struct State {
    pub step: u64,
    pub chance: Chance,
    pub options: SimOptions,
    ways: [Way; 2],
    standing: [Standing; 2],
    edges: [Edges; 2],
    silent: bool,
    cut_at: [Option<(u64, Cut)>; 2],
}

impl State {
    /// The direction that an end sends to.
    pub fn outward(&mut self, side: Side) -> &mut Way {
        &mut self.ways[side.index()]
    }

    /// The direction that an end receives from.
    pub fn inward(&mut self, side: Side) -> &mut Way {
        &mut self.ways[side.other().index()]
    }

    pub fn standing(&mut self, side: Side) -> &mut Standing {
        &mut self.standing[side.index()]
    }

    pub fn edges(&mut self, side: Side) -> &mut Edges {
        &mut self.edges[side.index()]
    }

    /// When bytes sent now arrive; `None`: they are there.
    pub fn due(&mut self) -> Option<u64> {
        let max = self.options.delay_steps_max;
        if max == 0 && !self.options.scatter && !self.silent && self.ways.iter().all(|way| way.pace.is_none()) {
            return None;
        }
        let delay = self.chance.between(0, u64::from(max));
        Some(self.step + delay)
    }

    /// Reports what has come for an end.
    pub fn note_arrival(&mut self, side: Side) {
        let way = self.inward(side);
        let ended = way.end_arrived() && !way.end_told;
        way.end_told |= ended;
        let edges = self.edges(side);
        edges.readable = true;
        edges.closed |= ended;
    }

    /// A scheduled cut may have been reached.
    pub fn check_cut(&mut self, from: Side) {
        if let Some((bytes, cut)) = self.cut_at[from.index()]
            && self.ways[from.index()].passed >= bytes
        {
            self.cut_at[from.index()] = None;
            self.cut(cut);
        }
    }

    /// Bytes that may still pass before a scheduled cut.
    pub fn until_cut(&mut self, from: Side) -> usize {
        let passed = self.ways[from.index()].passed;
        self.cut_at[from.index()].map_or(usize::MAX, |(bytes, _)| bytes.saturating_sub(passed) as usize)
    }

    /// An end breaks: its owner is told by its next call.
    pub fn break_end(&mut self, side: Side) {
        self.inward(side).drop_bytes(true);
        if *self.standing(side) == Standing::Alive {
            *self.standing(side) = Standing::Broken;
            *self.edges(side) = Edges { readable: true, writable: true, closed: true };
        }
    }

    /// An end is gone without a word: what has arrived can still be read, then the stream ends; bytes for it go nowhere.
    pub fn leave(&mut self, side: Side, keep_under_way: bool) {
        *self.standing(side) = Standing::Over;
        if self.silent {
            return;
        }
        let inward = self.inward(side);
        let unread = !inward.is_empty();
        inward.drop_bytes(true);
        inward.deaf = true;
        let waited = std::mem::take(&mut inward.sender_waits);
        if waited {
            self.edges(side.other()).writable = true;
        }
        if unread {
            // As TCP has it: whoever leaves with bytes unread resets the connection.
            self.break_end(side.other());
            return;
        }
        let outward = self.outward(side);
        outward.finished = true;
        if !keep_under_way {
            outward.drop_bytes(false);
        }
        if outward.end_arrived() {
            self.note_arrival(side.other());
        }
    }

    /// An end aborts the connection.
    pub fn abort(&mut self, side: Side) {
        *self.standing(side) = Standing::Over;
        self.inward(side).drop_bytes(true);
        self.inward(side).deaf = true;
        if !self.silent {
            self.break_end(side.other());
        }
    }

    fn cut(&mut self, cut: Cut) {
        match cut {
            // Nor is it told of what comes later.
            Cut::Reset if self.silent => {}
            Cut::Reset => {
                self.break_end(Side::Left);
                self.break_end(Side::Right);
            }
            Cut::Vanish(side) => self.leave(side, false),
            Cut::Silence => self.silent = true,
        }
    }
}

/// The simulator's hold on a connection. Clones are the same cable.
#[derive(Clone)]
pub struct Cable(Arc<Mutex<State>>);

impl Cable {
    pub(super) fn new(options: &SimOptions) -> Self {
        let window = options.window();
        Cable(Arc::new(Mutex::new(State {
            step: 0,
            chance: Chance::new(options.seed),
            options: options.clone(),
            ways: [Way::new(window), Way::new(window)],
            standing: [Standing::Alive; 2],
            // As a poll does on registration: both directions may be tried.
            edges: [Edges { readable: true, writable: true, closed: false }; 2],
            silent: false,
            cut_at: [None; 2],
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A test that panics with the lock held has failed already; the state is whole between calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time moves on by one step: what is due arrives. Answers whether something did.
    pub fn step(&self) -> bool {
        let mut state = self.state();
        let State { step, chance, options, ways, silent, .. } = &mut *state;
        *step += 1;
        if *silent {
            return false;
        }
        let moved = [0, 1].map(|way: usize| {
            let had_ended = ways[way].end_arrived();
            let arrived = ways[way].advance(*step, options.scatter, chance);
            arrived || (!had_ended && ways[way].end_arrived())
        });
        for side in [Side::Left, Side::Right] {
            if moved[side.index()] {
                state.note_arrival(side.other());
            }
            let way = state.outward(side);
            if way.sender_waits && way.room() > 0 {
                way.sender_waits = false;
                state.edges(side).writable = true;
            }
        }
        moved[0] || moved[1]
    }

    /// The edges of an end since the last call, as an edge-triggered poll reports them.
    pub fn take_edges(&self, side: Side) -> Edges {
        std::mem::take(self.state().edges(side))
    }

    /// Whether there are edges that nobody took, without taking them.
    pub fn has_edges(&self, side: Side) -> bool {
        self.state().edges(side).any()
    }

    /// Cuts the connection now.
    pub fn cut(&self, cut: Cut) {
        self.state().cut(cut);
    }

    /// Cuts it once so many more bytes from `from` have been received: in the middle of anything.
    pub fn cut_after(&self, from: Side, bytes: u64, cut: Cut) {
        let mut state = self.state();
        let at = state.outward(from).passed + bytes;
        state.cut_at[from.index()] = Some((at, cut));
    }

    /// A slow reader: at most so many bytes arrive at `side` in a step; zero stops it, `None` lifts the limit.
    pub fn set_pace(&self, side: Side, bytes_per_step: Option<usize>) {
        self.state().inward(side).pace = bytes_per_step;
    }

    /// Bytes that were sent to an end and not received by it.
    pub fn bytes_for(&self, side: Side) -> usize {
        let mut state = self.state();
        let way = state.inward(side);
        way.room_used()
    }

    /// Whether bytes are still under way, or an end has edges that it did not take.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        let under_way = |way: &Way| way.pace != Some(0) && way.is_under_way();
        let awaited = |side: Side| state.edges[side.index()].any() && state.standing[side.index()] != Standing::Over;
        (!state.silent && state.ways.iter().any(under_way)) || awaited(Side::Left) || awaited(Side::Right)
    }

    /// Whether this end's link was dropped, aborted or has lost the connection and knows it.
    pub fn is_over(&self, side: Side) -> bool {
        *self.state().standing(side) == Standing::Over
    }
}
