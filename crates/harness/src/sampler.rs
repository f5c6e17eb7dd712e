//! Samples memory while a command waits for its roles, so that a peak between start and end is seen.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use gauge::{ProcessMeter, RoleUsage};

use crate::limits::SAMPLE_INTERVAL;

/// A running sampler.
pub struct MemorySampler {
    end: Sender<()>,
    thread: JoinHandle<RoleUsage>,
}

impl MemorySampler {
    /// Starts sampling; `None` without processes on this host.
    pub fn start(pids: &[u32]) -> Option<Self> {
        if pids.is_empty() {
            return None;
        }
        let mut meter = ProcessMeter::start(pids);
        let (end, ended) = channel();
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(SAMPLE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                meter.sample();
            }
            meter.stop()
        });
        Some(Self { end, thread })
    }

    /// Ends the measurement; `None` if no process was readable.
    pub fn stop(self) -> Option<RoleUsage> {
        // The thread may have ended already.
        let _ended = self.end.send(());
        self.thread.join().ok().and_then(RoleUsage::known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_peak_between_samples_is_seen() {
        assert!(MemorySampler::start(&[]).is_none());
        const BYTES: usize = 96 << 20;
        let sampler = MemorySampler::start(&[std::process::id()]).expect("this process is here");
        drop(std::hint::black_box(vec![1_u8; BYTES]));
        let usage = sampler.stop().expect("this process can be read");
        assert!(usage.resident_bytes > BYTES as u64 / 2, "{usage:?}");
    }
}
