//! The request for the numbers of the durable store.

use super::{AdminCommand, AdminError, AdminServer, error};
use definitions::Json;
use durability::{ShardStoreMetrics, StoreMetrics};

impl AdminServer {
    /// What each log has written and holds, and all logs of messages, and all spill logs, together.
    pub(super) fn store(&mut self, _asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let shards = self.operator.store_metrics().ok_or_else(|| error("stopping", "the broker stops"))?;
        if shards.is_empty() {
            return Err(error("no-state", "the broker has no state folder (--state): it has no store"));
        }
        let (mut all, mut spilled) = (StoreMetrics::default(), StoreMetrics::default());
        for shard in &shards {
            all.add(&shard.messages);
            spilled.add(&shard.spill);
        }
        let journal = shards.iter().find_map(|shard| shard.journal.as_ref());
        Ok(object([
            ("shards", Json::List(shards.iter().map(shard_json).collect())),
            ("all_shards", object(fields(&all))),
            ("spilled", object(fields(&spilled))),
            ("definitions", journal.map_or(Json::Null, |journal| object(fields(journal)))),
        ]))
    }
}

fn shard_json(shard: &ShardStoreMetrics) -> Json {
    let number = ("shard", Json::Int(shard.shard.0.into()));
    let spilled = ("spilled", object(fields(&shard.spill)));
    object(std::iter::once(number).chain(fields(&shard.messages)).chain([spilled]))
}

fn fields(metrics: &StoreMetrics) -> impl Iterator<Item = (&'static str, Json)> + '_ {
    let times = &metrics.disk.write_times;
    let quantile = |share: f64| times.quantile_us(share).map_or(Json::Null, number);
    let bucket = |(end_us, count): (u64, u64)| Json::List(vec![number(end_us), number(count)]);
    let times = [
        ("write_us_sum", number(times.sum_us())),
        ("write_us_max", number(times.max_us())),
        ("write_us_p50", quantile(0.5)),
        ("write_us_p99", quantile(0.99)),
        ("write_us_buckets", Json::List(times.cumulative().map(bucket).collect())),
    ];
    metrics.counts().map(|(name, count)| (name, number(count))).into_iter().chain(times)
}

fn number(number: u64) -> Json {
    Json::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn object(fields: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    Json::Object(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
