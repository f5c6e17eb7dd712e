//! Methods: golden bytes, and promises for every method there is.
//!
//! Enters: methods filled by chance, bytes written by hand.
//! Owns:   the proof that decoding and encoding are each other's reverse.

use super::*;
use crate::ids::DeliveryTag;
use crate::{
    dice::{RandomChoices, any_table},
    error::DecodeError,
    short_str::ShortStr,
    table::TableRef,
};
use proptest::prelude::*;
use splitmix::SplitMix64;

/// Every method of RabbitMQ's definition (amqp-rabbitmq-0.9.1.json), written down a second time.
const SPECIFIED: &[(&str, u16, &str)] = &[
    (
        "connection",
        10,
        "start 10, start-ok 11, secure 20, secure-ok 21, tune 30, tune-ok 31, open 40, open-ok 41, close 50, \
         close-ok 51, blocked 60, unblocked 61, update-secret 70, update-secret-ok 71",
    ),
    ("channel", 20, "open 10, open-ok 11, flow 20, flow-ok 21, close 40, close-ok 41"),
    ("access", 30, "request 10, request-ok 11"),
    (
        "exchange",
        40,
        "declare 10, declare-ok 11, delete 20, delete-ok 21, bind 30, bind-ok 31, unbind 40, unbind-ok 51",
    ),
    (
        "queue",
        50,
        "declare 10, declare-ok 11, bind 20, bind-ok 21, purge 30, purge-ok 31, delete 40, delete-ok 41, unbind 50, \
         unbind-ok 51",
    ),
    (
        "basic",
        60,
        "qos 10, qos-ok 11, consume 20, consume-ok 21, cancel 30, cancel-ok 31, publish 40, return 50, deliver 60, \
         get 70, get-ok 71, get-empty 72, ack 80, reject 90, recover-async 100, recover 110, recover-ok 111, nack 120",
    ),
    ("confirm", 85, "select 10, select-ok 11"),
    ("tx", 90, "select 10, select-ok 11, commit 20, commit-ok 21, rollback 30, rollback-ok 31"),
];

#[test]
fn every_specified_method_is_there_and_no_other() {
    let mut specified = Vec::new();
    for (class, class_id, methods) in SPECIFIED {
        for method in methods.split(", ") {
            let (name, method_id) = method.split_once(' ').expect("a name and a number");
            specified.push(((*class_id, method_id.parse().expect("a number")), format!("{class}.{name}")));
        }
    }
    let found: Vec<((u16, u16), String)> = Method::ALL.iter().map(|(id, name)| (*id, (*name).to_owned())).collect();
    assert_eq!(found, specified);
    assert_eq!(found.len(), 66);
}

#[test]
fn unknown_numbers_are_told_apart_from_malformed_arguments() {
    for class_id in 0..=100 {
        for method_id in 0..=130 {
            let known = Method::ALL.iter().any(|(id, _)| *id == (class_id, method_id));
            let unknown = Method::decode_arguments((class_id, method_id), &[])
                == Err(DecodeError::UnknownMethod { class_id, method_id });
            assert_eq!(known, !unknown, "class {class_id} method {method_id}");
        }
    }
    assert_eq!(Method::decode(&[0, 60, 0]), Err(DecodeError::Truncated));
}

/// Both directions against bytes written by hand.
fn golden(method: impl Into<Method<'static>>, payload: &[u8]) {
    let method = method.into();
    let mut out = vec![0xAA; method.encoded_len()];
    method.encode(&mut out);
    assert_eq!(out.escape_ascii().to_string(), payload.escape_ascii().to_string(), "{}", method.name());
    assert_eq!(Method::decode(payload).map(|method| format!("{method:?}")), Ok(format!("{method:?}")));
}

fn short(text: &'static str) -> ShortStr<'static> {
    ShortStr::literal(text)
}

#[test]
fn golden_bytes() {
    golden(
        basic::Publish { exchange: short("x"), routing_key: short("a.b"), mandatory: true, immediate: false },
        b"\x00\x3c\x00\x28\x00\x00\x01x\x03a.b\x01",
    );
    golden(
        basic::Publish { exchange: short(""), routing_key: short("q"), mandatory: false, immediate: true },
        b"\x00\x3c\x00\x28\x00\x00\x00\x01q\x02",
    );
    golden(
        basic::Deliver {
            consumer_tag: short("t"),
            delivery_tag: DeliveryTag(0x0102_0304_0506_0708),
            redelivered: true,
            exchange: short("x"),
            routing_key: short("k"),
        },
        b"\x00\x3c\x00\x3c\x01t\x01\x02\x03\x04\x05\x06\x07\x08\x01\x01x\x01k",
    );
    golden(basic::Ack { delivery_tag: DeliveryTag(7), multiple: true }, b"\x00\x3c\x00\x50\0\0\0\0\0\0\0\x07\x01");
    golden(
        basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true },
        b"\x00\x3c\x00\x78\0\0\0\0\0\0\0\x01\x02",
    );
    golden(
        queue::Declare {
            queue: short("q"),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: true,
            no_wait: true,
            arguments: TableRef::new(b"\x05x-maxI\x00\x00\x00\x2a"),
        },
        b"\x00\x32\x00\x0a\x00\x00\x01q\x1a\x00\x00\x00\x0b\x05x-maxI\x00\x00\x00\x2a",
    );
    golden(
        exchange::Declare {
            exchange: short("e"),
            kind: short("topic"),
            passive: true,
            durable: false,
            auto_delete: false,
            internal: true,
            no_wait: true,
            arguments: TableRef::EMPTY,
        },
        b"\x00\x28\x00\x0a\x00\x00\x01e\x05topic\x19\x00\x00\x00\x00",
    );
    golden(
        connection::Tune { channel_max: 2047, frame_max: 131_072, heartbeat: 60 },
        b"\0\x0a\0\x1e\x07\xff\0\x02\0\0\0\x3c",
    );
    golden(connection::Open { virtual_host: short("/") }, b"\0\x0a\0\x28\x01/\0\0");
    golden(connection::OpenOk {}, b"\0\x0a\0\x29\0");
    golden(channel::Open {}, b"\0\x14\0\x0a\0");
    golden(channel::OpenOk {}, b"\0\x14\0\x0b\0\0\0\0");
    golden(basic::GetEmpty {}, b"\0\x3c\0\x48\0");
    golden(
        connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: TableRef::EMPTY,
            mechanisms: b"PLAIN AMQPLAIN",
            locales: b"en_US",
        },
        b"\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x0ePLAIN AMQPLAIN\0\0\0\x05en_US",
    );
}

#[test]
fn reserved_fields_are_skipped_whatever_they_hold() {
    let ticket = b"\x00\x3c\x00\x28\xff\xff\x00\x01q\xfc";
    let expect = basic::Publish { exchange: short(""), routing_key: short("q"), mandatory: false, immediate: false };
    assert_eq!(Method::decode(ticket), Ok(expect.into()));
    let insisting = b"\0\x0a\0\x28\x01/\x04caps\x01";
    assert_eq!(Method::decode(insisting), Ok(connection::Open { virtual_host: short("/") }.into()));
}

#[test]
fn tables_of_methods_are_validated() {
    let mut payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00\x00\x00\x00\x03\x01k?".to_vec();
    assert_eq!(Method::decode(&payload), Err(DecodeError::UnknownFieldType { tag: b'?' }));
    *payload.last_mut().expect("not empty") = b'V';
    assert!(Method::decode(&payload).is_ok());
}

#[test]
fn a_method_stays_small() {
    assert!(size_of::<Method<'_>>() <= 80, "{} bytes", size_of::<Method<'_>>());
}

#[test]
fn frames_enclose_the_payload() {
    let mut out = b"before".to_vec();
    encode_frame(ChannelNumber(258), &channel::Open {}.into(), &mut out);
    assert_eq!(out, b"before\x01\x01\x02\0\0\0\x05\0\x14\0\x0a\0\xce");
}

proptest! {
    #[test]
    fn every_method_survives_the_round_trip(
        seed: u64,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        tables in prop::collection::vec(any_table().prop_map(|table| table.to_bytes()), 0..3),
    ) {
        let mut dice = RandomChoices { random: SplitMix64::new(seed), bytes: &bytes, tables: &tables };
        let methods = Method::drawn(&mut dice);
        prop_assert_eq!(methods.len(), Method::ALL.len());
        for (method, (id, name)) in methods.iter().zip(Method::ALL) {
            prop_assert_eq!((method.id(), method.name()), (*id, *name));
            let mut payload = vec![0x55; method.encoded_len()];
            method.encode(&mut payload);
            prop_assert_eq!(Method::decode(&payload), Ok(*method));

            let mut frame = Vec::new();
            encode_frame(ChannelNumber(9), method, &mut frame);
            prop_assert_eq!(frame.len(), method.frame_len());
            let split = crate::frame::split(&frame, u32::MAX);
            let expect = crate::Frame { kind: FRAME_METHOD, channel: ChannelNumber(9), payload: &payload };
            prop_assert_eq!(split, Ok(Some((expect, frame.len()))));

            for cut in 0..payload.len() {
                prop_assert_eq!(Method::decode(&payload[..cut]), Err(DecodeError::Truncated), "{} {}", name, cut);
            }
            payload.push(0);
            prop_assert_eq!(Method::decode(&payload), Err(DecodeError::Trailing { bytes: 1 }), "{}", name);
        }
    }

    #[test]
    fn mutated_methods_are_decoded_or_refused_and_never_panic(
        seed: u64,
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        tables in prop::collection::vec(any_table().prop_map(|table| table.to_bytes()), 1..3),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut dice = RandomChoices { random: SplitMix64::new(seed), bytes: &bytes, tables: &tables };
        for method in Method::drawn(&mut dice) {
            let mut payload = vec![0; method.encoded_len()];
            method.encode(&mut payload);
            for (place, value) in &mutations {
                let place = place.index(payload.len());
                payload[place] = *value;
            }
            if let Ok(decoded) = Method::decode(&payload) {
                let mut again = vec![0; decoded.encoded_len()];
                decoded.encode(&mut again);
                prop_assert_eq!(Method::decode(&again), Ok(decoded));
            }
        }
    }

    #[test]
    fn any_arguments_are_decoded_or_refused(arguments in prop::collection::vec(any::<u8>(), 0..80)) {
        for (id, _) in Method::ALL {
            if let Ok(decoded) = Method::decode_arguments(*id, &arguments) {
                prop_assert_eq!(decoded.id(), *id);
            }
        }
    }
}
