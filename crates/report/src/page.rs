//! The HTML page: figures and tables of one or several documents in a single file without scripts or external resources.

mod axis_scale;
mod catalogue;
mod curves;
mod dot_chart;
mod figure;
mod figure_data;
mod line_style;
mod plot;
mod section;
mod style_sheet;
mod tables;

use std::fmt::Write as _;

pub use curves::{Curve, CurveValue, curves};
use section::table as table_of;
pub use section::{PageSection, escaped, number, opening, render_section, table, write_file};

use crate::columns;
use crate::document::Document;
use crate::metric::Metric;
use catalogue::FigureSpec;
use figure_data::{PageContestant, SeriesEntry};

/// Number of metrics drawn for a series that no figure of the catalogue covers.
const PLAIN_METRICS_MAX: usize = 3;

/// Renders documents as one page.
pub fn render<'a>(documents: impl IntoIterator<Item = &'a Document>) -> String {
    render_with(documents, &[])
}

/// The same with hand-made tables, which come first.
pub fn render_with<'a>(documents: impl IntoIterator<Item = &'a Document>, sections: &[PageSection]) -> String {
    let documents: Vec<&Document> = documents.into_iter().collect();
    let contestants = figure_data::contestants(&documents);
    let entries = entries(&documents, &contestants);
    let chapters = chapters(&documents, &contestants, &entries);
    let mut html = section::opening("Harrier benchmarks");
    html.push_str(&head(&documents));
    html.push_str(&contents(sections, &chapters));
    for (index, section) in sections.iter().enumerate() {
        let (id, name) = (section_id(index), escaped(&section.name));
        _ = writeln!(html, "<section id=\"{id}\">\n<h2>{name}</h2>");
        for fact in &section.facts {
            _ = writeln!(html, "<p>{}</p>", escaped(fact));
        }
        html.push_str(&table_of(section));
        html.push_str("</section>\n");
    }
    for chapter in &chapters {
        _ = writeln!(html, "<section id=\"{}\">\n<h2>{}</h2>", chapter.id, escaped(&chapter.title));
        if !chapter.about.is_empty() {
            _ = writeln!(html, "<p>{}</p>", escaped(chapter.about));
        }
        html.push_str(&chapter.html);
        html.push_str("</section>\n");
    }
    html.push_str(
        "<footer><p>An interval is the range of the runs, trimmed to the narrowest that holds the true median in 95 % of all \
         repetitions where there are runs enough. Closed loop: as fast as answers allow; open loop: by a clock, whatever the \
         answers do. INVALID: the load generator fell behind or ran out of processor, or messages went wrong; such figures \
         are shown and must not be trusted.</p></footer>\n</body>\n</html>\n",
    );
    html
}

/// The anchor of a hand-made table.
fn section_id(index: usize) -> String {
    format!("table-{}", index + 1)
}

/// A chapter with its figures drawn.
struct DrawnChapter {
    id: String,
    title: String,
    about: &'static str,
    /// Anchors and titles of its figures.
    figures: Vec<(String, String)>,
    html: String,
}

fn entries<'a>(documents: &[&'a Document], contestants: &[PageContestant]) -> Vec<SeriesEntry<'a>> {
    let mut entries = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        for series in &document.series {
            let found = contestants.iter().position(|one| one.has(number, series));
            entries.extend(found.map(|contestant| SeriesEntry { document: number, contestant, series }));
        }
    }
    entries
}

fn chapters(documents: &[&Document], contestants: &[PageContestant], entries: &[SeriesEntry<'_>]) -> Vec<DrawnChapter> {
    let mut number = 1;
    let mut chapters = Vec::new();
    let mut shown = vec![false; entries.len()];
    for chapter in catalogue::chapters() {
        let mut figures = draw(&chapter.figures, contestants, entries, &mut number, &mut shown, false);
        let mine = |entry: &SeriesEntry<'_>| chapter_of(entry) == chapter.id;
        let left: Vec<usize> = (0..entries.len()).filter(|&index| mine(&entries[index]) && !shown[index]).collect();
        let more = leftovers(entries, &left);
        figures.extend(draw(&more, contestants, entries, &mut number, &mut shown, true));
        let tables = tables_of(documents, entries, mine);
        if figures.is_empty() && tables.is_empty() {
            continue;
        }
        chapters.push(assemble(chapter.id.to_owned(), chapter.title.to_owned(), chapter.about, figures, &tables));
    }
    // Workloads, and benchmarks that are not in the catalogue, get a chapter each.
    let mut others: Vec<String> = Vec::new();
    for entry in entries.iter().filter(|entry| chapter_of(entry) == OTHER) {
        if !others.contains(&entry.series.benchmark) {
            others.push(entry.series.benchmark.clone());
        }
    }
    for (index, name) in others.into_iter().enumerate() {
        let mine = |entry: &SeriesEntry<'_>| entry.series.benchmark == name;
        let left: Vec<usize> = (0..entries.len()).filter(|&index| mine(&entries[index])).collect();
        let specs = leftovers(entries, &left);
        let figures = draw(&specs, contestants, entries, &mut number, &mut shown, true);
        let tables = tables_of(documents, entries, mine);
        chapters.push(assemble(format!("other-{}", index + 1), name.clone(), "", figures, &tables));
    }
    let compared: String = documents.iter().map(|document| tables::comparisons(document)).collect();
    if !compared.is_empty() {
        chapters.push(DrawnChapter {
            id: "compared".to_owned(),
            title: "Side by side".to_owned(),
            about: "Ratios of medians with intervals found by resampling the runs, which were made in turns.",
            figures: Vec::new(),
            html: compared,
        });
    }
    chapters
}

/// The chapter for benchmarks that are not in the catalogue.
const OTHER: &str = "other";

/// The chapter whose tables list a series.
fn chapter_of(entry: &SeriesEntry<'_>) -> &'static str {
    let first = entry.series.benchmark.split_whitespace().next().unwrap_or("");
    match first {
        "sockets" | "null" if columns::is_ping_pong(entry.series) => "de-pp",
        "sockets" | "null" => "de-spsc",
        other => catalogue::chapters().iter().map(|chapter| chapter.id).find(|id| *id == other).unwrap_or(OTHER),
    }
}

/// Draws the figures that have data. Figures of the catalogue (`even_dots`: false) need a line; the remaining ones also show
/// single points.
fn draw(
    specs: &[FigureSpec],
    contestants: &[PageContestant],
    entries: &[SeriesEntry<'_>],
    number: &mut usize,
    shown: &mut [bool],
    even_dots: bool,
) -> Vec<figure::PageFigure> {
    let mut figures = Vec::new();
    for spec in specs {
        let Some(gathered) = figure_data::gather(spec, contestants, entries) else { continue };
        let is_line = gathered.plots.iter().flat_map(|plot| &plot.lines).any(|line| line.dots.len() > 1);
        let wanted = if spec.variants { has_variants(&gathered) } else { is_line || even_dots };
        if !wanted {
            continue;
        }
        figures.push(figure::build(spec, &gathered, entries, *number));
        *number += 1;
        for (index, entry) in entries.iter().enumerate() {
            shown[index] |= figure_data::covers(spec, entry.series);
        }
    }
    figures
}

/// Whether a contestant was measured in several ways.
fn has_variants(gathered: &figure_data::FigureData) -> bool {
    gathered.plots.iter().flat_map(|plot| &plot.lines).any(|line| line.label.contains(", "))
}

/// Figures for series that the catalogue does not cover: the first metrics over their own axis, and percentiles if a benchmark
/// has a single point.
fn leftovers(entries: &[SeriesEntry<'_>], left: &[usize]) -> Vec<FigureSpec> {
    let mut specs: Vec<FigureSpec> = Vec::new();
    for &index in left {
        let series = entries[index].series;
        let id = |what: &str| {
            let name: String = series
                .benchmark
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
                .collect();
            format!("{name}-by-{what}")
        };
        let mut push = |spec: FigureSpec| {
            if specs.iter().all(|known| known.id != spec.id) {
                specs.push(spec);
            }
        };
        let metrics = columns::default_metrics(series);
        for metric in metrics.into_iter().take(PLAIN_METRICS_MAX) {
            let id = id(&format!("{}-{}", series.axis.replace('_', "-"), metric.key().replace('_', "-")));
            push(catalogue::plain(id, &series.benchmark, &series.axis, metric));
        }
        let kinds: Vec<String> = columns::available_metrics(series)
            .into_iter()
            .filter_map(|metric| if let Metric::LatencyMeanUs(kind) = metric { Some(kind) } else { None })
            .collect();
        let places_have_names = series.points.first().is_some_and(|point| series.name_at(point.at).is_some());
        if series.points.len() == 1 || places_have_names {
            for kind in kinds {
                push(catalogue::quantiles(
                    id(&format!("percentile-{}", kind.replace('_', "-"))),
                    &series.benchmark,
                    &kind,
                ));
            }
        }
    }
    specs
}

fn tables_of(documents: &[&Document], entries: &[SeriesEntry<'_>], mine: impl Fn(&SeriesEntry<'_>) -> bool) -> String {
    entries
        .iter()
        .filter(|entry| mine(entry))
        .map(|entry| tables::series(documents[entry.document], entry.series))
        .collect()
}

fn assemble(
    id: String,
    title: String,
    about: &'static str,
    figures: Vec<figure::PageFigure>,
    tables: &str,
) -> DrawnChapter {
    let mut html = String::new();
    if !figures.is_empty() {
        html.push_str("<div class=\"figures\">\n");
        figures.iter().for_each(|figure| html.push_str(&figure.html));
        html.push_str("</div>\n");
    }
    if !tables.is_empty() {
        _ = writeln!(
            html,
            "<details class=\"all\"><summary>All figures, and what they took</summary>\n{tables}</details>"
        );
    }
    DrawnChapter {
        id,
        title,
        about,
        figures: figures.into_iter().map(|figure| (figure.id, figure.title)).collect(),
        html,
    }
}

fn head(documents: &[&Document]) -> String {
    let mut html = "<header>\n<h1>Harrier benchmarks</h1>\n".to_owned();
    let mut names: Vec<String> = Vec::new();
    for document in documents {
        for target in &document.targets {
            let name = match (&target.product, &target.version) {
                (Some(product), Some(version)) => format!("{product} {version}"),
                (Some(product), None) => product.clone(),
                _ => target.name.clone(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let days: Vec<&str> = documents.iter().filter_map(|document| document.began.split('T').next()).collect();
    let day = days.first().copied().unwrap_or("");
    _ = writeln!(html, "<p class=\"lead\">{}</p>", escaped(&format!("{} — {day}", names.join(", "))));
    html.push_str(&tables::facts(documents));
    html + "</header>\n"
}

fn contents(sections: &[PageSection], chapters: &[DrawnChapter]) -> String {
    let mut html = "<nav aria-label=\"Contents\">\n<ol>\n".to_owned();
    for (index, section) in sections.iter().enumerate() {
        _ = writeln!(html, "<li><a href=\"#{}\">{}</a></li>", section_id(index), escaped(&section.name));
    }
    for chapter in chapters {
        _ = write!(html, "<li><a href=\"#{}\">{}</a>", chapter.id, escaped(&chapter.title));
        if !chapter.figures.is_empty() {
            html.push_str("<ol>");
            for (id, title) in &chapter.figures {
                _ = write!(html, "<li><a href=\"#{id}\">{}</a></li>", escaped(title));
            }
            html.push_str("</ol>");
        }
        html.push_str("</li>\n");
    }
    html + "</ol>\n</nav>\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture;

    fn anchors(html: &str, attribute: &str) -> Vec<String> {
        html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    }

    #[test]
    fn a_page_is_whole_and_needs_nothing_else() {
        let mut document = fixture::document();
        document.series.push(fixture::series(
            "de-pp",
            "size_bytes",
            vec![
                fixture::latency_point(64.0, "round_trip", &[vec![100_000; 20], vec![110_000; 20]]),
                fixture::latency_point(128.0, "round_trip", &[vec![120_000; 20], vec![130_000; 20]]),
            ],
        ));
        document.series.push(fixture::series("workload market <data>", "group", vec![fixture::point(1.0, &[10])]));
        document.cut_short = Some("interrupted".to_owned());
        let html = render([&document]);
        for word in ["<script", "src=", "url(", "@import", "market <data>"] {
            assert!(!html.contains(word), "{word}");
        }
        for word in [
            "Figure 1. Latency, small messages",
            "Message rate",
            "workload market &lt;data&gt;: Delivered/s",
            "INVALID: harrier, 128 B: the publisher used 93 % of its core (1 of 3 runs)",
            "Cut short: interrupted.",
            "harrier (Harrier 0.1.0, tcp): amqp://127.0.0.1:5672, nodelay true",
            "One run, hence no intervals.",
            "Medians of 3 runs; bars are their intervals.",
            "<td>2,000 <span class=\"range\" style=\"min-width:13ch\">1,000 – 3,000</span></td>",
        ] {
            assert!(html.contains(word), "{word} is missing");
        }
        let ids = anchors(&html, " id=\"");
        let unique: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
        let links = anchors(&html, "href=\"#");
        assert!(links.len() > 5 && links.iter().all(|link| unique.contains(link)), "{links:?}");
        for tag in ["section", "figure", "details", "table", "div", "svg", "ul", "ol", "li", "tr", "dl"] {
            let (open, close) = (html.matches(&format!("<{tag}")).count(), html.matches(&format!("</{tag}>")).count());
            // `<li` also begins `<link`, `<tr` nothing else.
            let others = if tag == "li" { html.matches("<link").count() } else { 0 };
            assert_eq!(open - others, close, "<{tag}>");
        }
    }

    #[test]
    fn tables_made_by_hand_come_first_with_their_anchors() {
        let section = PageSection {
            name: "Table <1>".to_owned(),
            facts: vec!["a fact".to_owned()],
            columns: vec!["tree".to_owned()],
            rows: vec![vec!["B-2C".to_owned()]],
        };
        let html = render_with([&fixture::document()], &[section]);
        assert!(html.contains("<a href=\"#table-1\">Table &lt;1&gt;</a>"));
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is missing"));
        assert!(
            at("<section id=\"table-1\">") < at("<td>B-2C</td>")
                && at("<td>B-2C</td>") < at("<section id=\"de-spsc\">")
        );
    }

    #[test]
    fn an_empty_document_is_a_page_too() {
        let html = render([&fixture::document_of(Vec::new(), Vec::new())]);
        assert!(html.contains("<h1>") && html.ends_with("</html>\n"));
    }
}
