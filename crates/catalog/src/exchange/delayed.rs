//! Delayed-message exchange (RabbitMQ's `x-delayed-message`): it holds messages back, and then routes as another type does.
//!
//! Enters: the arguments of an exchange; the headers of a message.  Leaves: the other type; for how long.
//! Owns:   the meaning of `x-delayed-type` and `x-delay`.

use super::ExchangeKind;
use crate::{
    arguments::{DELAYED_TYPE, X_DELAY},
    limits::DELAY_MS_MAX,
    refusal::Refusal,
};
use wire::{RawProperties, Table, ValueRef};

/// The type as which an exchange routes when a message's time has come.
pub(crate) fn routes_as(arguments: &Table) -> Result<ExchangeKind, Refusal> {
    match arguments.get(DELAYED_TYPE).and_then(|name| name.as_bytes()) {
        Some(b"x-delayed-message") => {
            Err(Refusal::precondition("Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"))
        }
        Some(name) => ExchangeKind::parse(name),
        None => Err(Refusal::precondition("Invalid argument, 'x-delayed-type' must be an existing exchange type")),
    }
}

/// For how long such an exchange holds a message back (`x-delay`). Texts and fractions count as whole numbers; what is
/// negative, zero or no number asks for no delay, and so does what is longer than RabbitMQ's timers run.
pub fn delay_ms(properties: RawProperties<'_>) -> Option<u32> {
    let ms = match properties.headers()?.get(X_DELAY)? {
        ValueRef::LongStr(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
        ValueRef::F32(ms) => ms as i64,
        ValueRef::F64(ms) => ms as i64,
        value => value.as_i64()?,
    };
    u32::try_from(ms).ok().filter(|ms| (1..=DELAY_MS_MAX).contains(ms))
}

#[cfg(test)]
mod tests {
    use super::delay_ms;
    use wire::{Properties, RawProperties, Table, Value};

    #[test]
    fn what_is_a_delay() {
        for (value, expect) in [
            (Value::I32(5000), Some(5000)),
            (Value::I64(u32::MAX.into()), Some(u32::MAX)),
            (Value::U8(1), Some(1)),
            (Value::text("250"), Some(250)),
            (Value::F64(12.9), Some(12)),
            (Value::I32(0), None),
            (Value::I32(-5000), None),
            (Value::I64(i64::from(u32::MAX) + 1), None),
            (Value::text("soon"), None),
            (Value::text(""), None),
            (Value::F64(f64::NAN), None),
            (Value::F32(0.5), None),
            (Value::Bool(true), None),
            (Value::Void, None),
            (Value::Timestamp(5), None),
        ] {
            let headers = Table::new().with("a", Value::I32(7)).and_then(|table| table.with("x-delay", value.clone()));
            let properties = Properties { headers: Some(headers.expect("short names")), ..Properties::default() };
            assert_eq!(delay_ms(RawProperties::new(&properties.to_bytes())), expect, "{value:?}");
        }
        assert_eq!(delay_ms(RawProperties::EMPTY), None);
    }
}
