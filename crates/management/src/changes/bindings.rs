//! Bindings: made, and removed by the key by which lists name them.

use super::Planned;
use crate::api_error::ApiError;
use crate::change_request::{ChangeRequest, REQUEST_SESSION};
use crate::definition_views::properties_key;
use crate::percent;
use crate::planned_change::PlannedChange;
use crate::source::ActionOutcome;
use catalog::{BindingView, Definition, Name, ResourceKind, VhostId};
use wire::Table;

/// The two ends that a path names.
struct BindingEnds {
    vhost: VhostId,
    source: Name,
    destination: Name,
    to_queue: bool,
}

/// Routing key and arguments of a binding.
type BindingTerms = (Box<[u8]>, Table);

impl BindingEnds {
    fn of(request: &ChangeRequest<'_>) -> Result<Self, ApiError> {
        let to_queue = request.matched.at("kind") == "q";
        let destination = match to_queue {
            true => request.name(ResourceKind::Queue, "destination")?,
            false => request.exchange_name("destination")?,
        };
        Ok(Self { vhost: request.vhost()?, source: request.exchange_name("source")?, destination, to_queue })
    }
}

/// `POST /api/bindings/{vhost}/e/{source}/{kind}/{destination}`. The answer names the binding relative to the path.
pub fn create(request: &ChangeRequest<'_>) -> Planned {
    let BindingEnds { vhost, source, destination, to_queue } = BindingEnds::of(request)?;
    let routing_key: Box<[u8]> = request.body.text("routing_key")?.unwrap_or_default().as_bytes().into();
    let arguments = request.body.table("arguments")?;
    let key = properties_key(&routing_key, Some(&arguments));
    let location = format!("{}/{}", percent::encode(destination.as_bytes()), percent::encode(key.as_bytes()));
    let definition = match to_queue {
        true => {
            let (exchange, queue, session) = (source, destination, Some(REQUEST_SESSION));
            Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session }
        }
        false => Definition::BindExchange { vhost, source, destination, routing_key, arguments },
    };
    request.authorize(&definition)?;
    Ok(PlannedChange::define([definition], ActionOutcome::Created(Some(location))))
}

/// `DELETE /api/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}`.
pub fn delete(request: &ChangeRequest<'_>) -> Planned {
    let ends = BindingEnds::of(request)?;
    let Some((routing_key, arguments)) = find(request, &ends)? else { return Err(ApiError::not_found()) };
    let BindingEnds { vhost, source, destination, to_queue } = ends;
    let definition = match to_queue {
        true => {
            let (exchange, queue, session) = (source, destination, Some(REQUEST_SESSION));
            Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session }
        }
        false => Definition::UnbindExchange { vhost, source, destination, routing_key, arguments },
    };
    request.authorize(&definition)?;
    Ok(PlannedChange::define([definition], ActionOutcome::Done))
}

/// The binding that the path names.
fn find(request: &ChangeRequest<'_>, ends: &BindingEnds) -> Result<Option<BindingTerms>, ApiError> {
    let (catalog, wanted) = (request.catalog(), request.matched.at("props"));
    let source = catalog.exchange(ends.vhost, ends.source.as_bytes()).ok_or_else(ApiError::not_found)?;
    let is_wanted = |binding: &BindingView<'_>| {
        binding.source == source && properties_key(binding.routing_key, binding.arguments) == wanted
    };
    let found = if ends.to_queue {
        let queue = catalog.queue(ends.vhost, ends.destination.as_bytes()).ok_or_else(ApiError::not_found)?;
        // The binding that each queue has to the default exchange is not among the others.
        if ends.source.is_empty() && properties_key(ends.destination.as_bytes(), None) == wanted {
            return Ok(Some((ends.destination.as_bytes().into(), Table::new())));
        }
        catalog.bindings_to(queue).find(is_wanted)
    } else {
        let exchange = catalog.exchange(ends.vhost, ends.destination.as_bytes()).ok_or_else(ApiError::not_found)?;
        catalog.bindings_to_exchange(exchange).find(is_wanted)
    };
    Ok(found.map(|binding| (binding.routing_key.into(), binding.arguments.cloned().unwrap_or_default())))
}
