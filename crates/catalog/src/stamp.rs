//! Stamps: a number that tells one message from all others, wherever brokers pass it on.
//!
//! Enters: the headers of a message.  Leaves: its stamp, or headers with one.
//! Owns:   the header `x-harrier-id`.
//!
//! Messages are stamped where a second path between two brokers was forced, so that what comes twice is dropped.

use crate::arguments::X_HARRIER_ID;
use wire::{RawProperties, TableRef, ValueRef};

/// FNV-1a of 64 bits (RFC 9923).
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Where and as which one a message was published first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageStamp {
    origin: u64,
    /// The shard in the upper 16 bits.
    number: u64,
}

impl MessageStamp {
    /// That of a message: the broker by a number drawn when it began, its shard, and how many came before there.
    pub const fn new(origin: u64, shard: u16, number: u64) -> Self {
        Self { origin, number: (shard as u64) << 48 | number & 0xffff_ffff_ffff }
    }

    /// The stamp of a message, if it has one. Asks nothing of a message without headers.
    #[inline]
    pub fn of(properties: RawProperties<'_>) -> Option<Self> {
        if !properties.has_headers() {
            return None;
        }
        match properties.headers()?.get(X_HARRIER_ID)? {
            ValueRef::Bytes(bytes) => {
                let (&origin, number) = bytes.split_first_chunk()?;
                let number = u64::from_be_bytes(number.try_into().ok()?);
                Some(Self { origin: u64::from_be_bytes(origin), number })
            }
            _ => None,
        }
    }

    /// What tells the message from all others that come to an exchange. One message may come to two exchanges, each of which is to
    /// have it.
    pub fn at(self, vhost: &str, exchange: &[u8]) -> Self {
        let bytes = vhost.bytes().chain([0]).chain(exchange.iter().copied());
        let place = bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // The origin is a number drawn at random, and stays one.
        Self { origin: self.origin ^ place, ..self }
    }

    /// The properties of a message without any stamp.
    pub fn take_off(properties: RawProperties<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        properties.rewrite(true, &mut out, without);
        out
    }

    /// The properties of a message with this stamp instead of any other.
    pub fn put_on(self, properties: RawProperties<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        properties.rewrite(true, &mut out, |headers, out| {
            without(headers, out);
            out.push(X_HARRIER_ID.len() as u8);
            out.extend_from_slice(X_HARRIER_ID.as_bytes());
            out.push(b'x');
            out.extend_from_slice(&(size_of::<Self>() as u32).to_be_bytes());
            out.extend_from_slice(&self.origin.to_be_bytes());
            out.extend_from_slice(&self.number.to_be_bytes());
        });
        out
    }
}

/// The entries of headers but for stamps.
fn without(headers: &[u8], out: &mut Vec<u8>) {
    let mut entries = TableRef::new(headers).iter();
    loop {
        let before = entries.as_bytes();
        match entries.next() {
            // Properties are validated where they come in.
            None | Some(Err(_)) => break,
            Some(Ok((name, _))) if name == X_HARRIER_ID => {}
            Some(Ok(_)) => out.extend_from_slice(&before[..before.len() - entries.as_bytes().len()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MessageStamp;
    use wire::{Properties, RawProperties, ShortString, Table, Value};

    #[test]
    fn a_stamp_that_is_put_on_is_found_and_nothing_else_changes() {
        let stamp = MessageStamp::new(0x0123_4567_89ab_cdef, 7, 42);
        let other = MessageStamp::new(1, 0, 0);
        let headers = Table::new().with("n", Value::I32(1)).and_then(|table| table.with("m", Value::text("text")));
        let with_headers = Properties {
            headers: Some(headers.expect("short names")),
            correlation_id: Some(ShortString::try_from("id").expect("short")),
            ..Properties::default()
        };
        for plain in [Properties::default(), with_headers] {
            let bytes = plain.to_bytes();
            assert_eq!(MessageStamp::of(RawProperties::new(&bytes)), None);
            let once = stamp.put_on(RawProperties::new(&bytes));
            assert_eq!(MessageStamp::of(RawProperties::new(&once)), Some(stamp));
            let twice = other.put_on(RawProperties::new(&once));
            assert_eq!(MessageStamp::of(RawProperties::new(&twice)), Some(other));
            let off = MessageStamp::take_off(RawProperties::new(&twice));
            assert_eq!(MessageStamp::of(RawProperties::new(&off)), None);
            let off = RawProperties::new(&off).to_properties().expect("what is written can be read");
            assert_eq!(off.headers.unwrap_or_default(), plain.headers.clone().unwrap_or_default());
            let mut back = RawProperties::new(&twice).to_properties().expect("what is written can be read");
            let mut headers = back.headers.take().expect("a stamp is a header");
            assert!(headers.remove("x-harrier-id").is_some() && headers.get("x-harrier-id").is_none());
            assert_eq!(headers, plain.headers.clone().unwrap_or_default());
            assert_eq!(Properties { headers: plain.headers.clone(), ..back }, plain);
        }
    }

    #[test]
    fn a_message_is_another_one_at_each_exchange() {
        let stamp = MessageStamp::new(7, 1, 2);
        let places = [("/", "x"), ("/", "y"), ("shop", "x"), ("/x", ""), ("", "/x")];
        let all: Vec<_> = places.iter().map(|(vhost, exchange)| stamp.at(vhost, exchange.as_bytes())).collect();
        for (number, one) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == one), Some(number), "{places:?}");
            assert_ne!(*one, MessageStamp::new(7, 1, 3).at(places[number].0, places[number].1.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_stamp_is_none() {
        for value in [Value::text("0123456789abcdef"), Value::Bytes([1, 2, 3].into()), Value::I64(1), Value::Void] {
            let headers = Table::new().with("x-harrier-id", value).expect("a short name");
            let bytes = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
            assert_eq!(MessageStamp::of(RawProperties::new(&bytes)), None);
        }
    }
}
