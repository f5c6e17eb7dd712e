//! Tests of whole sessions.
//!
//! Owns:   the promises of this crate, one file each.

mod bad_input;
mod body_lending;
mod content_defects;
mod contents;
mod handshake;
mod pieces;
mod publish_runs;
mod repeats;
mod splits;

use wire::{ChannelNumber, Method, Properties, Table, Value};

/// Everything at once.
fn whole() -> impl FnMut() -> usize {
    || usize::MAX
}

/// The frame of a method.
fn method<'a>(channel: ChannelNumber, method: impl Into<Method<'a>>) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::encode_frame(channel, &method.into(), &mut frame);
    frame
}

/// A frame of anything.
fn frame(kind: u8, channel: ChannelNumber, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::frame::append(kind, channel, payload, &mut frame);
    frame
}

/// `basic.publish` to the exchange `x` with the key `key`.
fn publish(channel: ChannelNumber) -> Vec<u8> {
    let exchange = wire::ShortStr::literal("x");
    let routing_key = wire::ShortStr::literal("key");
    method(channel, wire::method::basic::Publish { exchange, routing_key, mandatory: false, immediate: false })
}

/// A content header.
fn header(channel: ChannelNumber, class_id: u16, body_bytes: u64, properties: &[u8]) -> Vec<u8> {
    let mut payload = class_id.to_be_bytes().to_vec();
    payload.extend_from_slice(&[0, 0]);
    payload.extend_from_slice(&body_bytes.to_be_bytes());
    payload.extend_from_slice(properties);
    frame(2, channel, &payload)
}

/// Bytes in which a misplaced one shows.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251 + index / 65_536) as u8).collect()
}

/// Properties with a header table.
fn rich_properties() -> Vec<u8> {
    let headers = Table::new().with("colour", Value::text("red")).expect("a short name");
    Properties { headers: Some(headers), delivery_mode: Some(2), priority: Some(4), ..Properties::default() }.to_bytes()
}
