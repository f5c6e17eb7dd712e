//! Federation: brokers joined by links, and the routes that ride on them.
//!
//! Enters: links and routes as an operator wants them; events of a connection to another broker; changes of bindings.
//! Leaves: methods for that broker, the state of each link.
//! Owns:   what brokers say to one another, which is what RabbitMQ's federation plugin says: traces, internal exchanges,
//!         mirrored bindings.
//! Never:  opens a socket, reads a clock, routes a message.
#![forbid(unsafe_code)]

mod acks;
mod here;
mod identity;
pub mod limits;
mod mirror;
mod order;
mod path;
mod peering;
mod plan;
mod spec;
mod status;
mod there;
mod trace;
mod unconfirmed;
mod window;

pub use acks::Acks;
pub use here::{PushDefinitions, push_definitions};
pub use identity::Identity;
pub use mirror::{Mirror, Operation};
pub use order::Order;
pub use peering::{End, Hear, Login, Peering, Told};
pub use plan::{Plan, Planned, Unplanned};
pub use spec::{Ack, Direction, LinkKey, LinkSpec, RouteKind, RouteSpec};
pub use status::{LinkState, LinkStatus, RouteStatus};
pub use trace::{Tracer, Verdict};
pub use unconfirmed::Unconfirmed;
pub use window::Window;
