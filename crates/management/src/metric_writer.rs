//! Prometheus' text format, version 0.0.4: families of samples, written into a buffer.

use crate::time_counts::TimeCounts;
use std::io::Write;

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a family's samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A label: name and value.
pub type Label<'a> = (&'static str, &'a str);

/// HELP and TYPE of a family.
pub fn write_head(out: &mut Vec<u8>, name: &str, kind: MetricKind, help: &str) {
    out.extend_from_slice(b"# HELP ");
    out.extend_from_slice(name.as_bytes());
    out.push(b' ');
    // Quotes end nothing here.
    escape(out, help, |byte| matches!(byte, b'\\' | b'\n'));
    for part in ["\n# TYPE ", name, " ", kind.name(), "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Writes a text whose special bytes are written as escapes. Most texts have none and are copied whole.
fn escape(out: &mut Vec<u8>, text: &str, is_special: fn(u8) -> bool) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| is_special(*byte)) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', if rest[at] == b'\n' { b'n' } else { rest[at] }]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// One sample of a family, or of a histogram with a suffix of its name.
pub fn write_sample(out: &mut Vec<u8>, name: &str, labels: &[Label<'_>], value: f64) {
    out.extend_from_slice(name.as_bytes());
    for (at, (label, text)) in labels.iter().enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(b"=\"");
        escape(out, text, |byte| matches!(byte, b'\\' | b'"' | b'\n'));
        out.push(b'"');
    }
    if !labels.is_empty() {
        out.push(b'}');
    }
    out.push(b' ');
    // Whole numbers without a point, as far as a double has them.
    if value.fract() == 0.0 && value.abs() < 2f64.powi(53) {
        write_whole(out, value as i64);
    } else {
        write!(out, "{value:?}").expect("a buffer takes what is written");
    }
    out.push(b'\n');
}

/// Nearly all samples are whole numbers, and there may be one for each of very many objects: without the formatting machinery.
fn write_whole(out: &mut Vec<u8>, value: i64) {
    let (mut digits, mut at, mut rest) = ([0; DIGITS_MAX], DIGITS_MAX, value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Digits of the largest number of 64 bits.
const DIGITS_MAX: usize = 20;

/// A histogram in seconds.
pub fn write_times(out: &mut Vec<u8>, name: &str, labels: &[Label<'_>], of: &TimeCounts) {
    let bucket = format!("{name}_bucket");
    let bounds = of.bounds_us.iter().map(|bound| (*bound as f64 / 1e6).to_string());
    let mut count = 0;
    for (bound, times) in bounds.chain(["+Inf".to_owned()]).zip(&of.classes) {
        count += times;
        let labels: Vec<_> = labels.iter().copied().chain([("le", &*bound)]).collect();
        write_sample(out, &bucket, &labels, count as f64);
    }
    write_sample(out, &format!("{name}_sum"), labels, of.sum_us as f64 / 1e6);
    write_sample(out, &format!("{name}_count"), labels, count as f64);
}

#[cfg(test)]
mod tests {
    use super::{MetricKind, write_head, write_sample};

    #[test]
    fn what_peers_chose_ends_no_label_and_no_line() {
        let mut out = Vec::new();
        write_head(&mut out, "a_total", MetricKind::Counter, "Of \\ a\nkind.");
        write_sample(&mut out, "a_total", &[], 0.0);
        write_sample(&mut out, "a_total", &[("queue", "q\"\\\nü"), ("vhost", "")], 1e15);
        for value in [0.25, -1.0, 42.0, -(2f64.powi(53) - 1.0), 2f64.powi(53)] {
            write_sample(&mut out, "a_total", &[], value);
        }
        let expected = "# HELP a_total Of \\\\ a\\nkind.\n# TYPE a_total counter\na_total 0\n\
                        a_total{queue=\"q\\\"\\\\\\nü\",vhost=\"\"} 1000000000000000\na_total 0.25\na_total -1\na_total 42\na_total -9007199254740991\n\
                        a_total 9007199254740992.0\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
