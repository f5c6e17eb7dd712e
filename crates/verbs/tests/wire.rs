//! Whatever bytes a peer sends, reading them ends with a value or an error; what we write is read back.

use proptest::prelude::*;
use verbs::wire::{
    CloseCode, Hello, MessageHeader, MessageKind, RdmaToken, Reject, RendezvousDescriptor, decode_close, decode_done,
    encode_close, encode_done,
};

fn message_kind() -> impl Strategy<Value = MessageKind> {
    prop::sample::select(MessageKind::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(header) = MessageHeader::decode(&bytes) {
            prop_assert_eq!(&header.encode()[..], &bytes[..8]);
        }
        if let Some(descriptor) = RendezvousDescriptor::decode(&bytes) {
            prop_assert_eq!(&descriptor.encode()[..], &bytes[..]);
        }
        if let Some((_, text)) = decode_close(&bytes) {
            prop_assert!(!text.contains(char::is_control));
        }
        decode_done(&bytes);
        prop_assert!(Hello::decode(&bytes).is_err() || bytes.starts_with(b"HRDM"));
        prop_assert!(Reject::decode(&bytes).is_none() || bytes.starts_with(b"HRDM"));
    }

    #[test]
    fn nothing_panics_behind_the_magic(rest in prop::collection::vec(any::<u8>(), 0..60)) {
        let bytes = [b"HRDM", &rest[..]].concat();
        if let Ok(hello) = Hello::decode(&bytes) {
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            hello.version_with(1, 1);
        }
        if let Some(reject) = Reject::decode(&bytes) {
            prop_assert_eq!(&reject.encode()[..], &bytes[..8]);
        }
    }

    #[test]
    fn headers_come_back(payload_bytes in 0_u32..1 << 24, kind in message_kind(), returned: u16, sequence: u16) {
        let header = MessageHeader { payload_bytes, kind, returned, sequence };
        prop_assert_eq!(MessageHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn descriptors_come_back(number: u32, bytes in 1_u32..=16 << 20, address in 0..u64::MAX - (16 << 20), key: u32) {
        let descriptor = RendezvousDescriptor { number, bytes, address, key };
        prop_assert_eq!(RendezvousDescriptor::decode(&descriptor.encode()), Some(descriptor));
        prop_assert_eq!(decode_done(&encode_done(number)), Some(number));
    }

    #[test]
    fn reasons_come_back(code: u16, text in "[ -~]{0,100}") {
        let (payload, bytes) = encode_close(CloseCode(code), &text);
        prop_assert_eq!(decode_close(&payload[..bytes]), Some((CloseCode(code), text)));
    }

    #[test]
    fn hellos_come_back(
        versions in (1_u8..9, 9_u8..),
        receive_buffer_bytes in 256_u32..,
        credits in 12_u16..,
        rendezvous_max: u16,
        rendezvous_threshold_bytes: u32,
        reads: (u8, u8),
        token: Option<[u8; 16]>,
    ) {
        let hello = Hello {
            versions,
            receive_buffer_bytes,
            credits,
            rendezvous_max,
            rendezvous_threshold_bytes,
            reads_issued_max: reads.0,
            reads_answered_max: reads.1,
            token: token.map(RdmaToken),
        };
        prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
}
