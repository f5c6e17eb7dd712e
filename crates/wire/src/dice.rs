//! Chance for tests: fills any kind of field from bytes that a property test chose.
//!
//! Enters: a seed, bytes and encoded tables.  Leaves: fields that borrow from them.
//! Owns:   the sequence of choices, the same for the same seed.
//! Never:  compiled outside tests.

use crate::{short_str::ShortStr, table::TableRef};

/// A sequence of choices.
pub(crate) struct Dice<'a> {
    pub seed: u64,
    /// Material of strings.
    pub bytes: &'a [u8],
    /// Material of tables: entries without the length in front.
    pub tables: &'a [Vec<u8>],
}

impl<'a> Dice<'a> {
    /// The next number (splitmix64).
    pub fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn slice(&mut self, bytes_max: usize) -> &'a [u8] {
        let start = self.below(self.bytes.len() + 1);
        let rest = &self.bytes[start..];
        let count = self.below(rest.len().min(bytes_max) + 1);
        &rest[..count]
    }
}

/// A kind of field that can be filled by chance.
pub(crate) trait Draw<'a> {
    fn draw(dice: &mut Dice<'a>) -> Self;
}

macro_rules! draw_integers {
    ($($integer:ty)*) => {$(
        impl<'a> Draw<'a> for $integer {
            fn draw(dice: &mut Dice<'a>) -> Self {
                dice.next() as $integer
            }
        }
    )*};
}

draw_integers!(u8 u16 u32 u64);

impl<'a> Draw<'a> for bool {
    fn draw(dice: &mut Dice<'a>) -> Self {
        dice.next() & 1 == 1
    }
}

impl<'a> Draw<'a> for ShortStr<'a> {
    fn draw(dice: &mut Dice<'a>) -> Self {
        ShortStr::new(dice.slice(255)).expect("the slice is short")
    }
}

impl<'a> Draw<'a> for &'a [u8] {
    fn draw(dice: &mut Dice<'a>) -> Self {
        dice.slice(usize::MAX)
    }
}

impl<'a> Draw<'a> for TableRef<'a> {
    fn draw(dice: &mut Dice<'a>) -> Self {
        if dice.tables.is_empty() {
            return TableRef::EMPTY;
        }
        let chosen = dice.below(dice.tables.len());
        TableRef::new(&dice.tables[chosen])
    }
}
