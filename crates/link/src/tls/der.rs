//! DER, as far as a certificate's names and dates need it (ITU-T X.690). Malformed input gives `None`.

/// A sequence of encoded values.
#[derive(Clone, Copy)]
pub(super) struct Der<'a>(pub &'a [u8]);

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;

impl<'a> Der<'a> {
    /// The next value: its tag and its content.
    pub fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match length {
            ..=0x7f => (usize::from(length), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (body, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, body))
    }

    /// The content of the next value, if it has this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Der<'a>> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, body)| Der(body))
    }

    /// All values, up to the first malformed one.
    pub fn all(mut self) -> impl Iterator<Item = (u8, &'a [u8])> {
        std::iter::from_fn(move || self.next())
    }
}

/// The text of any of ASN.1's string types.
pub(super) fn text(tag: u8, bytes: &[u8]) -> Option<String> {
    match tag {
        // UTF-8, numeric, printable, IA5, visible.
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => String::from_utf8(bytes.to_vec()).ok(),
        // Teletex, in practice Latin-1.
        0x14 => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
        0x1e => {
            let (pairs, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        _ => None,
    }
}

/// Seconds since 1970 of a UTCTime or GeneralizedTime, which in certificates are in UTC and with seconds (RFC 5280
/// §4.1.2.5).
pub(super) fn seconds(tag: u8, bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (0x17, 12) => {
            let year = number(&digits[..2]);
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (0x18, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// An object identifier as numbers with dots.
pub(super) fn object(bytes: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for &byte in bytes {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            match numbers.is_empty() {
                true => numbers.extend([(number / 40).min(2), number - 40 * (number / 40).min(2)]),
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::{Der, object, seconds, text};

    #[test]
    fn what_is_cut_short_is_nothing() {
        for bytes in
            [&b""[..], b"\x30", b"\x30\x05a", b"\x30\x81", b"\x30\x82\x01", b"\x30\x80", b"\x30\x85\0\0\0\0\x01a"]
        {
            assert_eq!(Der(bytes).next(), None, "{bytes:?}");
        }
        assert_eq!(Der(b"\x04\x81\x01a").next(), Some((4, &b"a"[..])));
    }

    #[test]
    fn dates_count_from_1970() {
        let cases: [(u8, &[u8], Option<i64>); 6] = [
            (0x17, b"700101000000Z", Some(0)),
            (0x17, b"491231235959Z", Some(2_524_607_999)),
            (0x18, b"20000229120000Z", Some(951_825_600)),
            (0x18, b"20001301120000Z", None),
            (0x17, b"70010100000Z", None),
            (0x17, b"7001010000x0Z", None),
        ];
        for (tag, written, expect) in cases {
            assert_eq!(seconds(tag, written), expect, "{}", written.escape_ascii());
        }
    }

    #[test]
    fn texts_and_objects() {
        assert_eq!(text(0x0c, "ä".as_bytes()).as_deref(), Some("ä"));
        assert_eq!(text(0x1e, &[0, 0x41, 0x30, 0x42]).as_deref(), Some("Aあ"));
        assert_eq!(text(0x0c, b"\xff"), None);
        assert_eq!(object(&[0x55, 4, 3]), "2.5.4.3");
        assert_eq!(object(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1]), "1.2.840.113549.1.9.1");
    }
}
