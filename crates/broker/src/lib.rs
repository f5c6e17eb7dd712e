//! The broker's domain: queues, channels, consumers, settlement, and the mail between shards. Pure: commands in, effects out.
//!
//! Enters: commands of connections and letters of other shards.  Leaves: effects (see [`Effects`]).
//! Owns:   everything a broker knows on one shard, beside the bytes of its connections.
//! Never:  knows a frame, a thread, a lock, a future or JSON; reads a clock; draws chance.
#![forbid(unsafe_code)]

mod blind;
mod chain;
mod channel;
mod consumer;
mod core;
mod dead_letters;
mod death;
mod delayed;
mod direct_reply;
mod effects;
mod expiration;
mod features;
mod ledger;
mod letter;
pub mod limits;
mod message;
mod peer;
mod queue;
mod ready;
mod request;
mod rooms;
mod timers;

pub use crate::core::{Broker, BrokerOptions, Counters, Flow, Publish};
pub use direct_reply::Address;
pub use effects::{Confirm, ConfirmOutcome, Delivery, Effects, Slot, Stored};
pub use letter::{Batch, Letter};
pub use message::{BodyRef, Content, Message};
pub use peer::{Capabilities, Login};
pub use queue::Queue;
pub use ready::Place;
pub use request::{NotTaken, Request};
