//! The simulation: brokers of several shards on one thread, from a seed, with faults, against a model.
//!
//! Begin with [`run`]. [`Settings`] are drawn from the seed; `world` has the brokers, the connections between them, the
//! clients and simulated time; `schedule` is the loop of a run and of its rests; `faults` cut, slow and silence connections.
//! A workload is plugged into that loop: it decides what clients do, and knows what must follow. There are two:
//!
//! - `features` has one broker and a shadow model. Its clients use every feature of queues, and what is checked is: messages
//!   of one channel are delivered in their order; what was confirmed or committed is delivered, once, unless it was settled
//!   or had a reason to leave its queue, and then its dead letter is where it belongs, with every death in its headers; only
//!   redeliveries are flagged, and settled messages are never delivered again; nothing arrives changed, or where it was
//!   not routed; prefetch, exclusive and single active consumers, priorities, limits, expirations and the consumer timeout
//!   hold; confirmed definitions exist on every shard; at rest no client waits, and no queue withholds messages; no channel
//!   or connection ends without a cause. In durable runs the broker has a store and crashes: what it had promised is there
//!   afterwards, and nothing that must not be ([`Mode::Durable`]).
//! - `federation` has several brokers with routes between them, which are cut, stopped and changed under load.
//!
//! Of all of them, at every rest: no turn has done much more than its budget of work, and the heap of each broker is what it
//! accounts for, with a bound on the rest. When all clients have gone, no memory is in use, and what tables keep for later has
//! a bound.
//!
//! When everything of a run is dropped, all that it has allocated is freed, to the byte.
#![forbid(unsafe_code)]

mod broker_heap;
mod broker_life;
mod broker_limits;
mod broker_links;
mod client_connection;
mod commands;
mod error_lines;
mod faults;
mod features;
mod federation;
pub mod limits;
mod reshard_plan;
mod resharding;
mod restart;
mod restart_plan;
mod schedule;
mod settings;
mod simulated_broker;
mod simulated_client;
mod simulated_clock;
mod store_recovery;
mod tally;
mod topic_pattern;
mod trace;
mod world;

/// Counts what brokers hold.
#[cfg(test)]
#[global_allocator]
static HEAP: slab::Heap = slab::Heap;

pub use broker_limits::BrokerLimits;
pub use features::{Feature, Switches};
pub use settings::{Mode, Settings};
pub use tally::{SeedFailure, Tally};

use crate::features::FeatureWorkload;
use crate::federation::FederationWorkload;
use settings::WorkloadSettings;
use slab::left_by;
use world::SimulatedWorld;

/// Runs a seed. `traced`: whether a failure has the list of events that led to it.
///
/// A program whose allocator is [`slab::Heap`] counts what brokers allocate: that must match what they account for, and be freed
/// at the end. Without it nothing is counted.
pub fn run(mode: Mode, seed: u64, traced: bool) -> Result<Tally, Box<SeedFailure>> {
    error_lines::begin();
    let (outcome, left) = left_by(|| run_world(mode, seed, traced));
    let tally = outcome?;
    if left > 0 {
        let violation = format!("everything is dropped, and {left} bytes of the heap are not freed");
        return Err(Box::new(SeedFailure { violation, settings: Settings::of(mode, seed), trace: Vec::new() }));
    }
    Ok(tally)
}

fn run_world(mode: Mode, seed: u64, traced: bool) -> Result<Tally, Box<SeedFailure>> {
    let settings = Settings::of(mode, seed);
    let mut world = SimulatedWorld::new(settings.clone(), traced);
    match &settings.workload {
        WorkloadSettings::Features(features) => world.run(&mut FeatureWorkload::new(&settings, *features)),
        WorkloadSettings::Federation(federation) => {
            world.run(&mut FederationWorkload::new(&settings, federation.clone()));
        }
    }
    // What nobody has looked at is not kept either.
    error_lines::take();
    let tally = world.tally;
    match world.trace.into_parts() {
        (None, _) => Ok(tally),
        (Some(violation), trace) => Err(Box::new(SeedFailure { violation, settings, trace })),
    }
}
