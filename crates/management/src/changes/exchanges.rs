//! Exchanges: declared and deleted, with the permissions that AMQP asks for.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, made, refused};
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{Definition, ExchangeKind};

/// `PUT /api/exchanges/{vhost}/{name}`. What the body leaves out is as in `exchange.declare`: direct and transient.
pub fn declare(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, name, body) = (request.vhost()?, request.exchange_name("name")?, request.body);
    let kind = body.text("type")?.unwrap_or(ExchangeKind::Direct.name());
    let existed = request.catalog().exchange(vhost, name.as_bytes()).is_some();
    let definition = Definition::DeclareExchange {
        vhost,
        name,
        kind: ExchangeKind::parse(kind.as_bytes()).map_err(refused)?,
        durable: body.flag("durable", false)?,
        auto_delete: body.flag("auto_delete", false)?,
        internal: body.flag("internal", false)?,
        arguments: body.table("arguments")?,
    };
    request.authorize(&definition)?;
    Ok(PlannedChange::define([definition], made(existed)))
}

/// `DELETE /api/exchanges/{vhost}/{name}`.
pub fn delete(request: &ChangeRequest<'_>) -> Planned {
    let (vhost, name) = (request.vhost()?, request.exchange_name("name")?);
    request.catalog().exchange(vhost, name.as_bytes()).ok_or_else(ApiError::not_found)?;
    let definition = Definition::DeleteExchange { vhost, name, if_unused: request.query.is_set("if-unused") };
    request.authorize(&definition)?;
    Ok(PlannedChange::define([definition], ActionOutcome::Done))
}
