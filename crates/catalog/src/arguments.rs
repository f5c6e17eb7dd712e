//! Arguments of exchanges, queues and bindings: which are known, what they may be, when two are the same.
//!
//! Enters: tables as clients sent them.  Leaves: refusals as RabbitMQ words them.
//! Owns:   the lists of known arguments.

use crate::{
    limits::{ARGUMENTS_BYTES_MAX, NAME_BYTES_MAX},
    queue_type::{QUEUE_TYPE, QueueProperties, QueueType},
    refusal::{Refusal, ResourceName},
};
use std::borrow::Cow;
use wire::{Table, Value};

/// Letters that Erlang prints as two.
const ESCAPED: [(char, char); 9] = [
    ('"', '"'),
    ('\\', '\\'),
    ('\x08', 'b'),
    ('\t', 't'),
    ('\n', 'n'),
    ('\x0b', 'v'),
    ('\x0c', 'f'),
    ('\r', 'r'),
    ('\x1b', 'e'),
];

pub(crate) const ALTERNATE_EXCHANGE: &str = "alternate-exchange";
pub(crate) const HASH_HEADER: &str = "hash-header";
pub(crate) const HASH_PROPERTY: &str = "hash-property";
pub(crate) const DELAYED_TYPE: &str = "x-delayed-type";
pub(crate) const MAX_HOPS: &str = "x-max-hops";
pub(crate) const DOWNSTREAM_NAME: &str = "x-downstream-name";
pub(crate) const DOWNSTREAM_VHOST: &str = "x-downstream-vhost";
/// A header of messages: the brokers that have passed it on.
pub(crate) const X_RECEIVED_FROM: &str = "x-received-from";
/// A header of messages: what tells one from all others (Harrier extension).
pub const X_HARRIER_ID: &str = "x-harrier-id";
/// An argument of bindings between exchanges: what goes this way is stamped (Harrier extension).
pub const X_HARRIER_WINDOW: &str = "x-harrier-window";
/// An argument of bindings: the brokers by which a want has come (RabbitMQ's federation).
pub const X_BOUND_FROM: &str = "x-bound-from";
/// A header of messages.
pub const X_DELAY: &str = "x-delay";
pub(crate) const X_MATCH: &str = "x-match";
/// An argument of queues: where their dead letters go.
pub const DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
pub(crate) const DEAD_LETTER_ROUTING_KEY: &str = "x-dead-letter-routing-key";

/// Arguments in which an exchange declared again must be as it is.
const EXCHANGE_ARGUMENTS_COMPARED: &[&str] = &[ALTERNATE_EXCHANGE, MAX_HOPS];

/// Arguments in which a queue declared again must be as it is. Others are kept and not compared.
const QUEUE_ARGUMENTS_COMPARED: &[&str] = &[
    "x-expires",
    "x-message-ttl",
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_ROUTING_KEY,
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    QUEUE_TYPE,
    "x-queue-master-locator",
];

/// Milliseconds of the longest expiry that RabbitMQ takes: ten years.
const EXPIRY_MS_MAX: i64 = 10 * 365 * 24 * 3600 * 1000;
const PRIORITY_MAX: i64 = 255;
/// Bytes of arguments for one unit of work, beside the one for each of them.
const ARGUMENT_BYTES_A_UNIT: usize = 64;
/// Bytes after which nobody reads on: reply texts are short strings.
const TERM_BYTES_MAX: usize = 255;

/// Bindings with the same arguments in another order are the same, so they are kept in the order of their names.
pub(crate) fn sorted(table: &Table) -> Cow<'_, Table> {
    if table.iter().map(|(name, _)| name).is_sorted() {
        return Cow::Borrowed(table);
    }
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|&(name, _)| name);
    Cow::Owned(entries.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

pub(crate) fn boxed(table: &Table) -> Option<Box<Table>> {
    (!table.is_empty()).then(|| Box::new(table.clone()))
}

pub(crate) fn check_size(what: ResourceName<'_>, table: &Table) -> Result<(), Refusal> {
    let bytes = table.encoded_len();
    if bytes > ARGUMENTS_BYTES_MAX {
        return Err(Refusal::precondition(format_args!(
            "arguments of {bytes} bytes for {what}, {ARGUMENTS_BYTES_MAX} are the most"
        )));
    }
    Ok(())
}

/// Units of work of a definition with these arguments: they are looked through, copied, put in order and hashed.
pub(crate) fn work(table: &Table) -> u64 {
    (table.len() + table.encoded_len() / ARGUMENT_BYTES_A_UNIT) as u64
}

/// A name in an argument.
pub(crate) fn long_string<'a>(
    what: ResourceName<'_>,
    table: &'a Table,
    argument: &str,
) -> Result<Option<&'a [u8]>, Refusal> {
    match table.get(argument) {
        None => Ok(None),
        Some(Value::LongStr(name)) => Ok(Some(name)),
        Some(other) => Err(Refusal::precondition(format_args!(
            "invalid type '{}' for arg '{argument}' in {what}",
            other.type_name()
        ))),
    }
}

/// Whether an exchange declared again has the arguments that matter.
pub(crate) fn check_exchange_equivalence(
    what: ResourceName<'_>,
    current: Option<&Table>,
    received: &Table,
) -> Result<(), Refusal> {
    EXCHANGE_ARGUMENTS_COMPARED.iter().try_for_each(|argument| check_same(what, argument, current, received))
}

/// Whether a queue declared again has the arguments that matter.
pub(crate) fn check_queue_equivalence(
    what: ResourceName<'_>,
    current: Option<&Table>,
    received: &Table,
) -> Result<(), Refusal> {
    let of_type = QueueType::of(current).compared_arguments();
    QUEUE_ARGUMENTS_COMPARED
        .iter()
        .chain(of_type)
        .try_for_each(|argument| check_same(what, argument, current, received))
}

fn check_same(
    what: ResourceName<'_>,
    argument: &str,
    current: Option<&Table>,
    received: &Table,
) -> Result<(), Refusal> {
    let (current, received) = (current.and_then(|table| table.get(argument)), received.get(argument));
    match (current, received) {
        (None, None) => Ok(()),
        (Some(a), Some(b)) if same_term(a, b) => Ok(()),
        // No type is the same as this one.
        (Some(only), None) | (None, Some(only)) if argument == QUEUE_TYPE && only.as_str() == Some("classic") => Ok(()),
        (Some(a), Some(b)) => Err(Refusal::inequivalent(what, argument, &quoted(b), &quoted(a))),
        (current, received) => Err(Refusal::inequivalent(what, argument, &typed(received), &typed(current))),
    }
}

/// Whether RabbitMQ would hold the same term for both: whole numbers of any width, strings of either kind.
fn same_term(a: &Value, b: &Value) -> bool {
    fn whole(value: &Value) -> Option<i128> {
        match value {
            Value::Timestamp(seconds) => Some((*seconds).into()),
            _ => value.as_i64().map(i128::from),
        }
    }
    fn float(value: &Value) -> Option<f64> {
        match value {
            Value::F32(float) => Some((*float).into()),
            Value::F64(float) => Some(*float),
            _ => None,
        }
    }
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (float(a), float(b)) {
        // A queue declared again is as it was, whatever was not a number in its arguments.
        return a == b || (a.is_nan() && b.is_nan());
    }
    if let (Some(a), Some(b)) = (a.as_bytes(), b.as_bytes()) {
        return a == b;
    }
    a == b
}

/// A value beside another: nothing is none.
fn quoted(value: &Value) -> String {
    match value {
        Value::Void => "none".into(),
        value => format!("'{}'", shown(value)),
    }
}

fn typed(value: Option<&Value>) -> String {
    match value {
        None => "none".into(),
        Some(value) => format!("the value '{}' of type '{}'", shown(value), value.type_name()),
    }
}

/// A value for a text: strings as they are, the rest as RabbitMQ prints its terms.
pub(crate) fn shown(value: &Value) -> Cow<'_, str> {
    if let Some(bytes) = value.as_bytes() {
        return String::from_utf8_lossy(bytes);
    }
    term(value).into()
}

/// A value as RabbitMQ prints its terms, strings too.
pub(crate) fn term(value: &Value) -> String {
    let mut text = String::new();
    print_term(value, &mut text);
    text
}

/// Bytes as Erlang prints a binary: as text if all of it can be read in Latin 1.
fn print_bytes(bytes: &[u8], text: &mut String) {
    let readable = |byte: &u8| matches!(byte, b' '..=b'~' | 0xa0.. | 8..=13 | 27);
    if bytes.is_empty() {
        *text += "<<>>";
    } else if bytes.iter().all(readable) {
        *text += "<<\"";
        for letter in String::from_utf8_lossy(bytes).chars() {
            match ESCAPED.iter().find(|(plain, _)| *plain == letter) {
                Some((_, escaped)) => text.extend(['\\', *escaped]),
                None => text.push(letter),
            }
        }
        *text += "\">>";
    } else {
        let numbers: Vec<_> = bytes.iter().take(TERM_BYTES_MAX).map(u8::to_string).collect();
        *text += &format!("<<{}>>", numbers.join(","));
    }
}

/// A float always has a point.
fn print_float(float: f64, text: &mut String) {
    let digits = format!("{float:?}");
    match digits.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => *text += &format!("{mantissa}.0e{exponent}"),
        _ => *text += &digits,
    }
}

/// Prints a term, until it is longer than a reply text can be. Recurses no deeper than tables may nest.
fn print_term(value: &Value, text: &mut String) {
    if text.len() > TERM_BYTES_MAX {
        return;
    }
    match value {
        Value::LongStr(bytes) | Value::Bytes(bytes) => print_bytes(bytes, text),
        Value::Bool(value) => *text += &value.to_string(),
        // RabbitMQ reads both as the same kind of number.
        Value::F32(value) => print_float((*value).into(), text),
        Value::F64(value) => print_float(*value, text),
        Value::Timestamp(value) => *text += &value.to_string(),
        Value::Decimal(value) => *text += &format!("{{{},{}}}", value.scale, value.value),
        Value::List(list) => print_list(text, list.iter(), |value, text| {
            *text += value.type_name();
            text.push(',');
            print_term(value, text);
        }),
        Value::Table(table) => print_list(text, table.iter(), |(name, value), text| {
            *text += &format!("<<\"{name}\">>,{},", value.type_name());
            print_term(value, text);
        }),
        Value::I8(_) | Value::U8(_) | Value::I16(_) | Value::U16(_) | Value::I32(_) | Value::U32(_) | Value::I64(_) => {
            *text += &value.as_i64().unwrap_or_default().to_string();
        }
        Value::Void => *text += "undefined",
    }
}

fn print_list<T>(text: &mut String, values: impl Iterator<Item = T>, mut print: impl FnMut(T, &mut String)) {
    text.push('[');
    for (at, value) in values.enumerate() {
        if text.len() > TERM_BYTES_MAX {
            return;
        }
        *text += if at == 0 { "{" } else { ",{" };
        print(value, text);
        text.push('}');
    }
    text.push(']');
}

/// Checks the declaration of a new queue as RabbitMQ does. With `as_classic`, queues of all types are taken for classic ones, which
/// may have any argument.
pub(crate) fn check_queue(
    what: ResourceName<'_>,
    table: &Table,
    properties: QueueProperties,
    as_classic: bool,
) -> Result<(), Refusal> {
    check_size(what, table)?;
    long_string(what, table, DEAD_LETTER_EXCHANGE)?;
    let check = |argument: &str, valid: fn(&Value, &Table) -> Result<(), String>| match table.get(argument) {
        None => Ok(()),
        Some(value) => valid(value, table)
            .map_err(|why| Refusal::precondition(format_args!("invalid arg '{argument}' for {what}: {why}"))),
    };
    check(
        QUEUE_TYPE,
        match as_classic {
            true => |value, _| one_of(value, &["classic", "quorum", "stream"], unsupported_type),
            false => |value, _| one_of(value, &["classic", "quorum"], unsupported_type),
        },
    )?;
    check("x-expires", |value, _| match whole(value)? {
        0 => Err("{value_zero,0}".into()),
        ms => expiry(ms),
    })?;
    check("x-message-ttl", |value, _| expiry(whole(value)?))?;
    check(DEAD_LETTER_ROUTING_KEY, |value, table| {
        if text(value)?.len() > NAME_BYTES_MAX {
            return Err("\"a routing key has at most 255 bytes\"".into());
        }
        match table.get(DEAD_LETTER_EXCHANGE) {
            Some(_) => Ok(()),
            None => Err("routing_key_but_no_dlx_defined".into()),
        }
    })?;
    for count in ["x-max-length", "x-max-length-bytes"] {
        check(count, |value, _| not_negative(value).map(drop))?;
    }
    check("x-max-priority", |value, _| match not_negative(value)? {
        ..=PRIORITY_MAX => Ok(()),
        value => Err(format!("{{max_value_exceeded,{value}}}")),
    })?;
    check("x-overflow", |value, _| {
        one_of(value, &["drop-head", "reject-publish", "reject-publish-dlx"], |_| "invalid_overflow".into())
    })?;
    check("x-queue-mode", |value, _| {
        one_of(value, &["default", "lazy"], |value| format!("\"unsupported queue mode '{value}'\""))
    })?;
    check("x-queue-version", |value, _| match not_negative(value)? {
        1 | 2 => Ok(()),
        value => Err(format!("\"unsupported queue version '{value}'\"")),
    })?;
    check("x-single-active-consumer", |value, _| match value {
        Value::Bool(_) => Ok(()),
        other => Err(unacceptable(other)),
    })?;
    let queue_type = QueueType::of(Some(table));
    if as_classic || queue_type == QueueType::Quorum {
        // RabbitMQ 4: a negative number is no limit.
        check("x-delivery-limit", |value, _| whole(value).map(drop))?;
    }
    if as_classic {
        return Ok(());
    }
    let foreign = queue_type.foreign_arguments();
    if let Some((name, _)) = table.iter().find(|(name, _)| foreign.iter().any(|other| name == other)) {
        let module = queue_type.module();
        return Err(Refusal::precondition(format_args!("invalid arg '{name}' for {what} of queue type {module}")));
    }
    check("x-quorum-initial-group-size", |value, _| match not_negative(value)? {
        0 => Err("{value_zero,0}".into()),
        _ => Ok(()),
    })?;
    for count in ["x-max-in-memory-length", "x-max-in-memory-bytes"] {
        check(count, |value, _| not_negative(value).map(drop))?;
    }
    check("x-dead-letter-strategy", |value, _| {
        one_of(value, &["at-most-once", "at-least-once"], |_| "invalid_dlx_strategy".into())
    })?;
    check("x-queue-leader-locator", |value, _| {
        let known = ["client-local", "balanced", "random", "least-leaders"];
        one_of(value, &known, |_| "invalid_queue_locator_arg".into())
    })?;
    queue_type.check_properties(what, properties)
}

fn unsupported_type(value: &str) -> String {
    match value {
        "stream" => "\"unsupported queue type 'stream': declare a quorum queue, or set queue_types_as_classic\"".into(),
        _ => format!("\"unsupported queue type '{value}'\""),
    }
}

fn unacceptable(value: &Value) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

fn whole(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("\"expected integer, got {}\"", value.type_name()))
}

fn not_negative(value: &Value) -> Result<i64, String> {
    match whole(value)? {
        value @ 0.. => Ok(value),
        value => Err(format!("{{value_negative,{value}}}")),
    }
}

fn expiry(ms: i64) -> Result<(), String> {
    match ms {
        ..0 => Err(format!("{{value_negative,{ms}}}")),
        0..=EXPIRY_MS_MAX => Ok(()),
        _ => Err(format!("{{value_too_large,{ms}}}")),
    }
}

fn text(value: &Value) -> Result<&[u8], String> {
    match value {
        Value::LongStr(bytes) => Ok(bytes),
        other => Err(unacceptable(other)),
    }
}

fn one_of(value: &Value, known: &[&str], otherwise: fn(&str) -> String) -> Result<(), String> {
    let bytes = text(value)?;
    if known.iter().any(|known| known.as_bytes() == bytes) {
        return Ok(());
    }
    Err(otherwise(&String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::{shown, term};
    use wire::{List, Table, Value};

    #[test]
    fn values_are_shown_as_rabbitmq_prints_them() {
        let list = Value::List([Value::I32(5), Value::text("a")].into_iter().collect::<List>());
        assert_eq!(shown(&list), "[{signedint,5},{longstr,<<\"a\">>}]");
        let table = Value::Table(Table::new().with("a", Value::Bool(true)).expect("a short name"));
        assert_eq!(shown(&table), "[{<<\"a\">>,bool,true}]");
        assert_eq!(shown(&Value::text("a")), "a");
        assert_eq!(shown(&Value::Void), "undefined");
        for (value, expect) in [
            (Value::F64(5.0), "5.0"),
            (Value::F64(1e300), "1.0e300"),
            (Value::F64(1.5e300), "1.5e300"),
            (Value::F32(0.5), "0.5"),
            (Value::text(""), "<<>>"),
            (Value::text("a\"b"), "<<\"a\\\"b\">>"),
            (Value::Bytes([b'a'].into()), "<<\"a\">>"),
            (Value::Bytes([0, 255].into()), "<<0,255>>"),
        ] {
            assert_eq!(term(&value), expect);
        }
        let deep = (0..100).fold(Value::I32(1), |inner, _| Value::List([inner].into_iter().collect::<List>()));
        assert!(shown(&deep).len() < 1000, "a text that no peer can make large");
        let wide = Value::List((0..100_000).map(Value::I32).collect::<List>());
        assert!(shown(&wide).len() < 1000, "a text that no peer can make large");
    }
}
