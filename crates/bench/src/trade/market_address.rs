//! What the programs of a market need on the broker: one direct exchange, and a queue for each of them under a routing key of its own.
//!
//! Enters: a URL, a name.  Leaves: a connection with everything declared; names of queues and keys.
//! Owns:   the names, which every program declares alike, so that it does not matter which one comes first.
//! Never:  deletes what another program may still need, but when it is told that the market is over.

use client::{Channel, Client, ExchangeOptions, Options, QueueOptions, Table, Url};
use serde::{Deserialize, Serialize};

/// The routing key of orders.
pub(crate) const ORDERS: &str = "orders";
/// The routing key of measurements.
pub(crate) const STATISTICS: &str = "statistics";

/// The routing key of rejections whose sender is not known. A reporter listens, as long as it is there.
pub(crate) const REJECTS: &str = "rejects";

/// Where a market is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MarketAddress {
    /// The broker.
    pub url: String,
    /// The name of the exchange; names of queues begin with it.
    pub name: String,
    /// How many gateways trade there.
    pub gateways: u16,
}

impl MarketAddress {
    /// The routing key of what is for a gateway.
    pub(crate) fn trades(gateway: u16) -> String {
        format!("trades.{gateway}")
    }

    /// The queue that is bound with a key.
    pub(crate) fn queue(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// Every routing key.
    fn keys(&self) -> Vec<String> {
        let fixed = [ORDERS, STATISTICS].map(str::to_owned);
        fixed.into_iter().chain((0..self.gateways).map(Self::trades)).collect()
    }

    /// Connects, and declares all that the market needs.
    pub(crate) fn connect(&self, program: &str, flush_bytes: usize) -> client::Result<(Client, Channel)> {
        let name = Some(format!("harrier market {program}"));
        let options = Options { name, flush_bytes, ..Options::default() };
        let mut client = Client::connect_with(&Url::parse(&self.url)?, options)?;
        if let Some(why) = client.fell_back() {
            eprintln!("harrier market: {program}: reached by TCP, not over RDMA: {why}");
        }
        let channel = client.open_channel()?;
        client.declare_exchange(channel, &self.name, "direct", &ExchangeOptions::default())?;
        for key in self.keys() {
            let queue = self.queue(&key);
            client.declare_queue(channel, &queue, &QueueOptions::default())?;
            client.bind_queue(channel, &queue, &self.name, &key, &Table::new())?;
        }
        Ok((client, channel))
    }

    /// Deletes all that was declared.
    pub(crate) fn delete_all(&self) -> client::Result<()> {
        let options = Options { name: Some("harrier market".to_owned()), ..Options::default() };
        let mut client = Client::connect_with(&Url::parse(&self.url)?, options)?;
        let channel = client.open_channel()?;
        for key in self.keys() {
            client.delete_queue(channel, &self.queue(&key), false, false)?;
        }
        client.delete_exchange(channel, &self.name, false)?;
        client.close()
    }
}
