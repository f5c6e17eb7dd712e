//! Copying in pieces: the lists of a catalog may have millions of values, and whoever copies them has other work.
//!
//! Enters: lists, and their copies so far.  Leaves: more of the copies.
//! Owns:   how much one piece is.

/// Values that are copied before the budget is asked again, where none has anything on the heap.
const VALUES_A_PIECE: usize = 1_024;

/// The bytes that one piece of a copy may still have.
pub(crate) struct CopyBudget {
    left: usize,
}

impl CopyBudget {
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Bytes were copied.
    pub fn draw(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Whether the rest is for another piece.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Copies more of a list of values that have nothing on the heap. Returns whether none is left.
    pub fn copy_values<T: Clone>(&mut self, from: &[T], copy: &mut Vec<T>) -> bool {
        while copy.len() < from.len() {
            if self.is_spent() {
                return false;
            }
            copy.reserve_exact(from.len() - copy.len());
            let rest = &from[copy.len()..];
            let piece = &rest[..rest.len().min(VALUES_A_PIECE)];
            copy.extend_from_slice(piece);
            self.draw(size_of_val(piece));
        }
        true
    }

    /// Copies more of a list one by one. `copy_of` tells also how many bytes a value has on the heap. Returns whether none is left.
    pub fn copy_each<T>(&mut self, from: &[T], copy: &mut Vec<T>, mut copy_of: impl FnMut(&T) -> (T, usize)) -> bool {
        while let Some(value) = from.get(copy.len()) {
            if self.is_spent() {
                return false;
            }
            copy.reserve_exact(from.len() - copy.len());
            let (value, heap_bytes) = copy_of(value);
            copy.push(value);
            self.draw(size_of::<T>() + heap_bytes);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{CopyBudget, VALUES_A_PIECE};

    #[test]
    fn a_list_is_copied_in_pieces_of_the_budget() {
        let from: Vec<u32> = (0..10 * VALUES_A_PIECE as u32).collect();
        let (mut copy, mut pieces) = (Vec::new(), 0);
        while !CopyBudget::new(2 * VALUES_A_PIECE * size_of::<u32>()).copy_values(&from, &mut copy) {
            pieces += 1;
            assert_eq!(copy.len(), pieces * 2 * VALUES_A_PIECE);
        }
        assert_eq!((pieces, copy == from), (4, true));
        let mut each = Vec::new();
        let mut piece = CopyBudget::new(3 * 104);
        assert!(!piece.copy_each(&from, &mut each, |&value| (value, 100)) && piece.is_spent());
        assert_eq!(each, from[..3]);
        assert!(CopyBudget::new(0).copy_values(&from, &mut copy), "nothing is left of it");
    }
}
