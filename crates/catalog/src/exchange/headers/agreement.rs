//! Whether a header has the value that a binding asks for.
//!
//! Enters: the value of an argument, the value of a header.  Leaves: whether they agree; hashes that are then the same.
//! Owns:   what agrees with what.
//!
//! A void argument asks for presence alone. Numbers of all types compare by value, and so do strings and bytes; what
//! is within lists and tables must have the same types as well. So RabbitMQ 3.10, where each value is one term of
//! Erlang, but a nested one carries its type.

use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};
use wire::{ListRef, Table, TableRef, Value, ValueRef, limits::TABLE_DEPTH_MAX};

/// Bytes of a list or table that are hashed in one unit of work.
const NESTED_BYTES_A_UNIT: usize = 16;
/// The same of a text, whether it is hashed or compared.
const TEXT_BYTES_A_UNIT: usize = 256;
/// Values within lists and tables that are compared in one unit of work.
const VALUES_A_UNIT: u64 = 8;

/// Units of work that hashing a value is, besides finding it.
pub(super) fn hash_work(value: ValueRef<'_>) -> u64 {
    let units = match value {
        ValueRef::LongStr(bytes) | ValueRef::Bytes(bytes) => bytes.len() / TEXT_BYTES_A_UNIT,
        ValueRef::List(list) => list.as_bytes().len() / NESTED_BYTES_A_UNIT,
        ValueRef::Table(table) => table.as_bytes().len() / NESTED_BYTES_A_UNIT,
        _ => 0,
    };
    units as u64
}

/// Adds to the work.
pub(super) fn agrees(wanted: &Value, header: ValueRef<'_>, work: &mut u64) -> bool {
    match (wanted, header) {
        (Value::Void, _) => true,
        (Value::List(_), ValueRef::List(_)) | (Value::Table(_), ValueRef::Table(_)) => {
            let mut compared = 0;
            let is_same = is_same(wanted, header, &mut compared);
            *work += compared / VALUES_A_UNIT;
            is_same
        }
        _ => {
            *work += wanted.as_bytes().map_or(0, |bytes| bytes.len() / TEXT_BYTES_A_UNIT) as u64;
            wanted.is_equivalent(header)
        }
    }
}

/// Whether both have the same types and values. Recurses as deep as `wanted` nests.
fn is_same(wanted: &Value, header: ValueRef<'_>, compared: &mut u64) -> bool {
    *compared += 1;
    match (wanted, header) {
        (Value::List(wanted), ValueRef::List(header)) => {
            let mut values = header.iter();
            wanted.iter().all(|one| matches!(values.next(), Some(Ok(other)) if is_same(one, other, compared)))
                && values.next().is_none()
        }
        (Value::Table(wanted), ValueRef::Table(header)) => is_same_table(wanted, header, compared),
        (Value::Void, ValueRef::Void) => true,
        (Value::Bool(wanted), ValueRef::Bool(header)) => *wanted == header,
        (Value::I8(wanted), ValueRef::I8(header)) => *wanted == header,
        (Value::U8(wanted), ValueRef::U8(header)) => *wanted == header,
        (Value::I16(wanted), ValueRef::I16(header)) => *wanted == header,
        (Value::U16(wanted), ValueRef::U16(header)) => *wanted == header,
        (Value::I32(wanted), ValueRef::I32(header)) => *wanted == header,
        (Value::U32(wanted), ValueRef::U32(header)) => *wanted == header,
        (Value::I64(wanted), ValueRef::I64(header)) => *wanted == header,
        (Value::F32(wanted), ValueRef::F32(header)) => wanted.to_bits() == header.to_bits(),
        (Value::F64(wanted), ValueRef::F64(header)) => wanted.to_bits() == header.to_bits(),
        (Value::Decimal(wanted), ValueRef::Decimal(header)) => *wanted == header,
        (Value::Timestamp(wanted), ValueRef::Timestamp(header)) => *wanted == header,
        (Value::LongStr(wanted), ValueRef::LongStr(header)) | (Value::Bytes(wanted), ValueRef::Bytes(header)) => {
            *compared += (wanted.len() / TEXT_BYTES_A_UNIT) as u64 * VALUES_A_UNIT;
            **wanted == *header
        }
        _ => false,
    }
}

fn is_same_table(wanted: &Table, header: TableRef<'_>, compared: &mut u64) -> bool {
    let mut entries = header.iter();
    let same = |(name, one): (wire::ShortStr<'_>, &Value)| matches!(entries.next(), Some(Ok((other_name, other))) if name == other_name && is_same(one, other, compared));
    wanted.iter().all(same) && entries.next().is_none()
}

/// The hash of an argument: the same as that of every header that agrees with it.
pub(super) fn hash_value(state: &FixedState, value: &Value) -> u64 {
    match value {
        Value::List(list) => {
            let mut bytes = Vec::with_capacity(list.encoded_len());
            list.encode(&mut bytes);
            hash_header(state, ValueRef::List(ListRef::new(bytes.get(4..).unwrap_or_default())))
        }
        Value::Table(table) => hash_header(state, ValueRef::Table(TableRef::new(&table.to_bytes()))),
        Value::LongStr(bytes) | Value::Bytes(bytes) => hash_header(state, ValueRef::Bytes(bytes)),
        Value::Bool(value) => hash_header(state, ValueRef::Bool(*value)),
        Value::F32(value) => hash_header(state, ValueRef::F32(*value)),
        Value::F64(value) => hash_header(state, ValueRef::F64(*value)),
        Value::Decimal(value) => hash_header(state, ValueRef::Decimal(*value)),
        Value::Timestamp(value) => hash_header(state, ValueRef::Timestamp(*value)),
        Value::Void => hash_header(state, ValueRef::Void),
        Value::I8(_) | Value::U8(_) | Value::I16(_) | Value::U16(_) | Value::I32(_) | Value::U32(_) | Value::I64(_) => {
            hash_header(state, ValueRef::I64(value.as_i64().unwrap_or_default()))
        }
    }
}

/// The hash of a header.
pub(super) fn hash_header(state: &FixedState, value: ValueRef<'_>) -> u64 {
    let mut hasher = state.build_hasher();
    match value {
        ValueRef::F32(value) => hash_float(&mut hasher, value.into()),
        ValueRef::F64(value) => hash_float(&mut hasher, value),
        ValueRef::Timestamp(value) => hasher.write_i128(value.into()),
        ValueRef::LongStr(bytes) | ValueRef::Bytes(bytes) => {
            hasher.write_u8(1);
            hasher.write(bytes);
        }
        _ => match value.as_i64() {
            Some(value) => hasher.write_i128(value.into()),
            None => hash_nested(&mut hasher, value, TABLE_DEPTH_MAX),
        },
    }
    hasher.finish()
}

/// A float that is a whole number agrees with that number; all whole numbers of a table are below 2^64.
fn hash_float(hasher: &mut impl Hasher, value: f64) {
    if value.fract() == 0.0 && value.abs() <= 18_446_744_073_709_551_616.0 {
        hasher.write_i128(value as i128);
    } else {
        hasher.write_u64(value.to_bits());
    }
}

/// With types. Values that differ may have the same hash where they nest too deep or are malformed.
fn hash_nested(hasher: &mut impl Hasher, value: ValueRef<'_>, depth_left: usize) {
    let Some(depth_left) = depth_left.checked_sub(1) else { return };
    let (kind, number) = match value {
        ValueRef::Void => (2, 0),
        ValueRef::Bool(value) => (3, u64::from(value)),
        ValueRef::I8(value) => (4, i64::from(value).cast_unsigned()),
        ValueRef::U8(value) => (5, value.into()),
        ValueRef::I16(value) => (6, i64::from(value).cast_unsigned()),
        ValueRef::U16(value) => (7, value.into()),
        ValueRef::I32(value) => (8, i64::from(value).cast_unsigned()),
        ValueRef::U32(value) => (9, value.into()),
        ValueRef::I64(value) => (10, value.cast_unsigned()),
        ValueRef::F32(value) => (11, value.to_bits().into()),
        ValueRef::F64(value) => (12, value.to_bits()),
        ValueRef::Decimal(value) => (13, u64::from(value.value) << 8 | u64::from(value.scale)),
        ValueRef::Timestamp(value) => (14, value),
        ValueRef::LongStr(bytes) => (15, bytes.len() as u64),
        ValueRef::Bytes(bytes) => (16, bytes.len() as u64),
        // As many values follow as there are; what ends one is the next one's kind, or this.
        ValueRef::List(_) => (17, 0),
        ValueRef::Table(_) => (18, 0),
    };
    hasher.write_u8(kind);
    hasher.write_u64(number);
    match value {
        ValueRef::LongStr(bytes) | ValueRef::Bytes(bytes) => hasher.write(bytes),
        ValueRef::List(list) => {
            list.iter().map_while(Result::ok).for_each(|value| hash_nested(hasher, value, depth_left));
            hasher.write_u8(0);
        }
        ValueRef::Table(table) => {
            for (name, value) in table.iter().map_while(Result::ok) {
                hasher.write(name.as_bytes());
                hash_nested(hasher, value, depth_left);
            }
            hasher.write_u8(0);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{agrees, hash_header, hash_value};
    use foldhash::fast::FixedState;
    use wire::{Decimal, List, ListRef, Table, Value};

    #[test]
    fn what_agrees_has_the_same_hash() {
        let list = |values: &[Value]| Value::List(values.iter().cloned().collect::<List>());
        let table = |value: Value| Value::Table(Table::new().with("k", value).expect("a short name"));
        let mut values = vec![Value::Void, Value::Bool(true), Value::Bool(false), Value::text(""), Value::text("one")];
        values.extend([Value::Bytes(b"one".as_slice().into()), Value::Decimal(Decimal { scale: 1, value: 10 })]);
        for number in [-1, 0, 1, 100] {
            values.extend([Value::I8(number), Value::I16(number.into()), Value::I32(number.into())]);
            values.extend([Value::I64(number.into()), Value::F32(number.into()), Value::F64(number.into())]);
            values.extend([Value::U8(number.cast_unsigned()), Value::Timestamp(number.cast_unsigned().into())]);
        }
        values.extend([0.5, -0.0, 1e300, f64::NAN, f64::INFINITY, 9_007_199_254_740_993.0].map(Value::F64));
        values.extend([i64::MAX, i64::MIN, (1 << 53) + 1, 1 << 53].map(Value::I64));
        values.extend([u64::MAX, 1 << 53].map(Value::Timestamp));
        let nested: Vec<_> =
            values.iter().flat_map(|value| [list(std::slice::from_ref(value)), table(value.clone())]).collect();
        values.push(list(&[]));
        values.push(Value::Table(Table::new()));
        values.extend(nested.iter().take(9).map(|value| list(&[value.clone(), Value::Void])));
        values.extend(nested);
        let state = FixedState::with_seed(5);
        let mut agreed = 0;
        for header in &values {
            let mut bytes = Vec::new();
            header.encode(&mut bytes);
            let header_ref = ListRef::new(&bytes).iter().next().expect("one value").expect("sound");
            for wanted in &values {
                let agree = agrees(wanted, header_ref, &mut 0);
                // As tables say it themselves, within lists and tables.
                if let (Value::List(_), Value::List(_)) | (Value::Table(_), Value::Table(_)) = (wanted, header) {
                    assert_eq!(agree, wanted == header, "{wanted:?} {header:?}");
                }
                if agree && *wanted != Value::Void {
                    agreed += 1;
                    assert_eq!(hash_value(&state, wanted), hash_header(&state, header_ref), "{wanted:?} {header:?}");
                }
            }
        }
        assert!(agreed > values.len(), "{agreed}");
    }
}
