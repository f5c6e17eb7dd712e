//! Writes a comparison as text, Markdown and JSON. A ratio without an interval is shown with the reason.

use super::{ComparisonRow, DocumentComparison, RUNS_MIN};
use crate::json;
use crate::markdown::{head, number};
use crate::osu::{axis_name, plain};

impl DocumentComparison {
    /// As text for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("# A: {}\n# B: {}\n", self.a, self.b);
        for warning in &self.warnings {
            text.push_str(&format!("# WARNING: {warning}\n"));
        }
        for (index, row) in self.rows.iter().enumerate() {
            if index == 0 || self.rows[index - 1].what != row.what {
                text.push_str(&format!("\n# {}\n", row.what));
                text.push_str(&format!(
                    "{:<10}{:>22}{:>14}{:>14}{:>9}{:>18}  {}\n",
                    format!("# {}", axis_name(&row.axis)),
                    "Metric",
                    "A",
                    "B",
                    "B/A",
                    "95 % interval",
                    "B is"
                ));
            }
            let mark = if row.invalid.is_empty() { "" } else { "  *" };
            text.push_str(&format!(
                "{:<10}{:>22}{:>14}{:>14}{:>9.3}{:>18}  {}{mark}\n",
                plain(row.at),
                row.metric.name(),
                number(row.a),
                number(row.b),
                row.ratio,
                row.interval_text(),
                row.verdict.name()
            ));
        }
        for (at, reason) in self.reasons() {
            text.push_str(&format!("# * {at}: INVALID: {reason}\n"));
        }
        text.push('\n');
        for line in self.closing() {
            text.push_str(&format!("# {line}\n"));
        }
        text
    }

    pub fn markdown(&self) -> String {
        let mut text = format!("# {} compared with {}\n\nB is {}, A is {}.\n\n", self.b, self.a, self.b, self.a);
        for warning in &self.warnings {
            text.push_str(&format!("- WARNING: {warning}\n"));
        }
        for (index, row) in self.rows.iter().enumerate() {
            if index == 0 || self.rows[index - 1].what != row.what {
                text.push_str(&format!("\n## {}\n\n", row.what));
                let names = [&axis_name(&row.axis), "Metric", "A", "B", "B/A", "95 % interval", "B is"];
                text.push_str(&head(&names.map(str::to_owned)));
            }
            let mark = if row.invalid.is_empty() { "" } else { " \\*" };
            text.push_str(&format!(
                "| {}{mark} | {} | {} | {} | {:.3} | {} | {} |\n",
                plain(row.at),
                row.metric.name(),
                number(row.a),
                number(row.b),
                row.ratio,
                row.interval_text(),
                row.verdict.name()
            ));
        }
        text.push('\n');
        for (at, reason) in self.reasons() {
            text.push_str(&format!("\\* {at}: INVALID: {reason}\n\n"));
        }
        text + &self.closing().join("\n\n") + "\n"
    }

    /// As JSON.
    ///
    /// # Errors
    /// A value that JSON cannot represent.
    pub fn json(&self) -> Result<String, String> {
        json::pretty(self)
    }

    /// Why points are INVALID, each reason once per value of the axis.
    fn reasons(&self) -> Vec<(String, String)> {
        let mut reasons = Vec::new();
        for row in &self.rows {
            for reason in &row.invalid {
                let entry = (format!("{}, {}", row.what, plain(row.at)), reason.clone());
                if !reasons.contains(&entry) {
                    reasons.push(entry);
                }
            }
        }
        reasons
    }

    /// The lines below the rows.
    pub(crate) fn closing(&self) -> Vec<String> {
        let (better, worse, noise) = self.tally();
        let mut lines =
            vec![format!("{} figures: B is better in {better}, worse in {worse}; {noise} are noise.", self.rows.len())];
        if better + worse > 0 {
            let with_interval = self.rows.iter().filter(|row| row.interval.is_some()).count();
            let by_chance = (with_interval as f64 / 20.0).ceil();
            lines.push(format!(
                "Of {with_interval} intervals of 95 %, chance alone makes about {by_chance} look like a difference."
            ));
        }
        if self.in_turns && !self.rows.is_empty() {
            lines.push("B/A is the median of the ratios within each turn, and its interval theirs.".to_owned());
        }
        if self.rows.iter().any(|row| row.runs.0.min(row.runs.1) < RUNS_MIN) {
            lines.push(format!("Fewer than {RUNS_MIN} runs on a side are noise, whatever their ratio."));
        }
        lines.extend(self.unmatched.iter().map(|line| format!("Not compared: {line}.")));
        lines
    }
}

impl ComparisonRow {
    fn interval_text(&self) -> String {
        match self.interval {
            Some((low, high)) => format!("{low:.3} – {high:.3}"),
            None => "too few runs".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compare::{ComparisonRow, ComparisonVerdict, DocumentComparison};
    use crate::metric::Metric;

    fn comparison() -> DocumentComparison {
        let row = ComparisonRow {
            what: "de-spsc, pairs=1: harrier".to_owned(),
            axis: "size_bytes".to_owned(),
            at: 64.0,
            metric: Metric::PublishedPerS,
            a: 1_000.0,
            b: 1_500.0,
            runs: (5, 5),
            ratio: 1.5,
            interval: Some((1.4, 1.6)),
            verdict: ComparisonVerdict::Better,
            invalid: Vec::new(),
        };
        let few = ComparisonRow {
            at: 128.0,
            runs: (3, 5),
            interval: None,
            verdict: ComparisonVerdict::Noise,
            invalid: vec!["B: the publisher used 93 % of its core".to_owned()],
            ..row.clone()
        };
        DocumentComparison {
            a: "a.json".to_owned(),
            b: "b.json".to_owned(),
            warnings: vec!["the kernel differs: 6.1.0 in A, 6.2.0 in B".to_owned()],
            rows: vec![row, few],
            unmatched: vec!["de-pp: harrier only in a.json".to_owned()],
            in_turns: false,
        }
    }

    #[test]
    fn for_a_terminal() {
        let expected = "\
# A: a.json
# B: b.json
# WARNING: the kernel differs: 6.1.0 in A, 6.2.0 in B

# de-spsc, pairs=1: harrier
# Size                    Metric             A             B      B/A     95 % interval  B is
64                    Messages/s         1,000         1,500    1.500     1.400 – 1.600  better
128                   Messages/s         1,000         1,500    1.500      too few runs  noise  *
# * de-spsc, pairs=1: harrier, 128: INVALID: B: the publisher used 93 % of its core

# 2 figures: B is better in 1, worse in 0; 1 are noise.
# Of 1 intervals of 95 %, chance alone makes about 1 look like a difference.
# Fewer than 5 runs on a side are noise, whatever their ratio.
# Not compared: de-pp: harrier only in a.json.
";
        assert_eq!(comparison().text(), expected);
    }

    #[test]
    fn as_markdown() {
        let expected = "\
# b.json compared with a.json

B is b.json, A is a.json.

- WARNING: the kernel differs: 6.1.0 in A, 6.2.0 in B

## de-spsc, pairs=1: harrier

| Size | Metric | A | B | B/A | 95 % interval | B is |
|---:|---:|---:|---:|---:|---:|---:|
| 64 | Messages/s | 1,000 | 1,500 | 1.500 | 1.400 – 1.600 | better |
| 128 \\* | Messages/s | 1,000 | 1,500 | 1.500 | too few runs | noise |

\\* de-spsc, pairs=1: harrier, 128: INVALID: B: the publisher used 93 % of its core

2 figures: B is better in 1, worse in 0; 1 are noise.

Of 1 intervals of 95 %, chance alone makes about 1 look like a difference.

Fewer than 5 runs on a side are noise, whatever their ratio.

Not compared: de-pp: harrier only in a.json.
";
        assert_eq!(comparison().markdown(), expected);
    }

    #[test]
    fn as_json() {
        let value: serde_json::Value =
            serde_json::from_str(&comparison().json().expect("JSON")).expect("what was written");
        assert_eq!(value["rows"][0]["metric"], "published_per_s");
        assert_eq!(value["rows"][0]["verdict"], "better");
        assert_eq!(value["rows"][1]["interval"], serde_json::Value::Null);
    }
}
