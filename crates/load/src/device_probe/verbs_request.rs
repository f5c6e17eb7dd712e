//! The parameters of one verbs connection, encoded in the private data of the handshake. Received lengths are checked.

use ib::RemoteMemory;
use serde::{Deserialize, Serialize};

use crate::limits::VERBS_WINDOW_MAX;
use harness::limits::{MESSAGE_BYTES_MAX, SEGMENT_MESSAGES_MAX};
use harness::role_protocol::TrafficShape;

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerbsOperation {
    /// SEND with a receive of the peer.
    Send,
    /// RDMA WRITE to the peer's memory.
    Write,
    /// RDMA READ from the peer's memory.
    Read,
}

impl VerbsOperation {
    /// All operations in the order of measurement.
    pub const ALL: [Self; 3] = [Self::Send, Self::Write, Self::Read];

    /// Its name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// How an endpoint waits for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompletionWait {
    /// Busy polling.
    Busy,
    /// Sleeping until the device signals an event.
    Events,
}

/// The parameters of one connection: a warm-up and a measured segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbsRequest {
    pub kind: VerbsOperation,
    /// A stream, or a ping-pong.
    pub shape: TrafficShape,
    /// How both sides wait.
    pub poll: CompletionWait,
    pub size_bytes: usize,
    /// Warm-up messages.
    pub warm_up: u64,
    /// Measured messages.
    pub count: u64,
    /// Most requests in flight.
    pub window: u32,
    /// Every N-th request is signalled.
    pub signal_every: u32,
    /// The inline limit; `None`: the device's largest usual one.
    pub inline_bytes: Option<u32>,
}

/// The private data starts with this; the last byte is the version of the layout.
const MAGIC: [u8; 4] = *b"hbv\x01";
pub(crate) const REQUEST_BYTES: usize = 52;
/// Encodes a missing inline limit.
const AS_THE_DEVICE_HAS: u32 = u32::MAX;

/// Encodes the memory that a peer may access.
fn encode_grant(grant: RemoteMemory) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&grant.address.to_le_bytes());
    bytes[8..].copy_from_slice(&grant.key.to_le_bytes());
    bytes
}

/// Decodes consecutive numbers of a message.
struct NumberReader<'a>(&'a [u8]);

impl NumberReader<'_> {
    fn next(&mut self, bytes: usize) -> Option<u64> {
        let (first, rest) = self.0.split_at_checked(bytes)?;
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(first);
        self.0 = rest;
        Some(u64::from_le_bytes(number))
    }
}

impl VerbsRequest {
    /// Whether the passive side has nothing to do.
    pub(crate) fn is_one_sided(&self) -> bool {
        self.kind == VerbsOperation::Read || (self.kind == VerbsOperation::Write && self.shape == TrafficShape::Stream)
    }

    /// The private data of a connection request, with the memory that the peer may write.
    pub fn request(&self, memory: RemoteMemory) -> Vec<u8> {
        let mut data = Vec::with_capacity(REQUEST_BYTES);
        data.extend(MAGIC);
        data.extend([self.kind as u8, self.shape as u8, self.poll as u8, 0]);
        data.extend((self.size_bytes as u32).to_le_bytes());
        data.extend(self.window.to_le_bytes());
        data.extend(self.signal_every.to_le_bytes());
        data.extend(self.inline_bytes.unwrap_or(AS_THE_DEVICE_HAS).to_le_bytes());
        data.extend(self.warm_up.to_le_bytes());
        data.extend(self.count.to_le_bytes());
        data.extend(encode_grant(memory));
        data
    }

    /// Decodes a peer's request and its memory.
    ///
    /// # Errors
    /// Why it is invalid.
    pub(crate) fn of_request(data: &[u8]) -> Result<(Self, RemoteMemory), &'static str> {
        let rest = data.strip_prefix(&MAGIC).ok_or("not a request of this version of harrier bench")?;
        let mut numbers = NumberReader(rest);
        let mut next = |bytes| numbers.next(bytes).ok_or("a request that is too short");
        let kind = match next(1)? {
            0 => VerbsOperation::Send,
            1 => VerbsOperation::Write,
            2 => VerbsOperation::Read,
            _ => return Err("a request for an operation other than send, write or read"),
        };
        let shape = if next(1)? == TrafficShape::Stream as u64 { TrafficShape::Stream } else { TrafficShape::PingPong };
        let poll = if next(1)? == CompletionWait::Busy as u64 { CompletionWait::Busy } else { CompletionWait::Events };
        let _reserved = next(1)?;
        let size_bytes = next(4)? as usize;
        let (window, signal_every, inline) = (next(4)? as u32, next(4)? as u32, next(4)? as u32);
        let (warm_up, count) = (next(8)?, next(8)?);
        let memory = RemoteMemory { address: next(8)?, bytes: size_bytes as u64, key: next(4)? as u32 };
        let request = Self {
            kind,
            shape,
            poll,
            size_bytes,
            warm_up,
            count,
            window,
            signal_every,
            inline_bytes: Some(inline).filter(|&bytes| bytes != AS_THE_DEVICE_HAS),
        };
        let within = (1..=MESSAGE_BYTES_MAX).contains(&size_bytes)
            && (1..=VERBS_WINDOW_MAX).contains(&window)
            && (1..=window).contains(&signal_every)
            && (1..=SEGMENT_MESSAGES_MAX).contains(&warm_up)
            && (1..=SEGMENT_MESSAGES_MAX).contains(&count);
        if within { Ok((request, memory)) } else { Err("a request beyond the limits of harrier bench") }
    }
}

/// The private data of an acceptance: the memory that the peer may access, and the device in JSON.
pub(crate) fn acceptance(memory: RemoteMemory, device: &str) -> Vec<u8> {
    let mut data = MAGIC.to_vec();
    data.extend(encode_grant(memory));
    data.extend(device.as_bytes());
    data
}

/// Decodes the memory from an acceptance.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn of_acceptance(data: &[u8], size_bytes: usize) -> Result<RemoteMemory, &'static str> {
    let rest = data.strip_prefix(&MAGIC).ok_or("the other end is not harrier bench of this version")?;
    let mut numbers = NumberReader(rest);
    match (numbers.next(8), numbers.next(4)) {
        (Some(address), Some(key)) => Ok(RemoteMemory { address, bytes: size_bytes as u64, key: key as u32 }),
        _ => Err("the other end's acceptance is too short"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: VerbsRequest = VerbsRequest {
        kind: VerbsOperation::Write,
        shape: TrafficShape::PingPong,
        poll: CompletionWait::Events,
        size_bytes: 1 << 20,
        warm_up: 10,
        count: 1 << 27,
        window: 64,
        signal_every: 16,
        inline_bytes: None,
    };

    #[test]
    fn a_request_arrives_as_it_was_made() {
        for request in [
            REQUEST,
            VerbsRequest { kind: VerbsOperation::Read, shape: TrafficShape::Stream, inline_bytes: Some(0), ..REQUEST },
        ] {
            let memory = RemoteMemory { address: u64::MAX - 7, bytes: request.size_bytes as u64, key: 0xdead_beef };
            let mut data = request.request(memory);
            assert!(data.len() <= ib::CONNECT_DATA_BYTES_MAX && data.len() <= REQUEST_BYTES);
            // The connection manager pads it.
            data.resize(ib::CONNECT_DATA_BYTES_MAX, 0);
            assert_eq!(VerbsRequest::of_request(&data), Ok((request, memory)));
            let answer = acceptance(memory, "{}");
            assert_eq!(of_acceptance(&answer, request.size_bytes), Ok(memory));
            assert_eq!(answer.len(), 4 + 12 + 2);
        }
    }

    #[test]
    fn what_a_stranger_sends_is_refused() {
        let data = REQUEST.request(RemoteMemory { address: 1, bytes: 1, key: 1 });
        for length in 0..52 {
            assert!(VerbsRequest::of_request(&data[..length]).is_err(), "{length} bytes");
        }
        let beyond = [
            VerbsRequest { size_bytes: 0, ..REQUEST },
            VerbsRequest { window: 0, ..REQUEST },
            VerbsRequest { window: VERBS_WINDOW_MAX + 1, ..REQUEST },
            VerbsRequest { signal_every: 65, ..REQUEST },
            VerbsRequest { count: 0, ..REQUEST },
            VerbsRequest { warm_up: u64::MAX, ..REQUEST },
        ];
        for request in beyond {
            assert!(
                VerbsRequest::of_request(&request.request(RemoteMemory { address: 1, bytes: 1, key: 1 })).is_err(),
                "{request:?}"
            );
        }
        assert!(of_acceptance(b"hbv\x01short", 1).is_err() && of_acceptance(b"AMQP", 1).is_err());
    }
}
