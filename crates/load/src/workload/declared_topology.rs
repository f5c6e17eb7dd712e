//! Declares a workload's exchanges, shared queues and bindings on the broker, and deletes them when dropped.
//!
//! Exclusive queues of consumers disappear with their connections; durable ones are deleted here, too.

use client::{Client, ClientChannel, ExchangeOptions, QueueOptions, Table, Url};

use super::process_messages::WorkloadContext;
use super::topology::WorkloadTopology;
use harness::tcp::queue_arguments;

/// The declared exchanges and queues.
pub struct DeclaredTopology {
    url: String,
    exchanges: Vec<String>,
    queues: Vec<String>,
    /// The run failed, and what it failed with is told.
    broker_may_be_gone: bool,
}

impl DeclaredTopology {
    /// Declares everything.
    pub fn create(common: &WorkloadContext, topology: &WorkloadTopology) -> Result<Self, String> {
        let mut stage =
            Self { url: common.url.clone(), exchanges: Vec::new(), queues: Vec::new(), broker_may_be_gone: false };
        stage.declare(common, topology).map_err(|error| error.to_string())?;
        Ok(stage)
    }

    /// After a failed run, a broker that is gone is no further error.
    pub fn tolerate_missing_broker(&mut self) {
        self.broker_may_be_gone = true;
    }

    fn declare(&mut self, common: &WorkloadContext, topology: &WorkloadTopology) -> client::Result<()> {
        let (mut client, channel) = connect(&self.url)?;
        for (index, exchange) in common.spec.exchanges.iter().enumerate() {
            let name = common.exchange(index);
            client.declare_exchange(channel, &name, exchange.kind.name(), &ExchangeOptions::default())?;
            self.exchanges.push(name);
        }
        for (queue, shared) in topology.queues.iter().zip(&common.spec.queues) {
            let name = common.queue(&queue.name);
            client.declare_queue(
                channel,
                &name,
                &QueueOptions {
                    durable: shared.durable,
                    arguments: queue_arguments(common.queue_bytes),
                    ..QueueOptions::default()
                },
            )?;
            self.queues.push(name.clone());
            for (exchange, key) in &queue.bindings {
                client.bind_queue(channel, &name, &common.exchange(*exchange), key, &Table::new())?;
            }
        }
        if common.spec.durable {
            let own = topology.queues.iter().skip(common.spec.queues.len());
            self.queues.extend(own.map(|queue| common.queue(&queue.name)));
        }
        client.close()
    }

    fn clear(&mut self) -> client::Result<()> {
        let (mut client, channel) = connect(&self.url)?;
        for queue in self.queues.drain(..) {
            client.delete_queue(channel, &queue, false, false)?;
        }
        for exchange in self.exchanges.drain(..) {
            client.delete_exchange(channel, &exchange, false)?;
        }
        client.close()
    }
}

impl Drop for DeclaredTopology {
    fn drop(&mut self) {
        if let Err(why) = self.clear()
            && !(self.broker_may_be_gone && is_gone(&why))
        {
            cli::print_error(&format!("harrier bench: the workload's queues and exchanges cannot be deleted: {why}"));
        }
    }
}

/// Whether the error means that the broker is gone, and with it everything declared.
fn is_gone(why: &client::ClientError) -> bool {
    matches!(
        why,
        client::ClientError::Link(_) | client::ClientError::Closed | client::ClientError::ConnectionClosed { .. }
    )
}

fn connect(url: &str) -> client::Result<(Client, ClientChannel)> {
    let options =
        client::ConnectOptions { name: Some("harrier bench workload".to_owned()), ..client::ConnectOptions::default() };
    let mut client = Client::connect_with(&Url::parse(url)?, options)?;
    let channel = client.open_channel()?;
    Ok((client, channel))
}
