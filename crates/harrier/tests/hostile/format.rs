//! The wire format of docs/protocol/rdma.md, implemented independently for peers that lie: it shares no code with the
//! crate that it tests, and validates nothing that it writes.

pub const DATA: u8 = 0x03;
pub const CREDIT: u8 = 0x05;
pub const RENDEZVOUS: u8 = 0x06;
pub const DONE: u8 = 0x09;
pub const PING: u8 = 0x0A;
pub const PONG: u8 = 0x0C;
pub const CLOSE: u8 = 0x0F;
pub const HEADER_BYTES: usize = 8;

/// The private data of a request or an acceptance.
#[derive(Clone, Debug)]
pub struct PeerHello {
    pub magic: [u8; 4],
    pub versions: [u8; 2],
    pub flags: u16,
    pub receive_buffer_bytes: u32,
    pub credits: u16,
    pub rendezvous_max: u16,
    pub threshold_bytes: u32,
    pub reads_issued: u8,
    pub reads_answered: u8,
    pub token: [u8; 16],
    /// How many of these bytes are sent.
    pub sent_bytes: usize,
}

impl Default for PeerHello {
    fn default() -> Self {
        PeerHello {
            magic: *b"HRDM",
            versions: [1, 1],
            flags: 0,
            receive_buffer_bytes: 4_096,
            credits: 16,
            rendezvous_max: 8,
            threshold_bytes: 16_384,
            reads_issued: 1,
            reads_answered: 4,
            token: [0; 16],
            sent_bytes: 40,
        }
    }
}

impl PeerHello {
    pub fn with_token(token: [u8; 16]) -> Self {
        PeerHello { flags: 1, token, ..PeerHello::default() }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.versions);
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.receive_buffer_bytes.to_be_bytes());
        bytes.extend(self.credits.to_be_bytes());
        bytes.extend(self.rendezvous_max.to_be_bytes());
        bytes.extend(self.threshold_bytes.to_be_bytes());
        bytes.extend([self.reads_issued, self.reads_answered, 0, 0]);
        bytes.extend(self.token);
        bytes.truncate(self.sent_bytes);
        bytes
    }
}

/// The header of a message.
pub fn header(payload_bytes: u32, kind: u8, returned: u16, sequence: u16) -> [u8; HEADER_BYTES] {
    let [_, a, b, c] = payload_bytes.to_be_bytes();
    let ([d, e], [f, g]) = (returned.to_be_bytes(), sequence.to_be_bytes());
    [a, b, c, kind, d, e, f, g]
}

/// A received message.
#[derive(Clone, Debug)]
pub struct WireMessage {
    pub kind: u8,
    pub payload: Vec<u8>,
}

impl WireMessage {
    /// What a broker sends must be valid.
    pub fn read(bytes: &[u8], sequence: u16) -> Self {
        let head: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().expect("a message has a header");
        let payload = bytes[HEADER_BYTES..].to_vec();
        let returned = u16::from_be_bytes([head[4], head[5]]);
        assert_eq!(head, header(payload.len() as u32, head[3], returned, sequence), "an honest header");
        WireMessage { kind: head[3], payload }
    }
}

/// A descriptor of stream bytes in the sender's memory.
#[derive(Clone, Copy, Debug)]
pub struct RendezvousOffer {
    pub number: u32,
    pub bytes: u32,
    pub address: u64,
    pub key: u32,
}

impl RendezvousOffer {
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = self.number.to_be_bytes().to_vec();
        bytes.extend(self.bytes.to_be_bytes());
        bytes.extend(self.address.to_be_bytes());
        bytes.extend(self.key.to_be_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    pub fn read(payload: &[u8]) -> Self {
        assert_eq!(payload.len(), 24, "a descriptor");
        let u32_at = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        let address = u64::from_be_bytes(payload[8..16].try_into().expect("eight bytes"));
        RendezvousOffer { number: u32_at(0), bytes: u32_at(4), address, key: u32_at(16) }
    }
}
