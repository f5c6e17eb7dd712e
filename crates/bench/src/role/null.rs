//! The null broker: swallows what is published, and makes the deliveries that a consumer asks for, both at the lowest cost.
//!
//! Enters: AMQP connections.  Leaves: answers to calls; deliveries encoded once and sent again and again.
//! Owns:   one thread for each connection.
//! Never:  routes, keeps or even decodes a message: what limits here is the other end, the load generator itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use session::{BodyOut, DeliverHead, Event, Greeting, Inbound, Outbound, SessionLimits};
use slab::Pool;
use wire::frame::{FRAME_END, FRAME_HEAD_BYTES, HEARTBEAT_FRAME, split_head};
use wire::method::{basic, exchange, queue};
use wire::{Method, ShortStr, Table, Value};

use super::task::NullTask;
use super::{Orders, report};
use crate::limits::{NULL_BLOCK_BYTES, NULL_BUFFER_BYTES, NULL_HEARTBEAT_WAIT};
use crate::plan::{Report, Segment};
use gauge::write_sequence;

/// Exchange that a consumer publishes to when it wants a segment's messages.
pub(super) const BEGIN_EXCHANGE: &str = "null.begin";
const TAG: &str = "c";

/// The routing key that asks for the messages of a segment.
pub(super) fn begin_key(segment: &Segment) -> String {
    format!("{}x{}", segment.count, segment.size_bytes)
}

fn begun(key: &[u8]) -> Option<(u64, usize)> {
    let (count, size) = std::str::from_utf8(key).ok()?.split_once('x')?;
    Some((count.parse().ok()?, size.parse().ok()?))
}

/// Serves until its parent ends.
pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let NullTask { address } = orders.task()?;
    let text = |error: std::io::Error| format!("null broker: {error}");
    let listener = TcpListener::bind((address, 0)).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => _ = std::thread::spawn(move || serve(stream)),
                Err(error) => eprintln!("harrier bench: null broker: {error}"),
            }
        }
    });
    report(&Report::Ready { port })?;
    while orders.next::<()>()?.is_some() {}
    Ok(())
}

fn serve(stream: TcpStream) {
    match Peer::new(stream).and_then(|mut peer| peer.serve()) {
        Ok(()) => {}
        // The other end has gone, which is how a run that was cut short looks from here.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
        Err(error) => eprintln!("harrier bench: null broker: {error}"),
    }
}

struct Peer {
    stream: TcpStream,
    inbound: Inbound,
    outbound: Outbound,
    pool: Pool,
    contents: Contents,
    buffer: Vec<u8>,
    /// What of the buffer is read and not taken.
    start: usize,
    end: usize,
}

/// What only the receiving half can do, after the event that asks for it.
enum Then {
    Nothing,
    Accept,
    Open,
}

impl Peer {
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
            contents: Contents::default(),
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
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(()),
                Ok(bytes) => self.end += bytes,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.stream.write_all(&HEARTBEAT_FRAME)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> std::io::Result<()> {
        loop {
            if self.inbound.is_running() {
                let (taken, seen) = self.contents.swallow(&self.buffer[self.start..self.end]);
                self.start += taken;
                match seen {
                    Seen::Nothing => return Ok(()),
                    Seen::Begin { channel, count, size_bytes } => self.deliver(channel, count, size_bytes)?,
                    Seen::Other(bytes) => self.converse(bytes)?,
                }
            } else {
                let before = self.end - self.start;
                self.converse(before)?;
                if self.end - self.start == before || self.inbound.is_done() {
                    return Ok(());
                }
            }
        }
    }

    /// Hands the next `bytes` to the session and sends its answers.
    fn converse(&mut self, bytes: usize) -> std::io::Result<()> {
        let mut input = &self.buffer[self.start..self.start + bytes];
        loop {
            let then = match self.inbound.next(&mut input, &mut self.outbound, &self.pool) {
                Ok(Some(event)) => answer(&event, &mut self.outbound, &self.pool),
                Ok(None) => break,
                Err(fault) => {
                    self.inbound.fail(&fault, &mut self.outbound, &self.pool);
                    Then::Nothing
                }
            };
            match then {
                Then::Nothing => {}
                Then::Accept => self.inbound.login_accepted(&mut self.outbound, &self.pool),
                Then::Open => {
                    self.inbound.open_accepted(&mut self.outbound, &self.pool);
                    // What follows may be contents, which the session shall not see.
                    break;
                }
            }
        }
        self.start += bytes - input.len();
        let bytes = self.outbound.bytes();
        for part in self.outbound.gather().parts() {
            self.stream.write_all(part)?;
        }
        self.outbound.gather_mut().consume(bytes);
        Ok(())
    }

    /// Sends `count` deliveries: as many as make a good write are encoded, and each time get new sequence numbers.
    fn deliver(&mut self, channel: u16, count: u64, size_bytes: usize) -> std::io::Result<()> {
        let body = self.pool.copy(&vec![b'x'; size_bytes]);
        let head = DeliverHead {
            consumer_tag: TAG.as_bytes(),
            delivery_tag: 1,
            redelivered: false,
            exchange: b"hb.x",
            routing_key: b"hb.k0",
        };
        let body_out = if size_bytes == 0 { BodyOut::Copy(&[]) } else { BodyOut::Share(&body) };
        self.outbound.deliver(&self.pool, channel, &head, &[0, 0], body_out);
        let one: Vec<u8> = self.outbound.gather().parts().flatten().copied().collect();
        self.outbound.gather_mut().clear();
        // Method and header frame, and the head of the body's first frame, stand before the body's first byte.
        let first_frame = |at: usize| at + FRAME_HEAD_BYTES + payload_bytes(&one[at..]) + 1;
        let body_at = first_frame(first_frame(0)) + FRAME_HEAD_BYTES;
        let sequence_bytes = size_bytes.min(gauge::SEQUENCE_BYTES_MAX);
        let each = NULL_BLOCK_BYTES.div_ceil(one.len()).max(1);
        let mut block = one.repeat(each);
        let mut sequence = 0;
        while sequence < count {
            let now = (count - sequence).min(each as u64) as usize;
            for message in block.chunks_exact_mut(one.len()).take(now) {
                if let Some(number) = message.get_mut(body_at..body_at + sequence_bytes) {
                    write_sequence(number, sequence);
                }
                sequence += 1;
            }
            self.stream.write_all(&block[..now * one.len()])?;
        }
        Ok(())
    }
}

/// Answers the calls that publishers and consumers make.
fn answer(event: &Event<'_>, out: &mut Outbound, pool: &Pool) -> Then {
    match event {
        Event::Login { .. } | Event::LoginResponse { .. } => return Then::Accept,
        Event::Open { .. } => return Then::Open,
        Event::Method { channel, method } => {
            let answer: Method<'_> = match method {
                Method::ExchangeDeclare(_) => exchange::DeclareOk {}.into(),
                Method::QueueDeclare(declare) => {
                    queue::DeclareOk { queue: declare.queue, message_count: 0, consumer_count: 0 }.into()
                }
                Method::QueueBind(bind) if !bind.no_wait => queue::BindOk {}.into(),
                Method::QueueUnbind(_) => queue::UnbindOk {}.into(),
                Method::BasicQos(_) => basic::QosOk {}.into(),
                Method::BasicConsume(_) => basic::ConsumeOk { consumer_tag: ShortStr::literal(TAG) }.into(),
                _ => return Then::Nothing,
            };
            out.method(pool, *channel, &answer);
        }
        _ => {}
    }
    Then::Nothing
}

/// What comes next in the input.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing that is complete.
    Nothing,
    /// A consumer wants its messages.
    Begin { channel: u16, count: u64, size_bytes: usize },
    /// A frame of so many bytes that is no publish.
    Other(usize),
}

/// Published contents passing by: frames are counted off by their heads, never looked into.
#[derive(Debug, Default)]
struct Contents {
    /// Bytes of the present frame that are still to come.
    discard: usize,
    /// Whether a publish has passed and its header is next.
    header_next: bool,
    /// Bytes of the present body in frames that have not begun.
    body_left: u64,
    /// What a publish to [`BEGIN_EXCHANGE`] asked for, until its content is complete.
    begin: Option<Seen>,
}

impl Contents {
    /// Goes over input until something must be done; says how many bytes are done with.
    fn swallow(&mut self, input: &[u8]) -> (usize, Seen) {
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
            let rest = &input[at..];
            let Some(head) = split_head(rest) else { return (at, Seen::Nothing) };
            let (payload_bytes, frame_bytes) =
                (head.payload_bytes as usize, FRAME_HEAD_BYTES + head.payload_bytes as usize + 1);
            if self.body_left > 0 {
                self.body_left = self.body_left.saturating_sub(payload_bytes as u64);
                self.discard = frame_bytes;
            } else if self.header_next {
                // Class, weight, and then the body's size in eight bytes.
                let Some(size) = rest.get(FRAME_HEAD_BYTES + 4..).and_then(|rest| rest.first_chunk::<8>()) else {
                    return (at, Seen::Nothing);
                };
                self.body_left = u64::from_be_bytes(*size);
                self.header_next = false;
                self.discard = frame_bytes;
            } else if rest.len() < frame_bytes {
                return (at, Seen::Nothing);
            } else if rest[FRAME_HEAD_BYTES..].starts_with(&[0, 60, 0, 40]) {
                self.header_next = true;
                at += frame_bytes;
                let arguments = &rest[FRAME_HEAD_BYTES + 4..frame_bytes - 1];
                // Two reserved bytes and a length stand before the exchange's name, a length before the key.
                if arguments.get(3..).is_some_and(|names| names.starts_with(BEGIN_EXCHANGE.as_bytes())) {
                    let key = arguments.get(4 + BEGIN_EXCHANGE.len()..arguments.len() - 1).unwrap_or_default();
                    self.begin =
                        begun(key).map(|(count, size_bytes)| Seen::Begin { channel: head.channel, count, size_bytes });
                }
            } else {
                debug_assert_eq!(rest[frame_bytes - 1], FRAME_END, "a frame without its end");
                return (at, Seen::Other(frame_bytes));
            }
        }
    }
}

fn payload_bytes(frame: &[u8]) -> usize {
    split_head(frame).map_or(0, |head| head.payload_bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::PublishHead;
    use wire::method::channel;

    /// Publishes of these sizes, a call between each two of them.
    fn stream(sizes: &[usize]) -> Vec<u8> {
        let (mut out, pool) = (Outbound::new(), Pool::default());
        let head = PublishHead { exchange: b"x", routing_key: b"k", mandatory: false, immediate: false };
        for &size in sizes {
            let body = vec![FRAME_END; size];
            out.publish(&pool, 1, &head, &[0, 0], BodyOut::Copy(&body));
            out.method(&pool, 1, &channel::FlowOk { active: true }.into());
        }
        let begin = begin_key(&Segment { shape: crate::plan::Shape::Stream, size_bytes: 64, count: 1_000 });
        let head = PublishHead {
            exchange: BEGIN_EXCHANGE.as_bytes(),
            routing_key: begin.as_bytes(),
            mandatory: false,
            immediate: false,
        };
        out.publish(&pool, 3, &head, &[0, 0], BodyOut::Copy(&[]));
        out.gather().parts().flatten().copied().collect()
    }

    #[test]
    fn contents_pass_and_calls_are_seen_however_the_bytes_come() {
        let sizes = [0, 1, 64, 5_000, 300_000, 2];
        let bytes = stream(&sizes);
        for step in [1, 7, 4_096, bytes.len()] {
            let (mut contents, mut waiting, mut calls, mut begins) = (Contents::default(), Vec::new(), 0, Vec::new());
            for piece in bytes.chunks(step) {
                waiting.extend_from_slice(piece);
                loop {
                    let (taken, seen) = contents.swallow(&waiting);
                    waiting.drain(..taken);
                    match seen {
                        Seen::Nothing => break,
                        Seen::Other(bytes) => {
                            calls += 1;
                            waiting.drain(..bytes);
                        }
                        begin @ Seen::Begin { .. } => begins.push(begin),
                    }
                }
            }
            assert_eq!((calls, waiting.len()), (sizes.len(), 0), "pieces of {step}");
            assert_eq!(begins, [Seen::Begin { channel: 3, count: 1_000, size_bytes: 64 }]);
        }
    }

    #[test]
    fn keys_that_ask_for_nothing() {
        for key in [&b""[..], b"x", b"1x", b"ax1", b"\xff"] {
            assert_eq!(begun(key), None);
        }
        assert_eq!(begun(b"12x34"), Some((12, 34)));
    }
}
