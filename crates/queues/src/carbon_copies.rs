//! Sender-selected distribution: further routing keys in the headers `CC` and `BCC` (RabbitMQ extension).

use crate::death_events::copy_entries;
use crate::limits::KEYS_PER_WORK;
use crate::message::Content;
use crate::work_budget::WorkBudget;
use catalog::{Catalog, ExchangeId, KeyedRoute, QueueRoute, Refusal};
use std::sync::Arc;
use wire::{RawProperties, ReplyCode, TableRef, ValueRef};

/// What differs from a publish as it came: further routing keys, other properties.
#[derive(Default)]
pub struct PublishRewrite {
    /// The routing keys behind the first.
    pub keys: Vec<Box<[u8]>>,
    /// Those of `BCC`, packed.
    pub bcc: Vec<u8>,
    /// The properties without `BCC`, or with another stamp.
    pub properties: Option<Vec<u8>>,
}

impl PublishRewrite {
    /// The properties with which a publish goes on.
    #[inline]
    pub fn current<'a>(properties: RawProperties<'a>, rewrite: &'a Option<PublishRewrite>) -> RawProperties<'a> {
        let changed = rewrite.as_ref().and_then(|rewrite| rewrite.properties.as_deref());
        changed.map_or(properties, RawProperties::new)
    }
}

/// The further routing keys of a publish; `None` if it has neither header. Adds its keys, and the
/// entries of its headers that are copied, to the work.
#[cold]
pub fn parse(properties: RawProperties<'_>, work: &mut usize) -> Result<Option<PublishRewrite>, Refusal> {
    let Some(headers) = properties.headers() else { return Ok(None) };
    let (cc, bcc) = (headers.get("CC"), headers.get("BCC"));
    if cc.is_none() && bcc.is_none() {
        return Ok(None);
    }
    let mut keys = Vec::new();
    // In the end: the number of keys of `CC`, which come before those of `BCC`.
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
            *work += copy_entries(TableRef::new(headers), out, |name| name != b"BCC");
        });
        out
    });
    *work += keys.len() / KEYS_PER_WORK;
    let bcc = crate::bcc::pack(keys[visible..].iter().map(|key| &**key));
    Ok(Some(PublishRewrite { keys, bcc, properties }))
}

/// The keys in `CC` of a message that is routed again.
fn in_cc(properties: RawProperties<'_>) -> Vec<Box<[u8]>> {
    match properties.headers().and_then(|headers| headers.get("CC")) {
        Some(ValueRef::List(list)) => list.iter().filter_map(key).collect(),
        _ => Vec::new(),
    }
}

/// A key in a list. A value that is no text, or longer than a binding's key can be, matches nothing.
fn key(value: Result<ValueRef<'_>, wire::DecodeError>) -> Option<Box<[u8]>> {
    match value {
        Ok(ValueRef::LongStr(key)) if key.len() <= catalog::limits::NAME_BYTES_MAX => Some(key.into()),
        _ => None,
    }
}

/// The search for the queues of a message with further routing keys.
pub fn search_all(exchange: ExchangeId, routing_key: &[u8], further_keys: &[Box<[u8]>]) -> KeyedRoute {
    KeyedRoute::new(exchange, std::iter::once(routing_key).chain(further_keys.iter().map(|key| &**key)))
}

/// Finds the queues of a message that is routed a second time: a dead letter, or one that was delayed. Returns the search where
/// the budget of the turn is spent before it has ended.
pub fn find_again(
    exchange: ExchangeId,
    content: &Content<'_>,
    catalog: &mut Catalog,
    work: &mut WorkBudget,
) -> Result<Arc<QueueRoute>, Box<KeyedRoute>> {
    let properties = content.properties();
    let visible = if properties.has_headers() { in_cc(properties) } else { Vec::new() };
    if visible.is_empty() && content.bcc.is_empty() {
        return find(exchange, content.routing_key, properties, catalog, work);
    }
    work.draw((visible.len() + crate::bcc::unpack(content.bcc).count()) / KEYS_PER_WORK);
    let further = visible.iter().map(|key| &**key).chain(crate::bcc::unpack(content.bcc));
    let mut search = Box::new(KeyedRoute::new(exchange, std::iter::once(content.routing_key).chain(further)));
    continue_search(&mut search, properties, catalog, work).ok_or(search)
}

/// Finds the queues of a message by its routing key alone. Returns the search where it takes more than is left of the budget.
#[inline(never)]
pub fn find(
    exchange: ExchangeId,
    routing_key: &[u8],
    properties: RawProperties<'_>,
    catalog: &mut Catalog,
    work: &mut WorkBudget,
) -> Result<Arc<QueueRoute>, Box<KeyedRoute>> {
    // What it comes upon is put together then, which is as much again.
    let work_max = (work.left() / 2).max(work.grace() as u64);
    let route = catalog.route_within(exchange, routing_key, properties, work_max);
    work.draw(catalog.take_work() as usize);
    match route {
        Ok(route) => Ok(route),
        Err(search) => search_on(search, properties, catalog, work),
    }
}

/// Only a turn whose budget is spent leaves a search: what follows in this turn would overtake it. One that is spent by the walk
/// does not begin the search, whose first piece may be as much again.
#[cold]
fn search_on(
    mut search: Box<KeyedRoute>,
    properties: RawProperties<'_>,
    catalog: &mut Catalog,
    work: &mut WorkBudget,
) -> Result<Arc<QueueRoute>, Box<KeyedRoute>> {
    if work.is_spent() {
        return Err(search);
    }
    continue_search(&mut search, properties, catalog, work).ok_or(search)
}

/// Goes on with a search as far as the budget of the turn allows. Returns the route once it is found.
pub fn continue_search(
    search: &mut KeyedRoute,
    properties: RawProperties<'_>,
    catalog: &mut Catalog,
    work: &mut WorkBudget,
) -> Option<Arc<QueueRoute>> {
    let route = catalog.continue_route(search, properties, work.left());
    work.draw(catalog.take_work() as usize);
    route
}

#[cfg(test)]
mod tests {
    use super::parse;
    use wire::{List, Properties, RawProperties, Table, Value};

    #[test]
    fn keys_of_bcc_leave_the_headers_and_keys_of_cc_stay() {
        let list = |keys: &[&str]| {
            let mut list = List::new();
            keys.iter().for_each(|key| list.push(Value::text(key)));
            Value::List(list)
        };
        let headers = Table::new().with("CC", list(&["a", "b"])).and_then(|table| table.with("BCC", list(&["c"])));
        let properties = Properties { headers: headers.ok(), ..Properties::default() }.to_bytes();
        let rewrite = parse(RawProperties::new(&properties), &mut 0).expect("lists").expect("both headers");
        assert_eq!(rewrite.keys.iter().map(|key| &**key).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!(crate::bcc::unpack(&rewrite.bcc).collect::<Vec<_>>(), [b"c"]);
        let rewritten = rewrite.properties.expect("BCC is gone");
        let headers = RawProperties::new(&rewritten).headers().expect("CC is left");
        assert!(headers.get("CC").is_some() && headers.get("BCC").is_none());
        assert!(parse(RawProperties::EMPTY, &mut 0).expect("no headers").is_none());
        let headers = Table::new().with("CC", Value::I32(1)).ok();
        let properties = Properties { headers, ..Properties::default() }.to_bytes();
        assert!(parse(RawProperties::new(&properties), &mut 0).is_err());
    }
}
