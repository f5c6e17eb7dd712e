//! Names in methods: text, and not just any bytes.
//!
//! Enters: a decoded method.  Leaves: whether its short strings are UTF-8.
//! Owns:   which fields are checked: all but those of contents, whose routing keys may be any bytes, and reply texts,
//!         which RabbitMQ itself cuts anywhere.

use wire::{Method, ShortStr};

/// Whether all names in a method are UTF-8. Methods without names cost nothing.
#[inline]
pub(super) fn is_text(method: &Method<'_>) -> bool {
    match method {
        Method::ConnectionStartOk(m) => all(&[m.mechanism, m.locale]),
        Method::ConnectionOpen(m) => all(&[m.virtual_host]),
        Method::ConnectionUpdateSecret(m) => all(&[m.reason]),
        Method::ExchangeDeclare(m) => all(&[m.exchange, m.kind]),
        Method::ExchangeDelete(m) => all(&[m.exchange]),
        Method::ExchangeBind(m) => all(&[m.destination, m.source, m.routing_key]),
        Method::ExchangeUnbind(m) => all(&[m.destination, m.source, m.routing_key]),
        Method::QueueDeclare(m) => all(&[m.queue]),
        Method::QueueDelete(m) => all(&[m.queue]),
        Method::QueuePurge(m) => all(&[m.queue]),
        Method::QueueBind(m) => all(&[m.queue, m.exchange, m.routing_key]),
        Method::QueueUnbind(m) => all(&[m.queue, m.exchange, m.routing_key]),
        Method::BasicConsume(m) => all(&[m.queue, m.consumer_tag]),
        Method::BasicCancel(m) => all(&[m.consumer_tag]),
        Method::BasicGet(m) => all(&[m.queue]),
        _ => true,
    }
}

fn all(names: &[ShortStr<'_>]) -> bool {
    names.iter().all(|name| name.to_str().is_ok())
}
