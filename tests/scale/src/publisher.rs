//! The publisher that never stops: it writes for as long as its socket takes it, whatever it is told.
//!
//! Enters: a queue, the size of a body.  Leaves: numbered messages with confirms, and what the broker said meanwhile.
//! Owns:   one connection with a thread that writes and a thread that reads.
//! Never:  leaves a message half written: it stops between messages.

use crate::many::message;
use crate::pair::body;
use crate::peer::{Peer, refuse_close};
use crate::{Outcome, now, wait_for};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use wire::ChannelNumber;
use wire::Method;
use wire::frame::{self, FRAME_METHOD, HEARTBEAT_FRAME};
use wire::method::confirm;

/// Seconds between heartbeats: short, so that one who is held back for long would be given up if that counted.
const HEARTBEAT_S: u16 = 1;
/// How long one write waits for room before it looks whether the end has come.
const WRITE: Duration = Duration::from_millis(50);
/// Bytes of whole messages written at once, or one message.
const PIECE_BYTES: usize = 64 * 1024;

#[derive(Default)]
struct Heard {
    stop: AtomicBool,
    sent_bytes: AtomicU64,
    published: AtomicU64,
    stopped: AtomicBool,
    confirmed: AtomicU64,
    blocked: AtomicU32,
    unblocked: AtomicU32,
    fault: Mutex<Option<String>>,
}

impl Heard {
    fn fail(&self, why: impl ToString) {
        if let Ok(mut fault) = self.fault.lock() {
            fault.get_or_insert(why.to_string());
        }
    }
}

/// A publisher at work.
pub struct Publisher {
    heard: Arc<Heard>,
    stream: TcpStream,
    end: Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

impl Publisher {
    /// Starts to publish messages numbered from 0 to a queue.
    pub fn start(address: SocketAddr, queue: &str, body_bytes: usize) -> Outcome<Self> {
        let mut peer = Peer::with_channel(address, HEARTBEAT_S)?;
        peer.send(ChannelNumber(1), confirm::Select { no_wait: false })?;
        peer.expect(|method| matches!(method, Method::ConfirmSelectOk(_)).then_some(()))?;
        let stream = peer.stream;
        stream.set_write_timeout(Some(WRITE))?;
        let heard = Arc::<Heard>::default();
        let (end, ending) = channel();
        let template = message(queue, body_bytes);
        let (writing, writes) = (stream.try_clone()?, Arc::clone(&heard));
        let (reading, reads) = (stream.try_clone()?, Arc::clone(&heard));
        let threads = vec![
            thread::spawn(move || {
                if let Err(error) = write(writing, template, body_bytes, &writes, &ending) {
                    writes.fail(format!("publisher: {error}"));
                }
            }),
            thread::spawn(move || {
                if let Err(error) = read(reading, &reads) {
                    reads.fail(format!("publisher hears: {error}"));
                }
            }),
        ];
        Ok(Publisher { heard, stream, end, threads })
    }

    /// An error if the connection has failed.
    pub fn check(&self) -> Outcome<()> {
        match &*self.heard.fault.lock().map_err(|_| "a thread of the publisher has panicked")? {
            Some(fault) => Err(fault.clone().into()),
            None => Ok(()),
        }
    }

    /// Waits until it has been told that it is blocked.
    pub fn wait_blocked(&self, most: Duration) -> Outcome<()> {
        wait_for("connection.blocked", most, || {
            self.check()?;
            Ok(self.heard.blocked.load(Ordering::Relaxed) > 0)
        })
    }

    /// Waits until it has been told that it may go on.
    pub fn wait_unblocked(&self, most: Duration) -> Outcome<()> {
        wait_for("connection.unblocked", most, || {
            self.check()?;
            Ok(self.heard.unblocked.load(Ordering::Relaxed) > 0)
        })
    }

    /// Waits until the socket has taken nothing for so long.
    pub fn wait_silent(&self, silence: Duration, most: Duration) -> Outcome<()> {
        let mut last = (self.sent_bytes(), now());
        wait_for("the broker to stop reading", most, || {
            self.check()?;
            let bytes = self.sent_bytes();
            if bytes != last.0 {
                last = (bytes, now());
            }
            Ok(last.1.elapsed() >= silence)
        })
    }

    /// Bytes that the socket has taken.
    pub fn sent_bytes(&self) -> u64 {
        self.heard.sent_bytes.load(Ordering::Relaxed)
    }

    /// Publishes no more. Answers how many messages it has published, once all of them are written and confirmed.
    pub fn finish(&self, most: Duration) -> Outcome<u64> {
        self.heard.stop.store(true, Ordering::Relaxed);
        wait_for("the last message to be written", most, || {
            self.check()?;
            Ok(self.heard.stopped.load(Ordering::Acquire))
        })?;
        let published = self.heard.published.load(Ordering::Relaxed);
        wait_for("the last confirm", most, || {
            self.check()?;
            Ok(self.heard.confirmed.load(Ordering::Relaxed) == published)
        })?;
        Ok(published)
    }

    /// Ends the connection.
    pub fn close(self) -> Outcome<()> {
        self.check()?;
        drop(self.end);
        self.stream.shutdown(Shutdown::Both)?;
        for thread in self.threads {
            thread.join().map_err(|_| "a thread of the publisher has panicked")?;
        }
        Ok(())
    }
}

fn write(
    mut stream: TcpStream,
    mut template: Vec<u8>,
    body_bytes: usize,
    heard: &Heard,
    ending: &Receiver<()>,
) -> Outcome<()> {
    let at = template.len() - body_bytes - 1;
    let each = PIECE_BYTES.div_ceil(template.len()) as u64;
    let mut published = 0;
    let mut piece = Vec::new();
    while !heard.stop.load(Ordering::Relaxed) {
        piece.clear();
        for number in published..published + each {
            body(number, &mut template[at..]);
            piece.extend_from_slice(&template);
        }
        if !write_all(&mut stream, &piece, heard, ending)? {
            return Ok(());
        }
        published += each;
        heard.published.store(published, Ordering::Relaxed);
    }
    heard.stopped.store(true, Ordering::Release);
    while ending.recv_timeout(Duration::from_secs(HEARTBEAT_S.into()) / 3) == Err(RecvTimeoutError::Timeout) {
        if !write_all(&mut stream, &HEARTBEAT_FRAME, heard, ending)? {
            break;
        }
    }
    Ok(())
}

/// Writes everything, however long it takes. `false` if the end has come before.
fn write_all(stream: &mut TcpStream, mut bytes: &[u8], heard: &Heard, ending: &Receiver<()>) -> Outcome<bool> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(written) => {
                heard.sent_bytes.fetch_add(written as u64, Ordering::Relaxed);
                bytes = &bytes[written..];
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if ending.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn read(mut stream: TcpStream, heard: &Heard) -> Outcome<()> {
    stream.set_read_timeout(None)?;
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let bytes = match stream.read(&mut piece) {
            Ok(0) if heard.stopped.load(Ordering::Acquire) => return Ok(()),
            Ok(0) => return Err("the broker has ended the connection".into()),
            Ok(bytes) => bytes,
            Err(error) if heard.stopped.load(Ordering::Acquire) && error.kind() != ErrorKind::ConnectionReset => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        received.extend_from_slice(&piece[..bytes]);
        let mut rest = &received[..];
        while let Some((frame, taken)) = frame::split(rest, u32::MAX)? {
            if frame.kind == FRAME_METHOD {
                hear(&Method::decode(frame.payload)?, heard)?;
            }
            rest = &rest[taken..];
        }
        received = rest.to_vec();
    }
}

fn hear(method: &Method<'_>, heard: &Heard) -> Outcome<()> {
    refuse_close(method)?;
    match method {
        Method::ConnectionBlocked(_) => drop(heard.blocked.fetch_add(1, Ordering::Relaxed)),
        Method::ConnectionUnblocked(_) => drop(heard.unblocked.fetch_add(1, Ordering::Relaxed)),
        Method::BasicAck(ack) => {
            let before = heard.confirmed.swap(ack.delivery_tag.0, Ordering::Relaxed);
            let in_order = if ack.multiple { ack.delivery_tag.0 > before } else { ack.delivery_tag.0 == before + 1 };
            if !in_order {
                return Err(format!("the confirm of {} came after that of {before}", ack.delivery_tag.0).into());
            }
        }
        Method::BasicNack(nack) => return Err(format!("message {} was refused", nack.delivery_tag.0).into()),
        other => return Err(format!("unexpected {}", other.name()).into()),
    }
    Ok(())
}
