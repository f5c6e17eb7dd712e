//! Publisher and consumer of the relay floor: they count bytes through a relay, without AMQP.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::tls_stream::TlsStream;
use crate::limits::{RAW_BUFFER_BYTES, SEGMENT_WAIT};
use gauge::clock::now_ns;
use gauge::{DeliveryFaults, HistogramBuckets, LatencyHistogram};
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{LoadSegment, RoleReport, SelfMeters, TrafficShape};
use harness::role_tasks::RawSocketTask;

/// A connection to the relay.
enum RawStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Read for RawStream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            RawStream::Plain(stream) => stream.read(into),
            RawStream::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for RawStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            RawStream::Plain(stream) => stream.write(bytes),
            RawStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            RawStream::Plain(stream) => stream.flush(),
            RawStream::Tls(stream) => stream.flush(),
        }
    }
}

fn connect(commands: &mut CommandReader) -> Result<(RawStream, RawSocketTask), String> {
    let task: RawSocketTask = commands.task()?;
    let open = || {
        let stream = TcpStream::connect(task.relay)?;
        stream.set_nodelay(!task.tcp.nagle)?;
        task.tcp.set_on(&stream)?;
        stream.set_read_timeout(Some(SEGMENT_WAIT))?;
        stream.set_write_timeout(Some(SEGMENT_WAIT))?;
        Ok(match &task.certificate {
            None => RawStream::Plain(stream),
            Some(certificate) => RawStream::Tls(Box::new(TlsStream::client(stream, certificate)?)),
        })
    };
    let stream = open().map_err(|error: std::io::Error| format!("relay at {}: {error}", task.relay))?;
    report(&RoleReport::Ready { port: 0 })?;
    Ok((stream, task))
}

fn broken(error: std::io::Error) -> String {
    format!("the relay's connection broke: {error}")
}

pub(super) fn publish(commands: &mut CommandReader) -> Result<(), String> {
    let (mut stream, task) = connect(commands)?;
    let mut buffer = vec![b'x'; RAW_BUFFER_BYTES];
    while let Some(segment) = commands.next_command::<LoadSegment>()? {
        let mut latencies = LatencyHistogram::default();
        let meters = SelfMeters::start();
        let began_ns = now_ns();
        match segment.shape {
            TrafficShape::Stream => send(&mut stream, &segment, &task, &buffer).map_err(broken)?,
            TrafficShape::PingPong => {
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
        report(&RoleReport::Published {
            began_ns,
            ended_ns,
            published: segment.count,
            latencies: latencies.buckets(),
            confirms: HistogramBuckets::default(),
            refused: 0,
            used: meters.stop(),
        })?;
    }
    Ok(())
}

/// Sends the bytes of a stream, no more of them ahead of the consumer than the window, and waits for the replies.
fn send(stream: &mut RawStream, segment: &LoadSegment, task: &RawSocketTask, buffer: &[u8]) -> std::io::Result<()> {
    let (mut published, mut grants) = (0, 0);
    while published < segment.count {
        let room = task.window.room(published, grants).min(segment.count - published);
        let mut left = room * segment.size_bytes as u64;
        while left > 0 {
            let now = left.min(buffer.len() as u64) as usize;
            stream.write_all(&buffer[..now])?;
            left -= now as u64;
        }
        published += room;
        if published < segment.count {
            stream.read_exact(&mut [0])?;
            grants += 1;
        }
    }
    let replies = task.window.grants(segment.count) - grants + task.consumers as u64;
    (0..replies).try_for_each(|_| stream.read_exact(&mut [0]))
}

pub(super) fn consume(commands: &mut CommandReader) -> Result<(), String> {
    let (mut stream, task) = connect(commands)?;
    let mut buffer = vec![0; RAW_BUFFER_BYTES];
    while let Some(segment) = commands.next_command::<LoadSegment>()? {
        let meters = SelfMeters::start();
        report(&RoleReport::Armed)?;
        match segment.shape {
            TrafficShape::Stream => {
                let (mut left, mut granted) = (segment.count * segment.size_bytes as u64, 0);
                while left > 0 {
                    let room = left.min(buffer.len() as u64) as usize;
                    match stream.read(&mut buffer[..room]).map_err(broken)? {
                        0 => return Err("the relay closed the connection".to_owned()),
                        read => left -= read as u64,
                    }
                    if left > 0 {
                        let received = segment.count - left.div_ceil(segment.size_bytes as u64);
                        let grants = task.window.grants_by(received);
                        stream.write_all(&vec![0; (grants - granted) as usize]).map_err(broken)?;
                        granted = grants;
                    }
                }
                // What the last read has completed.
                let rest = task.window.grants(segment.count) - granted;
                stream.write_all(&vec![0; rest as usize + 1]).map_err(broken)?;
            }
            TrafficShape::PingPong => {
                buffer.resize(buffer.len().max(segment.size_bytes), 0);
                let body = &mut buffer[..segment.size_bytes];
                for _ in 0..segment.count {
                    stream.read_exact(body).map_err(broken)?;
                    stream.write_all(body).map_err(broken)?;
                }
            }
        }
        let used = meters.stop();
        report(&RoleReport::Consumed {
            received: segment.count,
            faults: DeliveryFaults::default(),
            rates: Vec::new(),
            ended_ns: now_ns(),
            used,
        })?;
    }
    Ok(())
}
