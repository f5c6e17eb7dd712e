//! The TLS state machine of one connection, client or server. All buffers are the caller's.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

pub(super) enum TlsEngine {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// Whether the engine can continue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineProgress {
    /// It made progress; another step may make more.
    Progressed,
    /// It needs more bytes from the peer, or has nothing to do.
    Waiting,
    /// The peer has ended its sending direction.
    PeerClosed,
}

/// What a step is to encrypt.
#[derive(Clone, Copy)]
pub(super) enum EngineOutput<'a> {
    /// Nothing: the step only handles received bytes.
    Nothing,
    Plain(&'a [u8]),
    /// The end of this sending direction (close_notify).
    CloseNotify,
}

/// The result of a step: received bytes that it used up, its progress, and whether it wrote its output.
pub(super) struct EngineStep {
    pub used: usize,
    pub outcome: Result<EngineProgress, Error>,
    pub written: bool,
}

impl TlsEngine {
    /// One step. Decrypted bytes go to `take`, encrypted ones are appended to `out`.
    pub fn step(
        &mut self,
        received: &mut [u8],
        output: EngineOutput<'_>,
        out: &mut EncryptedBuffer,
        take: &mut impl FnMut(&[u8]),
    ) -> EngineStep {
        match self {
            TlsEngine::Server(connection) => step(connection.process_tls_records(received), output, out, take),
            TlsEngine::Client(connection) => step(connection.process_tls_records(received), output, out, take),
        }
    }

    /// The state that client and server have in common.
    pub fn state(&self) -> &CommonState {
        match self {
            TlsEngine::Server(connection) => connection,
            TlsEngine::Client(connection) => connection,
        }
    }
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    output: EngineOutput<'_>,
    out: &mut EncryptedBuffer,
    take: &mut impl FnMut(&[u8]),
) -> EngineStep {
    let UnbufferedStatus { discard: mut used, state } = status;
    let mut written = false;
    let outcome = state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                used += record.discard;
                take(record.payload);
            }
            Ok(EngineProgress::Progressed)
        }
        ConnectionState::EncodeTlsData(data) => encode(data, out).map(|()| EngineProgress::Progressed),
        ConnectionState::TransmitTlsData(data) => {
            // The encoded bytes are in `out` already.
            data.done();
            Ok(EngineProgress::Progressed)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            written = !matches!(output, EngineOutput::Nothing);
            let encoded = match output {
                EngineOutput::Nothing => Ok(()),
                EngineOutput::Plain(bytes) => write_growing(out, |room| traffic.encrypt(bytes, room)),
                EngineOutput::CloseNotify => write_growing(out, |room| traffic.queue_close_notify(room)),
            };
            encoded.map(|()| EngineProgress::Waiting)
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(EngineProgress::PeerClosed),
        // Early data is never requested, and unknown states need no action.
        _ => Ok(EngineProgress::Waiting),
    });
    EngineStep { used, outcome, written }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut EncryptedBuffer) -> Result<(), Error> {
    write_growing(out, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => EncryptError::InsufficientSize(size),
            EncodeError::AlreadyEncoded => EncryptError::EncryptExhausted,
        })
    })
}

/// Appends to `out`, growing it as needed.
fn write_growing(
    out: &mut EncryptedBuffer,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>,
) -> Result<(), Error> {
    loop {
        match write(&mut out.bytes[out.filled..]) {
            Ok(bytes) => {
                out.filled += bytes;
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(size)) if out.filled + size.required_size > out.bytes.len() => {
                out.bytes.resize(out.filled + size.required_size, 0);
            }
            Err(error) => return Err(Error::General(error.to_string())),
        }
    }
}

/// A buffer of encrypted bytes. It keeps its memory, so that it is zeroed once and not for each record.
#[derive(Default)]
pub(super) struct EncryptedBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl EncryptedBuffer {
    pub const fn new() -> Self {
        EncryptedBuffer { bytes: Vec::new(), filled: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    pub fn clear(&mut self) {
        self.filled = 0;
    }
}
