//! Writes and reads documents as JSON. Values that fit on a line stay on one, so that a histogram takes a few lines.
//!
//! A document of an unknown schema is an error.

use serde::Serialize;

use crate::document::{Document, SCHEMA};

const LINE_MAX: usize = 140;

/// Writes a document.
///
/// # Errors
/// A value that JSON cannot represent.
pub fn write(document: &Document) -> Result<String, String> {
    pretty(document)
}

/// Writes any value in the documents' layout.
///
/// # Errors
/// A value that JSON cannot represent.
pub(crate) fn pretty<T: Serialize>(value: &T) -> Result<String, String> {
    let compact = serde_json::to_string(value).map_err(|error| format!("JSON: {error}"))?;
    let mut text = String::with_capacity(compact.len() * 5 / 4);
    lay_out(&compact, 0, &mut text);
    text.push('\n');
    Ok(text)
}

/// Parses a document.
///
/// # Errors
/// Invalid JSON, or a document of an unknown schema.
pub fn read(text: &str) -> Result<Document, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))?;
    let Some(schema) = value.get("schema").and_then(serde_json::Value::as_str) else {
        return Err("this is not a document of `harrier bench`: it has no field `schema`".to_owned());
    };
    let major = |schema: &str| schema.split_once('.').map_or(schema, |(major, _)| major).to_owned();
    if major(schema) != major(SCHEMA) {
        return Err(format!("this document is of the schema {schema}; this program reads {}.x", major(SCHEMA)));
    }
    serde_json::from_str(text).map_err(|error| format!("this is no whole document of {schema}: {error}"))
}

/// Lays out a compact JSON value at an indentation of `depth`.
fn lay_out(compact: &str, depth: usize, text: &mut String) {
    let opening = compact.as_bytes().first().copied();
    if compact.len() + depth <= LINE_MAX || !matches!(opening, Some(b'{' | b'[')) {
        text.push_str(compact);
        return;
    }
    let parts = members(&compact[1..compact.len() - 1]);
    let indent = " ".repeat(depth + 1);
    // Numbers and pairs of numbers are packed into lines; everything else gets a line each.
    let fill =
        opening == Some(b'[') && parts.iter().all(|part| part.len() < LINE_MAX / 4 && !part.contains(['{', '"']));
    text.push(char::from(compact.as_bytes()[0]));
    let mut column = LINE_MAX;
    for (index, part) in parts.iter().enumerate() {
        if !fill || column + part.len() > LINE_MAX {
            text.push('\n');
            text.push_str(&indent);
            column = indent.len();
        }
        let start = text.len();
        match (opening, key_length(part)) {
            (Some(b'{'), Some(length)) => {
                text.push_str(&part[..length]);
                text.push_str(": ");
                lay_out(&part[length + 1..], depth + 1, text);
            }
            _ => lay_out(part, depth + 1, text),
        }
        if index + 1 < parts.len() {
            text.push(',');
        }
        column += text.len() - start;
    }
    text.push('\n');
    text.push_str(&" ".repeat(depth));
    text.push(if opening == Some(b'{') { '}' } else { ']' });
}

/// The members of an object or array without its brackets.
fn members(inside: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_usize, false, false);
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[from..]);
    parts
}

/// Length of the quoted key that a member begins with.
fn key_length(member: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in member.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_document_is_read_back_whole() {
        let mut document = fixture::document();
        // A number that inexact parsing would read back as its neighbour.
        document.series[0].points[0].runs[0].elapsed_s = 0.233_267_091_232_560_18;
        let text = write(&document).expect("JSON");
        let again = read(&text).expect("a document");
        assert_eq!(write(&again).expect("JSON"), text);
        assert_eq!(serde_json::to_value(&again).ok(), serde_json::to_value(&document).ok());
        assert!(text.starts_with("{\n \"schema\": \"harrier-bench/1."), "{text}");
        assert!(text.lines().all(|line| line.len() <= LINE_MAX + 2), "a line is too long");
    }

    #[test]
    fn histograms_take_few_lines() {
        let samples = (1..=2_000_u64).map(|us| us * 1_000).collect();
        let point = fixture::latency_point(64.0, "round_trip", &[samples]);
        let text = pretty(&point).expect("JSON");
        let buckets = point.runs[0].latencies["round_trip"].clone();
        let buckets = serde_json::to_string(&buckets).expect("JSON").len();
        assert!(text.lines().count() < buckets / (LINE_MAX - 30) + 40, "{} lines", text.lines().count());
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).ok(),
            serde_json::to_value(&point).ok(),
            "the layout changes no value"
        );
    }

    #[test]
    fn layout() {
        let long = "a \"quoted\", {bracketed} word and more of the same, so that the whole does not fit in one single line any more";
        let value = serde_json::json!({ "first": [1, 2], "second": [long, {}], "third": long });
        let quoted = serde_json::to_string(long).expect("JSON");
        assert_eq!(
            pretty(&value).expect("JSON"),
            format!("{{\n \"first\": [1,2],\n \"second\": [{quoted},{{}}],\n \"third\": {quoted}\n}}\n")
        );
    }

    #[test]
    fn invalid_documents_are_refused() {
        let refused = |text: &str| read(text).err().unwrap_or_default();
        assert_eq!(refused("x"), "this is no JSON: expected value at line 1 column 1");
        assert_eq!(refused("[]"), "this is not a document of `harrier bench`: it has no field `schema`");
        assert_eq!(
            refused(r#"{"schema":"harrier-bench/2.0"}"#),
            "this document is of the schema harrier-bench/2.0; this program reads harrier-bench/1.x"
        );
        assert_eq!(
            refused(r#"{"schema":"harrier-bench/1.0"}"#),
            "this is no whole document of harrier-bench/1.0: missing field `command` at line 1 column 30"
        );
        let later = write(&fixture::document()).expect("JSON").replacen("harrier-bench/1.", "harrier-bench/1.9", 1);
        assert!(read(&later).is_ok(), "a later minor version is read");
    }
}
