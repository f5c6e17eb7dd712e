//! Tables and lists that own their values.
//!
//! Enters: names and values.  Leaves: the same in their order, or their encoding.
//! Owns:   the order of entries: it is kept, and the first of two equal names counts.

use crate::{
    short_str::{ShortStr, ShortString, TooLong},
    value::Value,
    write::length_u32,
};

/// Named values in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Table(Vec<(ShortString, Value)>);

/// Values in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct List(Vec<Value>);

impl Table {
    /// Without entries.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the first entry of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(found, _)| found.as_bytes() == name.as_bytes()).map(|(_, value)| value)
    }

    /// Sets the value of this name: in its place if there is one, else as the last entry.
    pub fn set(&mut self, name: ShortString, value: Value) {
        match self.0.iter_mut().find(|(found, _)| *found == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name, value)),
        }
    }

    /// As `set`, for tables that a program writes down. Refuses names over 255 bytes.
    pub fn with(mut self, name: &str, value: Value) -> Result<Self, TooLong> {
        self.set(ShortString::try_from(name)?, value);
        Ok(self)
    }

    /// Appends an entry, whatever names there are.
    pub fn push(&mut self, name: ShortString, value: Value) {
        self.0.push((name, value));
    }

    /// Takes the first entry of this name out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.0.iter().position(|(found, _)| found.as_bytes() == name.as_bytes())?;
        Some(self.0.remove(at).1)
    }

    /// An entry by its place.
    pub fn entry(&self, index: usize) -> Option<(ShortStr<'_>, &Value)> {
        self.0.get(index).map(|(name, value)| (name.as_short_str(), value))
    }

    /// The entries in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ShortStr<'_>, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_short_str(), value))
    }

    /// Bytes on the wire, with the 4-byte length.
    pub fn encoded_len(&self) -> usize {
        4 + self.0.iter().map(|(name, value)| 1 + name.as_bytes().len() + value.encoded_len()).sum::<usize>()
    }

    /// Bytes on the heap behind it, each allocation rounded up to 16 bytes, as if no more were reserved than is used.
    pub fn heap_bytes(&self) -> usize {
        let entry = |(name, value): &(ShortString, Value)| allocated(name.as_bytes().len()) + value.heap_bytes();
        allocated(size_of_val(self.0.as_slice())) + self.0.iter().map(entry).sum::<usize>()
    }

    /// Appends the 4-byte length and the entries. Panics over 4 GiB, which no frame can hold.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_length(out, |out| self.encode_entries(out));
    }

    /// The entries alone: what `TableRef::new` takes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len() - 4);
        self.encode_entries(&mut out);
        out
    }

    fn encode_entries(&self, out: &mut Vec<u8>) {
        for (name, value) in &self.0 {
            // A ShortString is known to be short.
            out.push(name.as_bytes().len() as u8);
            out.extend_from_slice(name.as_bytes());
            value.encode(out);
        }
    }
}

impl List {
    /// Without values.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a value.
    pub fn push(&mut self, value: Value) {
        self.0.push(value);
    }

    /// The values in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Value> {
        self.0.iter()
    }

    /// Bytes on the wire, with the 4-byte length.
    pub fn encoded_len(&self) -> usize {
        4 + self.0.iter().map(Value::encoded_len).sum::<usize>()
    }

    /// Bytes on the heap behind it, each allocation rounded up to 16 bytes, as if no more were reserved than is used.
    pub fn heap_bytes(&self) -> usize {
        allocated(size_of_val(self.0.as_slice())) + self.0.iter().map(Value::heap_bytes).sum::<usize>()
    }

    /// Appends the 4-byte length and the values. Panics over 4 GiB, which no frame can hold.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_length(out, |out| self.0.iter().for_each(|value| value.encode(out)));
    }
}

pub(crate) const fn allocated(bytes: usize) -> usize {
    bytes.next_multiple_of(16)
}

/// Puts the length of what `fill` appends in front of it.
fn with_length(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let length = length_u32(out.len() - start - 4);
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

impl FromIterator<(ShortString, Value)> for Table {
    fn from_iter<I: IntoIterator<Item = (ShortString, Value)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
