//! Where a message would go, without publishing one.

use crate::answer::Answer;
use crate::api_error::ApiError;
use crate::definition_views::DEFAULT_EXCHANGE;
use crate::json_object::{JsonObject, texts};
use crate::limits::ROUTE_WORK_MAX;
use crate::query::{Columns, Query};
use crate::route_path::RouteMatch;
use crate::source::Source;
use catalog::RouteQuestion;
use catalog::limits::NAME_BYTES_MAX;
use definitions::Json;
use wire::{Properties, RawProperties, Table};

/// Answers with the queues, each once, and the exchanges that would hold the message back for its delay.
///
/// # Errors
/// There is no such exchange, the headers are no JSON object, or finding out takes too much work.
pub fn found_route(source: &mut dyn Source, matched: &RouteMatch, query: &Query) -> Result<Answer, ApiError> {
    let catalog = source.catalog();
    let vhost = catalog.vhost_by_name(matched.at("vhost")).ok_or_else(ApiError::not_found)?;
    let name = matched.at("name");
    let name = if name == DEFAULT_EXCHANGE { "" } else { name };
    let exchange = catalog.exchange(vhost, name.as_bytes()).ok_or_else(ApiError::not_found)?;
    let key = query.get("routing_key").unwrap_or_default();
    if key.len() > NAME_BYTES_MAX {
        return Err(ApiError::bad_request(format!("routing_key has {NAME_BYTES_MAX} bytes at most")));
    }
    let properties = Properties { headers: headers(query)?, ..Properties::default() }.to_bytes();
    let (routing_key, properties) = (key.as_bytes(), RawProperties::new(&properties));
    let message = RouteQuestion { exchange, routing_key, properties, work_max: ROUTE_WORK_MAX };
    let route = source.find_route(message);
    let route = route.ok_or_else(|| ApiError::bad_request("there are too many bindings to look through"))?;
    let catalog = source.catalog();
    let queues = route.queues.iter().filter_map(|queue| catalog.queue_definition(queue.id));
    let held = route.held.iter().filter_map(|id| catalog.exchange_info(*id));
    let answer = JsonObject::new()
        .put("queues", texts(queues.map(|queue| &*queue.name)))
        .put("delayed_by", texts(held.map(|exchange| &*exchange.name)));
    Ok(Answer::json(answer.build(), &Columns::of(query)?))
}

fn headers(query: &Query) -> Result<Option<Table>, ApiError> {
    let Some(text) = query.get("headers").filter(|text| !text.is_empty()) else { return Ok(None) };
    let value = Json::read(text.as_bytes()).map_err(|why| ApiError::bad_request(format!("headers: {why}")))?;
    let table = definitions::table_of_json(&value);
    table.map(Some).map_err(|(place, why)| ApiError::bad_request(format!("headers{place}: {why}")))
}
