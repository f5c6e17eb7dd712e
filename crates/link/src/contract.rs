//! The contract: tests that every link passes.
//!
//! [`CONTRACT_TESTS`] lists them. A crate with a link of its own runs each over a fresh pair of connected links; a
//! broken guarantee panics with its name.

mod closing;
mod drivers;
mod streams;

pub(crate) use closing::{
    a_failed_send_stays_failed, abort_ends_both_ways, half_close_lets_the_rest_arrive, the_other_end_disappears,
};
pub(crate) use streams::{
    bytes_arrive_in_order, direct_is_filled_before_scratch, gathers_of_many_parts, lent_memory_is_filled_at_its_place,
    nothing_to_read_is_idle, partial_writes_lose_nothing,
};

use crate::Link;

/// Two connected links.
pub type LinkPair = (Box<dyn Link>, Box<dyn Link>);

/// A test of one guarantee.
pub type ContractTest = fn(LinkPair);

/// Every test with its name.
pub const CONTRACT_TESTS: &[(&str, ContractTest)] = &[
    ("bytes arrive in order", bytes_arrive_in_order),
    ("partial writes lose nothing", partial_writes_lose_nothing),
    ("gathers of many parts", gathers_of_many_parts),
    ("direct is filled before scratch", direct_is_filled_before_scratch),
    ("lent memory is filled in its range", lent_memory_is_filled_at_its_place),
    ("nothing to read is idle", nothing_to_read_is_idle),
    ("half close lets the rest arrive", half_close_lets_the_rest_arrive),
    ("abort ends both ways", abort_ends_both_ways),
    ("the other end disappears", the_other_end_disappears),
    ("a failed send stays failed", a_failed_send_stays_failed),
];

/// Runs every test, each over a pair of its own.
pub fn check_all(mut connect: impl FnMut() -> LinkPair) {
    for (_, promise) in CONTRACT_TESTS {
        promise(connect());
    }
}
