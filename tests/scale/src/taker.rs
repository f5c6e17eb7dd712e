//! The consumer that reads when it is told to: before that its socket fills.
//!
//! Enters: a queue with numbered messages.  Leaves: whether they came in order, each once.
//! Owns:   one connection.
//! Never:  reads ahead of the test's word.

use crate::pair::number;
use crate::peer::{Peer, refuse_close};
use crate::{Outcome, now};
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::frame::{self, FRAME_BODY, FRAME_METHOD};
use wire::method::basic;
use wire::{ChannelNumber, DeliveryTag, Method, ShortStr, TableRef};

/// How a consumer acknowledges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// It need not.
    Automatic,
    /// Every so many, all up to there.
    Each(u64),
    /// Not while it reads.
    Never,
}

/// How long nothing may come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one read waits.
const READ: Duration = Duration::from_millis(50);
const PIECE_BYTES: usize = 256 * 1024;

/// A consumer.
pub struct Taker {
    peer: Peer,
    acks: Acks,
}

impl Taker {
    /// Consumes a queue, and reads nothing yet but the answer.
    pub fn start(address: SocketAddr, queue: &str, acks: Acks) -> Outcome<Self> {
        let mut peer = Peer::with_channel(address, 0)?;
        let consume = basic::Consume {
            queue: ShortStr::new(queue.as_bytes())?,
            consumer_tag: ShortStr::literal("taker"),
            no_local: false,
            no_ack: acks == Acks::Automatic,
            exclusive: false,
            no_wait: false,
            arguments: TableRef::EMPTY,
        };
        peer.send(ChannelNumber(1), consume)?;
        peer.expect(|method| matches!(method, Method::BasicConsumeOk(_)).then_some(()))?;
        Ok(Taker { peer, acks })
    }

    /// Reads from now on, on a thread of its own.
    pub fn read(self, first: u64) -> Reading {
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let taken = Arc::new(AtomicU64::new(0));
        let thread = {
            let (until, taken) = (Arc::clone(&until), Arc::clone(&taken));
            thread::spawn(move || self.take(first, &until, &taken).map_err(|error| error.to_string()))
        };
        Reading { until, taken, thread }
    }

    /// Takes messages from number `first` up to `until`, which may become known later.
    fn take(mut self, first: u64, until: &AtomicU64, taken: &AtomicU64) -> Outcome<(Peer, u64)> {
        self.peer.stream.set_read_timeout(Some(READ))?;
        let mut received = std::mem::take(&mut self.peer.received);
        let mut piece = vec![0; PIECE_BYTES];
        let (mut next, mut acked) = (first, first);
        let mut last = now();
        loop {
            let mut rest = &received[..];
            while let Some((frame, bytes)) = frame::split(rest, u32::MAX)? {
                match frame.kind {
                    FRAME_BODY => match number(frame.payload)? {
                        number if number == next => next += 1,
                        number => return Err(format!("message {number} came where {next} was due").into()),
                    },
                    FRAME_METHOD => refuse_close(&Method::decode(frame.payload)?)?,
                    _ => {}
                }
                rest = &rest[bytes..];
            }
            received = rest.to_vec();
            taken.store(next - first, Ordering::Relaxed);
            let all = until.load(Ordering::Acquire);
            if let Acks::Each(each) = self.acks
                && (next >= acked + each || (next == all && next > acked))
            {
                self.peer
                    .send(ChannelNumber(1), basic::Ack { delivery_tag: DeliveryTag(next - first), multiple: true })?;
                acked = next;
            }
            if next >= all {
                return Ok((self.peer, next));
            }
            match self.peer.stream.read(&mut piece) {
                Ok(0) => return Err("the broker has ended the consumer's connection".into()),
                Ok(bytes) => {
                    received.extend_from_slice(&piece[..bytes]);
                    last = now();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if last.elapsed() > PATIENCE {
                        return Err(format!("nothing came after message {next} of {all}").into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A consumer that reads.
pub struct Reading {
    until: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
    thread: JoinHandle<Result<(Peer, u64), String>>,
}

impl Reading {
    /// Messages that came so far.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Waits until all messages below this number came. Answers the connection, and how many came to the end.
    pub fn finish(self, until: u64) -> Outcome<(Peer, u64)> {
        self.until.store(until, Ordering::Release);
        Ok(self.thread.join().map_err(|_| "the consumer has panicked")??)
    }
}
