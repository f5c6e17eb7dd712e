//! A pen: writing frames into reserved bytes.
//!
//! Enters: parts of a frame, in order.  Leaves: bytes.
//! Owns:   the place of the next byte.

use wire::{
    ChannelNumber,
    frame::{FRAME_END, FRAME_METHOD, FrameHead},
};

/// Writes into a slice from its start to its end.
pub(crate) struct SliceWriter<'a> {
    rest: &'a mut [u8],
}

impl<'a> SliceWriter<'a> {
    #[inline(always)]
    pub fn new(out: &'a mut [u8]) -> Self {
        Self { rest: out }
    }

    #[inline(always)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (place, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        self.rest = rest;
    }

    #[inline(always)]
    pub fn array<const N: usize>(&mut self, array: [u8; N]) {
        let (place, rest) =
            std::mem::take(&mut self.rest).split_first_chunk_mut::<N>().expect("as many bytes as were reserved");
        *place = array;
        self.rest = rest;
    }

    #[inline(always)]
    pub fn short_str(&mut self, bytes: &[u8]) {
        let length = u8::try_from(bytes.len()).expect("a short string of at most 255 bytes");
        self.array([length]);
        self.bytes(bytes);
    }

    /// Head of a method frame, and the method's numbers.
    #[inline(always)]
    pub fn method_head(&mut self, channel: ChannelNumber, payload_bytes: usize, id: (u16, u16)) {
        // A method without a table is far below 4 GiB.
        let head = FrameHead { kind: FRAME_METHOD, channel, payload_bytes: payload_bytes as u32 }.to_bytes();
        let [class_0, class_1] = id.0.to_be_bytes();
        let [method_0, method_1] = id.1.to_be_bytes();
        let [h0, h1, h2, h3, h4, h5, h6] = head;
        self.array([h0, h1, h2, h3, h4, h5, h6, class_0, class_1, method_0, method_1]);
    }

    /// The end of a frame and the head of the next.
    #[inline(always)]
    pub fn between(&mut self, kind: u8, channel: ChannelNumber, payload_bytes: usize) {
        // Callers keep payloads within the frame bound, which fits 32 bits.
        let [h0, h1, h2, h3, h4, h5, h6] = FrameHead { kind, channel, payload_bytes: payload_bytes as u32 }.to_bytes();
        self.array([FRAME_END, h0, h1, h2, h3, h4, h5, h6]);
    }

    /// Class, weight and body size of a content header.
    #[inline(always)]
    pub fn header_fixed(&mut self, body_bytes: u64) {
        let [class_0, class_1] = wire::method::basic::CLASS_ID.to_be_bytes();
        self.array([class_0, class_1, 0, 0]);
        self.array(body_bytes.to_be_bytes());
    }

    #[inline(always)]
    pub fn finish(self) {
        assert!(self.rest.is_empty(), "{} reserved bytes are not written", self.rest.len());
    }
}
