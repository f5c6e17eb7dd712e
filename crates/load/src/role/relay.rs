//! The relay floor: copies bytes between a publisher and its consumers on one thread, without looking at them.
//!
//! Consumers connect first, then their publisher; the relay optionally speaks TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::slice::from_mut;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::tls_stream::{TlsStream, server_config};
use crate::limits::{CONSUMERS_MAX, RAW_BUFFER_BYTES};
use gauge::clock::Deadline;
use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::RelayTask;

const LISTENER: Token = Token(usize::MAX);
/// A token is the group's number followed by the endpoint's, which is 0 for the publisher.
const ENDS_BITS: u32 = 16;

const _: () = assert!(CONSUMERS_MAX < 1 << ENDS_BITS);

trait RelayEndpoint: Sized {
    /// Whether a short read means that the socket is drained.
    const SHORT_READ_DRAINS: bool;

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize>;
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize>;
    /// Sends the endpoint's own buffered output.
    fn push(&mut self) -> std::io::Result<()>;
    fn socket(&mut self) -> &mut TcpStream;
}

impl RelayEndpoint for TcpStream {
    const SHORT_READ_DRAINS: bool = true;

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Read::read(self, into)
    }
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Write::write(self, bytes)
    }
    fn push(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    fn socket(&mut self) -> &mut TcpStream {
        self
    }
}

impl RelayEndpoint for TlsStream<TcpStream> {
    const SHORT_READ_DRAINS: bool = false;

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        TlsStream::read(self, into)
    }
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        TlsStream::write(self, bytes)
    }
    fn push(&mut self) -> std::io::Result<()> {
        TlsStream::flush(self)
    }
    fn socket(&mut self) -> &mut TcpStream {
        TlsStream::socket(self)
    }
}

/// Bytes read from one endpoint and not yet written to all receivers.
struct RelayBuffer {
    buffer: Vec<u8>,
    end: usize,
    /// Bytes written to each receiver.
    written: Vec<usize>,
}

impl RelayBuffer {
    fn new(receivers: usize) -> Self {
        Self { buffer: vec![0; RAW_BUFFER_BYTES], end: 0, written: vec![0; receivers] }
    }

    fn is_empty(&self) -> bool {
        self.written.iter().all(|&written| written == self.end)
    }

    /// Copies what is possible; `false` if the sender has closed or a connection is broken.
    fn advance<E: RelayEndpoint>(&mut self, from: &mut E, to: &mut [E]) -> bool {
        // There is no further edge for data that arrived while a receiver was full.
        let mut drained = self.is_empty() && E::SHORT_READ_DRAINS;
        loop {
            if self.is_empty() {
                self.written.fill(0);
                match from.read(&mut self.buffer) {
                    Ok(0) => {
                        self.end = 0;
                        return false;
                    }
                    Ok(read) => self.end = read,
                    Err(error) => {
                        self.end = 0;
                        return error.kind() == ErrorKind::WouldBlock;
                    }
                }
                drained = drained && self.end < self.buffer.len();
            }
            for (receiver, written) in to.iter_mut().zip(&mut self.written) {
                while *written < self.end {
                    match receiver.write(&self.buffer[*written..self.end]) {
                        Ok(bytes) => *written += bytes,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => return false,
                    }
                }
            }
            if drained || !self.is_empty() {
                return true;
            }
        }
    }
}

/// A publisher and its consumers.
struct RelayGroup<E> {
    publisher: E,
    consumers: Vec<E>,
    forth: RelayBuffer,
    /// One for each consumer.
    back: Vec<RelayBuffer>,
}

impl<E: RelayEndpoint> RelayGroup<E> {
    /// Handles readiness of endpoint `end`.
    fn advance(&mut self, end: usize) -> bool {
        let Self { publisher, consumers, forth, back } = self;
        let flushed = match end.checked_sub(1) {
            None => publisher.push(),
            Some(index) => consumers[index].push(),
        };
        if flushed.is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
            return false;
        }
        match end.checked_sub(1) {
            None => {
                let unsent = back.iter_mut().zip(consumers.iter_mut()).filter(|(flow, _)| !flow.is_empty());
                let back =
                    unsent.fold(true, |all, (flow, consumer)| flow.advance(consumer, from_mut(publisher)) && all);
                forth.advance(publisher, consumers) && back
            }
            Some(index) => {
                let forth = forth.is_empty() || forth.advance(publisher, consumers);
                back[index].advance(&mut consumers[index], from_mut(publisher)) && forth
            }
        }
    }

    fn shut(&mut self) {
        for end in self.consumers.iter_mut().chain([&mut self.publisher]) {
            // A broken connection is already shut down.
            let _shut = end.socket().shutdown(Shutdown::Both);
        }
    }
}

/// Relays until a signal or its parent's end terminates it.
pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let task: RelayTask = commands.task()?;
    let ended = match &task.tls {
        None => relay(&task, Ok),
        Some(files) => {
            server_config(files).and_then(|config| relay(&task, |socket| TlsStream::server(socket, &config)))
        }
    };
    ended.map_err(|error| format!("relay: {error}"))
}

fn relay<E: RelayEndpoint>(
    task: &RelayTask,
    endpoint: impl Fn(TcpStream) -> std::io::Result<E>,
) -> std::io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((task.address, 0).into())?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    report(&RoleReport::Ready { port: listener.local_addr()?.port() }).map_err(std::io::Error::other)?;
    let mut events = Events::with_capacity(64);
    let mut waiting = Vec::new();
    let mut groups: Vec<Option<RelayGroup<E>>> = Vec::new();
    loop {
        wait(&mut poll, &mut events, task.spin_us)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, task, &endpoint, &mut waiting, &mut groups)?;
                continue;
            }
            let Token(token) = event.token();
            let Some(slot) = groups.get_mut(token >> ENDS_BITS) else { continue };
            if slot.as_mut().is_some_and(|group| !group.advance(token & ((1 << ENDS_BITS) - 1)))
                && let Some(mut group) = slot.take()
            {
                group.shut();
            }
        }
    }
}

fn wait(poll: &mut Poll, events: &mut Events, spin_us: u64) -> std::io::Result<()> {
    let deadline = Deadline::after(Duration::from_micros(spin_us));
    let mut timeout = if spin_us == 0 { None } else { Some(Duration::ZERO) };
    loop {
        match poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
            Ok(()) if events.is_empty() => {
                if deadline.passed() {
                    timeout = None;
                }
            }
            Ok(()) => return Ok(()),
        }
    }
}

/// Accepts connections; a group is complete when its consumers and then its publisher have connected.
fn accept<E: RelayEndpoint>(
    listener: &TcpListener,
    poll: &Poll,
    task: &RelayTask,
    endpoint: &impl Fn(TcpStream) -> std::io::Result<E>,
    waiting: &mut Vec<E>,
    groups: &mut Vec<Option<RelayGroup<E>>>,
) -> std::io::Result<()> {
    let consumers = task.consumers;
    loop {
        let stream = match listener.accept() {
            Ok((stream, _peer)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(!task.tcp.nagle)?;
        task.tcp.set_on(&stream)?;
        let stream = endpoint(stream)?;
        if waiting.len() < consumers {
            waiting.push(stream);
            continue;
        }
        let mut group = RelayGroup {
            publisher: stream,
            consumers: std::mem::take(waiting),
            forth: RelayBuffer::new(task.consumers),
            back: (0..task.consumers).map(|_| RelayBuffer::new(1)).collect(),
        };
        let first = groups.len() << ENDS_BITS;
        let ends = std::iter::once(&mut group.publisher).chain(&mut group.consumers);
        for (end, stream) in ends.enumerate() {
            poll.registry().register(stream.socket(), Token(first + end), Interest::READABLE | Interest::WRITABLE)?;
        }
        groups.push(Some(group));
    }
}
