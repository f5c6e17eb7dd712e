//! The management API: RabbitMQ's routes over HTTP, from a replica of the catalog and what a program counts.
#![forbid(unsafe_code)]

mod access;
mod api_error;
pub mod limits;
mod list_request;
pub mod percent;
mod query;
mod reference;
mod request_body;
mod route;
mod route_path;
mod routes;

pub use access::{AccessDecision, AccessTags, decide};
pub use api_error::ApiError;
pub use list_request::{ListRequest, NameFilter, PagePlace, PageRequest};
pub use query::{Columns, Query};
pub use reference::{openapi, reference};
pub use request_body::RequestBody;
pub use route::{Handler, HttpMethod, RequiredTag, Route, RouteScope};
pub use route_path::{PathFault, RequestPath, RouteMatch, Routed, allow};
pub use routes::ROUTES;
