//! A dot chart of single values: one row each, with a label above, on a common scale. Drawn as SVG.

use std::fmt::Write as _;

use super::axis_scale::{AxisScale, AxisUnit, ScaleKind};
use super::plot::LinePlot;
use super::section::escaped;
use crate::markdown::number;

const WIDTH: f64 = 400.0;
const TOP: f64 = 26.0;
const ROW: f64 = 34.0;
const BOTTOM: f64 = 26.0;
const LEFT: f64 = 6.0;
/// Space for the number after the rightmost dot.
const RIGHT: f64 = 70.0;

/// Whether a panel has single values only, all at the same x.
pub(super) fn fits(plot: &LinePlot) -> bool {
    let mut x_values = plot.lines.iter().flat_map(|line| &line.dots).map(|dot| dot.x);
    let Some(first) = x_values.next() else { return false };
    x_values.all(|x_value| x_value == first) && plot.lines.iter().all(|line| line.dots.len() == 1)
}

/// Draws the chart on a scale that covers the given range of values.
pub(super) fn svg(plot: &LinePlot, span: (f64, f64)) -> String {
    let height = TOP + ROW * plot.lines.len() as f64 + BOTTOM;
    // A logarithmic scale hides differences unless the values are orders of magnitude apart.
    let spread = if span.0 > 0.0 && span.1 / span.0 > 100.0 { ScaleKind::Log10 } else { ScaleKind::Linear };
    let scale = AxisScale::new(spread, AxisUnit::Plain, span, (LEFT + 6.0, WIDTH - RIGHT)).rounded_up();
    let mut svg = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&plot.description())
    );
    let bottom = height - BOTTOM;
    _ = writeln!(svg, "<text class=\"unit\" x=\"2\" y=\"14\">{}</text>", escaped(&plot.y.label));
    for (value, label) in scale.ticks() {
        let at = scale.at(value);
        _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>");
        _ = writeln!(
            svg,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            escaped(&label)
        );
    }
    // Labels that differ only in the contestant are grouped.
    let mut lines: Vec<_> = plot.lines.iter().collect();
    lines.sort_by_key(|line| line.label.split_once(", ").map(|(_, what)| what));
    for (row, line) in lines.into_iter().enumerate() {
        let Some(dot) = line.dots.first() else { continue };
        let at_y = TOP + ROW * row as f64 + 24.0;
        let (at_x, colour) = (scale.at(dot.y), line.look.colour());
        _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{LEFT}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            at_y - 9.0,
            escaped(&line.label)
        );
        _ = writeln!(svg, "<path class=\"row\" d=\"M{LEFT} {at_y:.1}H{:.1}\"/>", WIDTH - RIGHT);
        if let Some((low, high)) = dot.interval.filter(|(low, _)| AxisScale::shows(spread, *low)) {
            _ = writeln!(
                svg,
                "<path class=\"interval wide-interval\" stroke=\"{colour}\" d=\"M{:.1} {at_y:.1}H{:.1}\"/>",
                scale.at(low),
                scale.at(high)
            );
        }
        let title = format!("<title>{}</title>", escaped(&plot.words(line, dot)));
        _ = writeln!(svg, "{}", line.look.marker((at_x, at_y), 1.0, !dot.invalid.is_empty(), &title));
        let mark = if dot.invalid.is_empty() { "" } else { " *" };
        let end = dot.interval.map_or(at_x, |(_, high)| scale.at(high).max(at_x));
        _ = writeln!(
            svg,
            "<text class=\"tick value\" x=\"{:.1}\" y=\"{:.1}\">{}{mark}</text>",
            end + 8.0,
            at_y + 4.0,
            number(dot.y)
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::line_style::LineStyle;
    use crate::page::plot::{PlotAxis, PlotDot, PlotLine};

    #[test]
    fn single_values_are_rows() {
        let axis = |label: &str| PlotAxis { label: label.to_owned(), spread: ScaleKind::Linear, unit: AxisUnit::Plain };
        let line = |label: &str, x: f64, y: f64| PlotLine {
            label: label.to_owned(),
            look: LineStyle::number(0),
            dots: vec![PlotDot { x, y, interval: None, invalid: vec!["why".to_owned()], runs: 1 }],
        };
        let lines =
            vec![line("harrier, what=connection", 1.0, 13_000.0), line("rabbitmq, what=connection", 1.0, 300.0)];
        let mut plot = LinePlot { title: String::new(), x: axis("workers"), y: axis("Operations/s"), lines };
        assert!(fits(&plot));
        let svg = svg(&plot, plot.spans().expect("points").1);
        assert!(svg.contains(">harrier, what=connection</text>") && svg.contains(">13,000 *</text>"), "{svg}");
        assert!(svg.starts_with("<svg class=\"plot\" viewBox=\"0 0 400 120\""), "{svg}");
        plot.lines[1].dots[0].x = 2.0;
        assert!(!fits(&plot), "two places are an axis");
    }
}
