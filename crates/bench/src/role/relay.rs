//! The floor: copies bytes between two connections, both ways, on one thread, and knows nothing about them.
//!
//! Enters: two connections at a time, joined in the order they come.  Leaves: each one's bytes at the other.
//! Owns:   the connections and one buffer for each direction.
//! Never:  looks at a byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::task::RelayTask;
use super::{Orders, report};
use crate::limits::RAW_BUFFER_BYTES;
use crate::plan::Report;
use gauge::clock::Deadline;

const LISTENER: Token = Token(usize::MAX);

/// One direction: bytes read from one end and not yet written to the other.
struct Flow {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Flow {
    fn new() -> Self {
        Self { buffer: vec![0; RAW_BUFFER_BYTES], start: 0, end: 0 }
    }

    /// Moves what can be moved; `Ok(false)` when the sender has closed or a connection broke.
    fn advance(&mut self, mut from: &TcpStream, mut to: &TcpStream) -> bool {
        loop {
            if self.start == self.end {
                self.start = 0;
                match from.read(&mut self.buffer) {
                    Ok(0) => return false,
                    Ok(read) => self.end = read,
                    Err(error) => {
                        self.end = 0;
                        return error.kind() == ErrorKind::WouldBlock;
                    }
                }
            }
            let short = self.end < self.buffer.len();
            match to.write(&self.buffer[self.start..self.end]) {
                Ok(written) => self.start += written,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if short && self.start == self.end {
                return true;
            }
        }
    }
}

struct Joined {
    ends: [TcpStream; 2],
    flows: [Flow; 2],
}

impl Joined {
    fn advance(&mut self) -> bool {
        let [first, second] = &self.ends;
        let forth = self.flows[0].advance(first, second);
        let back = self.flows[1].advance(second, first);
        forth && back
    }
}

/// Relays until it is told to end by a signal or its parent's death.
pub(super) fn run(orders: &mut Orders) -> Result<(), String> {
    let task: RelayTask = orders.task()?;
    relay(&task).map_err(|error| format!("relay: {error}"))
}

fn relay(task: &RelayTask) -> std::io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    report(&Report::Ready { port: listener.local_addr()?.port() }).map_err(std::io::Error::other)?;
    let mut events = Events::with_capacity(64);
    let mut waiting: Option<TcpStream> = None;
    let mut pairs: Vec<Option<Joined>> = Vec::new();
    loop {
        wait(&mut poll, &mut events, task.spin_us)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut waiting, &mut pairs)?;
                continue;
            }
            let Some(slot) = pairs.get_mut(event.token().0) else { continue };
            if slot.as_mut().is_some_and(|pair| !pair.advance())
                && let Some(pair) = slot.take()
            {
                for end in &pair.ends {
                    // A connection that broke is shut already.
                    let _shut = end.shutdown(Shutdown::Both);
                }
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

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    waiting: &mut Option<TcpStream>,
    pairs: &mut Vec<Option<Joined>>,
) -> std::io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _peer)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let Some(first) = waiting.take() else {
            *waiting = Some(stream);
            continue;
        };
        let token = Token(pairs.len());
        let mut pair = Joined { ends: [first, stream], flows: [Flow::new(), Flow::new()] };
        for end in &mut pair.ends {
            poll.registry().register(end, token, Interest::READABLE | Interest::WRITABLE)?;
        }
        pairs.push(Some(pair));
    }
}
