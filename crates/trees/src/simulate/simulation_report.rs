//! The results of a simulation as text and as JSON.
//!
//! The same request gives the same bytes.

use std::fmt::Write as _;

use desim::{ArrivalProcess, Histogram, SimulationResult, Spread};
use serde_json::{Value, json};

use super::SimulationRequest;
use harness::arguments::ParsedOptions;

/// The document's schema and version.
const SCHEMA: &str = "harrier-simulation";
const VERSION: u32 = 1;
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Nanoseconds in a suitable unit.
pub(super) fn time(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        _ if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

/// Describes the scenario, line by line.
pub(super) fn facts(request: &SimulationRequest) -> Vec<String> {
    let it = &request.scenario;
    let count = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let bound = |bound: Option<u32>| bound.map_or_else(|| "unlimited".to_owned(), |bound| bound.to_string());
    let pace = match it.arrivals {
        ArrivalProcess::Closed => "closed loop, as fast as possible".to_owned(),
        ArrivalProcess::Even(rate) => format!("open loop, {rate} messages/s, evenly"),
        ArrivalProcess::Poisson(rate) => format!("open loop, {rate} messages/s, Poisson"),
    };
    let link = it.link.bits_per_s.map_or_else(
        || "links without a limit".to_owned(),
        |bits| format!("links of {} Mbit/s, {:.0} B a copy with all headers", bits as f64 / 1e6, it.wire_bytes),
    );
    let ack = match it.ack {
        desim::AckMode::None => "ack none".to_owned(),
        desim::AckMode::Confirm => format!("ack confirm, credit {}", bound(it.credit)),
    };
    let prefetch = it.prefetch.map_or_else(|| "unlimited".to_owned(), |prefetch| prefetch.to_string());
    let queue = it.queue_bytes_max.map_or_else(|| "unlimited".to_owned(), |bytes| format!("of {bytes} B"));
    let mut facts = vec![
        format!(
            "{}, {}; {} of {} B; {pace}; seed {}",
            count(it.tree.brokers(), "broker"),
            count(it.tree.consumers(), "consumer"),
            count(it.messages, "message"),
            it.message_bytes,
            it.seed
        ),
        format!("costs: {}; {} for the copies of a broker", request.costs, count(it.cores, "thread")),
        format!("{link}, {} delay; {ack}, prefetch {prefetch}, queues {queue}", time(it.link.delay_ns as f64)),
    ];
    if !it.stragglers.is_empty() {
        facts.push(format!("{} slow", count(it.stragglers.len() as u32, "consumer")));
    }
    for fail in &it.failures {
        let away = fail.away_ns.map_or_else(|| "for ever".to_owned(), |away| format!("for {}", time(away as f64)));
        facts.push(format!("{} fails after {} {away}", it.tree.name(fail.broker), time(fail.at_ns as f64)));
    }
    facts
}

/// Names, values and explanations of the overall results.
pub(super) fn figures(request: &SimulationRequest, outcome: &SimulationResult) -> Vec<(&'static str, String)> {
    let mb = outcome.aggregate_per_s() * request.scenario.message_bytes as f64 / 1e6;
    let mut rows = vec![
        ("messages/s per stream", format!("{:.0}", outcome.stream_per_s)),
        ("  once queues have filled", format!("{:.0}", outcome.steady_per_s)),
        ("messages/s aggregate", format!("{:.0}", outcome.aggregate_per_s())),
        ("MB/s aggregate", format!("{mb:.2}")),
        ("simulated time", time(outcome.elapsed_ns as f64)),
    ];
    if let Some(predicted) = request.predicted_per_s {
        let away = (outcome.steady_per_s / predicted - 1.0) * 100.0;
        rows.insert(2, ("  the model predicts", format!("{predicted:.0} (simulated: {away:+.1} %)")));
    }
    if !request.scenario.stragglers.is_empty() {
        rows.insert(2, ("  the consumer in the middle", format!("{:.0}", outcome.steady_median_per_s)));
    }
    let quantiles = |histogram: &Histogram| {
        let one = |(name, share): (&str, f64)| {
            let ns = histogram.quantile_ns(share);
            format!("{name} {}", ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64)))
        };
        QUANTILES.map(one).join(", ")
    };
    rows.push(("latency to a consumer", quantiles(&outcome.delivery)));
    rows.push(("latency to the last", quantiles(&outcome.last_delivery)));
    rows.push(("lost or waiting", losses(outcome)));
    rows
}

fn losses(outcome: &SimulationResult) -> String {
    if outcome.missing + outcome.redelivered + outcome.late == 0 {
        return "nothing: every consumer got every message once and in order".to_owned();
    }
    let all = outcome.published * outcome.consumers;
    let share = outcome.missing as f64 * 100.0 / all.max(1) as f64;
    format!(
        "{} deliveries of {all} are missing ({share:.2} %), {} at one consumer at most; {} came again, {} behind newer ones; \
         {} messages wait at the end",
        outcome.missing, outcome.missing_max, outcome.redelivered, outcome.late, outcome.waiting
    )
}

/// Columns of the table of levels.
pub(super) const COLUMNS: [&str; 9] = [
    "level",
    "brokers",
    "thread %",
    "link %",
    "queue, mean",
    "queue, most",
    "unread, most",
    "under way, most",
    "worst queue",
];

/// Rows of the table of levels: medians over a level's brokers, and the worst queue.
pub(super) fn rows(outcome: &SimulationResult) -> Vec<Vec<String>> {
    let percent = |spread: Spread| format!("{:.1}", spread.median * 100.0);
    let of = |level: &desim::LevelResult| {
        vec![
            level.level.to_string(),
            level.brokers.to_string(),
            percent(level.processor),
            percent(level.link),
            format!("{:.1}", level.queue_mean.median),
            format!("{:.0}", level.queue_max.median),
            format!("{:.0}", level.unread_max.median),
            format!("{:.0}", level.in_flight_max.median),
            format!("{:.0}", level.queue_max.max),
        ]
    };
    outcome.levels.iter().map(of).collect()
}

pub(super) fn text(request: &SimulationRequest, outcome: &SimulationResult) -> String {
    let mut text = format!("# harrier topology simulate {}\n", request.tree);
    for fact in facts(request) {
        _ = writeln!(text, "# {fact}");
    }
    for (name, value) in figures(request, outcome) {
        _ = writeln!(text, "{name:<30}{value}");
    }
    text.push_str("# levels of brokers: medians of their brokers; queues in messages\n#");
    for column in COLUMNS {
        _ = write!(text, "{column:>16}");
    }
    text.push('\n');
    for row in rows(outcome) {
        text.push(' ');
        row.iter().for_each(|cell| _ = write!(text, "{cell:>16}"));
        text.push('\n');
    }
    text
}

fn spread(spread: Spread) -> Value {
    json!({ "least": spread.min, "median": spread.median, "most": spread.max })
}

pub(super) fn json(request: &SimulationRequest, outcome: &SimulationResult, given: &ParsedOptions) -> String {
    let quantiles = |histogram: &Histogram| {
        let of = |(name, share): (&str, f64)| (name.to_owned(), json!(histogram.quantile_ns(share)));
        QUANTILES.into_iter().map(of).collect::<serde_json::Map<_, _>>()
    };
    let levels: Vec<Value> = outcome
        .levels
        .iter()
        .map(|level| {
            json!({
                "level": level.level, "brokers": level.brokers,
                "processor_share": spread(level.processor), "link_share": spread(level.link),
                "queue_messages_mean": spread(level.queue_mean), "queue_messages_max": spread(level.queue_max),
                "unread_messages_max": spread(level.unread_max), "under_way_messages_max": spread(level.in_flight_max),
            })
        })
        .collect();
    let trace = &outcome.trace;
    let frames: Vec<Value> = trace
        .intervals()
        .enumerate()
        .map(|(at, frame)| {
            let levels = (0..trace.levels()).map(|level| {
                json!({
                    "processor_share": spread(trace.level(at, level, |load| load.processor)),
                    "link_share": spread(trace.level(at, level, |load| load.link)),
                    "taken_per_s": spread(trace.level(at, level, |load| load.taken_per_s)),
                    "queue_messages": spread(trace.level(at, level, |load| load.queued)),
                    "unread_messages": spread(trace.level(at, level, |load| load.unread)),
                    "present_share": spread(trace.level(at, level, |load| load.is_up)),
                })
            });
            json!({ "from_ns": frame.from_ns, "to_ns": frame.to_ns, "levels": levels.collect::<Vec<Value>>() })
        })
        .collect();
    let document = json!({
        "schema": SCHEMA, "version": VERSION, "topology": request.tree.to_string(), "options": given.shown(),
        "costs": request.costs, "predicted_per_s": request.predicted_per_s,
        "brokers": request.scenario.tree.brokers(), "consumers": outcome.consumers,
        "message_bytes": request.scenario.message_bytes, "wire_bytes_per_copy": request.scenario.wire_bytes,
        "published": outcome.published, "delivered": outcome.delivered, "again": outcome.redelivered, "late": outcome.late,
        "missing": outcome.missing, "missing_max": outcome.missing_max, "waiting": outcome.waiting,
        "elapsed_ns": outcome.elapsed_ns, "stream_per_s": outcome.stream_per_s,
        "steady_per_s": outcome.steady_per_s, "steady_median_per_s": outcome.steady_median_per_s,
        "aggregate_per_s": outcome.aggregate_per_s(),
        "delivery_ns": quantiles(&outcome.delivery), "last_consumer_ns": quantiles(&outcome.last_delivery),
        "levels": levels, "frames": frames, "events": outcome.events, "cut_short": outcome.cut_short,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_that_suit_them() {
        let told = [5.0, 1_500.0, 2.5e6, 3e9].map(time);
        assert_eq!(told, ["5 ns", "1.5 us", "2.50 ms", "3.00 s"]);
    }
}
