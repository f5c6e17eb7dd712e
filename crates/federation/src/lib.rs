//! Federation: brokers joined by links, and the routes that ride on them.
//!
//! Enters: links and routes as an operator wants them; events of a connection to another broker; changes of bindings.
//! Leaves: methods for that broker, the state of each link.
//! Owns:   what brokers say to one another, which is what RabbitMQ's federation plugin says: traces, internal exchanges,
//!         mirrored bindings.
//! Never:  opens a socket, reads a clock, routes a message.
#![forbid(unsafe_code)]

mod ack_batcher;
mod local_setup;
mod broker_identity;
pub mod limits;
mod binding_propagation;
mod federation_command;
mod binding_path;
mod link_session;
mod federation_plan;
mod link_spec;
mod link_status;
mod remote_setup;
mod tracer;
mod unconfirmed_stamps;
mod duplicate_window;

pub use ack_batcher::AckBatcher;
pub use local_setup::{LocalSetup, push_definitions};
pub use broker_identity::BrokerIdentity;
pub use binding_propagation::{BindingPropagation, BindingOperation};
pub use federation_command::FederationCommand;
pub use link_session::{SessionEnd, LinkEvent, LinkLogin, LinkSession, LinkDecision};
pub use federation_plan::{FederationPlan, PlannedLink, PlanError};
pub use link_spec::{AckMode, RouteDirection, LinkKey, LinkSpec, RouteKind, RouteSpec};
pub use link_status::{LinkState, LinkStatus, RouteStatus};
pub use tracer::{Tracer, TraceVerdict};
pub use unconfirmed_stamps::UnconfirmedStamps;
pub use duplicate_window::DuplicateWindow;
