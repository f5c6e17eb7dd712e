//! Properties of a message, by pika's names.
//!
//! Enters: values of Python; properties of the wire.  Leaves: the same in the other form.
//! Owns:   texts as bytes: what came as no UTF-8 goes back as it was.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::{Properties, RawProperties, ShortStr, ShortString};

use crate::values::{dictionary, short, table, text};

/// A short string: `str` to Python, or `bytes` if it is no UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(ShortString);

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self(short(object.py(), text.to_str()?.as_bytes())?));
        }
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self(short(object.py(), bytes.as_bytes())?)),
            Err(_) => Err(PyTypeError::new_err("a property that is text takes str or bytes")),
        }
    }
}

impl<'py> IntoPyObject<'py> for Text {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        Ok(text(py, self.0.as_bytes()))
    }
}

/// The properties of a message: `BasicProperties(content_type="text/plain", delivery_mode=2)`.
#[pyclass(module = "harrier", get_all, set_all)]
#[derive(Default)]
pub(crate) struct BasicProperties {
    content_type: Option<Text>,
    content_encoding: Option<Text>,
    headers: Option<Py<PyDict>>,
    delivery_mode: Option<u8>,
    priority: Option<u8>,
    correlation_id: Option<Text>,
    reply_to: Option<Text>,
    expiration: Option<Text>,
    message_id: Option<Text>,
    timestamp: Option<u64>,
    r#type: Option<Text>,
    user_id: Option<Text>,
    app_id: Option<Text>,
    cluster_id: Option<Text>,
}

#[pymethods]
impl BasicProperties {
    #[new]
    #[pyo3(signature = (content_type=None, content_encoding=None, headers=None, delivery_mode=None, priority=None,
        correlation_id=None, reply_to=None, expiration=None, message_id=None, timestamp=None, r#type=None, user_id=None,
        app_id=None, cluster_id=None))]
    #[expect(clippy::too_many_arguments, reason = "one for each property, as pika has them")]
    fn new(
        content_type: Option<Text>,
        content_encoding: Option<Text>,
        headers: Option<Py<PyDict>>,
        delivery_mode: Option<u8>,
        priority: Option<u8>,
        correlation_id: Option<Text>,
        reply_to: Option<Text>,
        expiration: Option<Text>,
        message_id: Option<Text>,
        timestamp: Option<u64>,
        r#type: Option<Text>,
        user_id: Option<Text>,
        app_id: Option<Text>,
        cluster_id: Option<Text>,
    ) -> Self {
        Self {
            content_type,
            content_encoding,
            headers,
            delivery_mode,
            priority,
            correlation_id,
            reply_to,
            expiration,
            message_id,
            timestamp,
            r#type,
            user_id,
            app_id,
            cluster_id,
        }
    }

    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        match other.cast::<Self>() {
            Ok(other) => Ok(self.encoded(py)? == other.try_borrow()?.encoded(py)?),
            Err(_) => Ok(false),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        const NAMES: [&str; 14] = [
            "content_type",
            "content_encoding",
            "headers",
            "delivery_mode",
            "priority",
            "correlation_id",
            "reply_to",
            "expiration",
            "message_id",
            "timestamp",
            "type",
            "user_id",
            "app_id",
            "cluster_id",
        ];
        let mut set = Vec::new();
        for name in NAMES {
            let value = slf.getattr(name)?;
            if !value.is_none() {
                set.push(format!("{name}={}", value.repr()?));
            }
        }
        Ok(format!("BasicProperties({})", set.join(", ")))
    }
}

impl BasicProperties {
    /// As they go on the wire.
    pub(crate) fn encoded(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let text = |text: &Option<Text>| text.as_ref().map(|Text(text)| text.clone());
        let headers = self.headers.as_ref().map(|headers| table(Some(headers.bind(py)))).transpose()?;
        let properties = Properties {
            content_type: text(&self.content_type),
            content_encoding: text(&self.content_encoding),
            headers,
            delivery_mode: self.delivery_mode,
            priority: self.priority,
            correlation_id: text(&self.correlation_id),
            reply_to: text(&self.reply_to),
            expiration: text(&self.expiration),
            message_id: text(&self.message_id),
            timestamp: self.timestamp,
            kind: text(&self.r#type),
            user_id: text(&self.user_id),
            app_id: text(&self.app_id),
            cluster_id: text(&self.cluster_id),
        };
        Ok(properties.to_bytes())
    }

    /// As they came.
    pub(crate) fn decoded(py: Python<'_>, raw: RawProperties<'_>) -> PyResult<Self> {
        if raw == RawProperties::EMPTY {
            return Ok(Self::default());
        }
        let text = |text: Option<ShortStr<'_>>| text.map(|text| Text(text.to_owned()));
        let headers = raw.headers().map(|table| dictionary(py, table)).transpose()?;
        Ok(Self {
            content_type: text(raw.content_type()),
            content_encoding: text(raw.content_encoding()),
            headers: headers.map(Bound::unbind),
            delivery_mode: raw.delivery_mode(),
            priority: raw.priority(),
            correlation_id: text(raw.correlation_id()),
            reply_to: text(raw.reply_to()),
            expiration: text(raw.expiration()),
            message_id: text(raw.message_id()),
            timestamp: raw.timestamp(),
            r#type: text(raw.kind()),
            user_id: text(raw.user_id()),
            app_id: text(raw.app_id()),
            cluster_id: text(raw.cluster_id()),
        })
    }
}
