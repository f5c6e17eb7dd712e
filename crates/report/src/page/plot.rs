//! One panel: lines over an axis with labels at their ends, drawn as SVG.

use std::fmt::Write as _;

use super::axis_scale::{AxisScale, AxisUnit, ScaleKind};
use super::line_style::LineStyle;
use super::section::escaped;

/// Sizes of a single panel and of one among several. Both are drawn at natural size if there is space, so that all text has the
/// same size.
pub(super) const ALONE: PlotFrame = PlotFrame { width: 400.0, height: 270.0 };
pub(super) const AMONG_OTHERS: PlotFrame = PlotFrame { width: 350.0, height: 250.0 };
const LEFT: f64 = 54.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const RIGHT: f64 = 26.0;
/// Width of a label's letter, slightly more than that of the widest common one.
const LETTER_WIDTH: f64 = 7.0;
/// The same for the bold labels at the lines' ends.
const BOLD_LETTER_WIDTH: f64 = 8.0;
const LABEL_LETTERS_MAX: usize = 16;
const LABEL_HEIGHT: f64 = 14.0;

/// The view box of a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlotFrame {
    width: f64,
    height: f64,
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlotDot {
    pub x: f64,
    pub y: f64,
    pub interval: Option<(f64, f64)>,
    /// Why it is INVALID; empty if it is valid.
    pub invalid: Vec<String>,
    pub runs: usize,
}

#[derive(Clone, Debug)]
pub(super) struct PlotLine {
    pub label: String,
    pub look: LineStyle,
    pub dots: Vec<PlotDot>,
}

/// An axis without its range.
#[derive(Clone, Debug)]
pub(super) struct PlotAxis {
    pub label: String,
    pub spread: ScaleKind,
    pub unit: AxisUnit,
}

#[derive(Clone, Debug)]
pub(super) struct LinePlot {
    /// The panel's title; may be empty.
    pub title: String,
    pub x: PlotAxis,
    pub y: PlotAxis,
    pub lines: Vec<PlotLine>,
}

impl LinePlot {
    /// Removes values that the axes cannot show, and lines without any others.
    pub fn pruned(mut self) -> Self {
        for line in &mut self.lines {
            line.dots.retain(|dot| AxisScale::shows(self.x.spread, dot.x) && AxisScale::shows(self.y.spread, dot.y));
            line.dots.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        self.lines.retain(|line| !line.dots.is_empty());
        self
    }

    /// The ranges of both axes, intervals included; `None` without points.
    pub fn spans(&self) -> Option<((f64, f64), (f64, f64))> {
        let mut dots = self.lines.iter().flat_map(|line| &line.dots).peekable();
        dots.peek()?;
        let mut x = (f64::INFINITY, f64::NEG_INFINITY);
        let mut y = x;
        for dot in dots {
            x = (x.0.min(dot.x), x.1.max(dot.x));
            let (low, high) = self.bounds(dot).unwrap_or((dot.y, dot.y));
            y = (y.0.min(low), y.1.max(high));
        }
        Some((x, y))
    }

    /// The interval of a dot, clipped to the axis.
    fn bounds(&self, dot: &PlotDot) -> Option<(f64, f64)> {
        let (low, high) = dot.interval?;
        AxisScale::shows(self.y.spread, low).then_some((low, high))
    }

    /// Whether the labels fit at the lines' ends; otherwise a legend is needed.
    pub fn labels_fit(&self, frame: PlotFrame, y_span: (f64, f64)) -> bool {
        let height = frame.height - TOP - BOTTOM;
        let y = AxisScale::new(self.y.spread, self.y.unit, y_span, (frame.height - BOTTOM, TOP + 4.0)).rounded_up();
        let ends: Vec<f64> = self.lines.iter().filter_map(|line| line.dots.last()).map(|dot| y.at(dot.y)).collect();
        let apart = |mut ends: Vec<f64>| {
            ends.sort_by(f64::total_cmp);
            // Labels far from their lines are useless: at most three ends may share a position.
            ends.windows(3).all(|near| near[2] - near[0] > LABEL_HEIGHT * 0.8)
        };
        self.lines.len() as f64 * LABEL_HEIGHT <= height
            && self.lines.iter().all(|line| line.label.chars().count() <= LABEL_LETTERS_MAX)
            && (self.lines.len() <= 4 || apart(ends))
    }

    /// Draws it on axes with the given ranges (its own, or those of all panels of its figure).
    pub fn svg(&self, frame: PlotFrame, (x_span, y_span): ((f64, f64), (f64, f64)), labelled: bool) -> String {
        let PlotFrame { width, height } = frame;
        let letters = self.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
        let right = if labelled { (12.0 + letters as f64 * BOLD_LETTER_WIDTH).max(RIGHT) } else { RIGHT };
        let (bottom, end) = (height - BOTTOM, width - right);
        let x = AxisScale::new(self.x.spread, self.x.unit, x_span, (LEFT + 6.0, end - 6.0));
        let y = AxisScale::new(self.y.spread, self.y.unit, y_span, (bottom, TOP + 4.0)).rounded_up();
        let mut svg = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
            escaped(&self.description())
        );
        self.axes(&mut svg, &x, &y, (LEFT, bottom, end));
        for line in &self.lines {
            self.line(&mut svg, line, &x, &y);
        }
        if labelled {
            self.labels(&mut svg, &x, &y, bottom);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// A description for screen readers.
    pub fn description(&self) -> String {
        let names: Vec<&str> = self.lines.iter().map(|line| &*line.label).collect();
        let title = if self.title.is_empty() { String::new() } else { format!("{}: ", self.title) };
        format!("{title}{} by {}, lines: {}", self.y.label, self.x.label, names.join(", "))
    }

    fn axes(&self, svg: &mut String, x: &AxisScale, y: &AxisScale, (left, bottom, end): (f64, f64, f64)) {
        for (value, label) in y.ticks() {
            let at = y.at(value);
            _ = writeln!(svg, "<path class=\"grid\" d=\"M{left} {at:.1}H{end:.1}\"/>");
            _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                at + 4.0,
                escaped(&label)
            );
        }
        _ = writeln!(svg, "<path class=\"axis\" d=\"M{left} {bottom}H{end:.1}\"/>");
        // Labels that would overlap the previous one are omitted.
        let mut free = f64::NEG_INFINITY;
        for (value, label) in x.ticks() {
            let at = x.at(value);
            let half = label.chars().count() as f64 * LETTER_WIDTH / 2.0;
            let long = if label.is_empty() { 3.0 } else { 6.0 };
            _ = writeln!(svg, "<path class=\"axis\" d=\"M{at:.1} {bottom}v{long}\"/>");
            if label.is_empty() || at - half < free {
                continue;
            }
            free = at + half + 4.0;
            _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 19.0,
                escaped(&label)
            );
        }
        _ = writeln!(svg, "<text class=\"unit\" x=\"2\" y=\"14\">{}</text>", escaped(&self.y.label));
        _ = writeln!(
            svg,
            "<text class=\"unit\" x=\"{end:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            bottom + BOTTOM - 6.0,
            escaped(&self.x.label)
        );
    }

    fn line(&self, svg: &mut String, line: &PlotLine, x: &AxisScale, y: &AxisScale) {
        let colour = line.look.colour();
        for dot in &line.dots {
            if let Some((low, high)) = self.bounds(dot) {
                _ = writeln!(
                    svg,
                    "<path class=\"interval\" stroke=\"{colour}\" d=\"M{:.1} {:.1}V{:.1}\"/>",
                    x.at(dot.x),
                    y.at(low),
                    y.at(high)
                );
            }
        }
        if line.dots.len() > 1 {
            let mut path = String::new();
            for (index, dot) in line.dots.iter().enumerate() {
                let command = if index == 0 { 'M' } else { 'L' };
                _ = write!(path, "{command}{:.1} {:.1}", x.at(dot.x), y.at(dot.y));
            }
            _ = writeln!(svg, "<path class=\"line\" {} d=\"{path}\"/>", line.look.stroke());
        }
        // Markers that would touch are drawn smaller.
        let apart = line.dots.windows(2).map(|pair| x.at(pair[1].x) - x.at(pair[0].x)).fold(f64::INFINITY, f64::min);
        let size = (apart / 12.0).clamp(0.6, 1.0);
        for dot in &line.dots {
            let (at_x, at_y) = (x.at(dot.x), y.at(dot.y));
            let title = format!("<title>{}</title>", escaped(&self.words(line, dot)));
            _ = writeln!(svg, "{}", line.look.marker((at_x, at_y), size, !dot.invalid.is_empty(), &title));
            if !dot.invalid.is_empty() {
                _ = writeln!(
                    svg,
                    "<text class=\"tick\" x=\"{at_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">*</text>",
                    (at_y - 5.0).max(10.0)
                );
            }
        }
    }

    /// The tooltip of a point.
    pub fn words(&self, line: &PlotLine, dot: &PlotDot) -> String {
        use crate::markdown::number;
        let interval =
            dot.interval.map_or_else(String::new, |(low, high)| format!(" ({} – {})", number(low), number(high)));
        let mark = if dot.invalid.is_empty() { "" } else { ", INVALID" };
        let x = self.x_words(dot.x);
        format!("{}, {x}: {}{interval} {}, {} runs{mark}", line.label, number(dot.y), self.y.label, dot.runs)
    }

    /// An x value, for a table or a title.
    pub fn x_words(&self, value: f64) -> String {
        match self.x.unit {
            AxisUnit::Bytes => super::axis_scale::bytes(value),
            AxisUnit::Plain => crate::osu::plain(value),
            AxisUnit::Quantile => format!("{} %", (value * 1e6).round() / 1e4),
        }
    }

    /// The labels at the lines' ends, moved apart where they would overlap.
    fn labels(&self, svg: &mut String, x: &AxisScale, y: &AxisScale, bottom: f64) {
        let mut places: Vec<(usize, f64, f64)> = self
            .lines
            .iter()
            .enumerate()
            .filter_map(|(index, line)| line.dots.last().map(|dot| (index, x.at(dot.x), y.at(dot.y))))
            .collect();
        places.sort_by(|a, b| a.2.total_cmp(&b.2));
        let Some(end) = places.iter().map(|place| place.1).max_by(f64::total_cmp) else { return };
        let mut below = TOP;
        for place in &mut places {
            place.2 = place.2.max(below);
            below = place.2 + LABEL_HEIGHT;
        }
        let mut above = bottom;
        for place in places.iter_mut().rev() {
            place.2 = place.2.min(above);
            above = place.2 - LABEL_HEIGHT;
        }
        for (index, _, at) in places {
            let line = &self.lines[index];
            _ = writeln!(
                svg,
                "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
                end + 9.0,
                at + 4.0,
                line.look.colour(),
                escaped(&line.label)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(spread: ScaleKind, lines: Vec<(&str, Vec<(f64, f64)>)>) -> LinePlot {
        let lines = lines.into_iter().enumerate().map(|(index, (label, dots))| PlotLine {
            label: label.to_owned(),
            look: LineStyle::number(index),
            dots: dots
                .into_iter()
                .map(|(x, y)| PlotDot {
                    x,
                    y,
                    interval: Some((y * 0.9, y * 1.1)),
                    invalid: (x == 64.0).then(|| "why".to_owned()).into_iter().collect(),
                    runs: 3,
                })
                .collect(),
        });
        LinePlot {
            title: String::new(),
            x: PlotAxis { label: "message size".to_owned(), spread: ScaleKind::Log2, unit: AxisUnit::Bytes },
            y: PlotAxis { label: "Messages/s".to_owned(), spread, unit: AxisUnit::Plain },
            lines: lines.collect(),
        }
        .pruned()
    }

    /// All numbers in an attribute, for checking that they are within the view box.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        svg.split(&format!(" {attribute}=\"")).skip(1).filter_map(|rest| rest.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn everything_lies_within_the_view_box() {
        for spread in [ScaleKind::Linear, ScaleKind::Log10] {
            let plot = plot(
                spread,
                vec![
                    ("harrier", vec![(1.0, 7e6), (64.0, 6e6), (1_048_576.0, 2.5e3)]),
                    ("rabbitmq", vec![(1.0, 1.7e5), (1_048_576.0, 2.4e3)]),
                ],
            );
            let svg = plot.svg(ALONE, plot.spans().expect("points"), true);
            for (attribute, most) in
                [("x", ALONE.width), ("cx", ALONE.width), ("y", ALONE.height), ("cy", ALONE.height)]
            {
                let found = numbers(&svg, attribute);
                assert!(found.iter().all(|value| (0.0..=most).contains(value)), "{attribute}: {found:?}");
            }
            assert_eq!(svg.matches("class=\"line\"").count(), 2);
            assert_eq!(svg.matches("<title>").count(), 5);
            assert!(svg.contains("harrier, 64 B: 6,000,000 (5,400,000 – 6,600,000) Messages/s, 3 runs, INVALID"));
            assert!(svg.contains(">harrier</text>") && svg.contains("fill=\"#fffdf7\""));
        }
    }

    #[test]
    fn labels_do_not_cover_one_another() {
        let plot = plot(
            ScaleKind::Linear,
            vec![
                ("a", vec![(1.0, 100.0)]),
                ("b", vec![(1.0, 100.5)]),
                ("c", vec![(1.0, 99.5)]),
                ("d", vec![(1.0, 0.1)]),
            ],
        );
        let svg = plot.svg(ALONE, plot.spans().expect("points"), true);
        let mut at: Vec<f64> =
            svg.lines().filter(|line| line.contains("class=\"label\"")).map(|line| numbers(line, "y")[0]).collect();
        at.sort_by(f64::total_cmp);
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_HEIGHT - 0.2), "{at:?}");
        assert!(!svg.contains("class=\"line\""), "a single point is no line");
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let plot = plot(ScaleKind::Log10, vec![("zero", vec![(1.0, 0.0)]), ("some", vec![(1.0, 0.0), (2.0, 5.0)])]);
        assert_eq!(plot.lines.len(), 1);
        assert_eq!(plot.lines[0].dots.len(), 1);
        assert!(LinePlot { lines: Vec::new(), ..plot }.spans().is_none());
    }
}
