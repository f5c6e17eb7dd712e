//! Messages: published, got and purged, with the permissions that AMQP asks for.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, REQUEST_SESSION, refused};
use crate::limits::MESSAGES_GOT_MAX;
use crate::planned_change::{
    GetAckMode, MessageToPublish, MessagesToGet, MessagesToPeek, PayloadEncoding, PlannedChange,
};
use crate::request_body::RequestBody;
use base64ct::{Base64, Encoding};
use catalog::limits::NAME_BYTES_MAX;
use catalog::{Name, PermissionKind, Resource, ResourceKind, VhostId};
use wire::{Properties, ShortString, Table};

/// `POST /api/exchanges/{vhost}/{name}/publish`.
pub fn publish(request: &ChangeRequest<'_>) -> Planned {
    let (catalog, body) = (request.catalog(), request.body);
    let (vhost, exchange) = (request.vhost()?, request.exchange_name("name")?);
    let id = catalog.exchange(vhost, exchange.as_bytes()).ok_or_else(ApiError::not_found)?;
    let (routing_key, payload) = (body.required_text("routing_key")?, body.required_text("payload")?);
    let body_bytes = match body.required_text("payload_encoding")? {
        "string" => payload.as_bytes().to_vec(),
        "base64" => {
            Base64::decode_vec(payload).map_err(|_| ApiError::bad_request("payload is not what base64 makes"))?
        }
        other => return Err(ApiError::bad_request(format!("payload_encoding is string or base64, not '{other}'"))),
    };
    if routing_key.len() > NAME_BYTES_MAX {
        return Err(ApiError::bad_request(format!("routing_key has {NAME_BYTES_MAX} bytes at most")));
    }
    let properties = properties(&body.required_object("properties")?)?;
    request.check(vhost, PermissionKind::Write, Resource::Exchange, &exchange)?;
    catalog.check_publishable(id).map_err(refused)?;
    catalog.check_topic(request.user, id, PermissionKind::Write, routing_key.as_bytes()).map_err(refused)?;
    if let Some(claimed) = properties.user_id.as_ref().filter(|user| user.as_bytes() != request.user_name.as_bytes()) {
        let claimed = String::from_utf8_lossy(claimed.as_bytes());
        let actual = request.user_name;
        let reason = format!("user_id property set to '{claimed}' but authenticated user was '{actual}'");
        return Err(ApiError::bad_request(reason));
    }
    let routing_key = routing_key.as_bytes().into();
    Ok(PlannedChange::Publish(Box::new(MessageToPublish {
        vhost,
        exchange,
        routing_key,
        properties,
        body: body_bytes,
    })))
}

/// Properties by the names that RabbitMQ gives them. Others are ignored.
fn properties(of: &RequestBody) -> Result<Properties, ApiError> {
    let text = |key: &str| -> Result<Option<ShortString>, ApiError> {
        let long = |_| ApiError::bad_request(format!("{key} has 255 bytes at most"));
        of.text(key)?.map(|text| ShortString::try_from(text).map_err(long)).transpose()
    };
    let octet = |key: &str| -> Result<Option<u8>, ApiError> {
        let large = |_| ApiError::bad_request(format!("{key} is a number from 0 to 255"));
        of.number(key)?.map(|number| u8::try_from(number).map_err(large)).transpose()
    };
    let timestamp = of.number("timestamp")?.map(u64::try_from).transpose();
    let headers: Table = of.table("headers")?;
    // A time to live is digits in AMQP, and a number for some clients.
    let expiration = match of.get("expiration") {
        Some(definitions::Json::Int(ms)) => ShortString::try_from(&*ms.to_string()).ok(),
        _ => text("expiration")?,
    };
    Ok(Properties {
        content_type: text("content_type")?,
        content_encoding: text("content_encoding")?,
        headers: of.get("headers").map(|_| headers),
        delivery_mode: octet("delivery_mode")?,
        priority: octet("priority")?,
        correlation_id: text("correlation_id")?,
        reply_to: text("reply_to")?,
        expiration,
        message_id: text("message_id")?,
        timestamp: timestamp.map_err(|_| ApiError::bad_request("timestamp is no time"))?,
        kind: text("type")?,
        user_id: text("user_id")?,
        app_id: text("app_id")?,
        cluster_id: text("cluster_id")?,
    })
}

/// The queue of the path, which the user may read and no connection has to itself.
fn readable(request: &ChangeRequest<'_>) -> Result<(VhostId, Name), ApiError> {
    let (vhost, queue) = (request.vhost()?, request.name(ResourceKind::Queue, "name")?);
    request.catalog().queue(vhost, queue.as_bytes()).ok_or_else(ApiError::not_found)?;
    request.check(vhost, PermissionKind::Read, Resource::Queue, &queue)?;
    request.catalog().queue_for(vhost, queue.as_bytes(), REQUEST_SESSION).map_err(refused)?;
    Ok((vhost, queue))
}

/// `DELETE /api/queues/{vhost}/{name}/contents`.
pub fn purge(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, queue) = readable(request)?;
    Ok(PlannedChange::Purge { vhost, queue })
}

/// `POST /api/queues/{vhost}/{name}/get`.
pub fn get(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, queue) = readable(request)?;
    let body = request.body;
    let count = body.number("count")?.ok_or_else(|| ApiError::bad_request("key_missing: count"))?;
    let Some(count) = usize::try_from(count).ok().filter(|count| (1..=MESSAGES_GOT_MAX).contains(count)) else {
        return Err(ApiError::bad_request(format!("count is a number from 1 to {MESSAGES_GOT_MAX}")));
    };
    let mode = body.required_text("ackmode")?;
    let encoding = match body.required_text("encoding")? {
        "auto" => PayloadEncoding::Auto,
        "base64" => PayloadEncoding::Base64,
        other => return Err(ApiError::bad_request(format!("encoding is auto or base64, not '{other}'"))),
    };
    let body_bytes_max = body.number("truncate")?.map(usize::try_from).transpose();
    let body_bytes_max = body_bytes_max.map_err(|_| ApiError::bad_request("truncate is a number of bytes"))?;
    let ack_mode = match mode {
        "peek" => return Ok(PlannedChange::Peek(MessagesToPeek { vhost, queue, count, encoding, body_bytes_max })),
        "ack_requeue_false" => GetAckMode::Acknowledge,
        "reject_requeue_false" => GetAckMode::Reject,
        "ack_requeue_true" | "reject_requeue_true" => GetAckMode::Requeue,
        other => return Err(ApiError::bad_request(format!("there is no ackmode '{other}'"))),
    };
    Ok(PlannedChange::Get(MessagesToGet { vhost, queue, count, ack_mode, encoding, body_bytes_max }))
}
