//! The schedule: the loop of a run, the steps of its world, and the rests between, all in an order drawn from the seed.
//!
//! A [`Workload`] decides what clients do and what must be true; the schedule runs it and stops at the first violation.

use crate::broker_links::BrokerLinks;
use crate::client_connection::ClientEvent;
use crate::limits::{
    PATIENCE_ROUNDS, REST_QUIET_ROUNDS, REST_ROUNDS_MAX, SHARD_HEAP_BYTES_MAX, WORK_BEYOND_BUDGET_MAX,
};
use crate::settings::{Schedule, TurnOrder};
use crate::simulated_broker::SimulatedBroker;
use crate::simulated_client::{ConnectionState, SimulatedClient};
use crate::world::SimulatedWorld;
use link::sim::SimSide;

/// Steps of a run between two rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPhase {
    pub steps: u32,
    /// In each step clients act before the world moves, or behind.
    pub acts_first: bool,
}

/// What clients do in a world, and the model that their events are compared with.
pub trait Workload: Sized {
    /// Before the first phase: clients connect and declare what every run needs.
    fn prepare(&mut self, world: &mut SimulatedWorld);

    /// The next phase; `None` at the end.
    fn next_phase(&mut self, world: &mut SimulatedWorld) -> Option<RunPhase>;

    /// Clients and faults act, in one step of a phase.
    fn act(&mut self, world: &mut SimulatedWorld, step: u32);

    /// The steps of a phase are over; a rest follows.
    fn end_phase(&mut self, _world: &mut SimulatedWorld) {}

    /// A client has received something, and its own state is up to date.
    fn on_event(&mut self, world: &mut SimulatedWorld, client: usize, event: ClientEvent);

    /// A connection of one broker to another is lost, or will be.
    fn on_link_lost(&mut self, _from: usize, _to: usize) {}

    /// A fault has cut the connection of a client, which is no longer in the world.
    fn on_client_lost(&mut self, _world: &mut SimulatedWorld, _client: SimulatedClient) {}

    /// What must be true at every moment.
    fn check_step(&mut self, _world: &mut SimulatedWorld) {}

    fn begin_rest(&mut self, _world: &mut SimulatedWorld) {}

    /// How many rounds have been quiet, after another one in which something moved or not.
    fn count_quiet_rounds(&mut self, world: &mut SimulatedWorld, before: u32, moved: bool) -> u32;

    /// How many rounds must be quiet before the world is at rest.
    fn quiet_rounds_needed(&self, _world: &SimulatedWorld) -> u32 {
        REST_QUIET_ROUNDS
    }

    /// What keeps the world from coming to rest, in words, as far as the workload knows.
    fn unrest(&mut self, _world: &mut SimulatedWorld) -> String {
        String::new()
    }

    /// What must be true at rest.
    fn check_rest(&mut self, world: &mut SimulatedWorld);

    /// After the checks of a rest.
    fn end_rest(&mut self, world: &mut SimulatedWorld);

    /// After the last phase: everything is drained and deleted, and nothing is left.
    fn finish(&mut self, world: &mut SimulatedWorld);
}

impl SimulatedWorld {
    /// A whole run.
    pub fn run<W: Workload>(&mut self, workload: &mut W) {
        self.trace.note(|| format!("{:?}", self.settings));
        workload.prepare(self);
        while let Some(phase) = workload.next_phase(self) {
            for step in 0..phase.steps {
                if self.trace.has_failed() {
                    return;
                }
                if phase.acts_first {
                    workload.act(self, step);
                    self.advance(workload);
                } else {
                    self.advance(workload);
                    workload.act(self, step);
                }
            }
            workload.end_phase(self);
            self.rest(workload);
        }
        if !self.trace.has_failed() {
            workload.finish(self);
        }
        let moved: u64 = self.brokers.iter().map(SimulatedBroker::messages_moved).sum();
        (self.tally.moved, self.tally.runs_moving) = (moved, u64::from(moved > 0));
        self.tally.followed = self.brokers.iter().map(|broker| broker.connections_moved).sum();
        self.tally.ticks = self.brokers.iter().map(|broker| broker.ticks).sum();
        self.tally.digest = self.trace.digest;
    }

    /// The world moves a little, in random order.
    pub fn advance<W: Workload>(&mut self, workload: &mut W) {
        let Schedule { order, step_us_max, cable_permille, client_permille, .. } = self.settings.schedule;
        let us = self.chance.below(step_us_max);
        self.pass(us);
        match order {
            TurnOrder::ByClient => {
                for client in 0..self.clients.len() {
                    if self.chance.permille(cable_permille) {
                        self.clients[client].cable.step();
                    }
                    if self.chance.permille(client_permille) {
                        self.pump(client, workload);
                    }
                }
            }
            TurnOrder::ByBroker => {
                for cable in &self.cables {
                    if self.chance.permille(cable_permille) {
                        cable.step();
                    }
                }
            }
        }
        for broker in 0..self.brokers.len() {
            if order == TurnOrder::ByBroker && self.chance.permille(client_permille) {
                self.pump_clients_of(broker, workload);
            }
            let shards = self.brokers[broker].shards.len() as u64;
            for _ in 0..self.chance.below(2 * shards + 1) {
                let shard = self.chance.below(shards) as usize;
                if self.brokers[broker].is_up {
                    self.brokers[broker].run_shard(shard, self.clock.now);
                }
            }
        }
        BrokerLinks::poll(self, workload);
        workload.check_step(self);
        self.sweep();
    }

    /// Everything moves once, without actions and faults. Returns whether anything did.
    fn round<W: Workload>(&mut self, workload: &mut W) -> bool {
        let order = self.settings.schedule.order;
        let mut moved = false;
        if order == TurnOrder::ByClient {
            for client in 0..self.clients.len() {
                self.clients[client].cable.step();
                moved |= self.pump(client, workload);
            }
        }
        for cable in &self.cables {
            // By brokers, what arrives is noticed when a client or a shard takes it.
            moved |= cable.step() && order == TurnOrder::ByClient;
        }
        for broker in 0..self.brokers.len() {
            if order == TurnOrder::ByBroker {
                moved |= self.pump_clients_of(broker, workload);
            }
            for shard in 0..self.brokers[broker].shards.len() {
                if self.chance.permille(800) {
                    self.brokers[broker].run_shard(shard, self.clock.now);
                }
            }
            moved |= self.brokers[broker].is_busy();
        }
        moved |= BrokerLinks::poll(self, workload);
        workload.check_step(self);
        self.sweep();
        moved || self.links.is_dialing()
    }

    /// A client reads and sends. Returns whether anything moved.
    fn pump<W: Workload>(&mut self, client: usize, workload: &mut W) -> bool {
        let mut events = Vec::new();
        let now = self.clock.now;
        let connection = &mut self.clients[client].connection;
        let moved = connection.pump(&self.memory.pool, &mut self.memory.scratch, now, &mut events);
        for event in events {
            if self.trace.has_failed() {
                break;
            }
            let one = &mut self.clients[client];
            // A client that has dropped its link receives nothing more.
            if one.state != ConnectionState::Gone {
                one.on_event(&event);
                self.tally.blocked += u64::from(matches!(event, ClientEvent::Blocked));
            }
            workload.on_event(self, client, event);
        }
        moved
    }

    fn pump_clients_of<W: Workload>(&mut self, broker: usize, workload: &mut W) -> bool {
        let mut moved = false;
        for client in self.clients_of(broker) {
            moved |= self.pump(client, workload);
        }
        moved
    }

    /// Nobody acts until nothing moves any more; then the workload checks what must be true.
    pub fn rest<W: Workload>(&mut self, workload: &mut W) {
        self.faults.is_suspended = true;
        self.run_until_quiet(workload);
        self.faults.is_suspended = false;
        if self.trace.has_failed() {
            return;
        }
        self.trace.note(|| "at rest".into());
        self.check_work();
        self.check_heap();
        workload.check_rest(self);
        workload.end_rest(self);
    }

    /// No turn of any broker, in any of its lives, has done much more than its budget of work.
    pub(crate) fn check_work(&mut self) {
        let work_max = u64::from(self.settings.limits.work_per_turn) + WORK_BEYOND_BUDGET_MAX;
        for (number, broker) in self.brokers.iter().enumerate() {
            let most = broker.work_per_turn_max();
            if most > work_max {
                self.trace.fail(format!("a turn of broker {number} has done {most} units of work, of {work_max}"));
            }
        }
    }

    /// The heap of every broker is what it accounts for, and a bounded rest.
    fn check_heap(&mut self) {
        for (number, broker) in self.brokers.iter().enumerate() {
            if let Some(excess) = broker.excess_heap(SHARD_HEAP_BYTES_MAX) {
                self.trace.fail(format!("at rest: broker {number} holds {excess}"));
            }
        }
    }

    /// Everything moves at full speed until nothing moves any more.
    pub fn run_until_quiet<W: Workload>(&mut self, workload: &mut W) {
        self.clients.iter_mut().for_each(SimulatedClient::release);
        for (cable, side) in self.cables.iter().flat_map(|cable| [(cable, SimSide::Left), (cable, SimSide::Right)]) {
            cable.limit_rate(side, None);
        }
        workload.begin_rest(self);
        let Schedule { quiet_step_us, rest_s_max, .. } = self.settings.schedule;
        let began_us = self.clock.us();
        let mut quiet = 0;
        for _ in 0..REST_ROUNDS_MAX {
            if self.trace.has_failed() {
                return;
            }
            let moved = self.round(workload);
            quiet = workload.count_quiet_rounds(self, quiet, moved);
            if moved {
                let us = self.chance.below(100);
                self.pass(us);
                continue;
            }
            if quiet > REST_QUIET_ROUNDS && quiet > workload.quiet_rounds_needed(self) {
                return;
            }
            if (self.clock.us() - began_us) / 1_000_000 > rest_s_max {
                break;
            }
            self.pass(quiet_step_us);
        }
        let (unrest, activity) = (workload.unrest(self), self.activity());
        self.trace.fail(format!("nobody acts, and the world does not come to rest: {unrest} {activity}"));
    }

    /// Lets the world move until something is true. Returns whether that came to be.
    pub fn until<W: Workload>(
        &mut self,
        workload: &mut W,
        what: &str,
        is_true: impl Fn(&SimulatedWorld, &W) -> bool,
    ) -> bool {
        let (mut digest, mut patience) = (self.trace.digest, PATIENCE_ROUNDS);
        while patience > 0 {
            if self.trace.has_failed() {
                return false;
            }
            if is_true(self, workload) {
                return true;
            }
            self.advance(workload);
            patience -= 1;
            if self.trace.digest != digest {
                (digest, patience) = (self.trace.digest, PATIENCE_ROUNDS);
            }
        }
        let activity = self.activity();
        let activity = if activity.is_empty() { "nothing moves" } else { &activity };
        self.trace.fail(format!("it takes for ever until {what}; {activity}"));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{RunPhase, Workload};
    use crate::client_connection::ClientEvent;
    use crate::limits::WORK_BEYOND_BUDGET_MAX;
    use crate::settings::{Mode, Settings};
    use crate::simulated_client::{ClientRole, ConnectionState};
    use crate::world::SimulatedWorld;

    /// Clients that only connect, and a log of what the schedule asked for.
    #[derive(Default)]
    struct ConnectOnly {
        log: Vec<&'static str>,
        phases: u32,
        fails_in_phase: Option<u32>,
    }

    impl Workload for ConnectOnly {
        fn prepare(&mut self, world: &mut SimulatedWorld) {
            self.log.push("prepare");
            for broker in 0..world.brokers.len() {
                world.connect(broker, ClientRole::Any);
            }
        }

        fn next_phase(&mut self, _: &mut SimulatedWorld) -> Option<RunPhase> {
            self.phases += 1;
            self.log.push("phase");
            (self.phases < 3).then_some(RunPhase { steps: 2, acts_first: self.phases == 2 })
        }

        fn act(&mut self, world: &mut SimulatedWorld, step: u32) {
            self.log.push(if step == 0 { "act" } else { "act again" });
            if self.fails_in_phase == Some(self.phases) {
                world.trace.fail("it fails");
            }
        }

        fn end_phase(&mut self, _: &mut SimulatedWorld) {
            self.log.push("end");
        }

        fn on_event(&mut self, world: &mut SimulatedWorld, _: usize, event: ClientEvent) {
            world.trace.digest_event(&event);
            assert!(matches!(event, ClientEvent::Opened), "{event:?}");
        }

        fn count_quiet_rounds(&mut self, _: &mut SimulatedWorld, before: u32, moved: bool) -> u32 {
            if moved { 0 } else { before + 1 }
        }

        fn check_rest(&mut self, world: &mut SimulatedWorld) {
            self.log.push("check");
            assert!(world.clients.iter().all(|client| client.state == ConnectionState::Open));
        }

        fn end_rest(&mut self, _: &mut SimulatedWorld) {}

        fn finish(&mut self, _: &mut SimulatedWorld) {
            self.log.push("finish");
        }
    }

    fn run(mode: Mode, fails_in_phase: Option<u32>) -> (Vec<&'static str>, SimulatedWorld) {
        let mut workload = ConnectOnly { fails_in_phase, ..ConnectOnly::default() };
        // Seeds whose connections have no heartbeats, which are no reason to wait here.
        let mut world = (0..).map(|seed| SimulatedWorld::new(Settings::of(mode, seed), true));
        let mut world = world.find(|world| world.settings.limits.heartbeat_s == 0).expect("there are such seeds");
        world.run(&mut workload);
        (workload.log, world)
    }

    #[test]
    fn a_run_is_phases_of_steps_with_a_checked_rest_behind_each() {
        for mode in [Mode::Features, Mode::Federation] {
            let phase = ["phase", "act", "act again", "end", "check"];
            let expected = [&["prepare"], &phase[..], &phase[..], &["phase", "finish"]].concat();
            let (log, world) = run(mode, None);
            assert_eq!(log, expected, "{mode:?}");
            assert!(world.tally.ticks > 0 && world.tally.digest != 0 && !world.trace.has_failed());
        }
    }

    #[test]
    fn a_run_stops_at_the_first_violation() {
        let (log, world) = run(Mode::Features, Some(2));
        assert_eq!(log, ["prepare", "phase", "act", "act again", "end", "check", "phase", "act"]);
        assert_eq!(world.trace.into_parts().0.as_deref(), Some("it fails"));
    }

    #[test]
    fn memory_that_a_broker_does_not_account_for_is_a_failure_at_every_rest() {
        for mode in [Mode::Features, Mode::Federation, Mode::Durable] {
            let mut world = SimulatedWorld::new(Settings::of(mode, 3), false);
            world.rest(&mut ConnectOnly::default());
            assert!(!world.trace.has_failed(), "{mode:?}");
            let kept = world.brokers[0].wake(0, |_| vec![7_u8; 64 << 20]);
            world.rest(&mut ConnectOnly::default());
            let violation = world.trace.into_parts().0.expect("it is found");
            assert!(violation.contains("broker 0 holds"), "{mode:?}: {violation}");
            drop(kept);
        }
    }

    #[test]
    fn a_turn_that_does_too_much_is_a_failure_in_whichever_life() {
        for mode in [Mode::Features, Mode::Federation, Mode::Durable] {
            let mut world = SimulatedWorld::new(Settings::of(mode, 3), false);
            let work_max = u64::from(world.settings.limits.work_per_turn) + WORK_BEYOND_BUDGET_MAX;
            world.brokers[0].past_work_per_turn_max = work_max;
            world.stop_broker(0);
            world.start_broker(0);
            world.rest(&mut ConnectOnly::default());
            assert!(!world.trace.has_failed(), "{mode:?}");
            world.brokers[0].past_work_per_turn_max += 1;
            world.stop_broker(0);
            world.start_broker(0);
            world.rest(&mut ConnectOnly::default());
            assert!(world.trace.has_failed(), "{mode:?}");
        }
    }
}
