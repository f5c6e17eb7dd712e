//! Messages for Python: deliveries, what `basic_get` took, and what came back.
//!
//! Enters: messages of the client.  Leaves: objects whose attributes are those of pika's methods.
//! Owns:   the names that recur from message to message, as strings that are made once.

use client::{RawProperties, Slice};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};

use crate::basic_properties::BasicProperties;
use crate::buffer::LentBody;

/// A string that was the same in the last message.
#[derive(Default)]
struct CachedName {
    bytes: Vec<u8>,
    name: Option<Py<PyString>>,
}

impl CachedName {
    fn get(&mut self, py: Python<'_>, bytes: &[u8]) -> Py<PyString> {
        match &self.name {
            Some(name) if self.bytes == bytes => name.clone_ref(py),
            _ => {
                let name = PyString::new(py, &String::from_utf8_lossy(bytes)).unbind();
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
                self.name.insert(name).clone_ref(py)
            }
        }
    }
}

/// The names of the last message.
#[derive(Default)]
pub(crate) struct NameCache {
    consumer_tag: CachedName,
    exchange: CachedName,
    routing_key: CachedName,
}

/// A message for Python: what pika calls its method, with its properties and its body.
#[pyclass(frozen, module = "harrier")]
pub(crate) struct Delivery {
    #[pyo3(get)]
    channel_number: u16,
    #[pyo3(get)]
    consumer_tag: Py<PyString>,
    #[pyo3(get)]
    delivery_tag: u64,
    #[pyo3(get)]
    redelivered: bool,
    #[pyo3(get)]
    exchange: Py<PyString>,
    #[pyo3(get)]
    routing_key: Py<PyString>,
    /// Messages left in the queue (`basic_get` only).
    #[pyo3(get)]
    message_count: u32,
    /// Why it came back, if it did.
    #[pyo3(get)]
    reply_code: u16,
    #[pyo3(get)]
    reply_text: Option<String>,
    #[pyo3(get)]
    body: Py<PyAny>,
    raw_properties: Box<[u8]>,
    decoded: PyOnceLock<Py<BasicProperties>>,
}

#[pymethods]
impl Delivery {
    #[getter]
    fn properties(&self, py: Python<'_>) -> PyResult<Py<BasicProperties>> {
        let decoded = self.decoded.get_or_try_init(py, || {
            Py::new(py, BasicProperties::decoded(py, RawProperties::new(&self.raw_properties))?)
        })?;
        Ok(decoded.clone_ref(py))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<Delivery {} exchange={} routing_key={} body={}>",
            self.delivery_tag,
            self.exchange.bind(py).repr()?,
            self.routing_key.bind(py).repr()?,
            self.body.bind(py).repr()?,
        ))
    }
}

/// What all messages have.
struct Parts<'a> {
    channel_number: u16,
    consumer_tag: &'a [u8],
    exchange: &'a [u8],
    routing_key: &'a [u8],
    properties: RawProperties<'a>,
}

/// A body as Python gets it: `bytes`, or its memory itself if it has some of its own and that is wanted.
fn body<'py>(py: Python<'py>, bytes: &[u8], shared: Option<&Slice>) -> PyResult<Bound<'py, PyAny>> {
    match shared {
        Some(slice) => Ok(Bound::new(py, LentBody::new(slice.clone()))?.into_any()),
        None => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

fn delivery(py: Python<'_>, names: &mut NameCache, parts: &Parts<'_>, body: Bound<'_, PyAny>) -> Delivery {
    let raw = parts.properties;
    Delivery {
        channel_number: parts.channel_number,
        consumer_tag: names.consumer_tag.get(py, parts.consumer_tag),
        delivery_tag: 0,
        redelivered: false,
        exchange: names.exchange.get(py, parts.exchange),
        routing_key: names.routing_key.get(py, parts.routing_key),
        message_count: 0,
        reply_code: 0,
        reply_text: None,
        body: body.unbind(),
        raw_properties: if raw == RawProperties::EMPTY { Box::from([0, 0]) } else { raw.as_bytes().into() },
        decoded: PyOnceLock::new(),
    }
}

impl Delivery {
    /// A delivery; with `is_shared` a body in memory of its own is not copied.
    pub(crate) fn of_delivery(
        py: Python<'_>,
        names: &mut NameCache,
        from: &client::Delivery<'_>,
        is_shared: bool,
    ) -> PyResult<Self> {
        let body = body(py, from.body(), from.shared_body().filter(|_| is_shared))?;
        let parts = Parts {
            channel_number: from.channel.number().0,
            consumer_tag: from.consumer_tag,
            exchange: from.exchange,
            routing_key: from.routing_key,
            properties: from.properties,
        };
        let (delivery_tag, redelivered) = (from.delivery_tag.0, from.redelivered);
        Ok(Self { delivery_tag, redelivered, ..delivery(py, names, &parts, body) })
    }

    /// What `basic_get` took.
    pub(crate) fn of_message(py: Python<'_>, names: &mut NameCache, from: &client::ReceivedMessage) -> PyResult<Self> {
        let parts = Parts {
            channel_number: from.channel.number().0,
            consumer_tag: &from.consumer_tag,
            exchange: &from.exchange,
            routing_key: &from.routing_key,
            properties: from.properties(),
        };
        let body = body(py, from.body(), None)?;
        Ok(Self {
            delivery_tag: from.delivery_tag.0,
            redelivered: from.redelivered,
            message_count: from.messages_left,
            ..delivery(py, names, &parts, body)
        })
    }

    /// What no queue took.
    pub(crate) fn of_returned(py: Python<'_>, names: &mut NameCache, from: &client::Returned) -> PyResult<Self> {
        let parts = Parts {
            channel_number: from.channel.number().0,
            consumer_tag: b"",
            exchange: &from.exchange,
            routing_key: &from.routing_key,
            properties: from.properties(),
        };
        let body = body(py, from.body(), None)?;
        let (reply_code, reply_text) = (from.code, Some(from.text.clone()));
        Ok(Self { reply_code, reply_text, ..delivery(py, names, &parts, body) })
    }
}
