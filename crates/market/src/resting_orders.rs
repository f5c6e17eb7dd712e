//! The resting orders of all books of an engine: a slab, and linked lists in it.
//!
//! Slots are reused, and their number is limited.

use crate::order_id::OrderId;
use crate::terms::Lots;

/// Index of a slot; 0 is none.
type OrderSlot = u32;

/// A list of orders, the oldest first: its first and last slot. Both are 0 if it is empty.
pub type OrderList = [OrderSlot; 2];

#[derive(Clone, Copy, Debug)]
struct RestingOrder {
    order: u64,
    next: OrderSlot,
    lots: Lots,
}

#[derive(Debug)]
pub struct RestingOrders {
    /// Slot 0 is unused.
    slots: Vec<RestingOrder>,
    free: OrderSlot,
    count: u32,
    max: u32,
}

impl RestingOrders {
    /// For at most `max` orders.
    pub fn new(max: u32) -> Self {
        Self { slots: vec![RestingOrder { order: 0, next: 0, lots: 0 }], free: 0, count: 0, max }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the limit is reached.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count >= self.max
    }

    /// Appends an order to a list.
    ///
    /// # Panics
    /// If there is no capacity: the caller checks first.
    #[inline]
    pub fn push(&mut self, list: &mut OrderList, order: OrderId, lots: Lots) {
        assert!(!self.is_full(), "the book asks for room before an order rests");
        let rest = RestingOrder { order: order.word(), next: 0, lots };
        let place = self.free;
        let place = if place != 0 {
            self.free = self.slots[place as usize].next;
            self.slots[place as usize] = rest;
            place
        } else {
            self.slots.push(rest);
            (self.slots.len() - 1) as OrderSlot
        };
        self.count += 1;
        match list[1] {
            0 => list[0] = place,
            last => self.slots[last as usize].next = place,
        }
        list[1] = place;
    }

    /// Takes up to `lots` lots from the oldest order of a list, which leaves the list when it has none left. Returns
    /// how many were taken, and from which order.
    ///
    /// # Panics
    /// If the list is empty: the book must not match such a price.
    #[inline]
    pub fn take(&mut self, list: &mut OrderList, lots: Lots) -> (Lots, OrderId) {
        let place = list[0];
        assert!(place != 0, "a price that is in the book has orders");
        let rest = &mut self.slots[place as usize];
        let taken = lots.min(rest.lots);
        rest.lots -= taken;
        let order = OrderId::of_word(rest.order);
        if rest.lots == 0 {
            list[0] = rest.next;
            rest.next = self.free;
            self.free = place;
            self.count -= 1;
            if list[0] == 0 {
                list[1] = 0;
            }
        }
        (taken, order)
    }

    /// The orders of a list, the oldest first.
    pub fn iter<'a>(&'a self, list: &OrderList) -> impl Iterator<Item = (OrderId, Lots)> + use<'a> {
        let mut place = list[0];
        std::iter::from_fn(move || {
            let rest = self.slots[place as usize];
            let found = (place != 0).then(|| (OrderId::of_word(rest.order), rest.lots));
            place = rest.next;
            found
        })
    }
}
