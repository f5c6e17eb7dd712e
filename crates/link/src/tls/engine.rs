//! The engine: the TLS state machine of one connection, either role.
//!
//! Enters: received bytes, plain bytes to send.  Leaves: plain bytes, encrypted bytes, and how far the connection is.
//! Owns:   `rustls`'s state of the connection, nothing of its bytes.
//! Never:  touches a socket, keeps a byte: all buffers are its caller's.

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

pub(super) enum Engine {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// What one step came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It moved; another step may move more.
    Again,
    /// It needs more from the peer, or has nothing to do.
    Rest,
    /// The peer has ended its sending direction.
    Ended,
}

/// What is to be sent.
#[derive(Clone, Copy)]
pub(super) enum Say<'a> {
    /// Nothing: only what was received is looked at.
    Nothing,
    /// These bytes.
    Plain(&'a [u8]),
    /// The end of this sending direction.
    End,
}

/// One step: how many of the received bytes it used up, what it came to, and whether it said what it was to say.
pub(super) struct Stepped {
    pub used: usize,
    pub outcome: Result<Step, Error>,
    pub said: bool,
}

impl Engine {
    /// One step. Plain bytes go to `take`, encrypted ones behind `out`.
    pub fn step(
        &mut self,
        received: &mut [u8],
        say: Say<'_>,
        out: &mut Outgoing,
        take: &mut impl FnMut(&[u8]),
    ) -> Stepped {
        match self {
            Engine::Server(connection) => step(connection.process_tls_records(received), say, out, take),
            Engine::Client(connection) => step(connection.process_tls_records(received), say, out, take),
        }
    }

    /// What both roles have.
    pub fn state(&self) -> &CommonState {
        match self {
            Engine::Server(connection) => connection,
            Engine::Client(connection) => connection,
        }
    }
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    say: Say<'_>,
    out: &mut Outgoing,
    take: &mut impl FnMut(&[u8]),
) -> Stepped {
    let UnbufferedStatus { discard: mut used, state } = status;
    let mut said = false;
    let outcome = state.and_then(|state| match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                used += record.discard;
                take(record.payload);
            }
            Ok(Step::Again)
        }
        ConnectionState::EncodeTlsData(data) => encode(data, out).map(|()| Step::Again),
        ConnectionState::TransmitTlsData(data) => {
            // What was encoded lies in `out` already, before all that follows.
            data.done();
            Ok(Step::Again)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            said = !matches!(say, Say::Nothing);
            let written = match say {
                Say::Nothing => Ok(()),
                Say::Plain(bytes) => into_room(out, |room| traffic.encrypt(bytes, room)),
                Say::End => into_room(out, |room| traffic.queue_close_notify(room)),
            };
            written.map(|()| Step::Rest)
        }
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Ended),
        // Early data is never asked for, and of states that are not known nothing is expected.
        _ => Ok(Step::Rest),
    });
    Stepped { used, outcome, said }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Outgoing) -> Result<(), Error> {
    into_room(out, |room| {
        data.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => EncryptError::InsufficientSize(size),
            EncodeError::AlreadyEncoded => EncryptError::EncryptExhausted,
        })
    })
}

/// Writes behind what `out` holds, with as much room as it takes.
fn into_room(out: &mut Outgoing, mut write: impl FnMut(&mut [u8]) -> Result<usize, EncryptError>) -> Result<(), Error> {
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
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    filled: usize,
}

impl Outgoing {
    pub const fn new() -> Self {
        Outgoing { bytes: Vec::new(), filled: 0 }
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
