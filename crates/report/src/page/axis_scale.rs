//! Axis scales: map values to coordinates and choose round ticks.

/// The unit of an axis, which determines its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AxisUnit {
    /// Bytes: `4 KiB`.
    Bytes,
    /// Any other: `4k`.
    Plain,
    /// Shares below one, as percentiles.
    Quantile,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScaleKind {
    /// Linear, from zero.
    Linear,
    /// Logarithmic, with ticks at powers of two.
    Log2,
    /// Logarithmic, with ticks at powers of ten.
    Log10,
    /// By nines: 90 %, 99 %, 99.9 %.
    Nines,
}

#[derive(Clone, Debug)]
pub(super) struct AxisScale {
    spread: ScaleKind,
    unit: AxisUnit,
    low: f64,
    high: f64,
    /// The coordinates of `low` and `high`.
    paper: (f64, f64),
}

impl AxisScale {
    /// A scale for values from `low` to `high`; the caller leaves out values that it cannot show.
    pub fn new(spread: ScaleKind, unit: AxisUnit, (low, high): (f64, f64), paper: (f64, f64)) -> Self {
        let (low, high) = match spread {
            ScaleKind::Linear => (low.min(0.0), if high > 0.0 { high } else { 1.0 }),
            // A single value is drawn in the middle.
            ScaleKind::Log2 if low == high => (low / 2.0, high * 2.0),
            ScaleKind::Nines if low == high => (0.0, 0.99),
            ScaleKind::Log2 | ScaleKind::Nines => (low, high),
            ScaleKind::Log10 => (round_below(low), round_above(high.max(low * 1.5))),
        };
        Self { spread, unit, low, high, paper }
    }

    /// Extends the scale to a round number above the largest value.
    pub fn rounded_up(mut self) -> Self {
        if self.spread == ScaleKind::Linear {
            let step = step(self.high - self.low);
            self.high = (self.high / step).ceil() * step;
        }
        self
    }

    /// Whether the scale can show a value.
    pub fn shows(spread: ScaleKind, value: f64) -> bool {
        value.is_finite() && (spread == ScaleKind::Linear || spread == ScaleKind::Nines || value > 0.0)
    }

    fn spread_out(&self, value: f64) -> f64 {
        match self.spread {
            ScaleKind::Linear => value,
            ScaleKind::Log2 => value.log2(),
            ScaleKind::Log10 => value.log10(),
            ScaleKind::Nines => -(1.0 - value.min(0.999_999)).log10(),
        }
    }

    /// The coordinate of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.spread_out(self.low), self.spread_out(self.high));
        self.paper.0 + (self.spread_out(value) - low) / (high - low) * (self.paper.1 - self.paper.0)
    }

    /// The ticks with their labels; a tick without a label is a minor one.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        match self.spread {
            ScaleKind::Linear => {
                let step = step(self.high - self.low);
                let count = ((self.high - self.low) / step).floor() as usize;
                let first = (self.low / step).ceil() * step;
                (0..=count).map(|index| first + index as f64 * step).map(|value| (value, self.label(value))).collect()
            }
            ScaleKind::Log2 => {
                let (from, to) = (self.low.log2().ceil() as i32, self.high.log2().floor() as i32);
                let each = ((to - from) / 6 + 1).max(1);
                // Sizes have labels at 16, 256, 4 KiB.
                let each = if self.unit == AxisUnit::Bytes && each > 2 { 4 } else { each };
                (from..=to)
                    .map(|exponent| {
                        let value = 2_f64.powi(exponent);
                        (value, if exponent % each == 0 || from == to { self.label(value) } else { String::new() })
                    })
                    .collect()
            }
            ScaleKind::Log10 => {
                let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let wide = self.high / self.low > 150.0;
                let mut ticks = Vec::new();
                for decade in from..=to {
                    for digit in [1.0, 2.0, 5.0] {
                        let value = digit * 10_f64.powi(decade);
                        if value >= self.low * 0.999 && value <= self.high * 1.001 && !(wide && digit > 1.0) {
                            ticks.push((value, self.label(value)));
                        }
                    }
                }
                ticks
            }
            ScaleKind::Nines => [0.5, 0.9, 0.99, 0.999, 0.9999]
                .into_iter()
                .filter(|&value| value >= self.low && value <= self.high)
                .map(|value| (value, self.label(value)))
                .collect(),
        }
    }

    fn label(&self, value: f64) -> String {
        match self.unit {
            AxisUnit::Bytes => bytes(value),
            AxisUnit::Plain => short(value),
            AxisUnit::Quantile => format!("{} %", (value * 1e6).round() / 1e4),
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides the span into four to nine parts.
fn step(span: f64) -> f64 {
    let rough = span / 5.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let digit = rough / decade;
    decade
        * if digit <= 1.0 {
            1.0
        } else if digit <= 2.0 {
            2.0
        } else if digit <= 5.0 {
            5.0
        } else {
            10.0
        }
}

fn round_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|digit| digit * decade).find(|&round| round <= value * 1.001).unwrap_or(decade)
}

fn round_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|&round| round >= value * 0.999)
        .unwrap_or(decade * 10.0)
}

/// A number of bytes with a unit.
pub(super) fn bytes(value: f64) -> String {
    for (factor, unit) in [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB")] {
        if value >= factor {
            return format!("{} {unit}", trimmed(value / factor));
        }
    }
    format!("{} B", trimmed(value))
}

/// A number with a suffix for thousands.
pub(super) fn short(value: f64) -> String {
    // Powers of two and the like are shown in full.
    if (1e3..1e5).contains(&value) && value.fract() == 0.0 && value % 100.0 != 0.0 {
        return crate::markdown::number(value);
    }
    for (factor, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value.abs() >= factor * 0.999_999 {
            return format!("{}{letter}", trimmed(value / factor));
        }
    }
    trimmed(value)
}

fn trimmed(value: f64) -> String {
    let text = format!("{:.3}", value);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spread: ScaleKind, unit: AxisUnit, span: (f64, f64), expected: &str) {
        let ticks = AxisScale::new(spread, unit, span, (0.0, 100.0)).rounded_up().ticks();
        let labels: Vec<String> =
            ticks.into_iter().map(|(_, label)| if label.is_empty() { "'".to_owned() } else { label }).collect();
        assert_eq!(labels.join(" "), expected, "{spread:?} {span:?}");
    }

    #[test]
    fn ticks_are_round() {
        check(ScaleKind::Linear, AxisUnit::Plain, (10.0, 93.0), "0 20 40 60 80 100");
        check(ScaleKind::Linear, AxisUnit::Plain, (10.0, 2_345.0), "0 500 1k 1.5k 2k 2.5k");
        check(ScaleKind::Linear, AxisUnit::Plain, (0.0, 0.0), "0 0.2 0.4 0.6 0.8 1");
        check(
            ScaleKind::Log2,
            AxisUnit::Bytes,
            (1.0, 1_048_576.0),
            "1 B ' ' ' 16 B ' ' ' 256 B ' ' ' 4 KiB ' ' ' 64 KiB ' ' ' 1 MiB",
        );
        check(ScaleKind::Log2, AxisUnit::Plain, (1.0, 32.0), "1 2 4 8 16 32");
        check(ScaleKind::Log2, AxisUnit::Plain, (1.0, 1_024.0), "1 ' 4 ' 16 ' 64 ' 256 ' 1,024");
        check(ScaleKind::Log2, AxisUnit::Bytes, (64.0, 64.0), "32 B 64 B 128 B");
        check(ScaleKind::Log10, AxisUnit::Plain, (2_500.0, 7e6), "10k 100k 1M 10M");
        check(ScaleKind::Log10, AxisUnit::Plain, (31.0, 420.0), "20 50 100 200 500");
        check(ScaleKind::Nines, AxisUnit::Quantile, (0.5, 0.9999), "50 % 90 % 99 % 99.9 % 99.99 %");
    }

    #[test]
    fn places_keep_within_the_paper() {
        for spread in [ScaleKind::Linear, ScaleKind::Log2, ScaleKind::Log10] {
            let scale = AxisScale::new(spread, AxisUnit::Plain, (3.0, 700.0), (20.0, 120.0)).rounded_up();
            for value in [3.0, 50.0, 700.0] {
                assert!((20.0..=120.0).contains(&scale.at(value)), "{spread:?} {value}");
            }
            assert!(scale.ticks().iter().all(|(value, _)| (19.9..=120.1).contains(&scale.at(*value))), "{spread:?}");
        }
    }
}
