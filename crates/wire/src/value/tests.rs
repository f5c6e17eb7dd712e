//! Values: what they are as numbers, and when two of them are the same.

use super::*;
use crate::{dice::any_value, limits::TABLE_DEPTH_MAX, short_str::ShortString, table::ListRef};
use proptest::prelude::*;
use std::hash::{BuildHasher, RandomState};

fn bytes_of(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

#[track_caller]
fn means(left: Value, right: Value, expect: bool) {
    let bytes = bytes_of(&right);
    let view = ListRef::new(&bytes).iter().next().expect("one value").expect("well formed");
    assert_eq!(left.is_equivalent(view), expect, "{left:?} and {right:?}");
}

#[test]
fn numbers_mean_the_same_in_any_type() {
    means(Value::U8(5), Value::I64(5), true);
    means(Value::U8(255), Value::I8(-1), false);
    means(Value::I32(-5), Value::F64(-5.0), true);
    means(Value::F32(1.5), Value::F64(1.5), true);
    means(Value::F32(1.5), Value::I8(1), false);
    means(Value::Timestamp(7), Value::I16(7), true);
    means(Value::Timestamp(u64::MAX), Value::I64(-1), false);
    // 2^53 + 1 is no double; neither is equal to its neighbour.
    means(Value::I64((1 << 53) + 1), Value::F64(9_007_199_254_740_992.0), false);
    means(Value::F64(f64::NAN), Value::I64(0), false);
    means(Value::F64(f64::INFINITY), Value::I64(i64::MAX), false);
    means(Value::Bool(true), Value::I8(1), false);
}

#[test]
fn other_values_mean_the_same_within_their_kind() {
    means(Value::text("a"), Value::Bytes(b"a".as_slice().into()), true);
    means(Value::text("a"), Value::text("b"), false);
    means(Value::Void, Value::Void, true);
    means(Value::Void, Value::Bool(false), false);
    let list = |values: &[Value]| Value::List(values.iter().cloned().collect());
    means(list(&[Value::U8(1)]), list(&[Value::I64(1)]), true);
    means(list(&[Value::U8(1)]), list(&[Value::I64(1), Value::Void]), false);
    means(list(&[Value::U8(1), Value::Void]), list(&[Value::I64(1)]), false);
    let table =
        |name: &str, value| Value::Table([(ShortString::try_from(name).expect("short"), value)].into_iter().collect());
    means(table("k", Value::U8(1)), table("k", Value::I64(1)), true);
    means(table("k", Value::U8(1)), table("l", Value::U8(1)), false);
}

#[test]
fn integers_of_every_type_are_numbers() {
    let values = [
        (Value::I8(-1), Some(-1)),
        (Value::U8(200), Some(200)),
        (Value::I16(-300), Some(-300)),
        (Value::U16(60_000), Some(60_000)),
        (Value::I32(-70_000), Some(-70_000)),
        (Value::U32(u32::MAX), Some(4_294_967_295)),
        (Value::I64(i64::MIN), Some(i64::MIN)),
        (Value::Timestamp(1), None),
        (Value::Bool(true), None),
        (Value::text("1"), None),
        (Value::F64(1.0), None),
    ];
    for (value, expect) in values {
        assert_eq!(value.as_i64(), expect, "{value:?}");
        let bytes = bytes_of(&value);
        let view = ListRef::new(&bytes).iter().next().expect("one value").expect("well formed");
        assert_eq!(view.as_i64(), expect, "{value:?}");
        assert_eq!(view.type_name(), value.type_name());
    }
    assert_eq!(Value::I32(1).type_name(), "signedint");
}

#[test]
fn a_value_stays_small() {
    assert!(size_of::<Value>() <= 32, "{} bytes", size_of::<Value>());
    assert!(size_of::<ValueRef<'_>>() <= 24, "{} bytes", size_of::<ValueRef<'_>>());
}

proptest! {
    #[test]
    fn equal_is_what_is_equal_on_the_wire(left in any_value(), right in any_value()) {
        let hasher = RandomState::new();
        prop_assert_eq!(left == right, bytes_of(&left) == bytes_of(&right));
        let copy = left.clone();
        prop_assert_eq!(hasher.hash_one(&left), hasher.hash_one(&copy));
        prop_assert_eq!(left, copy);
    }

    #[test]
    fn a_copy_means_the_same(value in any_value()) {
        let bytes = bytes_of(&value);
        let view = ListRef::new(&bytes).iter().next().expect("one value").expect("well formed");
        let copy = view.to_value(TABLE_DEPTH_MAX);
        prop_assert_eq!(copy.as_ref(), Ok(&value));
        if !format!("{value:?}").contains("NaN") {
            prop_assert!(value.is_equivalent(view));
        }
    }
}
