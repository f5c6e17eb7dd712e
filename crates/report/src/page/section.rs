//! A page of sections made by hand, for what is no document: `perf` and its verdicts.
//!
//! Enters: sections.  Leaves: the file, in which a new section replaces the one of the same name.
//! Owns:   the shape of such a page.
//! Never:  loads anything from anywhere.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A part of the report.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its heading, by which it is replaced.
    pub name: String,
    /// Lines under the heading.
    pub facts: Vec<String>,
    /// Names of the table's columns.
    pub columns: Vec<String>,
    /// The table's rows.
    pub rows: Vec<Vec<String>>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// Lines over message sizes, both axes logarithmic.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What the vertical axis shows.
    pub title: String,
    /// Each line's name and points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Harrier benchmarks</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0; }
th, td { padding: .15em .8em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.pass { color: #176b2c; } .miss { color: #a11; font-weight: bold; }
p.fact { color: #555; margin: 0; } svg { max-width: 100%; height: auto; margin: 1em 1em 0 0; }
</style>
<h1>Harrier benchmarks</h1>
"#;

/// A number for a table.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 1_000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
    }
}

/// Writes a file and the folders above it.
///
/// # Errors
/// What the system says, with the file's name.
pub fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
}

/// Adds a section to the report at `path`, or replaces the one of its name.
///
/// # Errors
/// When the file cannot be written.
pub fn add(path: &Path, section: &Section) -> Result<(), String> {
    let (begin, end) = (format!("<!-- section {} -->\n", section.name), format!("<!-- end of {} -->\n", section.name));
    let mut page =
        fs::read_to_string(path).ok().filter(|page| page.starts_with(HEAD)).unwrap_or_else(|| HEAD.to_owned());
    if let (Some(from), Some(to)) = (page.find(&begin), page.find(&end)) {
        page.replace_range(from..to + end.len(), "");
    }
    page.push_str(&begin);
    page.push_str(&section.html());
    page.push_str(&end);
    write_file(path, &page)
}

impl Section {
    fn html(&self) -> String {
        let mut html = format!("<h2>{}</h2>\n", escaped(&self.name));
        for fact in &self.facts {
            _ = writeln!(html, "<p class=\"fact\">{}</p>", escaped(fact));
        }
        for figure in &self.figures {
            html.push_str(&figure.svg());
        }
        html.push_str("<table>\n<tr>");
        for column in &self.columns {
            _ = write!(html, "<th>{}</th>", escaped(column));
        }
        html.push_str("</tr>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for cell in row {
                let class = if cell == "pass" || cell == "miss" { format!(" class=\"{cell}\"") } else { String::new() };
                _ = write!(html, "<td{class}>{}</td>", escaped(cell));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table>\n");
        html
    }
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 80.0;
const BOTTOM: f64 = 45.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 20.0;
const COLOURS: [&str; 4] = ["#0b62a4", "#c2410c", "#15803d", "#7e22ce"];

impl Figure {
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points.iter()).filter(|(x, y)| *x > 0.0 && *y > 0.0);
        let span = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
        };
        let (x_low, x_high) = span(&mut points().map(|(x, _)| x.log2()));
        let (y_low, y_high) = span(&mut points().map(|(_, y)| y.log10()));
        if !x_low.is_finite() {
            return String::new();
        }
        let (y_low, y_high) = (y_low.floor(), y_high.ceil().max(y_low.floor() + 1.0));
        let x = |value: f64| LEFT + (value.log2() - x_low) / (x_high - x_low).max(1.0) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - (value.log10() - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - TOP);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" font-size=\"12\" font-family=\"sans-serif\" role=\"img\">\n"
        );
        _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{}</text>", escaped(&self.title));
        for decade in y_low as i32..=y_high as i32 {
            let value = 10_f64.powi(decade);
            let at = y(value);
            _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>",
                WIDTH - RIGHT
            );
            _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                short(value, 1_000.0)
            );
        }
        let mut exponent = x_low.ceil() as i32;
        while f64::from(exponent) <= x_high {
            let value = 2_f64.powi(exponent);
            _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x(value),
                HEIGHT - BOTTOM + 18.0,
                short(value, 1_024.0)
            );
            exponent += 4;
        }
        _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">bytes</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0
        );
        for (index, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let path: Vec<String> = points
                .iter()
                .filter(|(px, py)| *px > 0.0 && *py > 0.0)
                .map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py)))
                .collect();
            _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
                WIDTH - RIGHT,
                18.0 + 15.0 * index as f64,
                escaped(name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A round value with its thousands as a letter.
fn short(value: f64, step: f64) -> String {
    let (mut value, mut letter) = (value, "");
    for next in ["k", "M", "G"] {
        if value < step {
            break;
        }
        value /= step;
        letter = next;
    }
    format!("{value}{letter}")
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &str, cell: &str) -> Section {
        Section {
            name: name.to_owned(),
            facts: vec!["a < b".to_owned()],
            columns: vec!["Size".to_owned()],
            rows: vec![vec![cell.to_owned()]],
            figures: vec![Figure {
                title: "t".to_owned(),
                lines: vec![("l".to_owned(), vec![(1.0, 10.0), (1024.0, 2000.0)])],
            }],
        }
    }

    #[test]
    fn a_section_replaces_its_former_self_and_no_other() {
        let folder = std::env::temp_dir().join(format!("harrier-report-{}", std::process::id()));
        let path = folder.join("report.html");
        for (name, cell) in [("one", "former"), ("two", "kept"), ("one", "latter")] {
            add(&path, &section(name, cell)).expect("a written report");
        }
        let page = fs::read_to_string(&path).expect("the report");
        fs::remove_dir_all(&folder).expect("the folder is removed");
        assert!(page.starts_with(HEAD) && page.contains("kept") && page.contains("latter") && !page.contains("former"));
        assert!(page.contains("a &lt; b") && page.contains("<polyline points=\"80.0,"));
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([short(1.0, 1_024.0), short(65_536.0, 1_024.0), short(1e6, 1_000.0)], ["1", "64k", "1M"]);
    }
}
