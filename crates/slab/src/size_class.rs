//! Size classes: the block sizes that regions are cut into.

use crate::limits::{BLOCK_ALIGN_BYTES, BLOCK_HEADER_BYTES, CLASSED_BYTES_MAX};

/// Classes in steps of 16 bytes, up to a payload of 256 bytes and its header.
const FINE: usize = (FINE_BYTES_MAX + BLOCK_HEADER_BYTES) / BLOCK_ALIGN_BYTES;
const FINE_BYTES_MAX: usize = 256;
const FINE_LOG2: u32 = FINE_BYTES_MAX.ilog2();

/// Above, each doubling of the payload has four classes, so at most a fifth of a block is wasted.
const COARSE: usize = (CLASSED_BYTES_MAX.ilog2() - FINE_LOG2) as usize * 4;

pub(crate) const CLASSES: usize = FINE + COARSE;

/// The class number of a region that holds one huge block.
pub(crate) const HUGE_CLASS: usize = CLASSES;

/// Bytes of a block of each class, with its header.
pub(crate) const STRIDES: [u32; CLASSES] = strides();

const fn strides() -> [u32; CLASSES] {
    let mut strides = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        strides[class] = if class < FINE {
            ((class + 1) * BLOCK_ALIGN_BYTES) as u32
        } else {
            let step = class - FINE;
            let base = FINE_BYTES_MAX << (step / 4);
            (base + base / 4 * (step % 4 + 1) + BLOCK_HEADER_BYTES) as u32
        };
        class += 1;
    }
    strides
}

/// The class with the smallest blocks of at least `bytes`; `None` if such a block needs a region of its own.
#[inline]
pub(crate) const fn class_of(bytes: usize) -> Option<usize> {
    if bytes <= FINE * BLOCK_ALIGN_BYTES {
        // A block is at least as long as the link of a free list.
        return Some(bytes.saturating_sub(1) / BLOCK_ALIGN_BYTES);
    }
    if bytes > CLASSED_BYTES_MAX + BLOCK_HEADER_BYTES {
        return None;
    }
    let below = bytes - BLOCK_HEADER_BYTES - 1;
    let log2 = below.ilog2();
    let quarter = (below >> (log2 - 2)) & 3;
    Some(FINE + (log2 - FINE_LOG2) as usize * 4 + quarter)
}

const _: () = assert!(STRIDES[CLASSES - 1] as usize == CLASSED_BYTES_MAX + BLOCK_HEADER_BYTES);
const _: () = assert!(FINE_BYTES_MAX / 4 >= BLOCK_ALIGN_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        let step = if cfg!(miri) { 509 } else { 1 };
        for bytes in (0..=CLASSED_BYTES_MAX + BLOCK_HEADER_BYTES).step_by(step) {
            let class = class_of(bytes).expect("a class for each size up to the largest");
            let smallest = STRIDES.iter().position(|stride| *stride as usize >= bytes).expect("a stride as large");
            assert_eq!(class, smallest, "for {bytes} bytes");
        }
        assert_eq!(class_of(CLASSED_BYTES_MAX + BLOCK_HEADER_BYTES + 1), None);
    }

    #[test]
    fn blocks_are_aligned_and_waste_is_bounded() {
        for pair in STRIDES.windows(2) {
            let [smaller, larger] = pair else { unreachable!("windows of two") };
            assert!(larger.is_multiple_of(BLOCK_ALIGN_BYTES as u32));
            assert!(smaller < larger);
            assert!(larger - smaller <= 16.max(larger / 5), "{smaller} to {larger}");
        }
    }
}
