//! A link over TLS over TCP.
//!
//! The socket is read into one buffer per thread and decrypted there. A connection keeps only what is left: usually
//! less than a record, and nothing while it is idle. Bytes leave the sender's gather when the socket has taken them.

use super::certificate::Certificate;
use super::engine::{EncryptedBuffer, EngineOutput, EngineProgress, TlsEngine};
use super::parameters::TlsParameters;
use crate::limits::{
    TLS_FRUITLESS_DIVISOR, TLS_HANDSHAKE_BYTES_MAX, TLS_RECEIVE_BYTES, TLS_RECORD_BYTES_MAX, TLS_RECORD_EXTRA_BYTES,
    TLS_RECORD_PLAIN_BYTES, TLS_SEND_BYTES,
};
use crate::socket::SocketLink;
use crate::{AbortReason, Link, LinkCapabilities, LinkError, PeerAddress, ReceiveOutcome, SendOutcome, WaitFor};
use mio::{Registry, Token};
use slab::Gather;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Buffers that all TLS links of a thread share; they are empty between calls.
struct TlsBuffers {
    received: Vec<u8>,
    /// Small parts of a gather, joined into a record.
    joined: Vec<u8>,
    out: EncryptedBuffer,
}

thread_local! {
    static TLS_BUFFERS: RefCell<TlsBuffers> = const {
        RefCell::new(TlsBuffers { received: Vec::new(), joined: Vec::new(), out: EncryptedBuffer::new() })
    };
}

/// The phase of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TlsPhase {
    /// The handshake is in progress.
    Handshaking,
    /// Application data can be sent and received.
    Open,
    /// The connection was lost or aborted.
    Closed,
}

pub(crate) struct TlsLink {
    socket: SocketLink<TcpStream>,
    engine: TlsEngine,
    phase: TlsPhase,
    /// Received and not decrypted: usually an incomplete record.
    ciphertext: Vec<u8>,
    /// Decrypted bytes for which the owner's buffers had no room.
    plaintext: Vec<u8>,
    /// How much of `plaintext` the owner has read.
    plaintext_read: usize,
    /// Encrypted bytes that the socket has not taken.
    pending: Vec<u8>,
    /// How much of `pending` is sent.
    pending_sent: usize,
    /// How many bytes at the front of the sender's gather `pending` contains.
    pending_plain_bytes: usize,
    /// The last read brought little for its bytes: the next one is short, because each record takes a while.
    is_fruitless: bool,
    /// The peer has ended its sending direction.
    receiving_ended: bool,
    /// This end has ended its sending direction: only `pending` is still sent.
    sending_ended: bool,
    /// The socket's sending direction is shut down once `pending` is sent.
    shutdown_when_sent: bool,
    /// The error of a lost connection, until it is reported to the owner.
    failure: Option<LinkError>,
    certificate: Option<Certificate>,
}

/// The owner's two buffers for received bytes.
struct ReceiveBuffers<'a> {
    direct: &'a mut [u8],
    scratch: &'a mut [u8],
    filled: usize,
}

impl ReceiveBuffers<'_> {
    fn room(&self) -> usize {
        self.direct.len() + self.scratch.len() - self.filled
    }

    /// Copies what there is room for. Returns its length.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let first = bytes.len().min(self.direct.len().saturating_sub(self.filled));
        if first > 0 {
            self.direct[self.filled..self.filled + first].copy_from_slice(&bytes[..first]);
            self.filled += first;
        }
        let rest = &bytes[first..];
        let second = rest.len().min(self.room());
        if second > 0 {
            let at = self.filled - self.direct.len();
            self.scratch[at..at + second].copy_from_slice(&rest[..second]);
            self.filled += second;
        }
        first + second
    }
}

impl TlsLink {
    pub(super) fn new(socket: SocketLink<TcpStream>, engine: TlsEngine) -> Self {
        TlsLink {
            socket,
            engine,
            phase: TlsPhase::Handshaking,
            ciphertext: Vec::new(),
            plaintext: Vec::new(),
            plaintext_read: 0,
            pending: Vec::new(),
            pending_sent: 0,
            pending_plain_bytes: 0,
            is_fruitless: false,
            receiving_ended: false,
            sending_ended: false,
            shutdown_when_sent: false,
            failure: None,
            certificate: None,
        }
    }

    /// Makes the handshake; blocks for up to `timeout`.
    pub fn handshake(&mut self, timeout: Duration) -> io::Result<()> {
        let until = now() + timeout;
        TLS_BUFFERS.with_borrow_mut(|buffers| {
            self.decrypt(&mut [], &mut ReceiveBuffers { direct: &mut [], scratch: &mut [], filled: 0 }, buffers)
        })?;
        while self.phase == TlsPhase::Handshaking {
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the TLS handshake took too long"));
            }
            self.socket.wait(WaitFor::Readable, Some(left))?;
            self.read_socket(&mut ReceiveBuffers { direct: &mut [], scratch: &mut [], filled: 0 })?;
            if self.receiving_ended && self.phase == TlsPhase::Handshaking {
                return Err(io::Error::new(ErrorKind::UnexpectedEof, "the peer ended the TLS handshake"));
            }
        }
        self.failure.take().map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn has_plaintext(&self) -> bool {
        self.plaintext_read < self.plaintext.len()
    }

    /// Copies bytes that were decrypted before to the owner.
    fn drain_plaintext(&mut self, target: &mut ReceiveBuffers<'_>) {
        self.plaintext_read += target.put(&self.plaintext[self.plaintext_read..]);
        if !self.has_plaintext() {
            self.plaintext = Vec::new();
            self.plaintext_read = 0;
        }
    }

    /// Reads the socket once and decrypts. Returns whether the socket is drained.
    fn read_socket(&mut self, target: &mut ReceiveBuffers<'_>) -> Result<bool, LinkError> {
        TLS_BUFFERS.with_borrow_mut(|buffers| {
            let mut buffer = std::mem::take(&mut buffers.received);
            if buffer.is_empty() {
                buffer = vec![0; TLS_RECEIVE_BYTES];
            }
            let outcome = self.read_socket_into(&mut buffer, target, buffers);
            buffers.received = buffer;
            outcome
        })
    }

    fn read_socket_into(
        &mut self,
        buffer: &mut [u8],
        target: &mut ReceiveBuffers<'_>,
        buffers: &mut TlsBuffers,
    ) -> Result<bool, LinkError> {
        let have = self.ciphertext.len();
        buffer[..have].copy_from_slice(&self.ciphertext);
        self.ciphertext = Vec::new();
        // No more than there is room for, so that little has to be kept, but at least one record.
        let records = target.room() / TLS_RECORD_PLAIN_BYTES + 1;
        let wanted = (target.room() + records * TLS_RECORD_EXTRA_BYTES).max(TLS_RECORD_BYTES_MAX);
        let wanted = if self.is_fruitless { TLS_RECORD_BYTES_MAX } else { wanted };
        let wanted = wanted.saturating_sub(have).max(TLS_RECORD_BYTES_MAX).min(buffer.len() - have);
        let (bytes, drained, ended) = match self.socket.receive(&mut [], &mut buffer[have..have + wanted]) {
            Ok(ReceiveOutcome::Bytes { bytes, drained }) => (bytes, drained, false),
            Ok(ReceiveOutcome::Idle) => (0, true, false),
            Ok(ReceiveOutcome::Closed) if self.phase == TlsPhase::Handshaking => {
                return Err(self.fail(LinkError::Tls("the peer ended the handshake".into())));
            }
            Ok(ReceiveOutcome::Closed) => (0, true, true),
            Err(error) => return Err(self.fail(error)),
        };
        let end = have + bytes;
        let (used, stopped) = self.decrypt(&mut buffer[..end], target, buffers)?;
        self.is_fruitless = target.filled < used / TLS_FRUITLESS_DIVISOR;
        let left = &buffer[used..end];
        let most = if self.phase == TlsPhase::Handshaking { TLS_HANDSHAKE_BYTES_MAX } else { buffer.len() - 1 };
        if left.len() > most {
            return Err(self.fail(LinkError::Tls("the handshake is too long".into())));
        }
        // AMQP has a close of its own, so truncation is detected above: an end of the socket without close_notify is an
        // ordinary end of the stream.
        self.receiving_ended |= ended && !stopped;
        if !self.receiving_ended {
            self.ciphertext = left.to_vec();
        }
        Ok(drained && !stopped)
    }

    /// Decrypts records while there is room for their content. Returns how many received bytes are used up, and whether
    /// it stopped for lack of room.
    fn decrypt(
        &mut self,
        received: &mut [u8],
        target: &mut ReceiveBuffers<'_>,
        buffers: &mut TlsBuffers,
    ) -> Result<(usize, bool), LinkError> {
        let (mut used, mut stopped) = (0, false);
        buffers.out.clear();
        let without_room = target.room() == 0;
        let failed = loop {
            // A caller without room wants one record decrypted and kept, to learn whether there is any.
            if self.has_plaintext() || (target.room() == 0 && !without_room) {
                stopped = true;
                break None;
            }
            let plain = &mut self.plaintext;
            let step = self.engine.step(&mut received[used..], EngineOutput::Nothing, &mut buffers.out, &mut |bytes| {
                let taken = target.put(bytes);
                plain.extend_from_slice(&bytes[taken..]);
            });
            used += step.used;
            match step.outcome {
                Ok(EngineProgress::Progressed) => {}
                Ok(EngineProgress::Waiting) => break None,
                Ok(EngineProgress::PeerClosed) => {
                    self.receiving_ended = true;
                    break None;
                }
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = failed {
            let why = self.reason(&error, received);
            return Err(self.send_alert(why, &mut received[used..], &mut buffers.out));
        }
        if self.phase == TlsPhase::Handshaking && !self.engine.state().is_handshaking() {
            self.phase = TlsPhase::Open;
            let leaf = self.engine.state().peer_certificates().and_then(<[_]>::first);
            self.certificate = leaf.map(|leaf| Certificate::new(leaf.to_vec()));
        }
        if !buffers.out.bytes().is_empty() {
            self.queue_encrypted(&buffers.out);
            match self.flush_pending() {
                // A peer that has stopped reading may still have sent something.
                Ok(_) | Err(LinkError::Closed) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((used, stopped))
    }

    fn reason(&self, error: &rustls::Error, received: &[u8]) -> String {
        let is_tls = matches!(received, [20..=24, 3, ..] | []);
        match error {
            rustls::Error::InvalidMessage(_) if self.phase == TlsPhase::Handshaking && !is_tls => {
                let first = &received[..received.len().min(8)];
                format!("the peer does not speak TLS: it began with \"{}\"", first.escape_ascii())
            }
            error => error.to_string(),
        }
    }

    /// The peer has violated TLS: sends the alert, as far as the socket takes it, and ends the link.
    fn send_alert(&mut self, why: String, received: &mut [u8], out: &mut EncryptedBuffer) -> LinkError {
        // The alert is queued in the engine.
        let mut used = 0;
        while self.engine.state().wants_write() {
            let step = self.engine.step(&mut received[used..], EngineOutput::Nothing, out, &mut |_| ());
            used += step.used;
        }
        self.queue_encrypted(out);
        let told = self.flush_pending();
        self.socket.close_sending();
        self.fail(told.err().unwrap_or_else(|| LinkError::Tls(why.into())))
    }

    fn fail(&mut self, error: LinkError) -> LinkError {
        self.phase = TlsPhase::Closed;
        self.receiving_ended = true;
        self.sending_ended = true;
        self.discard_buffers();
        error
    }

    fn discard_buffers(&mut self) {
        (self.ciphertext, self.plaintext, self.pending) = (Vec::new(), Vec::new(), Vec::new());
        (self.plaintext_read, self.pending_sent, self.pending_plain_bytes) = (0, 0, 0);
    }

    /// Appends encrypted bytes to `pending`.
    fn queue_encrypted(&mut self, out: &EncryptedBuffer) {
        self.pending.extend_from_slice(out.bytes());
    }

    /// Sends `pending`. Returns whether all of it was sent.
    fn flush_pending(&mut self) -> Result<bool, LinkError> {
        while self.pending_sent < self.pending.len() {
            match self.socket.write(&self.pending[self.pending_sent..]) {
                Ok(Some(bytes)) => self.pending_sent += bytes,
                Ok(None) => return Ok(false),
                Err(error) => return Err(self.on_send_error(error)),
            }
        }
        self.pending = Vec::new();
        self.pending_sent = 0;
        if std::mem::take(&mut self.shutdown_when_sent) {
            self.socket.close_sending();
        }
        Ok(true)
    }

    /// The socket takes no more bytes; received ones can still be read.
    fn on_send_error(&mut self, error: LinkError) -> LinkError {
        self.sending_ended = true;
        (self.pending, self.pending_sent, self.pending_plain_bytes) = (Vec::new(), 0, 0);
        if error.is_lost() { self.fail(error) } else { error }
    }

    /// Encrypts the front of a gather, for one write to the socket. Returns the number of plain bytes.
    fn encrypt(&mut self, from: &Gather, buffers: &mut TlsBuffers) -> Result<usize, LinkError> {
        let TlsBuffers { joined, out, .. } = buffers;
        out.clear();
        joined.clear();
        let mut bytes = 0;
        for mut part in from.parts() {
            while !part.is_empty() && bytes < TLS_SEND_BYTES {
                // Large parts are encrypted in place, small ones are joined, because each record has a fixed cost.
                if joined.is_empty() && part.len() >= TLS_RECORD_PLAIN_BYTES {
                    let whole = part.len().min(TLS_SEND_BYTES - bytes);
                    let whole = (whole - whole % TLS_RECORD_PLAIN_BYTES).max(TLS_RECORD_PLAIN_BYTES);
                    self.encrypt_output(EngineOutput::Plain(&part[..whole]), out)?;
                    part = &part[whole..];
                    bytes += whole;
                    continue;
                }
                if part.len() >= TLS_RECORD_PLAIN_BYTES {
                    self.encrypt_output(EngineOutput::Plain(joined), out)?;
                    joined.clear();
                    continue;
                }
                let some = part.len().min(TLS_RECORD_PLAIN_BYTES - joined.len());
                joined.extend_from_slice(&part[..some]);
                part = &part[some..];
                bytes += some;
                if joined.len() == TLS_RECORD_PLAIN_BYTES {
                    self.encrypt_output(EngineOutput::Plain(joined), out)?;
                    joined.clear();
                }
            }
            if bytes >= TLS_SEND_BYTES {
                break;
            }
        }
        if !joined.is_empty() {
            self.encrypt_output(EngineOutput::Plain(joined), out)?;
        }
        Ok(bytes)
    }

    fn encrypt_output(&mut self, output: EngineOutput<'_>, out: &mut EncryptedBuffer) -> Result<(), LinkError> {
        loop {
            let plain = &mut self.plaintext;
            // The engine expects the unused bytes again with every step.
            let step = self.engine.step(&mut self.ciphertext, output, out, &mut |bytes| plain.extend_from_slice(bytes));
            self.ciphertext.drain(..step.used);
            match step.outcome {
                Ok(_) if step.written => return Ok(()),
                Ok(EngineProgress::Progressed) => {}
                Ok(EngineProgress::PeerClosed) => self.receiving_ended = true,
                Ok(EngineProgress::Waiting) => return Err(LinkError::Closed),
                Err(error) => return Err(self.fail(LinkError::Tls(error.to_string().into()))),
            }
        }
    }

    fn send_encrypted(&mut self, from: &mut Gather, buffers: &mut TlsBuffers) -> Result<bool, LinkError> {
        let bytes = self.encrypt(from, buffers)?;
        let out = buffers.out.bytes();
        let mut sent = 0;
        while sent < out.len() {
            match self.socket.write(&out[sent..]) {
                Ok(Some(bytes)) => sent += bytes,
                Ok(None) => {
                    self.pending.extend_from_slice(&out[sent..]);
                    self.pending_plain_bytes = bytes;
                    return Ok(false);
                }
                Err(error) => return Err(self.on_send_error(error)),
            }
        }
        from.consume(bytes);
        Ok(true)
    }
}

impl Link for TlsLink {
    fn receive(&mut self, direct: &mut [u8], scratch: &mut [u8]) -> Result<ReceiveOutcome, LinkError> {
        let mut target = ReceiveBuffers { direct, scratch, filled: 0 };
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.has_plaintext() && target.room() > 0 {
            self.drain_plaintext(&mut target);
            return Ok(ReceiveOutcome::Bytes { bytes: target.filled, drained: false });
        }
        if self.receiving_ended {
            return Ok(ReceiveOutcome::Closed);
        }
        if target.room() == 0 {
            return Ok(ReceiveOutcome::Bytes { bytes: 0, drained: false });
        }
        let drained = self.read_socket(&mut target)?;
        match target.filled {
            0 if self.receiving_ended => Ok(ReceiveOutcome::Closed),
            0 if drained => Ok(ReceiveOutcome::Idle),
            // Of records that bring nothing there may be no end: the caller asks again, after others.
            bytes => {
                let drained = drained && target.room() > 0 && !self.receiving_ended && !self.has_plaintext();
                Ok(ReceiveOutcome::Bytes { bytes, drained })
            }
        }
    }

    fn send(&mut self, from: &mut Gather) -> Result<SendOutcome, LinkError> {
        if self.sending_ended {
            // After close_notify there may still be pending bytes.
            if self.phase == TlsPhase::Open && from.is_empty() && self.flush_pending()? {
                return Ok(SendOutcome::Drained);
            }
            return Err(LinkError::Closed);
        }
        loop {
            if !self.flush_pending()? || (self.phase == TlsPhase::Handshaking && !from.is_empty()) {
                return Ok(if from.is_empty() { SendOutcome::Drained } else { SendOutcome::Blocked });
            }
            let owed = self.pending_plain_bytes.min(from.bytes());
            from.consume(owed);
            self.pending_plain_bytes -= owed;
            if from.is_empty() {
                return Ok(SendOutcome::Drained);
            }
            if !TLS_BUFFERS.with_borrow_mut(|buffers| self.send_encrypted(from, buffers))? {
                return Ok(SendOutcome::Blocked);
            }
        }
    }

    fn abort(&mut self, why: AbortReason) {
        self.socket.abort(why);
        self.phase = TlsPhase::Closed;
        self.receiving_ended = true;
        self.sending_ended = true;
        self.failure = None;
        self.discard_buffers();
    }

    fn close_sending(&mut self) {
        if std::mem::replace(&mut self.sending_ended, true) {
            return;
        }
        let written = TLS_BUFFERS.with_borrow_mut(|buffers| {
            buffers.out.clear();
            if self.phase == TlsPhase::Open {
                self.encrypt_output(EngineOutput::CloseNotify, &mut buffers.out)?;
                self.queue_encrypted(&buffers.out);
            }
            self.shutdown_when_sent = true;
            self.flush_pending()
        });
        if let Err(error) = written {
            self.failure = error.is_lost().then_some(error);
        }
    }

    fn has_pending_output(&self) -> bool {
        // Pending bytes of a gather are sent together with it.
        !self.pending.is_empty() && self.pending_plain_bytes == 0
    }

    fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    fn tls_parameters(&self) -> Option<TlsParameters> {
        TlsParameters::of(self.engine.state())
    }

    fn capabilities(&self) -> LinkCapabilities {
        LinkCapabilities { name: "tls", ..self.socket.capabilities() }
    }

    fn peer(&self) -> &PeerAddress {
        self.socket.peer()
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.register(registry, token)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket.deregister(registry)
    }

    fn wait(&mut self, what: WaitFor, timeout: Option<Duration>) -> Result<bool, LinkError> {
        let until = timeout.map(|timeout| now() + timeout);
        loop {
            let readable = self.has_plaintext() || self.receiving_ended || self.failure.is_some();
            if (what.wants_readable() && readable) || (what.wants_writable() && self.sending_ended) {
                return Ok(true);
            }
            let left = until.map(|until| until.saturating_duration_since(now()));
            let waited = if self.pending.is_empty() { what } else { WaitFor::Either };
            if !self.socket.wait(waited, left)? {
                return Ok(false);
            }
            if what == WaitFor::Writable {
                return self.socket.wait(what, left);
            }
            // Not every byte of the socket is application data, so it is decrypted first.
            let nowhere = &mut ReceiveBuffers { direct: &mut [], scratch: &mut [], filled: 0 };
            if let Err(error) = self.flush_pending().and_then(|_| self.read_socket(nowhere)) {
                self.failure = Some(error);
            }
            if what == WaitFor::Either && self.socket.wait(WaitFor::Writable, Some(Duration::ZERO))? {
                return Ok(true);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "who waits for bytes that may hold none must know for how long")]
fn now() -> Instant {
    Instant::now()
}
