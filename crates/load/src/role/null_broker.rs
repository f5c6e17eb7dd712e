//! The null broker: discards published messages and sends precomputed deliveries, both at the lowest possible cost.
//!
//! It neither routes nor decodes messages, so the measured rate is the load generator's own ceiling.

mod encoded_deliveries;
mod publish_skimmer;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use nix::sys::socket::{MsgFlags, recv};
use session::{Event, Greeting, Inbound, Outbound, SessionLimits};
use slab::Pool;
use wire::frame::HEARTBEAT_FRAME;
use wire::method::{basic, exchange, queue};
use wire::{Method, ShortStr, Table, Value};

use self::encoded_deliveries::{DeliveryHeads, EncodedDeliveries};
use self::publish_skimmer::{PublishSkimmer, SkimResult};
use super::stand_in;
use crate::limits::{NULL_BUFFER_BYTES, NULL_HEADER_BYTES, NULL_HEARTBEAT_WAIT};
use harness::command_reader::CommandReader;
use harness::role_protocol::LoadSegment;

/// A consumer publishes to this exchange to request a segment's messages.
pub(super) const BEGIN_EXCHANGE: &str = "null.begin";
const TAG: &str = "c";

/// The routing key of such a request.
pub(super) fn begin_key(segment: &LoadSegment) -> String {
    format!("{}x{}", segment.count, segment.size_bytes)
}

fn parse_begin_key(key: &[u8]) -> Option<(u64, usize)> {
    let (count, size) = std::str::from_utf8(key).ok()?.split_once('x')?;
    Some((count.parse().ok()?, size.parse().ok()?))
}

/// Serves until its parent ends.
pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    stand_in::run(commands, "null broker", serve)
}

fn serve(stream: TcpStream) {
    match NullConnection::new(stream).and_then(|mut peer| peer.serve()) {
        Ok(()) => {}
        // The peer has gone, as after an interrupted run.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
        Err(error) => cli::print_error(&format!("harrier bench: null broker: {error}")),
    }
}

struct NullConnection {
    stream: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    pool: Pool,
    contents: PublishSkimmer,
    heads: DeliveryHeads,
    buffer: Vec<u8>,
    /// The unprocessed part of the buffer.
    start: usize,
    end: usize,
}

/// A reply that only the receiving half can give.
enum HandshakeReply {
    Nothing,
    Accept,
    Open,
}

impl NullConnection {
    fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(NULL_HEARTBEAT_WAIT))?;
        let properties = Table::new()
            .with("product", Value::text("null"))
            .map_err(|_| std::io::Error::other("a name that is too long"))?;
        let limits = SessionLimits { heartbeat_s: 0, ..SessionLimits::default() };
        Ok(Self {
            stream,
            inbound: Inbound::server(&limits, Arc::new(Greeting::new(&properties, "PLAIN"))),
            outbound: Outbound::new(),
            pool: Pool::default(),
            contents: PublishSkimmer::default(),
            heads: DeliveryHeads::default(),
            buffer: vec![0; NULL_BUFFER_BYTES],
            start: 0,
            end: 0,
        })
    }

    fn serve(&mut self) -> std::io::Result<()> {
        while !self.inbound.is_done() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            match self.read() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.stream.write_all(&HEARTBEAT_FRAME)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.process_input()?;
        }
        Ok(())
    }

    /// Reads what must be parsed, or has the kernel discard the rest. Zero means that the peer has closed.
    fn read(&mut self) -> std::io::Result<usize> {
        let unread = self.contents.unread_bytes().min(self.buffer.len());
        if self.end == 0 && unread > 0 {
            // With MSG_TRUNC, bytes of a TCP stream are discarded without a copy.
            let bytes = recv(self.stream.as_raw_fd(), &mut self.buffer[..unread], MsgFlags::MSG_TRUNC)?;
            self.contents.on_discarded(bytes);
            return Ok(bytes);
        }
        let room = if self.contents.is_large() { self.end + NULL_HEADER_BYTES } else { self.buffer.len() };
        let room = room.min(self.buffer.len());
        let bytes = self.stream.read(&mut self.buffer[self.end..room])?;
        self.end += bytes;
        Ok(bytes)
    }

    fn process_input(&mut self) -> std::io::Result<()> {
        loop {
            if self.inbound.is_running() {
                let (taken, seen) = self.contents.skim(&self.buffer[self.start..self.end]);
                self.start += taken;
                match seen {
                    SkimResult::Nothing => return Ok(()),
                    SkimResult::Begin { channel, count, size_bytes } => {
                        let (outbound, pool) = (&self.outbound, &self.pool);
                        EncodedDeliveries::new(outbound, pool, channel, &self.heads, size_bytes)
                            .write(&mut self.stream, count)?;
                    }
                    SkimResult::Other(bytes) => self.handle_frames(bytes)?,
                }
            } else {
                let before = self.end - self.start;
                self.handle_frames(before)?;
                if self.end - self.start == before || self.inbound.is_done() {
                    return Ok(());
                }
            }
        }
    }

    /// Passes the next `bytes` to the session and sends its replies.
    fn handle_frames(&mut self, bytes: usize) -> std::io::Result<()> {
        let mut input = &self.buffer[self.start..self.start + bytes];
        loop {
            let then = match self.inbound.next(&mut input, &mut self.outbound, &self.pool) {
                Ok(Some(event)) => answer(&event, &mut self.heads, &mut self.outbound, &self.pool),
                Ok(None) => break,
                Err(fault) => {
                    self.inbound.fail(&fault, &mut self.outbound, &self.pool);
                    HandshakeReply::Nothing
                }
            };
            match then {
                HandshakeReply::Nothing => {}
                HandshakeReply::Accept => self.inbound.login_accepted(&mut self.outbound, &self.pool),
                HandshakeReply::Open => {
                    self.inbound.open_accepted(&mut self.outbound, &self.pool);
                    // Content may follow, which the session must not parse.
                    break;
                }
            }
        }
        self.start += bytes - input.len();
        self.stream.write_all(&self.outbound.take_bytes(&self.pool))?;
        Ok(())
    }
}

/// Replies to the calls of publishers and consumers, and records the names that deliveries carry.
fn answer(event: &Event<'_>, heads: &mut DeliveryHeads, out: &mut Outbound, pool: &Pool) -> HandshakeReply {
    match event {
        Event::Login { .. } | Event::LoginResponse { .. } => return HandshakeReply::Accept,
        Event::Open { .. } => return HandshakeReply::Open,
        Event::Method { channel, method } => {
            let answer: Method<'_> = match method {
                Method::ExchangeDeclare(_) => exchange::DeclareOk {}.into(),
                Method::QueueDeclare(declare) => {
                    queue::DeclareOk { queue: declare.queue, message_count: 0, consumer_count: 0 }.into()
                }
                Method::QueueBind(bind) => {
                    heads.exchange = bind.exchange.as_bytes().to_vec();
                    heads.routing_key = bind.routing_key.as_bytes().to_vec();
                    if bind.no_wait {
                        return HandshakeReply::Nothing;
                    }
                    queue::BindOk {}.into()
                }
                Method::QueueUnbind(_) => queue::UnbindOk {}.into(),
                Method::BasicQos(_) => basic::QosOk {}.into(),
                Method::BasicConsume(consume) => {
                    let tag = consume.consumer_tag;
                    let consumer_tag = if tag.as_bytes().is_empty() { ShortStr::literal(TAG) } else { tag };
                    heads.tag = consumer_tag.as_bytes().to_vec();
                    basic::ConsumeOk { consumer_tag }.into()
                }
                _ => return HandshakeReply::Nothing,
            };
            out.method(pool, *channel, &answer);
        }
        _ => {}
    }
    HandshakeReply::Nothing
}
