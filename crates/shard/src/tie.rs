//! A tie: one federation link as its shard has it, from one connection to the next.
//!
//! Enters: what becomes of its connections, of its routes.  Leaves: what it is doing, and when to look again.
//! Owns:   the waits between two tries, the counts of its routes.
//! Never:  dials; says a word to the other broker, which the peering does.

use broker::ConnectionSlot;
use catalog::WatchId;
use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN, REFUSED_WAIT};
use federation::{Direction, LinkSpec, Peering, Tracer};
use std::time::{Duration, Instant};

/// Where a tie stands between connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It has nothing to carry.
    Idle,
    /// Another try is made then.
    Waiting { until: Instant, refused: bool },
    /// Somebody dials.
    Dialling,
    /// There is a connection.
    Connected { slot: ConnectionSlot },
}

/// What a route has here, beside what its peering knows.
#[derive(Default)]
pub(crate) struct RouteHere {
    /// Writes hops into what is pulled, once it is known from whom.
    pub tracer: Option<Tracer>,
    /// Of a pulled route that is acknowledged: how many messages of a batch are, before the rest has its turn.
    pub ack_every: u64,
    /// How far the side here of a pushed route is made.
    pub made: u8,
    /// Another try is made then.
    pub retry_at: Option<Instant>,
    attempts: u32,
    pub messages: u64,
    pub bytes: u64,
    pub redelivered: u64,
    pub dropped: u64,
    /// Of a dynamic route: what it hears of the bindings here.
    pub watch: Option<WatchId>,
}

/// A federation link.
pub(crate) struct Tie {
    pub spec: LinkSpec,
    /// Which way its routes go. A link has a connection for each: the other broker reads nothing of one on which it holds
    /// back what is pushed, and must hear what it is asked for by those that pull.
    pub direction: Direction,
    pub peering: Peering,
    pub stage: Stage,
    /// Since when it is in the state that was shown last.
    pub state: (&'static str, Instant),
    pub routes: Vec<RouteHere>,
    pub connections: u64,
    pub last_error: Option<Box<str>>,
    pub transport: &'static str,
    /// What must last until its connection is open.
    pub first: Option<Box<dyn std::any::Any + Send>>,
    /// When the source is asked next what waits, while there is a connection.
    pub lag_at: Instant,
    /// Until then routes that were there before this broker began take nothing.
    pub waits_until: Option<Instant>,
    attempts: u32,
    /// Its dial under way.
    pub serial: u64,
    /// It was removed, and goes when its connection has.
    pub leaves: bool,
    /// Its last connection, which this broker has ended, is not over. The other one may be busy with what it was sent there, and
    /// what it was sent on the next one would come before that.
    pub ending: bool,
}

/// So long a wait after so many tries, between half of it and all of it, by `chance`.
fn back_off(attempts: u32, chance: u64) -> Duration {
    let whole = BACK_OFF_MIN.saturating_mul(1 << attempts.min(16)).min(BACK_OFF_MAX);
    let half = whole / 2;
    half + Duration::from_micros(chance % (half.as_micros() as u64 + 1))
}

impl Tie {
    pub fn new(spec: LinkSpec, direction: Direction, peering: Peering, now: Instant) -> Self {
        Tie {
            spec,
            direction,
            peering,
            stage: Stage::Idle,
            state: ("", now),
            routes: Vec::new(),
            connections: 0,
            last_error: None,
            transport: "",
            first: None,
            lag_at: now,
            waits_until: None,
            attempts: 0,
            serial: 0,
            leaves: false,
            ending: false,
        }
    }

    /// What a route has here.
    pub fn route(&mut self, number: usize) -> &mut RouteHere {
        if self.routes.len() <= number {
            self.routes.resize_with(number + 1, RouteHere::default);
        }
        &mut self.routes[number]
    }

    /// There is no connection any more, or none was made.
    pub fn lost(&mut self, why: Option<Box<str>>, refused: bool, at_once: bool, chance: u64, now: Instant) {
        self.last_error = why.or(self.last_error.take());
        self.peering.disconnect();
        self.transport = "";
        self.first = None;
        for route in &mut self.routes {
            (route.tracer, route.made, route.retry_at) = (None, 0, None);
        }
        let wait = match (at_once, refused) {
            (true, _) => Duration::ZERO,
            (false, true) => REFUSED_WAIT / 2 + Duration::from_micros(chance % (REFUSED_WAIT.as_micros() as u64 / 2)),
            (false, false) => back_off(self.attempts, chance),
        };
        self.attempts = self.attempts.saturating_add(1);
        self.stage = Stage::Waiting { until: now + wait, refused };
    }

    /// A route cannot run as things are; it is tried again.
    pub fn route_over(&mut self, number: usize, chance: u64, now: Instant) {
        let route = self.route(number);
        (route.tracer, route.made) = (None, 0);
        route.retry_at = Some(now + back_off(route.attempts + 2, chance));
        route.attempts = route.attempts.saturating_add(1);
    }

    /// Messages flow on a route: whatever was wrong is over.
    pub fn runs(&mut self, number: usize) {
        self.attempts = 0;
        self.last_error = None;
        let route = self.route(number);
        (route.attempts, route.retry_at) = (0, None);
    }

    /// When it must be looked at, at the latest.
    pub fn due(&self) -> Option<Instant> {
        let routes = self.routes.iter().filter_map(|route| route.retry_at).min();
        match self.stage {
            Stage::Idle | Stage::Dialling => None,
            Stage::Waiting { .. } if self.ending => None,
            Stage::Waiting { until, .. } => Some(until),
            Stage::Connected { .. } => [routes, self.waits_until, Some(self.lag_at)].into_iter().flatten().min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::back_off;
    use federation::limits::{BACK_OFF_MAX, BACK_OFF_MIN};

    #[test]
    fn waits_grow_to_a_limit_and_differ() {
        for chance in [0, 1, 12_345, u64::MAX] {
            assert!((BACK_OFF_MIN / 2..=BACK_OFF_MIN).contains(&back_off(0, chance)));
            assert!(back_off(1, chance) >= BACK_OFF_MIN);
            assert!((BACK_OFF_MAX / 2..=BACK_OFF_MAX).contains(&back_off(u32::MAX, chance)));
        }
        assert_ne!(back_off(3, 1), back_off(3, 400_000));
    }
}
