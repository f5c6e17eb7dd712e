//! Connections, channels and consumers as clients read them.

use crate::json_object::{JsonObject, empty, iso_second, iso_time};
use crate::live::{LiveChannel, LiveConnection, LiveConsumer, LiveFederationLink, LiveTls};
use crate::queue_view::message_stats;
use crate::source::Source;
use definitions::Json;

/// A connection.
pub fn connection(source: &dyn Source, of: &LiveConnection) -> Json {
    let is_tls = of.transport == "tls";
    JsonObject::new()
        .text("name", &of.name)
        .text("node", &source.facts().node)
        .text("protocol", "AMQP 0-9-1")
        .text("user", &of.user)
        .text("user_who_performed_action", &of.user)
        .text("vhost", &of.vhost)
        .int("connected_at", of.connected_at_ms)
        .put("client_properties", of.client_properties.clone().unwrap_or_else(empty))
        .maybe_text("user_provided_name", provided_name(of))
        .text("state", of.state)
        .text("type", "network")
        .text("host", &of.host)
        .int("port", of.port)
        .text("peer_host", &of.peer_host)
        .int("peer_port", of.peer_port)
        .flag("ssl", is_tls)
        .with(tls(of.tls.as_ref()))
        .text("auth_mechanism", &of.auth_mechanism)
        .int("channels", of.channels)
        .int("channel_max", of.channel_max)
        .int("frame_max", of.frame_max)
        .int("timeout", of.heartbeat_s)
        .counted("recv_oct", of.received_bytes)
        .int("recv_cnt", of.received_packets)
        .counted("send_oct", of.sent_bytes)
        .int("send_cnt", of.sent_packets)
        .int("send_pend", of.pending_bytes)
        .int("reductions", 0)
        .rate("reductions", 0.0)
        .put("garbage_collection", empty())
        .text("transport", of.transport)
        .int("shard", of.shard)
        .int("cpu_us", of.worked_us)
        .int("held_ms", held_ms(of, source.now_ms()))
        .with(own(source, of))
        .build()
}

/// How long its commands were held back, until now.
fn held_ms(of: &LiveConnection, now_ms: u64) -> u64 {
    of.held_ms + of.held_since_ms.map_or(0, |since| now_ms.saturating_sub(since))
}

/// What TLS has agreed on; null over anything else.
fn tls(of: Option<&LiveTls>) -> JsonObject {
    let certificate = of.and_then(|tls| tls.certificate.as_ref());
    let validity = certificate.map(|of| {
        let (first, last) = of.validity_s;
        format!("{} - {}", iso_second(first), iso_second(last))
    });
    JsonObject::new()
        .maybe_text("ssl_protocol", of.map(|tls| tls.protocol))
        .maybe_text("ssl_cipher", of.map(|tls| tls.cipher))
        .maybe_text("ssl_hash", of.map(|tls| tls.hash))
        .maybe_text("ssl_key_exchange", of.map(|tls| tls.key_exchange))
        .maybe_text("peer_cert_subject", certificate.map(|of| &*of.subject))
        .maybe_text("peer_cert_issuer", certificate.map(|of| &*of.issuer))
        .maybe_text("peer_cert_validity", validity.as_deref())
}

/// What no RabbitMQ tells of a connection: why it does not move, and over RDMA its credits and rendezvous.
fn own(source: &dyn Source, of: &LiveConnection) -> JsonObject {
    if of.rdma.is_empty() && of.hold.is_none() {
        return JsonObject::new();
    }
    let mut harrier = JsonObject::new();
    if let Some(hold) = of.hold {
        harrier = harrier.text("hold", hold);
    }
    if let Some(queue) = of.held_by.and_then(|queue| source.catalog().queue_definition(queue)) {
        harrier = harrier.text("held_by_queue", &queue.name);
    }
    if !of.rdma.is_empty() {
        let rdma = of.rdma.iter().fold(JsonObject::new(), |object, (name, value)| object.int(name, *value));
        harrier = harrier.put("rdma", rdma.build());
    }
    JsonObject::new().put("harrier", harrier.build())
}

fn provided_name(of: &LiveConnection) -> Option<&str> {
    match of.client_properties.as_ref()?.get("connection_name")? {
        Json::Text(name) => Some(name),
        _ => None,
    }
}

/// A channel.
pub fn channel(source: &dyn Source, of: &LiveChannel) -> Json {
    let connection =
        JsonObject::new().text("name", &of.connection).text("peer_host", &of.peer_host).int("peer_port", of.peer_port);
    let object = JsonObject::new()
        .text("name", &of.name())
        .int("number", of.number)
        .text("node", &source.facts().node)
        .put("connection_details", connection.build())
        .text("user", &of.user)
        .text("user_who_performed_action", &of.user)
        .text("vhost", &of.vhost)
        .text("state", if of.idle_since_ms.is_some() { "idle" } else { "running" })
        .int("consumer_count", of.consumers)
        .flag("confirm", of.has_confirms)
        .flag("transactional", of.is_transactional)
        .int("prefetch_count", of.prefetch_count)
        .int("global_prefetch_count", of.global_prefetch_count)
        .int("messages_unacknowledged", of.unacknowledged)
        .int("messages_unconfirmed", of.unconfirmed)
        .int("messages_uncommitted", of.uncommitted)
        .int("acks_uncommitted", of.acks_uncommitted)
        .int("pending_raft_commands", 0)
        .int("reductions", 0)
        .rate("reductions", 0.0)
        .put("message_stats", message_stats(&of.messages).build());
    match of.idle_since_ms {
        Some(at) => object.text("idle_since", &iso_time(at)).build(),
        None => object.build(),
    }
}

/// A consumer; nothing if its queue is gone.
pub fn consumer(source: &dyn Source, of: &LiveConsumer) -> Option<Json> {
    let catalog = source.catalog();
    let queue = catalog.queue_definition(of.queue)?;
    let queue = JsonObject::new().text("name", &queue.name).text("vhost", catalog.vhost_name(of.vhost));
    let channel = JsonObject::new()
        .text("name", &format!("{} ({})", of.connection, of.channel))
        .int("number", of.channel)
        .text("connection_name", &of.connection)
        .text("node", &source.facts().node)
        .text("peer_host", &of.peer_host)
        .int("peer_port", of.peer_port)
        .text("user", &of.user);
    let object = JsonObject::new()
        .text("consumer_tag", &of.tag)
        .flag("active", of.is_active)
        .text("activity_status", of.activity)
        .flag("ack_required", of.needs_ack)
        .int("prefetch_count", of.prefetch_count)
        .flag("exclusive", of.is_exclusive)
        .put("arguments", of.arguments.clone().unwrap_or_else(empty))
        .int("consumer_timeout", 0)
        .put("queue", queue.build())
        .put("channel_details", channel.build());
    Some(object.build())
}

/// A federation link.
pub fn federation_link(source: &dyn Source, of: &LiveFederationLink) -> Json {
    let kind = if of.is_of_queue { "queue" } else { "exchange" };
    let object = JsonObject::new()
        .text("node", &source.facts().node)
        .text(kind, &of.exchange)
        .text(&format!("upstream_{kind}"), &of.upstream_exchange)
        .text("type", kind)
        .text("vhost", &of.vhost)
        .text("upstream", &of.upstream)
        .text("id", &of.id)
        .text("status", of.status)
        .text("local_connection", &of.local_connection)
        .text("uri", &of.uri)
        .text("timestamp", &iso_time(of.since_ms))
        .text("direction", if of.is_outgoing { "out" } else { "in" })
        .maybe_text("transport", Some(of.transport).filter(|transport| !transport.is_empty()))
        .int("messages", of.messages)
        .int("message_bytes", of.bytes)
        .int("dropped", of.dropped)
        .int("messages_unacknowledged", of.unacknowledged)
        .put("lag", of.lag.map_or(Json::Null, |lag| Json::Int(i64::try_from(lag).unwrap_or(i64::MAX))));
    match &of.error {
        Some(error) => object.text("error", error).build(),
        None => object.build(),
    }
}
