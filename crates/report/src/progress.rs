//! A progress line on standard error with an estimate of the time left. It is only written to a terminal.

use std::io::{IsTerminal, Write};

use gauge::clock::now_ns;

const BAR: usize = 24;

pub struct ProgressLine {
    shown: bool,
    began_ns: u64,
}

impl ProgressLine {
    pub fn begin() -> Self {
        Self { shown: std::io::stderr().is_terminal(), began_ns: now_ns() }
    }

    /// Shows that `share` (0 to 1) of the run is done, and the current step.
    pub fn show(&self, share: f64, what: &str) {
        let elapsed_s = now_ns().saturating_sub(self.began_ns) as f64 / 1e9;
        self.draw(&line(share, elapsed_s, what));
    }

    /// Erases the line before a row is printed.
    pub fn clear(&self) {
        self.draw("");
    }

    fn draw(&self, text: &str) {
        if self.shown {
            // The line is optional, so write errors are ignored.
            let _ornament = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `[######..................]  25 %, 1 min 30 s left: de-spsc, 64 bytes, run 2 of 5`.
fn line(share: f64, elapsed_s: f64, what: &str) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let full = (share * BAR as f64).round() as usize;
    let left = if share > 0.0 {
        format!("{} left", span(elapsed_s * (1.0 - share) / share))
    } else {
        "time left not known yet".to_owned()
    };
    format!("[{}{}] {:>3.0} %, {left}: {what}", "#".repeat(full), ".".repeat(BAR - full), share * 100.0)
}

/// A duration in its two largest units.
fn span(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{line, span};

    #[test]
    fn lines_of_progress() {
        assert_eq!(
            line(0.25, 30.0, "de-spsc, 64 bytes, run 2 of 5"),
            "[######..................]  25 %, 1 min 30 s left: de-spsc, 64 bytes, run 2 of 5"
        );
        assert_eq!(line(0.0, 1.0, "x"), "[........................]   0 %, time left not known yet: x");
        assert_eq!(line(1.0, 9.0, "x"), "[########################] 100 %, 0 s left: x");
        assert_eq!(line(f64::NAN, 9.0, "x"), "[........................]   0 %, time left not known yet: x");
        assert_eq!([span(59.4), span(60.0), span(7_260.0)], ["59 s", "1 min 0 s", "2 h 1 min"]);
    }
}
