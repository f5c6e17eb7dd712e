//! What Python publishes: any object that is bytes, text, or has a buffer.
//!
//! Enters: an object.  Leaves: its bytes written behind a publish, copied at most once.
//! Owns:   the order in which the kinds of objects are tried.

use client::{Client, ClientChannel, Publish};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

use crate::buffer::{Block, LentBody};
use crate::errors::exception;
use crate::limits::BODY_BYTES_MAX;

/// Writes a publish; the answer is its tag for confirms, or 0.
pub(crate) fn publish(
    client: &mut Client,
    channel: ClientChannel,
    to: &Publish<'_>,
    body: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let py = body.py();
    let written = if let Ok(bytes) = body.cast::<PyBytes>() {
        client.publish(channel, to, checked(bytes.as_bytes())?)
    } else if let Ok(text) = body.cast::<PyString>() {
        client.publish(channel, to, checked(text.to_str()?.as_bytes())?)
    } else if let Ok(received) = body.cast::<LentBody>() {
        client.publish_shared(channel, to, received.get().slice())
    } else if let Ok(block) = body.cast::<Block>() {
        client.publish_shared(channel, to, &block.try_borrow_mut()?.take()?)
    } else {
        let buffer = bytes_of(body)?;
        let bytes = buffer.item_count();
        if bytes > BODY_BYTES_MAX {
            return Err(too_long(bytes));
        }
        let mut block = client.block(bytes);
        buffer.copy_to_slice(py, &mut block)?;
        client.publish_shared(channel, to, &block.freeze())
    };
    written.map_err(|error| exception(py, error))
}

/// The object's memory as bytes, whatever its items are.
fn bytes_of(body: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    if let Ok(buffer) = PyBuffer::<u8>::get(body) {
        return Ok(buffer);
    }
    let view = PyMemoryView::from(body)
        .map_err(|_| PyTypeError::new_err("a body is bytes, str, or an object with a buffer"))?;
    PyBuffer::<u8>::get(&view.call_method1("cast", ("B",))?)
}

fn checked(bytes: &[u8]) -> PyResult<&[u8]> {
    if bytes.len() > BODY_BYTES_MAX { Err(too_long(bytes.len())) } else { Ok(bytes) }
}

fn too_long(bytes: usize) -> PyErr {
    PyValueError::new_err(format!("a body of {bytes} bytes; at most {BODY_BYTES_MAX} are possible"))
}
