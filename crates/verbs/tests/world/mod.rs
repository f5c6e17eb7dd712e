//! Two ports on one fabric, and what tests do with them again and again.
#![allow(dead_code, reason = "each test uses a part of it")]

use link::{FilledMemory, Link, LinkError, ReceiveOutcome};
use slab::{Gather, Pool, PoolOptions};
use splitmix::SplitMix64;
use std::time::Duration;
use verbs::sim::{Fabric, FabricOptions, SimDevice};
use verbs::{Port, PortSettings, VerbsLink};

pub type SimPort = Port<SimDevice>;
pub type SimVerbsLink = VerbsLink<SimDevice>;

/// Steps within which anything must have happened.
pub const STEPS_MAX: usize = 200_000;

/// Settings whose times suit a fabric on which a step is ten microseconds.
pub fn settings() -> PortSettings {
    PortSettings {
        receive_buffers: 128,
        spare_buffers: 16,
        landing_blocks: 2,
        landing_bytes: 1_000,
        accepts_direct: true,
        set_up_max: Duration::from_millis(40),
        ping_after: Duration::from_millis(4),
        silent_max: Duration::from_millis(24),
        fetch_max: Duration::from_millis(100),
        read_max: Duration::from_millis(40),
        ending_max: Duration::from_millis(20),
        token_max: Duration::from_millis(20),
        ..PortSettings::default()
    }
}

/// Settings of every kind.
pub fn any_settings(chance: &mut SplitMix64) -> PortSettings {
    let send_slots = chance.between(16, 64) as usize;
    PortSettings {
        receive_buffer_bytes: 1 << chance.between(8, 12),
        credits: chance.between(12, 40) as u16,
        rendezvous_threshold_bytes: chance.between(200, 6_000) as u32,
        rendezvous_max: chance.between(0, 5) as u16,
        granted_bytes_max: chance.between(1_000, 40_000) as usize,
        granted_bytes_total_max: chance.between(1_000, 60_000) as usize,
        send_slots,
        signal_every: chance.between(1, send_slots as u64 / 4) as usize,
        corked: chance.below(2) == 0,
        ..settings()
    }
}

pub struct TestWorld {
    pub fabric: Fabric,
    pub pool: Pool,
    pub ports: Vec<SimPort>,
}

impl TestWorld {
    pub fn new(options: &FabricOptions, settings: &[PortSettings]) -> TestWorld {
        let fabric = Fabric::new(options);
        let pool = Pool::new(PoolOptions::default());
        let ports = settings
            .iter()
            .enumerate()
            .map(|(at, settings)| {
                let port = Port::open(fabric.device(), &pool, settings.clone()).expect("sound settings");
                port.listen(&at.to_string()).expect("nobody listens there");
                port
            })
            .collect();
        TestWorld { fabric, pool, ports }
    }

    /// One step of time, and a round of every port.
    pub fn step(&self) {
        self.fabric.step();
        for port in &self.ports {
            port.poll().expect("the device is whole");
            port.flush();
        }
    }

    pub fn steps(&self, steps: usize) {
        (0..steps).for_each(|_| self.step());
    }

    /// Steps until something holds.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..STEPS_MAX {
            if holds() {
                return;
            }
            self.step();
        }
        panic!("not within {STEPS_MAX} steps: {what}");
    }

    /// A link from the first port to the second, at both ends; `None` if it failed.
    pub fn try_connect(&self) -> Option<(SimVerbsLink, SimVerbsLink)> {
        let mut near = self.ports[0].connect("1", None).expect("there is room");
        for _ in 0..STEPS_MAX {
            self.step();
            if let Some(far) = self.ports[1].accept() {
                return Some((near, far));
            }
            match near.receive(&mut [], &mut [0; 1]) {
                Ok(ReceiveOutcome::Idle) => {}
                _ => return None,
            }
        }
        panic!("neither a connection nor a failure");
    }

    pub fn connect(&self) -> (SimVerbsLink, SimVerbsLink) {
        self.try_connect().expect("a connection")
    }

    /// All memory is where it was in the beginning.
    pub fn assert_all_released(&self, node: usize, settings: &PortSettings) {
        let port = &self.ports[node];
        self.until("all connections are cleared away", || {
            // One that came to stand and broke before anybody took it.
            drop(port.accept());
            port.usage().connections == 0
        });
        self.steps(3);
        let census = port.usage();
        assert_eq!(census.posted_buffers + census.free_buffers, settings.receive_buffers, "{census:?}");
        assert_eq!(census.free_landings, settings.landing_blocks, "{census:?}");
        assert_eq!((census.promised_credits, census.granted_bytes), (0, 0), "{census:?}");
    }
}

/// The byte at a place of a stream.
pub fn byte(at: usize) -> u8 {
    (at.wrapping_mul(167) ^ (at >> 7) ^ (at >> 13)) as u8
}

pub fn bytes(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(byte).collect()
}

/// What is received until nothing is there.
pub fn drain(link: &mut SimVerbsLink) -> Result<(Vec<u8>, bool), LinkError> {
    let mut all = Vec::new();
    let mut scratch = [0; 3_000];
    loop {
        match link.receive(&mut [], &mut scratch)? {
            ReceiveOutcome::Bytes { bytes, .. } => all.extend_from_slice(&scratch[..bytes]),
            ReceiveOutcome::Idle => return Ok((all, false)),
            ReceiveOutcome::Closed => return Ok((all, true)),
        }
    }
}

/// What stands around the place in memory that is lent.
const AROUND: u8 = 0xA5;

/// A stream one way, by chance: pieces that are written and pieces that are shared; reads into all kinds of memory.
pub struct TestStream {
    pub total: usize,
    pub written: usize,
    pub received: usize,
    pub out: Gather,
    skip: usize,
    lent: usize,
    lends: bool,
}

impl TestStream {
    pub fn new(chance: &mut SplitMix64, total: usize) -> TestStream {
        TestStream { total, written: 0, received: 0, out: Gather::new(), skip: 0, lent: 0, lends: chance.below(3) > 0 }
    }

    pub fn is_done(&self) -> bool {
        self.received == self.total
    }

    pub fn send(&mut self, chance: &mut SplitMix64, pool: &Pool, link: &mut SimVerbsLink) -> Result<(), LinkError> {
        while self.written < self.total && self.out.bytes() < 20_000 && chance.below(4) > 0 {
            let most = if chance.below(3) == 0 { 12_000 } else { 300 };
            let count = (chance.between(1, most) as usize).min(self.total - self.written);
            let some = bytes(self.written, count);
            if count > 200 && chance.below(4) > 0 {
                self.out.push(pool.copy(&some));
            } else {
                self.out.extend(pool, &some);
            }
            self.written += count;
        }
        if !self.out.is_empty() {
            link.send(&mut self.out)?;
        }
        Ok(())
    }

    fn check(&mut self, some: &[u8]) {
        for (at, byte) in some.iter().enumerate() {
            assert_eq!(*byte, self::byte(self.received + at), "byte {} of the stream", self.received + at);
        }
        self.received += some.len();
        assert!(self.received <= self.total, "more arrived than was sent");
    }

    /// False: the stream is over.
    pub fn receive(
        &mut self,
        chance: &mut SplitMix64,
        pool: &Pool,
        link: &mut SimVerbsLink,
    ) -> Result<bool, LinkError> {
        let left = self.total - self.received;
        if self.lends && self.lent == 0 && left > 0 && chance.below(6) == 0 {
            let count = (chance.between(1, 9_000) as usize).min(left);
            let (skip, beyond) = (chance.below(20) as usize, chance.below(3) as usize * 7);
            let mut memory = pool.block(skip + count + beyond);
            memory.fill(AROUND);
            if link.lend(memory, skip..skip + count).is_ok() {
                (self.skip, self.lent) = (skip, count);
            }
        }
        let (mut direct, mut scratch) = ([0; 40], [0; 2_000]);
        let direct = &mut direct[..chance.below(41) as usize];
        let scratch = &mut scratch[..chance.between(1, 2_000) as usize];
        match link.receive(direct, scratch)? {
            ReceiveOutcome::Bytes { bytes, .. } => {
                if let Some(FilledMemory { memory, copied_bytes }) = link.take_filled() {
                    assert_eq!(bytes, 0, "what was lent comes before the rest");
                    let place = self.skip..self.skip + std::mem::take(&mut self.lent);
                    assert!(copied_bytes <= place.len(), "more was copied than was lent");
                    let around = memory[..place.start].iter().chain(&memory[place.end..]);
                    assert!(around.into_iter().all(|byte| *byte == AROUND), "bytes around the place were written to");
                    self.check(&memory[place]);
                    return Ok(true);
                }
                let first = bytes.min(direct.len());
                self.check(&direct[..first]);
                self.check(&scratch[..bytes - first]);
                Ok(true)
            }
            ReceiveOutcome::Idle => Ok(true),
            ReceiveOutcome::Closed => Ok(false),
        }
    }
}
