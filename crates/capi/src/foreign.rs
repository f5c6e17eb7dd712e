//! Memory of the C program: texts and bytes that it lends to a call, and what a fork inherits.
//!
//! Enters: addresses that C gave.  Leaves: what lies there, checked as far as it can be.
//! Owns:   the only code here that follows an address of C's. That it is one is the header's demand, and C's promise.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::status::Failure;

/// A text of C: UTF-8, ended by a NUL.
/// cbindgen:transparent-typedef
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct LentText(*const c_char);

impl LentText {
    /// The text; `what` it is if there is none, or it is no UTF-8.
    pub(crate) fn get<'a>(self, what: &str) -> Result<&'a str, Failure> {
        self.optional(what)?.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
    }

    /// The text, or nothing for NULL.
    pub(crate) fn optional<'a>(self, what: &str) -> Result<Option<&'a str>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: only C makes a `LentText`, and its header demands a text that ends with a NUL and lives as long as the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(Some).map_err(|_| Failure::argument(format!("{what} is no UTF-8")))
    }

    /// The bytes of the text; none for NULL.
    pub(crate) fn bytes(self) -> LentBytes {
        if self.0.is_null() {
            return LentBytes::NONE;
        }
        // SAFETY: as above.
        let len = unsafe { CStr::from_ptr(self.0) }.count_bytes();
        LentBytes { data: self.0.cast(), len }
    }
}

/// Bytes in memory of somebody else's. No bytes may be at NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LentBytes {
    data: *const u8,
    len: usize,
}

impl LentBytes {
    pub(crate) const NONE: Self = Self { data: std::ptr::null(), len: 0 };

    /// Lends memory of ours.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes; `what` they are if there are some at NULL.
    pub(crate) fn get<'a>(self, what: &str) -> Result<&'a [u8], Failure> {
        match (self.data.is_null(), self.len) {
            (_, 0) => Ok(&[]),
            (true, len) => Err(Failure::argument(format!("{what}: {len} bytes at NULL"))),
            (false, len) if len > isize::MAX as usize => Err(Failure::argument(format!("{what}: {len} bytes"))),
            // SAFETY: C demands of itself, by the header, that so many bytes lie there as long as the call lasts; those that we
            // lent are C's to give back until the next call on their connection.
            (false, len) => Ok(unsafe { std::slice::from_raw_parts(self.data, len) }),
        }
    }

    /// No bytes, but how many there would be.
    pub(crate) fn missing(len: usize) -> Self {
        Self { data: std::ptr::null(), len }
    }

    /// Whether it is this memory, and all of it.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.data == bytes.as_ptr() && self.len == bytes.len()
    }
}

/// Some items of C's in a row.
pub(crate) fn items<'a, T>(at: *const T, len: usize, max: usize, what: &str) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() || !at.is_aligned() || len > max {
        return Err(Failure::argument(format!("{what}: {len} of at most {max}, at {at:?}")));
    }
    // SAFETY: the header demands that so many lie there as long as the call lasts; address and number are plausible.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// Where something that the caller must take is put.
pub(crate) fn wanted<'a, T>(
    out: Option<&'a mut MaybeUninit<T>>,
    what: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    out.ok_or_else(|| Failure::argument(format!("{what} is NULL")))
}

/// Room of C's for bytes.
pub(crate) struct ByteRoom {
    at: *mut u8,
    len: usize,
}

impl ByteRoom {
    pub(crate) fn new(at: *mut u8, len: usize) -> Self {
        Self { at, len }
    }

    /// Puts bytes there, and lends them; nothing if there is too little room.
    pub(crate) fn put(self, bytes: &[u8]) -> Result<Option<LentBytes>, Failure> {
        if self.at.is_null() && self.len > 0 {
            return Err(Failure::argument(format!("memory: room for {} bytes at NULL", self.len)));
        }
        if bytes.len() > self.len {
            return Ok(None);
        }
        if bytes.is_empty() {
            return Ok(Some(LentBytes::NONE));
        }
        // SAFETY: the header demands room for so many bytes there, which is no memory of ours; as many or fewer are written.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at, bytes.len()) };
        Ok(Some(LentBytes { data: self.at, len: bytes.len() }))
    }
}

/// Room of C's for numbers.
pub(crate) fn room<'a>(at: *mut u64, len: usize) -> Result<&'a mut [u64], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    if at.is_null() || !at.is_aligned() || len > isize::MAX as usize / size_of::<u64>() {
        return Err(Failure::argument(format!("room for {len} numbers at {at:?}")));
    }
    // SAFETY: the header demands room for so many; whatever bits are there are numbers.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How often this process and those before it were forks: what was made at another number is a parent's. Asking the system for
/// the process would take as long as a publish.
pub(crate) fn forks() -> u32 {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler adds to an atomic, which is allowed in the child of a fork.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
        assert_eq!(refused, 0, "no memory to watch for forks");
    });
    FORKS.load(Ordering::Relaxed)
}
