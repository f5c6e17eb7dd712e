//! The server properties and mechanisms of `connection.start`.
//!
//! Holds the only list of capabilities; it contains only what this broker implements.

use session::Greeting;
use wire::{Table, Value};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The product and version whose behaviour this broker has, for clients that recognise RabbitMQ by name only. kombu,
/// and Celery through it, changes the prefetch count of a running consumer with the global flag only for RabbitMQ 3.3
/// or later. For any other broker it clears the flag, which affects new consumers only: one task with an ETA too many
/// would block all others.
const SPEAKS_AS: (&str, &str) = ("RabbitMQ", "3.10.8");

/// SASL mechanisms in order of preference.
const MECHANISMS: &str = "PLAIN AMQPLAIN";
/// Mechanisms for clients that presented a certificate.
const MECHANISMS_EXTERNAL: &str = "PLAIN AMQPLAIN EXTERNAL";

/// Capabilities that clients look for (RabbitMQ extension, with RabbitMQ's names).
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

/// The greeting of a broker with this name.
pub fn greeting(cluster_name: &str) -> Greeting {
    with_mechanisms(MECHANISMS, cluster_name)
}

/// The greeting for clients that presented a certificate.
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
