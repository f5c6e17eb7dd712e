//! The order of requests: one that makes, renames or removes a segment waits for those of that segment before it, and those
//! behind it wait for it. All others are carried out in any order.
//!
//! So nobody reads a segment that has become another one since, however many threads carry requests out.

use std::collections::{BTreeMap, VecDeque};
use store::{Request, SegmentId};

/// The segments that a request is about, and whether there is another file under their names afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RequestScope {
    segment: SegmentId,
    /// The segment of which this one is made.
    from: Option<SegmentId>,
    changes_names: bool,
}

impl RequestScope {
    pub fn of(request: &Request) -> RequestScope {
        let (segment, from, changes_names) = match *request {
            Request::Make { segment, from, .. } => {
                (segment, from.map(|number| SegmentId { log: segment.log, number }), true)
            }
            Request::Remove { segment } => (segment, None, true),
            Request::Write { segment, .. }
            | Request::Sync { segment }
            | Request::Read { segment, .. }
            | Request::WriteFooter { segment, .. } => (segment, None, false),
        };
        RequestScope { segment, from, changes_names }
    }

    /// Whether the request is carried out behind an earlier one.
    pub fn waits_for(&self, earlier: &RequestScope) -> bool {
        let is_about = |segment| earlier.segment == segment || earlier.from == Some(segment);
        (self.changes_names || earlier.changes_names) && (is_about(self.segment) || self.from.is_some_and(is_about))
    }
}

/// A request's number among those of its disk, in the order in which they were submitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct RequestNumber(u64);

/// The requests of a disk that are not done, and those that wait for others.
#[derive(Default)]
pub(crate) struct RequestOrder {
    next: RequestNumber,
    unfinished: BTreeMap<RequestNumber, RequestScope>,
    held: VecDeque<(RequestNumber, Request)>,
}

impl RequestOrder {
    /// Requests that are not done.
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// Takes a request in. Returns it if it waits for none.
    pub fn submit(&mut self, request: Request) -> Option<(RequestNumber, Request)> {
        let number = self.next;
        self.next = RequestNumber(number.0 + 1);
        let scope = RequestScope::of(&request);
        let waits = self.waits(number, &scope);
        self.unfinished.insert(number, scope);
        if !waits {
            return Some((number, request));
        }
        self.held.push_back((number, request));
        None
    }

    /// A request is done: others may wait no more, see [`RequestOrder::next_released`].
    pub fn finish(&mut self, number: RequestNumber) {
        self.unfinished.remove(&number);
    }

    /// A request that waits no more.
    pub fn next_released(&mut self) -> Option<(RequestNumber, Request)> {
        let is_free = |(number, request): &(RequestNumber, Request)| !self.waits(*number, &RequestScope::of(request));
        let at = self.held.iter().position(is_free)?;
        self.held.remove(at)
    }

    fn waits(&self, number: RequestNumber, scope: &RequestScope) -> bool {
        self.unfinished.range(..number).any(|(_, earlier)| scope.waits_for(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{AlignedBuffer, Block, LogId, SegmentNumber};

    fn segment(number: u64) -> SegmentId {
        SegmentId { log: LogId(3), number: SegmentNumber(number) }
    }

    fn make(number: u64, from: Option<u64>) -> Request {
        Request::Make { segment: segment(number), blocks: 8, from: from.map(SegmentNumber) }
    }

    fn read(number: u64) -> Request {
        Request::Read { segment: segment(number), block: Block(0), buffer: AlignedBuffer::new(0), is_direct: false }
    }

    fn footer(number: u64) -> Request {
        Request::WriteFooter { segment: segment(number), bytes: Vec::new() }
    }

    /// For each request those at whose end it begins, `None` if it begins at once; requests end in this order.
    fn begins(requests: Vec<Request>, ends: &[u64]) -> Vec<Option<u64>> {
        let mut begins = vec![None; requests.len()];
        let mut order = RequestOrder::default();
        for (at, request) in requests.into_iter().enumerate() {
            assert!(order.submit(request).is_none_or(|(number, _)| number.0 == at as u64));
        }
        for &end in ends {
            order.finish(RequestNumber(end));
            while let Some((number, _)) = order.next_released() {
                begins[number.0 as usize] = Some(end);
            }
        }
        assert_eq!((order.unfinished(), order.held.len()), (0, 0));
        begins
    }

    #[test]
    fn a_segment_is_made_renamed_or_removed_in_its_turn_and_nothing_else_waits() {
        let write = || Request::Sync { segment: segment(1) };
        for (requests, ends, expected) in [
            (vec![make(2, None), write(), read(1), footer(1)], vec![3, 2, 1, 0], vec![None, None, None, None]),
            (vec![read(1), read(1), make(2, Some(1))], vec![1, 0, 2], vec![None, None, Some(0)]),
            (vec![footer(1), make(2, Some(1)), footer(1)], vec![0, 1, 2], vec![None, Some(0), Some(1)]),
            (vec![make(2, Some(1)), read(2), read(3)], vec![2, 0, 1], vec![None, Some(0), None]),
            // What waits is not overtaken by what was submitted behind it.
            (
                vec![read(1), make(2, Some(1)), read(2), read(1)],
                vec![0, 1, 3, 2],
                vec![None, Some(0), Some(1), Some(1)],
            ),
            (
                vec![read(1), Request::Remove { segment: segment(1) }, make(1, None), read(1)],
                vec![0, 1, 2, 3],
                vec![None, Some(0), Some(1), Some(2)],
            ),
        ] {
            let shown = format!("{requests:?}");
            assert_eq!(begins(requests, &ends), expected, "{shown}");
        }
    }
}
