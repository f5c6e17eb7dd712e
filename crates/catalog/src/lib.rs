//! The catalog: what is defined, who may use it, and where messages go.
//!
//! Enters: definitions; routing keys and headers.  Leaves: ids and refusals; queues.
//! Owns:   vhosts, exchanges, queues, bindings, users, permissions, policies and limits, one replica on every shard.
//! Never:  holds a message, knows a connection or a thread, reads a clock, draws a random number.
//!
//! Read `Definition`, then `Catalog`. The exchange types are one file each under `exchange`.
#![forbid(unsafe_code)]

mod all_policies;
pub mod arguments;
mod binding;
mod catalog;
mod copy_budget;
mod definition;
mod exchange;
mod features;
mod heap;
mod ids;
mod index_set;
pub mod limits;
mod name;
mod name_pattern;
mod named;
mod password;
mod password_claim;
mod permission;
mod policy;
mod policy_pattern;
mod queue;
mod queue_type;
mod refusal;
mod route;
mod route_cache;
mod route_question;
mod segmented_table;
mod slot_pages;
mod stamp;
mod texts;
mod user;
mod vhost;
mod watch;

pub use crate::catalog::{
    BindingDestination, BindingPlace, BindingView, Catalog, CatalogCopy, KeyedRoute, default_definitions,
};
pub use all_policies::AllPolicies;
pub use definition::{Definition, DefinitionOutcome, ExecutedDefinition, RemovedExchange, RemovedQueue};
pub use exchange::{ExchangeDefinition, ExchangeKind, delayed::delay_ms, federation_upstream::trace};
pub use features::{OverflowPolicy, QueueFeatures};
pub use ids::{ConnectionSlot, ExchangeId, QueueId, QueueUid, SessionId, ShardId, UserId, VhostId};
pub use limits::CatalogLimits;
pub use name::{Name, REQUEST_QUEUE};
pub use password::Password;
pub use password_claim::PasswordClaim;
pub use permission::{Permission, PermissionKind, Resource, TopicPermission};
pub use policy::{ApplyTo, EffectivePolicy, FEDERATION_KEYS, Policy, PolicyFault};
pub use policy_pattern::PolicyPattern;
pub use queue::QueueDefinition;
pub use queue_type::{QUEUE_TYPE, QueueType};
pub use refusal::{Refusal, RefusalScope, ResourceKind};
pub use route::{QueueRoute, RouteDependence, RoutedQueue};
pub use route_question::RouteQuestion;
pub use stamp::MessageStamp;
pub use user::{LoginRefused, User, UserLimits};
pub use vhost::VhostLimits;
pub use watch::{BindingChange, BindingEvent, WatchId};
