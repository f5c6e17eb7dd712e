//! Metrics on their way out: families one after the other, those of queues in pieces of bounded size.
//!
//! Enters: which families and virtual hosts.  Leaves: text, each piece when the one before it has gone.

use crate::broker_views::{ERLANG_VERSION, PRODUCT_NAME, RABBITMQ_VERSION};
use crate::changes::names::cluster_name;
use crate::limits::METRICS_PIECE_BYTES;
use crate::metric_families::{
    BROKER_FAMILIES, BrokerLabels, CLUSTER_FAMILIES, MetricFamily, MetricSource, MetricsSnapshot, OBJECT_FAMILIES,
};
use crate::metric_writer::{MetricKind, write_head, write_sample};
use crate::queue_totals::QueueTotals;
use crate::request_counts::RequestCounts;
use crate::runtime_metrics;
use crate::source::Source;
use catalog::{Catalog, ExchangeId, QueueId};

/// Which of the three sets of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsEndpoint {
    Aggregated,
    PerObject,
    Detailed,
}

impl MetricsEndpoint {
    /// The value of the label `rabbitmq_endpoint`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::PerObject => "per-object",
            Self::Detailed => "detailed",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Aggregated | Self::PerObject => "rabbitmq_",
            Self::Detailed => "rabbitmq_detailed_",
        }
    }
}

/// Metrics that are yet to be written.
pub struct MetricsStream {
    endpoint: MetricsEndpoint,
    families: Vec<&'static MetricFamily>,
    /// Of which objects; all, if there are none.
    vhosts: Vec<String>,
    has_begun: bool,
    family: usize,
    object: usize,
    /// Taken at the beginning: what is said of the whole broker is of one time.
    snapshot: Option<Box<MetricsSnapshot>>,
    /// Taken when the first family of queues begins.
    queues: Option<Vec<QueueId>>,
    /// Taken when the first family of exchanges begins.
    exchanges: Option<Vec<ExchangeId>>,
    /// Of those that the first family has written: each queue is asked for once, and all of its samples are of one time.
    totals: Vec<QueueTotals>,
    /// For the metrics of this program alone, which come last; `None` if they are not asked for, or written.
    requests: Option<RequestCounts>,
}

impl std::fmt::Debug for MetricsStream {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "MetricsStream({:?}, {} of {} families)", self.endpoint, self.family, self.families.len())
    }
}

impl MetricsStream {
    /// All of an endpoint; of the detailed one, the families of these groups, and objects of these virtual hosts.
    pub fn new(endpoint: MetricsEndpoint, groups: &[&str], vhosts: Vec<String>, requests: RequestCounts) -> Self {
        let is_wanted = |group: &str| endpoint != MetricsEndpoint::Detailed || groups.contains(&group);
        let cluster: &[MetricFamily] = if endpoint == MetricsEndpoint::Detailed { CLUSTER_FAMILIES } else { &[] };
        let families = BROKER_FAMILIES.iter().chain(OBJECT_FAMILIES).chain(cluster);
        let families = families.filter(|family| is_wanted(family.group)).collect();
        let requests = is_wanted(runtime_metrics::GROUP).then_some(requests);
        Self {
            endpoint,
            families,
            vhosts,
            has_begun: false,
            family: 0,
            object: 0,
            snapshot: None,
            queues: None,
            exchanges: None,
            totals: Vec::new(),
            requests,
        }
    }

    /// Whether it may have a sample for each of many objects.
    pub(crate) fn is_long(&self) -> bool {
        self.endpoint != MetricsEndpoint::Aggregated
    }

    /// The next piece; `None` behind the last one.
    pub fn next_piece(&mut self, source: &dyn Source) -> Option<Vec<u8>> {
        if self.has_begun && self.family == self.families.len() && self.requests.is_none() {
            return None;
        }
        let mut out = Vec::with_capacity(METRICS_PIECE_BYTES);
        if !std::mem::replace(&mut self.has_begun, true) {
            self.write_identity(&mut out, source);
        }
        let snapshot = self.snapshot.take().unwrap_or_else(|| Box::new(snapshot(source)));
        while out.len() < METRICS_PIECE_BYTES
            && let Some(family) = self.families.get(self.family)
        {
            if self.write_family(&mut out, source, &snapshot, family) {
                (self.family, self.object) = (self.family + 1, 0);
            }
        }
        self.snapshot = Some(snapshot);
        if self.family == self.families.len()
            && let Some(requests) = self.requests.take()
        {
            runtime_metrics::write_runtime_metrics(&mut out, source, &requests);
        }
        Some(out)
    }

    fn write_identity(&self, out: &mut Vec<u8>, source: &dyn Source) {
        let facts = source.facts();
        write_head(out, "rabbitmq_build_info", MetricKind::Gauge, "RabbitMQ & Erlang/OTP version info");
        let versions = [
            ("rabbitmq_version", RABBITMQ_VERSION),
            ("erlang_version", ERLANG_VERSION),
            ("product_name", PRODUCT_NAME),
            ("product_version", &facts.product_version),
        ];
        write_sample(out, "rabbitmq_build_info", &versions, 1.0);
        write_head(out, "rabbitmq_identity_info", MetricKind::Gauge, "RabbitMQ node & cluster identity info");
        let identity = [
            ("rabbitmq_node", &*facts.node),
            ("rabbitmq_cluster", cluster_name(source)),
            ("rabbitmq_cluster_permanent_id", &facts.cluster_id),
            ("rabbitmq_endpoint", self.endpoint.name()),
        ];
        write_sample(out, "rabbitmq_identity_info", &identity, 1.0);
        if self.endpoint != MetricsEndpoint::Detailed {
            write_body_sizes(out, source);
        }
    }

    /// Writes some samples of a family. Returns whether it is complete.
    fn write_family(
        &mut self,
        out: &mut Vec<u8>,
        source: &dyn Source,
        of: &MetricsSnapshot,
        family: &MetricFamily,
    ) -> bool {
        let prefix = match family.source {
            MetricSource::Vhost | MetricSource::Exchange(_) => "rabbitmq_cluster_",
            _ => self.endpoint.prefix(),
        };
        let name = format!("{prefix}{}", family.name);
        if self.object == 0 {
            write_head(out, &name, family.kind, family.help);
        }
        let is_sum = self.endpoint == MetricsEndpoint::Aggregated;
        match family.source {
            MetricSource::Broker(labels, value) => {
                let labels: &[_] = match labels {
                    BrokerLabels::None => &[],
                    BrokerLabels::Protocol => &[("protocol", "amqp091")],
                    BrokerLabels::QueueType => {
                        &[("queue_type", "rabbit_classic_queue"), ("dead_letter_strategy", "at_most_once")]
                    }
                };
                write_sample(out, &name, labels, value(of));
                true
            }
            MetricSource::Queue(_) | MetricSource::Connection(_) | MetricSource::Channel(_) if is_sum => {
                write_sample(out, &name, &[], sum_of_objects(family.name, of));
                true
            }
            MetricSource::Vhost => {
                let vhosts = source.catalog().vhosts().filter(|(_, vhost)| self.is_wanted(vhost));
                vhosts.for_each(|(_, vhost)| write_sample(out, &name, &[("vhost", vhost)], 1.0));
                true
            }
            MetricSource::Exchange(value) => self.write_exchanges(out, source, &name, value),
            MetricSource::Queue(value) => self.write_queues(out, source, &name, value),
            // Places in these lists hold until the source is refreshed: the family is written at once.
            MetricSource::Connection(value) => {
                let connections = source.connections().iter().filter(|of| self.is_wanted(&of.vhost));
                connections.for_each(|of| write_sample(out, &name, &[("connection", &of.name)], value(of)));
                true
            }
            MetricSource::Channel(value) => {
                let channels = source.channels().iter().filter(|of| self.is_wanted(&of.vhost));
                channels.for_each(|of| write_sample(out, &name, &[("channel", &of.name())], value(of)));
                true
            }
        }
    }

    fn write_queues(
        &mut self,
        out: &mut Vec<u8>,
        source: &dyn Source,
        name: &str,
        value: fn(&QueueTotals) -> f64,
    ) -> bool {
        let catalog = source.catalog();
        let vhosts = &self.vhosts;
        let queues = self.queues.get_or_insert_with(|| {
            let is_wanted = |vhost| vhosts.is_empty() || vhosts.iter().any(|name| *name == *catalog.vhost_name(vhost));
            catalog.queues().filter(|(_, queue)| is_wanted(queue.vhost)).map(|(id, _)| id).collect()
        });
        // At least one is written, so that the head is not written again.
        while let Some(id) = queues.get(self.object) {
            if self.totals.len() == self.object {
                self.totals.push(source.queue_totals(*id));
            }
            let totals = &self.totals[self.object];
            self.object += 1;
            if let Some(queue) = catalog.queue_definition(*id) {
                let labels = [("vhost", catalog.vhost_name(queue.vhost)), ("queue", &queue.name)];
                write_sample(out, name, &labels, value(totals));
            }
            if out.len() >= METRICS_PIECE_BYTES {
                break;
            }
        }
        self.object == queues.len()
    }

    fn write_exchanges(
        &mut self,
        out: &mut Vec<u8>,
        source: &dyn Source,
        name: &str,
        value: fn(&Catalog, ExchangeId) -> f64,
    ) -> bool {
        let catalog = source.catalog();
        let vhosts = &self.vhosts;
        let exchanges = self.exchanges.get_or_insert_with(|| {
            let is_wanted = |vhost| vhosts.is_empty() || vhosts.iter().any(|name| *name == *catalog.vhost_name(vhost));
            catalog.exchanges().filter(|(_, exchange)| is_wanted(exchange.vhost)).map(|(id, _)| id).collect()
        });
        // At least one is written, so that the head is not written again.
        while let Some(id) = exchanges.get(self.object) {
            self.object += 1;
            if let Some(exchange) = catalog.exchange_info(*id) {
                let labels = [
                    ("vhost", catalog.vhost_name(exchange.vhost)),
                    ("exchange", &exchange.name),
                    ("type", exchange.kind.name()),
                ];
                write_sample(out, name, &labels, value(catalog, *id));
            }
            if out.len() >= METRICS_PIECE_BYTES {
                break;
            }
        }
        self.object == exchanges.len()
    }

    fn is_wanted(&self, vhost: &str) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|wanted| wanted == vhost)
    }
}

/// What all objects come to: numbers that the source has added up, so that it costs the same however many objects there are.
fn sum_of_objects(name: &str, of: &MetricsSnapshot) -> f64 {
    let (waiting, sums) = (of.counts.waiting, of.counts.sums);
    let sum = match name {
        "queue_messages_ready" => waiting.ready,
        "queue_messages_unacked" => waiting.unacknowledged,
        "queue_messages" => waiting.total(),
        "queue_consumers" => of.consumers,
        "queue_messages_bytes" => of.counts.ready_bytes + of.counts.unacknowledged_bytes,
        "queue_messages_ready_bytes" => of.counts.ready_bytes,
        "queue_messages_published_total" => of.counts.messages.publish.total,
        "queue_process_memory_bytes" => of.counts.queue_memory_bytes,
        "connection_incoming_bytes_total" => sums.received_bytes,
        "connection_outgoing_bytes_total" => sums.sent_bytes,
        "connection_pending_packets" => sums.pending_connections,
        "channel_consumers" => sums.channel_consumers,
        "channel_messages_unacked" => sums.unacknowledged,
        "channel_messages_unconfirmed" => sums.unconfirmed,
        "channel_prefetch" => sums.global_prefetch_count,
        "channel_messages_uncommitted" => sums.uncommitted,
        "channel_acks_uncommitted" => sums.acks_uncommitted,
        "consumer_prefetch" => sums.prefetch_count,
        "channel_messages_published_total" => of.counts.messages.publish.total,
        "channel_messages_confirmed_total" => of.counts.messages.confirm.total,
        "channel_messages_unroutable_returned_total" => of.counts.messages.return_unroutable.total,
        "channel_messages_unroutable_dropped_total" => of.counts.messages.drop_unroutable.total,
        "channel_get_ack_total" => of.counts.messages.get.total,
        "channel_get_total" => of.counts.messages.get_no_ack.total,
        "channel_messages_delivered_ack_total" => of.counts.messages.deliver.total,
        "channel_messages_delivered_total" => of.counts.messages.deliver_no_ack.total,
        "channel_messages_redelivered_total" => of.counts.messages.redeliver.total,
        "channel_messages_acked_total" => of.counts.messages.ack.total,
        "channel_get_empty_total" => of.counts.messages.get_empty.total,
        "connection_incoming_packets_total" => sums.received_packets,
        "connection_outgoing_packets_total" => sums.sent_packets,
        "connection_channels" => of.channels,
        other => unreachable!("{other} has no sum"),
    };
    sum as f64
}

fn write_body_sizes(out: &mut Vec<u8>, source: &dyn Source) {
    const NAME: &str = "rabbitmq_message_size_bytes";
    let global = source.counts().global;
    write_head(out, NAME, MetricKind::Histogram, "Size of messages received from publishers");
    let mut count = 0;
    for (bound, messages) in &global.body_sizes {
        count += messages;
        let bound = bound.to_string();
        write_sample(
            out,
            "rabbitmq_message_size_bytes_bucket",
            &[("protocol", "amqp091"), ("le", &bound)],
            count as f64,
        );
    }
    count += global.larger_bodies;
    let all = [("protocol", "amqp091"), ("le", "+Inf")];
    write_sample(out, "rabbitmq_message_size_bytes_bucket", &all, count as f64);
    write_sample(out, "rabbitmq_message_size_bytes_sum", &all[..1], global.body_bytes as f64);
    write_sample(out, "rabbitmq_message_size_bytes_count", &all[..1], count as f64);
}

fn snapshot(source: &dyn Source) -> MetricsSnapshot {
    MetricsSnapshot {
        connections: source.connections().len() as u64,
        channels: source.channels().len() as u64,
        consumers: source.consumers().len() as u64,
        queues: source.catalog().queues_count() as u64,
        uptime_s: source.now_ms().saturating_sub(source.facts().started_ms) as f64 / 1_000.0,
        counts: source.counts(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MetricsEndpoint, MetricsStream};
    use crate::catalog_source::CatalogSource;
    use crate::live::{QueueCounts, WaitingMessages};
    use crate::request_counts::RequestCounts;
    use catalog::{Definition, Name, ShardId};
    use wire::Table;

    #[test]
    fn all_samples_of_a_queue_are_of_one_time_whatever_happens_between_pieces() {
        const QUEUES: usize = 2_000;
        let mut source = CatalogSource::default();
        let vhost = source.catalog.vhost_by_name("/").expect("it is there");
        source.define((0..QUEUES).map(|number| Definition::DeclareQueue {
            vhost,
            name: Name::from(&*format!("q{number}")),
            server_named: false,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(0),
        }));
        let ids: Vec<_> = source.catalog.queues().map(|(id, _)| id).collect();
        let mut stream = MetricsStream::new(MetricsEndpoint::PerObject, &[], Vec::new(), RequestCounts::default());
        let (mut text, mut pieces) = (Vec::new(), 0);
        while let Some(piece) = stream.next_piece(&source) {
            text.extend(piece);
            pieces += 1;
            let waiting =
                WaitingMessages { ready: pieces, unacknowledged: 1_000 * pieces, ..WaitingMessages::default() };
            source.queue_counts.extend(ids.iter().map(|id| (*id, QueueCounts { waiting, ..QueueCounts::default() })));
        }
        assert!(pieces > 5, "{pieces} pieces");
        let text = String::from_utf8(text).expect("text");
        let of = |family: &str| -> Vec<u64> {
            let lines = text.lines().filter(|line| line.starts_with(&format!("rabbitmq_{family}{{")));
            lines.map(|line| line.rsplit_once(' ').expect("a value").1.parse().expect("a number")).collect()
        };
        let (ready, unacked, all) = (of("queue_messages_ready"), of("queue_messages_unacked"), of("queue_messages"));
        assert_eq!((ready.len(), unacked.len(), all.len()), (QUEUES, QUEUES, QUEUES));
        assert!(ready.last() > ready.first(), "the numbers changed meanwhile");
        let sums = ready.iter().zip(&unacked).map(|(ready, unacked)| ready + unacked);
        assert!(sums.eq(all), "messages that are ready and unacknowledged are all messages");
    }
}
