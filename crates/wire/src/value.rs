//! Values in tables and lists: borrowed from the wire, or owned.
//!
//! Enters: a type octet and what follows it.  Leaves: a `ValueRef` or `Value`; and back.
//! Owns:   the field types as RabbitMQ uses them (they differ from the specification's list).
//!
//! Types: `t` bool, `b` i8, `B` u8, `s` i16, `u` u16, `I` i32, `i` u32, `l` and `L` i64, `f` f32, `d` f64, `D` decimal,
//! `S` long string, `A` list, `T` time stamp, `F` table, `V` void, `x` bytes
//! (AMQP 0-9-1 §4.2.1 with <https://www.rabbitmq.com/amqp-0-9-1-errata.html>).

mod compare;
#[cfg(test)]
mod tests;

use crate::{
    error::DecodeError,
    read::Reader,
    table::{List, ListRef, Table, TableRef},
};

/// A decimal number: `value` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// Digits behind the point.
    pub scale: u8,
    /// All digits.
    pub value: u32,
}

macro_rules! values {
    ($( $(#[$doc:meta])* $tag:literal $variant:ident $borrowed:ty, $owned:ty, $type_name:literal; )*) => {
        /// A value in the memory of the table it was read from.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum ValueRef<'a> {
            $( $(#[$doc])* $variant($borrowed), )*
            /// Nothing (`V`).
            Void,
        }

        /// A value that owns what it holds. Equal means equal on the wire: floats compare by their bits.
        #[derive(Clone, Debug)]
        pub enum Value {
            $( $(#[$doc])* $variant($owned), )*
            /// Nothing (`V`).
            Void,
        }

        impl ValueRef<'_> {
            /// RabbitMQ's name of the type, as its error texts use it.
            pub const fn type_name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $type_name, )* Self::Void => "void" }
            }
        }

        impl Value {
            /// The type octet on the wire.
            pub const fn tag(&self) -> u8 {
                match self { $( Self::$variant(_) => $tag, )* Self::Void => b'V' }
            }

            /// RabbitMQ's name of the type, as its error texts use it.
            pub const fn type_name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $type_name, )* Self::Void => "void" }
            }
        }
    };
}

values! {
    /// A truth (`t`); any octet but 0 is true.
    b't' Bool bool, bool, "bool";
    /// A signed octet (`b`).
    b'b' I8 i8, i8, "byte";
    /// An octet (`B`).
    b'B' U8 u8, u8, "unsignedbyte";
    /// 16 bits, signed (`s`, as RabbitMQ reads it).
    b's' I16 i16, i16, "short";
    /// 16 bits (`u`).
    b'u' U16 u16, u16, "unsignedshort";
    /// 32 bits, signed (`I`).
    b'I' I32 i32, i32, "signedint";
    /// 32 bits (`i`).
    b'i' U32 u32, u32, "unsignedint";
    /// 64 bits, signed (`l`; `L` is read as the same).
    b'l' I64 i64, i64, "long";
    /// A float (`f`).
    b'f' F32 f32, f32, "float";
    /// A double (`d`).
    b'd' F64 f64, f64, "double";
    /// A decimal (`D`).
    b'D' Decimal Decimal, Decimal, "decimal";
    /// A long string (`S`): bytes, by custom UTF-8.
    b'S' LongStr &'a [u8], Box<[u8]>, "longstr";
    /// A list (`A`).
    b'A' List ListRef<'a>, List, "array";
    /// Seconds since 1970 (`T`).
    b'T' Timestamp u64, u64, "timestamp";
    /// A table (`F`).
    b'F' Table TableRef<'a>, Table, "table";
    /// Bytes that are no text (`x`).
    b'x' Bytes &'a [u8], Box<[u8]>, "binary";
}

impl<'a> ValueRef<'a> {
    /// Reads a type octet and its value; nested tables and lists are delimited, not entered.
    #[inline]
    pub(crate) fn take(from: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match from.u8()? {
            b't' => Self::Bool(from.u8()? != 0),
            b'b' => Self::I8(from.u8()?.cast_signed()),
            b'B' => Self::U8(from.u8()?),
            b's' => Self::I16(from.u16()?.cast_signed()),
            b'u' => Self::U16(from.u16()?),
            b'I' => Self::I32(from.u32()?.cast_signed()),
            b'i' => Self::U32(from.u32()?),
            b'l' | b'L' => Self::I64(from.u64()?.cast_signed()),
            b'f' => Self::F32(f32::from_bits(from.u32()?)),
            b'd' => Self::F64(f64::from_bits(from.u64()?)),
            b'D' => Self::Decimal(Decimal { scale: from.u8()?, value: from.u32()? }),
            b'S' => Self::LongStr(from.long_str()?),
            b'A' => Self::List(ListRef::new(from.long_str()?)),
            b'T' => Self::Timestamp(from.u64()?),
            b'F' => Self::Table(TableRef::new(from.long_str()?)),
            b'x' => Self::Bytes(from.long_str()?),
            b'V' => Self::Void,
            tag => return Err(DecodeError::UnknownFieldType { tag }),
        })
    }

    /// Refuses what is malformed inside, or nested deeper than `depth_max`.
    pub fn validate(self, depth_max: usize) -> Result<(), DecodeError> {
        match self {
            Self::Table(table) => table.validate(depth_max),
            Self::List(list) => list.validate(depth_max),
            _ => Ok(()),
        }
    }

    /// The number, whatever integer type it came in. Time stamps are no numbers here.
    pub const fn as_i64(self) -> Option<i64> {
        Some(match self {
            Self::I8(value) => value as i64,
            Self::U8(value) => value as i64,
            Self::I16(value) => value as i64,
            Self::U16(value) => value as i64,
            Self::I32(value) => value as i64,
            Self::U32(value) => value as i64,
            Self::I64(value) => value,
            _ => return None,
        })
    }

    /// The truth, if it is one.
    pub const fn as_bool(self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(value) } else { None }
    }

    /// The bytes of a long string or of bytes.
    pub const fn as_bytes(self) -> Option<&'a [u8]> {
        if let Self::LongStr(bytes) | Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The text of a long string that is UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        if let Self::LongStr(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The table, if it is one.
    pub const fn as_table(self) -> Option<TableRef<'a>> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    /// The list, if it is one.
    pub const fn as_list(self) -> Option<ListRef<'a>> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    pub(crate) fn to_value(self, depth_max: usize) -> Result<Value, DecodeError> {
        Ok(match self {
            Self::Bool(value) => Value::Bool(value),
            Self::I8(value) => Value::I8(value),
            Self::U8(value) => Value::U8(value),
            Self::I16(value) => Value::I16(value),
            Self::U16(value) => Value::U16(value),
            Self::I32(value) => Value::I32(value),
            Self::U32(value) => Value::U32(value),
            Self::I64(value) => Value::I64(value),
            Self::F32(value) => Value::F32(value),
            Self::F64(value) => Value::F64(value),
            Self::Decimal(value) => Value::Decimal(value),
            Self::LongStr(bytes) => Value::LongStr(bytes.into()),
            Self::List(list) => Value::List(list.copy(depth_max)?),
            Self::Timestamp(seconds) => Value::Timestamp(seconds),
            Self::Table(table) => Value::Table(table.copy(depth_max)?),
            Self::Bytes(bytes) => Value::Bytes(bytes.into()),
            Self::Void => Value::Void,
        })
    }
}

impl Value {
    /// The number, whatever integer type it has. Time stamps are no numbers here.
    pub const fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Self::I8(value) => value as i64,
            Self::U8(value) => value as i64,
            Self::I16(value) => value as i64,
            Self::U16(value) => value as i64,
            Self::I32(value) => value as i64,
            Self::U32(value) => value as i64,
            Self::I64(value) => value,
            _ => return None,
        })
    }

    /// The truth, if it is one.
    pub const fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    /// The bytes of a long string or of bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if let Self::LongStr(bytes) | Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The text of a long string that is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::LongStr(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The table, if it is one.
    pub const fn as_table(&self) -> Option<&Table> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    /// The list, if it is one.
    pub const fn as_list(&self) -> Option<&List> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    /// A long string.
    pub fn text(text: &str) -> Self {
        Self::LongStr(text.as_bytes().into())
    }

    /// Bytes on the wire, with the type octet.
    pub fn encoded_len(&self) -> usize {
        1 + match self {
            Self::Void => 0,
            Self::Bool(_) | Self::I8(_) | Self::U8(_) => 1,
            Self::I16(_) | Self::U16(_) => 2,
            Self::I32(_) | Self::U32(_) | Self::F32(_) => 4,
            Self::Decimal(_) => 5,
            Self::I64(_) | Self::F64(_) | Self::Timestamp(_) => 8,
            Self::LongStr(bytes) | Self::Bytes(bytes) => 4 + bytes.len(),
            Self::List(list) => list.encoded_len(),
            Self::Table(table) => table.encoded_len(),
        }
    }

    /// Bytes on the heap behind it, each allocation rounded up to 16 bytes, as if no more were reserved than is used.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::LongStr(bytes) | Self::Bytes(bytes) => crate::table::allocated(bytes.len()),
            Self::List(list) => list.heap_bytes(),
            Self::Table(table) => table.heap_bytes(),
            _ => 0,
        }
    }

    /// Appends the type octet and the value. Panics if something in it is over 4 GiB, which no frame can hold.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
        match self {
            Self::Void => {}
            Self::Bool(value) => out.push((*value).into()),
            Self::I8(value) => out.push(value.cast_unsigned()),
            Self::U8(value) => out.push(*value),
            Self::I16(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::U16(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::I32(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::U32(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::I64(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::F32(value) => out.extend_from_slice(&value.to_bits().to_be_bytes()),
            Self::F64(value) => out.extend_from_slice(&value.to_bits().to_be_bytes()),
            Self::Decimal(Decimal { scale, value }) => {
                out.push(*scale);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Self::Timestamp(value) => out.extend_from_slice(&value.to_be_bytes()),
            Self::LongStr(bytes) | Self::Bytes(bytes) => {
                out.extend_from_slice(&crate::write::length_u32(bytes.len()).to_be_bytes());
                out.extend_from_slice(bytes);
            }
            Self::List(list) => list.encode(out),
            Self::Table(table) => table.encode(out),
        }
    }
}
