//! A figure of values over an arbitrary axis, for pages that are not made from documents.

use std::fmt::Write as _;

use super::axis_scale::{AxisUnit, ScaleKind};
use super::figure::{legend, tables};
use super::line_style::LineStyle;
use super::plot::{ALONE, LinePlot, PlotAxis, PlotDot, PlotLine};
use super::section::escaped;

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveValue {
    pub x: f64,
    pub y: f64,
    /// The interval, if there is one.
    pub interval: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Curve {
    pub label: String,
    /// Its values in ascending order of x.
    pub values: Vec<CurveValue>,
}

/// Draws curves on linear axes from zero with these axis names. Without values, returns nothing.
pub fn curves(id: &str, title: &str, caption: &str, (x, y): (&str, &str), curves: &[Curve]) -> String {
    let axis = |label: &str| PlotAxis { label: label.to_owned(), spread: ScaleKind::Linear, unit: AxisUnit::Plain };
    let dot =
        |value: &CurveValue| PlotDot { x: value.x, y: value.y, interval: value.interval, invalid: Vec::new(), runs: 1 };
    let lines = curves.iter().enumerate().map(|(number, curve)| PlotLine {
        label: curve.label.clone(),
        look: LineStyle::number(number),
        dots: curve.values.iter().map(dot).collect(),
    });
    let plot = LinePlot { title: String::new(), x: axis(x), y: axis(y), lines: lines.collect() }.pruned();
    let Some(spans) = plot.spans() else { return String::new() };
    let labelled = plot.labels_fit(ALONE, spans.1);
    let mut html = format!("<figure id=\"{id}\">\n<h3>{}</h3>\n<div class=\"panels\">\n", escaped(title));
    _ = writeln!(html, "<div class=\"panel\">\n{}</div>\n</div>", plot.svg(ALONE, spans, labelled));
    let plots = [plot];
    if !labelled {
        html.push_str(&legend(&plots));
    }
    _ = writeln!(html, "<figcaption>{}</figcaption>", escaped(caption));
    html.push_str(&tables(&plots, &[]));
    html + "</figure>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_lines_caption_and_table() {
        let value = |x: f64, y: f64| CurveValue { x, y, interval: Some((y / 2.0, y * 2.0)) };
        let curve = |label: &str| Curve { label: label.to_owned(), values: vec![value(0.0, 1.0), value(1.0, 3.0)] };
        let html = curves("load", "Load <1>", "Closed loop.", ("s", "%"), &[curve("level 0"), curve("level 1")]);
        for part in ["<figure id=\"load\">", "Load &lt;1&gt;", "class=\"line\"", ">level 1<", "<tbody>", "Closed loop."]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(curves("none", "None", "", ("s", "%"), &[]), "");
    }
}
