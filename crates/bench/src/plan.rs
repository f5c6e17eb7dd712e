//! Sizes and counts of a benchmark, and what the roles are told to do.
//!
//! Enters: `-m MIN:MAX` and `-i COUNT`.  Leaves: segments; the lines that the controlling process and its roles exchange.
//! Owns:   the default number of messages of each size.
//! Never:  measures.

use serde::{Deserialize, Serialize};

use crate::limits::{MESSAGE_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use gauge::Buckets;
use gauge::Faults;

/// Sizes in powers of two from `MIN` to `MAX`, both included (`MAX` is added when it is no power of two times `MIN`).
pub fn sizes(range: &str) -> Result<Vec<usize>, String> {
    let (low, high) = match range.split_once(':') {
        Some((low, high)) => (low, high),
        None => ("1", range),
    };
    let (low, high) = (bytes(low)?, bytes(high)?);
    if low == 0 || high < low || high > MESSAGE_BYTES_MAX {
        return Err(format!("sizes run from 1 to {MESSAGE_BYTES_MAX} bytes, as in 1:1M"));
    }
    let mut sizes: Vec<usize> =
        std::iter::successors(Some(low), |size| size.checked_mul(2)).take_while(|&size| size <= high).collect();
    if sizes.last() != Some(&high) {
        sizes.push(high);
    }
    Ok(sizes)
}

/// Parses a number of bytes: `64`, `64K`, `1M` (powers of 1,024).
pub fn bytes(text: &str) -> Result<usize, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let number = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or_else(|| format!("'{text}' is no number of bytes"))
}

/// How many messages of one size are measured and how many warm up before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the measured segment.
    pub measured: u64,
    /// Messages of the segment before it, whose figures are thrown away.
    pub warm_up: u64,
}

impl Counts {
    /// One-way streams: two million small messages, and no more than half a GiB of bodies.
    pub fn stream(size_bytes: usize, iterations: Option<u64>) -> Self {
        const COUNT_MAX: u64 = 2_000_000;
        const COUNT_MIN: u64 = 100;
        const BYTES_MAX: u64 = 512 << 20;
        Self::with_tenth(
            iterations.unwrap_or_else(|| (BYTES_MAX / size_bytes.max(1) as u64).clamp(COUNT_MIN, COUNT_MAX)),
        )
    }

    /// Round trips: ten thousand small ones, and no more than 256 MiB each way.
    pub fn ping_pong(size_bytes: usize, iterations: Option<u64>) -> Self {
        const COUNT_MAX: u64 = 10_000;
        const COUNT_MIN: u64 = 100;
        const BYTES_MAX: u64 = 256 << 20;
        Self::with_tenth(
            iterations.unwrap_or_else(|| (BYTES_MAX / size_bytes.max(1) as u64).clamp(COUNT_MIN, COUNT_MAX)),
        )
    }

    fn with_tenth(measured: u64) -> Self {
        let measured = measured.clamp(1, SEGMENT_MESSAGES_MAX);
        Self { measured, warm_up: (measured / 10).max(1) }
    }
}

/// What the roles do in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// The publisher sends all; each consumer answers once, with a body of 0 bytes, when it has them all.
    Stream,
    /// Each message is answered with one of the same size before the next is sent.
    PingPong,
}

/// One segment: so many messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// What is done.
    pub shape: Shape,
    /// Size of each body.
    pub size_bytes: usize,
    /// How many messages.
    pub count: u64,
}

/// What a role reports of itself, one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// Connected, declared and bound (or, the relay: listening on this port).
    Ready {
        /// Port of a relay, zero otherwise.
        port: u16,
    },
    /// The consumer has taken in its segment and is waiting for the messages.
    Armed,
    /// The publisher's figures of a segment.
    Published {
        /// When the first message was handed over, on the machine's monotonic clock.
        began_ns: u64,
        /// When the last consumer's reply was in.
        ended_ns: u64,
        /// Round trips (empty for streams).
        latencies: Buckets,
        /// Messages the broker refused to confirm or returned.
        refused: u64,
    },
    /// The consumer's figures of a segment.
    Consumed {
        /// Messages that arrived.
        received: u64,
        /// What went wrong.
        faults: Faults,
    },
    /// The role cannot go on.
    Failed {
        /// Why.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, expected: &str) {
        let shown = sizes(range).map_or_else(|error| error, |sizes| format!("{sizes:?}"));
        assert_eq!(shown, expected, "{range}");
    }

    #[test]
    fn ranges_of_sizes() {
        check("1:8", "[1, 2, 4, 8]");
        check("64:64", "[64]");
        check("4", "[1, 2, 4]");
        check("1K:3K", "[1024, 2048, 3072]");
        check("x:1", "'x' is no number of bytes");
        check("0:1", "sizes run from 1 to 134217728 bytes, as in 1:1M");
        assert_eq!(sizes("1:1M").map(|sizes| sizes.len()), Ok(21));
    }

    #[test]
    fn counts_are_bounded() {
        assert_eq!(Counts::stream(1, None), Counts { measured: 2_000_000, warm_up: 200_000 });
        assert_eq!(Counts::stream(1 << 20, None), Counts { measured: 512, warm_up: 51 });
        assert_eq!(Counts::ping_pong(1 << 20, None), Counts { measured: 256, warm_up: 25 });
        assert_eq!(Counts::stream(64, Some(7)), Counts { measured: 7, warm_up: 1 });
        assert_eq!(Counts::stream(64, Some(u64::MAX)).measured, SEGMENT_MESSAGES_MAX);
    }
}
