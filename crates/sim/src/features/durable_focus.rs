//! What some of the runs with a store have much of: the moments in which a promise counts that are rare in all others.

use super::durable_settings::DurableSettings;
use super::feature_settings::FeatureSettings;
use super::swarm::{Feature, RequestChoice};
use crate::settings::{FaultSettings, Settings};
use broker::limits::WORK_PER_TURN;
use std::fmt::{self, Display, Formatter};

/// The focus of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DurableFocus {
    #[default]
    None,
    /// One shard commits messages of more than a frame, and crashes meanwhile.
    Commits,
    /// Queues get messages while their declarations are not durable, and lives are short.
    Declarations,
    /// Messages are rejected as soon as they are delivered, before they are written, and their dead letters wait for the disk.
    DeadLetters,
    /// Disks stay full.
    FullDisks,
    /// Groups have several frames, and power cuts tear them.
    TornGroups,
    /// Confirms come before the disk is synced, or before anything is written, and lives are short.
    RelaxedSyncs,
    /// Messages are returned again and again, and the store is written anew for another number of shards.
    Reshardings,
}

/// Fewest steps of such a run: the moment does not come at once.
const STEPS_MIN: u32 = 400;

/// Features whose queues drop messages, or give the model a reason to expect none.
const DROPS: [Feature; 12] = [
    Feature::Ttl,
    Feature::Expiration,
    Feature::Expires,
    Feature::Length,
    Feature::DeliveryLimit,
    Feature::Exclusive,
    Feature::AutoDelete,
    Feature::ServerNamed,
    Feature::ExclusiveConsumers,
    Feature::NoAck,
    Feature::Copies,
    Feature::Priorities,
];

impl DurableFocus {
    /// The focus of a seed: seven of twelve have one.
    pub fn of(seed: u64) -> Self {
        match seed % 12 {
            1 => DurableFocus::Commits,
            2 => DurableFocus::RelaxedSyncs,
            3 => DurableFocus::Declarations,
            5 => DurableFocus::DeadLetters,
            8 => DurableFocus::FullDisks,
            10 => DurableFocus::TornGroups,
            11 => DurableFocus::Reshardings,
            _ => DurableFocus::None,
        }
    }

    /// Makes the settings of a run those of its focus.
    pub fn apply(self, settings: &mut Settings, features: &mut FeatureSettings, durable: &mut DurableSettings) {
        if self == DurableFocus::None {
            return;
        }
        durable.focus = self;
        (durable.definition_permille, durable.message_permille) = (1_000, 1_000);
        (durable.stop_permille, durable.slow_once_in) = (0, 0);
        durable.without_troubles();
        durable.relaxed_permille = 0;
        let switches = &mut features.switches;
        DROPS.iter().for_each(|&feature| switches.set_part(feature, 0));
        switches.set_part(Feature::Confirms, 900);
        settings.limits.consumer_timeout_ms = 0;
        (features.clients, features.steps) = (features.clients.max(4), features.steps.max(STEPS_MIN));
        match self {
            DurableFocus::None => {}
            DurableFocus::Commits => {
                settings.shards = vec![1];
                settings.limits.work_per_turn = WORK_PER_TURN;
                // Large messages arrive soon.
                (settings.limits.faulty_links, settings.limits.frame_bytes_max) = (false, 131_072);
                settings.faults = FaultSettings::default();
                switches.set_part(Feature::Confirms, 0);
                switches.set_part(Feature::Transactions, 900);
                let requests =
                    [(RequestChoice::Declare, 10), (RequestChoice::Transact, 60), (RequestChoice::Consume, 5)];
                switches.set_requests(&requests);
                (features.publish_permille, features.settle_permille) = (400, 150);
                (durable.commit_crash_permille, durable.crash_permille) = (150, 0);
                (durable.large_permille, durable.reshard_permille) = (500, 0);
            }
            DurableFocus::Declarations => {
                switches.set_part(Feature::Mandatory, 900);
                switches.set_requests(&[
                    (RequestChoice::Declare, 40),
                    (RequestChoice::Delete, 15),
                    (RequestChoice::Transact, 20),
                    (RequestChoice::Consume, 5),
                ]);
                (features.publish_permille, features.settle_permille) = (500, 300);
                (durable.early_permille, durable.journal_lag_us) = (600, 30_000);
                (durable.crash_permille, durable.rest_crash_permille) = (10, 500);
                durable.message_lag_us = 0;
            }
            DurableFocus::DeadLetters => {
                switches.set_part(Feature::DeadLetters, 800);
                switches.set_part(Feature::Requeue, 0);
                switches.set_requests(&[
                    (RequestChoice::Declare, 15),
                    (RequestChoice::Transact, 20),
                    (RequestChoice::Consume, 30),
                    (RequestChoice::Prefetch, 5),
                    (RequestChoice::Get, 5),
                ]);
                (features.publish_permille, features.settle_permille) = (350, 800);
                (durable.message_lag_us, durable.crash_permille) = (20_000, 8);
            }
            DurableFocus::FullDisks => {
                (durable.full_permille, durable.large_permille) = (12, 300);
                (durable.rest_crash_permille, durable.crash_permille) = (0, 0);
            }
            DurableFocus::TornGroups => {
                (durable.large_permille, durable.crash_permille) = (300, 25);
                durable.power_cut_permille = 1_000;
            }
            DurableFocus::RelaxedSyncs => {
                switches.set_requests(&[
                    (RequestChoice::Declare, 15),
                    (RequestChoice::Transact, 20),
                    (RequestChoice::Consume, 5),
                    (RequestChoice::Get, 5),
                ]);
                // Most messages stay.
                (features.publish_permille, features.settle_permille) = (500, 200);
                (durable.crash_permille, durable.power_cut_permille) = (15, 500);
                durable.relaxed_permille = 1_000;
            }
            DurableFocus::Reshardings => {
                switches.set_part(Feature::DeliveryLimit, 900);
                switches.set_part(Feature::Requeue, 900);
                switches.set_requests(&[
                    (RequestChoice::Declare, 15),
                    (RequestChoice::Consume, 20),
                    (RequestChoice::Prefetch, 5),
                    (RequestChoice::Get, 10),
                ]);
                // Some messages are returned once or twice, and stay.
                (features.publish_permille, features.settle_permille) = (250, 200);
                (durable.rest_crash_permille, durable.crash_permille) = (1_000, 8);
                durable.reshard_permille = 1_000;
            }
        }
    }
}

impl Display for DurableFocus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DurableFocus::None => "none",
            DurableFocus::Commits => "commits",
            DurableFocus::Declarations => "declarations",
            DurableFocus::DeadLetters => "dead letters",
            DurableFocus::FullDisks => "full disks",
            DurableFocus::TornGroups => "torn groups",
            DurableFocus::RelaxedSyncs => "relaxed syncs",
            DurableFocus::Reshardings => "other numbers of shards",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::DurableFocus;
    use crate::settings::{Mode, Settings};
    use std::collections::BTreeMap;

    #[test]
    fn most_seeds_have_a_focus_and_every_one_is_drawn() {
        let mut counts = BTreeMap::new();
        for seed in 0..240 {
            let settings = Settings::of(Mode::Durable, seed);
            let durable = settings.durable().expect("a store");
            assert_eq!(durable.focus, DurableFocus::of(seed));
            assert!(durable.focus != DurableFocus::Commits || (settings.shards == [1] && durable.crash_permille == 0));
            *counts.entry(durable.focus.to_string()).or_insert(0) += 1;
        }
        assert_eq!(counts.remove("none"), Some(100));
        assert!(counts.len() == 7 && counts.values().all(|&count| count == 20), "{counts:?}");
    }
}
