//! What each route changes, and what it answers: through the API without sockets, over a catalog without a broker.
//!
//! A script is lines of user, method, path, body, and what is answered; a GET behind a change shows what it made.

#[path = "changes/broker_changes.rs"]
mod broker_changes;
#[path = "changes/exchanges_queues_bindings.rs"]
mod exchanges_queues_bindings;
#[path = "changes/files.rs"]
mod files;
#[path = "changes/policies_limits_parameters.rs"]
mod policies_limits_parameters;
#[path = "changes/script.rs"]
mod script;
mod support;
#[path = "changes/users_vhosts.rs"]
mod users_vhosts;
