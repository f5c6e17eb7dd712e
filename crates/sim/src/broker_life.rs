//! The lives of a simulated broker: how they end, and how the next one begins with what the disks have.

use crate::limits::EMPTY_LOG_SEGMENTS_MAX;
use crate::simulated_broker::{SimulatedBroker, SimulatedBrokerOptions};
use link::sim::SimCut;
use simdisks::{BrokerDisks, CrashKind};
use std::time::Instant;

impl SimulatedBroker {
    /// Its process is killed: all its connections are reset.
    pub fn reset_connections(&mut self) {
        self.connections.iter().for_each(|connection| connection.cable.cut(SimCut::Reset));
    }

    /// Replaces it by a broker that knows nothing and is down, until [`SimulatedBroker::start`].
    pub fn replace(&mut self, options: &SimulatedBrokerOptions) {
        let (ticks, lives, most) = (self.ticks, self.lives, self.work_per_turn_max());
        let followed = self.connections_moved;
        *self = SimulatedBroker::new(options);
        self.connections_moved = followed;
        (self.ticks, self.lives, self.past_work_per_turn_max, self.is_up) = (ticks, lives, most, false);
    }

    /// Its process is started again.
    pub fn start(&mut self) {
        self.is_up = true;
        self.lives += 1;
    }

    /// It is asked to stop: every shard closes its connections.
    pub fn drain(&mut self, now: Instant) {
        for shard in 0..self.shards.len() {
            self.wake(shard, |shard| shard.drain(now));
        }
    }

    /// Its connections are over: the shards write what is not durable, in this order. Returns how many microseconds that takes.
    pub fn finish(&mut self, order: &[usize], now: Instant) -> u64 {
        let began_us = now.saturating_duration_since(self.epoch).as_micros() as u64;
        let mut ended_us = began_us;
        for &at in order {
            let (disks, node) = (&self.disks, &mut self.shards[at]);
            let mut now_us = began_us;
            disks.iter().for_each(|disks| _ = disks.set_now(at, now_us));
            self.heap.measure(|| {
                node.shard.tick(now);
                node.shard.close_store(now, || {
                    let disks = disks.as_ref().expect("who waits for a disk has one");
                    now_us = disks.due_after(at, now_us).expect("a disk that is waited for has something to do");
                    disks.set_now(at, now_us);
                });
            });
            ended_us = ended_us.max(now_us);
        }
        ended_us - began_us
    }

    /// Its process is gone: what its disks have is all that it keeps.
    pub fn crash(&mut self, kind: CrashKind) {
        self.is_up = false;
        self.past_work_per_turn_max = self.work_per_turn_max();
        self.past_messages_moved = self.messages_moved();
        // The shards end before their disks are told: a process that is gone asks for nothing.
        self.connections.clear();
        self.moving.clear();
        self.shards.clear();
        self.disks.iter().for_each(|disks| disks.crash(kind));
    }

    /// It starts again. `Err` says why it cannot start.
    pub fn restart(&mut self, options: &SimulatedBrokerOptions, now: Instant) -> Result<(), String> {
        let (ticks, lives, most) = (self.ticks, self.lives + 1, self.work_per_turn_max());
        let (moved, followed) = (self.messages_moved(), self.connections_moved);
        *self = SimulatedBroker::begin(options, self.disks.clone(), now)?;
        (self.ticks, self.lives, self.past_work_per_turn_max) = (ticks, lives, most);
        (self.past_messages_moved, self.connections_moved) = (moved, followed);
        Ok(())
    }

    /// What is wrong if its disks hold more segments than a log needs of which nothing is alive.
    pub fn excess_segments(&self) -> Option<String> {
        let disks = self.disks.iter().flat_map(BrokerDisks::all).enumerate();
        let segments = disks.map(|(at, disk)| (at, disk.peek(|disk| disk.segment_count())));
        let (at, segments) = segments.into_iter().find(|&(_, segments)| segments > EMPTY_LOG_SEGMENTS_MAX)?;
        Some(format!("{segments} segments on disk {at}, of {EMPTY_LOG_SEGMENTS_MAX}"))
    }

    /// Whether its disks have something to do.
    pub fn has_disk_requests(&self) -> bool {
        self.disks.as_ref().is_some_and(BrokerDisks::has_requests)
    }
}
