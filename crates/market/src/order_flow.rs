//! Random orders from a seed: an endless flow, the same for the same seed. Producing orders does not allocate.

use crate::limits::{GATEWAYS_MAX, PRICE_TICKS_MAX, SYMBOLS_MAX};
use crate::messages::NewOrder;
use crate::sequence::ShortSequence;
use crate::terms::{GatewayId, Matching, OrderSide, Symbol, Ticks};
use splitmix::{SplitMix64, mix};

/// The initial mid price of all symbols.
const START_TICKS: Ticks = 8_192;
/// How far a mid price moves from there, to either side.
const DRIFT_TICKS: Ticks = 64;
/// Maximum distance of an order's price from the mid price.
const SPREAD_TICKS: Ticks = 15;
/// The lowest and the highest price of any order.
const LOW_TICKS: Ticks = START_TICKS - DRIFT_TICKS - SPREAD_TICKS;
const HIGH_TICKS: Ticks = START_TICKS + DRIFT_TICKS + SPREAD_TICKS;
/// The largest quantity of an order.
const LOTS_MAX: u64 = 100;

const _: () = assert!(LOW_TICKS > 0 && HIGH_TICKS <= PRICE_TICKS_MAX);

/// Parameters of a gateway's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderFlowRules {
    /// Gateways get different orders from the same seed.
    pub seed: u64,
    pub gateway: GatewayId,
    /// Number of symbols.
    pub symbols: u16,
    /// Gateways among which the symbols are divided, so that the trades do not depend on who is first. 0 or 1: this
    /// gateway trades all of them.
    pub shared_by: usize,
    /// How the engine matches orders, which decides their prices, so that books do not fill up.
    ///
    /// With exact matching both sides use the same prices. With crossing, half of the orders of each side offer a price
    /// beside the mid, and half take whatever is offered: if all orders were near the mid, a fixed share far from the
    /// next trade would rest for ever.
    pub matching: Matching,
}

/// The orders of one gateway.
#[derive(Clone, Debug)]
pub struct OrderFlow {
    random: SplitMix64,
    gateway: GatewayId,
    matching: Matching,
    /// The mid price of each traded symbol, and whether it rises.
    mids: Box<[(Ticks, bool)]>,
    /// The first symbol, and the distance from one to the next.
    first: u16,
    step: u16,
    sequence: u64,
}

impl OrderFlow {
    /// If more gateways divide the symbols than there are symbols, some trade the same ones.
    pub fn new(rules: OrderFlowRules) -> Self {
        let symbols = rules.symbols.clamp(1, SYMBOLS_MAX as u16);
        let step = rules.shared_by.clamp(1, GATEWAYS_MAX.min(usize::from(symbols))) as u16;
        let first = rules.gateway.number() as u16 % step;
        let count = (symbols - first).div_ceil(step);
        // Gateways start far apart in one long sequence of numbers.
        let seed = mix(rules.seed).wrapping_add(mix(rules.gateway.number() as u64 + 1));
        Self {
            random: SplitMix64::new(seed),
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
        let random = self.random.next_u64();
        let bits = |from: u32, count: u32| random >> from & ((1 << count) - 1);
        let at = (bits(0, 20) * self.mids.len() as u64) >> 20;
        let (mid, rises) = &mut self.mids[at as usize];
        // One order of eight moves the mid price by a tick; one such move of 32 reverses the direction, and so does the
        // end of the range.
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
