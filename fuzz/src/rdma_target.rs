//! The target `rdma`: what a peer may say over RDMA, in private data and in messages.
//!
//! Enters: bytes, taken for everything that they could be.
//! Leaves: nothing, or a panic.
//! Owns:   the promise that what is read is written again as it was, as far as it means something.
//! Never:  has a connection: what a message may do there is tested with dishonest peers, in the crate `verbs`.

use verbs::RdmaToken;
use verbs::limits::{CLOSE_TEXT_BYTES_MAX, MESSAGE_HEADER_BYTES, RENDEZVOUS_BYTES_MAX};
use verbs::wire::{
    CloseCode, Hello, MessageHeader, MessageKind, Reject, RejectReason, RendezvousDescriptor, VERSION_MAX, VERSION_MIN,
    decode_close, decode_done, encode_close, encode_done,
};

/// Panics if bytes are read as what they are not.
pub fn check(bytes: &[u8]) {
    if let Ok(header) = MessageHeader::decode(bytes) {
        assert_eq!(header.encode()[..], bytes[..MESSAGE_HEADER_BYTES], "a header is all that its bytes say");
        assert!(MessageKind::ALL.contains(&header.kind));
    }
    for payload in [bytes, bytes.get(MESSAGE_HEADER_BYTES..).unwrap_or_default()] {
        message(payload);
    }
    private(bytes);
    // Connection managers pad with zeros, and later versions may say more.
    let padded = [bytes, &[0; 56]].concat();
    let (hello, padded) = (Hello::decode(bytes), Hello::decode(&padded));
    assert!(hello.is_err() || hello == padded, "{hello:?} with zeros behind it is {padded:?}");
}

fn message(payload: &[u8]) {
    if let Some(descriptor) = RendezvousDescriptor::decode(payload) {
        assert_eq!(RendezvousDescriptor::decode(&descriptor.encode()), Some(descriptor));
        assert!((1..=RENDEZVOUS_BYTES_MAX).contains(&descriptor.bytes), "{descriptor:?}");
        assert!(descriptor.address.checked_add(descriptor.bytes.into()).is_some(), "{descriptor:?}");
    }
    if let Some(number) = decode_done(payload) {
        assert_eq!(encode_done(number)[..], *payload);
    }
    if let Some((code, text)) = decode_close(payload) {
        assert!(!text.contains(char::is_control), "{text:?} is for an operator to read");
        let (again, bytes) = encode_close(code, &text);
        let (same, cut) = decode_close(&again[..bytes]).expect("what we write ourselves");
        assert!(same == code && text.starts_with(&cut) && cut.len() <= CLOSE_TEXT_BYTES_MAX, "{text:?}, {cut:?}");
    }
}

fn private(bytes: &[u8]) {
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()).as_ref(), Ok(&hello), "written again it is the same");
        let version = hello.version_with(VERSION_MIN, VERSION_MAX);
        assert!(version.is_none_or(|version| (VERSION_MIN..=VERSION_MAX).contains(&version)));
    }
    if let Some(reject) = Reject::decode(bytes) {
        assert_eq!(reject.encode()[..], bytes[..reject.encode().len()]);
    }
}

/// What the corpus begins with: one of each.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let mut samples = Vec::new();
    for (place, kind) in (0_u16..).zip(MessageKind::ALL) {
        let payload: Vec<u8> = match kind {
            MessageKind::Data => b"some of the stream".to_vec(),
            MessageKind::Rendezvous => {
                RendezvousDescriptor { number: 7, bytes: 65_536, address: 1 << 40, key: 99 }.encode().to_vec()
            }
            MessageKind::Done => encode_done(7).to_vec(),
            _ => Vec::new(),
        };
        let header =
            MessageHeader { payload_bytes: payload.len() as u32, kind, returned: place, sequence: 1_000 + place };
        samples.push((format!("message-{place}"), [&header.encode()[..], &payload].concat()));
    }
    let (close, bytes) = encode_close(CloseCode::PROTOCOL, "a header says what is not so");
    samples.push(("close".into(), close[..bytes].to_vec()));
    let last = RendezvousDescriptor { number: u32::MAX, bytes: RENDEZVOUS_BYTES_MAX, address: 1, key: 0 };
    samples.push(("descriptor".into(), last.encode().to_vec()));
    for (name, token) in [("hello", None), ("hello-token", Some(RdmaToken([9; 16])))] {
        let hello = Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            receive_buffer_bytes: 4_096,
            credits: 16,
            rendezvous_max: 8,
            rendezvous_threshold_bytes: 16_384,
            reads_issued_max: 1,
            reads_answered_max: 16,
            token,
        };
        samples.push((name.into(), hello.encode().to_vec()));
    }
    let reject = Reject { reason: RejectReason::Busy, versions: (VERSION_MIN, VERSION_MAX) };
    samples.push(("reject".into(), reject.encode().to_vec()));
    samples
}
