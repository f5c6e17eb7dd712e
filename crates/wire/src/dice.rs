//! Chance for tests: fills any kind of field from bytes that a property test chose.
//!
//! Enters: a seed, bytes and encoded tables.  Leaves: fields that borrow from them.
//! Owns:   the sequence of choices, the same for the same seed.

use crate::{
    ids::DeliveryTag,
    short_str::{ShortStr, ShortString},
    table::{Table, TableRef},
    value::{Decimal, Value},
};
use proptest::prelude::*;
use splitmix::SplitMix64;

/// A sequence of choices.
pub(crate) struct RandomChoices<'a> {
    pub random: SplitMix64,
    /// Material of strings.
    pub bytes: &'a [u8],
    /// Material of tables: entries without the length in front.
    pub tables: &'a [Vec<u8>],
}

impl<'a> RandomChoices<'a> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn slice(&mut self, bytes_max: usize) -> &'a [u8] {
        let start = self.below(self.bytes.len() + 1);
        let rest = &self.bytes[start..];
        let count = self.below(rest.len().min(bytes_max) + 1);
        &rest[..count]
    }
}

/// A kind of field that can be filled by chance.
pub(crate) trait Arbitrary<'a> {
    fn draw(dice: &mut RandomChoices<'a>) -> Self;
}

macro_rules! draw_integers {
    ($($integer:ty)*) => {$(
        impl<'a> Arbitrary<'a> for $integer {
            fn draw(dice: &mut RandomChoices<'a>) -> Self {
                dice.random.next_u64() as $integer
            }
        }
    )*};
}

draw_integers!(u8 u16 u32 u64);

impl<'a> Arbitrary<'a> for DeliveryTag {
    fn draw(dice: &mut RandomChoices<'a>) -> Self {
        DeliveryTag(u64::draw(dice))
    }
}

impl<'a> Arbitrary<'a> for bool {
    fn draw(dice: &mut RandomChoices<'a>) -> Self {
        dice.random.next_u64() & 1 == 1
    }
}

impl<'a> Arbitrary<'a> for ShortStr<'a> {
    fn draw(dice: &mut RandomChoices<'a>) -> Self {
        ShortStr::new(dice.slice(255)).expect("the slice is short")
    }
}

impl<'a> Arbitrary<'a> for &'a [u8] {
    fn draw(dice: &mut RandomChoices<'a>) -> Self {
        dice.slice(usize::MAX)
    }
}

impl<'a> Arbitrary<'a> for TableRef<'a> {
    fn draw(dice: &mut RandomChoices<'a>) -> Self {
        if dice.tables.is_empty() {
            return TableRef::EMPTY;
        }
        let chosen = dice.below(dice.tables.len());
        TableRef::new(&dice.tables[chosen])
    }
}

/// Any value, with nested tables and lists of some levels.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Vec::into_boxed_slice);
    let leaf = prop_oneof![
        Just(Value::Void),
        any::<bool>().prop_map(Value::Bool),
        any::<i8>().prop_map(Value::I8),
        any::<u8>().prop_map(Value::U8),
        any::<i16>().prop_map(Value::I16),
        any::<u16>().prop_map(Value::U16),
        any::<i32>().prop_map(Value::I32),
        any::<u32>().prop_map(Value::U32),
        any::<i64>().prop_map(Value::I64),
        any::<u32>().prop_map(|bits| Value::F32(f32::from_bits(bits))),
        any::<u64>().prop_map(|bits| Value::F64(f64::from_bits(bits))),
        any::<(u8, u32)>().prop_map(|(scale, value)| Value::Decimal(Decimal { scale, value })),
        any::<u64>().prop_map(Value::Timestamp),
        bytes().prop_map(Value::LongStr),
        bytes().prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|values| Value::List(values.into_iter().collect())),
            table_of(inner).prop_map(Value::Table),
        ]
    })
}

/// Any table, empty ones and repeated names included.
pub(crate) fn any_table() -> impl Strategy<Value = Table> {
    table_of(any_value())
}

/// Any short string; mostly short ones.
pub(crate) fn any_short_string() -> impl Strategy<Value = ShortString> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 255..256),
    ]
    .prop_map(|bytes| ShortString::new(bytes).expect("not over 255 bytes"))
}

fn table_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Table> {
    prop::collection::vec((any_short_string(), value), 0..6).prop_map(|entries| entries.into_iter().collect())
}
