//! How much processor time this process uses, from one look to the next.
//!
//! Leaves: microseconds in user space and in the kernel.
//! Owns:   what was seen last.
//! Never:  reads a file: a look takes a microsecond, and a paced sender has no more.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

/// The last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUsage {
    user_us: u64,
    system_us: u64,
}

impl ProcessUsage {
    /// A look.
    pub(super) fn now() -> Self {
        let us = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
        match getrusage(UsageWho::RUSAGE_SELF) {
            Ok(usage) => Self { user_us: us(usage.user_time()), system_us: us(usage.system_time()) },
            Err(error) => unreachable!("the own process can be looked at: {error}"),
        }
    }

    /// What was used since the last look: in user space, in the kernel.
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
