//! Who a broker is, to other brokers.
//!
//! Enters: names.  Leaves: comparisons.
//! Owns:   that a broker is a cluster name and a virtual host, as in RabbitMQ.
//! Never:  an address: a broker may have many, and none of them for ever.

/// One virtual host of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokerIdentity {
    /// What the broker calls itself (`cluster_name` among its properties). Other brokers must have other names.
    pub cluster_name: Box<str>,
    /// The virtual host.
    pub vhost: Box<str>,
}
