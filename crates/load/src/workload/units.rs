//! Parses quantities with units: `250ms`, `16KiB`, `2%`. A duration without a unit is an error.

use harness::limits::MESSAGE_BYTES_MAX;

/// Parses `10us`, `250ms`, `1.5s`, `2min` into nanoseconds.
pub fn duration_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a duration: expected a number and us, ms, s or min, as in '250ms'");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].trim() {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => return Err(wrong()),
    };
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let ns = number * factor;
    if !(0.0..=86_400e9).contains(&ns) {
        return Err(format!("'{text}': durations are from 0 to a day (1440min)"));
    }
    Ok(ns as u64)
}

/// Parses `64`, `64B`, `16KiB` (or `16K`), `1MiB` (or `1M`) into bytes.
pub fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("'{text}' is not a size: expected a whole number and B, KiB or MiB, as in '16KiB'");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        _ => return Err(wrong()),
    };
    let number: usize = digits.trim().parse().map_err(|_| wrong())?;
    match number.checked_mul(factor) {
        Some(bytes) if bytes <= MESSAGE_BYTES_MAX => Ok(bytes),
        _ => Err(format!("'{text}': a message has {MESSAGE_BYTES_MAX} bytes at most")),
    }
}

/// Parses a percentage into a share from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a share: expected a number from 0 to 1, or percents as in '2%'");
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    match number.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(wrong()),
    }
}

/// Parses `p99.9` or `max` into a quantile from 0 to 1.
pub fn quantile(text: &str) -> Result<f64, String> {
    if text == "max" {
        return Ok(1.0);
    }
    match text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok()) {
        Some(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not a quantile: expected p50, p99, p99.9, max")),
    }
}

/// Formats nanoseconds for people.
pub fn shown_ns(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e3, "us"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in
            [("10us", 10_000), ("250ms", 250_000_000), ("1.5s", 1_500_000_000), ("2 min", 120_000_000_000)]
        {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
        for text in ["10", "s", "-1s", "1h", "", "2000min", "NaNs", "infs"] {
            assert!(duration_ns(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [("64", 64), ("64B", 64), ("16KiB", 16 << 10), ("16K", 16 << 10), ("1 MiB", 1 << 20)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for text in ["1.5KiB", "KiB", "-1", "1GiB", "200MiB", "99999999999999999999"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_and_quantiles() {
        assert_eq!((share("2%"), share("100 %")), (Ok(0.02), Ok(1.0)));
        assert!(share("2").is_err() && share("101%").is_err() && share("-1%").is_err());
        assert_eq!((quantile("p99.5"), quantile("max")), (Ok(0.995), Ok(1.0)));
        assert!(quantile("99").is_err() && quantile("p100").is_err() && quantile("p0").is_err());
    }
}
