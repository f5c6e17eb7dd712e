//! A client by hand: one blocking socket and nothing else, so that ten thousand of them weigh little.
//!
//! Enters: methods and bytes.  Leaves: what the broker answers.
//! Owns:   one socket.
//! Never:  reads unless it is told to: it may be the client that never does.

use crate::Outcome;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::ChannelNumber;
use wire::frame::{self, FRAME_METHOD};
use wire::method::{channel, connection, queue};
use wire::{Method, PROTOCOL_HEADER, ShortStr, Table, TableRef, Value};

/// The longest wait for an answer: behind a million bindings it may take a while.
pub const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Bytes written at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A connection.
pub struct Peer {
    /// Its socket.
    pub stream: TcpStream,
    /// What was received and not understood yet.
    pub received: Vec<u8>,
}

impl Peer {
    /// Connects, logs in and opens the virtual host.
    pub fn open(address: SocketAddr, heartbeat_s: u16) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut peer = Peer { stream, received: Vec::new() };
        peer.stream.write_all(&PROTOCOL_HEADER)?;
        peer.expect(|method| matches!(method, Method::ConnectionStart(_)).then_some(()))?;
        let capabilities = Table::new()
            .with("connection.blocked", Value::Bool(true))?
            .with("consumer_cancel_notify", Value::Bool(true))?
            .with("basic.nack", Value::Bool(true))?
            .with("publisher_confirms", Value::Bool(true))?;
        let properties = Table::new()
            .with("product", Value::text("Harrier scale"))?
            .with("capabilities", Value::Table(capabilities))?
            .to_bytes();
        peer.send(
            ChannelNumber::CONNECTION,
            connection::StartOk {
                client_properties: TableRef::new(&properties),
                mechanism: ShortStr::literal("PLAIN"),
                response: b"\0guest\0guest",
                locale: ShortStr::literal("en_US"),
            },
        )?;
        let (channel_max, frame_max) = peer.expect(|method| match method {
            Method::ConnectionTune(tune) => Some((tune.channel_max, tune.frame_max)),
            _ => None,
        })?;
        peer.send(ChannelNumber::CONNECTION, connection::TuneOk { channel_max, frame_max, heartbeat: heartbeat_s })?;
        peer.send(ChannelNumber::CONNECTION, connection::Open { virtual_host: ShortStr::literal("/") })?;
        peer.expect(|method| matches!(method, Method::ConnectionOpenOk(_)).then_some(()))?;
        Ok(peer)
    }

    /// The same with channel 1 open.
    pub fn with_channel(address: SocketAddr, heartbeat_s: u16) -> Outcome<Self> {
        let mut peer = Self::open(address, heartbeat_s)?;
        peer.open_channel()?;
        Ok(peer)
    }

    /// Opens channel 1.
    pub fn open_channel(&mut self) -> Outcome<()> {
        self.send(ChannelNumber(1), channel::Open {})?;
        self.expect(|method| matches!(method, Method::ChannelOpenOk(_)).then_some(()))
    }

    /// Sends one method.
    pub fn send<'a>(&mut self, channel: ChannelNumber, method: impl Into<Method<'a>>) -> Outcome<()> {
        let mut frame = Vec::new();
        wire::encode_frame(channel, &method.into(), &mut frame);
        Ok(self.stream.write_all(&frame)?)
    }

    /// Sends many methods on channel 1 that nobody answers, in large pieces. `write` appends the next.
    pub fn send_many(&mut self, count: u64, mut write: impl FnMut(u64, &mut Vec<u8>)) -> Outcome<()> {
        let mut piece = Vec::with_capacity(PIECE_BYTES + 1024);
        for number in 0..count {
            write(number, &mut piece);
            if piece.len() >= PIECE_BYTES {
                self.stream.write_all(&piece)?;
                piece.clear();
            }
        }
        Ok(self.stream.write_all(&piece)?)
    }

    /// Reads until a method is what `wanted` looks for. A close is an error.
    pub fn expect<T>(&mut self, mut wanted: impl FnMut(&Method<'_>) -> Option<T>) -> Outcome<T> {
        loop {
            let mut rest = &self.received[..];
            let mut found = None;
            while let (None, Some((frame, taken))) = (&found, frame::split(rest, u32::MAX)?) {
                if frame.kind == FRAME_METHOD {
                    let method = Method::decode(frame.payload)?;
                    refuse_close(&method)?;
                    found = wanted(&method);
                }
                rest = &rest[taken..];
            }
            self.received = rest.to_vec();
            if let Some(found) = found {
                return Ok(found);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece)? {
                0 => return Err("the broker has closed the connection".into()),
                bytes => self.received.extend_from_slice(&piece[..bytes]),
            }
        }
    }

    /// Declares a queue; how many messages it has.
    pub fn declare(&mut self, name: &str, passive: bool) -> Outcome<u32> {
        Ok(self.declare_counted(name, passive)?.0)
    }

    /// How many messages and consumers a queue has.
    pub fn counts(&mut self, name: &str) -> Outcome<(u32, u32)> {
        self.declare_counted(name, true)
    }

    fn declare_counted(&mut self, name: &str, passive: bool) -> Outcome<(u32, u32)> {
        self.send(ChannelNumber(1), declare(name, passive, false)?)?;
        self.expect(|method| match method {
            Method::QueueDeclareOk(declared) => Some((declared.message_count, declared.consumer_count)),
            _ => None,
        })
    }

    /// Drops a queue's messages; how many.
    pub fn purge(&mut self, name: &str) -> Outcome<u32> {
        self.send(ChannelNumber(1), queue::Purge { queue: ShortStr::new(name.as_bytes())?, no_wait: false })?;
        self.expect(|method| match method {
            Method::QueuePurgeOk(purged) => Some(purged.message_count),
            _ => None,
        })
    }
}

/// An error if the broker has closed a channel or the connection.
pub fn refuse_close(method: &Method<'_>) -> Outcome<()> {
    let text = |text: ShortStr<'_>| String::from_utf8_lossy(text.as_bytes()).into_owned();
    match method {
        Method::ConnectionClose(close) => Err(format!("connection closed: {}", text(close.reply_text)).into()),
        Method::ChannelClose(close) => Err(format!("channel closed: {}", text(close.reply_text)).into()),
        _ => Ok(()),
    }
}

/// A declaration of a queue without arguments.
pub fn declare(name: &str, passive: bool, no_wait: bool) -> Outcome<queue::Declare<'_>> {
    let queue = ShortStr::new(name.as_bytes())?;
    let arguments = TableRef::EMPTY;
    Ok(queue::Declare { queue, passive, durable: false, exclusive: false, auto_delete: false, no_wait, arguments })
}
