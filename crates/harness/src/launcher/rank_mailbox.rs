//! A rank's mailbox: one exclusive queue on the broker, and one connection that carries no measured messages.
//!
//! Messages are published `mandatory` through the default exchange, so a message to a rank that has ended is returned.

use std::time::Duration;

use client::{Client, ClientChannel, ClientError, ConnectOptions, ConsumeOptions, Publish, QueueOptions, Url};
use mio::{Registry, Token};

use super::rank_message::{RankEnvelope, RankMessage};
use crate::limits::{MAILBOX_HEARTBEAT_S, RANK_MESSAGE_BYTES_MAX};

#[derive(Debug)]
pub enum MailboxEvent {
    /// A message, with its sender.
    Message(usize, RankMessage),
    /// A message was returned: this rank has no queue (any more).
    RankGone(usize),
}

/// A rank's mailbox.
pub struct RankMailbox {
    client: Client,
    channel: ClientChannel,
    names: RankQueueNames,
    rank: usize,
}

/// Queue names of a run.
#[derive(Clone, Debug)]
struct RankQueueNames {
    prefix: String,
}

impl RankQueueNames {
    fn of(run: &str) -> Self {
        Self { prefix: format!("harrier-bench.{run}.") }
    }

    fn queue(&self, rank: usize) -> String {
        format!("{}{rank}", self.prefix)
    }

    fn rank(&self, queue: &[u8]) -> Option<usize> {
        std::str::from_utf8(queue).ok()?.strip_prefix(&self.prefix)?.parse().ok()
    }
}

impl RankMailbox {
    /// Connects to the broker and declares this rank's queue.
    pub fn open(url: &str, run: &str, rank: usize) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let options = ConnectOptions {
            name: Some(format!("harrier bench rank {rank}")),
            heartbeat_s: MAILBOX_HEARTBEAT_S,
            ..ConnectOptions::default()
        };
        let failed =
            |error: ClientError| format!("the broker at {}, through which the ranks communicate: {error}", url.address);
        let mut client = Client::connect_with(&url, options).map_err(failed)?;
        let channel = client.open_channel().map_err(failed)?;
        let names = RankQueueNames::of(run);
        let queue = names.queue(rank);
        match client.declare_queue(channel, &queue, &QueueOptions { exclusive: true, ..QueueOptions::default() }) {
            Ok(_) => {}
            Err(ClientError::ChannelClosed { code: 405, .. }) => {
                return Err(format!("another process is rank {rank} of the run '{run}' on this broker"));
            }
            Err(error) => return Err(failed(error)),
        }
        let consume = ConsumeOptions { no_ack: true, exclusive: true, ..ConsumeOptions::default() };
        client.consume(channel, &queue, &consume).map_err(failed)?;
        Ok(Self { client, channel, names, rank })
    }

    /// Sends a message to a rank.
    pub fn send(&mut self, to: usize, message: RankMessage) -> Result<(), String> {
        let body = RankEnvelope { from: self.rank, message }.to_body()?;
        if body.len() > RANK_MESSAGE_BYTES_MAX {
            return Err(format!(
                "a message to rank {to} of {} bytes; the limit is {RANK_MESSAGE_BYTES_MAX}",
                body.len()
            ));
        }
        let queue = self.names.queue(to);
        let publish = Publish { mandatory: true, ..Publish::to("", &queue) };
        self.client.publish(self.channel, &publish, &body).and_then(|_| self.client.flush()).map_err(lost)
    }

    /// Waits for the next event; `None` on timeout.
    pub fn receive(&mut self, wait: Duration) -> Result<Option<MailboxEvent>, String> {
        if let Some(gone) = self.returned() {
            return Ok(Some(gone));
        }
        let came = match self.client.next_delivery(wait).map_err(lost)? {
            Some(delivery) => Some(RankEnvelope::from_body(delivery.body())?),
            None => None,
        };
        Ok(match came {
            Some(RankEnvelope { from, message }) => Some(MailboxEvent::Message(from, message)),
            None => self.returned(),
        })
    }

    /// A returned message identifies the rank whose queue is missing.
    fn returned(&mut self) -> Option<MailboxEvent> {
        self.client
            .take_returned()
            .and_then(|returned| self.names.rank(&returned.routing_key))
            .map(MailboxEvent::RankGone)
    }

    /// Registers the connection with a poll.
    pub fn register(&mut self, registry: &Registry, token: Token) -> Result<(), String> {
        self.client.register(registry, token).map_err(|error| error.to_string())
    }

    /// Closes the connection; the exclusive queue goes with it.
    pub fn close(self) -> Result<(), String> {
        self.client.close().map_err(lost)
    }
}

fn lost(error: ClientError) -> String {
    format!("the connection between the ranks: {error}")
}

#[cfg(test)]
mod tests {
    use super::RankQueueNames;

    #[test]
    fn queues_are_named_by_run_and_rank() {
        let names = RankQueueNames::of("77.0");
        assert_eq!(names.queue(12), "harrier-bench.77.0.12");
        for (queue, rank) in [
            ("harrier-bench.77.0.12", Some(12)),
            ("harrier-bench.77.1.12", None),
            ("harrier-bench.77.0.x", None),
            ("", None),
        ] {
            assert_eq!(names.rank(queue.as_bytes()), rank, "{queue}");
        }
    }
}
