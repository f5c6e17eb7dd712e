//! What the shards of one broker share: counts, none of which needs a lock on the way of a message.
//!
//! Enters: each shard's use of memory and number of connections.  Leaves: the sums, and whether the broker is over its limit.
//! Owns:   one cache line a shard, and the register of virtual hosts and users.
//! Never:  is written by anyone but the shard a line belongs to, but for the connections handed to it.

use crate::effects::Copied;
use crate::limits::{PORTS_PART_MIN, PROGRAM_BYTES};
use crate::register::Register;
use crate::tokens::Tokens;
use catalog::MessageStamp;
use federation::Window;
use federation::limits::WINDOW_STAMPS_MAX;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[repr(align(128))]
#[derive(Default)]
struct ShardCounts {
    bytes: AtomicU64,
    held_bytes: AtomicU64,
    connections: AtomicU32,
    copied_in: AtomicU64,
    copied_out: AtomicU64,
}

/// Counts of all shards.
pub struct SharedState {
    shards: Box<[ShardCounts]>,
    memory_bytes_max: u64,
    /// Buffers of RDMA ports: of those that listen from the beginning to the end, of others as long as there are such.
    ports_bytes: AtomicU64,
    connections_max: u32,
    stopping: AtomicBool,
    pub(crate) register: Register,
    pub(crate) tokens: Tokens,
    /// What came with a stamp lately, whichever shard it came to; none where nothing did.
    window: Mutex<Option<Window>>,
    /// What RDMA ports did whose shards have ended; `None` where no shard had one.
    ports: Mutex<Option<verbs::PortCounters>>,
}

impl SharedState {
    /// For so many shards.
    pub fn new(shards: u16, memory_bytes_max: u64, connections_max: u32) -> Self {
        let lines = (0..shards).map(|_| ShardCounts::default()).collect();
        let memory_bytes_max = memory_bytes_max - PROGRAM_BYTES.min(memory_bytes_max / 16);
        SharedState {
            shards: lines,
            memory_bytes_max,
            ports_bytes: AtomicU64::new(0),
            connections_max,
            stopping: AtomicBool::new(false),
            register: Register::default(),
            tokens: Tokens::default(),
            window: Mutex::new(None),
            ports: Mutex::new(None),
        }
    }

    /// Clients that log in by sockets may come again over RDMA, within so long.
    pub fn give_tokens(self, wait: Duration) -> Self {
        SharedState { tokens: Tokens::given(wait), ..self }
    }

    /// The ports that listen have buffers of so many bytes.
    pub fn with_ports(self, ports_bytes: u64) -> Self {
        SharedState { ports_bytes: AtomicU64::new(ports_bytes), ..self }
    }

    /// One more port has buffers of so many bytes. False: they would leave too little for messages.
    pub(crate) fn add_port(&self, bytes: u64) -> bool {
        let before = self.ports_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before + bytes <= self.memory_bytes_max / PORTS_PART_MIN;
        if !has_room {
            self.remove_port(bytes);
        }
        has_room
    }

    /// A port is gone.
    pub(crate) fn remove_port(&self, bytes: u64) {
        self.ports_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn ports_bytes(&self) -> u64 {
        self.ports_bytes.load(Ordering::Relaxed)
    }

    /// Notes what a shard holds. Answers whether the broker as a whole is over its limit; it stays so until a twentieth below, lest it flutter.
    pub fn note_memory(&self, shard: u16, bytes: u64, was_over: bool) -> bool {
        self.shards[shard as usize].bytes.store(bytes, Ordering::Relaxed);
        let all = self.memory_bytes();
        all > if was_over { self.memory_bytes_max / 20 * 19 } else { self.memory_bytes_max }
    }

    /// Notes what a shard has from the operating system for its messages, used or not, and for its lists of them. Answers whether
    /// all shards together have nearly as much as the limit allows, so that what is not used should go back.
    pub fn note_held(&self, shard: u16, bytes: u64) -> bool {
        self.shards[shard as usize].held_bytes.store(bytes, Ordering::Relaxed);
        let all: u64 = self.shards.iter().map(|line| line.held_bytes.load(Ordering::Relaxed)).sum();
        self.ports_bytes() + all > self.memory_bytes_max / 10 * 9
    }

    /// What a shard holds, as it noted last.
    pub fn shard_bytes(&self, shard: u16) -> u64 {
        self.shards[shard as usize].bytes.load(Ordering::Relaxed)
    }

    /// What all shards hold, with the buffers of ports.
    pub fn memory_bytes(&self) -> u64 {
        self.ports_bytes() + self.shards.iter().map(|line| line.bytes.load(Ordering::Relaxed)).sum::<u64>()
    }

    /// Notes how many bytes of bodies a shard has copied since it began.
    pub fn note_copied(&self, shard: u16, copied: Copied) {
        let line = &self.shards[shard as usize];
        line.copied_in.store(copied.bytes_in, Ordering::Relaxed);
        line.copied_out.store(copied.bytes_out, Ordering::Relaxed);
    }

    /// What all shards have copied, as they noted last.
    pub fn copied(&self) -> Copied {
        let of = |line: &ShardCounts| (line.copied_in.load(Ordering::Relaxed), line.copied_out.load(Ordering::Relaxed));
        self.shards.iter().map(of).fold(Copied::default(), |all, (bytes_in, bytes_out)| Copied {
            bytes_in: all.bytes_in + bytes_in,
            bytes_out: all.bytes_out + bytes_out,
        })
    }

    /// A stamped message is here. Answers whether it is for the first time. The one lock on the way of a message, and of none
    /// that has no stamp.
    pub(crate) fn enter_stamp(&self, stamp: MessageStamp, seed: impl FnOnce() -> u64) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.get_or_insert_with(|| Window::new(WINDOW_STAMPS_MAX, seed())).enter(stamp)
    }

    /// The broker has not taken the messages with these stamps.
    pub(crate) fn take_out_stamps(&self, refused: &[MessageStamp]) {
        if let Some(window) = &mut *self.window.lock().unwrap_or_else(PoisonError::into_inner) {
            for stamp in refused {
                window.take_out(*stamp);
            }
        }
    }

    /// A shard with RDMA ports ends, and this is what they did.
    pub(crate) fn note_ports(&self, counters: verbs::PortCounters) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default() += counters;
    }

    /// What all RDMA ports did, once their shards have ended; `None` where no shard had one.
    pub fn ports(&self) -> Option<verbs::PortCounters> {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard with the fewest connections takes one more; `None` if there are too many already.
    pub fn place_connection(&self) -> Option<u16> {
        let counts = self.shards.iter().map(|line| line.connections.load(Ordering::Relaxed));
        let (total, least) = counts.enumerate().fold((0u32, (0, u32::MAX)), |(total, least), (shard, count)| {
            (total.saturating_add(count), if count < least.1 { (shard, count) } else { least })
        });
        if total >= self.connections_max {
            return None;
        }
        self.shards[least.0].connections.fetch_add(1, Ordering::Relaxed);
        Some(least.0 as u16)
    }

    /// A shard has a connection that came to it by itself; false if there are too many already.
    pub fn add_connection(&self, shard: u16) -> bool {
        let has_room = self.connections() < self.connections_max;
        if has_room {
            self.shards[shard as usize].connections.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// A connection of a shard is gone.
    pub fn connection_gone(&self, shard: u16) {
        self.shards[shard as usize].connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A shard is gone, and all its connections with it.
    pub fn shard_gone(&self, shard: u16) {
        self.shards[shard as usize].connections.store(0, Ordering::Relaxed);
    }

    /// Connections of all shards.
    pub fn connections(&self) -> u32 {
        self.shards.iter().map(|line| line.connections.load(Ordering::Relaxed)).sum()
    }

    /// The broker is to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the broker is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
