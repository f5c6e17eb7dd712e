//! Federation of brokers: links to other brokers and the routes that messages take over them.
//!
//! Enters: links and routes as an operator specifies them; events of a connection to another broker; changes of bindings.
//! Leaves: methods for that broker, decisions for the owner of the connection, the state of each link.
//! Owns:   the protocol between brokers, which is that of RabbitMQ's federation plugin: traces, internal exchanges, propagated
//!         bindings.
#![forbid(unsafe_code)]

mod ack_batcher;
mod binding_interest;
mod binding_path;
mod binding_propagation;
mod binding_requests;
mod broker_identity;
mod duplicate_window;
mod federation_command;
mod federation_plan;
mod left_queues;
pub mod limits;
mod link_session;
mod link_spec;
mod link_status;
mod local_setup;
mod message_refusal;
mod queue_hop;
mod remote_setup;
mod route_options;
pub mod route_spec;
mod route_table;
mod setup_methods;
mod tracer;
mod unconfirmed_stamps;

pub use ack_batcher::AckBatcher;
pub use binding_propagation::{BindingOperation, BindingPropagation};
pub use broker_identity::BrokerIdentity;
pub use duplicate_window::DuplicateWindow;
pub use federation_command::FederationCommand;
pub use federation_plan::{FederationPlan, PlanError, PlannedLink};
pub use left_queues::GivenUpQueue;
pub use link_session::{LinkDecision, LinkLogin, LinkSession, SessionEnd};
pub use link_spec::{AckMode, LinkKey, LinkOptions, LinkOrigin, LinkSpec, RouteDirection, RouteKind, RouteSpec};
pub use link_status::{LinkState, LinkStatus, RouteStatus};
pub use local_setup::LocalSetup;
pub use queue_hop::QueueHop;
pub use route_options::{FederatedQueue, RouteEnd, RouteOptions, ShovelOptions};
pub use route_table::{RouteId, RouteProgress, RouteTable};
pub use tracer::{TraceVerdict, Tracer};
pub use unconfirmed_stamps::UnconfirmedStamps;
