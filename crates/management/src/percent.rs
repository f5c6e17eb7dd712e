//! Percent-encoding of names in paths and queries (RFC 3986 §2.1).

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Decodes each escape once; `None` if one is incomplete, or if the result is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        if *byte == b'%' {
            let (high, low) = (digit(*rest.next()?)?, digit(*rest.next()?)?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Escapes all but what every part of a path may have (RFC 3986 §2.3).
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            _ => {
                text.push('%');
                text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                text.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    text
}

/// The same, but for the slashes between parts.
pub(crate) fn encode_path(path: &str) -> String {
    path.split('/').map(|part| encode(part.as_bytes())).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let every: Vec<u8> = (0..=127).collect();
        assert_eq!(decode(&encode(&every)).expect("escapes").as_bytes(), every);
        assert_eq!((encode("a.#ü/".as_bytes()), decode("a%2")), ("a.%23%C3%BC%2F".to_owned(), None));
    }
}
