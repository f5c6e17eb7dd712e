//! Where a proxy's tokens come from: a broker gives them to a user of the proxy's own.
//!
//! Enters: where to log in, and as whom.  Leaves: a token for each connection.
//! Owns:   the joint between the proxy, which knows no AMQP, and the client.
//! Never:  logs in for a client: each says over RDMA who it is.

use client::{CarrierPass, Options, Url};
use proxy::{Pass, Passes};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Passes that are given where an address of RDMA says.
pub fn fetched_from(login: Url, timeout: Duration) -> Passes {
    Arc::new(move || {
        let name = Some("harrier proxy".to_owned());
        let options = Options { name, answer_wait: timeout, ..Options::default() };
        let pass = CarrierPass::get(&login, options);
        let pass = pass.map_err(|error| io::Error::other(format!("no token: {error}")))?;
        let token = pass.token();
        let close = move || {
            if let Err(error) = pass.close() {
                tracing::debug!(%error, "where a token was fetched");
            }
        };
        Ok(Pass { token, close: Box::new(close) })
    })
}
