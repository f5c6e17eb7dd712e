//! Properties: golden bytes, every combination of flags, every cut.

use super::*;
use crate::{
    content::ContentHeader,
    dice::{any_short_string, any_table},
    value::Value,
};
use proptest::prelude::*;

fn any_properties() -> impl Strategy<Value = Properties> {
    let text = || prop::option::of(any_short_string());
    (
        (text(), text(), prop::option::of(any_table()), any::<Option<u8>>(), any::<Option<u8>>()),
        (text(), text(), text(), text(), any::<Option<u64>>()),
        (text(), text(), text(), text()),
    )
        .prop_map(
            |(
                (content_type, content_encoding, headers, delivery_mode, priority),
                (correlation_id, reply_to, expiration, message_id, timestamp),
                (kind, user_id, app_id, cluster_id),
            )| Properties {
                content_type,
                content_encoding,
                headers,
                delivery_mode,
                priority,
                correlation_id,
                reply_to,
                expiration,
                message_id,
                timestamp,
                kind,
                user_id,
                app_id,
                cluster_id,
            },
        )
}

#[test]
fn golden_bytes() {
    let properties = Properties {
        content_type: Some(ShortString::try_from("a/b").expect("short")),
        headers: Some(Table::new().with("k", Value::Bool(true)).expect("short")),
        delivery_mode: Some(2),
        expiration: Some(ShortString::try_from("60").expect("short")),
        timestamp: Some(1),
        cluster_id: Some(ShortString::default()),
        ..Default::default()
    };
    let bytes = b"\xb1\x44\x03a/b\0\0\0\x04\x01kt\x01\x02\x0260\0\0\0\0\0\0\0\x01\0";
    assert_eq!(properties.to_bytes(), bytes);
    let raw = RawProperties::new(bytes);
    assert_eq!(raw.validate(), Ok(()));
    assert!(raw.is_persistent());
    assert_eq!(raw.priority(), None);
    assert_eq!(raw.expiration().map(|text| text.as_bytes()), Some(b"60".as_slice()));
    assert_eq!(raw.headers().and_then(|headers| headers.get("k")).and_then(|value| value.as_bool()), Some(true));
    assert_eq!(raw.cluster_id(), Some(ShortStr::EMPTY));

    assert_eq!(Properties::default().to_bytes(), RawProperties::EMPTY.as_bytes());
    assert_eq!(RawProperties::default().to_properties(), Ok(Properties::default()));
}

#[test]
fn what_basic_does_not_define_is_refused() {
    for flags in [1u16, 2, 3, 0x8001] {
        let bytes = flags.to_be_bytes();
        assert_eq!(RawProperties::new(&bytes).validate(), Err(DecodeError::UnknownProperty { flags }));
    }
    assert_eq!(RawProperties::new(&[0]).validate(), Err(DecodeError::Truncated));
    assert_eq!(RawProperties::new(&[0, 0, 0]).validate(), Err(DecodeError::Trailing { bytes: 1 }));
    let bad_header = b"\x20\0\0\0\0\x03\x01k?";
    assert_eq!(RawProperties::new(bad_header).validate(), Err(DecodeError::UnknownFieldType { tag: b'?' }));
}

#[test]
fn accessors_of_malformed_properties_find_nothing() {
    for bytes in [b"".as_slice(), b"\xff", b"\xff\xfc", b"\xff\xfc\x05a"] {
        let raw = RawProperties::new(bytes);
        assert_eq!((raw.content_type(), raw.headers(), raw.cluster_id()), (None, None, None));
        assert_eq!((raw.delivery_mode(), raw.timestamp(), raw.is_persistent()), (None, None, false));
    }
}

#[test]
fn a_content_header_has_its_bytes() {
    let header = ContentHeader { class_id: 60, body_bytes: 258, properties: RawProperties::new(b"\x10\0\x02") };
    let bytes = b"\0\x3c\0\0\0\0\0\0\0\0\x01\x02\x10\0\x02";
    let mut out = vec![0; header.encoded_len()];
    header.encode(&mut out);
    assert_eq!(out, bytes);
    assert_eq!(ContentHeader::decode(bytes), Ok(header));
    for cut in 0..12 {
        assert_eq!(ContentHeader::decode(&bytes[..cut]), Err(DecodeError::Truncated));
    }
    assert_eq!(ContentHeader::decode(b"\0\x3c\0\x07\0\0\0\0\0\0\x01\x02\0\0"), Err(DecodeError::Weight { weight: 7 }));
}

proptest! {
    #[test]
    fn properties_survive_the_round_trip(properties in any_properties()) {
        let bytes = properties.to_bytes();
        prop_assert_eq!(bytes.len(), properties.encoded_len());
        let raw = RawProperties::new(&bytes);
        prop_assert_eq!(raw.validate(), Ok(()));
        prop_assert_eq!(raw.to_properties(), Ok(properties.clone()));
        prop_assert_eq!(raw.delivery_mode(), properties.delivery_mode);
        prop_assert_eq!(raw.timestamp(), properties.timestamp);
        prop_assert_eq!(raw.kind(), properties.kind.as_ref().map(ShortString::as_short_str));
        for cut in 0..bytes.len() {
            prop_assert_eq!(RawProperties::new(&bytes[..cut]).validate(), Err(DecodeError::Truncated));
        }
    }

    #[test]
    fn mutated_properties_are_read_or_refused(
        properties in any_properties(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = properties.to_bytes();
        for (place, value) in mutations {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let raw = RawProperties::new(&bytes);
        match raw.validate() {
            Ok(()) => {
                let copy = raw.to_properties().expect("validated properties can be copied");
                prop_assert_eq!(RawProperties::new(&copy.to_bytes()).to_properties(), Ok(copy));
            }
            Err(error) => prop_assert_eq!(raw.to_properties(), Err(error)),
        }
    }
}

proptest! {
    #[test]
    fn a_user_id_is_removed_alone(before in any_properties()) {
        let mut out = Vec::new();
        RawProperties::new(&before.to_bytes()).without_user_id(&mut out);
        let after = RawProperties::new(&out).to_properties().expect("well formed");
        prop_assert_eq!(after, Properties { user_id: None, ..before });
    }

    /// Rewritten properties are the owned ones with other headers, and without an expiration if that is asked for.
    #[test]
    fn rewriting_changes_headers_and_expiration_alone(before in any_properties(), expiration in any::<bool>()) {
        let bytes = before.to_bytes();
        let raw = RawProperties::new(&bytes);
        prop_assert_eq!(raw.has_headers(), before.headers.is_some());
        prop_assert_eq!(raw.has_expiration(), before.expiration.is_some());
        prop_assert_eq!(raw.has_reply_to(), before.reply_to.is_some());
        prop_assert_eq!(raw.has_user_id(), before.user_id.is_some());
        let mut out = Vec::new();
        raw.rewrite(expiration, &mut out, |headers, out| {
            out.extend_from_slice(headers);
            out.extend_from_slice(b"\x01kt\x01");
        });
        let after = RawProperties::new(&out).to_properties().expect("well formed");
        let mut headers = before.headers.clone().unwrap_or_default();
        headers.push(ShortString::try_from("k").expect("short"), Value::Bool(true));
        let kept = before.expiration.clone().filter(|_| expiration);
        prop_assert_eq!(after, Properties { headers: Some(headers), expiration: kept, ..before });
    }
}
