//! The headers of one message, to be found by name.
//!
//! Enters: a table in wire form.  Leaves: the first header of each name.
//! Owns:   where each header begins, and an index of them. Scratch: it is kept, so that routing allocates only while it grows.

use super::agreement::{hash_header, hash_work};
use crate::limits::SCRATCH_ENTRIES_MAX;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use wire::{ShortStr, TableRef, ValueRef};

/// Headers that are looked through; more are indexed.
const SCANNED_MAX: usize = 8;

#[derive(Clone)]
struct MessageHeader {
    /// Where in the table it begins.
    at: u32,
    name: u64,
    /// The hash of its value, once that is asked for.
    value: u64,
}

#[derive(Clone, Default)]
pub(super) struct MessageHeaders {
    /// In their order, the first of each name.
    headers: Vec<MessageHeader>,
    /// All of them, if there are many.
    index: HashTable<u32>,
    is_read: bool,
    is_hashed: bool,
}

#[inline]
pub(super) fn hash_name(state: &FixedState, name: &[u8]) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(name);
    hasher.finish()
}

/// The header that begins there.
fn entry(headers: TableRef<'_>, at: u32) -> (ShortStr<'_>, ValueRef<'_>) {
    let rest = TableRef::new(headers.as_bytes().get(at as usize..).unwrap_or_default());
    rest.iter().next().and_then(Result::ok).unwrap_or((ShortStr::EMPTY, ValueRef::Void))
}

impl MessageHeaders {
    pub fn bytes(&self) -> usize {
        self.headers.capacity() * size_of::<MessageHeader>() + self.index.allocation_size()
    }

    /// What was read is another message's.
    pub fn clear(&mut self) {
        if self.is_read {
            self.headers.clear();
            self.index.clear();
            if self.headers.capacity() > SCRATCH_ENTRIES_MAX {
                *self = Self::default();
            }
            (self.is_read, self.is_hashed) = (false, false);
        }
    }

    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Reads the headers, unless they are. Answers with the work.
    pub fn read(&mut self, headers: TableRef<'_>, state: &FixedState) -> u64 {
        if std::mem::replace(&mut self.is_read, true) {
            return 1;
        }
        let mut work = 1;
        let mut entries = headers.iter();
        loop {
            let left = entries.as_bytes().len();
            // Ends where the table is malformed, as looking for a header would.
            let Some(Ok((name, _))) = entries.next() else { break };
            work += 1;
            let hash = hash_name(state, name.as_bytes());
            if self.place(headers, name.as_bytes(), hash).is_some() {
                continue;
            }
            let at = headers.as_bytes().len() - left;
            // A table is shorter than the 4 GiB that its length can say.
            self.headers.push(MessageHeader { at: at as u32, name: hash, value: 0 });
            self.index_last();
        }
        work
    }

    fn index_last(&mut self) {
        let from = match self.headers.len() {
            ..=SCANNED_MAX => return,
            len if self.index.is_empty() => len - SCANNED_MAX - 1,
            len => len - 1,
        };
        let (headers, index) = (&self.headers, &mut self.index);
        for number in from..headers.len() {
            let rehash = |&other: &u32| headers[other as usize].name;
            index.insert_unique(headers[number].name, number as u32, rehash);
        }
    }

    /// The number of the header of this name.
    fn place(&self, headers: TableRef<'_>, name: &[u8], hash: u64) -> Option<usize> {
        let is = |header: &MessageHeader| header.name == hash && entry(headers, header.at).0.as_bytes() == name;
        if self.headers.len() <= SCANNED_MAX {
            return self.headers.iter().position(is);
        }
        self.index.find(hash, |&number| is(&self.headers[number as usize])).map(|&number| number as usize)
    }

    /// The value of the header of this name. They are read.
    pub fn find<'m>(&self, headers: TableRef<'m>, name: &[u8], state: &FixedState) -> Option<ValueRef<'m>> {
        let place = self.place(headers, name, hash_name(state, name))?;
        Some(entry(headers, self.headers[place].at).1)
    }

    /// Hashes the values, unless they are. Answers with the work.
    pub fn hash_values(&mut self, headers: TableRef<'_>, state: &FixedState) -> u64 {
        if std::mem::replace(&mut self.is_hashed, true) {
            return 0;
        }
        let mut work = 0;
        for header in &mut self.headers {
            let value = entry(headers, header.at).1;
            header.value = hash_header(state, value);
            work += 1 + hash_work(value);
        }
        work
    }

    /// Name, its hash, value, its hash. They are read, and the values hashed.
    pub fn iter<'m>(&self, headers: TableRef<'m>) -> impl Iterator<Item = (ShortStr<'m>, u64, ValueRef<'m>, u64)> {
        self.headers.iter().map(move |header| {
            let (name, value) = entry(headers, header.at);
            (name, header.name, value, header.value)
        })
    }
}
