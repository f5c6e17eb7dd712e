//! The engine: the TLS state machine of one connection, either role.
//!
//! Enters: received bytes, plain bytes to send.  Leaves: plain bytes, encrypted bytes, and how far the connection is.
//! Owns:   `rustls`'s state of the connection, nothing of its bytes.
//! Never:  touches a socket, keeps a byte: all buffers are its caller's.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

pub(super) enum TlsEngine {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// What one step came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineProgress {
    /// It moved; another step may move more.
    Progressed,
    /// It needs more from the peer, or has nothing to do.
    Waiting,
    /// The peer has ended its sending direction.
    PeerClosed,
}

/// What is to be sent.
#[derive(Clone, Copy)]
pub(super) enum EngineOutput<'a> {
    /// Nothing: only what was received is looked at.
    Nothing,
    /// These bytes.
    Plain(&'a [u8]),
    /// The end of this sending direction.
    CloseNotify,
}

/// One step: how many of the received bytes it used up, what it came to, and whether it said what it was to say.
pub(super) struct EngineStep {
    pub used: usize,
    pub outcome: Result<EngineProgress, Error>,
    pub written: bool,
}

impl TlsEngine {
    /// One step. Plain bytes go to `take`, encrypted ones behind `out`.
    pub fn step(
        &mut self,
        received: &mut [u8],
        say: EngineOutput<'_>,
        out: &mut EncryptedBuffer,
        take: &mut impl FnMut(&[u8]),
    ) -> EngineStep {
        match self {
            TlsEngine::Server(connection) => step(connection.process_tls_records(received), say, out, take),
            TlsEngine::Client(connection) => step(connection.process_tls_records(received), say, out, take),
        }
    }

    /// What both roles have.
    pub fn state(&self) -> &CommonState {
        match self {
            TlsEngine::Server(connection) => connection,
            TlsEngine::Client(connection) => connection,
        }
    }
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    say: EngineOutput<'_>,
    out: &mut EncryptedBuffer,
    take: &mut impl FnMut(&[u8]),
) -> EngineStep {
    let UnbufferedStatus { discard: mut used, state } = status;
    let mut said = false;
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
            // What was encoded lies in `out` already, before all that follows.
            data.done();
            Ok(EngineProgress::Progressed)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            said = !matches!(say, EngineOutput::Nothing);
            let written = match say {
                EngineOutput::Nothing => Ok(()),
                EngineOutput::Plain(bytes) => write_growing(out, |room| traffic.encrypt(bytes, room)),
                EngineOutput::CloseNotify => write_growing(out, |room| traffic.queue_close_notify(room)),
            };
            written.map(|()| EngineProgress::Waiting)
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(EngineProgress::PeerClosed),
        // Early data is never asked for, and of states that are not known nothing is expected.
        _ => Ok(EngineProgress::Waiting),
    });
    EngineStep { used, outcome, written: said }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut EncryptedBuffer) -> Result<(), Error> {
    write_growing(out, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => EncryptError::InsufficientSize(size),
            EncodeError::AlreadyEncoded => EncryptError::EncryptExhausted,
        })
    })
}

/// Writes behind what `out` holds, with as much room as it takes.
fn write_growing(out: &mut EncryptedBuffer, mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>) -> Result<(), Error> {
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

/// Encrypted bytes on their way out. Its memory stays, so that it is made ready once and not for each record.
#[derive(Default)]
pub(super) struct EncryptedBuffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl EncryptedBuffer {
    pub const fn new() -> Self {
        EncryptedBuffer { bytes: Vec::new(), filled: 0 }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}
