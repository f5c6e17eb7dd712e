//! The metrics of the durable store: `harrier_store_` in front of their names, for each log of each shard.
//!
//! Owns: their names, units and labels; docs/operations/management.md lists them.

use crate::log_counts::LogCounts;
use crate::metric_writer::MetricKind::{self, Counter, Gauge, Histogram};
use crate::metric_writer::{Label, write_head, write_sample, write_times};

type LogValue = fn(&LogCounts) -> f64;

const LOG_FAMILIES: [(&str, MetricKind, &str, LogValue); 20] = [
    ("groups_written_total", Counter, "Groups of records that were written and made durable as one", |of| {
        of.groups_written as f64
    }),
    ("written_bytes_total", Counter, "Bytes of these groups, in whole blocks", |of| of.bytes_written as f64),
    ("messages_written_total", Counter, "Messages in these groups", |of| of.messages_written as f64),
    ("messages_moved_total", Counter, "Messages that were written again to give their segments back", |of| {
        of.messages_moved as f64
    }),
    ("moved_bytes_total", Counter, "Bytes of messages that were written again", |of| of.bytes_moved as f64),
    ("syncs_total", Counter, "Requests that waited until they were durable", |of| of.syncs as f64),
    ("sync_seconds_total", Counter, "Time that these requests took", |of| seconds(of.sync_us)),
    ("reads_total", Counter, "Requests that read", |of| of.reads as f64),
    ("read_bytes_total", Counter, "Bytes that were read", |of| of.bytes_read as f64),
    ("read_seconds_total", Counter, "Time that reads took", |of| seconds(of.read_us)),
    ("segments_made_total", Counter, "Segments that were made, of others or anew", |of| of.segments_made as f64),
    ("segments", Gauge, "Segments that a log consists of", |of| of.segments as f64),
    ("spare_segments", Gauge, "Segments that were made ahead", |of| of.spare_segments as f64),
    ("log_bytes", Gauge, "Bytes of the segments that a log consists of", |of| of.log_bytes as f64),
    ("live_bytes", Gauge, "Bytes of the messages in a log that are alive", |of| of.live_bytes as f64),
    ("pending_bytes", Gauge, "Bytes that wait for the disk", |of| of.pending_bytes as f64),
    ("scrubbed_bytes_total", Counter, "Bytes that were read to find damage", |of| of.bytes_scrubbed as f64),
    ("scrub_pass_bytes", Gauge, "Bytes that were read in the pass under way; 0 between passes", |of| {
        of.scrub_pass_bytes as f64
    }),
    ("scrubs_total", Counter, "Passes over a whole log to find damage", |of| of.scrubs as f64),
    ("damage_found_total", Counter, "Places that were found to be damaged", |of| of.damage_found as f64),
];

/// Writes all of them; nothing without a store.
pub fn write_log_metrics(out: &mut Vec<u8>, logs: &[LogCounts]) {
    if logs.is_empty() {
        return;
    }
    let shards: Vec<String> = logs.iter().map(|of| of.shard.to_string()).collect();
    let each = |write: &mut dyn FnMut(&LogCounts, &[Label<'_>])| {
        logs.iter().zip(&shards).for_each(|(of, shard)| write(of, &[("shard", shard), ("log", of.log)]));
    };
    for (name, kind, help, value) in LOG_FAMILIES {
        let name = format!("harrier_store_{name}");
        write_head(out, &name, kind, help);
        each(&mut |of, labels| write_sample(out, &name, labels, value(of)));
    }
    let writes = "harrier_store_write_duration_seconds";
    write_head(out, writes, Histogram, "Time from the write of a group until it was durable");
    each(&mut |of, labels| write_times(out, writes, labels, &of.writes));
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}
