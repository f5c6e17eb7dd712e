//! Headers exchange: the headers of a message against the arguments of the bindings.
//!
//! Enters: the message's headers.  Leaves: the bindings that they satisfy.
//! Owns:   the meaning of `x-match` (AMQP 0-9-1 §3.1.3.4; `all-with-x` and `any-with-x` are RabbitMQ's).
//! Never:  looks at a routing key.

use crate::{
    arguments::X_MATCH,
    binding::{Bindings, Head, Target, Through},
    refusal::Refusal,
};
use wire::{Table, TableRef, Value, ValueRef};

/// How many of a binding's headers must be there.
#[derive(Clone, Copy)]
struct Match {
    all: bool,
    /// Headers whose names begin with `x-` count as well.
    with_x: bool,
}

fn mode(value: Option<&Value>) -> Option<Match> {
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
    Some(Match { all, with_x })
}

/// Refuses a binding whose `x-match` is none.
pub(crate) fn check(arguments: &Table) -> Result<(), Refusal> {
    let value = arguments.get(X_MATCH);
    if mode(value).is_some() {
        return Ok(());
    }
    Err(match value {
        Some(Value::LongStr(mode)) => Refusal::precondition(format_args!(
            "Invalid x-match field value <<\"{}\">>; expected all, any, all-with-x, or any-with-x",
            String::from_utf8_lossy(mode)
        )),
        other => Refusal::precondition(format_args!(
            "Invalid x-match field type {} (value {}); expected longstr",
            other.map_or("void", Value::type_name),
            other.and_then(Value::as_i64).map_or_else(|| "of that type".into(), |value| value.to_string())
        )),
    })
}

pub(crate) fn route(bindings: &Bindings, from: Head, headers: TableRef<'_>, found: &mut Vec<Target>) {
    let satisfied = bindings.iter(Through::Source, from).filter(|&binding| match bindings.arguments(binding) {
        None => true,
        Some(arguments) => satisfies(headers, arguments),
    });
    found.extend(satisfied.map(|binding| bindings.get(binding).target));
}

fn satisfies(headers: TableRef<'_>, arguments: &Table) -> bool {
    let Some(Match { all, with_x }) = mode(arguments.get(X_MATCH)) else { return false };
    let mut wanted = arguments.iter().filter(|(name, _)| {
        let name = name.as_bytes();
        name != X_MATCH.as_bytes() && (with_x || !name.starts_with(b"x-"))
    });
    let holds = |(name, value): (wire::ShortStr<'_>, &Value)| {
        let header = headers.iter().map_while(Result::ok).find(|(found, _)| *found == name);
        header.is_some_and(|(_, header)| agrees(value, header))
    };
    if all { wanted.all(holds) } else { wanted.any(holds) }
}

/// A void argument asks for presence alone. Otherwise types must be of one class, and values equal.
fn agrees(wanted: &Value, header: ValueRef<'_>) -> bool {
    matches!(wanted, Value::Void) || (class(wanted.type_name()) == class(header.type_name()) && wanted.means(header))
}

/// Whole numbers of any width compare with each other, and so do both floats; other types with their own.
fn class(type_name: &'static str) -> &'static str {
    match type_name {
        "byte" | "unsignedbyte" | "short" | "unsignedshort" | "signedint" | "unsignedint" | "long" | "decimal" => "int",
        "double" => "float",
        other => other,
    }
}
