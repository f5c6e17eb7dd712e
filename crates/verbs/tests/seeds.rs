//! Random streams in both directions: on fabrics that are slow, that are broken, and whose hosts disappear.

mod world;

use link::{AbortReason, Link};
use splitmix::SplitMix64;
use verbs::PortSettings;
use verbs::sim::FabricOptions;
use world::{STEPS_MAX, SimVerbsLink, TestStream, TestWorld, any_settings};

/// Runs of each test, unless `VERBS_SEEDS` says otherwise.
const SEEDS: u64 = 1_000;

fn seeds() -> u64 {
    std::env::var("VERBS_SEEDS").map_or(SEEDS, |text| text.parse().expect("VERBS_SEEDS is a number"))
}

struct StreamRun {
    chance: SplitMix64,
    world: TestWorld,
    settings: [PortSettings; 2],
    flows: [TestStream; 2],
}

impl StreamRun {
    fn new(seed: u64, options: &FabricOptions) -> StreamRun {
        let mut chance = SplitMix64::new(seed);
        let settings = [any_settings(&mut chance), any_settings(&mut chance)];
        let world = TestWorld::new(options, &settings);
        let flows = [0, 1].map(|_| {
            let total = chance.between(0, 60_000) as usize;
            TestStream::new(&mut chance, total)
        });
        StreamRun { chance, world, settings, flows }
    }

    /// A round of one end. False: its link is over.
    fn run_end(&mut self, at: usize, link: &mut SimVerbsLink) -> bool {
        let (chance, pool) = (&mut self.chance, &self.world.pool);
        if chance.below(3) == 0 && self.flows[at].send(chance, pool, link).is_err() {
            return false;
        }
        for _ in 0..chance.below(3) {
            match self.flows[1 - at].receive(chance, pool, link) {
                Ok(true) => {}
                Ok(false) | Err(_) => return false,
            }
        }
        true
    }

    fn round(&mut self, links: &mut [Option<SimVerbsLink>; 2]) {
        for (at, place) in links.iter_mut().enumerate() {
            let port = self.world.ports[at].clone();
            if self.chance.below(4) > 0 {
                port.poll().expect("the device is whole");
            }
            if let Some(mut link) = place.take()
                && self.run_end(at, &mut link)
            {
                *place = Some(link);
            }
            port.flush();
        }
        self.world.fabric.step();
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(TestStream::is_done)
    }

    /// Soon nothing is under way, but for a PING now and then: what an end may send, what is unread and what is owed is
    /// what was promised.
    fn assert_credits_balance(&self, links: &[Option<SimVerbsLink>; 2]) {
        let ids = links.each_ref().map(|link| link.as_ref().expect("open").id());
        let census = || [0, 1].map(|at| self.world.ports[at].link_usage(ids[at]));
        for _ in 0..2_000 {
            let census = census();
            let sums = [(0, 1), (1, 0)]
                .map(|(near, far)| census[near].credits_left + census[far].credits_owed + census[far].unread_messages);
            let promised = [&self.settings[1], &self.settings[0]].map(|settings| settings.credits);
            assert!(sums[0] <= promised[0] && sums[1] <= promised[1], "credits were invented: {census:?}");
            if sums == promised && census.iter().all(|census| census.grants == 0) {
                return;
            }
            self.world.step();
        }
        panic!("credits were lost: {:?}", census());
    }

    fn assert_all_released(mut self, nodes: &[usize]) {
        self.flows.iter_mut().for_each(|flow| flow.out.clear());
        for node in nodes {
            self.world.assert_all_released(*node, &self.settings[*node]);
        }
    }
}

fn each_seed(salt: u64, mut run: impl FnMut(u64)) {
    for seed in 0..seeds() {
        // A panic names the seed.
        let named = SeedOnPanic(seed);
        run(seed ^ salt);
        std::mem::forget(named);
    }
}

struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        println!("seed {} failed", self.0);
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_and_every_credit_and_buffer_returns() {
    let mut rendezvous = 0;
    each_seed(0, |seed| {
        let mut run = StreamRun::new(seed, &FabricOptions::slow(seed));
        let before = run.world.pool.used_bytes();
        let (near, far) = run.world.connect();
        let mut links = [Some(near), Some(far)];
        let mut rounds = 0;
        while !run.is_done() {
            run.round(&mut links);
            assert!(links.iter().all(Option::is_some), "a link ended although nothing is broken");
            rounds += 1;
            assert!(rounds < STEPS_MAX, "the streams stand still");
        }
        run.assert_credits_balance(&links);
        // In order, or not.
        if run.chance.below(2) == 0 {
            links.iter_mut().flatten().for_each(Link::close_sending);
        } else if run.chance.below(2) == 0 {
            links.iter_mut().flatten().for_each(|link| link.abort(AbortReason::Operator));
        }
        drop(links);
        rendezvous += run.world.ports.iter().map(|port| port.counters().offered_bytes).sum::<u64>();
        assert!(run.world.ports.iter().all(|port| port.counters().faults == 0));
        for node in 0..2 {
            run.world.assert_all_released(node, &run.settings[node]);
        }
        run.world.pool.collect();
        assert_eq!(run.world.pool.used_bytes(), before, "memory was lost");
    });
    assert!(rendezvous > 1 << 20, "the rendezvous path was hardly taken: {rendezvous} bytes");
}

#[test]
fn on_a_broken_fabric_what_arrives_is_right_and_every_wait_ends() {
    let (mut whole, mut broken) = (0, 0);
    each_seed(1 << 40, |seed| {
        let mut run = StreamRun::new(seed, &FabricOptions::broken(seed));
        let connected = run.world.try_connect();
        let mut links = connected.map_or([None, None], |(near, far)| [Some(near), Some(far)]);
        let mut rounds = 0;
        while !run.is_done() && links.iter().any(Option::is_some) {
            run.round(&mut links);
            rounds += 1;
            assert!(rounds < STEPS_MAX, "neither an end nor a fault");
        }
        if run.is_done() {
            whole += 1
        } else {
            broken += 1
        }
        drop(links);
        run.assert_all_released(&[0, 1]);
    });
    let tenth = seeds() / 10;
    assert!(whole > tenth && broken > tenth, "{whole} whole, {broken} broken");
}

#[test]
fn a_peer_that_disappears_is_noticed_and_all_it_held_returns() {
    each_seed(1 << 41, |seed| {
        let mut run = StreamRun::new(seed, &FabricOptions::slow(seed));
        let (near, far) = run.world.connect();
        let mut links = [Some(near), Some(far)];
        for _ in 0..run.chance.below(400) {
            run.round(&mut links);
        }
        run.world.fabric.vanish_nth(1);
        // What it does from now on is nothing.
        let mut near = links[0].take().expect("open");
        let mut rounds = 0;
        loop {
            run.world.ports[0].poll().expect("our device is whole");
            if !run.run_end(0, &mut near) {
                break;
            }
            run.world.ports[0].flush();
            run.world.fabric.step();
            rounds += 1;
            assert!(rounds < 20_000, "nobody noticed");
        }
        drop(near);
        drop(links);
        let StreamRun { world, settings, .. } = run;
        let alone = TestWorld { ports: vec![world.ports[0].clone()], ..world };
        alone.assert_all_released(0, &settings[0]);
    });
}
