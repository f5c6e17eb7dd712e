//! Frames: promises about splitting, for every cut of the input.

use super::*;
use crate::ids::ChannelNumber;
use proptest::prelude::*;

fn head(kind: u8, channel: ChannelNumber, payload_bytes: u32) -> FrameHead {
    FrameHead { kind, channel, payload_bytes }
}

#[test]
fn the_heartbeat_is_a_frame() {
    let expect = Frame { kind: FRAME_HEARTBEAT, channel: ChannelNumber::CONNECTION, payload: &[] };
    assert_eq!(split(&HEARTBEAT_FRAME, FRAME_BYTES_MIN), Ok(Some((expect, 8))));
}

#[test]
fn refuses_as_soon_as_the_head_shows_it() {
    let cases = [
        (head(9, ChannelNumber(1), 0), FrameError::UnknownKind { head: head(9, ChannelNumber(1), 0) }),
        (
            head(0, ChannelNumber::CONNECTION, 1),
            FrameError::UnknownKind { head: head(0, ChannelNumber::CONNECTION, 1) },
        ),
        (
            head(FRAME_BODY, ChannelNumber(1), 4089),
            FrameError::TooLarge { head: head(FRAME_BODY, ChannelNumber(1), 4089), payload_bytes_max: 4088 },
        ),
        (
            head(FRAME_BODY, ChannelNumber(1), u32::MAX),
            FrameError::TooLarge { head: head(FRAME_BODY, ChannelNumber(1), u32::MAX), payload_bytes_max: 4088 },
        ),
    ];
    for (head, error) in cases {
        let bytes = head.to_bytes();
        for cut in 0..FRAME_HEAD_BYTES {
            assert_eq!(split(&bytes[..cut], FRAME_BYTES_MIN), Ok(None));
        }
        assert_eq!(split(&bytes, FRAME_BYTES_MIN), Err(error));
        assert_eq!((error.head(), error.reply_code().number()), (head, 501));
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn no_limit_still_leaves_room_for_the_overhead() {
    let bytes = head(FRAME_BODY, ChannelNumber(1), u32::MAX).to_bytes();
    assert!(matches!(split(&bytes, u32::MAX), Err(FrameError::TooLarge { .. })));
    assert!(matches!(split(&head(FRAME_BODY, ChannelNumber(1), u32::MAX - 8).to_bytes(), u32::MAX), Ok(None)));
    // A limit below an empty frame allows empty payloads only.
    assert_eq!(split(&HEARTBEAT_FRAME, 0).map(|found| found.is_some()), Ok(true));
}

#[test]
fn refuses_a_wrong_end() {
    let mut bytes = Vec::new();
    append(FRAME_METHOD, ChannelNumber(3), b"abc", &mut bytes);
    *bytes.last_mut().expect("not empty") = 0xCF;
    let error = FrameError::WrongEnd { head: head(FRAME_METHOD, ChannelNumber(3), 3), found: 0xCF };
    assert_eq!(split(&bytes, FRAME_BYTES_MIN), Err(error));
    assert_eq!(error.to_string(), "a frame ends in 0xcf instead of 0xce");
}

proptest! {
    #[test]
    fn what_was_appended_is_split_again(
        kind in prop::sample::select(vec![FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT]),
        channel: u16,
        payload in prop::collection::vec(any::<u8>(), 0..300),
        behind in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = Vec::new();
        append(kind, ChannelNumber(channel), &payload, &mut bytes);
        let taken = bytes.len();
        prop_assert_eq!(taken, payload.len() + FRAME_OVERHEAD_BYTES);
        for cut in 0..taken {
            prop_assert_eq!(split(&bytes[..cut], FRAME_BYTES_MIN), Ok(None));
        }
        bytes.extend_from_slice(&behind);
        let expect = Frame { kind, channel: ChannelNumber(channel), payload: &payload };
        prop_assert_eq!(split(&bytes, FRAME_BYTES_MIN), Ok(Some((expect, taken))));
        prop_assert_eq!(split(&bytes, taken as u32), Ok(Some((expect, taken))));
        if !payload.is_empty() {
            let refused = matches!(split(&bytes, taken as u32 - 1), Err(FrameError::TooLarge { .. }));
            prop_assert!(refused);
        }
    }

    #[test]
    fn any_bytes_are_split_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64), limit: u32) {
        if let Ok(Some((frame, taken))) = split(&bytes, limit) {
            prop_assert_eq!(taken, frame.payload.len() + FRAME_OVERHEAD_BYTES);
            let mut again = Vec::new();
            append(frame.kind, frame.channel, frame.payload, &mut again);
            prop_assert_eq!(&again[..], &bytes[..taken]);
        }
    }
}
