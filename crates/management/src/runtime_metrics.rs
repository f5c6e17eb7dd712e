//! Metrics that RabbitMQ does not have: `harrier_` in front of their names.
//!
//! Owns: their names, units and labels; docs/operations/management.md lists them.

use crate::live::LiveFederationLink;
use crate::log_metrics::write_log_metrics;
use crate::metric_writer::MetricKind::{self, Counter, Gauge, Histogram};
use crate::metric_writer::{write_head, write_sample, write_times};
use crate::request_counts::RequestCounts;
use crate::runtime_counts::{NamedTotal, RdmaCounts, RuntimeCounts, ShardCounts};
use crate::source::Source;

/// The `family` of `/metrics/detailed` that they belong to.
pub const GROUP: &str = "harrier_metrics";

type ShardValue = fn(&ShardCounts) -> f64;
type LinkValue = fn(&LiveFederationLink) -> f64;

const SHARD_FAMILIES: [(&str, MetricKind, &str, ShardValue); 14] = [
    ("harrier_shard_busy_seconds_total", Counter, "Time in which the thread of a shard worked", |of| {
        seconds(of.busy_ns)
    }),
    (
        "harrier_shard_idle_seconds_total",
        Counter,
        "Time in which the thread of a shard waited, spinning or asleep",
        |of| seconds(of.waited_ns),
    ),
    ("harrier_shard_spins_total", Counter, "Waits that the thread of a shard began by polling", |of| of.spins as f64),
    ("harrier_shard_sleeps_total", Counter, "Waits in which the thread of a shard slept", |of| of.sleeps as f64),
    ("harrier_shard_mail_messages_total", Counter, "Messages that a shard has sent to other shards", |of| {
        of.mail_messages as f64
    }),
    ("harrier_shard_mail_batches_total", Counter, "Batches in which these messages were sent", |of| {
        of.mail_batches as f64
    }),
    ("harrier_shard_mail_waiting_bytes", Gauge, "Bytes of batches that wait for another shard to make space", |of| {
        of.mail_waiting_bytes as f64
    }),
    ("harrier_shard_message_memory_bytes", Gauge, "Message memory that a shard uses", |of| of.message_bytes as f64),
    ("harrier_shard_waiting_bytes", Gauge, "Bytes of messages that wait in memory in queues of a shard", |of| {
        of.waiting_bytes as f64
    }),
    ("harrier_shard_dead_letters_held", Gauge, "Dead letters for several queues that wait for memory", |of| {
        of.held_dead_letters as f64
    }),
    (
        "harrier_shard_dead_letters_dropped_total",
        Counter,
        "Dead letters that became too many, or whose history became too long",
        |of| of.dropped_dead_letters as f64,
    ),
    ("harrier_shard_connections", Gauge, "Connections that a shard serves", |of| of.connections as f64),
    (
        "harrier_shard_connections_moved_total",
        Counter,
        "Connections that have left a shard for that of the queue which they use",
        |of| of.connections_moved as f64,
    ),
    ("harrier_shard_moves_given_up_total", Counter, "Connections that were about to do so, and stayed", |of| {
        of.moves_given_up as f64
    }),
];

const LINK_FAMILIES: [(&str, MetricKind, &str, LinkValue); 6] = [
    (
        "harrier_federation_link_running",
        Gauge,
        "is 1 if messages come over a route of a link to another broker",
        |of| f64::from(u8::from(of.status == "running")),
    ),
    ("harrier_federation_link_messages_total", Counter, "Messages that a route has forwarded", |of| of.messages as f64),
    ("harrier_federation_link_bytes_total", Counter, "Bytes of the bodies of these messages", |of| of.bytes as f64),
    ("harrier_federation_link_dropped_total", Counter, "Messages that a route has dropped as duplicates", |of| {
        of.dropped as f64
    }),
    ("harrier_federation_link_unacknowledged", Gauge, "Messages of a route that await an acknowledgement", |of| {
        of.unacknowledged as f64
    }),
    (
        "harrier_federation_link_lag",
        Gauge,
        "Messages that wait for a route at its source, as far as that is known",
        |of| of.lag.unwrap_or(0) as f64,
    ),
];

/// Writes all of them.
pub fn write_runtime_metrics(out: &mut Vec<u8>, source: &dyn Source, requests: &RequestCounts) {
    let RuntimeCounts { shards, delivery_latency, rdma, memory, logs } = source.runtime();
    let numbers: Vec<String> = (0..shards.len()).map(|number| number.to_string()).collect();
    for (name, kind, help, value) in SHARD_FAMILIES {
        write_head(out, name, kind, help);
        shards.iter().zip(&numbers).for_each(|(of, shard)| write_sample(out, name, &[("shard", shard)], value(of)));
    }
    let rounds = "harrier_shard_round_duration_seconds";
    write_head(out, rounds, Histogram, "Time of work in a round of the loop of a shard");
    shards.iter().zip(&numbers).for_each(|(of, shard)| write_times(out, rounds, &[("shard", shard)], &of.rounds));
    let latency = "harrier_delivery_latency_seconds";
    write_head(out, latency, Histogram, "Time from the publish of a message to its first delivery, of one in 1024");
    write_times(out, latency, &[], &delivery_latency);
    write_head(out, "harrier_memory_bytes", Gauge, "Memory of the broker by what it is for; resident has all of it");
    memory.iter().for_each(|(kind, bytes)| write_sample(out, "harrier_memory_bytes", &[("kind", kind)], *bytes as f64));
    write_log_metrics(out, &logs);
    for (name, kind, help, value) in LINK_FAMILIES {
        write_head(out, name, kind, help);
        for of in source.federation_links() {
            let labels =
                [("vhost", &*of.vhost), ("upstream", &*of.upstream), ("exchange", &*of.exchange), ("link", &*of.id)];
            write_sample(out, name, &labels, value(of));
        }
    }
    if let Some(of) = &rdma {
        write_rdma(out, of);
    }
    write_requests(out, requests);
}

fn write_rdma(out: &mut Vec<u8>, of: &RdmaCounts) {
    let name = "harrier_rdma_queue_pairs";
    write_head(out, name, Gauge, "Queue pairs of RDMA connections");
    write_sample(out, name, &[], of.queue_pairs as f64);
    for NamedTotal { name, counts, value } in &of.totals {
        let name = format!("harrier_rdma_{name}_total");
        write_head(out, &name, Counter, counts);
        write_sample(out, &name, &[], *value as f64);
    }
}

fn write_requests(out: &mut Vec<u8>, requests: &RequestCounts) {
    let name = "harrier_http_requests_total";
    write_head(out, name, Counter, "Requests of the management API and of metrics that were answered, by status");
    for (status, count) in requests.by_status() {
        write_sample(out, name, &[("status", status)], count as f64);
    }
    let name = "harrier_http_request_duration_seconds";
    write_head(out, name, Histogram, "Time from the head of a request to the head of its answer");
    write_times(out, name, &[], &requests.times());
    let name = "harrier_scrapes_total";
    write_head(out, name, Counter, "Answers with metrics before this one");
    write_sample(out, name, &[], requests.scrapes as f64);
    let name = "harrier_scrape_seconds_total";
    write_head(out, name, Counter, "Time in which the text of these answers was made");
    write_sample(out, name, &[], requests.scrape_time.as_secs_f64());
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
