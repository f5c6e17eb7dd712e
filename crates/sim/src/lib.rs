//! The simulation: a whole broker of several shards on one thread, from a seed, against a shadow model.
//!
//! Enters: a seed.  Leaves: a tally of what happened, or the first broken promise with the command that shows it again.
//! Owns:   time, chance, the links and their faults, the clients and what they know.
//! Never:  uses a socket, a thread or a clock; knows how the broker keeps its promises.
//!
//! Begin with [`run`]. A [`Setting`] says what kind of run a seed is, and its [`Switches`] which features it has and how
//! often; `world` runs the shards as their reactors would, asleep until something wakes them; `deeds` and `ask` are what
//! clients do; `hear` and `came` hold what they hear against the model; `letters` knows why a message may leave a queue and
//! where it must be then; `finish` says what must be so when nothing moves, and when everybody has gone.
//!
//! What is checked: messages of one channel come from a queue in their order; what was confirmed, committed or followed
//! by an answer is found, once, or settled; what comes again is flagged; what is settled never comes again; nothing
//! comes that was not published there, or comes changed; prefetch counts hold; exclusive consumers are alone; what was
//! declared is there for every shard, and a queue declared again is compared; exchanges that go with their last binding do;
//! what leaves a queue without a consumer had a reason, and is found where its dead letters go, with each death in its
//! headers; limits hold; what must expire does, and not too early; the highest priority goes first; what comes back too often
//! goes, and what is held for too long ends its channel; nobody waits for an answer when nothing moves; queues with messages
//! have no consumer with room; no connection or channel ends without a cause; and when all have gone no memory is in use.
//!
//! [`federation`] has several brokers, with links between them, and another book of promises.
#![forbid(unsafe_code)]

mod actor;
mod ask;
mod came;
mod client;
mod deeds;
mod features;
pub mod federation;
mod finish;
mod hear;
mod letters;
pub mod limits;
mod model;
mod routing;
mod run;
mod setting;
mod swarm;
mod terms;
mod world;

pub use run::{Failure, Tally, run};
pub use setting::Setting;
pub use swarm::{Feature, Switches};
pub use terms::Bounds;
