//! Copies: a sender's further routing keys, in the headers `CC` and `BCC` (RabbitMQ extension).
//!
//! Enters: the properties of a publish.  Leaves: the keys, and the properties without `BCC`, whose keys stay with the message.
//! Owns:   which values are keys.
//! Never:  routes.

use super::Broker;
use crate::bcc;
use crate::effects::ConnectionSlot;
use crate::message::Content;
use catalog::{ExchangeId, Refusal, Route};
use std::sync::Arc;
use wire::{RawProperties, ReplyCode, TableRef, ValueRef};

/// A publish with further routing keys, or properties that are not those it came with.
#[derive(Default)]
pub(super) struct PublishRewrite {
    /// The keys behind the first.
    pub keys: Vec<Box<[u8]>>,
    /// Those that nobody sees, as they are kept.
    pub blind: Vec<u8>,
    /// The properties without `BCC`, if there was one, and with the stamp that they need.
    pub properties: Option<Vec<u8>>,
}

/// The further routing keys of a message; `None` if it has none of the headers.
#[cold]
pub(super) fn of(properties: RawProperties<'_>) -> Result<Option<PublishRewrite>, Refusal> {
    let Some(headers) = properties.headers() else { return Ok(None) };
    let (cc, bcc) = (headers.get("CC"), headers.get("BCC"));
    if cc.is_none() && bcc.is_none() {
        return Ok(None);
    }
    let mut keys = Vec::new();
    // In the end: the keys of `CC`, which come before those of `BCC`.
    let mut visible = 0;
    for (name, value) in [("CC", cc), ("BCC", bcc)] {
        visible = keys.len();
        match value {
            None => {}
            Some(ValueRef::List(list)) => keys.extend(list.iter().filter_map(key)),
            Some(other) => {
                let why = format!("{{unacceptable_type_in_header,\"{name}\",{}}}", other.type_name());
                return Err(Refusal::detail(ReplyCode::PreconditionFailed, format!("invalid message: {why}")));
            }
        }
    }
    let properties = bcc.map(|_| {
        let mut out = Vec::new();
        properties.rewrite(true, &mut out, |headers, out| {
            let mut table = TableRef::new(headers).to_table().unwrap_or_default();
            while table.remove("BCC").is_some() {}
            out.extend_from_slice(&table.to_bytes());
        });
        out
    });
    let blind = bcc::pack(keys[visible..].iter().map(|key| &**key));
    Ok(Some(PublishRewrite { keys, blind, properties }))
}

/// The keys in `CC` of a message that is routed again.
fn in_cc(properties: RawProperties<'_>) -> Vec<Box<[u8]>> {
    match properties.headers().and_then(|headers| headers.get("CC")) {
        Some(ValueRef::List(list)) => list.iter().filter_map(key).collect(),
        _ => Vec::new(),
    }
}

/// A key in a list. What is no text, or longer than any binding's key can be, leads nowhere.
fn key(value: Result<ValueRef<'_>, wire::DecodeError>) -> Option<Box<[u8]>> {
    match value {
        Ok(ValueRef::LongStr(key)) if key.len() <= catalog::limits::NAME_BYTES_MAX => Some(key.into()),
        _ => None,
    }
}

impl Broker {
    /// The queues for a publish with further routing keys.
    pub(super) fn route_copies(
        &mut self,
        slot: ConnectionSlot,
        exchange: &[u8],
        routing_key: &[u8],
        copies: &[Box<[u8]>],
        properties: RawProperties<'_>,
    ) -> Result<Arc<Route>, Refusal> {
        let exchange = self.exchange_for_publish(slot, exchange)?;
        let keys: Vec<&[u8]> = std::iter::once(routing_key).chain(copies.iter().map(|key| &**key)).collect();
        Ok(self.catalog.route_all(exchange, &keys, properties))
    }

    /// The queues for a message that is routed a second time: a dead letter, or one that was delayed.
    pub(super) fn route_again(&mut self, exchange: ExchangeId, content: &Content<'_>) -> Arc<Route> {
        let properties = content.properties();
        let visible = if properties.has_headers() { in_cc(properties) } else { Vec::new() };
        if visible.is_empty() && content.bcc.is_empty() {
            return self.catalog.route(exchange, content.routing_key, properties);
        }
        let further = visible.iter().map(|key| &**key).chain(bcc::unpack(content.bcc));
        let keys: Vec<&[u8]> = std::iter::once(content.routing_key).chain(further).collect();
        self.catalog.route_all(exchange, &keys, properties)
    }
}
