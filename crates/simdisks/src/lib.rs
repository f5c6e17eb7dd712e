//! The simulated disks of one broker: their faults, its crashes, and the damage that is done to them on purpose.
//!
//! Enters: what a broker writes; what goes wrong.
//! Leaves: what a start must report and what is lost, by a comparison of each log with what it should hold.
//! Owns:   the disks, which outlive their broker; what has become of each place that was damaged.
#![forbid(unsafe_code)]

mod broker_disks;
mod damage_ledger;
pub mod footer_checks;
mod limits;
mod log_survey;

pub use broker_disks::{BrokerDisks, CrashKind, DiskOptions, DiskSpace, FailingRequest, SharedDisk, store_tag};
pub use damage_ledger::{DamageKind, DamageLedger, DamageOutcome, DamageOutcomes, PlacedDamage};
pub use footer_checks::StaleFooters;
pub use log_survey::{LogSurvey, LostRecords, log_of, outcome_of, survey};
