//! Samples: the measurements that gateways and the engine send to the reporter, each with a whole histogram.
//!
//! Decoding accepts any bytes without panicking.

use crate::limits::BUCKETS_MAX;
use crate::messages::kind;
use crate::terms::{GatewayId, RejectReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSource {
    Gateway(GatewayId),
    Engine,
}

/// The measurements of one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketSample {
    pub source: SampleSource,
    /// The number of the sample among those of its source, from 0.
    pub number: u32,
    /// The end of the interval, in nanoseconds since the source began.
    pub at_ns: u64,
    /// The length of the interval, in nanoseconds.
    pub span_ns: u64,
    /// Orders sent by a gateway, or received by the engine.
    pub orders: u64,
    /// Trade confirmations received by a gateway, or sent by the engine.
    pub trades: u64,
    /// Order confirmations, likewise.
    pub confirmations: u64,
    /// Rejections, likewise.
    pub rejects: u64,
    /// Quotes, likewise.
    pub quotes: u64,
    /// User-space processor time of the process in the interval, in microseconds.
    pub user_us: u64,
    /// Kernel processor time of the process in the interval, in microseconds.
    pub system_us: u64,
    /// Order completion times of a gateway: values in nanoseconds, ascending, with their counts. Empty for an engine.
    pub completions: Vec<(u64, u64)>,
}

const NUMBERS: usize = 9;
/// Names of the numbers, for people.
pub(crate) const NAMES: [&str; NUMBERS] =
    ["at_ns", "span_ns", "orders", "trades", "confirmations", "rejects", "quotes", "user_us", "system_us"];
const HEAD_BYTES: usize = 1 + 4 + 8 * NUMBERS + 4;

impl MarketSample {
    /// Encodes the sample into `into`, which is cleared first. Of the histogram the first [`BUCKETS_MAX`] buckets are
    /// written.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        into.push(match self.source {
            SampleSource::Gateway(gateway) => kind::GATEWAY_SAMPLE << 4 | gateway.nibble(),
            SampleSource::Engine => kind::ENGINE_SAMPLE << 4,
        });
        into.extend(self.number.to_be_bytes());
        for number in self.numbers() {
            into.extend(number.to_be_bytes());
        }
        let buckets = &self.completions[..self.completions.len().min(BUCKETS_MAX)];
        into.extend((buckets.len() as u32).to_be_bytes());
        let mut before = 0;
        for &(value, count) in buckets {
            write_varint(into, value.saturating_sub(before));
            write_varint(into, count);
            before = value;
        }
    }

    /// Its numbers in the order of the message and of `NAMES`.
    pub(crate) fn numbers(&self) -> [u64; NUMBERS] {
        [
            self.at_ns,
            self.span_ns,
            self.orders,
            self.trades,
            self.confirmations,
            self.rejects,
            self.quotes,
            self.user_us,
            self.system_us,
        ]
    }

    /// Decodes a sample.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, RejectReason> {
        let (head, mut rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(RejectReason::Length)?;
        let role = match (head[0] >> 4, head[0] & 0x0F) {
            (kind::GATEWAY_SAMPLE, gateway) => SampleSource::Gateway(GatewayId::of_nibble(gateway)),
            (kind::ENGINE_SAMPLE, 0) => SampleSource::Engine,
            _ => return Err(RejectReason::Kind),
        };
        let short = |from: usize| u32::from_be_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
        let long = |at: usize| u64::from(short(5 + 8 * at)) << 32 | u64::from(short(9 + 8 * at));
        let buckets = short(HEAD_BYTES - 4) as usize;
        // A bucket has at least two bytes, so nothing is allocated for buckets that were not sent.
        if buckets > BUCKETS_MAX || buckets > rest.len() / 2 {
            return Err(RejectReason::Histogram);
        }
        let mut completions = Vec::with_capacity(buckets);
        let mut value = 0u64;
        for at in 0..buckets {
            let more = read_varint(&mut rest).ok_or(RejectReason::Histogram)?;
            let count = read_varint(&mut rest).ok_or(RejectReason::Histogram)?;
            value = value.checked_add(more).ok_or(RejectReason::Histogram)?;
            if count == 0 || (more == 0 && at > 0) {
                return Err(RejectReason::Histogram);
            }
            completions.push((value, count));
        }
        if !rest.is_empty() {
            return Err(RejectReason::Length);
        }
        Ok(Self {
            source: role,
            number: short(1),
            at_ns: long(0),
            span_ns: long(1),
            orders: long(2),
            trades: long(3),
            confirmations: long(4),
            rejects: long(5),
            quotes: long(6),
            user_us: long(7),
            system_us: long(8),
            completions,
        })
    }
}

/// Seven bits a byte, the lowest first; the highest bit means that another byte follows.
fn write_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7F);
        // The tenth byte holds only the lowest bit; and a last byte of 0 would be a second encoding of a number.
        if part << shift >> shift != part || (byte == 0 && shift > 0) {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
