//! Random orders from a seed.
//!
//! Enters: a seed, and what to order.  Leaves: orders without end, the same for the same seed.
//! Owns:   the random numbers, and around which price each symbol is traded.
//! Never:  allocates while it goes on, knows what has traded.

use crate::messages::NewOrder;
use crate::limits::{GATEWAYS_MAX, PRICE_TICKS_MAX, SYMBOLS_MAX};
use crate::sequence::ShortSequence;
use crate::terms::{GatewayId, Matching, OrderSide, Symbol, Ticks};

/// The price that all symbols begin at.
const START_TICKS: Ticks = 8_192;
/// How far a mid goes from there, to either side.
const DRIFT_TICKS: Ticks = 64;
/// How far the price of an order is from the mid, at most.
const SPREAD_TICKS: Ticks = 15;
/// The lowest price, and the highest, that anything is ordered at.
const LOW_TICKS: Ticks = START_TICKS - DRIFT_TICKS - SPREAD_TICKS;
const HIGH_TICKS: Ticks = START_TICKS + DRIFT_TICKS + SPREAD_TICKS;
/// The largest quantity of an order.
const LOTS_MAX: u64 = 100;

const _: () = assert!(LOW_TICKS > 0 && HIGH_TICKS <= PRICE_TICKS_MAX);

/// What a gateway orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderFlowRules {
    /// The same seed gives the same orders; gateways have different ones of it.
    pub seed: u64,
    /// Whose orders.
    pub gateway: GatewayId,
    /// How many symbols there are.
    pub symbols: u16,
    /// Gateways that share the symbols out, each with its own, so that the trades do not depend on who comes first. 0 or 1: this
    /// gateway trades all of them.
    pub shared_by: usize,
    /// How the engine matches them, which is what decides how they have to be for books not to fill up.
    ///
    /// For exact matching both sides have the same prices. For crossing ones half of the orders of each side offer a price beside
    /// the mid, and half take whatever is offered: of orders that are all near the mid a fixed share would rest for ever,
    /// those far away from where the next trade is.
    pub matching: Matching,
}

/// The orders of one gateway.
#[derive(Clone, Debug)]
pub struct OrderFlow {
    state: u64,
    gateway: GatewayId,
    matching: Matching,
    /// For each symbol that is traded: the mid, and whether it goes up.
    mids: Box<[(Ticks, bool)]>,
    /// The first symbol, and how many there are from one to the next.
    first: u16,
    step: u16,
    sequence: u64,
}

impl OrderFlow {
    /// Orders by these rules. If symbols are shared by more gateways than there are symbols, gateways trade the same ones.
    pub fn new(rules: OrderFlowRules) -> Self {
        let symbols = rules.symbols.clamp(1, SYMBOLS_MAX as u16);
        let step = rules.shared_by.clamp(1, GATEWAYS_MAX.min(usize::from(symbols))) as u16;
        let first = rules.gateway.number() as u16 % step;
        let count = (symbols - first).div_ceil(step);
        // Gateways begin far from one another in what is one long sequence of numbers.
        let state = mix(rules.seed).wrapping_add(mix(rules.gateway.number() as u64 + 1));
        Self {
            state,
            gateway: rules.gateway,
            matching: rules.matching,
            mids: vec![(START_TICKS, true); usize::from(count)].into(),
            first,
            step,
            sequence: 0,
        }
    }

    /// The next order.
    #[inline]
    pub fn order(&mut self) -> NewOrder {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let random = mix(self.state);
        let bits = |from: u32, count: u32| random >> from & ((1 << count) - 1);
        let at = (bits(0, 20) * self.mids.len() as u64) >> 20;
        let (mid, rises) = &mut self.mids[at as usize];
        // One order of eight moves the mid by a tick; one such move of 32 is a turn, and so is the end of the way.
        if bits(20, 3) == 0 {
            let end = if *rises { START_TICKS + DRIFT_TICKS } else { START_TICKS - DRIFT_TICKS };
            if *mid == end || bits(23, 5) == 0 {
                *rises = !*rises;
            } else if *rises {
                *mid += 1;
            } else {
                *mid -= 1;
            }
        }
        let lots = 1 + ((bits(36, 16) * LOTS_MAX) >> 16) as u8;
        let side = if bits(63, 1) == 0 { OrderSide::Buy } else { OrderSide::Sell };
        let (near, far) = (bits(28, 4) as Ticks, bits(32, 4) as Ticks);
        let price = match (self.matching, side, bits(62, 1) == 0) {
            (Matching::Exact, ..) => *mid - SPREAD_TICKS + near + far,
            (Matching::Crossing, OrderSide::Buy, true) => *mid - near,
            (Matching::Crossing, OrderSide::Sell, true) => *mid + near,
            (Matching::Crossing, OrderSide::Buy, false) => HIGH_TICKS,
            (Matching::Crossing, OrderSide::Sell, false) => LOW_TICKS,
        };
        let symbol = Symbol(self.first + at as u16 * self.step);
        let sequence = ShortSequence::of(self.sequence);
        self.sequence += 1;
        NewOrder { gateway: self.gateway, side, symbol, price, lots, sequence }
    }
}

impl Iterator for OrderFlow {
    type Item = NewOrder;

    #[inline]
    fn next(&mut self) -> Option<NewOrder> {
        Some(self.order())
    }
}

/// Mixes all bits of a number with one another: a bijection (the finish of SplitMix64).
#[inline]
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}
