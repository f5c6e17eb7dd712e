//! Properties and headers of a message to C.
//!
//! Enters: a message, and which of its properties.  Leaves: what it has of them.
//! Owns:   which functions they have.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use wire::RawProperties;

use crate::foreign::{LentBytes, LentText, wanted};
use crate::status::{Failure, Status, guarded};
use crate::types::{Field, LentDelivery, Property};
use crate::values::field;

fn properties<'a>(delivery: Option<&LentDelivery>) -> Result<RawProperties<'a>, Failure> {
    let delivery = delivery.ok_or_else(|| Failure::argument("delivery is NULL"))?;
    let bytes = delivery.properties.get("properties")?;
    Ok(if bytes.is_empty() { RawProperties::EMPTY } else { RawProperties::new(bytes) })
}

/// A property with a text; it points into the message. HARRIER_NONE if the message has none. `property` is a harrier_property.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_property_text(
    delivery: Option<&LentDelivery>,
    property: i32,
    text: Option<&mut MaybeUninit<LentBytes>>,
) -> Status {
    guarded(|| {
        let raw = properties(delivery)?;
        let out = wanted(text, "text")?;
        let found = match property {
            p if p == Property::HarrierContentType as i32 => raw.content_type(),
            p if p == Property::HarrierContentEncoding as i32 => raw.content_encoding(),
            p if p == Property::HarrierCorrelationId as i32 => raw.correlation_id(),
            p if p == Property::HarrierReplyTo as i32 => raw.reply_to(),
            p if p == Property::HarrierExpiration as i32 => raw.expiration(),
            p if p == Property::HarrierMessageId as i32 => raw.message_id(),
            p if p == Property::HarrierMessageType as i32 => raw.kind(),
            p if p == Property::HarrierUserId as i32 => raw.user_id(),
            p if p == Property::HarrierAppId as i32 => raw.app_id(),
            p if p == Property::HarrierClusterId as i32 => raw.cluster_id(),
            other => return Err(Failure::argument(format!("property {other} is no text"))),
        };
        let Some(text) = found else { return Ok(Status::HarrierNone) };
        out.write(LentBytes::of(text.as_bytes()));
        Ok(Status::HarrierOk)
    })
}

/// A property with a number. HARRIER_NONE if the message has none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_property_number(
    delivery: Option<&LentDelivery>,
    property: i32,
    number: Option<&mut u64>,
) -> Status {
    guarded(|| {
        let raw = properties(delivery)?;
        let out = number.ok_or_else(|| Failure::argument("number is NULL"))?;
        let found = match property {
            p if p == Property::HarrierDeliveryMode as i32 => raw.delivery_mode().map(u64::from),
            p if p == Property::HarrierPriority as i32 => raw.priority().map(u64::from),
            p if p == Property::HarrierMessageTimestamp as i32 => raw.timestamp(),
            other => return Err(Failure::argument(format!("property {other} is no number"))),
        };
        let Some(found) = found else { return Ok(Status::HarrierNone) };
        *out = found;
        Ok(Status::HarrierOk)
    })
}

/// The header of this name; it points into the message. HARRIER_NONE if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_header(
    delivery: Option<&LentDelivery>,
    name: LentText,
    header: Option<&mut MaybeUninit<Field>>,
) -> Status {
    find_header(delivery, header, name.get("name"), |wanted, _, name| name == wanted.as_bytes())
}

/// The header at a place, counted from 0: for a walk until HARRIER_NONE.
#[unsafe(no_mangle)]
pub extern "C" fn harrier_header_at(
    delivery: Option<&LentDelivery>,
    place: usize,
    header: Option<&mut MaybeUninit<Field>>,
) -> Status {
    find_header(delivery, header, Ok(place), |wanted, place, _| place == *wanted)
}

fn find_header<T>(
    delivery: Option<&LentDelivery>,
    header: Option<&mut MaybeUninit<Field>>,
    sought: Result<T, Failure>,
    fits: impl Fn(&T, usize, &[u8]) -> bool,
) -> Status {
    guarded(|| {
        let out = wanted(header, "header")?;
        let sought = sought?;
        let Some(headers) = properties(delivery)?.headers() else { return Ok(Status::HarrierNone) };
        for (place, entry) in headers.iter().enumerate() {
            let (name, value) = entry.map_err(|error| Failure::new(Status::HarrierProtocolError, error.to_string()))?;
            if fits(&sought, place, name.as_bytes()) {
                out.write(field(name.as_bytes(), &value));
                return Ok(Status::HarrierOk);
            }
        }
        Ok(Status::HarrierNone)
    })
}
