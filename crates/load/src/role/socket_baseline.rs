//! The socket baseline: sends as many bytes as the messages have on the wire over one plain TCP connection.
//!
//! It is the floor under the load generator, as the relay is the floor under a broker.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::stand_in;
use crate::limits::{RAW_BUFFER_BYTES, SEGMENT_WAIT};
use gauge::clock::now_ns;
use harness::command_reader::CommandReader;
use harness::role_protocol::report;
use harness::role_protocol::{LoadSegment, RoleReport, SelfMeters};
use harness::role_tasks::SocketBaselineTask;
use wire::frame::FRAME_OVERHEAD_BYTES;

/// The receiving side, in the broker's place: reads as many bytes as announced and confirms them.
pub(super) fn receive(commands: &mut CommandReader) -> Result<(), String> {
    stand_in::run(commands, "the end of the hop", serve)
}

fn serve(mut stream: TcpStream) {
    let mut take = || -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = vec![0; RAW_BUFFER_BYTES];
        loop {
            let mut count = [0; 8];
            stream.read_exact(&mut count)?;
            let mut left = u64::from_le_bytes(count);
            while left > 0 {
                let room = left.min(buffer.len() as u64) as usize;
                match stream.read(&mut buffer[..room])? {
                    0 => return Ok(()),
                    read => left -= read as u64,
                }
            }
            stream.write_all(&[0])?;
        }
    };
    match take() {
        Ok(()) => {}
        // The peer has gone, as at the end of a run.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) => {}
        Err(error) => cli::print_error(&format!("harrier bench: the socket baseline: {error}")),
    }
}

/// The sending side.
pub(super) fn send_segments(commands: &mut CommandReader) -> Result<(), String> {
    let task: SocketBaselineTask = commands.task()?;
    let text = |error: std::io::Error| format!("the socket baseline's connection to {}: {error}", task.to);
    let mut stream = connect(&task).map_err(text)?;
    report(&RoleReport::Ready { port: 0 })?;
    let buffer = vec![b'x'; RAW_BUFFER_BYTES];
    while let Some(LoadSegment { size_bytes, count, .. }) = commands.next_command::<LoadSegment>()? {
        let bytes = count * wire_bytes(task.publish_heads_bytes, size_bytes);
        let meters = SelfMeters::start();
        let began_ns = now_ns();
        send(&mut stream, &buffer, bytes).map_err(text)?;
        let ended_ns = now_ns();
        // Deliveries have larger headers than publishes, so the same bytes are fewer deliveries.
        let delivered = bytes / wire_bytes(task.deliver_heads_bytes, size_bytes);
        report(&RoleReport::SocketBaseline { began_ns, ended_ns, published: count, delivered, used: meters.stop() })?;
    }
    Ok(())
}

fn connect(task: &SocketBaselineTask) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(task.to)?;
    stream.set_nodelay(!task.tcp.nagle)?;
    task.tcp.set_on(&stream)?;
    stream.set_read_timeout(Some(SEGMENT_WAIT))?;
    stream.set_write_timeout(Some(SEGMENT_WAIT))?;
    Ok(stream)
}

fn send(stream: &mut TcpStream, buffer: &[u8], bytes: u64) -> std::io::Result<()> {
    stream.write_all(&bytes.to_le_bytes())?;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(buffer.len() as u64) as usize;
        stream.write_all(&buffer[..now])?;
        left -= now as u64;
    }
    stream.read_exact(&mut [0])
}

/// Bytes of a message on the wire, with method, header and body frames.
fn wire_bytes(heads_bytes: usize, size_bytes: usize) -> u64 {
    let frames = size_bytes.div_ceil(session::limits::FRAME_BYTES_MAX as usize - FRAME_OVERHEAD_BYTES);
    (heads_bytes + size_bytes + frames * FRAME_OVERHEAD_BYTES) as u64
}

/// Bytes of the method and header frames of a publish without properties.
pub(crate) fn publish_heads_bytes(exchange: &str, key: &str) -> usize {
    const METHOD: usize = 4 + 2 + 1 + 1 + 1;
    const HEADER: usize = 12 + 2;
    2 * FRAME_OVERHEAD_BYTES + METHOD + HEADER + exchange.len() + key.len()
}

/// The same for its delivery.
pub(crate) fn deliver_heads_bytes(exchange: &str, key: &str) -> usize {
    // Instead of a reserved field and flags, a delivery has a consumer tag, a delivery tag and a flag.
    publish_heads_bytes(exchange, key) - 3 + (1 + super::benchmark_consumer::TAG.len()) + 8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::{BodyOut, DeliverHead, Outbound, PublishHead};
    use slab::Pool;
    use wire::{ChannelNumber, DeliveryTag};

    #[test]
    fn bytes_on_the_wire_are_those_that_a_client_and_a_broker_send() {
        let pool = Pool::default();
        let (exchange, key) = ("hb7.x", "hb7.k0");
        for size_bytes in [0, 1, 64, 131_064, 131_065, 1 << 20] {
            let body = vec![0; size_bytes];
            let mut out = Outbound::new();
            out.set_frame_bytes_max(session::limits::FRAME_BYTES_MAX);
            let (name, routing_key) = (exchange.as_bytes(), key.as_bytes());
            let head = PublishHead { exchange: name, routing_key, mandatory: false, immediate: false };
            out.publish(&pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&body));
            assert_eq!(out.bytes() as u64, wire_bytes(publish_heads_bytes(exchange, key), size_bytes));
            out.clear();
            let head = DeliverHead {
                consumer_tag: crate::role::benchmark_consumer::TAG.as_bytes(),
                delivery_tag: DeliveryTag(1),
                redelivered: false,
                exchange: name,
                routing_key,
            };
            out.deliver(&pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&body));
            assert_eq!(out.bytes() as u64, wire_bytes(deliver_heads_bytes(exchange, key), size_bytes));
        }
    }
}
