//! Parses a workload file. The keys and their defaults are described in `docs/workloads.md`.

use toml::de::DeTable;

use super::spec::{
    AckMode, AnswerSpec, ArrivalProcess, ConsumerGroup, ObjectiveGoal, PublisherGroup, QueueSource, SendRate,
    SharedQueueSpec, SizeDistribution, SymbolPopularity, ThinkTime, WorkloadBinding, WorkloadExchange,
    WorkloadExchangeType, WorkloadObjective, WorkloadSpec,
};
use super::toml_fields::{TomlField, TomlFields, WorkloadFile as File};
use super::units;
use super::validation;
use crate::limits::{KEYS_MAX, WORKLOAD_CONNECTIONS_MAX, WORKLOAD_NS_MAX};
use harness::limits::MESSAGE_BYTES_MAX;

/// Highest rate of a group, in messages per second.
const RATE_MAX: f64 = 10_000_000.0;
/// Longest think time of a message.
const THINK_NS_MAX: u64 = 60_000_000_000;

/// Parses a workload called `name` from the text of `file`.
pub fn parse(name: &str, file: &str, text: &str) -> Result<WorkloadSpec, String> {
    let file = File { name: file, text };
    let table = DeTable::parse(text).map_err(|error| {
        file.fault(error.span().map_or(0, |span| span.start), "", &format!("this is not TOML: {}", error.message()))
    })?;
    let mut fields = TomlFields::of(&file, table.get_ref());
    fields.only(&[
        "about",
        "duration",
        "warm_up",
        "drain",
        "seed",
        "exchanges",
        "queues",
        "publishers",
        "consumers",
        "objectives",
    ])?;
    if !fields.has("publishers") || !fields.has("consumers") {
        return Err(fields.fault(validation::NOBODY));
    }
    let duration = fields.need("duration")?;
    let mut spec = WorkloadSpec {
        name: name.to_owned(),
        about: fields.need("about")?.text()?.to_owned(),
        duration_ns: duration.duration_ns()?,
        warm_up_ns: 0,
        drain_ns: 5_000_000_000,
        seed: 1,
        exchanges: Vec::new(),
        queues: Vec::new(),
        publishers: Vec::new(),
        consumers: Vec::new(),
        objectives: Vec::new(),
        durable: false,
    };
    if spec.duration_ns == 0 || spec.duration_ns > WORKLOAD_NS_MAX {
        return Err(
            duration.fault(&format!("a workload runs longer than 0 and at most {}", units::shown_ns(WORKLOAD_NS_MAX)))
        );
    }
    if let Some(field) = fields.take("warm_up") {
        spec.warm_up_ns = field.duration_ns()?;
        if spec.warm_up_ns >= spec.duration_ns {
            return Err(field.fault("the warm-up is part of the duration, and shorter"));
        }
    }
    if let Some(field) = fields.take("drain") {
        spec.drain_ns = field.duration_ns()?;
    }
    if let Some(field) = fields.take("seed") {
        spec.seed = field.whole(0, i64::MAX as u64)?;
    }
    for mut table in fields.tables("exchanges")? {
        table.only(&["name", "type"])?;
        let name = name_of(&mut table)?;
        let kinds = [
            ("direct", WorkloadExchangeType::Direct),
            ("fanout", WorkloadExchangeType::Fanout),
            ("topic", WorkloadExchangeType::Topic),
        ];
        if spec.exchanges.iter().any(|other| other.name == name) {
            return Err(table.fault(&format!("there are two exchanges '{name}'")));
        }
        spec.exchanges.push(WorkloadExchange { name, kind: table.need("type")?.one_of(&kinds)? });
        table.end()?;
    }
    for mut table in fields.tables("queues")? {
        table.only(&["name", "bindings", "durable"])?;
        let name = name_of(&mut table)?;
        if spec.queues.iter().any(|other| other.name == name) {
            return Err(table.fault(&format!("there are two queues '{name}'")));
        }
        let queue = SharedQueueSpec {
            name,
            durable: flag(&mut table, "durable")?,
            bindings: bindings(&table.need("bindings")?, &spec.exchanges, &[])?,
        };
        table.end()?;
        spec.queues.push(queue);
    }
    for mut table in fields.tables("publishers")? {
        let group = publishers(&mut table, &spec)?;
        validation::publishers(&group, &spec).map_err(|why| table.fault(&why))?;
        table.end()?;
        spec.publishers.push(group);
    }
    for mut table in fields.tables("consumers")? {
        let group = consumers(&mut table, &spec)?;
        validation::consumers(&group, &spec).map_err(|why| table.fault(&why))?;
        table.end()?;
        spec.consumers.push(group);
    }
    for mut table in fields.tables("objectives")? {
        let objective = objective(&mut table)?;
        validation::objective(&objective, &spec).map_err(|why| table.fault(&why))?;
        table.end()?;
        spec.objectives.push(objective);
    }
    validation::whole(&spec).map_err(|why| fields.fault(&why))?;
    fields.end()?;
    Ok(spec)
}

fn name_of(table: &mut TomlFields<'_, '_>) -> Result<String, String> {
    let field = table.need("name")?;
    let text = field.text()?;
    let fine = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if text.is_empty() || text.len() > 40 || !text.chars().all(fine) {
        return Err(field.fault("a name has 1 to 40 of the letters a-z, 0-9 and -"));
    }
    Ok(text.to_owned())
}

fn flag(table: &mut TomlFields<'_, '_>, key: &'static str) -> Result<bool, String> {
    table.take(key).map_or(Ok(false), |field| field.boolean())
}

fn exchange(field: &TomlField<'_, '_>, exchanges: &[WorkloadExchange]) -> Result<usize, String> {
    let text = field.text()?;
    exchanges.iter().position(|exchange| exchange.name == text).ok_or_else(|| {
        let names: Vec<&str> = exchanges.iter().map(|exchange| exchange.name.as_str()).collect();
        field.fault(&format!("there is no exchange '{text}' under [[exchanges]], only: {}", names.join(", ")))
    })
}

fn bindings(
    list: &TomlField<'_, '_>,
    exchanges: &[WorkloadExchange],
    allowed: &[&str],
) -> Result<Vec<WorkloadBinding>, String> {
    let mut bindings = Vec::new();
    for field in list.list()? {
        let mut table = field.table()?;
        let at = exchange(&table.need("exchange")?, exchanges)?;
        let key = table.take("key").map_or(Ok(String::new()), |key| template(&key, allowed))?;
        table.end()?;
        bindings.push(WorkloadBinding { exchange: at, key });
    }
    if bindings.is_empty() {
        return Err(list.fault("nothing would reach a queue without bindings"));
    }
    Ok(bindings)
}

/// A key with permitted placeholders only.
fn template(field: &TomlField<'_, '_>, allowed: &[&str]) -> Result<String, String> {
    let text = field.text()?;
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { return Err(field.fault("a '{' without its '}'")) };
        let name = &rest[open..=open + close];
        if !allowed.contains(&name) {
            return Err(field.fault(&match allowed {
                [] => format!("'{name}' is not a placeholder here"),
                some => format!("'{name}' is not a placeholder here; there are {}", some.join(", ")),
            }));
        }
        rest = &rest[open + close + 1..];
    }
    if text.len() > 200 {
        return Err(field.fault("a key of at most 200 bytes, placeholders included"));
    }
    Ok(text.to_owned())
}

fn publishers(table: &mut TomlFields<'_, '_>, spec: &WorkloadSpec) -> Result<PublisherGroup, String> {
    table.only(&[
        "name",
        "count",
        "processes",
        "exchange",
        "key",
        "symbols",
        "popularity",
        "size",
        "rate",
        "arrivals",
        "mandatory",
        "persistent",
        "confirms",
        "replies",
    ])?;
    let name = name_of(table)?;
    let count = table.take("count").map_or(Ok(1), |field| field.whole(1, WORKLOAD_CONNECTIONS_MAX as u64))? as usize;
    let processes = table.take("processes").map_or(Ok(1), |field| field.whole(1, count as u64))? as usize;
    let exchange_field = table.need("exchange")?;
    let at = exchange(&exchange_field, &spec.exchanges)?;
    let key = match table.take("key") {
        Some(field) => {
            let key = template(&field, &["{symbol}", "{publisher}"])?;
            if key.split('.').any(|word| word == "*" || word == "#") {
                return Err(field.fault("'*' and '#' are for bindings, not for routing keys"));
            }
            key
        }
        None if spec.exchanges[at].kind == WorkloadExchangeType::Fanout => String::new(),
        None => return Err(table.fault("'key' is missing (only a fanout exchange needs none)")),
    };
    Ok(PublisherGroup {
        name,
        count,
        processes,
        exchange: at,
        key,
        symbols: table.take("symbols").map_or(Ok(1), |field| field.whole(1, KEYS_MAX as u64))? as usize,
        popularity: table.take("popularity").map_or(Ok(SymbolPopularity::Uniform), |field| popularity(&field))?,
        size: size(&table.need("size")?)?,
        rate: rate(&table.need("rate")?)?,
        arrivals: match table.take("arrivals") {
            Some(field) => field.one_of(&[("poisson", ArrivalProcess::Poisson), ("even", ArrivalProcess::Even)])?,
            None => ArrivalProcess::Poisson,
        },
        mandatory: flag(table, "mandatory")?,
        persistent: flag(table, "persistent")?,
        confirms: table.take("confirms").map_or(Ok(0), |field| field.whole(1, 1 << 32))?,
        reply_exchange: table.take("replies").map(|field| exchange(&field, &spec.exchanges)).transpose()?,
    })
}

fn popularity(field: &TomlField<'_, '_>) -> Result<SymbolPopularity, String> {
    if field.is_text() {
        return field.one_of(&[("uniform", SymbolPopularity::Uniform)]);
    }
    let mut table = field.table()?;
    let exponent = table.need("zipf")?.number(0.01, 5.0)?;
    table.end()?;
    Ok(SymbolPopularity::Zipf(exponent))
}

fn size(field: &TomlField<'_, '_>) -> Result<SizeDistribution, String> {
    if !field.is_table() {
        return Ok(SizeDistribution::Constant(field.bytes()?));
    }
    let mut table = field.table()?;
    let size = if let Some(list) = table.take("list") {
        let mut sizes = Vec::new();
        for pair in list.list()? {
            let parts = pair.list()?;
            let [bytes, weight] = parts.as_slice() else {
                return Err(pair.fault("expected a size and a weight, as in [64, 0.8]"));
            };
            sizes.push((bytes.bytes()?, weight.number(1e-9, 1e9)?));
        }
        if sizes.is_empty() {
            return Err(list.fault("expected at least one size with its weight"));
        }
        SizeDistribution::List(sizes)
    } else if let Some(median) = table.take("median") {
        SizeDistribution::LogNormal {
            median: median.bytes()?,
            sigma: table.need("sigma")?.number(0.0, 5.0)?,
            least: table.need("least")?.bytes()?,
            most: table.need("most")?.bytes()?,
        }
    } else if let Some(least) = table.take("least") {
        SizeDistribution::Uniform { least: least.bytes()?, most: table.need("most")?.bytes()? }
    } else {
        return Err(table.fault(
            "expected { least, most } (uniform), { median, sigma, least, most } (lognormal) or { list = [[SIZE, WEIGHT], …] }",
        ));
    };
    table.end()?;
    let (least, most) = (super::random::size_min(&size), super::random::size_max(&size));
    if least > most {
        return Err(field.fault("'least' is more than 'most'"));
    }
    if most > MESSAGE_BYTES_MAX {
        return Err(field.fault(&format!("a message has {MESSAGE_BYTES_MAX} bytes at most")));
    }
    Ok(size)
}

fn rate(field: &TomlField<'_, '_>) -> Result<SendRate, String> {
    if !field.is_table() {
        return Ok(SendRate::Constant(field.number(1e-3, RATE_MAX)?));
    }
    let mut table = field.table()?;
    let rate = if let Some(high) = table.take("burst") {
        let rate = SendRate::Bursts {
            high: high.number(1e-3, RATE_MAX)?,
            low: table.need("idle")?.number(0.0, RATE_MAX)?,
            on_ns: table.need("on")?.duration_ns()?,
            off_ns: table.need("off")?.duration_ns()?,
        };
        if matches!(rate, SendRate::Bursts { on_ns, off_ns, .. } if on_ns == 0 || off_ns == 0) {
            return Err(field.fault("'on' and 'off' are longer than 0"));
        }
        rate
    } else if let Some(peak) = table.take("opening") {
        let settles = table.need("settles_to")?;
        let (peak, base) = (peak.number(1e-3, RATE_MAX)?, settles.number(0.0, RATE_MAX)?);
        if base > peak {
            return Err(settles.fault("'settles_to' must not be more than 'opening'"));
        }
        let half_life = table.need("half_life")?;
        let half_life_ns = half_life.duration_ns()?;
        if half_life_ns == 0 {
            return Err(half_life.fault("a half-life is longer than 0"));
        }
        SendRate::Opening { peak, base, half_life_ns }
    } else {
        return Err(table.fault("expected a number, { burst, idle, on, off } or { opening, settles_to, half_life }"));
    };
    table.end()?;
    Ok(rate)
}

fn consumers(table: &mut TomlFields<'_, '_>, spec: &WorkloadSpec) -> Result<ConsumerGroup, String> {
    table.only(&[
        "name", "count", "queue", "bindings", "picks", "picks_of", "prefetch", "ack", "think", "reject", "crash",
        "answer",
    ])?;
    let name = name_of(table)?;
    let count = table.take("count").map_or(Ok(1), |field| field.whole(1, WORKLOAD_CONNECTIONS_MAX as u64))? as usize;
    let from = match (table.take("queue"), table.take("bindings")) {
        (Some(field), None) => {
            let text = field.text()?;
            let found = spec.queues.iter().position(|queue| queue.name == text);
            QueueSource::Shared(
                found.ok_or_else(|| field.fault(&format!("there is no queue '{text}' under [[queues]]")))?,
            )
        }
        (None, Some(list)) => QueueSource::Own {
            bindings: bindings(&list, &spec.exchanges, &["{consumer}", "{pick}"])?,
            picks: table.take("picks").map_or(Ok(0), |field| field.whole(1, KEYS_MAX as u64))? as usize,
            picks_of: table.take("picks_of").map_or(Ok(0), |field| field.whole(1, KEYS_MAX as u64))? as usize,
        },
        _ => return Err(table.fault("expected either 'queue' (a shared one) or 'bindings' (of queues of their own)")),
    };
    Ok(ConsumerGroup {
        name,
        count,
        from,
        prefetch: table.take("prefetch").map_or(Ok(0), |field| field.whole(1, u64::from(u16::MAX)))? as u16,
        ack: table.take("ack").map_or(Ok(AckMode::None), |field| ack(&field))?,
        think: table.take("think").map(|field| think(&field)).transpose()?,
        reject: table.take("reject").map_or(Ok(0.0), |field| field.share())?,
        crash: table.take("crash").map_or(Ok(0.0), |field| field.share())?,
        answer: table.take("answer").map(|field| answer(&field, spec)).transpose()?,
    })
}

fn ack(field: &TomlField<'_, '_>) -> Result<AckMode, String> {
    if field.is_text() {
        return field.one_of(&[("none", AckMode::None), ("each", AckMode::Every(1))]);
    }
    let mut table = field.table().map_err(|_| field.fault("expected \"none\", \"each\" or { every = N }"))?;
    let count = table.need("every")?.whole(1, 1 << 32)?;
    table.end()?;
    Ok(AckMode::Every(count))
}

fn think(field: &TomlField<'_, '_>) -> Result<ThinkTime, String> {
    let bounded = |field: &TomlField<'_, '_>| match field.duration_ns()? {
        ns if ns <= THINK_NS_MAX => Ok(ns),
        _ => Err(field.fault(&format!("the think time is at most {}", units::shown_ns(THINK_NS_MAX)))),
    };
    if !field.is_table() {
        return Ok(ThinkTime::Constant { ns: bounded(field)? });
    }
    let mut table = field.table()?;
    let think = if let Some(mean) = table.take("mean") {
        ThinkTime::Exponential { mean_ns: bounded(&mean)? }
    } else if let Some(median) = table.take("median") {
        ThinkTime::LogNormal {
            median_ns: bounded(&median)?,
            sigma: table.need("sigma")?.number(0.0, 5.0)?,
            most_ns: bounded(&table.need("most")?)?,
        }
    } else if let Some(least) = table.take("least") {
        ThinkTime::Uniform { least_ns: bounded(&least)?, most_ns: bounded(&table.need("most")?)? }
    } else {
        return Err(table.fault(
            "expected a duration, { least, most } (uniform), { mean } (exponential) or { median, sigma, most } (lognormal)",
        ));
    };
    table.end()?;
    if matches!(think, ThinkTime::Uniform { least_ns, most_ns } if least_ns > most_ns) {
        return Err(field.fault("'least' is more than 'most'"));
    }
    Ok(think)
}

fn answer(field: &TomlField<'_, '_>, spec: &WorkloadSpec) -> Result<AnswerSpec, String> {
    let mut table = field.table()?;
    let answer = AnswerSpec {
        exchange: exchange(&table.need("exchange")?, &spec.exchanges)?,
        size_bytes: table.need("size")?.bytes()?,
    };
    table.end()?;
    Ok(answer)
}

fn objective(table: &mut TomlFields<'_, '_>) -> Result<WorkloadObjective, String> {
    table.only(&["group", "latency", "quantile", "at_most", "at_least"])?;
    let group = table.take("group").map(|field| field.text().map(str::to_owned)).transpose()?;
    let goal = if let Some(kind) = table.take("latency") {
        let kinds = [("delivery", "delivery"), ("service", "service"), ("done", "done"), ("round_trip", "round_trip")];
        let quantile = table.need("quantile")?;
        ObjectiveGoal::Latency {
            kind: kind.one_of(&kinds)?.to_owned(),
            quantile: units::quantile(quantile.text()?).map_err(|why| quantile.fault(&why))?,
            most_us: table.need("at_most")?.duration_ns()? as f64 / 1e3,
        }
    } else if let Some(rate) = table.take("at_least") {
        ObjectiveGoal::Rate { least_per_s: rate.number(1e-3, RATE_MAX)? }
    } else {
        return Err(table.fault("expected { latency, quantile, at_most } or { at_least }"));
    };
    Ok(WorkloadObjective { group, goal })
}

#[cfg(test)]
mod tests;
