//! One figure of the page: its panels, caption and table. Thinned-out lines are still in the table.

use std::fmt::Write as _;

use super::axis_scale::{AxisUnit, bytes};
use super::catalogue::{FigureSpec, LineGrouping};
use super::dot_chart;
use super::figure_data::{FigureData, SeriesEntry, axis_words, covers};
use super::plot::{ALONE, AMONG_OTHERS, LinePlot, PlotDot, PlotLine};
use super::section::escaped;
use crate::document::LoopMode;
use crate::markdown::number;
use crate::osu::plain;

/// Most lines in one panel.
const LINES_MAX: usize = 8;
/// Most INVALID reasons below a figure; its table has all of them.
const REASONS_MAX: usize = 4;

/// A rendered figure.
pub(super) struct PageFigure {
    pub id: String,
    pub title: String,
    pub html: String,
}

/// Renders a figure.
pub(super) fn build(
    spec: &FigureSpec,
    gathered: &FigureData,
    entries: &[SeriesEntry<'_>],
    number: usize,
) -> PageFigure {
    let mut html = format!("<figure id=\"{}\">\n<h3>Figure {number}. {}</h3>\n", spec.id, escaped(&spec.title));
    let many = gathered.plots.len() > 1;
    _ = writeln!(html, "<div class=\"panels{}\">", if many { " many" } else { "" });
    // The panels of a figure share their axes, so that they can be compared at a glance.
    let spans =
        gathered.plots.iter().filter_map(LinePlot::spans).reduce(|(ax, ay), (bx, by)| (wider(ax, bx), wider(ay, by)));
    let mut thinned_from = None;
    let chart = gathered.plots.iter().all(dot_chart::fits);
    let thin = matches!(spec.lines, LineGrouping::Values(_));
    let drawn: Vec<LinePlot> =
        gathered.plots.iter().map(|plot| if thin { thin_out(plot, &mut thinned_from) } else { plot.clone() }).collect();
    let frame = if many { AMONG_OTHERS } else { ALONE };
    let labelled = spans.is_some_and(|(_, y)| drawn.iter().all(|plot| plot.labels_fit(frame, y)));
    for plot in &drawn {
        html.push_str("<div class=\"panel\">\n");
        if !plot.title.is_empty() {
            _ = writeln!(html, "<h4>{}</h4>", escaped(&plot.title));
        }
        html.push_str(&match spans {
            Some((_, y)) if chart => dot_chart::svg(plot, y),
            Some(spans) => plot.svg(frame, spans, labelled),
            None => String::new(),
        });
        html.push_str("</div>\n");
    }
    html.push_str("</div>\n");
    if !labelled && !chart {
        html.push_str(&legend(&drawn));
    }
    _ = writeln!(html, "<figcaption>{}</figcaption>", caption(spec, gathered, entries, thinned_from));
    let reasons = reasons(&gathered.plots, spec.lines);
    html.push_str(&invalid(&reasons));
    html.push_str(&tables(&gathered.plots, &reasons));
    html.push_str("</figure>\n");
    PageFigure { id: spec.id.clone(), title: spec.title.clone(), html }
}

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// A plot with fewer lines: evenly chosen, including the first and the last.
fn thin_out(plot: &LinePlot, from: &mut Option<usize>) -> LinePlot {
    let count = plot.lines.len();
    if count <= LINES_MAX {
        return plot.clone();
    }
    *from = Some(count);
    let chosen = (0..LINES_MAX).map(|index| index * (count - 1) / (LINES_MAX - 1));
    let lines = chosen
        .enumerate()
        .map(|(x_value, index)| PlotLine {
            look: super::line_style::LineStyle::number(x_value),
            ..plot.lines[index].clone()
        })
        .collect();
    LinePlot { lines, ..plot.clone() }
}

/// The legend of all panels, each name once.
pub(super) fn legend(plots: &[LinePlot]) -> String {
    let mut html = "<ul class=\"legend\">".to_owned();
    let mut named: Vec<&str> = Vec::new();
    for line in plots.iter().flat_map(|plot| &plot.lines) {
        if named.contains(&&*line.label) {
            continue;
        }
        named.push(&line.label);
        _ = write!(html, "<li>{} {}</li>", line.look.swatch(), escaped(&line.label));
    }
    html + "</ul>\n"
}

fn caption(
    spec: &FigureSpec,
    gathered: &FigureData,
    entries: &[SeriesEntry<'_>],
    thinned_from: Option<usize>,
) -> String {
    let mut parts = vec![escaped(spec.about)];
    for &(name, value) in &gathered.fixed {
        parts.push(match name {
            "size_bytes" => format!("Messages of {}.", bytes(value)),
            _ => format!("At {} {}.", plain(value), axis_words(name)),
        });
    }
    if let LineGrouping::Values(name) = spec.lines {
        parts.push(format!("Lines: {}.", axis_words(name)));
    }
    let series = || entries.iter().map(|entry| entry.series).filter(|series| covers(spec, series));
    let (open, closed) =
        (series().any(|one| one.pace == LoopMode::Open), series().any(|one| one.pace == LoopMode::Closed));
    parts.push(match (open, closed) {
        (true, true) => "Open and closed loop.".to_owned(),
        (true, false) => "Open loop.".to_owned(),
        _ => "Closed loop.".to_owned(),
    });
    let dots = || gathered.plots.iter().flat_map(|plot| &plot.lines).flat_map(|line| &line.dots);
    let least = dots().map(|dot| dot.runs).min().unwrap_or(0);
    let most = dots().map(|dot| dot.runs).max().unwrap_or(0);
    parts.push(match (least, most) {
        (1, 1) => "One run, hence no intervals.".to_owned(),
        (least, most) if least == most => format!("Medians of {most} runs; bars are their intervals."),
        (least, most) => format!("Medians of {least} to {most} runs; bars are their intervals."),
    });
    if let Some(count) = thinned_from {
        parts.push(format!("{LINES_MAX} of {count} lines are drawn; the table has all."));
    }
    if dots().any(|dot| !dot.invalid.is_empty()) {
        parts.push("<strong>Hollow marks with a * are INVALID.</strong>".to_owned());
    }
    if !spec.paper.is_empty() {
        parts.push(format!("<span class=\"paper\">The paper of 2008: {}.</span>", escaped(spec.paper)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// Why points are INVALID: each reason with the lines and points it concerns.
fn reasons(plots: &[LinePlot], lines: LineGrouping) -> Vec<String> {
    let mut reasons: Vec<(String, &String, Vec<String>)> = Vec::new();
    for plot in plots {
        for line in &plot.lines {
            // Several metrics of one run share its reasons, which are therefore attributed to the panel.
            let who = match lines {
                LineGrouping::Contestants => line.label.clone(),
                LineGrouping::Values(name) => format!("{}, {name} {}", plot.title, line.label),
                LineGrouping::Metrics => plot.title.clone(),
            };
            for dot in &line.dots {
                let x_value = plot.x_words(dot.x);
                for why in &dot.invalid {
                    match reasons.iter_mut().find(|(whose, known, _)| *whose == who && *known == why) {
                        Some((_, _, x_values)) if x_values.contains(&x_value) => {}
                        Some((_, _, x_values)) => x_values.push(x_value.clone()),
                        None => reasons.push((who.clone(), why, vec![x_value.clone()])),
                    }
                }
            }
        }
    }
    reasons.into_iter().map(|(who, why, x_values)| format!("{who}, {}: {why}", x_values.join(", "))).collect()
}

fn invalid(reasons: &[String]) -> String {
    if reasons.is_empty() {
        return String::new();
    }
    let mut html = "<ul class=\"invalid\">\n".to_owned();
    for reason in reasons.iter().take(REASONS_MAX) {
        _ = writeln!(html, "<li>* INVALID: {}</li>", escaped(reason));
    }
    if reasons.len() > REASONS_MAX {
        _ = writeln!(html, "<li>and {} more, below the table</li>", reasons.len() - REASONS_MAX);
    }
    html + "</ul>\n"
}

/// The figure's data, one table per panel.
pub(super) fn tables(plots: &[LinePlot], reasons: &[String]) -> String {
    let mut html = "<details><summary>Table</summary>\n".to_owned();
    for plot in plots {
        let title = if plot.title.is_empty() { String::new() } else { format!("{}: ", plot.title) };
        let (head, rows) = if dot_chart::fits(plot) { by_line(plot) } else { by_x(plot) };
        _ = write!(
            html,
            "<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>",
            escaped(&format!("{title}{}", plot.y.label))
        );
        for name in head {
            _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&name));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (name, cells) in rows {
            _ = write!(html, "<tr><th scope=\"row\">{}</th>", escaped(&name));
            cells.iter().for_each(|cell| _ = write!(html, "<td>{cell}</td>"));
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
    }
    if reasons.len() > REASONS_MAX {
        html.push_str("<ul class=\"invalid\">\n");
        for reason in reasons {
            _ = writeln!(html, "<li>* INVALID: {}</li>", escaped(reason));
        }
        html.push_str("</ul>\n");
    }
    html + "</details>\n"
}

/// Column headings, and rows with their headings.
type FigureTable = (Vec<String>, Vec<(String, Vec<String>)>);

/// A row for each x value, a column for each line.
fn by_x(plot: &LinePlot) -> FigureTable {
    let mut x_values: Vec<f64> = plot.lines.iter().flat_map(|line| &line.dots).map(|dot| dot.x).collect();
    x_values.sort_by(f64::total_cmp);
    x_values.dedup();
    let head = std::iter::once(&plot.x.label).chain(plot.lines.iter().map(|line| &line.label)).cloned().collect();
    let cell_at = |line: &PlotLine, x_value: f64| {
        let letters = range_letters(line);
        let dot = line.dots.iter().find(|dot| dot.x == x_value);
        dot.map_or_else(|| "–".to_owned(), |dot| cell(dot, letters))
    };
    let rows = x_values
        .into_iter()
        .map(|x_value| (row_words(plot, x_value), plot.lines.iter().map(|line| cell_at(line, x_value)).collect()));
    (head, rows.collect())
}

/// For single values: a row for each line.
fn by_line(plot: &LinePlot) -> FigureTable {
    let letters = plot.lines.iter().map(range_letters).max().unwrap_or(0);
    let cells = |line: &PlotLine| line.dots.iter().map(|dot| cell(dot, letters)).collect();
    let rows = plot.lines.iter().map(|line| (line.label.clone(), cells(line)));
    let x_value = plot.lines.first().and_then(|line| line.dots.first()).map_or(0.0, |dot| dot.x);
    // Named values are part of the row headings.
    let x_value =
        if x_value == 0.0 { plot.x.label.clone() } else { format!("{} {}", plot.x.label, row_words(plot, x_value)) };
    (vec![x_value, plot.y.label.clone()], rows.collect())
}

/// An x value in the first column: bytes in full, so that they can be copied.
fn row_words(plot: &LinePlot, x_value: f64) -> String {
    if plot.x.unit == AxisUnit::Plain && x_value >= 1_000.0 { number(x_value) } else { plot.x_words(x_value) }
}

/// The interval of a point in a table.
fn range(dot: &PlotDot) -> String {
    dot.interval.map_or_else(String::new, |(low, high)| format!("{} – {}", number(low), number(high)))
}

/// Width of a line's intervals in letters, for alignment.
fn range_letters(line: &PlotLine) -> usize {
    line.dots.iter().map(|dot| range(dot).chars().count()).max().unwrap_or(0)
}

fn cell(dot: &PlotDot, letters: usize) -> String {
    let mark = if dot.invalid.is_empty() { "" } else { "<b>*</b>" };
    let range = match letters {
        0 => String::new(),
        _ => format!(" <span class=\"range\" style=\"min-width:{letters}ch\">{}</span>", range(dot)),
    };
    format!("{}{mark}{range}", number(dot.y))
}
