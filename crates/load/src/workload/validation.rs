//! Checks that the parts of a workload fit together and stay within the limits.

use super::message_stamp::STAMP_BYTES;
use super::random::{size_max, size_min};
use super::spec::{
    AckMode, ConsumerGroup, ObjectiveGoal, PublisherGroup, QueueSource, SendRate, WorkloadBinding,
    WorkloadExchangeType, WorkloadObjective, WorkloadSpec,
};
use super::topology::{WorkloadTopology, is_pattern};
use crate::limits::{
    KEYS_MAX, WORKLOAD_BINDINGS_MAX, WORKLOAD_CONNECTIONS_MAX, WORKLOAD_MATCHES_MAX, WORKLOAD_MESSAGES_MAX,
};
use harness::limits::MESSAGE_BYTES_MAX;

/// The error of a workload without publishers or consumers.
pub(crate) const NOBODY: &str = "a workload needs at least one of [[publishers]] and one of [[consumers]]";

/// Checks a group of publishers.
pub fn publishers(group: &PublisherGroup, spec: &WorkloadSpec) -> Result<(), String> {
    unique(&group.name, spec)?;
    if size_min(&group.size) < STAMP_BYTES {
        return Err(format!(
            "bodies of less than {STAMP_BYTES} bytes cannot carry what tells a message and its time; 'size' is too small"
        ));
    }
    if size_max(&group.size) > MESSAGE_BYTES_MAX {
        return Err(format!("a message has {MESSAGE_BYTES_MAX} bytes at most"));
    }
    match (group.symbols > 1, group.key.contains("{symbol}")) {
        (true, false) => {
            return Err("'symbols' without '{symbol}' in the key: all messages would have the same".to_owned());
        }
        (false, true) => return Err("'{symbol}' in the key needs 'symbols', how many there are".to_owned()),
        _ => {}
    }
    let own_keys = if group.key.contains("{publisher}") { group.count } else { 1 };
    if own_keys.saturating_mul(group.symbols) > KEYS_MAX {
        return Err(format!("{own_keys} x {} routing keys; at most {KEYS_MAX}", group.symbols));
    }
    if let SendRate::Bursts { low, .. } = group.rate
        && low > 0.0
        && matches!(group.rate, SendRate::Bursts { high, .. } if high < low)
    {
        return Err("'burst' must not be less than 'idle'".to_owned());
    }
    if let Some(exchange) = group.reply_exchange
        && spec.exchanges[exchange].kind == WorkloadExchangeType::Fanout
    {
        return Err("'replies' through a fanout exchange would reach every publisher; use a direct one".to_owned());
    }
    Ok(())
}

/// Checks a group of consumers.
pub fn consumers(group: &ConsumerGroup, spec: &WorkloadSpec) -> Result<(), String> {
    unique(&group.name, spec)?;
    if let QueueSource::Own { bindings, picks, picks_of } = &group.from {
        let asked = bindings.iter().any(|binding: &WorkloadBinding| binding.key.contains("{pick}"));
        match (asked, picks) {
            (true, 0) => return Err("'{pick}' in a key needs 'picks' and 'picks_of'".to_owned()),
            (false, 1..) => return Err("'picks' without '{pick}' in a key".to_owned()),
            _ => {}
        }
        if picks > picks_of {
            return Err(format!("'picks' are {picks} different ones of 'picks_of', which is {picks_of}"));
        }
    }
    let troubled = group.reject > 0.0 || group.crash > 0.0;
    if troubled && group.ack == AckMode::None {
        return Err("'reject' and 'crash' need acknowledgements: ack = \"each\" or { every = N }".to_owned());
    }
    if troubled && group.prefetch == 0 {
        return Err("'reject' and 'crash' need a 'prefetch': all that waits would be sent again each time".to_owned());
    }
    if group.crash > 0.1 {
        return Err("'crash' is at most 10%: each costs a channel".to_owned());
    }
    match group.ack {
        AckMode::Every(count) if group.prefetch > 0 && count > u64::from(group.prefetch) => {
            return Err(format!(
                "ack every {count} must not exceed prefetch {}: the consumer would stall",
                group.prefetch
            ));
        }
        AckMode::None if group.prefetch > 0 => {
            return Err(
                "'prefetch' means nothing without acknowledgements (ack = \"each\" or { every = N })".to_owned()
            );
        }
        _ => {}
    }
    if let Some(answer) = group.answer {
        if answer.size_bytes < STAMP_BYTES {
            return Err(format!("answers have at least {STAMP_BYTES} bytes"));
        }
        if troubled {
            return Err("consumers that answer must not reject or crash: a request would be answered twice".to_owned());
        }
    }
    Ok(())
}

fn unique(name: &str, spec: &WorkloadSpec) -> Result<(), String> {
    let publishers = spec.publishers.iter().map(|group| &group.name);
    match publishers.chain(spec.consumers.iter().map(|group| &group.name)).any(|other| other == name) {
        true => Err(format!("there are two groups '{name}'")),
        false => Ok(()),
    }
}

/// Checks an objective, once all groups are known.
pub fn objective(objective: &WorkloadObjective, spec: &WorkloadSpec) -> Result<(), String> {
    let is_in = |name: &String| objective.group.as_ref().is_none_or(|group| group == name);
    let publishers: Vec<&PublisherGroup> = spec.publishers.iter().filter(|group| is_in(&group.name)).collect();
    let consumers: Vec<&ConsumerGroup> = spec.consumers.iter().filter(|group| is_in(&group.name)).collect();
    if publishers.is_empty() && consumers.is_empty() {
        let names: Vec<&str> = spec
            .publishers
            .iter()
            .map(|group| group.name.as_str())
            .chain(spec.consumers.iter().map(|group| group.name.as_str()))
            .collect();
        let name = objective.group.as_deref().unwrap_or("");
        return Err(format!("there is no group '{name}', only: {}", names.join(", ")));
    }
    match &objective.goal {
        ObjectiveGoal::Latency { kind, .. } => {
            let has = match kind.as_str() {
                "round_trip" => publishers.iter().any(|group| group.reply_exchange.is_some()),
                "done" => consumers.iter().any(|group| group.think.is_some()),
                _ => !consumers.is_empty(),
            };
            let needed = match kind.as_str() {
                "round_trip" => "publishers with 'replies'",
                "done" => "consumers with 'think'",
                _ => "consumers",
            };
            if has { Ok(()) } else { Err(format!("the latency '{kind}' is measured at {needed}")) }
        }
        ObjectiveGoal::Rate { .. } if consumers.is_empty() => {
            Err("'at_least' counts deliveries, which publishers have none of".to_owned())
        }
        ObjectiveGoal::Rate { .. } => Ok(()),
    }
}

/// Checks the workload as a whole.
pub fn whole(spec: &WorkloadSpec) -> Result<(), String> {
    if spec.publishers.is_empty() || spec.consumers.is_empty() {
        return Err(NOBODY.to_owned());
    }
    for (index, queue) in spec.queues.iter().enumerate() {
        if !spec.consumers.iter().any(|group| group.from == QueueSource::Shared(index)) {
            return Err(format!("queue '{}' has no consumers: lost messages could not be detected", queue.name));
        }
    }
    for group in &spec.publishers {
        if let Some(exchange) = group.reply_exchange
            && !spec.consumers.iter().any(|group| group.answer.is_some_and(|answer| answer.exchange == exchange))
        {
            let name = &spec.exchanges[exchange].name;
            return Err(format!("'{}' waits for replies through '{name}', where no consumers 'answer'", group.name));
        }
    }
    for group in &spec.consumers {
        if let Some(answer) = group.answer
            && !spec.publishers.iter().any(|group| group.reply_exchange == Some(answer.exchange))
        {
            let name = &spec.exchanges[answer.exchange].name;
            return Err(format!("'{}' answers through '{name}', where no publishers wait for 'replies'", group.name));
        }
    }
    let connections: usize = spec.streams() + spec.consumers.iter().map(|group| group.count).sum::<usize>();
    if connections > WORKLOAD_CONNECTIONS_MAX {
        return Err(format!("{connections} connections; at most {WORKLOAD_CONNECTIONS_MAX}"));
    }
    let messages: f64 = spec.publishers.iter().map(|group| group.rate.expected(spec.duration_ns)).sum();
    if messages > WORKLOAD_MESSAGES_MAX {
        return Err(format!("about {messages:.0} messages; at most {WORKLOAD_MESSAGES_MAX:.0}"));
    }
    bindings(spec)
}

fn bindings(spec: &WorkloadSpec) -> Result<(), String> {
    let count_of = |bindings: &[WorkloadBinding], picks: usize| -> usize {
        bindings.iter().map(|binding| if binding.key.contains("{pick}") { picks } else { 1 }).sum()
    };
    let own = spec.consumers.iter().map(|group| match &group.from {
        QueueSource::Own { bindings, picks, .. } => group.count.saturating_mul(count_of(bindings, *picks)),
        QueueSource::Shared(_) => 0,
    });
    let count: usize = spec.queues.iter().map(|queue| queue.bindings.len()).chain(own).sum();
    if count > WORKLOAD_BINDINGS_MAX {
        return Err(format!("{count} bindings; at most {WORKLOAD_BINDINGS_MAX}"));
    }
    let topology = WorkloadTopology::of(spec);
    for group in &spec.publishers {
        let patterns = topology
            .queues
            .iter()
            .flat_map(|queue| &queue.bindings)
            .filter(|(exchange, key)| *exchange == group.exchange && is_pattern(key))
            .count() as u64;
        let own = if group.key.contains("{publisher}") { group.count } else { 1 };
        let matches = patterns * (group.symbols * own) as u64;
        if matches > WORKLOAD_MATCHES_MAX {
            return Err(format!(
                "'{}': {matches} comparisons of patterns with keys would tell what should arrive; at most {WORKLOAD_MATCHES_MAX}",
                group.name
            ));
        }
    }
    Ok(())
}
