//! Sets of indexes: which queues a search has come upon.
//!
//! Enters: indexes, each as often as it may.  Leaves: the same in their order, each once.
//! Owns:   a bit for each index, in blocks that exist where a bit is set.

/// Words of one block.
const BLOCK_WORDS: usize = 64;
const BLOCK_BITS: u32 = BLOCK_WORDS as u32 * u64::BITS;

/// A set of indexes. It takes a bit for each index near others, and never has to grow in one piece.
#[derive(Default)]
pub(crate) struct IndexSet {
    blocks: Vec<Option<Box<[u64; BLOCK_WORDS]>>>,
    len: usize,
    blocks_used: usize,
}

impl IndexSet {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Option<Box<[u64; BLOCK_WORDS]>>>()
            + self.blocks_used * size_of::<[u64; BLOCK_WORDS]>()
    }

    /// Adds an index. Answers whether it was new.
    pub fn insert(&mut self, index: u32) -> bool {
        let (block, word, bit) = place(index);
        if self.blocks.len() <= block {
            self.blocks.resize_with(block + 1, || None);
        }
        let words = self.blocks[block].get_or_insert_with(|| {
            self.blocks_used += 1;
            Box::new([0; BLOCK_WORDS])
        });
        let is_new = words[word] & bit == 0;
        words[word] |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    /// The first index that is not below `from`.
    pub fn next(&self, from: u32) -> Option<u32> {
        let (first, mut word, bit) = place(from);
        // The bits below `from` are not looked at.
        let mut mask = !(bit - 1);
        for (number, block) in self.blocks.iter().enumerate().skip(first) {
            if let Some(words) = block {
                while word < BLOCK_WORDS {
                    let found = words[word] & mask;
                    if found != 0 {
                        let bits = word as u32 * u64::BITS + found.trailing_zeros();
                        return Some(number as u32 * BLOCK_BITS + bits);
                    }
                    (word, mask) = (word + 1, u64::MAX);
                }
            }
            (word, mask) = (0, u64::MAX);
        }
        None
    }
}

fn place(index: u32) -> (usize, usize, u64) {
    let (block, rest) = (index / BLOCK_BITS, index % BLOCK_BITS);
    (block as usize, (rest / u64::BITS) as usize, 1 << (rest % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::IndexSet;

    #[test]
    fn indexes_come_back_once_and_in_their_order() {
        let mut set = IndexSet::default();
        assert_eq!((set.next(0), set.bytes()), (None, 0));
        let members = [0, 1, 63, 64, 4095, 4096, 70_000, 1_999_999];
        for index in members.into_iter().rev() {
            assert!(set.insert(index) && !set.insert(index));
        }
        let mut next = 0;
        let in_order = std::iter::from_fn(|| {
            let found = set.next(next)?;
            next = found + 1;
            Some(found)
        });
        assert_eq!(in_order.collect::<Vec<_>>(), members);
        assert_eq!((set.len(), set.next(2), set.next(2_000_000)), (8, Some(63), None));
        assert!(set.bytes() < 10_000, "{} bytes", set.bytes());
    }
}
