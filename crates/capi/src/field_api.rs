//! Fields to C: made, put together to tables and lists, and taken out of them.
//!
//! Enters: names and values; a field that came.  Leaves: fields, and tables in memory of C's.
//! Owns:   which functions they have.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use wire::{ListRef, TableRef};

use crate::foreign::{ByteRoom, LentBytes, LentText, wanted};
use crate::status::{Failure, Status, guarded};
use crate::types::{Field, FieldKind, FieldList};
use crate::values::{field, list, table};

/// The bytes of a text, without its NUL; it must live on.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_text_bytes(text: LentText) -> LentBytes {
    text.bytes()
}

/// A field with a text. Name and text must live as long as it is used.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_string_field(name: LentText, value: LentText) -> Field {
    of_bytes(name, FieldKind::HarrierString, value.bytes())
}

/// A field with a number.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_integer_field(name: LentText, value: i64) -> Field {
    of_number(name, FieldKind::HarrierInteger, value)
}

/// A field with a truth.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_bool_field(name: LentText, value: bool) -> Field {
    of_number(name, FieldKind::HarrierBool, value.into())
}

/// A field with bytes, which must live as long as it is used.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_binary_field(name: LentText, value: LentBytes) -> Field {
    of_bytes(name, FieldKind::HarrierBinary, value)
}

/// A field with a table, as harrier_encode_table makes it or as it came. Its bytes must live as long as it is used.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_table_field(name: LentText, encoded: LentBytes) -> Field {
    of_bytes(name, FieldKind::HarrierTable, encoded)
}

/// A field with a list, as harrier_encode_list makes it or as it came. Its bytes must live as long as it is used.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_list_field(name: LentText, encoded: LentBytes) -> Field {
    of_bytes(name, FieldKind::HarrierList, encoded)
}

fn of_bytes(name: LentText, kind: FieldKind, bytes: LentBytes) -> Field {
    Field { name: name.bytes(), kind: kind as i32, integer: 0, real: 0.0, bytes }
}

fn of_number(name: LentText, kind: FieldKind, integer: i64) -> Field {
    Field { name: name.bytes(), kind: kind as i32, integer, real: 0.0, bytes: LentBytes::NONE }
}

/// Puts fields together to a table, in memory of yours, of which `encoded` is then the part that it takes. HARRIER_FULL if it has
/// too few bytes; `encoded.len` is then how many it needs.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_encode_table(
    fields: Option<&FieldList>,
    memory: *mut u8,
    memory_len: usize,
    encoded: Option<&mut MaybeUninit<LentBytes>>,
) -> Status {
    guarded(|| put(&table(fields)?.to_bytes(), ByteRoom::new(memory, memory_len), encoded))
}

/// The same with a list of values: their names are left out.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_encode_list(
    fields: Option<&FieldList>,
    memory: *mut u8,
    memory_len: usize,
    encoded: Option<&mut MaybeUninit<LentBytes>>,
) -> Status {
    guarded(|| put(&list(fields)?, ByteRoom::new(memory, memory_len), encoded))
}

fn put(bytes: &[u8], room: ByteRoom, encoded: Option<&mut MaybeUninit<LentBytes>>) -> Result<Status, Failure> {
    let out = wanted(encoded, "encoded")?;
    match room.put(bytes)? {
        Some(lent) => {
            out.write(lent);
            Ok(Status::HarrierOk)
        }
        None => {
            out.write(LentBytes::missing(bytes.len()));
            Err(Failure::new(Status::HarrierFull, format!("it takes {} bytes", bytes.len())))
        }
    }
}

/// The field of this name in a table, which is a field itself; it points into that. HARRIER_NONE if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_item(of: Option<&Field>, name: LentText, item: Option<&mut MaybeUninit<Field>>) -> Status {
    guarded(|| {
        let name = name.get("name")?;
        find_item(of, item, |_, found| found == name.as_bytes())
    })
}

/// The field at a place in a table, or the value at a place in a list, counted from 0: for a walk until HARRIER_NONE. The
/// values of a list have no names.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_item_at(of: Option<&Field>, place: usize, item: Option<&mut MaybeUninit<Field>>) -> Status {
    guarded(|| find_item(of, item, |at, _| at == place))
}

fn find_item(
    of: Option<&Field>,
    item: Option<&mut MaybeUninit<Field>>,
    fits: impl Fn(usize, &[u8]) -> bool,
) -> Result<Status, Failure> {
    let of = of.ok_or_else(|| Failure::argument("of is NULL"))?;
    let out = wanted(item, "item")?;
    let bytes = of.bytes.get("the value of a field")?;
    let malformed = |error: wire::DecodeError| Failure::new(Status::HarrierProtocolError, error.to_string());
    if of.kind == FieldKind::HarrierTable as i32 {
        for (place, entry) in TableRef::new(bytes).iter().enumerate() {
            let (name, value) = entry.map_err(malformed)?;
            if fits(place, name.as_bytes()) {
                out.write(field(name.as_bytes(), &value));
                return Ok(Status::HarrierOk);
            }
        }
    } else if of.kind == FieldKind::HarrierList as i32 {
        for (place, value) in ListRef::new(bytes).iter().enumerate() {
            let value = value.map_err(malformed)?;
            if fits(place, &[]) {
                out.write(field(&[], &value));
                return Ok(Status::HarrierOk);
            }
        }
    } else {
        return Err(Failure::argument(format!("a field of kind {} has no items", of.kind)));
    }
    Ok(Status::HarrierNone)
}
