//! The past of the broker, its node, its virtual hosts, and of what somebody looks at.
//!
//! Enters: the source's numbers, each time there are new ones.  Leaves: `samples` beside the rates in an answer.
//! Owns:   the histories, whose number is bounded. An object at which nobody has looked has none.

use crate::limits::{HISTORIES_MAX, HISTORY_IDLE_MS, VHOST_HISTORIES_MAX};
use crate::object_history::{ObjectHistory, Samples};
use crate::sample_range::SampleRanges;
use crate::sampled_object::{LiveObjects, SampledObject, readings};
use crate::source::Source;
use definitions::Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

#[derive(Debug)]
struct KnownHistory {
    history: ObjectHistory,
    /// When somebody last looked; nobody has to for what is always kept.
    looked_at_ms: Option<u64>,
}

/// The histories of all answers that are being written.
pub type SharedHistory = Rc<RefCell<StatisticsHistory>>;

/// All histories.
#[derive(Debug, Default)]
pub struct StatisticsHistory {
    known: HashMap<SampledObject, KnownHistory>,
    /// The time of the numbers that were taken last.
    counted_ms: u64,
}

impl StatisticsHistory {
    /// Takes the source's numbers in, if they are new.
    pub fn update(&mut self, source: &dyn Source) {
        let (at_ms, now_ms) = (source.counted_ms(), source.now_ms());
        if at_ms <= self.counted_ms {
            return;
        }
        self.counted_ms = at_ms;
        let vhosts = source.catalog().vhosts().map(|(id, _)| SampledObject::Vhost(id)).take(VHOST_HISTORIES_MAX);
        for object in [SampledObject::Broker, SampledObject::Node].into_iter().chain(vhosts) {
            let long = || KnownHistory { history: ObjectHistory::long(), looked_at_ms: None };
            self.known.entry(object).or_insert_with(long);
        }
        let is_idle = |at_ms: u64| now_ms.saturating_sub(at_ms) >= HISTORY_IDLE_MS;
        let live = LiveObjects::of(source, self.known.keys());
        self.known.retain(|object, known| {
            if known.looked_at_ms.is_some_and(is_idle) {
                return false;
            }
            let found = readings(source, &live, object);
            found.map(|readings| known.history.update(at_ms, readings)).is_some()
        });
    }

    /// Somebody looks at objects, whose histories begin if they have none.
    pub fn look(&mut self, source: &dyn Source, objects: &[SampledObject]) {
        let now_ms = source.now_ms();
        for object in objects {
            if let Some(known) = self.known.get_mut(object) {
                known.looked_at_ms = known.looked_at_ms.map(|_| now_ms);
            }
        }
        let new: Vec<_> = objects.iter().filter(|object| !self.known.contains_key(*object)).collect();
        if !new.is_empty() {
            let live = LiveObjects::of(source, new.iter().copied());
            new.into_iter().for_each(|object| self.begin(source, &live, object));
        }
    }

    fn begin(&mut self, source: &dyn Source, live: &LiveObjects<'_>, object: &SampledObject) {
        let now_ms = source.now_ms();
        let Some(found) = readings(source, live, object) else { return };
        if self.known.values().filter(|known| known.looked_at_ms.is_some()).count() >= HISTORIES_MAX {
            let looked_at = self.known.iter().filter_map(|(object, known)| Some((known.looked_at_ms?, object)));
            let oldest = looked_at.min_by_key(|(at_ms, _)| *at_ms).map(|(_, object)| object.clone());
            oldest.map(|object| self.known.remove(&object));
        }
        let mut history = ObjectHistory::short();
        history.update(source.counted_ms(), found);
        self.known.insert(object.clone(), KnownHistory { history, looked_at_ms: Some(now_ms) });
    }

    /// Forgets the past.
    pub fn clear(&mut self) {
        self.known.clear();
        self.counted_ms = 0;
    }

    /// Adds samples to the details of an object, in those of its fields that have such.
    pub fn add_samples(&self, value: Json, object: &SampledObject, ranges: &SampleRanges) -> Json {
        let Some(known) = self.known.get(object) else { return value };
        with_samples(value, &|name| {
            let (number, kind) = known.history.find(name)?;
            Some(known.history.samples(number, ranges.get(kind)?))
        })
    }
}

/// Fields of an object that have details of their own.
const DETAILED: [&str; 3] = ["message_stats", "queue_totals", "churn_rates"];

fn with_samples(value: Json, samples: &impl Fn(&str) -> Option<Samples>) -> Json {
    let Json::Object(fields) = value else { return value };
    let with = |(key, value): (String, Json)| {
        let found = key.strip_suffix("_details").and_then(samples);
        let value = match (value, found) {
            (Json::Object(mut details), Some(found)) => {
                details.extend(fields_of(found));
                Json::Object(details)
            }
            (value, _) if DETAILED.contains(&&*key) => with_samples(value, samples),
            (value, _) => value,
        };
        (key, value)
    };
    Json::Object(fields.into_iter().map(with).collect())
}

fn fields_of(found: Samples) -> [(String, Json); 3] {
    let int = |value: u64| Json::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let number = |value: u64| match found.parts {
        1 => int(value),
        parts => Json::Float(value as f64 / f64::from(parts)),
    };
    let sample = |(value, at_ms)| {
        let fields = [("sample", number(value)), ("timestamp", int(at_ms))];
        Json::Object(fields.map(|(key, value)| (key.to_owned(), value)).into())
    };
    let samples = Json::List(found.samples.into_iter().map(sample).collect());
    let (average, rate) = (Json::Float(found.average), Json::Float(found.average_rate));
    [("samples", samples), ("avg", average), ("avg_rate", rate)].map(|(key, value)| (key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::StatisticsHistory;
    use crate::catalog_source::CatalogSource;
    use crate::limits::{HISTORIES_MAX, HISTORY_IDLE_MS, VHOST_HISTORIES_MAX};
    use crate::live::{LiveConnection, WaitingMessages};
    use crate::sample_range::SampleRanges;
    use crate::sampled_object::SampledObject;
    use catalog::{Definition, Name};
    use definitions::Json;

    fn connection(number: usize) -> SampledObject {
        SampledObject::Connection(format!("c{number}"))
    }

    fn source(connections: usize) -> CatalogSource {
        let mut source = CatalogSource::default();
        source.now_ms = 1_000_000;
        let one = |number| LiveConnection { name: format!("c{number}"), ..LiveConnection::default() };
        source.connections = (0..connections).map(one).collect();
        source
    }

    #[test]
    fn who_looks_has_a_history_for_a_while_and_there_are_so_many() {
        let (mut source, mut history) = (source(HISTORIES_MAX + 1), StatisticsHistory::default());
        history.update(&source);
        let kept = history.known.len();
        assert_eq!(kept, 3, "the broker, the node, a virtual host");
        for number in 0..=HISTORIES_MAX {
            source.now_ms += 1;
            history.look(&source, &[connection(number)]);
        }
        assert_eq!(history.known.len(), kept + HISTORIES_MAX);
        assert!(!history.known.contains_key(&connection(0)) && history.known.contains_key(&connection(1)));
        source.now_ms += HISTORY_IDLE_MS - 10;
        history.look(&source, &[connection(7), connection(HISTORIES_MAX + 5)]);
        source.now_ms += 10;
        source.connections.retain(|of| of.name != "c9");
        history.update(&source);
        assert!(history.known.contains_key(&connection(7)) && !history.known.contains_key(&connection(1)));
        assert!(!history.known.contains_key(&connection(9)), "it is gone");
        source.now_ms += HISTORY_IDLE_MS;
        history.update(&source);
        assert_eq!(history.known.len(), kept);
        history.look(&source, &[SampledObject::Connection("nobody".to_owned())]);
        assert_eq!(history.known.len(), kept);
        history.clear();
        assert!(history.known.is_empty());
    }

    #[test]
    fn virtual_hosts_have_a_long_past_as_far_as_there_is_place() {
        let (mut source, mut history) = (source(0), StatisticsHistory::default());
        for number in 0..VHOST_HISTORIES_MAX + 5 {
            source.define([Definition::CreateVhost { name: Name::from(&*format!("v{number}")) }]);
        }
        history.update(&source);
        assert_eq!(history.known.len(), 2 + VHOST_HISTORIES_MAX);
        let last = source.catalog.vhost_by_name("v1").expect("it is there");
        source.define([Definition::DeleteVhost { name: Name::from("v1") }]);
        source.now_ms += 1_000;
        history.update(&source);
        assert!(!history.known.contains_key(&SampledObject::Vhost(last)));
    }

    #[test]
    fn samples_stand_beside_the_rate_they_belong_to() {
        let (mut source, mut history) = (source(0), StatisticsHistory::default());
        let query = crate::query::Query::parse("lengths_age=5&lengths_incr=5").expect("a query");
        let ranges = SampleRanges::of(&query).expect("a range");
        for ready in [3, 4] {
            source.counts.waiting = WaitingMessages { ready, ..WaitingMessages::default() };
            source.now_ms += 5_000;
            history.update(&source);
        }
        let text = r#"{"queue_totals":{"messages_details":{"rate":0.5}},"message_stats":{"publish_details":{"rate":0.0}},"arguments":{"messages_details":{}}}"#;
        let value = Json::read(text.as_bytes()).expect("JSON");
        let found = history.add_samples(value, &SampledObject::Broker, &ranges).line();
        let samples = r#"[{"sample":4,"timestamp":1010000},{"sample":3,"timestamp":1005000}]"#;
        let added = format!(r#"{{"rate":0.5,"samples":{samples},"avg":3.5,"avg_rate":0.2}}"#);
        assert_eq!(found, text.replace(r#"{"rate":0.5}"#, &added));
    }

    #[test]
    fn a_time_has_samples_in_parts_of_a_millisecond() {
        use crate::io_counts::IoOperation;
        use crate::rated_count::RatedCount;
        let (mut source, mut history) = (source(0), StatisticsHistory::default());
        let query = crate::query::Query::parse("node_stats_age=5&node_stats_incr=5").expect("a query");
        let ranges = SampleRanges::of(&query).expect("a range");
        for us_rate in [500.0, 1_000.0] {
            let of = |rate| RatedCount { total: 1, rate };
            source.counts.io.reads = IoOperation { count: of(2.0), us: of(us_rate) };
            source.now_ms += 5_000;
            history.update(&source);
        }
        let value = Json::read(br#"{"io_read_avg_time_details":{"rate":0.0}}"#).expect("JSON");
        let found = history.add_samples(value, &SampledObject::Node, &ranges).line();
        let samples = r#"[{"sample":0.5,"timestamp":1010000},{"sample":0.25,"timestamp":1005000}]"#;
        let details = format!(r#"{{"rate":0.0,"samples":{samples},"avg":0.375,"avg_rate":0.05}}"#);
        assert_eq!(found, format!(r#"{{"io_read_avg_time_details":{details}}}"#));
    }
}
