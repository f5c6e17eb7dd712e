//! Distinguished names as text, the way RabbitMQ writes them: `CN=orders,O=Example`, last part first (RFC 4514).

use super::der::{Der, OBJECT, SEQUENCE, SET, object, text};
use std::fmt::Write;

/// The object identifier of the common name.
pub(super) const COMMON_NAME: &str = "2.5.4.3";

/// Attributes that have a short name; others are written as object identifiers.
const SHORT: [(&str, &str); 17] = [
    (COMMON_NAME, "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "TITLE"),
    ("2.5.4.42", "GIVENNAME"),
    ("2.5.4.43", "INITIALS"),
    ("2.5.4.44", "GENERATIONQUALIFIER"),
    ("2.5.4.65", "PSEUDONYM"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "EMAILADDRESS"),
];

/// The parts of a name in the order of the certificate. Each has one or more attributes: object identifier and text.
pub(super) fn parts(name: Der<'_>) -> Option<Vec<Vec<(String, String)>>> {
    let attribute = |(tag, body): (u8, _)| {
        let mut pair = Der(body);
        let kind = pair.next().filter(|(kind, _)| *kind == OBJECT && tag == SEQUENCE)?;
        let (value_tag, value) = pair.next()?;
        Some((object(kind.1), text(value_tag, value)?))
    };
    name.all().map(|(tag, part)| (tag == SET).then(|| Der(part).all().map(attribute).collect())?).collect()
}

/// The name as text.
pub(super) fn written(parts: &[Vec<(String, String)>]) -> String {
    let attribute = |(kind, value): &(String, String)| {
        let short = SHORT.iter().find(|(numbers, _)| numbers == kind).map_or(&**kind, |(_, short)| short);
        format!("{short}={}", escaped(value))
    };
    let part = |part: &Vec<_>| part.iter().map(attribute).collect::<Vec<_>>().join("+");
    parts.iter().rev().map(part).collect::<Vec<_>>().join(",")
}

fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for (at, byte) in value.bytes().enumerate() {
        match byte {
            b' ' | b'#' if at == 0 => out.extend(['\\', char::from(byte)]),
            b' ' if at + 1 == value.len() => out.push_str("\\ "),
            b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..b'~' => out.push(char::from(byte)),
            _ => {
                let _infallible = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{escaped, written};

    #[test]
    fn names_are_written_as_rabbitmq_writes_them() {
        let pair = |kind: &str, value: &str| (kind.to_owned(), value.to_owned());
        let parts = [
            vec![pair("2.5.4.10", "A, B")],
            vec![pair("2.5.4.11", "x"), pair("1.2.3", "y")],
            vec![pair("2.5.4.3", "orders")],
        ];
        assert_eq!(written(&parts), "CN=orders,OU=x+1.2.3=y,O=A\\, B");
        for (value, expect) in [(" a ", "\\ a\\ "), ("#a#", "\\#a#"), ("ä", "\\C3\\A4"), ("a\"\\", "a\\\"\\\\")] {
            assert_eq!(escaped(value), expect);
        }
    }
}
