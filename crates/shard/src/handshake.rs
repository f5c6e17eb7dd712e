//! Logins: who the client is, and which virtual host it may use.
//!
//! Enters: a SASL mechanism and its response, the name of a virtual host.  Leaves: an open session, or a refusal.
//! Owns:   the order of the steps.
//! Never:  knows how a password is kept.

use crate::connection::Phase;
use crate::shard::Shard;
use broker::Slot;
use catalog::SessionId;
use link::Identity;
use session::sasl::{self, Credentials};
use session::{Capabilities, Greeting};
use std::sync::Arc;
use std::time::Instant;
use wire::ShortStr;
use wire::method::connection;

/// How clients log in by their certificates.
#[derive(Clone)]
pub struct External {
    /// The greeting of connections that show one: it offers EXTERNAL.
    pub greeting: Arc<Greeting>,
    /// What of a certificate is the name of a user.
    pub identity: Identity,
}

/// A login as the client sent it.
pub(crate) struct Login {
    pub mechanism: Vec<u8>,
    pub response: Vec<u8>,
    pub capabilities: Capabilities,
}

impl Shard {
    pub(crate) fn log_in(&mut self, slot: Slot, login: Login, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        connection.capabilities = login.capabilities;
        let loopback = connection.link.peer().is_loopback;
        let mechanism = ShortStr::new(&login.mechanism).unwrap_or(ShortStr::EMPTY);
        let credentials = match sasl::credentials(mechanism, &login.response) {
            Ok(credentials) => credentials,
            Err(fault) => return self.fail(slot, &fault, now),
        };
        let outcome = match credentials {
            Credentials::Password { user, password } => {
                let outcome = self.broker.catalog().authenticate(user, password, loopback);
                outcome.map_err(|refused| refused.to_string())
            }
            // Clients write what they like as their identity, so that, as in RabbitMQ, the certificate's alone counts.
            Credentials::External { .. } => match (connection.link.certificate(), &self.external) {
                (Some(certificate), Some(external)) => match certificate.identity(external.identity) {
                    Some(name) => {
                        let outcome = self.broker.catalog().authenticate_external(name.as_bytes(), loopback);
                        outcome.map_err(|refused| format!("user '{name}' of the certificate: {refused}"))
                    }
                    None => Err(format!("the certificate has no name to log in by ({:?})", external.identity)),
                },
                _ => Err("EXTERNAL needs a certificate, and the client has shown none".to_owned()),
            },
        };
        match outcome {
            Ok(user) => {
                connection.phase = Phase::LoggedIn { user };
                if let Some((out, pool)) = self.desk.writer(slot) {
                    connection.inbound.login_accepted(out, pool);
                }
            }
            Err(reason) => {
                let peer = &*connection.link.peer().address;
                tracing::warn!(shard = self.options.shard.0, slot, peer, reason, "login refused");
                if let Some((out, pool)) = self.desk.writer(slot) {
                    connection.inbound.login_refused(mechanism, &reason, out, pool);
                }
                self.leave(slot, now);
            }
        }
    }

    pub(crate) fn open_vhost(&mut self, slot: Slot, name: &[u8], now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let Phase::LoggedIn { user } = connection.phase else { return };
        let session = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        let vhost = match self.broker.catalog().open_vhost(user, name) {
            Ok(vhost) => vhost,
            Err(refusal) => return self.refuse(slot, 0, refusal, connection::Open::ID, now),
        };
        connection.phase = Phase::Open { user, vhost };
        let capabilities = broker::Capabilities {
            consumer_cancel_notify: connection.capabilities.has(Capabilities::CONSUMER_CANCEL_NOTIFY),
            connection_blocked: connection.capabilities.has(Capabilities::CONNECTION_BLOCKED),
        };
        self.broker.open_session(slot, broker::Login { session, user, vhost, capabilities });
        if let Some((out, pool)) = self.desk.writer(slot) {
            connection.inbound.open_accepted(out, pool);
        }
        self.set_timer(slot, now);
    }
}
