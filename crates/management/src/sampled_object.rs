//! What can have a history, and the numbers of it that are read each time.

use crate::broker_views::NODE_ZEROS;
use crate::live::{LiveChannel, LiveConnection, MessageCounts, WaitingMessages};
use crate::object_history::Reading;
use crate::sample_range::SampleKind::{self, DataRates, Lengths, MessageRates, NodeStatistics};
use crate::source::Source;
use catalog::{ExchangeId, QueueId, VhostId};
use std::collections::{HashMap, HashSet};

/// An object with numbers that change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SampledObject {
    Broker,
    Node,
    Vhost(VhostId),
    Queue(QueueId),
    Exchange(ExchangeId),
    /// By its name.
    Connection(String),
    /// By the name of its connection and its number.
    Channel(String, u16),
}

/// Virtual hosts that there are; and connections and channels by their names, if some of them are asked for.
pub struct LiveObjects<'a> {
    vhosts: HashSet<VhostId>,
    connections: HashMap<&'a str, &'a LiveConnection>,
    channels: HashMap<(&'a str, u16), &'a LiveChannel>,
}

impl<'a> LiveObjects<'a> {
    pub fn of<'b>(source: &'a dyn Source, mut objects: impl Iterator<Item = &'b SampledObject>) -> Self {
        let is_live =
            |object: &SampledObject| matches!(object, SampledObject::Connection(_) | SampledObject::Channel(..));
        let vhosts = source.catalog().vhosts().map(|(id, _)| id).collect();
        if !objects.any(is_live) {
            return Self { vhosts, connections: HashMap::new(), channels: HashMap::new() };
        }
        Self {
            vhosts,
            connections: source.connections().iter().map(|of| (&*of.name, of)).collect(),
            channels: source.channels().iter().map(|of| ((&*of.connection, of.number), of)).collect(),
        }
    }
}

/// The numbers of an object, always in the same order; `None` if it is gone.
pub fn readings(source: &dyn Source, live: &LiveObjects<'_>, object: &SampledObject) -> Option<Vec<Reading>> {
    let mut found = Readings(Vec::new());
    match object {
        SampledObject::Broker => {
            let counts = source.counts();
            found.messages(&counts.messages);
            found.all(
                MessageRates,
                [("disk_reads", counts.disk_reads.total), ("disk_writes", counts.disk_writes.total)],
            );
            found.waiting(&counts.waiting);
            found.all(NodeStatistics, counts.churn.named().map(|(name, count)| (name, count.total)));
        }
        SampledObject::Node => {
            let counts = source.counts();
            let resources = counts.resources;
            let used = [
                ("mem_used", resources.memory_bytes),
                ("fd_used", resources.descriptors),
                ("sockets_used", resources.sockets),
                ("proc_used", resources.threads),
                ("disk_free", resources.disk_free_bytes),
            ];
            found.all(NodeStatistics, used);
            found.all(NodeStatistics, counts.churn.named().map(|(name, count)| (name, count.total)));
            found.all(NodeStatistics, counts.io.named().map(|(name, count)| (name, count.total)));
            found.times(NodeStatistics, counts.io.averages_ms());
            found.all(NodeStatistics, NODE_ZEROS.map(|name| (name, 0)));
        }
        SampledObject::Vhost(id) => {
            live.vhosts.get(id)?;
            let counts = source.vhost_counts(*id);
            found.messages(&counts.messages);
            found.waiting(&counts.waiting);
            found.bytes(counts.received_bytes.total, counts.sent_bytes.total);
        }
        SampledObject::Queue(id) => {
            source.catalog().queue_definition(*id)?;
            let counts = source.queue_counts(*id);
            found.messages(&counts.messages);
            found.waiting(&counts.waiting);
            found.all(MessageRates, [("reductions", 0)]);
        }
        SampledObject::Exchange(id) => {
            source.catalog().exchange_info(*id)?;
            let counts = source.exchange_counts(*id);
            let passed = [("publish_in", counts.publish_in.total), ("publish_out", counts.publish_out.total)];
            found.all(MessageRates, passed);
        }
        SampledObject::Connection(name) => {
            let of = live.connections.get(&**name)?;
            found.bytes(of.received_bytes.total, of.sent_bytes.total);
            found.all(DataRates, [("reductions", 0)]);
        }
        SampledObject::Channel(connection, number) => {
            found.messages(&live.channels.get(&(&**connection, *number))?.messages);
            found.all(MessageRates, [("reductions", 0)]);
        }
    }
    Some(found.0)
}

struct Readings(Vec<Reading>);

impl Readings {
    fn all(&mut self, kind: SampleKind, numbers: impl IntoIterator<Item = (&'static str, u64)>) {
        self.0.extend(numbers.into_iter().map(|(name, value)| Reading { kind, name, value, parts: 1 }));
    }

    /// Milliseconds, to the microsecond.
    fn times(&mut self, kind: SampleKind, numbers: impl IntoIterator<Item = (&'static str, f64)>) {
        let reading =
            |(name, ms): (&'static str, f64)| Reading { kind, name, value: (ms * 1e3).round() as u64, parts: 1_000 };
        self.0.extend(numbers.into_iter().map(reading));
    }

    fn messages(&mut self, counts: &MessageCounts) {
        self.all(MessageRates, counts.named().map(|(name, count)| (name, count.total)));
    }

    fn waiting(&mut self, waiting: &WaitingMessages) {
        let WaitingMessages { ready, unacknowledged, .. } = *waiting;
        let numbers =
            [("messages", waiting.total()), ("messages_ready", ready), ("messages_unacknowledged", unacknowledged)];
        self.all(Lengths, numbers);
    }

    fn bytes(&mut self, received: u64, sent: u64) {
        self.all(DataRates, [("recv_oct", received), ("send_oct", sent)]);
    }
}
