//! Times with their unit: `10ms`, `2s`.

/// Units, the longest first, with their microseconds.
const UNITS: [(&str, u64); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// The microseconds of a whole number with its unit.
pub(crate) fn parse_us(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, us) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(us)
}

/// Microseconds in the longest unit that they are a whole number of.
pub(crate) fn readable(us: u64) -> String {
    let whole = UNITS.into_iter().find(|(_, unit_us)| us >= *unit_us && us.is_multiple_of(*unit_us));
    let (name, unit_us) = whole.unwrap_or(("us", 1));
    format!("{}{name}", us / unit_us)
}

#[cfg(test)]
mod tests {
    use super::{parse_us, readable};

    #[test]
    fn a_time_has_a_whole_number_and_a_unit() {
        for (text, us, shown) in [("10ms", 10_000, "10ms"), ("2s", 2_000_000, "2s"), ("1500us", 1_500, "1500us")] {
            assert_eq!((parse_us(text), readable(us)), (Some(us), shown.to_owned()));
        }
        assert_eq!((parse_us("3000ms"), readable(3_000_000)), (Some(3_000_000), "3s".to_owned()));
        for wrong in ["", "10", "ms", "-1ms", "1.5s", "10 ms", "1h", "99999999999999999999s", "18446744073709551615s"] {
            assert_eq!(parse_us(wrong), None, "{wrong}");
        }
    }
}
