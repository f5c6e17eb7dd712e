//! Tables of AMQP as JSON, and JSON as tables: arguments of queues, exchanges and bindings, definitions of policies.

use crate::Json;
use wire::{ShortString, Table, Value};

/// Arguments, typed as RabbitMQ types those of a file. An empty list is an empty table, as Erlang writes one.
///
/// # Errors
/// The place within, `.a[0]`, and why.
pub fn table_of_json(value: &Json) -> Result<Table, (String, String)> {
    match value {
        Json::Object(fields) => table(fields),
        Json::List(items) if items.is_empty() => Ok(Table::new()),
        other => Err((String::new(), format!("an object is needed, not {}", other.kind()))),
    }
}

fn table(fields: &[(String, Json)]) -> Result<Table, (String, String)> {
    let mut table = Table::new();
    for (key, value) in fields {
        let path = format!(".{key}");
        let value = value_of_json(value).map_err(|(below, why)| (format!("{path}{below}"), why))?;
        let name = ShortString::try_from(&**key).map_err(|_| (path, "a key has 255 bytes at most".to_owned()))?;
        // No key comes twice in JSON that was read: looking for it would take as long as there are keys, for each.
        table.push(name, value);
    }
    Ok(table)
}

fn value_of_json(value: &Json) -> Result<Value, (String, String)> {
    Ok(match value {
        Json::Null => Value::Void,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Int(number) => Value::I64(*number),
        Json::Float(number) => Value::F64(*number),
        Json::Text(text) => Value::LongStr(text.as_bytes().into()),
        Json::Object(fields) => Value::Table(table(fields)?),
        Json::List(items) => {
            let mut values = Vec::new();
            for (at, item) in items.iter().enumerate() {
                values.push(value_of_json(item).map_err(|(below, why)| (format!("[{at}]{below}"), why))?);
            }
            Value::List(values.into_iter().collect())
        }
    })
}

/// The same as JSON. What is no text is shown as well as it can be.
pub fn table_to_json(table: Option<&Table>) -> Json {
    let fields = table.into_iter().flat_map(Table::iter);
    Json::Object(
        fields
            .map(|(key, value)| (String::from_utf8_lossy(key.as_bytes()).into_owned(), value_to_json(value)))
            .collect(),
    )
}

fn value_to_json(value: &Value) -> Json {
    match value {
        Value::Void => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::I8(number) => Json::Int((*number).into()),
        Value::U8(number) => Json::Int((*number).into()),
        Value::I16(number) => Json::Int((*number).into()),
        Value::U16(number) => Json::Int((*number).into()),
        Value::I32(number) => Json::Int((*number).into()),
        Value::U32(number) => Json::Int((*number).into()),
        Value::I64(number) => Json::Int(*number),
        Value::Timestamp(seconds) => Json::Int(i64::try_from(*seconds).unwrap_or(i64::MAX)),
        Value::F32(number) => Json::Float((*number).into()),
        Value::F64(number) => Json::Float(*number),
        Value::Decimal(number) => Json::Float(f64::from(number.value) / 10f64.powi(number.scale.into())),
        Value::LongStr(bytes) | Value::Bytes(bytes) => Json::Text(String::from_utf8_lossy(bytes).into_owned()),
        Value::List(items) => Json::List(items.iter().map(value_to_json).collect()),
        Value::Table(table) => table_to_json(Some(table)),
    }
}
