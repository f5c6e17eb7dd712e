//! What the broker says of itself in `connection.start`.
//!
//! Enters: nothing.  Leaves: the server's properties and mechanisms.
//! Owns:   the one list of capabilities. What is not true of this broker is not in it.
//! Never:  depends on the client.

use session::Greeting;
use wire::{Table, Value};

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// SASL mechanisms in the order of preference.
const MECHANISMS: &str = "PLAIN AMQPLAIN";
/// The same for clients that have shown a certificate.
const MECHANISMS_EXTERNAL: &str = "PLAIN AMQPLAIN EXTERNAL";

/// Extensions that clients look for (RabbitMQ extension, by RabbitMQ's names).
const CAPABILITIES: [&str; 9] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
];

/// The greeting.
pub fn greeting() -> Greeting {
    offering(MECHANISMS)
}

/// The greeting for clients that have shown a certificate.
pub fn greeting_external() -> Greeting {
    offering(MECHANISMS_EXTERNAL)
}

fn offering(mechanisms: &str) -> Greeting {
    let capabilities = table(CAPABILITIES.map(|name| (name, Value::Bool(true))));
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let text = |text: &str| Value::LongStr(text.as_bytes().into());
    let properties = table([
        ("capabilities", Value::Table(capabilities)),
        ("copyright", text("Copyright the authors of Harrier")),
        ("information", text("Licensed under the Apache License, version 2.0")),
        ("platform", text(&platform)),
        ("product", text("Harrier")),
        ("version", text(VERSION)),
    ]);
    Greeting::new(&properties, mechanisms)
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value).expect("the names above are short"))
}
