//! Comparing values: exactly, for identity; and by meaning, for matching headers.
//!
//! Enters: two values.  Leaves: whether they are the same.
//! Owns:   both meanings of "the same".

use super::{Value, ValueRef};
use std::hash::{Hash, Hasher};

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Void, Self::Void) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::I8(a), Self::I8(b)) => a == b,
            (Self::U8(a), Self::U8(b)) => a == b,
            (Self::I16(a), Self::I16(b)) => a == b,
            (Self::U16(a), Self::U16(b)) => a == b,
            (Self::I32(a), Self::I32(b)) => a == b,
            (Self::U32(a), Self::U32(b)) => a == b,
            (Self::I64(a), Self::I64(b)) => a == b,
            (Self::F32(a), Self::F32(b)) => a.to_bits() == b.to_bits(),
            (Self::F64(a), Self::F64(b)) => a.to_bits() == b.to_bits(),
            (Self::Decimal(a), Self::Decimal(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::LongStr(a), Self::LongStr(b)) | (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Table(a), Self::Table(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.tag().hash(state);
        match self {
            Self::Void => {}
            Self::Bool(value) => value.hash(state),
            Self::I8(value) => value.hash(state),
            Self::U8(value) => value.hash(state),
            Self::I16(value) => value.hash(state),
            Self::U16(value) => value.hash(state),
            Self::I32(value) => value.hash(state),
            Self::U32(value) => value.hash(state),
            Self::I64(value) => value.hash(state),
            Self::F32(value) => value.to_bits().hash(state),
            Self::F64(value) => value.to_bits().hash(state),
            Self::Decimal(value) => value.hash(state),
            Self::Timestamp(value) => value.hash(state),
            Self::LongStr(bytes) | Self::Bytes(bytes) => bytes.hash(state),
            Self::List(list) => list.hash(state),
            Self::Table(table) => table.hash(state),
        }
    }
}

/// A number of any type, so that numbers can be compared by what they mean.
enum NumericValue {
    Whole(i128),
    Float(f64),
}

impl ValueRef<'_> {
    fn number(self) -> Option<NumericValue> {
        match self {
            Self::F32(value) => Some(NumericValue::Float(value.into())),
            Self::F64(value) => Some(NumericValue::Float(value)),
            Self::Timestamp(value) => Some(NumericValue::Whole(value.into())),
            _ => self.as_i64().map(|value| NumericValue::Whole(value.into())),
        }
    }
}

impl Value {
    fn number(&self) -> Option<NumericValue> {
        match *self {
            Self::F32(value) => Some(NumericValue::Float(value.into())),
            Self::F64(value) => Some(NumericValue::Float(value)),
            Self::Timestamp(value) => Some(NumericValue::Whole(value.into())),
            _ => self.as_i64().map(|value| NumericValue::Whole(value.into())),
        }
    }

    /// Whether the two mean the same though their types may differ: numbers (time stamps too) compare by value,
    /// strings and bytes by their bytes, tables and lists entry by entry. What RabbitMQ's headers exchange asks.
    /// False where `other` is malformed.
    pub fn is_equivalent(&self, other: ValueRef<'_>) -> bool {
        if let (Some(left), Some(right)) = (self.number(), other.number()) {
            return match (left, right) {
                (NumericValue::Whole(left), NumericValue::Whole(right)) => left == right,
                (NumericValue::Float(left), NumericValue::Float(right)) => left == right,
                (NumericValue::Whole(whole), NumericValue::Float(float))
                | (NumericValue::Float(float), NumericValue::Whole(whole)) => float_is_whole(float, whole),
            };
        }
        if let (Some(left), Some(right)) = (self.as_bytes(), other.as_bytes()) {
            return left == right;
        }
        match (self, other) {
            (Self::Void, ValueRef::Void) => true,
            (Self::Bool(left), ValueRef::Bool(right)) => *left == right,
            (Self::Decimal(left), ValueRef::Decimal(right)) => *left == right,
            (Self::List(left), ValueRef::List(right)) => {
                let mut right = right.iter();
                left.iter().all(|value| matches!(right.next(), Some(Ok(other)) if value.is_equivalent(other)))
                    && right.next().is_none()
            }
            (Self::Table(left), ValueRef::Table(right)) => {
                let mut right = right.iter();
                left.iter().all(|(name, value)| {
                    matches!(right.next(), Some(Ok((other_name, other))) if name == other_name && value.is_equivalent(other))
                }) && right.next().is_none()
            }
            _ => false,
        }
    }
}

/// Exact: a whole number that a double cannot hold equals none.
fn float_is_whole(float: f64, whole: i128) -> bool {
    // Every |whole| here is below 2^64, so a float beyond that (or not a number) cannot be equal and need not convert.
    float.abs() <= 18_446_744_073_709_551_616.0 && float.fract() == 0.0 && float as i128 == whole
}
