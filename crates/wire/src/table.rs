//! Tables and lists: read lazily from the wire, or owned.
//!
//! Enters: the bytes behind a table's 4-byte length.  Leaves: names and values; and back.
//! Owns:   nesting and its limit.

mod owned;
#[cfg(test)]
mod tests;

pub(crate) use owned::allocated;
pub use owned::{List, Table};

use crate::{error::DecodeError, read::Reader, short_str::ShortStr, value::ValueRef};

/// A table in the payload it came in (AMQP 0-9-1 §4.2.5.5). Tables of a decoded `Method` are validated.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct TableRef<'a>(&'a [u8]);

/// A list in the payload it came in. Lists in a decoded `Method` are validated.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ListRef<'a>(&'a [u8]);

impl<'a> TableRef<'a> {
    /// Without entries.
    pub const EMPTY: TableRef<'static> = TableRef(&[]);

    /// The table of these bytes, those behind its length. Nothing is checked yet.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes behind its length.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it has no entry.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The entries in their order; ends with the first malformed one. A validated table yields no error.
    #[inline]
    pub const fn iter(self) -> TableIter<'a> {
        TableIter(Reader::new(self.0))
    }

    /// The value of the first entry of this name; `None` too where the table is malformed before it.
    pub fn get(self, name: &str) -> Option<ValueRef<'a>> {
        self.iter().map_while(Result::ok).find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Refuses malformed entries, at any depth, and nesting deeper than `depth_max` (this table counts as 1).
    pub fn validate(self, depth_max: usize) -> Result<(), DecodeError> {
        validate(self.0, CollectionKind::Table, depth_max, depth_max)
    }

    /// A copy on the heap. Refuses what `validate(TABLE_DEPTH_MAX)` refuses.
    pub fn to_table(self) -> Result<Table, DecodeError> {
        self.copy(crate::limits::TABLE_DEPTH_MAX)
    }

    pub(crate) fn copy(self, depth_max: usize) -> Result<Table, DecodeError> {
        let depth_left = depth_max.checked_sub(1).ok_or(too_deep())?;
        self.iter()
            .map(|entry| entry.and_then(|(name, value)| Ok((name.to_owned(), value.to_value(depth_left)?))))
            .collect()
    }
}

impl<'a> ListRef<'a> {
    /// Without values.
    pub const EMPTY: ListRef<'static> = ListRef(&[]);

    /// The list of these bytes, those behind its length. Nothing is checked yet.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes behind its length.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it has no value.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The values in their order; ends with the first malformed one. A validated list yields no error.
    #[inline]
    pub const fn iter(self) -> ListIter<'a> {
        ListIter(Reader::new(self.0))
    }

    /// Refuses malformed values, at any depth, and nesting deeper than `depth_max` (this list counts as 1).
    pub fn validate(self, depth_max: usize) -> Result<(), DecodeError> {
        validate(self.0, CollectionKind::List, depth_max, depth_max)
    }

    /// A copy on the heap. Refuses what `validate(TABLE_DEPTH_MAX)` refuses.
    pub fn to_list(self) -> Result<List, DecodeError> {
        self.copy(crate::limits::TABLE_DEPTH_MAX)
    }

    pub(crate) fn copy(self, depth_max: usize) -> Result<List, DecodeError> {
        let depth_left = depth_max.checked_sub(1).ok_or(too_deep())?;
        self.iter().map(|value| value.and_then(|value| value.to_value(depth_left))).collect()
    }
}

const fn too_deep() -> DecodeError {
    DecodeError::TooDeep { depth_max: crate::limits::TABLE_DEPTH_MAX }
}

#[derive(Clone, Copy)]
enum CollectionKind {
    Table,
    List,
}

/// The recursion of both `validate`s; `depth_left` falls by one a level, so it ends.
fn validate(bytes: &[u8], shape: CollectionKind, depth_left: usize, depth_max: usize) -> Result<(), DecodeError> {
    let depth_left = depth_left.checked_sub(1).ok_or(DecodeError::TooDeep { depth_max })?;
    let mut from = Reader::new(bytes);
    while !from.is_empty() {
        if let CollectionKind::Table = shape {
            from.short_str()?;
        }
        match ValueRef::take(&mut from)? {
            ValueRef::Table(table) => validate(table.0, CollectionKind::Table, depth_left, depth_max)?,
            ValueRef::List(list) => validate(list.0, CollectionKind::List, depth_left, depth_max)?,
            _ => {}
        }
    }
    Ok(())
}

/// The entries of a table.
#[derive(Clone)]
pub struct TableIter<'a>(Reader<'a>);

impl<'a> TableIter<'a> {
    /// The bytes of the entries that are left: who copies an entry as it is takes what is no longer among them.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for TableIter<'a> {
    type Item = Result<(ShortStr<'a>, ValueRef<'a>), DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut from = self.0;
        let entry = from.short_str().and_then(|name| Ok((name, ValueRef::take(&mut from)?)));
        // After an error nothing can be made of the rest.
        self.0 = if entry.is_ok() { from } else { Reader::new(&[]) };
        Some(entry)
    }
}

/// The values of a list.
#[derive(Clone)]
pub struct ListIter<'a>(Reader<'a>);

impl<'a> ListIter<'a> {
    /// The bytes of the values that are left.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for ListIter<'a> {
    type Item = Result<ValueRef<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut from = self.0;
        let value = ValueRef::take(&mut from);
        self.0 = if value.is_ok() { from } else { Reader::new(&[]) };
        Some(value)
    }
}

impl<'a> IntoIterator for TableRef<'a> {
    type Item = Result<(ShortStr<'a>, ValueRef<'a>), DecodeError>;
    type IntoIter = TableIter<'a>;
    fn into_iter(self) -> TableIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for ListRef<'a> {
    type Item = Result<ValueRef<'a>, DecodeError>;
    type IntoIter = ListIter<'a>;
    fn into_iter(self) -> ListIter<'a> {
        self.iter()
    }
}

// Shown by their bytes: entering nested tables would recurse, and these may not be validated.
impl std::fmt::Debug for TableRef<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "TableRef(\"{}\")", self.0.escape_ascii())
    }
}

impl std::fmt::Debug for ListRef<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "ListRef(\"{}\")", self.0.escape_ascii())
    }
}
