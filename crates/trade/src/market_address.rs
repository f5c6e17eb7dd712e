//! A market's objects on the broker: a direct exchange, and a queue for each program with a routing key of its own.
//!
//! Every program declares the same objects, so they may start in any order.

use client::{Client, ClientChannel, ConnectOptions, ExchangeOptions, QueueOptions, Table, Url};
use serde::{Deserialize, Serialize};

/// Routing key of orders.
pub(crate) const ORDERS: &str = "orders";
/// Routing key of measurements.
pub(crate) const STATISTICS: &str = "statistics";

/// Routing key of rejections whose sender is unknown; a reporter consumes them while it runs.
pub(crate) const REJECTS: &str = "rejects";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MarketAddress {
    /// The broker.
    pub url: String,
    /// Name of the exchange, and prefix of the queue names.
    pub name: String,
    /// Number of gateways.
    pub gateways: u16,
}

impl MarketAddress {
    /// Routing key of messages to a gateway.
    pub(crate) fn trades(gateway: u16) -> String {
        format!("trades.{gateway}")
    }

    /// The queue bound with a key.
    pub(crate) fn queue(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn keys(&self) -> Vec<String> {
        let fixed = [ORDERS, STATISTICS].map(str::to_owned);
        fixed.into_iter().chain((0..self.gateways).map(Self::trades)).collect()
    }

    /// Connects, and declares all objects of the market.
    pub(crate) fn connect(&self, program: &str, flush_bytes: usize) -> client::Result<(Client, ClientChannel)> {
        let name = Some(format!("harrier market {program}"));
        let options = ConnectOptions { name, flush_bytes, ..ConnectOptions::default() };
        let mut client = Client::connect_with(&Url::parse(&self.url)?, options)?;
        if let Some(why) = client.used_fallback() {
            cli::print_error(&format!("harrier market: {program}: reached by TCP, not over RDMA: {why}"));
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

    /// Deletes all objects of the market.
    pub(crate) fn delete_all(&self) -> client::Result<()> {
        let options = ConnectOptions { name: Some("harrier market".to_owned()), ..ConnectOptions::default() };
        let mut client = Client::connect_with(&Url::parse(&self.url)?, options)?;
        let channel = client.open_channel()?;
        for key in self.keys() {
            client.delete_queue(channel, &self.queue(&key), false, false)?;
        }
        client.delete_exchange(channel, &self.name, false)?;
        client.close()
    }
}
