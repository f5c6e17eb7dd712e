//! Pages of what a recovery finds: neighbouring messages of a level, by their numbers and times.

use super::found_runs::FoundRun;
use crate::ids::Position;
use crate::limits::{PAGE_BYTES_MAX, PAGE_MESSAGES_MAX};

/// Messages of one level of a queue that stay on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundPage {
    /// The position of the first one, and that behind the last one.
    pub first: Position,
    pub end: Position,
    /// Messages: there may be fewer than positions.
    pub count: u64,
    pub body_bytes: u64,
    /// No message arrived earlier or later, in microseconds since 1970.
    pub first_arrived_us: u64,
    pub last_arrived_us: u64,
    /// The first two bytes of the properties of all of them, combined by OR.
    pub flags: u16,
}

impl FoundPage {
    fn of(found: &FoundRun) -> FoundPage {
        let run = &found.run;
        FoundPage {
            first: run.first,
            end: Position(run.end()),
            count: run.count,
            body_bytes: run.body_bytes,
            first_arrived_us: run.first_arrived_us,
            last_arrived_us: run.last_arrived_us,
            flags: run.flags,
        }
    }

    /// Adds messages behind it, unless they are too many.
    fn add(&mut self, found: &FoundRun) -> bool {
        let run = &found.run;
        let fits = self.count + run.count <= PAGE_MESSAGES_MAX && self.body_bytes + run.body_bytes <= PAGE_BYTES_MAX;
        if fits {
            self.end = Position(run.end());
            self.count += run.count;
            self.body_bytes += run.body_bytes;
            self.first_arrived_us = self.first_arrived_us.min(run.first_arrived_us);
            self.last_arrived_us = self.last_arrived_us.max(run.last_arrived_us);
            self.flags |= run.flags;
        }
        fits
    }
}

/// The pages of a level whose runs are these.
pub(super) fn pages(runs: &[FoundRun]) -> impl Iterator<Item = FoundPage> + '_ {
    let mut parts = runs.iter().flat_map(|found| parts(*found)).peekable();
    std::iter::from_fn(move || {
        let mut page = FoundPage::of(&parts.next()?);
        while parts.next_if(|part| page.add(part)).is_some() {}
        Some(page)
    })
}

/// A run in parts, none of which is more than a page.
fn parts(found: FoundRun) -> impl Iterator<Item = FoundRun> {
    let pieces = found.run.count.div_ceil(PAGE_MESSAGES_MAX).max(found.run.body_bytes.div_ceil(PAGE_BYTES_MAX));
    let count = found.run.count.div_ceil(pieces.max(1)).max(1);
    let mut rest = Some(found);
    std::iter::from_fn(move || {
        let found = rest.as_mut()?;
        if found.run.count <= count {
            return rest.take();
        }
        Some(FoundRun { run: found.run.split_front(count), ..*found })
    })
}
