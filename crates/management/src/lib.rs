//! The management API: RabbitMQ's routes over HTTP, from a replica of the catalog and what a program counts.
//!
//! Enters: requests of HTTP clients; through a [`Source`], definitions and numbers.  Leaves: answers, metrics, and actions that
//!         the source carries out.
//! Owns:   the routes as data, lists and their pages, access by tags, and the limits of all of them.
//! Never:  knows a shard or a queue's messages, or makes either wait.
//!
//! A program implements [`Source`] and hands its listeners to [`serve`], on a thread of its own. What the source needs of it: a
//! replica of the catalog that has a change before the action that made it is answered; numbers and live objects as it counts
//! them; and a place where actions are carried out with the user's permissions. [`CatalogSource`] has a catalog alone.
//!
//! Begin with `Route` and `routes`, then `Api`, which is all of it without sockets.
#![forbid(unsafe_code)]

mod access;
mod alarm_history;
mod answer;
mod answer_bytes;
mod api;
mod api_error;
mod audit_line;
mod audit_log;
mod authenticator;
mod broker_views;
mod catalog_source;
mod change_request;
mod changes;
mod definition_views;
mod definitions_file;
mod direct_requests;
mod federation_upstream;
mod found_route;
mod got_message;
mod health;
mod io_counts;
mod json_object;
pub mod limits;
mod list_request;
mod live;
mod live_shovel;
mod live_views;
mod log_counts;
mod log_metrics;
mod login_checks;
mod login_sessions;
mod masked_uris;
mod metric_families;
mod metric_writer;
mod metrics_request;
mod metrics_stream;
mod object_history;
mod object_sums;
mod page_files;
mod parameter_fields;
pub mod percent;
mod planned_change;
mod query;
mod queue_totals;
mod queue_view;
mod rated_count;
mod read_routes;
mod reference;
mod request_body;
mod request_counts;
mod route;
mod route_path;
mod routes;
mod row_list;
mod runtime_counts;
mod runtime_metrics;
mod sample_range;
mod sample_ring;
mod sampled_object;
mod server;
mod session_cookie;
mod shovel_parameter;
mod shovel_view;
mod site;
mod source;
mod stalled_stream;
mod statistics_history;
mod time_counts;
mod upstream_choice;
mod viewer;

pub use access::AccessTags;
pub use alarm_history::{AlarmHistory, AlarmKind};
pub use answer::{Answer, AnswerBody};
pub use api::{Api, ApiOptions, ApiReply, RequestHead, RoutedRequest};
pub use api_error::ApiError;
pub use catalog_source::CatalogSource;
pub use changes::parameters::{PARAMETER_PAUSED, PARAMETER_USER};
pub use changes::plan;
pub use direct_requests::{DirectAnswer, DirectRequest, DirectRequestQueue, DirectRequests};
pub use federation_upstream::{FederationUpstream, UPSTREAM, UPSTREAM_SET, UpstreamOptions, UpstreamSetEntry};
pub use got_message::GotMessage;
pub use io_counts::{IoCounts, IoOperation};
pub use list_request::{ListRequest, NameFilter, PagePlace, PageRequest};
pub use live::{
    BrokerCounts, BrokerFacts, ChurnCounts, ExchangeCounts, GlobalCounts, ListenerFacts, LiveCertificate, LiveChannel,
    LiveConnection, LiveConsumer, LiveFederationLink, LiveTls, LoginCounts, MessageCounts, NodeResourceRates,
    NodeResources, QueueCounts, QueueOwner, VhostCounts, WaitingMessages,
};
pub use live_shovel::{LiveShovel, LiveShovelEnd};
pub use log_counts::LogCounts;
pub use login_checks::Credentials;
pub use metrics_stream::{MetricsEndpoint, MetricsStream};
pub use object_sums::ObjectSums;
pub use planned_change::{
    ConditionalDeletion, ConnectionsToClose, GetAckMode, MessageToPublish, MessagesToGet, MessagesToPeek,
    PayloadEncoding, PlannedChange,
};
pub use query::{Columns, Query};
pub use queue_totals::QueueTotals;
pub use rated_count::RatedCount;
pub use reference::{openapi, reference};
pub use request_body::RequestBody;
pub use route::{Handler, HttpMethod, RequiredTag, Route, RouteScope};
pub use route_path::{PathFault, RouteMatch, Routed, allow};
pub use routes::ROUTES;
pub use row_list::RowList;
pub use runtime_counts::{NamedTotal, RdmaCounts, RuntimeCounts, ShardCounts};
pub use server::{HttpListener, ServedRoutes, ServerStop, ServerStopper, TlsConfigSource, serve};
pub use shovel_parameter::{DeleteAfter, SHOVEL, ShovelEnd, ShovelParameter, ShovelPlace};
pub use source::{Action, ActionKind, ActionOutcome, ActionReply, Source};
pub use time_counts::TimeCounts;
pub use upstream_choice::{ALL_UPSTREAMS, UpstreamChoice};
pub use viewer::Viewer;
