//! Bytes on the heap, as an allocator gives them.
//!
//! Enters: sizes.  Leaves: what they take.

use wire::Table;

/// Bytes that one allocation of this size takes: allocators give places of 16 bytes, and keep a few bytes about each.
#[inline]
pub(crate) const fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.next_multiple_of(16) }
}

/// Bytes of a text that is shared: with its two counts.
#[inline]
pub(crate) const fn shared(bytes: usize) -> usize {
    allocated(2 * size_of::<usize>() + bytes)
}

/// Bytes of the arguments of an exchange or a queue.
pub(crate) fn boxed_table(table: Option<&Table>) -> usize {
    table.map_or(0, |table| allocated(size_of::<Table>()) + table.heap_bytes())
}

#[cfg(test)]
mod tests {
    use super::{allocated, shared};

    #[test]
    fn allocations_take_places_of_16_bytes() {
        assert_eq!([0, 1, 16, 17].map(allocated), [0, 16, 16, 32]);
        assert_eq!([0, 1, 16, 17].map(shared), [16, 32, 32, 48], "with the counts of those who share");
    }
}
