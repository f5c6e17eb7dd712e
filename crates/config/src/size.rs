//! Sizes in bytes, as people write them.
//!
//! Enters: `4096`, `128KiB`, `2 GiB`, `1GB`.  Leaves: bytes; and bytes in the largest unit that divides them.
//! Owns:   the units.

const UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("KB", 1000),
    ("B", 1),
];

/// Bytes of a text such as `2GiB`; without a unit they are bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len()));
    let number = number(digits);
    let times = match unit.trim() {
        "" => Some(1),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, times)| *times),
    };
    match (number, times) {
        (Some(number), Some(times)) => {
            number.checked_mul(times).ok_or_else(|| format!("'{text}' is more than a number can hold"))
        }
        _ => Err(format!("'{text}' is no size; sizes are bytes, or whole numbers of KiB, MiB, GiB, kB, MB, GB")),
    }
}

/// A number as TOML writes it: digits, with `_` between digits.
pub fn number(text: &str) -> Option<u64> {
    let parts = text.split('_');
    let sound = parts.clone().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if sound { parts.collect::<String>().parse().ok() } else { None }
}

/// The size in the largest binary unit that divides it: `128 MiB`, `1000 B`.
pub fn readable(bytes: u64) -> String {
    let unit = UNITS[..4].iter().find(|(_, times)| bytes != 0 && bytes.is_multiple_of(*times));
    let (name, times) = unit.copied().unwrap_or(("B", 1));
    format!("{} {name}", bytes / times)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_a_size() {
        let cases = [
            ("4096", Some(4096)),
            ("131_072", Some(131072)),
            ("128KiB", Some(131072)),
            ("2 GiB", Some(2 << 30)),
            ("1GB", Some(1_000_000_000)),
            ("7kB", Some(7000)),
            ("5B", Some(5)),
            ("0", Some(0)),
            ("", None),
            ("GiB", None),
            ("-1", None),
            ("1.5GiB", None),
            ("1gib", None),
            ("1_", None),
            ("_1", None),
            ("99999999999999999999", None),
            ("18446744073709551615TiB", None),
        ];
        for (text, expect) in cases {
            assert_eq!(super::parse(text).ok(), expect, "{text}");
        }
        let readable = [0, 1, 1000, 1024, 131072, (2 << 30) + 1024].map(super::readable);
        assert_eq!(readable, ["0 B", "1 B", "1000 B", "1 KiB", "128 KiB", "2097153 KiB"]);
    }
}
