//! Tables: every type, every cut, every depth.

use super::*;
use crate::{
    dice::{any_short_string, any_table, any_value},
    limits::TABLE_DEPTH_MAX,
    short_str::ShortString,
    value::{Decimal, Value},
};
use proptest::prelude::*;

fn text(text: &str) -> ShortString {
    ShortString::try_from(text).expect("short")
}

/// `depth` tables or lists in each other, the innermost empty; the bytes of the outermost, without its length.
fn nested(depth: usize, shape: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for level in (1..depth).rev() {
        let mut outer = Vec::new();
        if shape(level - 1) {
            outer.push(0);
        }
        outer.push(if shape(level) { b'F' } else { b'A' });
        outer.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        outer.append(&mut bytes);
        bytes = outer;
    }
    bytes
}

#[test]
fn every_type_has_its_bytes() {
    let cases: &[(&[u8], Value)] = &[
        (b"t\x01", Value::Bool(true)),
        (b"b\xfe", Value::I8(-2)),
        (b"B\xfe", Value::U8(254)),
        (b"s\xff\xfe", Value::I16(-2)),
        (b"u\xff\xfe", Value::U16(65534)),
        (b"I\xff\xff\xff\xfe", Value::I32(-2)),
        (b"i\xff\xff\xff\xfe", Value::U32(u32::MAX - 1)),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xfe", Value::I64(-2)),
        (b"f\x3f\xc0\0\0", Value::F32(1.5)),
        (b"d\x3f\xf8\0\0\0\0\0\0", Value::F64(1.5)),
        (b"D\x02\0\0\x01\x3a", Value::Decimal(Decimal { scale: 2, value: 314 })),
        (b"S\0\0\0\x02hi", Value::text("hi")),
        (b"A\0\0\0\x03t\0V", Value::List([Value::Bool(false), Value::Void].into_iter().collect())),
        (b"T\0\0\0\0\x65\0\0\0", Value::Timestamp(0x6500_0000)),
        (b"F\0\0\0\x03\x01kV", Value::Table([(text("k"), Value::Void)].into_iter().collect())),
        (b"x\0\0\0\x01\xff", Value::Bytes([0xff].into())),
        (b"V", Value::Void),
    ];
    for (bytes, value) in cases {
        let mut out = Vec::new();
        value.encode(&mut out);
        assert_eq!(out, *bytes, "{value:?}");
        assert_eq!(out.len(), value.encoded_len());
        assert_eq!(ListRef::new(bytes).to_list(), Ok([value.clone()].into_iter().collect()));
    }
    // Read, but never written: L is l, any octet but 0 is true.
    assert_eq!(ListRef::new(b"L\0\0\0\0\0\0\0\x05").iter().next(), Some(Ok(ValueRef::I64(5))));
    assert_eq!(ListRef::new(b"t\x07").iter().next(), Some(Ok(ValueRef::Bool(true))));
}

#[test]
fn every_other_type_is_refused() {
    for tag in 0..=u8::MAX {
        let known = b"tbBsuIilLfdDSATFVx".contains(&tag);
        let bytes = [1, b'k', tag, 0, 0, 0, 0, 0, 0, 0, 0];
        let refused = TableRef::new(&bytes).validate(9) == Err(DecodeError::UnknownFieldType { tag });
        assert_eq!(known, !refused, "type {tag}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let shapes = [
        ("tables", (|_| true) as fn(usize) -> bool),
        ("lists in tables", |level| level % 2 == 0),
        ("lists in a table", |level| level == 0),
    ];
    for (name, shape) in shapes {
        for depth in [1, 2, TABLE_DEPTH_MAX, TABLE_DEPTH_MAX + 1, 1_000] {
            let bytes = nested(depth, shape);
            let table = TableRef::new(&bytes);
            let expect =
                if depth > TABLE_DEPTH_MAX { Err(DecodeError::TooDeep { depth_max: TABLE_DEPTH_MAX }) } else { Ok(()) };
            assert_eq!(table.validate(TABLE_DEPTH_MAX), expect, "{name} {depth}");
            assert_eq!(
                table.to_table().map(|owned| owned.to_bytes() == bytes),
                expect.map(|()| true),
                "{name} {depth}"
            );
            assert_eq!(table.validate(depth), Ok(()), "{name} {depth}");
            assert_eq!(table.validate(depth - 1), Err(DecodeError::TooDeep { depth_max: depth - 1 }), "{name} {depth}");
        }
    }
}

#[test]
fn iteration_ends_with_the_first_error() {
    let table = TableRef::new(b"\x01aV\x01b?\x01cV");
    let entries: Vec<_> = table.iter().collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1], Err(DecodeError::UnknownFieldType { tag: b'?' }));
    assert_eq!(table.get("a"), Some(ValueRef::Void));
    assert_eq!(table.get("c"), None);
    assert_eq!(ListRef::new(b"V?V").iter().count(), 2);
    assert_eq!(TableRef::new(b"\x05ab").iter().collect::<Vec<_>>(), [Err(DecodeError::Truncated)]);
    // A length that reaches behind the table that holds it.
    assert_eq!(TableRef::new(b"\x01aF\0\0\0\x04\x01bV").validate(9), Err(DecodeError::Truncated));
}

#[test]
fn names_are_found_set_and_taken_out() {
    let mut table =
        Table::new().with("a", Value::I32(1)).and_then(|table| table.with("b", Value::Void)).expect("short");
    table.set(text("a"), Value::Bool(true));
    assert_eq!(table.get("a"), Some(&Value::Bool(true)));
    table.push(text("a"), Value::I8(2));
    assert_eq!((table.len(), table.get("a")), (3, Some(&Value::Bool(true))));
    assert_eq!(table.remove("a"), Some(Value::Bool(true)));
    assert_eq!(table.get("a"), Some(&Value::I8(2)));
    assert_eq!(table.remove("c"), None);
    assert!(Table::new().with(&"x".repeat(256), Value::Void).is_err());
}

proptest! {
    #[test]
    fn tables_survive_the_round_trip(table in any_table()) {
        let mut out = Vec::new();
        table.encode(&mut out);
        prop_assert_eq!(out.len(), table.encoded_len());
        let bytes = table.to_bytes();
        prop_assert_eq!(&out[4..], &bytes[..]);
        let view = TableRef::new(&bytes);
        prop_assert_eq!(view.validate(TABLE_DEPTH_MAX), Ok(()));
        prop_assert_eq!(view.to_table(), Ok(table.clone()));
        prop_assert_eq!(view.iter().count(), table.len());
        for (name, _) in table.iter() {
            if let Ok(name) = name.to_str() {
                let found = view.get(name).expect("it was there").to_value(TABLE_DEPTH_MAX);
                prop_assert_eq!(found.as_ref().ok(), table.get(name));
            }
        }
    }

    #[test]
    fn a_cut_table_is_refused_unless_cut_between_entries(table in any_table()) {
        let bytes = table.to_bytes();
        let mut ends = vec![0];
        for (name, value) in table.iter() {
            ends.push(ends[ends.len() - 1] + 1 + name.len() + value.encoded_len());
        }
        for cut in 0..bytes.len() {
            let expect = if ends.contains(&cut) { Ok(()) } else { Err(DecodeError::Truncated) };
            prop_assert_eq!(TableRef::new(&bytes[..cut]).validate(TABLE_DEPTH_MAX), expect);
        }
    }

    #[test]
    fn mutated_tables_are_read_or_refused(
        table in any_table(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = table.to_bytes();
        prop_assume!(!bytes.is_empty());
        for (place, value) in mutations {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        agree(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        agree(&bytes)?;
    }

    #[test]
    fn lists_survive_the_round_trip(values in prop::collection::vec(any_value(), 0..6)) {
        let list: List = values.into_iter().collect();
        let mut out = Vec::new();
        list.encode(&mut out);
        prop_assert_eq!(out.len(), list.encoded_len());
        prop_assert_eq!(ListRef::new(&out[4..]).to_list(), Ok(list));
    }

    #[test]
    fn setting_replaces_and_keeps_the_place(
        names in prop::collection::vec(any_short_string(), 1..6),
        chosen in any::<prop::sample::Index>(),
    ) {
        let mut table = Table::new();
        for name in &names {
            table.set(name.clone(), Value::I32(1));
        }
        let before: Vec<ShortString> = table.iter().map(|(name, _)| name.to_owned()).collect();
        table.set(names[chosen.index(names.len())].clone(), Value::I32(2));
        let after: Vec<ShortString> = table.iter().map(|(name, _)| name.to_owned()).collect();
        prop_assert_eq!(before, after);
        prop_assert_eq!(table.iter().filter(|(_, value)| **value == Value::I32(2)).count(), 1);
    }
}

/// Checking and copying refuse the same bytes for the same reason, and what is copied means the same.
fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    let view = TableRef::new(bytes);
    let checked = view.validate(TABLE_DEPTH_MAX);
    let copied = view.to_table();
    prop_assert_eq!(checked, copied.as_ref().map(|_| ()).map_err(|error| *error));
    if let Ok(table) = copied {
        prop_assert!(view.iter().all(|entry| entry.is_ok()));
        prop_assert_eq!(TableRef::new(&table.to_bytes()).to_table(), Ok(table));
    }
    Ok(())
}
