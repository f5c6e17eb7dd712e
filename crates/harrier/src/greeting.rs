//! What the broker says of itself in `connection.start`.
//!
//! Enters: the broker's name.  Leaves: the server's properties and mechanisms.
//! Owns:   the one list of capabilities: what is not true of this broker is not in it. The name it answers to.
//! Never:  depends on the client.

use session::Greeting;
use wire::{Table, Value};

/// The version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The product and the version whose ways this broker has. Clients that ask know RabbitMQ's ways by its name alone: kombu,
/// and Celery by it, raises the prefetch count of a running consumer by the global flag only with RabbitMQ 3.3 or later. With
/// any other it clears the flag, as the specification has it, which reaches new consumers alone here as there: one task
/// with an eta too many would hold up all others.
const SPEAKS_AS: (&str, &str) = ("RabbitMQ", "3.10.8");

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

/// The greeting of a broker of this name.
pub fn greeting(cluster_name: &str) -> Greeting {
    with_mechanisms(MECHANISMS, cluster_name)
}

/// The greeting for clients that have shown a certificate.
pub fn greeting_external(cluster_name: &str) -> Greeting {
    with_mechanisms(MECHANISMS_EXTERNAL, cluster_name)
}

fn with_mechanisms(mechanisms: &str, cluster_name: &str) -> Greeting {
    let capabilities = table(CAPABILITIES.map(|name| (name, Value::Bool(true))));
    let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let text = |text: &str| Value::LongStr(text.as_bytes().into());
    let properties = table([
        ("capabilities", Value::Table(capabilities)),
        ("cluster_name", text(cluster_name)),
        ("copyright", text("Copyright the authors of Harrier")),
        ("harrier", text(VERSION)),
        ("information", text("Harrier. Licensed under the Apache License, version 2.0")),
        ("platform", text(&platform)),
        ("product", text(SPEAKS_AS.0)),
        ("version", text(SPEAKS_AS.1)),
    ]);
    Greeting::new(&properties, mechanisms)
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value).expect("the names above are short"))
}
