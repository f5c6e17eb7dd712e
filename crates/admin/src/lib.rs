//! The administrator's side of the requests to a running broker: their format, the connection that carries them, and the
//! broker that a command line names.
//!
//! Enters: an address with a login, commands.  Leaves: results, or why there is none, without a password.
#![forbid(unsafe_code)]

mod admin_connection;
mod broker_url;
pub mod limits;
mod request_format;

pub use admin_connection::{AdminConnection, RequestError, RequestErrorKind, ask};
pub use broker_url::broker_url;
pub use request_format::{CONTENT_TYPE, VERSION};
