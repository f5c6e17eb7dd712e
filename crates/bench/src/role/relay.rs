//! The floor: copies bytes between connections, both ways, on one thread, and knows nothing about them.
//!
//! Enters: groups of connections in the order they come, consumers first.  Leaves: the publisher's bytes at each consumer, theirs at it.
//! Owns:   the connections and one buffer for each direction.
//! Never:  looks at a byte.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::task::RelayTask;
use super::{Orders, report};
use crate::limits::{CONSUMERS_MAX, RAW_BUFFER_BYTES};
use crate::plan::Report;
use gauge::clock::Deadline;

const LISTENER: Token = Token(usize::MAX);
/// A token is the group's number, then the end's: 0 for the publisher.
const ENDS_BITS: u32 = 16;

const _: () = assert!(CONSUMERS_MAX < 1 << ENDS_BITS);

/// Bytes read from one end and not yet written to others.
struct Flow {
    buffer: Vec<u8>,
    end: usize,
    /// How much of it each of the others has.
    written: Vec<usize>,
}

impl Flow {
    fn new(receivers: usize) -> Self {
        Self { buffer: vec![0; RAW_BUFFER_BYTES], end: 0, written: vec![0; receivers] }
    }

    fn is_empty(&self) -> bool {
        self.written.iter().all(|&written| written == self.end)
    }

    /// Moves what can be moved; `false` when the sender has closed or a connection broke.
    fn advance(&mut self, mut from: &TcpStream, to: &[&TcpStream]) -> bool {
        // What came while a receiver was full was announced then, and will not be announced again.
        let mut drained = self.is_empty();
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
            for (receiver, written) in to.iter().zip(&mut self.written) {
                let mut receiver = *receiver;
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
struct Group {
    publisher: TcpStream,
    consumers: Vec<TcpStream>,
    forth: Flow,
    /// From each consumer.
    back: Vec<Flow>,
}

impl Group {
    /// The end `end` can be read or written.
    fn advance(&mut self, end: usize) -> bool {
        let Self { publisher, consumers, forth, back } = self;
        let receivers: Vec<&TcpStream> = consumers.iter().collect();
        match end.checked_sub(1) {
            None => {
                let unsent = back.iter_mut().zip(consumers.iter()).filter(|(flow, _)| !flow.is_empty());
                let back = unsent.fold(true, |all, (flow, consumer)| flow.advance(consumer, &[publisher]) && all);
                forth.advance(publisher, &receivers) && back
            }
            Some(index) => {
                let forth = forth.is_empty() || forth.advance(publisher, &receivers);
                back[index].advance(&consumers[index], &[publisher]) && forth
            }
        }
    }

    fn shut(&self) {
        for end in self.consumers.iter().chain([&self.publisher]) {
            // A connection that broke is shut already.
            let _shut = end.shutdown(Shutdown::Both);
        }
    }
}

/// Relays until it is told to end by a signal or its parent's death.
pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let task: RelayTask = orders.task()?;
    relay(&task).map_err(|error| format!("relay: {error}"))
}

fn relay(task: &RelayTask) -> std::io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((task.address, 0).into())?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    report(&Report::Ready { port: listener.local_addr()?.port() }).map_err(std::io::Error::other)?;
    let mut events = Events::with_capacity(64);
    let mut waiting = Vec::new();
    let mut groups: Vec<Option<Group>> = Vec::new();
    loop {
        wait(&mut poll, &mut events, task.spin_us)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, task, &mut waiting, &mut groups)?;
                continue;
            }
            let Token(token) = event.token();
            let Some(slot) = groups.get_mut(token >> ENDS_BITS) else { continue };
            if slot.as_mut().is_some_and(|group| !group.advance(token & ((1 << ENDS_BITS) - 1)))
                && let Some(group) = slot.take()
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

/// Takes connections in; when a group's consumers and then its publisher have come, they are joined.
fn accept(
    listener: &TcpListener,
    poll: &Poll,
    task: &RelayTask,
    waiting: &mut Vec<TcpStream>,
    groups: &mut Vec<Option<Group>>,
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
        if waiting.len() < consumers {
            waiting.push(stream);
            continue;
        }
        let mut group = Group {
            publisher: stream,
            consumers: std::mem::take(waiting),
            forth: Flow::new(task.consumers),
            back: (0..task.consumers).map(|_| Flow::new(1)).collect(),
        };
        let first = groups.len() << ENDS_BITS;
        let ends = std::iter::once(&mut group.publisher).chain(&mut group.consumers);
        for (end, stream) in ends.enumerate() {
            poll.registry().register(stream, Token(first + end), Interest::READABLE | Interest::WRITABLE)?;
        }
        groups.push(Some(group));
    }
}
