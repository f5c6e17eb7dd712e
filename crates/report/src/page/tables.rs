//! The page's tables beside the figures: machines, brokers, every series with its resource usage, comparisons.

use std::fmt::Write as _;

use super::section::escaped;
use crate::columns;
use crate::compare;
use crate::document::{Document, MeasuredSeries};
use crate::estimate::{MetricEstimate, invalid_reasons};
use crate::markdown::number;
use crate::metric::{Metric, MetricRole};
use crate::osu::{axis_name, plain, title};

/// The facts about the run and its targets. Facts common to all documents are stated once.
pub(super) fn facts(documents: &[&Document]) -> String {
    let rows: Vec<Vec<DocumentFact>> = documents.iter().map(|document| facts_of(document)).collect();
    let mut html = String::new();
    let is_shared = |fact: &DocumentFact| documents.len() == 1 || rows.iter().all(|others| others.contains(fact));
    let warnings: Vec<Vec<String>> = documents.iter().map(|document| warnings(document)).collect();
    for warning in warnings.first().into_iter().flatten() {
        if warnings.iter().all(|others| others.contains(warning)) {
            html.push_str(warning);
        }
    }
    html.push_str(&list(rows.first().into_iter().flatten().filter(|fact| is_shared(fact))));
    if documents.len() > 1 {
        for (index, document) in rows.iter().enumerate() {
            _ = writeln!(html, "<h3>Document {}</h3>", index + 1);
            let own = |warning: &&String| !warnings.iter().all(|others| others.contains(warning));
            warnings[index].iter().filter(own).for_each(|warning| html.push_str(warning));
            html.push_str(&list(document.iter().filter(|fact| !is_shared(fact))));
        }
    }
    html
}

/// A name and a value, as HTML.
type DocumentFact = (&'static str, String);

fn list<'a>(facts: impl Iterator<Item = &'a DocumentFact>) -> String {
    let rows: String = facts.map(|(name, value)| format!("<dt>{name}</dt><dd>{value}</dd>\n")).collect();
    if rows.is_empty() { rows } else { format!("<dl>\n{rows}</dl>\n") }
}

/// Warnings that a reader must see first.
fn warnings(document: &Document) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(why) = &document.cut_short {
        let text = format!("Cut short: {}. What was measured until then is shown.", escaped(why));
        warnings.push(format!("<p class=\"warning\">{text}</p>\n"));
    }
    if !document.environment.optimised {
        let text = "Measured with a program that was built without optimisation: these figures mean nothing.";
        warnings.push(format!("<p class=\"warning\">{text}</p>\n"));
    }
    warnings
}

fn facts_of(document: &Document) -> Vec<DocumentFact> {
    let environment = &document.environment;
    let mut rows: Vec<DocumentFact> = vec![("Command", format!("<code>{}</code>", escaped(&document.command)))];
    let ended = document.ended.as_ref().map_or_else(String::new, |ended| format!(" to {ended}"));
    rows.push(("When", escaped(&format!("{}{ended}", document.began))));
    let commit = document.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
    rows.push(("Program", escaped(&format!("harrier {}{commit}", environment.version))));
    let virtual_machine = if environment.virtualised == Some(true) { ", a virtual machine" } else { "" };
    let governor = environment.governor.as_ref().map_or_else(String::new, |governor| format!(", governor {governor}"));
    rows.push((
        "Machine",
        escaped(&format!(
            "{} × {}, {} MiB{virtual_machine}{governor}{}",
            environment.processors,
            environment.processor,
            number(environment.memory_mib as f64),
            environment.wake()
        )),
    ));
    rows.push(("System", escaped(&format!("Linux {}, TCP {}", environment.kernel, environment.congestion_control))));
    if let Some(load) = environment.load_before {
        rows.push(("Load", format!("{load} before the run")));
    }
    rows.push(("Placement", escaped(&document.placement)));
    for target in &document.targets {
        let mut more: Vec<String> = target.url.iter().cloned().collect();
        more.extend(target.tcp.iter().map(|(name, value)| format!("{name} {value}")));
        let more = if more.is_empty() { String::new() } else { format!(": {}", more.join(", ")) };
        rows.push(("Measured", escaped(&format!("{}{more}", target.line()))));
    }
    let options: Vec<String> = document
        .options
        .iter()
        .map(|(name, value)| format!("<code>--{} {}</code>", escaped(name), escaped(value)))
        .collect();
    if !options.is_empty() {
        rows.push(("Options", options.join(", ")));
    }
    rows
}

/// All figures of a series, and the resource usage of every role.
pub(super) fn series(document: &Document, series: &MeasuredSeries) -> String {
    let usual = columns::default_metrics(series);
    let used: Vec<Metric> = columns::available_metrics(series)
        .into_iter()
        .filter(|metric| !usual.contains(metric) && is_resource(metric))
        .collect();
    let heading = escaped(&title(document, series));
    let mut html = format!("<h4>{heading}</h4>\n");
    html.push_str(&points(series, &usual, "figures"));
    if !used.is_empty() {
        html.push_str(&points(series, &used, "resources"));
    }
    let mut notes: Vec<String> = Vec::new();
    for point in &series.points {
        for reason in invalid_reasons(point) {
            notes.push(format!("<li>* INVALID: {}: {}</li>", escaped(&series.label_at(point.at)), escaped(&reason)));
        }
    }
    let mut said: Vec<(&String, Vec<String>)> = Vec::new();
    for point in &series.points {
        for note in point.runs.iter().flat_map(|run| &run.notes) {
            let at = series.label_at(point.at);
            match said.iter_mut().find(|(known, _)| *known == note) {
                Some((_, places)) if places.contains(&at) => {}
                Some((_, places)) => places.push(at),
                None => said.push((note, vec![at])),
            }
        }
    }
    if !notes.is_empty() {
        _ = writeln!(html, "<ul class=\"invalid\">{}</ul>", notes.join("\n"));
    }
    for (note, places) in said {
        _ = writeln!(html, "<p class=\"note\">{}: {}</p>", escaped(&places.join(", ")), escaped(note));
    }
    html
}

/// Whether a metric is about resources and not about results.
fn is_resource(metric: &Metric) -> bool {
    !matches!(
        metric,
        Metric::MbPerS
            | Metric::PublishedPerS
            | Metric::DeliveredPerS
            | Metric::UsPerMessage
            | Metric::OperationsPerS
            | Metric::OneWayMeanUs(_)
            | Metric::LatencyMeanUs(_)
            | Metric::LatencyUs(..)
            | Metric::CpuPercent(MetricRole::Broker)
    )
}

fn points(series: &MeasuredSeries, metrics: &[Metric], what: &str) -> String {
    let mut html = format!(
        "<div class=\"wide\"><table><caption>{what}</caption><thead><tr><th scope=\"col\">{}</th>",
        axis_name(&series.axis)
    );
    for metric in metrics {
        _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&metric.name()));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for point in &series.points {
        let mark = if invalid_reasons(point).is_empty() { "" } else { "<b>*</b>" };
        _ = write!(html, "<tr><td>{}{mark}</td>", escaped(&series.label_at(point.at)));
        for metric in metrics {
            let value = MetricEstimate::of(metric, point).map_or_else(|| "–".to_owned(), |found| number(found.median));
            _ = write!(html, "<td>{value}</td>");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Compares each further target of a document with its first.
pub(super) fn comparisons(document: &Document) -> String {
    let mut html = String::new();
    for comparison in compare::targets(document, false) {
        if comparison.rows.is_empty() {
            continue;
        }
        _ = writeln!(html, "<h3>{} compared with {}</h3>", escaped(&comparison.b), escaped(&comparison.a));
        for warning in &comparison.warnings {
            _ = writeln!(html, "<p class=\"warning\">{}</p>", escaped(warning));
        }
        for line in comparison.closing() {
            _ = writeln!(html, "<p>{}</p>", escaped(&line));
        }
        html.push_str("<details><summary>Every figure</summary>\n<div class=\"wide\"><table><thead><tr>");
        for (index, name) in
            ["measurement", "at", "metric", "A", "B", "B/A", "95 % interval", "B is"].into_iter().enumerate()
        {
            _ = write!(html, "<th scope=\"col\"{}>{name}</th>", if index == 0 { " class=\"words\"" } else { "" });
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in &comparison.rows {
            let mark = if row.invalid.is_empty() { "" } else { "<b>*</b>" };
            let interval =
                row.interval.map_or_else(|| "too few runs".to_owned(), |(low, high)| format!("{low:.3} – {high:.3}"));
            _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}{mark}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.3}</td><td>{interval}</td><td>{}</td></tr>",
                escaped(&row.what),
                plain(row.at),
                escaped(&row.metric.name()),
                number(row.a),
                number(row.b),
                row.ratio,
                row.verdict.name()
            );
        }
        html.push_str("</tbody></table></div></details>\n");
    }
    html
}
