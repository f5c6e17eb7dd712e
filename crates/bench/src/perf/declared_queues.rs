//! Very many queues that one client declares without waiting for each.

use client::{Client, QueueOptions};
use gauge::clock::now_ns;

use harness::role_client::connect;
use harness::target::{BenchmarkTarget, TargetAddress};

/// The queues, as long as their client is there if they are its own.
pub(super) struct DeclaredQueues {
    client: Client,
    /// Until all of them were declared, and durable if they are to be.
    pub seconds: f64,
}

impl DeclaredQueues {
    /// # Errors
    /// The target is no broker, or refuses a queue.
    pub fn declare(target: &BenchmarkTarget, count: u64, options: &QueueOptions) -> Result<Self, String> {
        let TargetAddress::Amqp(url) = &target.address else { return Err("the target has no queues".to_owned()) };
        let declare = || -> client::Result<Self> {
            let mut client = connect(url, "declarations")?;
            let channel = client.open_channel()?;
            let began_ns = now_ns();
            for index in 1..count {
                client.declare_queue_unanswered(channel, &format!("harrier-perf-{index}"), options)?;
            }
            // Its answer comes once all of them are declared, and durable.
            client.declare_queue(channel, "harrier-perf-0", options)?;
            Ok(Self { client, seconds: (now_ns() - began_ns) as f64 / 1e9 })
        };
        declare().map_err(|error| format!("{count} queues at {}: {error}", target.name))
    }

    /// Ends the client.
    pub fn close(self) -> Result<(), String> {
        self.client.close().map_err(|error| error.to_string())
    }
}
