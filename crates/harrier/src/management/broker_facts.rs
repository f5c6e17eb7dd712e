//! What the management API says of the broker that does not change while it runs.

use crate::greeting;
use crate::management::BoundListeners;
use crate::management::clock::now_ms;
use config::{BrokerConfig, Machine};
use link::{Address, TlsServer};
use management::{BrokerFacts, ListenerFacts};

/// Letters of a node's host.
const HOST_LETTERS_MAX: usize = 60;

/// Who a broker is: its cluster, and the number of its store, if it has one.
pub struct ClusterIdentity<'a> {
    pub cluster_name: &'a str,
    pub store_id: Option<u128>,
    pub shards: u16,
}

/// The facts of a broker that listens at these addresses.
pub fn broker_facts(
    config: &BrokerConfig,
    machine: &Machine,
    identity: &ClusterIdentity<'_>,
    addresses: &[String],
    tls: Option<&TlsServer>,
    bound: &BoundListeners,
) -> BrokerFacts {
    let expires = tls.and_then(crate::tls::expires_s);
    let amqp = addresses.iter().filter_map(|address| amqp_listener(&address.parse().ok()?, expires));
    BrokerFacts {
        node: node_name(&rustix::system::uname().nodename().to_string_lossy()),
        cluster_name: identity.cluster_name.to_owned(),
        product_version: greeting::VERSION.to_owned(),
        listeners: amqp.chain(bound.facts.iter().cloned()).collect(),
        started_ms: now_ms(),
        process_id: std::process::id(),
        processors: u32::try_from(machine.cores).unwrap_or(u32::MAX),
        config_files: config.file.iter().map(|path| path.display().to_string()).collect(),
        log_files: Vec::new(),
        state_folder: config.state_folder().unwrap_or_default().to_owned(),
        shards: identity.shards,
        loopback_users: config.loopback_users.clone(),
        cluster_id: identity.store_id.map_or_else(|| identity.cluster_name.to_owned(), |id| format!("{id:032x}")),
    }
}

/// RabbitMQ's tools expect a node of this form.
fn node_name(host: &str) -> String {
    let short = host.split('.').next().unwrap_or_default();
    let short: String = short
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-')
        .take(HOST_LETTERS_MAX)
        .collect();
    format!("rabbit@{}", if short.is_empty() { "localhost" } else { &short })
}

/// A listener as tools know it; a Unix socket has no port.
fn amqp_listener(address: &Address, certificate_expires_s: Option<u64>) -> Option<ListenerFacts> {
    let (protocol, host, port) = match address {
        Address::Tcp { host, port } => ("amqp", host, port),
        Address::Tls { host, port } => ("amqp/ssl", host, port),
        Address::Rdma { host, port } => ("amqp/rdma", host, port),
        Address::Rsocket { host, port } => ("amqp/rsocket", host, port),
        Address::Unix(_) => return None,
    };
    let certificate_expires_s = certificate_expires_s.filter(|_| protocol == "amqp/ssl");
    Some(ListenerFacts { protocol, ip_address: host.to_string(), port: *port, certificate_expires_s })
}

#[cfg(test)]
mod tests {
    use super::{amqp_listener, node_name};

    #[test]
    fn a_node_has_the_short_name_of_its_host() {
        for (host, node) in [("db1.example", "rabbit@db1"), ("a_b\n", "rabbit@ab"), ("", "rabbit@localhost")] {
            assert_eq!(node_name(host), node);
        }
    }

    #[test]
    fn listeners_have_the_names_by_which_tools_ask_for_them() {
        let told = |text: &str| {
            let found = amqp_listener(&text.parse().expect("an address"), Some(7))?;
            Some((found.protocol, found.ip_address, found.port, found.certificate_expires_s))
        };
        assert_eq!(told("[::1]:5672"), Some(("amqp", "::1".to_owned(), 5_672, None)));
        assert_eq!(told("tls://127.0.0.1:5671"), Some(("amqp/ssl", "127.0.0.1".to_owned(), 5_671, Some(7))));
        assert_eq!(told("unix:/run/h.sock"), None);
    }
}
