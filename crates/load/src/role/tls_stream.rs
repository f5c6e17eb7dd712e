//! A TLS stream over rustls' unbuffered connections: the floor under a broker's TLS links. Sessions are not resumed.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};

use crate::limits::{RAW_BUFFER_BYTES, TLS_RECORD_BYTES_MAX, TLS_RECORD_PLAIN_BYTES};
use harness::role_tasks::TlsFiles;

pub(crate) const HOST: &str = "127.0.0.1";

/// The only cipher suite, which is also the broker's first choice: figures of different ciphers do not compare.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// The TLS configuration of the relay.
pub(super) fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>> {
    let certificate = CertificateDer::from_pem_file(&files.certificate).map_err(Error::other)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(Error::other)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::other)?;
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate], key);
    let mut config = config.map_err(Error::other)?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

enum TlsConnection {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

/// The result of one step of the TLS state machine.
#[derive(PartialEq, Eq)]
enum TlsProgress {
    Again,
    /// Blocked until more data is received.
    Blocked,
    /// The plaintext is encrypted.
    Encrypted,
    Ended,
}

/// Encrypted output.
#[derive(Default)]
struct CiphertextBuffer {
    bytes: Vec<u8>,
    sent: usize,
    filled: usize,
}

impl CiphertextBuffer {
    /// Appends to the buffer; `write` reports how much space it needs.
    fn put(&mut self, mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, EncodeFailure>) -> Result<()> {
        loop {
            match write(&mut self.bytes[self.filled..]) {
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(());
                }
                Err(EncodeFailure::BufferTooSmall(bytes)) => self.bytes.resize(self.filled + bytes, 0),
                Err(EncodeFailure::Other(why)) => return Err(Error::other(why)),
            }
        }
    }
}

enum EncodeFailure {
    BufferTooSmall(usize),
    Other(String),
}

impl From<EncryptError> for EncodeFailure {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => EncodeFailure::BufferTooSmall(size.required_size),
            other => EncodeFailure::Other(other.to_string()),
        }
    }
}

impl From<EncodeError> for EncodeFailure {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => EncodeFailure::BufferTooSmall(size.required_size),
            other => EncodeFailure::Other(other.to_string()),
        }
    }
}

/// A TLS stream over a socket. The handshake takes place with the first read or write.
pub(super) struct TlsStream<S> {
    socket: S,
    tls: TlsConnection,
    /// Received data; `used..have` is not decrypted yet.
    received: Vec<u8>,
    used: usize,
    have: usize,
    /// Decrypted data that did not fit into the caller's buffer.
    rest: Vec<u8>,
    rest_taken: usize,
    ciphertext: CiphertextBuffer,
    ended: bool,
}

impl<S: Read + Write> TlsStream<S> {
    /// The server side.
    pub(super) fn server(socket: S, config: &Arc<ServerConfig>) -> Result<Self> {
        let connection = UnbufferedServerConnection::new(Arc::clone(config)).map_err(Error::other)?;
        Ok(Self::new(socket, TlsConnection::Server(Box::new(connection))))
    }

    /// The client side, which trusts this certificate.
    pub(super) fn client(socket: S, certificate: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate).map_err(Error::other)?).map_err(Error::other)?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(Error::other)?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(HOST).map_err(Error::other)?;
        let connection = UnbufferedClientConnection::new(Arc::new(config), name).map_err(Error::other)?;
        Ok(Self::new(socket, TlsConnection::Client(Box::new(connection))))
    }

    fn new(socket: S, tls: TlsConnection) -> Self {
        Self {
            socket,
            tls,
            received: vec![0; RAW_BUFFER_BYTES + TLS_RECORD_BYTES_MAX],
            used: 0,
            have: 0,
            rest: Vec::new(),
            rest_taken: 0,
            ciphertext: CiphertextBuffer::default(),
            ended: false,
        }
    }

    pub(super) fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// One step of the state machine; decrypted bytes are passed to `take`.
    fn step(&mut self, plaintext: Option<&[u8]>, mut take: impl FnMut(&[u8])) -> Result<TlsProgress> {
        let received = &mut self.received[self.used..self.have];
        let (used, step) = match &mut self.tls {
            TlsConnection::Server(tls) => {
                step(tls.process_tls_records(received), plaintext, &mut self.ciphertext, &mut take)
            }
            TlsConnection::Client(tls) => {
                step(tls.process_tls_records(received), plaintext, &mut self.ciphertext, &mut take)
            }
        }?;
        self.used += used;
        self.ended |= step == TlsProgress::Ended;
        Ok(step)
    }

    /// Receives from the socket.
    fn receive(&mut self) -> Result<()> {
        self.received.copy_within(self.used..self.have, 0);
        (self.have, self.used) = (self.have - self.used, 0);
        match self.socket.read(&mut self.received[self.have..])? {
            0 => self.ended = true,
            bytes => self.have += bytes,
        }
        Ok(())
    }

    /// Sends encrypted output as far as the socket accepts it.
    pub(super) fn flush(&mut self) -> Result<()> {
        let CiphertextBuffer { bytes, sent, filled } = &mut self.ciphertext;
        while sent < filled {
            *sent += self.socket.write(&bytes[*sent..*filled])?;
        }
        (*sent, *filled) = (0, 0);
        Ok(())
    }

    /// The same, but a full socket is not an error.
    fn flush_some(&mut self) -> Result<()> {
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Reads; zero bytes mean the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            if self.rest_taken < self.rest.len() {
                let bytes = into.len().min(self.rest.len() - self.rest_taken);
                into[..bytes].copy_from_slice(&self.rest[self.rest_taken..self.rest_taken + bytes]);
                self.rest_taken += bytes;
                return Ok(bytes);
            }
            let (mut rest, mut filled) = (std::mem::take(&mut self.rest), 0);
            rest.clear();
            self.rest_taken = 0;
            while filled == 0 || into.len() - filled >= TLS_RECORD_PLAIN_BYTES {
                let step = self.step(None, |plain| {
                    let bytes = plain.len().min(into.len() - filled);
                    into[filled..filled + bytes].copy_from_slice(&plain[..bytes]);
                    filled += bytes;
                    rest.extend_from_slice(&plain[bytes..]);
                })?;
                if step != TlsProgress::Again {
                    break;
                }
            }
            self.rest = rest;
            self.flush_some()?;
            if filled > 0 || self.ended {
                return Ok(filled);
            }
            self.receive()?;
        }
    }

    /// Encrypts all of it, and sends as far as the socket accepts it.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.flush()?;
        loop {
            // Plaintext received meanwhile waits for the next read.
            let (mut rest, taken) = (std::mem::take(&mut self.rest), std::mem::take(&mut self.rest_taken));
            rest.drain(..taken);
            let step = self.step(Some(bytes), |plain| rest.extend_from_slice(plain));
            self.rest = rest;
            match step? {
                TlsProgress::Encrypted => {
                    self.flush_some()?;
                    return Ok(bytes.len());
                }
                TlsProgress::Again => {}
                TlsProgress::Blocked => {
                    self.flush_some()?;
                    self.receive()?;
                }
                TlsProgress::Ended => return Err(ErrorKind::BrokenPipe.into()),
            }
            if self.ended {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
    }
}

fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plaintext: Option<&[u8]>,
    sealed: &mut CiphertextBuffer,
    take: &mut impl FnMut(&[u8]),
) -> Result<(usize, TlsProgress)> {
    let UnbufferedStatus { discard: mut used, state } = status;
    let step = match state.map_err(Error::other)? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record.map_err(Error::other)?;
                used += record.discard;
                take(record.payload);
            }
            TlsProgress::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            sealed.put(|room| Ok(data.encode(room)?))?;
            TlsProgress::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            // It is in `ciphertext`, before everything that follows.
            data.done();
            TlsProgress::Again
        }
        ConnectionState::WriteTraffic(mut traffic) => match plaintext {
            Some(bytes) => {
                sealed.put(|room| Ok(traffic.encrypt(bytes, room)?))?;
                TlsProgress::Encrypted
            }
            None => TlsProgress::Blocked,
        },
        ConnectionState::PeerClosed | ConnectionState::Closed => TlsProgress::Ended,
        _ => TlsProgress::Blocked,
    };
    Ok((used, step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::TemporaryCertificate;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn bytes_arrive_as_they_left_whatever_the_pieces() {
        let certificate = TemporaryCertificate::make().expect("a folder for it");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let config = server_config(certificate.files()).expect("sound files");
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let expect = sent.clone();
        let server = std::thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a client");
            let mut secured = TlsStream::server(socket, &config).expect("a connection");
            let (mut got, mut buffer) = (Vec::new(), vec![0; 100_000]);
            for room in [1, 7, 20_000, 100_000].into_iter().cycle() {
                match secured.read(&mut buffer[..room]).expect("whole records") {
                    0 => break,
                    bytes => got.extend_from_slice(&buffer[..bytes]),
                }
                if got.len() >= expect.len() {
                    break;
                }
            }
            assert!(got == expect, "{} bytes", got.len());
            assert_eq!(secured.write(b"done").expect("open"), 4);
        });
        let socket = TcpStream::connect(address).expect("it listens");
        let mut secured = TlsStream::client(socket, &certificate.files().certificate).expect("a connection");
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let bytes = secured.write(&rest[..rest.len().min(77_777)]).expect("open");
            rest = &rest[bytes..];
        }
        let mut answer = [0; 4];
        assert_eq!(secured.read(&mut answer).expect("an answer"), 4);
        assert_eq!(&answer, b"done");
        server.join().expect("the relay's end is content");
    }
}
