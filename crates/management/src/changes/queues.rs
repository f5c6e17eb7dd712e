//! Queues: declared and deleted, with the permissions that AMQP asks for.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, REQUEST_SESSION, made, refused};
use crate::planned_change::{ConditionalDeletion, PlannedChange};
use crate::source::ActionOutcome;
use catalog::{Definition, ResourceKind, ShardId};

/// `PUT /api/queues/{vhost}/{name}`. What the body leaves out is as in `queue.declare`: transient. Queues take turns on the shards.
pub fn declare(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, name, body) = (request.vhost()?, request.name(ResourceKind::Queue, "name")?, request.body);
    let existed = request.catalog().queue(vhost, name.as_bytes()).is_some();
    let shards = usize::from(request.source.facts().shards.max(1));
    let definition = Definition::DeclareQueue {
        vhost,
        name,
        server_named: false,
        durable: body.flag("durable", false)?,
        exclusive: None,
        auto_delete: body.flag("auto_delete", false)?,
        arguments: body.table("arguments")?,
        home: ShardId((request.catalog().queues_count() % shards) as u16),
    };
    request.authorize(&definition)?;
    Ok(PlannedChange::define([definition], made(existed)))
}

/// `DELETE /api/queues/{vhost}/{name}`. Whether it is unused or empty is for its home to find out.
pub fn delete(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, name) = (request.vhost()?, request.name(ResourceKind::Queue, "name")?);
    request.catalog().queue(vhost, name.as_bytes()).ok_or_else(ApiError::not_found)?;
    let definition = Definition::DeleteQueue { vhost, name: name.clone(), session: Some(REQUEST_SESSION) };
    request.authorize(&definition)?;
    let (if_unused, if_empty) = (request.query.is_set("if-unused"), request.query.is_set("if-empty"));
    if if_unused || if_empty {
        request.catalog().queue_for(vhost, name.as_bytes(), REQUEST_SESSION).map_err(refused)?;
        return Ok(PlannedChange::DeleteQueue(ConditionalDeletion { vhost, queue: name, if_unused, if_empty }));
    }
    Ok(PlannedChange::define([definition], ActionOutcome::Done))
}
