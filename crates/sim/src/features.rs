//! Runs on one broker: clients use every feature of its queues, and a shadow model knows what must follow.
//!
//! A run is divided by rests at random moments; at its end a client drains all queues and finds every message that is owed.

mod actions;
mod certainty;
mod client_events;
mod crashes;
mod dead_letters;
mod delivery_checks;
mod disk_losses;
mod disk_troubles;
mod drain;
mod durable_focus;
mod durable_settings;
mod exchange_requests;
mod expected_routing;
mod feature_settings;
mod live_damage;
mod model_endings;
mod queue_arguments;
mod report_reader;
mod requests;
mod rest_checks;
mod shadow_model;
mod survival;
mod swarm;
mod sync_losses;

pub use durable_settings::DurableSettings;
pub use feature_settings::FeatureSettings;
pub use shadow_model::ModelTime;
pub use swarm::{Feature, Switches};

use crate::client_connection::ClientEvent;
use crate::schedule::{RunPhase, Workload};
use crate::settings::Settings;
use crate::simulated_broker::SimulatedBroker;
use crate::simulated_client::ConnectionState;
use crate::world::SimulatedWorld;
use actions::ClientTurn;
use client_events::EventHandler;
use crashes::EndReason;
use delivery_checks::Suspicions;
use disk_troubles::DiskTroubles;
use live_damage::LiveDamage;
use report_reader::ReportReader;
use rest_checks::{RestChecker, is_blocking, shards};
use shadow_model::ShadowModel;
use sync_losses::SyncWatch;

/// Clients that use every feature of one broker.
pub struct FeatureWorkload {
    settings: FeatureSettings,
    model: ShadowModel,
    suspicions: Suspicions,
    steps_left: u32,
    /// The model's time, the digest and what clients had read unseen at the last quiet round.
    progress: Progress,
    troubles: DiskTroubles,
    /// What was damaged in this life of the broker, and what its scrub has said.
    live_damage: LiveDamage,
    reader: ReportReader,
    /// What the logs of this life have written and synced, where that is not always at once.
    syncs: SyncWatch,
    /// Why the broker closes all connections.
    ending: Option<EndReason>,
}

/// What changes while anything happens.
#[derive(PartialEq, Default)]
struct Progress {
    now: ModelTime,
    digest: u64,
    unseen_bytes: u64,
    /// Messages that brokers have read: a client that has closed its connection sees nothing of what is still taken from it.
    published: u64,
}

impl FeatureWorkload {
    /// The workload of a run.
    pub fn new(settings: &Settings, features: FeatureSettings) -> Self {
        let has_store = features.durable.is_some();
        FeatureWorkload {
            settings: features,
            model: ShadowModel { has_store, ..ShadowModel::new(settings.limits.is_ample()) },
            suspicions: Suspicions::default(),
            steps_left: features.steps,
            progress: Progress::default(),
            troubles: DiskTroubles::default(),
            live_damage: LiveDamage::default(),
            reader: ReportReader::default(),
            syncs: SyncWatch::default(),
            ending: None,
        }
    }

    fn turn<'a>(&'a mut self, world: &'a mut SimulatedWorld) -> ClientTurn<'a> {
        ClientTurn { world, model: &mut self.model, settings: &self.settings }
    }

    fn progress_of(&self, world: &SimulatedWorld) -> Progress {
        Progress {
            now: self.model.now,
            digest: world.trace.digest,
            unseen_bytes: unseen_bytes(world),
            published: shards(world).map(|node| node.shard.broker().counters().published).sum(),
        }
    }
}

impl Workload for FeatureWorkload {
    fn prepare(&mut self, world: &mut SimulatedWorld) {
        self.begin_sync_watch(world);
        self.declare_first(world);
    }

    fn next_phase(&mut self, world: &mut SimulatedWorld) -> Option<RunPhase> {
        self.end_disk_troubles(world);
        self.may_crash_at_rest(world);
        let steps = (world.chance.between(60, 600) as u32).min(self.steps_left);
        self.steps_left -= steps;
        (steps > 0).then_some(RunPhase { steps, acts_first: false })
    }

    fn act(&mut self, world: &mut SimulatedWorld, _step: u32) {
        self.draw_disk_troubles(world);
        self.draw_spill_troubles(world);
        self.draw_live_damage(world);
        if !self.may_crash(world) {
            self.turn(world).act_all();
        }
    }

    fn on_event(&mut self, world: &mut SimulatedWorld, client: usize, event: ClientEvent) {
        world.trace.digest_event((world.clients[client].uid, &event));
        if self.has_closed_queue(world) {
            return;
        }
        let ending = self.ending;
        EventHandler { world, model: &mut self.model, suspicions: &mut self.suspicions, ending }
            .on_event(client, event);
    }

    fn check_step(&mut self, world: &mut SimulatedWorld) {
        self.model.now_us = world.clock.us();
        self.make_room_in_time(world);
        self.check_syncs(world);
        self.note_scrubs(world);
        self.check_damage_lines(world);
        self.check_disk_failure(world);
        self.check_closed_queues(world);
    }

    fn begin_rest(&mut self, world: &mut SimulatedWorld) {
        if world.settings.limits.heartbeat_s > 0 {
            // A quiet round is longer than the time after which a full disk is asked again.
            self.make_room(world);
            self.make_spill_room(world);
        }
        self.progress = self.progress_of(world);
    }

    /// Heartbeats never end; it is quiet when clients receive nothing else.
    fn count_quiet_rounds(&mut self, world: &mut SimulatedWorld, before: u32, moved: bool) -> u32 {
        let is_blocked =
            world.brokers.iter().flat_map(|broker| &broker.shards).any(|node| node.shard.broker().disk_alarm());
        let awaits_room = !self.troubles.stays_full() && (is_blocked || self.troubles.is_full());
        if awaits_room || world.brokers.iter().any(SimulatedBroker::has_disk_requests) {
            return 0;
        }
        if moved {
            // A shard that wakes for a timer moves nothing, and may do so for ever: with each check for overdue acknowledgements,
            // say, which takes several ticks.
            return before;
        }
        let progress = self.progress_of(world);
        let quiet = if progress == self.progress { before + 1 } else { 0 };
        self.progress = progress;
        quiet
    }

    fn check_rest(&mut self, world: &mut SimulatedWorld) {
        self.model.tick();
        let checker = RestChecker::new(world, &self.model, &self.suspicions);
        if let Some(violation) = checker.violation() {
            world.trace.fail(violation);
        }
        self.check_scrubbed(world);
        self.reader.read(world);
        if let Some(violation) = self.reader.violation(world, is_blocking(world)) {
            world.trace.fail(violation);
        }
        self.suspicions.disorder.clear();
        self.suspicions.unexplained_flags.clear();
    }

    fn end_rest(&mut self, world: &mut SimulatedWorld) {
        self.model.now_us = world.clock.us();
        self.model.end_period(is_blocking(world));
        // A disk that stays full keeps what was written to it waiting, whoever rests.
        if self.settings.durable.is_some() && !self.troubles.is_full() {
            self.model.store_at_rest();
        }
    }

    fn finish(&mut self, world: &mut SimulatedWorld) {
        self.mend_disks(world);
        self.drain_and_delete(world);
    }
}

/// What clients have read that have closed their connections: their sessions ignore it, heartbeats too, which never end.
fn unseen_bytes(world: &SimulatedWorld) -> u64 {
    if world.settings.limits.heartbeat_s > 0 {
        return 0;
    }
    let closing = world.clients.iter().filter(|client| client.state == ConnectionState::Closing);
    closing.map(|client| client.connection.received_bytes).sum()
}
