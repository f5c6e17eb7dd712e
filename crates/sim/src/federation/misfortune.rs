//! Misfortune: connections that break, between brokers and of clients, with a word or without.
//!
//! Enters: chance.  Leaves: cut cables, entries in the book.
//! Owns:   how often, where and how; which ends have not noticed yet.
//! Never:  cuts anything while a run rests.

use crate::federation::Run;
use link::sim::{SimConnection, SimCut, SimSide};
use std::time::{Duration, Instant};

/// A connection on which nothing passes any more, and whose ends have not been told.
pub struct Silent {
    cable: SimConnection,
    whose: String,
    since: Instant,
}

impl Run {
    /// Perhaps something breaks.
    pub(super) fn misfortune(&mut self) {
        if self.setting.cuts && self.chance.permille(15) && !self.roads.is_empty() {
            let road = self.chance.below(self.roads.len() as u64) as usize;
            self.cut(road);
        }
        if self.setting.silences && self.chance.permille(8) && !self.roads.is_empty() {
            let road = self.chance.below(self.roads.len() as u64) as usize;
            self.silence(road);
        }
        if self.setting.client_cuts && self.chance.permille(8) {
            let place = self.chance.below(self.places.len() as u64) as usize;
            let tells = self.chance.permille(400);
            self.cut_client(place, tells);
        }
    }

    /// A storm ends: what was to be cut is.
    pub(super) fn cut_doomed(&mut self) {
        self.roads.iter().filter(|road| road.is_doomed).for_each(|road| road.cable.cut(SimCut::Reset));
    }

    /// A link is cut.
    fn cut(&mut self, road: usize) {
        let [one, other] = self.roads[road].ends;
        if self.chance.permille(500) {
            self.roads[road].cable.cut(SimCut::Reset);
        } else {
            let from = if self.chance.permille(500) { SimSide::Left } else { SimSide::Right };
            let bytes = self.chance.below(2_000);
            self.roads[road].cable.cut_after(from, bytes, SimCut::Reset);
            self.roads[road].is_doomed = true;
        }
        self.note(|_| format!("the link of b{} to b{} is cut", one.place, other.place));
        self.tally.cuts += 1;
        self.book.cut(one.place, other.place);
    }

    /// A link falls silent.
    fn silence(&mut self, road: usize) {
        let [one, other] = self.roads[road].ends;
        let whose = format!("the link of b{} to b{}", one.place, other.place);
        self.note(|_| format!("{whose} falls silent"));
        self.tally.silences += 1;
        self.book.cut(one.place, other.place);
        let cable = self.roads[road].cable.clone();
        self.fall(cable, whose);
    }

    fn fall(&mut self, cable: SimConnection, whose: String) {
        cable.cut(SimCut::Silence);
        self.silent.push(Silent { cable, whose, since: self.now });
    }

    /// The connection of a client breaks, and it makes another.
    fn cut_client(&mut self, place: usize, tells: bool) {
        let is_silent = self.setting.silences && self.chance.permille(300);
        let cut = [SimCut::Reset, SimCut::Vanish(SimSide::Left)][self.chance.below(2) as usize];
        let Some(mut seat) = self.places[place].seat_mut(tells).take_if(|seat| seat.is_open) else { return };
        self.note(|_| {
            let (who, how) =
                (if tells { "teller" } else { "taker" }, if is_silent { "falls silent" } else { "is cut" });
            format!("the connection of the {who} of b{place} {how}")
        });
        self.tally.client_cuts += 1;
        if tells {
            self.book.doubt(seat.unconfirmed.values().copied());
        } else {
            let period = self.book.period;
            self.book.boxes.iter_mut().filter(|queue| queue.at == place).for_each(|queue| queue.cut = period);
        }
        if is_silent {
            self.fall(seat.cable.clone(), format!("the connection of a client of b{place}"));
        } else {
            seat.cable.cut(cut);
        }
        seat.client.vanish();
        self.come_again(place, tells);
    }

    /// A connection that has fallen silent, and of which an end has not noticed.
    pub(super) fn unnoticed(&mut self) -> Option<String> {
        self.silent.retain(|one| !one.cable.is_closed(SimSide::Left) || !one.cable.is_closed(SimSide::Right));
        let Silent { whose, since, .. } = self.silent.first()?;
        let silent_for: Duration = self.now.duration_since(*since);
        Some(format!("{whose} has been silent for {silent_for:?}, and nobody has noticed;"))
    }
}
