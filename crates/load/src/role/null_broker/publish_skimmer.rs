//! Skips published messages frame by frame, by frame headers alone; bodies are never read.
//!
//! Publishes that begin with the same bytes as the last one are recognised by comparison.

use session::limits::LARGE_BODY_BYTES;
use wire::{
    ChannelNumber,
    frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_OVERHEAD_BYTES, split_head},
};

use super::{BEGIN_EXCHANGE, parse_begin_key};

/// Bodies from this size on are discarded unread.
const NULL_LARGE_BYTES: u64 = LARGE_BODY_BYTES as u64;

/// The next input that needs a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SkimResult {
    /// No complete frame.
    Nothing,
    /// A consumer requests messages.
    Begin { channel: ChannelNumber, count: u64, size_bytes: usize },
    /// A frame of this size that is not a publish.
    Other(usize),
}

/// Skips published messages by frame headers.
#[derive(Debug, Default)]
pub(super) struct PublishSkimmer {
    /// Bytes of the current frame still to come.
    discard: usize,
    /// Whether a publish method was skipped and its header is next.
    header_next: bool,
    /// Bytes of the current body in frames that have not started.
    body_left: u64,
    /// The request of a publish to [`BEGIN_EXCHANGE`], until its content is complete.
    begin: Option<SkimResult>,
    /// The bytes that current publishes start with (method, header and body frame header), and the length of each.
    known: Vec<u8>,
    known_bytes: usize,
    /// Whether bodies are so large that reading their headers separately is worth a system call.
    large: bool,
}

impl PublishSkimmer {
    /// How many bytes can be discarded unread.
    pub(super) fn unread_bytes(&self) -> usize {
        self.discard
    }

    /// Whether it is worth reading only headers.
    pub(super) fn is_large(&self) -> bool {
        self.large
    }

    /// This many bytes were discarded unread.
    pub(super) fn on_discarded(&mut self, bytes: usize) {
        self.discard = self.discard.saturating_sub(bytes);
    }

    /// Skips publishes that start like the last one.
    #[inline]
    fn skip_known(&self, input: &[u8]) -> usize {
        let mut at = 0;
        if self.known_bytes > 0 {
            while let Some(whole) = input.get(at..at + self.known_bytes)
                && whole.starts_with(&self.known)
                && whole.last() == Some(&FRAME_END)
            {
                at += self.known_bytes;
            }
        }
        at
    }

    /// Remembers how a publish starts if it is complete, has three frames, and is not a request.
    fn remember(&mut self, publish: &[u8]) {
        let whole = || {
            let header_at = FRAME_OVERHEAD_BYTES + payload_bytes(publish);
            let body_at = header_at + FRAME_OVERHEAD_BYTES + payload_bytes(publish.get(header_at..)?);
            let head = split_head(publish.get(body_at..)?).filter(|head| head.kind == FRAME_BODY)?;
            let size = publish.get(header_at + FRAME_HEAD_BYTES + 4..)?.first_chunk::<8>()?;
            let is_all = u64::from_be_bytes(*size) == u64::from(head.payload_bytes);
            let end = body_at + FRAME_OVERHEAD_BYTES + head.payload_bytes as usize;
            (is_all && end <= publish.len()).then_some((body_at + FRAME_HEAD_BYTES, end))
        };
        if let Some((heads_bytes, bytes)) = whole() {
            self.known.clear();
            self.known.extend_from_slice(&publish[..heads_bytes]);
            self.known_bytes = bytes;
        }
    }

    /// Skips input up to something that needs a reply; returns the number of bytes skipped.
    pub(super) fn skim(&mut self, input: &[u8]) -> (usize, SkimResult) {
        let mut at = 0;
        loop {
            let dropped = self.discard.min(input.len() - at);
            self.discard -= dropped;
            at += dropped;
            if self.discard == 0
                && !self.header_next
                && self.body_left == 0
                && let Some(begin) = self.begin.take()
            {
                return (at, begin);
            }
            if !self.header_next && self.body_left == 0 && self.discard == 0 {
                at += self.skip_known(&input[at..]);
            }
            let rest = &input[at..];
            let Some(head) = split_head(rest) else { return (at, SkimResult::Nothing) };
            let (payload_bytes, frame_bytes) =
                (head.payload_bytes as usize, FRAME_HEAD_BYTES + head.payload_bytes as usize + 1);
            if self.body_left > 0 {
                self.body_left = self.body_left.saturating_sub(payload_bytes as u64);
                self.discard = frame_bytes;
            } else if self.header_next {
                // Class, weight, and then the body size in eight bytes.
                let Some(size) = rest.get(FRAME_HEAD_BYTES + 4..).and_then(|rest| rest.first_chunk::<8>()) else {
                    return (at, SkimResult::Nothing);
                };
                self.body_left = u64::from_be_bytes(*size);
                self.large = self.body_left >= NULL_LARGE_BYTES;
                self.header_next = false;
                self.discard = frame_bytes;
            } else if rest.len() < frame_bytes {
                return (at, SkimResult::Nothing);
            } else if rest[FRAME_HEAD_BYTES..].starts_with(&[0, 60, 0, 40]) {
                self.header_next = true;
                at += frame_bytes;
                let arguments = &rest[FRAME_HEAD_BYTES + 4..frame_bytes - 1];
                // Two reserved bytes and a length precede the exchange name, a length precedes the key.
                if arguments.get(3..).is_some_and(|names| names.starts_with(BEGIN_EXCHANGE.as_bytes())) {
                    let key = arguments.get(4 + BEGIN_EXCHANGE.len()..arguments.len() - 1).unwrap_or_default();
                    self.begin = parse_begin_key(key).map(|(count, size_bytes)| SkimResult::Begin {
                        channel: head.channel,
                        count,
                        size_bytes,
                    });
                } else {
                    self.remember(rest);
                }
            } else {
                debug_assert_eq!(rest[frame_bytes - 1], FRAME_END, "a frame without its end");
                return (at, SkimResult::Other(frame_bytes));
            }
        }
    }
}

/// Payload bytes of the frame that starts here.
pub(super) fn payload_bytes(frame: &[u8]) -> usize {
    split_head(frame).map_or(0, |head| head.payload_bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::super::begin_key;
    use super::*;
    use harness::role_protocol::LoadSegment;
    use session::{BodyOut, Outbound, PublishHead};
    use slab::Pool;
    use wire::method::channel;

    /// Publishes of these sizes with a call between each two.
    fn stream(sizes: &[usize]) -> Vec<u8> {
        let (mut out, pool) = (Outbound::new(), Pool::default());
        let head = PublishHead { exchange: b"x", routing_key: b"k", mandatory: false, immediate: false };
        for &size in sizes {
            let body = vec![FRAME_END; size];
            out.publish(&pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&body));
            out.method(&pool, ChannelNumber(1), &channel::FlowOk { active: true }.into());
        }
        let begin = begin_key(&LoadSegment {
            shape: harness::role_protocol::TrafficShape::Stream,
            size_bytes: 64,
            count: 1_000,
        });
        let head = PublishHead {
            exchange: BEGIN_EXCHANGE.as_bytes(),
            routing_key: begin.as_bytes(),
            mandatory: false,
            immediate: false,
        };
        out.publish(&pool, ChannelNumber(3), &head, &[0, 0], BodyOut::Copy(&[]));
        out.take_bytes(&pool)
    }

    #[test]
    fn contents_pass_and_calls_are_seen_however_the_bytes_come() {
        let sizes = [0, 1, 64, 5_000, 300_000, 2];
        let bytes = stream(&sizes);
        for step in [1, 7, 4_096, bytes.len()] {
            let (mut contents, mut waiting, mut calls, mut begins) =
                (PublishSkimmer::default(), Vec::new(), 0, Vec::new());
            for piece in bytes.chunks(step) {
                waiting.extend_from_slice(piece);
                loop {
                    let (taken, seen) = contents.skim(&waiting);
                    waiting.drain(..taken);
                    match seen {
                        SkimResult::Nothing => break,
                        SkimResult::Other(bytes) => {
                            calls += 1;
                            waiting.drain(..bytes);
                        }
                        begin @ SkimResult::Begin { .. } => begins.push(begin),
                    }
                }
            }
            assert_eq!((calls, waiting.len()), (sizes.len(), 0), "pieces of {step}");
            assert_eq!(begins, [SkimResult::Begin { channel: ChannelNumber(3), count: 1_000, size_bytes: 64 }]);
        }
    }

    #[test]
    fn keys_that_ask_for_nothing() {
        for key in [&b""[..], b"x", b"1x", b"ax1", b"\xff"] {
            assert_eq!(parse_begin_key(key), None);
        }
        assert_eq!(parse_begin_key(b"12x34"), Some((12, 34)));
    }
}
