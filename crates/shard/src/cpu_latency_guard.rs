//! One shard's share of the CPU latency request: active while the shard has messages, released when the guard is dropped.

use crate::cpu_latency::CpuLatencyRequest;
use crate::limits::CPU_LATENCY_HOLD;
use std::sync::Arc;
use std::time::Instant;

/// Keeps the CPU latency request active while its shard has messages.
pub(crate) struct CpuLatencyGuard {
    request: Option<Arc<CpuLatencyRequest>>,
    messages: u64,
    /// While the request is active: when it ends, unless there are more messages.
    until: Option<Instant>,
}

impl CpuLatencyGuard {
    /// The guard of a shard without messages. Without a request it does nothing.
    pub fn new(request: Option<Arc<CpuLatencyRequest>>) -> Self {
        CpuLatencyGuard { request, messages: 0, until: None }
    }

    /// Takes the number of messages since the start. Returns when to call again at the latest.
    pub fn update(&mut self, messages: u64, now: Instant) -> Option<Instant> {
        let request = self.request.as_ref()?;
        if messages != self.messages {
            self.messages = messages;
            if self.until.is_none() {
                request.acquire();
            }
            self.until = Some(now + CPU_LATENCY_HOLD);
        } else if self.until.is_some_and(|until| now >= until) {
            request.release();
            self.until = None;
        }
        self.until
    }
}

impl Drop for CpuLatencyGuard {
    fn drop(&mut self) {
        if let (Some(request), Some(_)) = (&self.request, self.until) {
            request.release();
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

    /// A plain file in the place of the kernel's.
    struct LatencyFile(PathBuf);

    impl LatencyFile {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("harrier-latency-{}-{name}", std::process::id()));
            std::fs::write(&path, []).expect("a temporary file");
            LatencyFile(path)
        }

        fn request(&self) -> Arc<CpuLatencyRequest> {
            Arc::new(CpuLatencyRequest::open(&self.0, BOUND_US).expect("it is there"))
        }

        /// The bound that was written last, if any.
        fn bound_us(&self) -> Option<i32> {
            let bytes = std::fs::read(&self.0).expect("it is there");
            bytes.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
        }
    }

    impl Drop for LatencyFile {
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
    fn the_request_is_active_as_long_as_messages_come() {
        let (file, at) = (LatencyFile::new("flow"), start());
        let mut guard = CpuLatencyGuard::new(Some(file.request()));
        assert_eq!((guard.update(0, at), file.bound_us()), (None, None), "nothing has come");
        assert_eq!((guard.update(3, at), file.bound_us()), (Some(at + CPU_LATENCY_HOLD), Some(BOUND_US)));
        let late = at + CPU_LATENCY_HOLD - MOMENT;
        assert_eq!(guard.update(3, late), Some(at + CPU_LATENCY_HOLD), "nothing new, and the time is not over");
        assert_eq!(guard.update(4, late), Some(late + CPU_LATENCY_HOLD), "another one");
        let until = late + CPU_LATENCY_HOLD;
        assert_eq!((guard.update(4, at + CPU_LATENCY_HOLD), file.bound_us()), (Some(until), Some(BOUND_US)));
        assert_eq!((guard.update(4, until), file.bound_us()), (None, Some(LATENCY_UNBOUNDED_US)));
        assert_eq!((guard.update(5, until).is_some(), file.bound_us()), (true, Some(BOUND_US)), "again");
    }

    #[test]
    fn the_request_ends_when_no_shard_has_messages() {
        let (file, at) = (LatencyFile::new("shards"), start());
        let request = file.request();
        let mut guards = [CpuLatencyGuard::new(Some(Arc::clone(&request))), CpuLatencyGuard::new(Some(request))];
        for guard in &mut guards {
            guard.update(1, at);
        }
        let [first, mut second] = guards;
        drop(first);
        assert_eq!(file.bound_us(), Some(BOUND_US), "the other one has messages");
        second.update(1, at + CPU_LATENCY_HOLD);
        assert_eq!(file.bound_us(), Some(LATENCY_UNBOUNDED_US));
        drop(second);
        assert_eq!(file.bound_us(), Some(LATENCY_UNBOUNDED_US));
    }

    #[test]
    fn a_guard_without_a_request_asks_for_no_update() {
        assert_eq!(CpuLatencyGuard::new(None).update(9, start()), None);
    }
}
