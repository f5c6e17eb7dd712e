//! A shard's watch over its messages: as long as there are any, processors are not to sleep.
//!
//! Enters: how many messages there were, and when it was looked.  Leaves: when to look again.
//! Owns:   one shard's part in the bound for the machine, which ends with it.
//! Never:  reads a clock.

use crate::latency::CpuLatency;
use crate::limits::VIGIL_REST;
use std::sync::Arc;
use std::time::Instant;

/// Whether this shard holds the machine's processors awake.
pub(crate) struct Vigil {
    latency: Option<Arc<CpuLatency>>,
    messages: u64,
    /// While it holds them: until when, unless there are more messages.
    until: Option<Instant>,
}

impl Vigil {
    /// Of a shard without messages; `None`: processors sleep as the system wants.
    pub fn new(latency: Option<Arc<CpuLatency>>) -> Self {
        Vigil { latency, messages: 0, until: None }
    }

    /// There were so many messages since the start. Says when to look again at the latest.
    pub fn look(&mut self, messages: u64, now: Instant) -> Option<Instant> {
        let latency = self.latency.as_ref()?;
        if messages != self.messages {
            self.messages = messages;
            if self.until.is_none() {
                latency.hold();
            }
            self.until = Some(now + VIGIL_REST);
        } else if self.until.is_some_and(|until| now >= until) {
            latency.release();
            self.until = None;
        }
        self.until
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        if let (Some(latency), Some(_)) = (&self.latency, self.until) {
            latency.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LATENCY_UNBOUNDED_US;
    use std::path::PathBuf;
    use std::time::Duration;

    const BOUND_US: i32 = 7;

    /// A plain file in the place of the system's.
    struct Asked(PathBuf);

    impl Asked {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("harrier-latency-{}-{name}", std::process::id()));
            std::fs::write(&path, []).expect("a temporary file");
            Asked(path)
        }

        fn latency(&self) -> Arc<CpuLatency> {
            Arc::new(CpuLatency::open(&self.0, BOUND_US).expect("it is there"))
        }

        /// What was asked for last, if anything was.
        fn bound_us(&self) -> Option<i32> {
            let bytes = std::fs::read(&self.0).expect("it is there");
            bytes.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
        }
    }

    impl Drop for Asked {
        fn drop(&mut self) {
            // Whatever is left is the system's to clear.
            let _gone = std::fs::remove_file(&self.0);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "some moment to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn processors_are_held_awake_as_long_as_messages_come() {
        let (asked, at) = (Asked::new("flow"), start());
        let mut vigil = Vigil::new(Some(asked.latency()));
        assert_eq!((vigil.look(0, at), asked.bound_us()), (None, None), "nothing has come");
        assert_eq!((vigil.look(3, at), asked.bound_us()), (Some(at + VIGIL_REST), Some(BOUND_US)));
        let late = at + VIGIL_REST - MOMENT;
        assert_eq!(vigil.look(3, late), Some(at + VIGIL_REST), "nothing new, and the time is not over");
        assert_eq!(vigil.look(4, late), Some(late + VIGIL_REST), "another one");
        assert_eq!((vigil.look(4, at + VIGIL_REST), asked.bound_us()), (Some(late + VIGIL_REST), Some(BOUND_US)));
        assert_eq!((vigil.look(4, late + VIGIL_REST), asked.bound_us()), (None, Some(LATENCY_UNBOUNDED_US)));
        assert_eq!((vigil.look(5, late + VIGIL_REST).is_some(), asked.bound_us()), (true, Some(BOUND_US)), "again");
    }

    #[test]
    fn they_sleep_when_no_shard_has_messages() {
        let (asked, at) = (Asked::new("shards"), start());
        let latency = asked.latency();
        let mut vigils = [Vigil::new(Some(Arc::clone(&latency))), Vigil::new(Some(latency))];
        for vigil in &mut vigils {
            vigil.look(1, at);
        }
        let [first, mut second] = vigils;
        drop(first);
        assert_eq!(asked.bound_us(), Some(BOUND_US), "the other one has messages");
        second.look(1, at + VIGIL_REST);
        assert_eq!(asked.bound_us(), Some(LATENCY_UNBOUNDED_US));
        drop(second);
        assert_eq!(asked.bound_us(), Some(LATENCY_UNBOUNDED_US));
    }

    #[test]
    fn whoever_asks_for_nothing_never_looks_again() {
        assert_eq!(Vigil::new(None).look(9, start()), None);
    }
}
