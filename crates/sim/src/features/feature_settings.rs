//! The settings of a run on one broker: how long it is, what its clients do and how often.

use super::durable_focus::DurableFocus;
use super::durable_settings::DurableSettings;
use super::swarm::Switches;
use crate::broker_limits::{AMPLE_MEMORY_BYTES, AMPLE_OUTPUT_BYTES, AMPLE_QUEUE_BYTES, BrokerLimits};
use crate::limits::{REST_QUIET_ROUNDS, REST_QUIET_STEP_US};
use crate::settings::{FaultSettings, Schedule, Settings, TurnOrder, WorkloadSettings};
use splitmix::SplitMix64;

/// Lengths of runs. Many short ones find more in the same time than few long ones, but some things come late.
const STEPS: [u32; 8] = [100, 150, 200, 200, 300, 300, 600, 1_200];

/// What is drawn for a run on one broker alone.
#[derive(Clone, Copy, Debug)]
pub struct FeatureSettings {
    /// Clients connected at once.
    pub clients: usize,
    /// Steps with actions.
    pub steps: u32,
    /// Whether bodies of tens of kilobytes occur.
    pub large_bodies: bool,
    /// Of a thousand actions, how many are publishes.
    pub publish_permille: u32,
    /// Of a thousand other actions, how many settle deliveries.
    pub settle_permille: u32,
    /// Which features and requests the run has, and how often.
    pub switches: Switches,
    /// Whether the other clients are still connected when the final drain begins.
    pub drain_beside: bool,
    /// Whether the broker has a store, and how often it crashes.
    pub durable: Option<DurableSettings>,
}

impl FeatureSettings {
    /// The settings of a seed with a store: those without, and what the store adds.
    pub fn draw_durable(seed: u64) -> Settings {
        let mut settings = FeatureSettings::draw(seed);
        if let WorkloadSettings::Features(mut features) = settings.workload {
            let mut durable = DurableSettings::draw(seed);
            DurableFocus::of(seed).apply(&mut settings, &mut features, &mut durable);
            features.durable = Some(durable);
            settings.workload = WorkloadSettings::Features(features);
        }
        settings
    }

    /// The settings of a seed.
    pub fn draw(seed: u64) -> Settings {
        let mut chance = SplitMix64::new(seed ^ 0x5EED);
        let small_limits = chance.permille(350);
        let large_bodies = chance.permille(300);
        let memory_bytes_max = if chance.permille(120) { 1 << chance.between(16, 20) } else { AMPLE_MEMORY_BYTES };
        // Heartbeats to all connections at once are much of so little memory: they would set and clear the alarm for ever.
        let may_beat = memory_bytes_max == AMPLE_MEMORY_BYTES;
        // The results of known seeds depend on the order of these draws.
        let shards = [1, 2, 2, 3, 3, 4][chance.below(6) as usize];
        let clients = chance.between(2, 8) as usize;
        let steps = STEPS[chance.below(STEPS.len() as u64) as usize];
        let output_bytes_max = if small_limits { 1 << chance.between(9, 14) } else { AMPLE_OUTPUT_BYTES };
        let queue_bytes_max = if small_limits { 1 << chance.between(10, 16) } else { AMPLE_QUEUE_BYTES };
        let frame_bytes_max = [4_096, 4_096, 8_192, 131_072][chance.below(4) as usize];
        let heartbeat_s = if chance.permille(150) && may_beat { chance.between(1, 3) as u16 } else { 0 };
        let (client_cuts, slow) = (chance.permille(600), chance.permille(500));
        let faulty_links = chance.permille(700);
        let publish_permille = chance.between(150, 700) as u32;
        let drain_beside = chance.permille(500);
        let settle_permille = [100, 450, 450, 800][chance.below(4) as usize];
        // Every rest is longer than the longest timeout, so that the timeout ends within it.
        let consumer_timeout_ms = if chance.permille(120) { chance.between(5, 150) } else { 0 };
        let switches = Switches::of(&mut SplitMix64::new(seed ^ 0xFEA7));
        let workload = FeatureSettings {
            clients,
            steps,
            large_bodies,
            publish_permille,
            settle_permille,
            switches,
            drain_beside,
            durable: None,
        };
        // A quiet rest is long enough for a broker to close a connection that became silent.
        let heartbeat_us = u64::from(heartbeat_s) * 3_000_000 / u64::from(REST_QUIET_ROUNDS);
        Settings {
            seed,
            shards: vec![shards],
            limits: BrokerLimits {
                output_bytes_max,
                queue_bytes_max,
                memory_bytes_max,
                frame_bytes_max,
                heartbeat_s,
                consumer_timeout_ms,
                work_per_turn: BrokerLimits::draw_work(seed),
                faulty_links,
            },
            schedule: Schedule {
                order: TurnOrder::ByClient,
                step_us_max: 400,
                cable_permille: 500,
                client_permille: 400,
                window_bytes_min: 0,
                quiet_step_us: REST_QUIET_STEP_US.max(heartbeat_us),
                rest_s_max: u64::MAX,
            },
            faults: FaultSettings { client_cuts, slow, silences: heartbeat_s > 0, ..FaultSettings::default() },
            workload: WorkloadSettings::Features(workload),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FeatureSettings;
    use crate::settings::Mode;

    #[test]
    fn a_store_without_a_focus_changes_nothing_else_of_a_seed() {
        let (plain, durable) = (FeatureSettings::draw(7), FeatureSettings::draw_durable(7));
        assert_eq!((plain.mode(), durable.mode()), (Mode::Features, Mode::Durable));
        assert_eq!(format!("{:?}", plain.limits), format!("{:?}", durable.limits));
        assert_eq!((plain.shards, plain.faults.slow), (durable.shards, durable.faults.slow));
    }

    #[test]
    fn seeds_draw_small_and_ample_limits_and_one_broker() {
        let drawn: Vec<_> = (0..200).map(FeatureSettings::draw).collect();
        assert!(drawn.iter().all(|settings| settings.mode() == Mode::Features && settings.shards.len() == 1));
        let ample = drawn.iter().filter(|settings| settings.limits.is_ample()).count();
        assert!((50..180).contains(&ample), "{ample} of 200");
    }
}
