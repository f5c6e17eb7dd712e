//! Counts loss, duplicates and reordering in one segment by the sequence numbers of the bodies.

use serde::{Deserialize, Serialize};

use crate::body_stamp::BodyStamp;
use crate::sequence_number::{SEQUENCE_BYTES_MAX, sequence_of};

/// Shorter numbers wrap too early to distinguish loss from duplicates; only the order is checked.
pub(crate) const EXACT_BYTES_MIN: usize = 4;

/// Faults of the deliveries in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryFaults {
    /// Lost messages (exact for bodies of at least 4 bytes).
    pub lost: u64,
    /// Duplicate messages.
    pub duplicates: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
    /// Messages that do not belong to the segment (wrong size or number).
    pub strays: u64,
    /// Corrupted messages (only with [`SequenceTally::with_checksums`]); such a message does not count as lost too.
    #[serde(default)]
    pub damaged: u64,
}

impl DeliveryFaults {
    pub fn total(&self) -> u64 {
        self.lost + self.duplicates + self.reordered + self.strays + self.damaged
    }

    /// Adds another consumer's faults.
    pub fn add(&mut self, other: DeliveryFaults) {
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.strays += other.strays;
        self.damaged += other.damaged;
    }
}

/// Tallies the messages of one segment at one consumer.
pub struct SequenceTally {
    size_bytes: usize,
    count: u64,
    received: u64,
    expected_next: u64,
    mask: u64,
    seen: Vec<u64>,
    faults: DeliveryFaults,
    stamp: Option<BodyStamp>,
}

impl SequenceTally {
    /// For a segment of `count` messages of `size_bytes` each.
    pub fn new(size_bytes: usize, count: u64) -> Self {
        let sequence_bytes = size_bytes.min(SEQUENCE_BYTES_MAX);
        let mask = if sequence_bytes == SEQUENCE_BYTES_MAX { u64::MAX } else { (1 << (8 * sequence_bytes)) - 1 };
        let words = if size_bytes >= EXACT_BYTES_MIN { count.div_ceil(64) } else { 0 };
        Self {
            size_bytes,
            count,
            received: 0,
            expected_next: 0,
            mask,
            seen: vec![0; words as usize],
            faults: DeliveryFaults::default(),
            stamp: None,
        }
    }

    /// The same for bodies with a [`BodyStamp`](crate::BodyStamp), which are verified completely.
    pub fn with_checksums(size_bytes: usize, count: u64) -> Self {
        Self { stamp: Some(BodyStamp::new(size_bytes)), ..Self::new(size_bytes, count) }
    }

    /// Records a delivery.
    #[inline(always)]
    pub fn arrived(&mut self, body: &[u8]) {
        if body.len() != self.size_bytes {
            self.faults.strays += 1;
            return;
        }
        self.received += 1;
        if let Some(stamp) = &self.stamp
            && !stamp.holds(body)
        {
            // The number itself may be corrupted; for the order the message counts as the expected one.
            self.faults.damaged += 1;
            self.expected_next += 1;
            return;
        }
        let sequence = sequence_of(body);
        let in_order = sequence == self.expected_next & self.mask;
        if self.seen.is_empty() {
            self.faults.reordered += u64::from(!in_order);
            self.expected_next += 1;
        } else {
            self.mark(sequence, in_order);
        }
    }

    #[inline]
    fn mark(&mut self, sequence: u64, in_order: bool) {
        let Some(word) = self.seen.get_mut((sequence / 64) as usize) else {
            self.faults.strays += 1;
            return;
        };
        let bit = 1 << (sequence % 64);
        if *word & bit != 0 {
            self.faults.duplicates += 1;
        } else if !in_order && sequence < self.expected_next {
            self.faults.reordered += 1;
        }
        *word |= bit;
        self.expected_next = self.expected_next.max(sequence + 1);
    }

    /// Whether the announced number of messages has arrived.
    #[inline]
    pub fn complete(&self) -> bool {
        self.received >= self.count
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn faults(&self) -> DeliveryFaults {
        let mut faults = self.faults;
        let distinct = if self.seen.is_empty() {
            self.received
        } else {
            self.seen.iter().map(|word| u64::from(word.count_ones())).sum()
        };
        // With numbers too short to distinguish messages, all arrivals count as distinct, corrupted ones included.
        let damaged = if self.seen.is_empty() { 0 } else { faults.damaged };
        faults.lost = self.count.saturating_sub(distinct + damaged);
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence_number::write_sequence;

    fn check(size_bytes: usize, count: u64, arrivals: &[u64], expected: DeliveryFaults) {
        let mut tally = SequenceTally::new(size_bytes, count);
        for &sequence in arrivals {
            let mut body = vec![0; size_bytes];
            write_sequence(&mut body, sequence);
            tally.arrived(&body);
        }
        assert_eq!(tally.faults(), expected, "{size_bytes} bytes, {arrivals:?}");
    }

    #[test]
    fn a_number_is_read_as_it_was_written() {
        for size_bytes in 0..12_usize {
            let mut body = vec![0xff; size_bytes];
            write_sequence(&mut body, 0x0807_0605_0403_0201);
            let expected: Vec<u8> =
                (1..).take(size_bytes.min(8)).chain(vec![0xff; size_bytes.saturating_sub(8)]).collect();
            assert_eq!(body, expected);
            let bits = 8 * size_bytes.min(8) as u32;
            let kept = 0x0807_0605_0403_0201 & 1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1);
            assert_eq!(sequence_of(&body), kept, "{size_bytes} bytes");
        }
    }

    #[test]
    fn faults_are_distinguished() {
        let none = DeliveryFaults::default();
        check(64, 4, &[0, 1, 2, 3], none);
        check(64, 4, &[0, 1, 3], DeliveryFaults { lost: 1, ..none });
        check(64, 4, &[0, 1, 1, 2, 3], DeliveryFaults { duplicates: 1, ..none });
        check(64, 4, &[0, 2, 1, 3], DeliveryFaults { reordered: 1, ..none });
        check(64, 4, &[0, 1, 2, 3, 900], DeliveryFaults { strays: 1, ..none });
        check(4, 3, &[2, 1, 0], DeliveryFaults { reordered: 2, ..none });
        check(1, 3, &[0, 2, 1], DeliveryFaults { reordered: 2, ..none });
        check(1, 600, &(0..600).collect::<Vec<_>>(), none);
    }

    #[test]
    fn corruption_is_distinguished_from_loss() {
        for (size_bytes, place) in [(9, 8), (12, 3), (64, 3), (64, 60)] {
            let stamp = BodyStamp::new(size_bytes);
            let mut tally = SequenceTally::with_checksums(size_bytes, 4);
            for sequence in 0..4 {
                let mut body = vec![0; size_bytes];
                stamp.fill(&mut body);
                stamp.write(&mut body, sequence);
                if sequence == 2 {
                    body[place] ^= 1;
                }
                tally.arrived(&body);
            }
            assert!(tally.complete());
            assert_eq!(
                tally.faults(),
                DeliveryFaults { damaged: 1, ..DeliveryFaults::default() },
                "{size_bytes} bytes"
            );
        }
    }

    #[test]
    fn a_damaged_number_without_a_sum_is_still_a_fault() {
        for size_bytes in [1, 2, 4, 8] {
            let stamp = BodyStamp::new(size_bytes);
            let mut tally = SequenceTally::with_checksums(size_bytes, 3);
            for sequence in 0..3 {
                let mut body = vec![0; size_bytes];
                stamp.fill(&mut body);
                stamp.write(&mut body, sequence);
                body[0] ^= if sequence == 1 { 0x40 } else { 0 };
                tally.arrived(&body);
            }
            assert!(tally.faults().total() > 0, "{size_bytes} bytes");
        }
    }

    #[test]
    fn faults_of_an_older_document_are_read() {
        let old = r#"{"lost":1,"duplicates":2,"reordered":3,"strays":4}"#;
        let faults: DeliveryFaults = serde_json::from_str(old).expect("an older form");
        assert_eq!(faults.total(), 10);
    }

    #[test]
    fn another_size_is_a_stray() {
        let mut tally = SequenceTally::new(8, 1);
        tally.arrived(&[0; 9]);
        assert!(!tally.complete());
        assert_eq!(tally.faults(), DeliveryFaults { lost: 1, strays: 1, ..DeliveryFaults::default() });
    }
}
