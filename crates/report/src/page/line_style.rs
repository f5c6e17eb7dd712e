//! The style of a line: colour, marker and dash together, so that lines differ without colour too.
//!
//! The colours have a contrast of at least 4.5 with the page.

use std::fmt::Write as _;

const COLOURS: [&str; 8] = ["#0b4f8a", "#a83a00", "#1a6b37", "#75309a", "#7d5700", "#9c1450", "#0a6470", "#4a4a4a"];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineStyle {
    colour: usize,
    marker: usize,
    dash: usize,
}

impl LineStyle {
    /// The style of line number `index`.
    pub fn number(index: usize) -> Self {
        Self { colour: index, marker: index, dash: index }
    }

    /// The style of a variant of line `index`: the same colour with another marker and dash.
    pub fn variant(index: usize, variant: usize) -> Self {
        Self { colour: index, marker: index + variant * 3, dash: variant }
    }

    pub fn colour(self) -> &'static str {
        COLOURS[self.colour % COLOURS.len()]
    }

    /// The SVG attributes of the line.
    pub fn stroke(self) -> String {
        let dash = DASHES[self.dash % DASHES.len()];
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        format!("stroke=\"{}\"{dash}", self.colour())
    }

    /// The marker at a position, scaled by `size`; hollow for INVALID figures. `inside` may be a title element.
    pub fn marker(self, (x, y): (f64, f64), size: f64, hollow: bool, inside: &str) -> String {
        let fill = if hollow { "#fffdf7" } else { self.colour() };
        let attributes = format!("class=\"dot\" fill=\"{fill}\" stroke=\"{}\"", self.colour());
        let corners = |points: &[(f64, f64)]| {
            let mut text = String::new();
            for (dx, dy) in points {
                _ = write!(text, "{:.1},{:.1} ", x + dx * size, y + dy * size);
            }
            format!("<polygon {attributes} points=\"{}\">{inside}</polygon>", text.trim_end())
        };
        match self.marker % 8 {
            0 => format!("<circle {attributes} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\">{inside}</circle>", 3.2 * size),
            1 => corners(&[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)]),
            2 => corners(&[(0.0, -4.0), (3.8, 3.0), (-3.8, 3.0)]),
            3 => corners(&[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)]),
            4 => corners(&[(0.0, 4.0), (3.8, -3.0), (-3.8, -3.0)]),
            5 => corners(&[
                (-1.2, -4.0),
                (1.2, -4.0),
                (1.2, -1.2),
                (4.0, -1.2),
                (4.0, 1.2),
                (1.2, 1.2),
                (1.2, 4.0),
                (-1.2, 4.0),
                (-1.2, 1.2),
                (-4.0, 1.2),
                (-4.0, -1.2),
                (-1.2, -1.2),
            ]),
            6 => corners(&[(-4.0, -1.8), (4.0, -1.8), (4.0, 1.8), (-4.0, 1.8)]),
            _ => corners(&[(-1.8, -4.0), (1.8, -4.0), (1.8, 4.0), (-1.8, 4.0)]),
        }
    }

    /// A sample of the line for a legend.
    pub fn swatch(self) -> String {
        format!(
            "<svg class=\"swatch\" viewBox=\"0 0 34 12\" width=\"34\" height=\"12\" aria-hidden=\"true\"><path d=\"M1 6H33\" {} stroke-width=\"1.6\" fill=\"none\"/>{}</svg>",
            self.stroke(),
            self.marker((17.0, 6.0), 1.0, false, "")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as WCAG 2.1 defines it.
    fn luminance(colour: &str) -> f64 {
        let channel = |from: usize| {
            let value = f64::from(u8::from_str_radix(&colour[from..from + 2], 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn colours_are_legible_as_text() {
        let ground = luminance("#fffdf7");
        for colour in COLOURS {
            let contrast = (ground + 0.05) / (luminance(colour) + 0.05);
            assert!(contrast >= 4.5, "{colour}: {contrast}");
        }
    }

    #[test]
    fn eight_lines_differ_without_their_colours() {
        let shapes: std::collections::BTreeSet<String> = (0..8)
            .map(|index| {
                LineStyle::number(index)
                    .marker((0.0, 0.0), 1.0, false, "")
                    .replace(LineStyle::number(index).colour(), "")
            })
            .collect();
        assert_eq!(shapes.len(), 8);
        assert_ne!(LineStyle::variant(0, 0), LineStyle::variant(0, 1));
    }
}
