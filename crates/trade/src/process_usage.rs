//! Processor time of this process between two calls. A call takes about a microsecond and reads no file, so that it
//! does not delay a paced sender.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// Processor time at the last call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUsage {
    user_us: u64,
    system_us: u64,
}

impl ProcessUsage {
    pub(super) fn now() -> Self {
        let us = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
        match getrusage(UsageWho::RUSAGE_SELF) {
            Ok(usage) => Self { user_us: us(usage.user_time()), system_us: us(usage.system_time()) },
            Err(error) => unreachable!("getrusage(2) of this process: {error}"),
        }
    }

    /// Microseconds used since the last call: in user space, in the kernel.
    pub(super) fn since(&mut self) -> (u64, u64) {
        let before = std::mem::replace(self, Self::now());
        (self.user_us.saturating_sub(before.user_us), self.system_us.saturating_sub(before.system_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen() {
        let mut usage = ProcessUsage::now();
        let began = ProcessUsage::now();
        let mut sum = 0_u64;
        while ProcessUsage::now().user_us < began.user_us + 20_000 {
            (0..10_000_u64).for_each(|number| sum = std::hint::black_box(sum.wrapping_add(number)));
        }
        assert!(usage.since().0 >= 20_000);
        assert!(usage.since().0 < 20_000);
    }
}
