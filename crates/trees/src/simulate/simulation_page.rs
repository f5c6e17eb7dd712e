//! The HTML page of a simulation: its figures, the tree with the loads of nodes and links over time, and the loads by
//! level.
//!
//! The page is self-contained and has no scripts; nothing is conveyed by colour alone.

use std::fmt::Write as _;

use desim::{ArrivalProcess, BrokerLoad, LoadTrace, SimulationResult, Spread};
use report::page::{Curve, CurveValue, PageSection, curves, escaped, opening, table};

use super::SimulationRequest;
use super::simulation_report::{COLUMNS, facts, figures, rows};
use super::tree_drawing;

/// Points of a line: more would overlap.
const POINTS_MAX: usize = 24;
/// Levels that are lines of a figure: as many as can be distinguished.
const LINES_MAX: usize = 8;

/// A quantity of a broker, and how it is charted.
struct ChartedQuantity {
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    factor: f64,
    of: fn(&BrokerLoad) -> f64,
}

const MEASURES: [ChartedQuantity; 5] = [
    ChartedQuantity {
        id: "threads",
        title: "How busy threads are",
        axis: "% of the time",
        factor: 100.0,
        of: |load| load.processor,
    },
    ChartedQuantity {
        id: "links",
        title: "How busy links are",
        axis: "% of the time",
        factor: 100.0,
        of: |load| load.link,
    },
    ChartedQuantity {
        id: "rates",
        title: "What brokers are sent",
        axis: "messages/s",
        factor: 1.0,
        of: |load| load.taken_per_s,
    },
    ChartedQuantity {
        id: "queues",
        title: "The longest queues",
        axis: "messages",
        factor: 1.0,
        of: |load| load.queued,
    },
    ChartedQuantity {
        id: "unread",
        title: "What has come and is not read",
        axis: "messages",
        factor: 1.0,
        of: |load| load.unread,
    },
];

/// Renders the page.
pub(super) fn render(request: &SimulationRequest, outcome: &SimulationResult) -> String {
    let title = format!("{}, simulated", request.tree);
    let mut html = opening(&title);
    _ = writeln!(html, "<header>\n<h1>{}</h1>", escaped(&title));
    for fact in facts(request) {
        _ = writeln!(html, "<p>{}</p>", escaped(&fact));
    }
    if let Some(why) = outcome.cut_short {
        _ = writeln!(html, "<p class=\"warning\">Cut short: {}.</p>", escaped(why));
    }
    html.push_str("</header>\n<nav aria-label=\"Contents\">\n<ol>\n");
    for (id, name) in [
        ("outcome", "What came of it"),
        ("tree", "The tree over time"),
        ("time", "Levels over time"),
        ("levels", "Levels"),
    ] {
        _ = writeln!(html, "<li><a href=\"#{id}\">{name}</a></li>");
    }
    html.push_str("</ol>\n</nav>\n<section id=\"outcome\">\n<h2>What came of it</h2>\n");
    let of_all = figures(request, outcome).into_iter().map(|(name, value)| vec![name.trim().to_owned(), value]);
    html.push_str(&prose_table("what", "simulated", of_all));
    html.push_str("</section>\n<section id=\"tree\">\n<h2>The tree over time</h2>\n");
    html.push_str(&tree_drawing::render(&request.scenario.tree, outcome));
    html.push_str("</section>\n<section id=\"time\">\n<h2>Levels over time</h2>\n<div class=\"figures\">\n");
    html.push_str(&over_time(request, &outcome.trace));
    html.push_str("</div>\n</section>\n<section id=\"levels\">\n<h2>Levels</h2>\n<p>Medians of the brokers of a level, over the whole run; queues in messages.</p>\n");
    let columns = COLUMNS.map(str::to_owned).to_vec();
    html.push_str(&table(&PageSection { name: String::new(), facts: Vec::new(), columns, rows: rows(outcome) }));
    html + "</section>\n<footer><p>Simulated: nothing was measured. The same options and the same seed give the same page.</p></footer>\n</body>\n</html>\n"
}

/// A table whose last column contains sentences.
fn prose_table(first: &str, second: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut html = format!(
        "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">{first}</th><th scope=\"col\">{second}</th></tr></thead>\n<tbody>\n"
    );
    for row in rows {
        html.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let class = if at == 0 { "" } else { " class=\"words\"" };
            _ = write!(html, "<td{class}>{}</td>", escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Evenly spaced indexes below `count`, the first and the last included.
pub(super) fn evenly_spaced(count: usize, most: usize) -> Vec<usize> {
    match (count, most) {
        (0, _) | (_, 0) => Vec::new(),
        _ if count <= most => (0..count).collect(),
        (_, 1) => vec![0],
        _ => (0..most).map(|at| at * (count - 1) / (most - 1)).collect(),
    }
}

/// The mean load of a level over some sample intervals.
fn between(trace: &LoadTrace, frames: std::ops::Range<usize>, level: usize, of: fn(&BrokerLoad) -> f64) -> Spread {
    let count = frames.len().max(1) as f64;
    let mut sum = Spread::default();
    for frame in frames {
        let Spread { min: least, median, max: most } = trace.level(frame, level, of);
        sum = Spread { min: sum.min + least, median: sum.median + median, max: sum.max + most };
    }
    Spread { min: sum.min / count, median: sum.median / count, max: sum.max / count }
}

fn over_time(request: &SimulationRequest, trace: &LoadTrace) -> String {
    let frames: Vec<desim::SampleInterval> = trace.intervals().collect();
    if frames.len() < 2 {
        return "<p>The run is too short to be seen over time.</p>\n".to_owned();
    }
    let points = frames.len().min(POINTS_MAX);
    let parts: Vec<std::ops::Range<usize>> =
        (0..points).map(|at| at * frames.len() / points..(at + 1) * frames.len() / points).collect();
    let levels = evenly_spaced(trace.levels(), LINES_MAX);
    let some = if levels.len() < trace.levels() {
        format!(" {} of {} levels.", levels.len(), trace.levels())
    } else {
        String::new()
    };
    let pace = if request.scenario.arrivals == ArrivalProcess::Closed { "Closed loop" } else { "Open loop" };
    let mut html = String::new();
    for measure in &MEASURES {
        let lines: Vec<Curve> = levels
            .iter()
            .map(|&level| {
                let value = |part: &std::ops::Range<usize>| {
                    let spread = between(trace, part.clone(), level, measure.of);
                    let [least, median, most] =
                        [spread.min, spread.median, spread.max].map(|value| value * measure.factor);
                    let x = frames[part.end - 1].to_ns as f64 / 1e9;
                    CurveValue { x, y: median, interval: (least < most).then_some((least, most)) }
                };
                Curve { label: format!("level {level}"), values: parts.iter().map(value).collect() }
            })
            .collect();
        // A line that is always zero is left out.
        if lines.iter().flat_map(|line| &line.values).all(|value| value.y == 0.0 && value.interval.is_none()) {
            continue;
        }
        let caption =
            format!("{pace}, simulated. Medians of the brokers of a level; bars reach from minimum to maximum.{some}");
        html.push_str(&curves(measure.id, measure.title, &caption, ("s", measure.axis), &lines));
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_chosen_evenly() {
        assert_eq!(evenly_spaced(3, 8), [0, 1, 2]);
        assert_eq!(evenly_spaced(100, 4), [0, 33, 66, 99]);
        assert_eq!((evenly_spaced(5, 1), evenly_spaced(0, 4)), (vec![0], vec![]));
    }
}
