//! RabbitMQ's client of its HTTP API for Rust, as its users have it, asks a broker all that it knows to ask.
//!
//! Enters: MANAGEMENT_URL; a broker with queues `waiting-0` to `waiting-2` in virtual host `clients`, where a publisher and a consumer
//! are at work. Leaves: a line `ok` or `not ok` a function; status 1 after a failure. What it makes is gone in the end.
//! Its types are strict: an answer that lacks a key, or has a value of another type, is an error.

mod changes;
mod readings;
mod report;

use rabbitmq_http_client::blocking_api::{Client, ClientBuilder};
use report::Report;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

pub type Api = Client<String, &'static str, &'static str>;
pub type Outcome = Result<(), Box<dyn Error>>;

/// The virtual host in which something goes on.
pub const BUSY: &str = "clients";
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let url = std::env::var("MANAGEMENT_URL").expect("MANAGEMENT_URL says where the API is");
    let api = ClientBuilder::new()
        .with_endpoint(format!("{url}/api"))
        .with_basic_auth_credentials("guest", "guest")
        .with_request_timeout(TIMEOUT)
        .build()
        .expect("the URL is one of HTTP");
    let mut report = Report::default();
    readings::check(&api, &mut report);
    changes::check(&api, &mut report);
    // The last of all: it ends the load.
    report.check("close_connections", || changes::close_connections(&api));
    report.end()
}

/// An error if something is not as it must be.
pub fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(what().into()) }
}
