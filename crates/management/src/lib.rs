//! The management API: RabbitMQ's routes over HTTP, from a replica of the catalog and what a program counts.
#![forbid(unsafe_code)]

pub mod limits;
pub mod percent;
mod reference;
mod route;
mod route_path;
mod routes;

pub use reference::{openapi, reference};
pub use route::{Handler, HttpMethod, RequiredTag, Route, RouteScope};
pub use route_path::{PathFault, RequestPath, RouteMatch, Routed, allow};
pub use routes::ROUTES;
