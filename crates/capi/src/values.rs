//! Fields and properties of C as those of the wire, and back.
//!
//! Enters: structures that C filled in; tables of the wire.  Leaves: the same in the other form.
//! Owns:   which kind is which type of AMQP.

use wire::{List, ListRef, Properties, ShortString, Table, TableRef, Value, ValueRef};

use crate::foreign::{LentBytes, LentText, items};
use crate::limits::{FIELDS_MAX, TABLE_BYTES_MAX};
use crate::status::Failure;
use crate::types::{Field, FieldKind, FieldList, PublishProperties};

/// Of the length in front of a list.
const LENGTH_BYTES: usize = 4;

fn short(bytes: &[u8]) -> Result<ShortString, Failure> {
    ShortString::new(bytes).map_err(|error| Failure::argument(error.to_string()))
}

/// A list of fields as a table; none is an empty one.
pub(crate) fn table(fields: Option<&FieldList>) -> Result<Table, Failure> {
    let mut table = Table::new();
    for field in all(fields)? {
        table.push(short(field.name.get("the name of a field")?)?, value(field)?);
    }
    bounded(table.encoded_len())?;
    Ok(table)
}

/// The values of a list of fields, whatever their names, as a list on the wire behind its length.
pub(crate) fn list(fields: Option<&FieldList>) -> Result<Vec<u8>, Failure> {
    let list: List = all(fields)?.iter().map(value).collect::<Result<_, _>>()?;
    bounded(list.encoded_len())?;
    let mut bytes = Vec::with_capacity(list.encoded_len());
    list.encode(&mut bytes);
    Ok(bytes.split_off(LENGTH_BYTES))
}

fn bounded(bytes: usize) -> Result<(), Failure> {
    match bytes {
        0..=TABLE_BYTES_MAX => Ok(()),
        _ => Err(Failure::argument(format!("a table or list of {bytes} bytes: at most {TABLE_BYTES_MAX} are taken"))),
    }
}

fn all<'a>(fields: Option<&FieldList>) -> Result<&'a [Field], Failure> {
    fields.map_or(Ok(&[]), |fields| items(fields.at, fields.len, FIELDS_MAX, "fields"))
}

fn value(field: &Field) -> Result<Value, Failure> {
    const KINDS: [FieldKind; 9] = [
        FieldKind::HarrierVoid,
        FieldKind::HarrierBool,
        FieldKind::HarrierInteger,
        FieldKind::HarrierReal,
        FieldKind::HarrierString,
        FieldKind::HarrierBinary,
        FieldKind::HarrierTimestamp,
        FieldKind::HarrierTable,
        FieldKind::HarrierList,
    ];
    let kind = KINDS.into_iter().find(|kind| *kind as i32 == field.kind);
    let bytes = || field.bytes.get("the value of a field");
    let malformed = |error: wire::DecodeError| Failure::argument(format!("a table or list that is none: {error}"));
    Ok(match kind {
        Some(FieldKind::HarrierVoid) => Value::Void,
        Some(FieldKind::HarrierBool) => Value::Bool(field.integer != 0),
        // As the Python package has it: what fits is a number of 32 bits, which every client reads.
        Some(FieldKind::HarrierInteger) => i32::try_from(field.integer).map_or(Value::I64(field.integer), Value::I32),
        Some(FieldKind::HarrierReal) => Value::F64(field.real),
        Some(FieldKind::HarrierString) => Value::LongStr(bytes()?.into()),
        Some(FieldKind::HarrierBinary) => Value::Bytes(bytes()?.into()),
        Some(FieldKind::HarrierTimestamp) => {
            Value::Timestamp(u64::try_from(field.integer).map_err(|_| Failure::argument("a time stamp before 1970"))?)
        }
        Some(FieldKind::HarrierTable) => Value::Table(TableRef::new(bytes()?).to_table().map_err(malformed)?),
        Some(FieldKind::HarrierList) => Value::List(ListRef::new(bytes()?).to_list().map_err(malformed)?),
        Some(FieldKind::HarrierDecimal) | None => {
            return Err(Failure::argument(format!("a field of kind {} cannot be sent", field.kind)));
        }
    })
}

/// A field of the wire, which it still points to.
pub(crate) fn field(name: &[u8], value: &ValueRef<'_>) -> Field {
    let of = |kind: FieldKind, integer, real, bytes| Field {
        name: LentBytes::of(name),
        kind: kind as i32,
        integer,
        real,
        bytes,
    };
    let whole = |integer| of(FieldKind::HarrierInteger, integer, 0.0, LentBytes::NONE);
    let real = |real| of(FieldKind::HarrierReal, 0, real, LentBytes::NONE);
    match *value {
        ValueRef::Void => of(FieldKind::HarrierVoid, 0, 0.0, LentBytes::NONE),
        ValueRef::Bool(value) => of(FieldKind::HarrierBool, value.into(), 0.0, LentBytes::NONE),
        ValueRef::I8(value) => whole(value.into()),
        ValueRef::U8(value) => whole(value.into()),
        ValueRef::I16(value) => whole(value.into()),
        ValueRef::U16(value) => whole(value.into()),
        ValueRef::I32(value) => whole(value.into()),
        ValueRef::U32(value) => whole(value.into()),
        ValueRef::I64(value) => whole(value),
        ValueRef::F32(value) => real(value.into()),
        ValueRef::F64(value) => real(value),
        ValueRef::LongStr(bytes) => of(FieldKind::HarrierString, 0, 0.0, LentBytes::of(bytes)),
        ValueRef::Bytes(bytes) => of(FieldKind::HarrierBinary, 0, 0.0, LentBytes::of(bytes)),
        // Times that no clock shows are cut to the last one that the field holds.
        ValueRef::Timestamp(seconds) => {
            of(FieldKind::HarrierTimestamp, i64::try_from(seconds).unwrap_or(i64::MAX), 0.0, LentBytes::NONE)
        }
        ValueRef::Table(table) => of(FieldKind::HarrierTable, 0, 0.0, LentBytes::of(table.as_bytes())),
        ValueRef::List(list) => of(FieldKind::HarrierList, 0, 0.0, LentBytes::of(list.as_bytes())),
        ValueRef::Decimal(decimal) => of(
            FieldKind::HarrierDecimal,
            decimal.value.into(),
            f64::from(decimal.value) / 10_f64.powi(decimal.scale.into()),
            LentBytes::NONE,
        ),
    }
}

/// Properties as they go on the wire.
pub(crate) fn encoded(from: &PublishProperties) -> Result<Vec<u8>, Failure> {
    let text = |text: LentText, what| -> Result<Option<ShortString>, Failure> {
        text.optional(what)?.map(|text| short(text.as_bytes())).transpose()
    };
    let properties = Properties {
        content_type: text(from.content_type, "content_type")?,
        content_encoding: text(from.content_encoding, "content_encoding")?,
        headers: if from.headers.len == 0 { None } else { Some(table(Some(&from.headers))?) },
        delivery_mode: Some(from.delivery_mode).filter(|mode| *mode != 0),
        priority: Some(from.priority).filter(|priority| *priority != 0),
        correlation_id: text(from.correlation_id, "correlation_id")?,
        reply_to: text(from.reply_to, "reply_to")?,
        expiration: text(from.expiration, "expiration")?,
        message_id: text(from.message_id, "message_id")?,
        timestamp: Some(from.timestamp).filter(|seconds| *seconds != 0),
        kind: text(from.message_type, "message_type")?,
        user_id: text(from.user_id, "user_id")?,
        app_id: text(from.app_id, "app_id")?,
        cluster_id: text(from.cluster_id, "cluster_id")?,
    };
    Ok(properties.to_bytes())
}
