//! What the shards of one broker share: counts of memory and connections, connection limits, tokens, and the window of
//! stamps.
//!
//! Counts are atomics, one group of cache lines for each shard. The only lock that a message may take is that of the
//! window, and only if the message carries a stamp.

use crate::connection_limits::ConnectionLimits;
use crate::copied_bytes::CopiedBytes;
use crate::limits::{
    DEFINITION_SHARE_DIVISOR, HEAP_GAP_DIVISOR, MEMORY_RESERVE_DIVISOR, MOVE_SPARE_CONNECTIONS, PAGING_SHARE_DIVISOR,
    PARTIAL_SHARE_DIVISOR, PINNED_SHARE_DIVISOR, PORT_MEMORY_DIVISOR, PROCESS_BYTES,
};
use crate::login_failures::LoginFailures;
use crate::memory_alarms::MemoryAlarms;
use crate::memory_pressure::{MemoryPressure, ProcessMemory};
use crate::move_options::MoveOptions;
use crate::tokens::BootstrapTokens;
use crate::vhost_bytes::VhostBytes;
use catalog::limits::DefinitionShare;
use catalog::{MessageStamp, Refusal, ShardId};
use durability::StoreSignals;
use federation::DuplicateWindow;
use federation::limits::WINDOW_STAMPS_MAX;
use queues::Queue;
use reactor::ReactorState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::ReplyCode;

#[repr(align(128))]
#[derive(Default)]
struct ShardCounts {
    bytes: AtomicU64,
    held_bytes: AtomicU64,
    occupied_bytes: AtomicU64,
    partial_bytes: AtomicU64,
    settlement_bytes: AtomicU64,
    copied_in: AtomicU64,
    copied_out: AtomicU64,
}

pub struct SharedState {
    shards: Box<[ShardCounts]>,
    memory_bytes_max: u64,
    /// The paging threshold of each shard, if it is not as the memory limit says.
    paging_bytes: u64,
    /// Tells what the process holds, if its allocator counts that.
    process: Option<ProcessMemory>,
    /// Bytes of the process in memory when it started.
    resident_bytes_at_start: u64,
    /// Bytes of the heap when memory was last not low.
    heap_bytes_before: AtomicU64,
    /// The least that was in use since the reserve beyond the limit is spent; the largest number while it is not.
    least_spent_bytes: AtomicU64,
    /// Bytes of the receive buffers of RDMA ports.
    ports_bytes: AtomicU64,
    /// Connections of all shards, and whether the broker stops.
    reactor: Arc<ReactorState>,
    pub(crate) connection_limits: ConnectionLimits,
    pub(crate) tokens: BootstrapTokens,
    pub(crate) login_failures: LoginFailures,
    pub(crate) vhost_bytes: VhostBytes,
    pub(crate) memory_alarms: MemoryAlarms,
    /// The stamps that arrived lately, on whichever shard; `None` until the first.
    stamp_window: Mutex<Option<DuplicateWindow>>,
    /// When connections move from one shard to another.
    pub(crate) moves: MoveOptions,
    /// What the stores of the shards tell one another.
    pub(crate) store: StoreSignals,
    /// The counters of RDMA ports whose shards have ended; `None` if no shard had one.
    port_counters: Mutex<Option<verbs::PortCounters>>,
}

impl SharedState {
    pub fn new(shards: u16, memory_bytes_max: u64, connections_max: u32) -> Self {
        let lines = (0..shards).map(|_| ShardCounts::default()).collect();
        let memory_bytes_max = memory_bytes_max - PROCESS_BYTES.min(memory_bytes_max / 16);
        SharedState {
            shards: lines,
            memory_bytes_max,
            paging_bytes: 0,
            process: None,
            resident_bytes_at_start: 0,
            heap_bytes_before: AtomicU64::new(0),
            least_spent_bytes: AtomicU64::new(u64::MAX),
            ports_bytes: AtomicU64::new(0),
            reactor: Arc::new(ReactorState::new(shards, connections_max)),
            connection_limits: ConnectionLimits::default(),
            tokens: BootstrapTokens::default(),
            login_failures: LoginFailures::default(),
            vhost_bytes: VhostBytes::default(),
            memory_alarms: MemoryAlarms::default(),
            stamp_window: Mutex::new(None),
            moves: MoveOptions::default(),
            store: StoreSignals::default(),
            port_counters: Mutex::new(None),
        }
    }

    /// Has connections move by these rules.
    pub fn with_moves(self, moves: MoveOptions) -> Self {
        SharedState { moves, ..self }
    }

    /// Gives clients that log in over sockets tokens to connect over RDMA, valid for this long.
    pub(crate) fn with_tokens(self, wait: Duration) -> Self {
        SharedState { tokens: BootstrapTokens::enabled(wait), ..self }
    }

    /// Counts everything that the process allocates. Without that, the lists of messages are estimated and nothing else is
    /// counted beside message memory.
    pub(crate) fn with_process(self, process: ProcessMemory) -> Self {
        let resident_bytes_at_start = (process.resident_bytes)().map_or(0, |bytes| bytes as u64);
        SharedState { process: Some(process), resident_bytes_at_start, ..self }
    }

    /// Pages messages out beyond so many bytes on each shard, whatever the memory limit is; zero: as the limit says.
    pub fn with_paging_threshold(self, bytes: u64) -> Self {
        SharedState { paging_bytes: bytes, ..self }
    }

    /// Bytes of the process's heap; `None` if nobody counts them.
    pub(crate) fn heap_bytes(&self) -> Option<u64> {
        self.process.map(|process| (process.heap_bytes)() as u64)
    }

    /// Bytes of waiting messages that a shard keeps in memory, if others may leave it.
    pub fn paging_threshold(&self) -> u64 {
        if self.paging_bytes > 0 {
            return self.paging_bytes;
        }
        self.memory_bytes_max / PAGING_SHARE_DIVISOR / self.shards.len() as u64
    }

    /// Bytes that may be pinned for RDMA on behalf of one user.
    pub(crate) fn pinned_bytes_max(&self) -> u64 {
        self.memory_bytes_max / PINNED_SHARE_DIVISOR
    }

    /// What definitions may take, for the shard that executes them first, with so many replicas outside of the shards; `None` for
    /// other shards, and if nobody counts the heap. What definitions that were deleted have left on the heap is part of it.
    pub(crate) fn definition_share(&self, shard: ShardId, subscribers: usize) -> Option<DefinitionShare> {
        self.process.filter(|_| shard == ShardId(0)).map(|_| DefinitionShare {
            bytes_max: (self.memory_bytes_max / DEFINITION_SHARE_DIVISOR).saturating_sub(self.heap_gap_bytes())
                as usize,
            replicas: self.shards.len() + subscribers,
            queue_bytes: size_of::<Queue>(),
        })
    }

    /// Bytes that the heap has from the system beside what is allocated, beyond what is usual: a few allocations that stay, of
    /// many that were freed, keep whole pages, and those of other sizes cannot use them.
    fn heap_gap_bytes(&self) -> u64 {
        let message_memory: u64 = self.shards.iter().map(|line| line.held_bytes.load(Ordering::Relaxed)).sum();
        let known = self.ports_bytes() + self.heap_bytes().unwrap_or(0) + message_memory;
        let usual = PROCESS_BYTES + self.memory_bytes_max / HEAP_GAP_DIVISOR;
        self.provided_bytes().unwrap_or(0).saturating_sub(known + usual)
    }

    /// Bytes that the system has provided since the start; `None` if nobody tells.
    #[cold]
    fn provided_bytes(&self) -> Option<u64> {
        let resident_bytes = (self.process?.resident_bytes)()? as u64;
        Some(resident_bytes.saturating_sub(self.resident_bytes_at_start))
    }

    /// Counts the buffers of the ports that listen.
    pub(crate) fn with_port_bytes(self, ports_bytes: u64) -> Self {
        SharedState { ports_bytes: AtomicU64::new(ports_bytes), ..self }
    }

    /// Reserves the buffers of one more port. Returns false if they would leave too little for messages.
    pub(crate) fn reserve_port_bytes(&self, bytes: u64) -> bool {
        let before = self.ports_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_capacity = before + bytes <= self.memory_bytes_max / PORT_MEMORY_DIVISOR;
        if !has_capacity {
            self.release_port_bytes(bytes);
        }
        has_capacity
    }

    pub(crate) fn release_port_bytes(&self, bytes: u64) {
        self.ports_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn ports_bytes(&self) -> u64 {
        self.ports_bytes.load(Ordering::Relaxed)
    }

    fn of_shard(&self, shard: ShardId) -> &ShardCounts {
        &self.shards[usize::from(shard.0)]
    }

    /// Records the bytes of the regions of message memory that a shard has blocks in. A few blocks that stay, of many that
    /// were freed, keep all of a region, and blocks of other sizes cannot use it.
    pub(crate) fn record_occupied_bytes(&self, shard: ShardId, bytes: u64) {
        self.of_shard(shard).occupied_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What the process holds with `used_bytes` in use: no less than the regions that these are in, and no more than the system
    /// has provided. What was allocated and never touched takes no memory: tables that have doubled, the rest of a region.
    fn held_in_use_bytes(&self, used_bytes: u64) -> u64 {
        self.provided_bytes().map_or(used_bytes, |provided| used_bytes.max(self.occupied_bytes()).min(provided))
    }

    /// The heap, and on all shards the regions of message memory that have blocks in use.
    fn occupied_bytes(&self) -> u64 {
        let regions: u64 = self.shards.iter().map(|line| line.occupied_bytes.load(Ordering::Relaxed)).sum();
        self.ports_bytes() + self.heap_bytes().unwrap_or(0) + regions
    }

    /// Records the bytes in use on a shard. Returns what the broker as a whole may still take; once over its limit,
    /// memory is low until a twentieth below, so that the alarm does not flutter.
    ///
    /// `settlement_bytes`: what messages of the shard that wait will take beside that once they are delivered and unsettled.
    pub(crate) fn record_used_bytes(
        &self,
        shard: ShardId,
        bytes: u64,
        settlement_bytes: u64,
        was_low: bool,
    ) -> MemoryPressure {
        self.of_shard(shard).settlement_bytes.store(settlement_bytes, Ordering::Relaxed);
        self.of_shard(shard).bytes.store(bytes, Ordering::Relaxed);
        let heap_bytes = self.heap_bytes().unwrap_or(0);
        let limit = if was_low { self.memory_bytes_max / 20 * 19 } else { self.memory_bytes_max };
        let mut all = self.used_bytes();
        let settlement_bytes: u64 = self.shards.iter().map(|line| line.settlement_bytes.load(Ordering::Relaxed)).sum();
        if all.max(self.occupied_bytes()) + settlement_bytes > limit {
            all = self.held_in_use_bytes(all) + settlement_bytes;
        }
        let reserve_bytes = self.memory_bytes_max / MEMORY_RESERVE_DIVISOR;
        let is_spent = all > self.memory_bytes_max + reserve_bytes;
        let holds_letters = is_spent && self.exceeds_letter_reserve(all, reserve_bytes);
        if !is_spent {
            self.least_spent_bytes.store(u64::MAX, Ordering::Relaxed);
        }
        if all <= limit {
            self.heap_bytes_before.store(heap_bytes, Ordering::Relaxed);
            return MemoryPressure::NONE;
        }
        let exceeds_reserve = heap_bytes > self.heap_bytes_before.load(Ordering::Relaxed) + reserve_bytes;
        let is_mostly_heap = heap_bytes > self.memory_bytes_max / 2;
        MemoryPressure {
            is_low: true,
            holds_messages: is_spent,
            holds_definitions: exceeds_reserve || (is_spent && is_mostly_heap),
            holds_letters,
        }
    }

    /// Whether more is in use than the least since the reserve was spent, by another one. Letters that wait may be all that is in
    /// use: whatever leaves makes room for as much of them, however much is over the limit, so that they never wait for themselves.
    fn exceeds_letter_reserve(&self, bytes: u64, reserve_bytes: u64) -> bool {
        let least = self.least_spent_bytes.fetch_min(bytes, Ordering::Relaxed).min(bytes);
        bytes > least + reserve_bytes
    }

    /// Records what has arrived on a shard of frames and messages that are not whole. Returns whether all shards together
    /// hold more of that than they may while memory is low.
    pub(crate) fn record_partial_bytes(&self, shard: ShardId, bytes: u64) -> bool {
        self.of_shard(shard).partial_bytes.store(bytes, Ordering::Relaxed);
        let all: u64 = self.shards.iter().map(|line| line.partial_bytes.load(Ordering::Relaxed)).sum();
        all > self.memory_bytes_max / PARTIAL_SHARE_DIVISOR
    }

    /// Records what a shard holds of the operating system's memory for messages, used or not, and for its lists of
    /// them. Returns whether all shards together hold nearly as much as the limit allows, so that unused memory should
    /// go back.
    pub(crate) fn record_held_bytes(&self, shard: ShardId, bytes: u64) -> bool {
        self.of_shard(shard).held_bytes.store(bytes, Ordering::Relaxed);
        let all: u64 = self.shards.iter().map(|line| line.held_bytes.load(Ordering::Relaxed)).sum();
        self.ports_bytes() + self.heap_bytes().unwrap_or(0) + all > self.memory_bytes_max / 10 * 9
    }

    /// Whether the broker ends: its clients have been told, and have time to leave.
    pub fn is_stopping(&self) -> bool {
        self.reactor.is_stopping()
    }

    /// Why the broker ended, if its disk has failed.
    pub fn disk_failure(&self) -> Option<&str> {
        self.store.failure()
    }

    /// What clients are told when the broker ends.
    pub(crate) fn end_refusal(&self) -> Refusal {
        match self.disk_failure() {
            None => Refusal::connection(ReplyCode::ConnectionForced, "CONNECTION_FORCED - broker is shutting down"),
            Some(_) => Refusal::connection(ReplyCode::InternalError, "INTERNAL_ERROR - the broker's disk has failed"),
        }
    }

    /// The bytes in use on a shard, as last recorded.
    pub(crate) fn shard_used_bytes(&self, shard: ShardId) -> u64 {
        self.of_shard(shard).bytes.load(Ordering::Relaxed)
    }

    /// The bytes in use on all shards, on the heap and by the buffers of ports.
    pub fn used_bytes(&self) -> u64 {
        let own_bytes = self.ports_bytes() + self.heap_bytes().unwrap_or(0);
        own_bytes + self.shards.iter().map(|line| line.bytes.load(Ordering::Relaxed)).sum::<u64>()
    }

    /// Whether a shard holds publishers back because memory is low.
    pub fn has_memory_alarm(&self) -> bool {
        self.memory_alarms.is_raised()
    }

    /// How often that has begun.
    pub fn memory_alarms_raised(&self) -> u64 {
        self.memory_alarms.raised()
    }

    /// Records how many bytes of bodies a shard has copied since it started.
    pub(crate) fn record_copied_bytes(&self, shard: ShardId, copied: CopiedBytes) {
        let line = self.of_shard(shard);
        line.copied_in.store(copied.bytes_in, Ordering::Relaxed);
        line.copied_out.store(copied.bytes_out, Ordering::Relaxed);
    }

    /// The bytes that all shards have copied, as last recorded.
    pub fn copied_bytes(&self) -> CopiedBytes {
        let of = |line: &ShardCounts| (line.copied_in.load(Ordering::Relaxed), line.copied_out.load(Ordering::Relaxed));
        self.shards.iter().map(of).fold(CopiedBytes::default(), |all, (bytes_in, bytes_out)| CopiedBytes {
            bytes_in: all.bytes_in + bytes_in,
            bytes_out: all.bytes_out + bytes_out,
        })
    }

    /// Inserts the stamp of a message that has arrived. Returns whether it is new.
    pub(crate) fn insert_stamp(&self, stamp: MessageStamp, seed: impl FnOnce() -> u64) -> bool {
        let mut window = self.stamp_window.lock().unwrap_or_else(PoisonError::into_inner);
        window.get_or_insert_with(|| DuplicateWindow::new(WINDOW_STAMPS_MAX, seed())).insert(stamp)
    }

    /// Removes the stamps of messages that the broker has not accepted.
    pub(crate) fn remove_stamps(&self, refused: &[MessageStamp]) {
        if let Some(window) = &mut *self.stamp_window.lock().unwrap_or_else(PoisonError::into_inner) {
            for stamp in refused {
                window.remove(*stamp);
            }
        }
    }

    /// Adds the counters of a shard with RDMA ports that ends.
    pub(crate) fn add_port_counters(&self, counters: verbs::PortCounters) {
        *self.port_counters.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default() += counters;
    }

    /// The counters of all RDMA ports whose shards have ended; `None` if no shard had one.
    pub fn port_counters(&self) -> Option<verbs::PortCounters> {
        *self.port_counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the threads of the shards share as threads of a reactor.
    pub(crate) fn reactor(&self) -> &Arc<ReactorState> {
        &self.reactor
    }

    /// Counts one more connection for the shard with the fewest; `None` if there are too many already.
    pub fn assign_connection(&self) -> Option<ShardId> {
        self.reactor.assign_connection().map(ShardId)
    }

    /// Counts a connection that came to a shard by itself; false if there are too many already.
    pub(crate) fn add_connection(&self, shard: ShardId) -> bool {
        self.reactor.add_connection(shard.0)
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Whether one more connection may move to a shard: not all shall gather on one.
    pub(crate) fn has_place_for_move(&self, to: ShardId) -> bool {
        let mean_twice = 2 * self.connections().div_ceil(self.shards.len() as u32);
        // One and a half times the mean.
        self.reactor.connections_of(to.0) < mean_twice * 3 / 4 + MOVE_SPARE_CONNECTIONS
    }

    /// A connection leaves one shard for another.
    pub(crate) fn move_connection(&self, from: ShardId, to: ShardId) {
        self.reactor.move_connection(from.0, to.0);
    }

    /// A connection of a shard has ended.
    pub fn connection_closed(&self, shard: ShardId) {
        self.reactor.connection_closed(shard.0);
    }

    /// Connections of all shards.
    pub fn connections(&self) -> u32 {
        self.reactor.connections()
    }
}
