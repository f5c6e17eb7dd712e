//! The identity of a broker: as in RabbitMQ, its cluster name and a virtual host. Addresses are none, since a broker may have
//! several and change them.

/// One virtual host of one broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BrokerIdentity {
    /// The property `cluster_name` of the broker, which no other broker may share.
    pub cluster_name: Box<str>,
    pub vhost: Box<str>,
}
