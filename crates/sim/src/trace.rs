//! The record of a run: what happened, the first violation, and a digest of every event that clients received.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The record of a run.
pub struct Trace {
    /// Simulated microseconds since the run began; every line carries them.
    pub now_us: u64,
    /// The same for the same seed.
    pub digest: u64,
    lines: Option<Vec<String>>,
    violation: Option<String>,
}

impl Trace {
    /// An empty record. `keeps_lines`: whether it stores lines, or only the digest and the violation.
    pub fn new(keeps_lines: bool) -> Self {
        Trace { now_us: 0, digest: 0, lines: keeps_lines.then(Vec::new), violation: None }
    }

    /// Adds a line, if the record keeps lines.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>10} {}", self.now_us, line()));
        }
    }

    /// Mixes an event into the digest.
    pub fn digest_event(&mut self, event: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.digest, event).hash(&mut hasher);
        self.digest = hasher.finish();
    }

    /// Records a violation; only the first one counts.
    pub fn fail(&mut self, violation: impl Into<String>) {
        if self.violation.is_none() {
            let violation = violation.into();
            self.note(|| format!("VIOLATION: {violation}"));
            self.violation = Some(violation);
        }
    }

    /// Whether a violation was recorded.
    pub fn has_failed(&self) -> bool {
        self.violation.is_some()
    }

    /// The violation, if there was one, and the lines.
    pub fn into_parts(self) -> (Option<String>, Vec<String>) {
        (self.violation, self.lines.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::Trace;

    #[test]
    fn the_first_violation_counts_and_is_the_last_line_before_the_next_event() {
        let mut trace = Trace::new(true);
        trace.note(|| "one".into());
        trace.now_us = 7;
        trace.fail("first");
        trace.fail("second");
        let (violation, lines) = trace.into_parts();
        assert_eq!(violation.as_deref(), Some("first"));
        assert_eq!(lines, ["         0 one", "         7 VIOLATION: first"]);
    }

    #[test]
    fn the_digest_depends_on_every_event_and_on_their_order() {
        let digest = |events: &[u32]| {
            let mut trace = Trace::new(false);
            events.iter().for_each(|event| trace.digest_event(event));
            trace.digest
        };
        assert_eq!(digest(&[1, 2]), digest(&[1, 2]));
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[1]), digest(&[1, 1]));
    }
}
