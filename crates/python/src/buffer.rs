//! Bodies in message memory, which Python reads and writes in place by its buffer protocol.
//!
//! Enters: large bodies that were received; blocks to be filled.  Leaves: their memory, to whoever asks for a buffer.
//! Owns:   the only unsafe code of this crate: Python is given addresses, and a count of who holds them.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use slab::{BlockMut, Slice};

/// Fills a view of memory that belongs to `owner`.
///
/// # Safety
/// `view` is null or Python's; `bytes` points to `len` bytes that stay where they are while `owner` lives, and that
/// nobody writes to meanwhile but through views, of which `readonly` ones allow none.
unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    bytes: *mut u8,
    len: usize,
    readonly: bool,
) -> PyResult<()> {
    let len = isize::try_from(len).map_err(|_| PyBufferError::new_err("too long for a buffer"))?;
    // SAFETY: the caller keeps what the call asks for: a view of Python's, and memory that outlives it. The view takes a
    // reference to `owner`, and a null view is refused with an exception.
    match unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), bytes.cast::<c_void>(), len, readonly.into(), flags) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// A received body where it was received: bytes-like, without a copy. `bytes(body)` copies it.
#[pyclass(frozen, name = "Body", module = "harrier")]
pub(crate) struct LentBody {
    slice: Slice,
}

impl LentBody {
    pub(crate) fn new(slice: Slice) -> Self {
        Self { slice }
    }

    pub(crate) fn slice(&self) -> &Slice {
        &self.slice
    }
}

#[pymethods]
impl LentBody {
    fn __len__(&self) -> usize {
        self.slice.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.slice)
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> bool {
        match PyBuffer::<u8>::get(other).and_then(|buffer| buffer.to_vec(py)) {
            Ok(bytes) => bytes == self.slice[..],
            Err(_) => false,
        }
    }

    #[pyo3(signature = (encoding="utf-8", errors="strict"))]
    fn decode<'py>(&self, py: Python<'py>, encoding: &str, errors: &str) -> PyResult<Bound<'py, PyAny>> {
        self.__bytes__(py).call_method1("decode", (encoding, errors))
    }

    fn __repr__(&self) -> String {
        format!("<harrier.Body of {} bytes>", self.slice.len())
    }

    /// # Safety
    /// Python calls it, with a view of its own.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let slice = &slf.get().slice;
        // SAFETY: a slice is never written to and stays where it is; this frozen object holds it as long as it lives.
        unsafe { fill(slf.as_any(), view, flags, slice.as_ptr().cast_mut(), slice.len(), true) }
    }
}

/// Message memory to be filled and published without a copy: `Connection.allocate`. It holds what was in it before.
#[pyclass(module = "harrier")]
pub(crate) struct Block {
    /// Gone once it was published.
    block: Option<BlockMut>,
    /// Views that Python has.
    exports: usize,
}

impl Block {
    pub(crate) fn new(block: BlockMut) -> Self {
        Self { block: Some(block), exports: 0 }
    }

    /// The filled block, to be published: this object has none from now on.
    pub(crate) fn take(&mut self) -> PyResult<Slice> {
        if self.exports > 0 {
            return Err(PyBufferError::new_err(
                "the block is still viewed: release its memoryviews before it is published",
            ));
        }
        let block = self.block.take().ok_or_else(|| PyValueError::new_err("the block was published before"))?;
        Ok(block.freeze())
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.len())
    }

    /// # Safety
    /// Python calls it, with a view of its own.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (bytes, len) = {
            let mut this = slf.try_borrow_mut()?;
            let block = this.block.as_mut().ok_or_else(|| PyValueError::new_err("the block was published before"))?;
            (block.as_mut_ptr(), block.len())
        };
        // SAFETY: the block stays where it is, and `take` leaves it here while a view is counted below. Nothing else
        // reads or writes its bytes.
        unsafe { fill(slf.as_any(), view, flags, bytes, len, false) }?;
        slf.try_borrow_mut()?.exports += 1;
        Ok(())
    }

    /// # Safety
    /// Python calls it, once for each view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.exports -= 1;
    }
}
