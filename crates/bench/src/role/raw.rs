//! Publisher and consumer of the floor: bytes through a relay, no AMQP.
//!
//! Enters: segments.  Leaves: the same reports as the AMQP roles.
//! Owns:   one connection to the relay.
//! Never:  frames, parses or checks anything beyond counting bytes.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::secured::Secured;
use super::task::RawTask;
use super::{Orders, report};
use crate::limits::{RAW_BUFFER_BYTES, SEGMENT_WAIT};
use crate::plan::{Meters, Report, Segment, Shape};
use gauge::clock::now_ns;
use gauge::{Buckets, Faults, Latencies};

/// A connection to the relay.
enum Stream {
    Plain(TcpStream),
    Tls(Box<Secured<TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.push(),
        }
    }
}

fn connect(orders: &mut Orders) -> Result<(Stream, RawTask), String> {
    let task: RawTask = orders.task()?;
    let open = || {
        let stream = TcpStream::connect(task.relay)?;
        stream.set_nodelay(!task.tcp.nagle)?;
        task.tcp.set_on(&stream)?;
        stream.set_read_timeout(Some(SEGMENT_WAIT))?;
        stream.set_write_timeout(Some(SEGMENT_WAIT))?;
        Ok(match &task.certificate {
            None => Stream::Plain(stream),
            Some(certificate) => Stream::Tls(Box::new(Secured::client(stream, certificate)?)),
        })
    };
    let stream = open().map_err(|error: std::io::Error| format!("relay at {}: {error}", task.relay))?;
    report(&Report::Ready { port: 0 })?;
    Ok((stream, task))
}

fn broken(error: std::io::Error) -> String {
    format!("the relay's connection broke: {error}")
}

pub(super) fn publish(orders: &mut Orders) -> Result<(), String> {
    let (mut stream, task) = connect(orders)?;
    let mut buffer = vec![b'x'; RAW_BUFFER_BYTES];
    let mut replies = vec![0; task.consumers];
    while let Some(segment) = orders.next::<Segment>()? {
        let mut latencies = Latencies::default();
        let meters = Meters::start();
        let began_ns = now_ns();
        match segment.shape {
            Shape::Stream => {
                let mut left = segment.count * segment.size_bytes as u64;
                while left > 0 {
                    let now = left.min(buffer.len() as u64) as usize;
                    stream.write_all(&buffer[..now]).map_err(broken)?;
                    left -= now as u64;
                }
                stream.read_exact(&mut replies).map_err(broken)?;
            }
            Shape::PingPong => {
                buffer.resize(buffer.len().max(segment.size_bytes), 0);
                let body = &mut buffer[..segment.size_bytes];
                for _ in 0..segment.count {
                    let sent_ns = now_ns();
                    stream.write_all(body).map_err(broken)?;
                    stream.read_exact(body).map_err(broken)?;
                    latencies.record(now_ns() - sent_ns);
                }
            }
        }
        let ended_ns = now_ns();
        report(&Report::Published {
            began_ns,
            ended_ns,
            published: segment.count,
            latencies: latencies.buckets(),
            confirms: Buckets::default(),
            refused: 0,
            used: meters.stop(),
        })?;
    }
    Ok(())
}

pub(super) fn consume(orders: &mut Orders) -> Result<(), String> {
    let (mut stream, _) = connect(orders)?;
    let mut buffer = vec![0; RAW_BUFFER_BYTES];
    while let Some(segment) = orders.next::<Segment>()? {
        let meters = Meters::start();
        report(&Report::Armed)?;
        match segment.shape {
            Shape::Stream => {
                let mut left = segment.count * segment.size_bytes as u64;
                while left > 0 {
                    let room = left.min(buffer.len() as u64) as usize;
                    match stream.read(&mut buffer[..room]).map_err(broken)? {
                        0 => return Err("the relay closed the connection".to_owned()),
                        read => left -= read as u64,
                    }
                }
                stream.write_all(&[0]).map_err(broken)?;
            }
            Shape::PingPong => {
                buffer.resize(buffer.len().max(segment.size_bytes), 0);
                let body = &mut buffer[..segment.size_bytes];
                for _ in 0..segment.count {
                    stream.read_exact(body).map_err(broken)?;
                    stream.write_all(body).map_err(broken)?;
                }
            }
        }
        let used = meters.stop();
        report(&Report::Consumed {
            received: segment.count,
            faults: Faults::default(),
            rates: Vec::new(),
            ended_ns: now_ns(),
            used,
        })?;
    }
    Ok(())
}
