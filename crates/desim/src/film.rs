//! Pictures of a run: how busy brokers and links were, what waited, over time.
//!
//! Enters: counts of each broker at regular times.  Leaves: loads between two pictures, of one broker or of a level.
//! Owns:   when pictures are taken: so many at most, at equal distances, whatever a run lasts.
//! Never:  more brokers than it has room for: of a large level some, evenly spread.

use crate::grove::Grove;
use crate::limits::{DRAWN_MAX, FILMED_MAX, FRAME_NS_FIRST, FRAMES_MAX};

/// What a broker has come to by a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub busy_ns: u64,
    pub link_ns: u64,
    /// Messages sent to it.
    pub carried: u64,
    /// In its longest queue.
    pub queued: u64,
    pub unread: u64,
    pub is_up: bool,
}

/// What a broker does between two pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Share of the time in which its busiest thread works.
    pub processor: f64,
    /// Share of the time in which its link sends.
    pub link: f64,
    /// Messages a second that are sent to it.
    pub taken_per_s: f64,
    /// Messages in its longest queue, at the end.
    pub queued: f64,
    /// Messages that have come and are not read, at the end.
    pub unread: f64,
    /// 1 if it is there, else 0.
    pub is_up: f64,
}

/// The least, the median and the greatest of some loads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The one in the middle.
    pub median: f64,
    /// The greatest.
    pub most: f64,
}

impl Spread {
    /// Of some values.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        match values[..] {
            [] => Self::default(),
            [least, ..] => {
                Self { least, median: values[values.len() / 2], most: values.last().copied().unwrap_or(least) }
            }
        }
    }
}

/// The time between two pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// When it begins, in nanoseconds.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
}

/// The pictures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Film {
    brokers: Vec<u32>,
    levels: Vec<std::ops::Range<usize>>,
    every_ns: u64,
    pictures: Vec<Vec<Tally>>,
}

impl Film {
    pub(crate) fn new(grove: &Grove) -> Self {
        let (mut brokers, mut levels) = (Vec::new(), Vec::new());
        let quota = FILMED_MAX / grove.levels().max(1) as usize;
        let mut all = (0..grove.brokers()).peekable();
        for level in 0..grove.levels() {
            let mut own = Vec::new();
            while let Some(broker) = all.next_if(|&broker| grove.level_of(broker) == level) {
                own.push(broker);
            }
            let from = brokers.len();
            let kept = own.len().min(quota.max(1));
            brokers.extend((0..kept).map(|place| own[place * own.len() / kept]));
            levels.push(from..brokers.len());
        }
        Self { brokers, levels, every_ns: FRAME_NS_FIRST, pictures: Vec::new() }
    }

    /// The brokers that are in it, by number.
    pub fn brokers(&self) -> &[u32] {
        &self.brokers
    }

    /// Whether all brokers are so few that each can be drawn.
    pub fn is_small(&self) -> bool {
        self.brokers.len() <= DRAWN_MAX
    }

    /// When the next picture is due. The first is of time 0, and needs none.
    pub(crate) fn next_ns(&self) -> u64 {
        self.every_ns * (self.pictures.len() as u64 + 1)
    }

    pub(crate) fn keep(&mut self, picture: Vec<Tally>) {
        self.pictures.push(picture);
        if self.pictures.len() == FRAMES_MAX {
            let mut is_second = true;
            self.pictures.retain(|_| {
                is_second = !is_second;
                is_second
            });
            self.every_ns *= 2;
        }
    }

    /// The times between pictures.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + '_ {
        let every_ns = self.every_ns;
        (0..self.pictures.len() as u64).map(move |at| Frame { from_ns: at * every_ns, to_ns: (at + 1) * every_ns })
    }

    /// The load of the broker at a place of [`brokers`](Self::brokers), in a frame.
    pub fn load(&self, frame: usize, place: usize) -> Load {
        let to = self.pictures[frame][place];
        let from = frame.checked_sub(1).map_or_else(Tally::default, |before| self.pictures[before][place]);
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / self.every_ns as f64;
        Load {
            processor: share(from.busy_ns, to.busy_ns).min(1.0),
            link: share(from.link_ns, to.link_ns).min(1.0),
            taken_per_s: share(from.carried, to.carried) * 1e9,
            queued: to.queued as f64,
            unread: to.unread as f64,
            is_up: f64::from(u8::from(to.is_up)),
        }
    }

    /// How many levels there are.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// The places of a level's brokers among [`brokers`](Self::brokers).
    pub fn places_of(&self, level: usize) -> std::ops::Range<usize> {
        self.levels[level].clone()
    }

    /// One value of the loads of a level, in a frame.
    pub fn level(&self, frame: usize, level: usize, value: impl Fn(&Load) -> f64) -> Spread {
        Spread::of(self.levels[level].clone().map(|place| value(&self.load(frame, place))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grove::Work;

    #[test]
    fn a_film_has_so_many_pictures_whatever_it_lasts() {
        let tree = "B-4B-8C".parse().expect("a tree");
        let grove = Grove::of(&tree, |_, _| Work::default()).expect("a grove");
        let mut film = Film::new(&grove);
        for _ in 0..1_000 {
            let at_ns = film.next_ns();
            // The third broker is busy for half of the time.
            let tally = |place| Tally { busy_ns: if place == 2 { at_ns / 2 } else { 0 }, ..Tally::default() };
            film.keep((0..5).map(tally).collect());
        }
        let frames: Vec<Frame> = film.frames().collect();
        assert!(frames.len() < FRAMES_MAX && frames.len() >= FRAMES_MAX / 2, "{}", frames.len());
        assert!(frames.windows(2).all(|two| two[0].to_ns == two[1].from_ns));
        for frame in 0..frames.len() {
            assert_eq!(film.load(frame, 2).processor, 0.5);
            let spread = film.level(frame, 1, |load| load.processor);
            assert_eq!((spread.least, spread.median, spread.most), (0.0, 0.0, 0.5));
        }
    }

    #[test]
    fn a_large_level_is_thinned_out_evenly() {
        let tree = "B-20000B-20000C".parse().expect("a tree");
        let film = Film::new(&Grove::of(&tree, |_, _| Work::default()).expect("a grove"));
        assert!(film.brokers().len() <= FILMED_MAX && !film.is_small());
        assert!(film.brokers().windows(2).all(|two| two[0] < two[1]));
    }
}
