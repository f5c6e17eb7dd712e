//! Reads TOML as JSON values, so that a file may be either.

use crate::Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Parses a text; the values keep its order.
///
/// # Errors
/// Why it is not TOML, and where.
pub fn read(text: &str) -> Result<Json, String> {
    let line = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(at), error.message())
    })?;
    object(table.get_ref()).map_err(|(at, why)| format!("line {}: {why}", line(at)))
}

/// The tables with a name; an absent name is an empty list.
///
/// # Errors
/// The name has another value.
pub fn tables<'a>(from: &'a Json, name: &str) -> Result<&'a [Json], String> {
    match from.get(name) {
        None => Ok(&[]),
        Some(Json::List(items)) => match items.iter().find(|item| !matches!(item, Json::Object(_))) {
            None => Ok(items),
            Some(other) => Err(format!("{name}: a table is needed, not {}", other.kind())),
        },
        Some(other) => Err(format!("{name}: tables are needed, [[{name}]], not {}", other.kind())),
    }
}

/// Checks that only these entries are present.
///
/// # Errors
/// Another entry is present.
pub fn only(from: &Json, names: &[&str]) -> Result<(), String> {
    let Json::Object(entries) = from else { return Err(format!("a table is needed, not {}", from.kind())) };
    match entries.iter().find(|(name, _)| !names.contains(&&**name)) {
        None => Ok(()),
        Some((name, _)) => Err(format!("'{name}' is not known here; there may be {}", names.join(", "))),
    }
}

/// A table in the order of the text; an error carries its position.
fn object(table: &DeTable<'_>) -> Result<Json, (usize, String)> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let name = key.get_ref();
        let read = value_of(value).map_err(|(at, why)| (at, format!("{name}: {why}")))?;
        entries.push((key.span().start, name.clone().into_owned(), read));
    }
    entries.sort_by_key(|(at, ..)| *at);
    Ok(Json::Object(entries.into_iter().map(|(_, name, value)| (name, value)).collect()))
}

fn value_of(value: &Spanned<DeValue<'_>>) -> Result<Json, (usize, String)> {
    let wrong = |why: String| (value.span().start, why);
    Ok(match value.get_ref() {
        DeValue::String(text) => Json::text(text),
        DeValue::Boolean(value) => Json::Bool(*value),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            Json::Int(value.map_err(|_| wrong(format!("the number {} is too large", number.as_str())))?)
        }
        DeValue::Float(number) => {
            let value = number.as_str().parse();
            Json::Float(value.map_err(|_| wrong(format!("{} is no number that is known here", number.as_str())))?)
        }
        DeValue::Datetime(_) => return Err(wrong("dates are not supported".to_owned())),
        DeValue::Array(items) => Json::List(items.iter().map(value_of).collect::<Result<_, _>>()?),
        DeValue::Table(table) => object(table)?,
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_text_becomes_values_in_its_order() {
        let text = "b = 1\na = [true, \"x\"]\n[[link]]\nurl = \"amqp://h\"\n[[link.route]]\ncredit = 0x10\n";
        let expect = r#"{"b":1,"a":[true,"x"],"link":[{"url":"amqp://h","route":[{"credit":16}]}]}"#;
        assert_eq!(read(text).map(|value| value.line()), Ok(expect.to_owned()));
        assert_eq!(read("\nx = 1979-05-27\n").err().as_deref(), Some("line 2: x: dates are not supported"));
        assert!(read("x = ").err().is_some_and(|why| why.starts_with("line 1: ")));
    }
}
