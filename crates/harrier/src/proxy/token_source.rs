//! Fetches RDMA tokens for the proxy, which knows no AMQP.
//!
//! The proxy logs in as a user of its own; each client authenticates itself over RDMA.

use client::{CarrierPass, ConnectOptions, Url};
use proxy::{BootstrapToken, TokenSource};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A source of tokens that logs in at the given address.
pub fn fetched_from(login: Url, timeout: Duration) -> TokenSource {
    Arc::new(move || {
        let name = Some("harrier proxy".to_owned());
        let options = ConnectOptions { name, answer_wait: timeout, ..ConnectOptions::default() };
        let pass = CarrierPass::get(&login, options);
        let pass = pass.map_err(|error| io::Error::other(format!("no token: {error}")))?;
        let token = pass.token();
        let close = move || {
            if let Err(error) = pass.close() {
                tracing::debug!(%error, "where a token was fetched");
            }
        };
        Ok(BootstrapToken { token, close: Box::new(close) })
    })
}
