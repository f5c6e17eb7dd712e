//! The property `expiration`: how long a message may wait, as text.

use catalog::Refusal;
use wire::{RawProperties, ReplyCode};

/// Ten years, RabbitMQ's longest time (`?MAX_EXPIRY_TIMER`).
const EXPIRATION_MS_MAX: u64 = 315_360_000_000;

/// Whether the text is a number of milliseconds within the bounds.
pub fn check_expiration(text: &str) -> Result<(), Refusal> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let end = digits.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = (&digits[..end], &digits[end..]);
    let why = if number.is_empty() {
        "no_integer".to_owned()
    } else if !rest.is_empty() {
        format!("{{leftover_string,{rest:?}}}")
    } else if text.starts_with('-') && number.bytes().any(|digit| digit != b'0') {
        format!("{{value_negative,{text}}}")
    } else if number.parse::<u64>().is_ok_and(|number| number <= EXPIRATION_MS_MAX) {
        return Ok(());
    } else {
        format!("{{value_too_large,{number}}}")
    };
    Err(Refusal::detail(ReplyCode::PreconditionFailed, format!("invalid expiration '{text}': {why}")))
}

/// How long a message may wait, if it has an expiration. One that is not well formed was refused at the publish.
pub fn time_to_live_us(properties: RawProperties<'_>) -> Option<u64> {
    let text = properties.expiration()?;
    let digits = text.as_bytes().iter().filter(|byte| byte.is_ascii_digit());
    let ms = digits.fold(0_u64, |ms, digit| ms.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(ms.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::check_expiration;

    #[test]
    fn only_milliseconds_in_digits_are_valid() {
        for (text, expect) in [
            ("0", ""),
            ("60000", ""),
            ("315360000000", ""),
            ("soon", "no_integer"),
            ("", "no_integer"),
            ("12abc", "{leftover_string,\"abc\"}"),
            ("-1", "{value_negative,-1}"),
            ("315360000001", "{value_too_large,315360000001}"),
        ] {
            let got = check_expiration(text).err().map(|refusal| refusal.text).unwrap_or_default();
            let expect = if expect.is_empty() {
                String::new()
            } else {
                format!("PRECONDITION_FAILED - invalid expiration '{text}': {expect}")
            };
            assert_eq!(got, expect);
        }
    }
}
