//! Limits of the market and of its messages.

/// Gateways of one engine: an order has four bits for its gateway.
pub const GATEWAYS_MAX: usize = 16;
/// Symbols of one engine. A large venue lists some thousands. Each takes 4 KiB of memory, and the part of another 128
/// KiB that its prices touch.
pub const SYMBOLS_MAX: usize = 10_000;
/// The highest price, in ticks; the lowest is 1. A book has one level for each price.
pub const PRICE_TICKS_MAX: u16 = 16_383;
/// Bits of a sequence number that a message carries; its receiver knows the others.
pub(crate) const SEQUENCE_BITS: u32 = 24;
/// Unanswered orders of one gateway. With this limit every sequence number that a receiver can see lies within half of
/// the numbers that `SEQUENCE_BITS` distinguish, with as many again for orders that are delivered twice.
pub const ORDERS_IN_FLIGHT_MAX: u64 = 1 << 22;
/// Resting orders of one book, unless the rules say less.
pub const RESTING_BOOK_MAX: u32 = 1 << 20;
/// Resting orders of all books of an engine together, unless the rules say less: 64 MiB.
pub const RESTING_MAX: u32 = 1 << 22;
/// Gaps of one gateway that are remembered, to distinguish late orders from repeated ones.
pub const GAPS_MAX: usize = 1_024;
/// Non-empty buckets of the histogram in one sample.
pub const BUCKETS_MAX: usize = 1 << 16;

const _: () = assert!(ORDERS_IN_FLIGHT_MAX * 2 <= 1 << (SEQUENCE_BITS - 1), "sequence numbers can be told apart");
const _: () =
    assert!((PRICE_TICKS_MAX as usize + 1).is_power_of_two(), "a price is masked, not checked, where it indexes");
const _: () =
    assert!(RESTING_BOOK_MAX <= RESTING_MAX && RESTING_MAX < u32::MAX, "places of resting orders are u32, 0 is none");
