//! Runs with several brokers, joined by federation links, with expectations of what must be delivered where.
//!
//! In a storm clients publish and change bindings, links are cut, brokers stop, and routes are removed. At the rest that
//! follows, bindings must have propagated and everything that was owed must have been delivered. Then comes a calm, in
//! which clients only publish, and every delivery is known beforehand.

mod declarations;
mod expectations;
mod operator;
mod route_actions;
mod route_checks;
mod route_deliveries;
mod teardown;
mod topology;

pub use topology::FederationSettings;

use crate::client_connection::ClientEvent;
use crate::limits::REST_QUIET_ROUNDS;
use crate::schedule::{RunPhase, Workload};
use crate::settings::Settings;
use crate::simulated_client::{ClientRole, SimulatedClient};
use crate::world::SimulatedWorld;
use expectations::Expectations;
use operator::RouteOperator;
use route_checks::RouteChecker;
use route_deliveries::FederationEventHandler;

/// How often clients act in a storm.
#[derive(Clone, Copy, Default)]
struct StormRates {
    publish_permille: u32,
    rebind_permille: u32,
}

#[derive(Clone, Copy)]
struct StoppedBroker {
    broker: usize,
    /// The step of the storm in which it is started again.
    until_step: u32,
}

/// Clients of several brokers, and the routes between them.
pub struct FederationWorkload {
    settings: FederationSettings,
    expectations: Expectations,
    rates: StormRates,
    storms_left: u32,
    /// A calm follows the storm that was last.
    is_calm_next: bool,
    stopped: Option<StoppedBroker>,
    /// The number of messages published.
    messages: u64,
    /// Routes and clients are going.
    is_finishing: bool,
}

impl FederationWorkload {
    /// The workload of a run.
    pub fn new(settings: &Settings, federation: FederationSettings) -> Self {
        FederationWorkload {
            expectations: Expectations::new(settings, &federation),
            rates: StormRates::default(),
            storms_left: federation.storms,
            is_calm_next: false,
            stopped: None,
            messages: 0,
            is_finishing: false,
            settings: federation,
        }
    }

    fn operator<'a>(&'a mut self, world: &'a mut SimulatedWorld) -> RouteOperator<'a> {
        RouteOperator { world, expectations: &mut self.expectations }
    }

    fn checker<'a>(&'a self, world: &'a mut SimulatedWorld) -> RouteChecker<'a> {
        RouteChecker { world, expectations: &self.expectations, settings: &self.settings }
    }
}

impl Workload for FederationWorkload {
    fn prepare(&mut self, world: &mut SimulatedWorld) {
        world.tally.forced = u64::from(self.settings.forced);
        self.expectations.draw_queues(&mut world.chance);
        for broker in 0..world.brokers.len() {
            self.set_up_broker(world, broker);
        }
        world.rest(self);
    }

    fn next_phase(&mut self, world: &mut SimulatedWorld) -> Option<RunPhase> {
        if std::mem::take(&mut self.is_calm_next) {
            self.expectations.calm = true;
            return Some(RunPhase { steps: world.chance.between(10, 60) as u32, acts_first: true });
        }
        self.storms_left = self.storms_left.checked_sub(1)?;
        self.is_calm_next = true;
        let [publish_permille, rebind_permille] =
            [world.chance.between(50, 500) as u32, world.chance.between(0, 200) as u32];
        self.rates = StormRates { publish_permille, rebind_permille };
        Some(RunPhase { steps: self.settings.steps, acts_first: false })
    }

    fn act(&mut self, world: &mut SimulatedWorld, step: u32) {
        if self.expectations.calm {
            let broker = world.chance.below(world.brokers.len() as u64) as usize;
            self.publish(world, broker);
        } else {
            self.act_in_storm(world, step);
        }
    }

    fn end_phase(&mut self, world: &mut SimulatedWorld) {
        if !self.expectations.calm {
            self.end_storm(world);
        }
    }

    fn on_event(&mut self, world: &mut SimulatedWorld, client: usize, event: ClientEvent) {
        world.trace.digest_event((world.clients[client].broker, &event));
        let (expectations, settings) = (&mut self.expectations, &self.settings);
        FederationEventHandler { world, expectations, settings }.on_event(client, event);
    }

    fn on_link_lost(&mut self, from: usize, to: usize) {
        self.expectations.lose_link(from, to);
    }

    fn on_client_lost(&mut self, world: &mut SimulatedWorld, client: SimulatedClient) {
        let broker = client.broker;
        match client.role {
            ClientRole::Publisher => {
                let unconfirmed = client.channels.iter().flat_map(|channel| channel.unconfirmed.values());
                self.expectations.mark_unsure(unconfirmed.copied());
            }
            _ => self.expectations.lose_consumer(broker),
        }
        self.reconnect(world, broker, client.role);
    }

    fn check_step(&mut self, world: &mut SimulatedWorld) {
        self.checker(world).check_credit();
    }

    fn count_quiet_rounds(&mut self, world: &mut SimulatedWorld, before: u32, moved: bool) -> u32 {
        if self.is_finishing {
            return before + u32::from(!moved);
        }
        let is_quiet = !moved
            && self.checker(world).broken_link().is_none()
            && world.faults.unnoticed_silence(world.clock.now).is_none();
        if is_quiet { before + 1 } else { 0 }
    }

    fn quiet_rounds_needed(&self, world: &SimulatedWorld) -> u32 {
        let awaits_expiry = self.is_finishing && teardown::has_federation_queues(world);
        REST_QUIET_ROUNDS + if awaits_expiry { teardown::expiry_rounds() } else { 0 }
    }

    fn unrest(&mut self, world: &mut SimulatedWorld) -> String {
        let silence = world.faults.unnoticed_silence(world.clock.now);
        [self.checker(world).broken_link(), silence].map(Option::unwrap_or_default).join(" ")
    }

    fn check_rest(&mut self, world: &mut SimulatedWorld) {
        self.checker(world).check_rest();
    }

    fn end_rest(&mut self, _world: &mut SimulatedWorld) {
        self.expectations.calm = false;
        self.expectations.end_period();
    }

    fn finish(&mut self, world: &mut SimulatedWorld) {
        self.tear_down(world);
    }
}
