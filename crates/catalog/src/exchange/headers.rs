//! Headers exchange: the headers of a message against the arguments of the bindings.
//!
//! Enters: the message's headers.  Leaves: the bindings that they satisfy.
//! Owns:   the meaning of `x-match` (AMQP 0-9-1 §3.1.3.4; `all-with-x` and `any-with-x` are RabbitMQ's).

use crate::{
    arguments::{X_BOUND_FROM, X_HARRIER_WINDOW, X_MATCH, term},
    binding::{BindingList, BindingTable, BindingTarget, ListHead},
    refusal::Refusal,
};
use wire::{Table, TableRef, Value, ValueRef};

/// How many of a binding's headers must be there.
#[derive(Clone, Copy)]
struct MatchMode {
    all: bool,
    /// Headers whose names begin with `x-` count as well.
    with_x: bool,
}

fn mode(value: Option<&Value>) -> Option<MatchMode> {
    let (all, with_x) = match value {
        None => (true, false),
        Some(Value::LongStr(mode)) => match &**mode {
            b"all" => (true, false),
            b"any" => (false, false),
            b"all-with-x" => (true, true),
            b"any-with-x" => (false, true),
            _ => return None,
        },
        Some(_) => return None,
    };
    Some(MatchMode { all, with_x })
}

/// Refuses a binding whose `x-match` is none.
pub(crate) fn check(arguments: &Table) -> Result<(), Refusal> {
    let value = arguments.get(X_MATCH);
    if mode(value).is_some() {
        return Ok(());
    }
    Err(match value {
        Some(mode @ Value::LongStr(_)) => Refusal::precondition(format_args!(
            "Invalid x-match field value {}; expected all, any, all-with-x, or any-with-x",
            term(mode)
        )),
        Some(other) => Refusal::precondition(format_args!(
            "Invalid x-match field type {} (value {}); expected longstr",
            other.type_name(),
            term(other)
        )),
        None => unreachable!("without x-match all must match"),
    })
}

pub(crate) fn route(bindings: &BindingTable, from: ListHead, headers: TableRef<'_>, found: &mut Vec<BindingTarget>) {
    let satisfied = bindings.iter(BindingList::Source, from).filter(|&binding| match bindings.arguments(binding) {
        None => true,
        Some(arguments) => satisfies(headers, arguments),
    });
    found.extend(satisfied.map(|binding| bindings.get(binding).target));
}

fn satisfies(headers: TableRef<'_>, arguments: &Table) -> bool {
    let Some(MatchMode { all, with_x }) = mode(arguments.get(X_MATCH)) else { return false };
    let mut wanted = arguments.iter().filter(|(name, _)| {
        let name = name.as_bytes();
        // What brokers say of a mirrored binding is no header that anybody asks for.
        let is_asked = |name| [X_MATCH, X_BOUND_FROM, X_HARRIER_WINDOW].iter().all(|own| own.as_bytes() != name);
        !name.starts_with(b"x-") || (with_x && is_asked(name))
    });
    let holds = |(name, value): (wire::ShortStr<'_>, &Value)| {
        let header = headers.iter().map_while(Result::ok).find(|(found, _)| *found == name);
        header.is_some_and(|(_, header)| agrees(value, header))
    };
    if all { wanted.all(holds) } else { wanted.any(holds) }
}

/// A void argument asks for presence alone. Numbers of all types compare by value, and so do strings and bytes; what
/// is within lists and tables must have the same types as well. So RabbitMQ 3.10, where each value is one term of
/// Erlang, but a nested one carries its type.
fn agrees(wanted: &Value, header: ValueRef<'_>) -> bool {
    match (wanted, header) {
        (Value::Void, _) => true,
        (Value::List(wanted), ValueRef::List(header)) => header.to_list().is_ok_and(|header| header == *wanted),
        (Value::Table(wanted), ValueRef::Table(header)) => header.to_table().is_ok_and(|header| header == *wanted),
        _ => wanted.is_equivalent(header),
    }
}
