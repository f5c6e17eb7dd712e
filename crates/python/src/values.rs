//! Field values of AMQP as Python objects, and back.
//!
//! Enters: dictionaries of headers and arguments; tables of the wire.  Leaves: the same in the other form.
//! Owns:   which type becomes which: as pika has it.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use wire::{Decimal, List, ListRef, ShortString, Table, TableRef, Value, ValueRef};

use crate::errors::raise;

/// A dictionary as a table; `None` is an empty one.
pub(crate) fn table(dictionary: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
    let mut table = Table::new();
    let Some(dictionary) = dictionary else { return Ok(table) };
    for (name, value) in dictionary.iter() {
        let name = name.cast_into::<PyString>().map_err(|_| PyTypeError::new_err("names in a table are str"))?;
        table.push(short(name.py(), name.to_str()?.as_bytes())?, field(&value)?);
    }
    Ok(table)
}

/// A short string of AMQP.
pub(crate) fn short(py: Python<'_>, bytes: &[u8]) -> PyResult<ShortString> {
    ShortString::new(bytes).map_err(|error| raise(py, "ShortStringTooLong", (error.to_string(),)))
}

fn field(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = value.py();
    if value.is_none() {
        return Ok(Value::Void);
    }
    // A bool is an int to Python, so it comes first.
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let number: i64 =
            value.extract().map_err(|_| PyOverflowError::new_err(format!("{value} does not fit into 64 bits")))?;
        return Ok(i32::try_from(number).map_or(Value::I64(number), Value::I32));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::text(text.to_str()?));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().into()));
    }
    if let Ok(bytes) = value.cast::<PyByteArray>() {
        return Ok(Value::Bytes(bytes.extract::<Vec<u8>>()?.into()));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::F64(number.extract()?));
    }
    if let Ok(dictionary) = value.cast::<PyDict>() {
        return Ok(Value::Table(table(Some(dictionary))?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let mut list = List::new();
        for item in value.try_iter()? {
            list.push(field(&item?)?);
        }
        return Ok(Value::List(list));
    }
    if value.is_instance(&py.import("datetime")?.getattr("datetime")?)? {
        let seconds = py.import("calendar")?.call_method1("timegm", (value.call_method0("utctimetuple")?,))?;
        return Ok(Value::Timestamp(seconds.extract()?));
    }
    if value.is_instance(&py.import("decimal")?.getattr("Decimal")?)? {
        return decimal(value);
    }
    Err(raise(
        py,
        "UnsupportedAMQPFieldException",
        (format!("a value of type {} has no form in AMQP", value.get_type().name()?),),
    ))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let exponent: i32 = value.call_method0("as_tuple")?.getattr("exponent")?.extract()?;
    let scale =
        u8::try_from(-exponent.min(0)).map_err(|_| PyValueError::new_err("too many digits behind the point"))?;
    let digits: u32 = value
        .call_method1("scaleb", (scale,))?
        .call_method0("__int__")?
        .extract()
        .map_err(|_| PyOverflowError::new_err("the digits of a decimal fit into 32 bits, without a sign"))?;
    Ok(Value::Decimal(Decimal { scale, value: digits }))
}

/// A table of the wire as a dictionary.
pub(crate) fn dictionary<'py>(py: Python<'py>, table: TableRef<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for entry in table.iter() {
        let (name, value) = entry.map_err(|error| PyValueError::new_err(error.to_string()))?;
        dictionary.set_item(text(py, name.as_bytes()), object(py, value)?)?;
    }
    Ok(dictionary)
}

/// Text as `str`, and what is no UTF-8 as `bytes`.
pub(crate) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

fn object<'py>(py: Python<'py>, value: ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::Void => py.None().into_bound(py),
        ValueRef::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        ValueRef::I8(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::U8(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::I16(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::U16(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::I32(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::U32(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::I64(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::F32(value) => f64::from(value).into_pyobject(py)?.into_any(),
        ValueRef::F64(value) => value.into_pyobject(py)?.into_any(),
        ValueRef::LongStr(bytes) => text(py, bytes),
        ValueRef::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        ValueRef::Table(table) => dictionary(py, table)?.into_any(),
        ValueRef::List(list) => objects(py, list)?.into_any(),
        ValueRef::Timestamp(seconds) => {
            let datetime = py.import("datetime")?;
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            datetime.getattr("datetime")?.call_method1("fromtimestamp", (seconds, utc))?
        }
        ValueRef::Decimal(Decimal { scale, value }) => {
            py.import("decimal")?.getattr("Decimal")?.call1((value,))?.call_method1("scaleb", (-i32::from(scale),))?
        }
    })
}

fn objects<'py>(py: Python<'py>, list: ListRef<'_>) -> PyResult<Bound<'py, PyList>> {
    let objects = PyList::empty(py);
    for value in list.iter() {
        objects.append(object(py, value.map_err(|error| PyValueError::new_err(error.to_string()))?)?)?;
    }
    Ok(objects)
}
