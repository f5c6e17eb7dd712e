//! Memory accounting of one shard: when its use is added up, and what follows from the sums of all shards.

use crate::limits::{
    HEAP_TRIM_BYTES_MIN, HEAP_TRIM_INTERVAL, MEMORY_CHECK_INTERVAL, MEMORY_STEP_BYTES, RECHECK_INTERVAL,
};
use crate::memory_pressure::MemoryPressure;
use crate::partial_check::PartialCheck;
use crate::shared_state::SharedState;
use catalog::{ShardId, VhostId};
use std::time::Instant;

/// What one shard last reported of its memory, and when.
pub(crate) struct MemoryAccount {
    shard: ShardId,
    checked_at: Option<Instant>,
    /// The most bytes that the lists of messages took since the heap was last trimmed.
    list_bytes_peak: usize,
    heap_trimmed_at: Option<Instant>,
    heap_trim_is_due: bool,
    /// What the shard held of message memory, and the process on its heap, when that was last added up.
    seen_bytes: usize,
    pressure: MemoryPressure,
    partial_checked_at: Option<Instant>,
    share_checked_at: Option<Instant>,
    pub partial_check: PartialCheck,
    /// The bytes queued in virtual hosts with a limit, as the other shards know them.
    vhost_bytes: Vec<(VhostId, u64)>,
}

/// A virtual host whose queues have reached their limit of bytes, or have left it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct VhostFullness {
    pub vhost: VhostId,
    pub is_full: bool,
    /// On all shards.
    pub bytes: u64,
}

impl MemoryAccount {
    pub fn new(shard: ShardId) -> Self {
        MemoryAccount {
            shard,
            checked_at: None,
            list_bytes_peak: 0,
            heap_trimmed_at: None,
            heap_trim_is_due: false,
            seen_bytes: 0,
            pressure: MemoryPressure::NONE,
            partial_checked_at: None,
            share_checked_at: None,
            partial_check: PartialCheck::default(),
            vhost_bytes: Vec::new(),
        }
    }

    /// Whether it is time for a check, which then counts as made: after a while, or when memory has grown since.
    pub fn start_check(&mut self, bytes: usize, now: Instant) -> bool {
        let is_due = self.exceeds_step(bytes) || self.checked_at.is_none_or(|at| now >= at + MEMORY_CHECK_INTERVAL);
        if is_due {
            (self.checked_at, self.seen_bytes) = (Some(now), bytes);
        }
        is_due
    }

    /// Whether so much memory was taken since the last check that another one must not wait.
    #[inline]
    pub fn exceeds_step(&self, bytes: usize) -> bool {
        bytes >= self.seen_bytes + MEMORY_STEP_BYTES
    }

    /// Whether it is time to begin to add up what has not arrived whole, which then counts as begun.
    pub fn start_partial_check(&mut self, now: Instant) -> bool {
        let is_due = self.partial_checked_at.is_none_or(|at| now >= at + RECHECK_INTERVAL);
        if is_due {
            self.partial_checked_at = Some(now);
        }
        is_due
    }

    /// Whether it is time to look what definitions may take, which then counts as done.
    pub fn start_share_check(&mut self, now: Instant) -> bool {
        let is_due = self.share_checked_at.is_none_or(|at| now >= at + RECHECK_INTERVAL);
        if is_due {
            self.share_checked_at = Some(now);
        }
        is_due
    }

    /// What must wait because memory is low.
    #[inline]
    pub fn pressure(&self) -> MemoryPressure {
        self.pressure
    }

    /// Reports what the shard holds of the operating system's memory. Returns whether memory is short on all shards
    /// together, so that unused memory must go back: what one shard keeps for later must not crowd out what another
    /// needs now.
    pub fn record_held(&self, held_bytes: usize, shared: &SharedState) -> bool {
        shared.record_held_bytes(self.shard, held_bytes as u64)
    }

    /// Whether the allocator should return memory to the operating system: the lists of messages have become shorter.
    /// If memory is short it does so at once, otherwise at most every [`HEAP_TRIM_INTERVAL`].
    pub fn should_trim_heap(&mut self, list_bytes: usize, is_short: bool, now: Instant) -> bool {
        self.list_bytes_peak = self.list_bytes_peak.max(list_bytes);
        self.heap_trim_is_due = self.list_bytes_peak - list_bytes >= HEAP_TRIM_BYTES_MIN;
        let interval = if is_short { RECHECK_INTERVAL } else { HEAP_TRIM_INTERVAL };
        if !self.heap_trim_is_due || self.heap_trimmed_at.is_some_and(|at| now < at + interval) {
            return false;
        }
        self.heap_trimmed_at = Some(now);
        self.list_bytes_peak = list_bytes;
        self.heap_trim_is_due = false;
        true
    }

    /// Reports the bytes in use. Returns the new state of the memory alarm if it changes.
    pub fn record_used(
        &mut self,
        used_bytes: usize,
        settlement_bytes: usize,
        is_alarmed: bool,
        shared: &SharedState,
    ) -> Option<bool> {
        self.pressure = shared.record_used_bytes(self.shard, used_bytes as u64, settlement_bytes as u64, is_alarmed);
        (self.pressure.is_low != is_alarmed).then_some(self.pressure.is_low)
    }

    /// Reports the bytes queued in virtual hosts with a limit (`(vhost, bytes, bytes_max)`). Returns those that have
    /// become full, and those that are no longer: a tenth below the limit, so that the state does not flutter.
    pub fn record_vhosts(
        &mut self,
        counted: impl Iterator<Item = (VhostId, u64, u64)>,
        was_full: impl Fn(VhostId) -> bool,
        shared: &SharedState,
    ) -> Vec<VhostFullness> {
        let mut changed = Vec::new();
        self.vhost_bytes.clear();
        for (vhost, bytes, bytes_max) in counted {
            self.vhost_bytes.push((vhost, bytes));
            let all_bytes = shared.vhost_bytes.record(vhost, self.shard, bytes);
            let was_full = was_full(vhost);
            let threshold_bytes = if was_full { bytes_max - bytes_max / 10 } else { bytes_max };
            let is_full = all_bytes >= threshold_bytes;
            if is_full != was_full {
                changed.push(VhostFullness { vhost, is_full, bytes: all_bytes });
            }
        }
        changed
    }

    /// Whether the shard must tick again soon for its memory alone: it has changed since it was reported, or the heap
    /// is to be trimmed.
    pub fn needs_recheck(
        &self,
        seen_bytes: usize,
        used_bytes: usize,
        counted: impl Iterator<Item = (VhostId, u64, u64)>,
        shared: &SharedState,
    ) -> bool {
        self.heap_trim_is_due
            || seen_bytes.abs_diff(self.seen_bytes) > 1 << 20
            || (used_bytes as u64).abs_diff(shared.shard_used_bytes(self.shard)) > 1 << 20
            // Virtual hosts may have limits of few bytes.
            || counted.map(|(vhost, bytes, _)| (vhost, bytes)).ne(self.vhost_bytes.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::{MemoryAccount, VhostFullness};
    use crate::limits::{
        HEAP_TRIM_BYTES_MIN, HEAP_TRIM_INTERVAL, MEMORY_CHECK_INTERVAL, MEMORY_STEP_BYTES, RECHECK_INTERVAL,
    };
    use crate::shared_state::SharedState;
    use crate::test_clock::some_instant;
    use catalog::{ShardId, VhostId};

    /// A limit from which the memory of the process itself is subtracted in full.
    const MEMORY_BYTES_MAX: u64 = (1 << 30) + crate::limits::PROCESS_BYTES;

    fn accounts() -> (SharedState, [MemoryAccount; 2]) {
        (SharedState::new(2, MEMORY_BYTES_MAX, 1), [0, 1].map(|shard| MemoryAccount::new(ShardId(shard))))
    }

    #[test]
    fn checks_are_made_once_an_interval_or_when_much_was_taken() {
        let (_, [mut account, _]) = accounts();
        let start = some_instant();
        let next = start + MEMORY_CHECK_INTERVAL;
        let checks = [start, start, next, next].map(|now| account.start_check(7, now));
        assert_eq!(checks, [true, false, true, false]);
        let more = 7 + MEMORY_STEP_BYTES;
        let checks = [more - 1, more, more].map(|bytes| account.start_check(bytes, next));
        assert_eq!(checks, [false, true, false], "what is taken at once is added up at once");
    }

    #[test]
    fn the_alarm_follows_the_sum_of_all_shards() {
        let (shared, [mut one, mut other]) = accounts();
        assert_eq!(one.record_used(600 << 20, 0, false, &shared), None);
        assert_eq!(other.record_used(500 << 20, 100 << 20, false, &shared), Some(true));
        assert_eq!(one.record_used(400 << 20, 0, true, &shared), None, "a twentieth below the limit is not reached");
        assert_eq!(one.record_used(300 << 20, 0, true, &shared), Some(false));
        assert!(!one.record_held(600 << 20, &shared));
        assert!(other.record_held(600 << 20, &shared), "both together hold too much");
        let recheck = |used_bytes| one.needs_recheck(0, used_bytes, [].into_iter(), &shared);
        assert!(!recheck(300 << 20) && recheck(302 << 20));
    }

    /// Letters may take a reserve beyond the least that was in use since the first one was spent, on all shards together.
    #[test]
    fn letters_wait_while_they_have_taken_a_reserve_of_their_own() {
        let (shared, [mut one, mut other]) = accounts();
        let mut holds = |mib: usize| {
            one.record_used(mib << 20, 0, mib > 1_024, &shared);
            one.pressure().holds_letters
        };
        // The limit is 1,024 MiB, and the reserves have 32 each.
        assert_eq!([1_020, 1_056, 1_080].map(&mut holds), [false; 3], "the first reserve is spent last");
        assert_eq!([1_112, 1_113, 1_112].map(&mut holds), [false, true, false], "and then the second");
        assert_eq!([1_070, 1_102].map(&mut holds), [false; 2], "it counts from the least");
        assert_eq!([1_103, 1_056].map(&mut holds), [true, false]);
        assert_eq!([1_100, 1_132].map(&mut holds), [false; 2], "there was room again: it counts from here");
        assert_eq!([1_133, 1_132].map(&mut holds), [true, false]);
        other.record_used(1 << 20, 0, true, &shared);
        assert!(other.pressure().holds_letters, "what one shard adds the others see");
    }

    #[test]
    fn regions_that_few_blocks_keep_count_as_far_as_the_system_has_provided_them() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static RESIDENT_BYTES: AtomicUsize = AtomicUsize::new(0);
        let resident = |mib: usize| RESIDENT_BYTES.store(mib << 20, Ordering::Relaxed);
        let process =
            crate::ProcessMemory { heap_bytes: || 0, resident_bytes: || Some(RESIDENT_BYTES.load(Ordering::Relaxed)) };
        let shared = SharedState::new(2, MEMORY_BYTES_MAX, 1).with_process(process);
        let mut account = MemoryAccount::new(ShardId(0));
        let mut used = |is_alarmed| account.record_used(100 << 20, 0, is_alarmed, &shared);
        for shard in [0, 1] {
            shared.record_occupied_bytes(ShardId(shard), 600 << 20);
        }
        resident(900);
        assert_eq!(used(false), None, "there is much of the regions that nobody has touched");
        resident(1_100);
        assert_eq!(used(false), Some(true));
        shared.record_occupied_bytes(ShardId(1), 300 << 20);
        assert_eq!(used(true), Some(false), "the rest is what allocators keep");
    }

    #[test]
    fn the_heap_is_trimmed_when_lists_become_shorter_and_sooner_when_memory_is_short() {
        let (shared, [mut account, _]) = accounts();
        let start = some_instant();
        let full = 3 * HEAP_TRIM_BYTES_MIN;
        assert!(!account.should_trim_heap(full, false, start));
        assert!(!account.should_trim_heap(full - HEAP_TRIM_BYTES_MIN + 1, false, start), "too little");
        assert!(account.should_trim_heap(full - HEAP_TRIM_BYTES_MIN, false, start), "the first time at once");
        assert!(!account.should_trim_heap(0, false, start + HEAP_TRIM_INTERVAL / 2), "too soon");
        assert!(account.needs_recheck(0, 0, [].into_iter(), &shared), "but soon");
        assert!(account.should_trim_heap(0, true, start + RECHECK_INTERVAL), "memory is short");
        assert!(!account.needs_recheck(0, 0, [].into_iter(), &shared));
    }

    #[test]
    fn a_virtual_host_is_full_by_the_bytes_of_all_shards_and_stays_so_until_a_tenth_less_waits() {
        let (shared, [mut one, mut other]) = accounts();
        let vhost = VhostId(7);
        let counted = |bytes| [(vhost, bytes, 100)].into_iter();
        assert_eq!(one.record_vhosts(counted(60), |_| false, &shared), []);
        let full = VhostFullness { vhost, is_full: true, bytes: 100 };
        assert_eq!(other.record_vhosts(counted(40), |_| false, &shared), [full]);
        assert_eq!(one.record_vhosts(counted(50), |_| true, &shared), [], "still full");
        let free = VhostFullness { vhost, is_full: false, bytes: 89 };
        assert_eq!(one.record_vhosts(counted(49), |_| true, &shared), [free]);
        assert!(!one.needs_recheck(0, 0, counted(49), &shared) && one.needs_recheck(0, 0, counted(48), &shared));
    }
}
