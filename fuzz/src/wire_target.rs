//! The target `wire`: the codec meets any bytes.
//!
//! Enters: bytes, taken as frames, as a method, as a table, a list, a content header and properties in turn.
//! Leaves: nothing, or a panic.
//! Owns:   the promises between decoding, validating, copying and encoding.
//! Never:  expects that bytes are well formed, only that the codec agrees with itself about them.

use wire::{
    ChannelNumber, ContentHeader, ListRef, Method, RawProperties, TableRef, Value,
    frame::{self, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD_BYTES},
    limits::TABLE_DEPTH_MAX,
};

mod samples;
pub use samples::samples;

/// Limit for frames; samples and what the fuzzer makes of them are smaller and larger.
const FRAME_BYTES_MAX: u32 = 4096;

/// Panics if the codec disagrees with itself about these bytes.
pub fn check(bytes: &[u8]) {
    frames(bytes);
    method(bytes);
    table(bytes);
    list(bytes);
    content_header(bytes);
    properties(bytes);
}

fn frames(mut input: &[u8]) {
    while let Ok(Some((frame, taken))) = frame::split(input, FRAME_BYTES_MAX) {
        assert_eq!(taken, frame.payload.len() + FRAME_OVERHEAD_BYTES);
        assert!(taken <= FRAME_BYTES_MAX as usize, "a frame over its limit");
        assert_eq!(frame::split(&input[..taken - 1], FRAME_BYTES_MAX), Ok(None), "a frame without its end");
        let mut again = Vec::new();
        frame::append(frame.kind, frame.channel, frame.payload, &mut again);
        assert_eq!(again, input[..taken]);
        match frame.kind {
            FRAME_METHOD => method(frame.payload),
            FRAME_HEADER => content_header(frame.payload),
            _ => {}
        }
        input = &input[taken..];
    }
}

fn method(payload: &[u8]) {
    let Ok(method) = Method::decode(payload) else {
        return;
    };
    let mut canonical = vec![0; method.encoded_len()];
    method.encode(&mut canonical);
    // Reserved fields and unused bits are dropped, so the bytes may differ from what came, but never the length ...
    assert!(canonical.len() <= payload.len(), "{} grew", method.name());
    // ... and from there on nothing changes any more.
    let again = Method::decode(&canonical).expect("what was encoded can be decoded");
    assert_eq!(again, method);
    assert!(Method::ALL.contains(&(method.id(), method.name())));
    let mut framed = Vec::new();
    wire::encode_frame(ChannelNumber(1), &method, &mut framed);
    assert_eq!(framed[frame::FRAME_HEAD_BYTES..framed.len() - 1], canonical);
}

fn table(bytes: &[u8]) {
    let table = TableRef::new(bytes);
    let copy = table.to_table();
    assert_eq!(table.validate(TABLE_DEPTH_MAX).err(), copy.as_ref().err().copied());
    for (name, value) in table.iter().flatten() {
        if let Ok(name) = name.to_str() {
            assert!(table.get(name).is_some());
        }
        // Only asks: any value may be asked for any type.
        let _ = (value.as_i64(), value.as_str(), value.as_bool(), value.type_name());
    }
    let Ok(copy) = copy else { return };
    assert_eq!(copy.len(), table.iter().count());
    let canonical = copy.to_bytes();
    assert_eq!(canonical.len() + 4, copy.encoded_len());
    assert_eq!(canonical.len(), bytes.len());
    assert_eq!(TableRef::new(&canonical).to_table(), Ok(copy));
}

fn list(bytes: &[u8]) {
    let list = ListRef::new(bytes);
    let copy = list.to_list();
    assert_eq!(list.validate(TABLE_DEPTH_MAX).err(), copy.as_ref().err().copied());
    let Ok(copy) = copy else { return };
    for (owned, borrowed) in copy.iter().zip(list.iter()) {
        let borrowed = borrowed.expect("a validated list yields no error");
        assert_eq!((owned.type_name(), owned.as_i64()), (borrowed.type_name(), borrowed.as_i64()));
        if !matches!(owned, Value::F32(_) | Value::F64(_) | Value::List(_) | Value::Table(_)) {
            assert!(owned.is_equivalent(borrowed), "{owned:?}");
        } else {
            // A NaN inside means nothing, not even itself.
            owned.is_equivalent(borrowed);
        }
    }
    let mut canonical = Vec::new();
    copy.encode(&mut canonical);
    assert_eq!(canonical.len(), copy.encoded_len());
    assert_eq!(canonical.len(), bytes.len() + 4);
}

fn content_header(payload: &[u8]) {
    let Ok(header) = ContentHeader::decode(payload) else {
        return;
    };
    let mut again = vec![0; header.encoded_len()];
    header.encode(&mut again);
    assert_eq!(again, payload, "a content header is kept as it came");
    properties(header.properties.as_bytes());
}

fn properties(bytes: &[u8]) {
    let raw = RawProperties::new(bytes);
    // Accessors must be safe before validation, too.
    let _ = (raw.content_type(), raw.headers(), raw.delivery_mode(), raw.timestamp(), raw.cluster_id());
    let copy = raw.to_properties();
    assert_eq!(raw.validate().err(), copy.as_ref().err().copied());
    let Ok(copy) = copy else { return };
    assert_eq!((raw.delivery_mode(), raw.priority()), (copy.delivery_mode, copy.priority));
    assert_eq!(raw.expiration().map(wire::ShortStr::to_owned), copy.expiration);
    let canonical = copy.to_bytes();
    assert_eq!((canonical.len(), canonical.len()), (copy.encoded_len(), bytes.len()));
    assert_eq!(RawProperties::new(&canonical).to_properties(), Ok(copy));
}
