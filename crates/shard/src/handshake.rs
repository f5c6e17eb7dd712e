//! Logins: who the client is, and which virtual host it may use.
//!
//! Enters: a SASL mechanism and its response, the name of a virtual host.  Leaves: an open session, or a refusal.
//! Owns:   the order of the steps.
//! Never:  knows how a password is kept.

use crate::connection::Phase;
use crate::proofs::Claim;
use crate::register::{Crowded, Seat};
use crate::shard::Shard;
use crate::stamped;
use crate::tokens::Ticket;
use broker::{Effects, ConnectionSlot};
use catalog::{LoginRefused, Refusal, SessionId, UserId};
use link::{Identity, Link};
use session::sasl::{self, Credentials};
use session::{Capabilities, Greeting};
use std::sync::Arc;
use std::time::Instant;
use verbs::Token;
use verbs::limits::TOKEN_BYTES;
use wire::ShortStr;
use wire::method::{Method, channel, connection};

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

/// A greeting, with the token by which the client may come again over RDMA (Harrier extension).
pub(crate) fn greeting_with(greeting: &Arc<Greeting>, token: Option<Token>) -> Arc<Greeting> {
    let Some(Token(bytes)) = token else { return Arc::clone(greeting) };
    let value = wire::Value::LongStr(bytes.as_slice().into());
    Arc::new(greeting.with_property(TOKEN_PROPERTY, value).expect("a short name"))
}

/// The property of the server in which a token stands.
const TOKEN_PROPERTY: &str = "harrier.rdma_token";

impl Shard {
    /// A token that nobody can guess, for a client that may come again over RDMA.
    pub(crate) fn token_for(&mut self, link: &dyn Link) -> Option<Token> {
        if !self.household.tokens.are_given() || link.shape().name == "rdma" {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        let (first, second) = bytes.split_at_mut(TOKEN_BYTES / 2);
        first.copy_from_slice(&self.desk.random().to_ne_bytes());
        second.copy_from_slice(&self.desk.random().to_ne_bytes());
        Some(Token(bytes))
    }

    pub(crate) fn log_in(&mut self, slot: ConnectionSlot, login: Login, now: Instant) {
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
                let (user, kept) = self.broker.catalog().claim(user);
                let serial = connection.serial;
                let (mechanism, offered) = (login.mechanism.clone(), password.to_vec());
                return self.prove(Claim { slot, serial, user, mechanism, kept, offered }, now);
            }
            // Clients write what they like as their identity, so that, as in RabbitMQ, the certificate's alone counts.
            // Clients write what they like as their identity, so that, as in RabbitMQ, the certificate's alone counts.
            Credentials::External { .. } if connection.ticket.is_some() => {
                let Ticket { user, is_loopback, .. } = connection.ticket.take().expect("looked at just now");
                let outcome = self.broker.catalog().authenticate_external(user.as_bytes(), is_loopback);
                outcome.map_err(|refused| format!("user '{user}' of the token: {refused}"))
            }
            Credentials::External { .. } => {
                match (connection.ticket.take(), connection.link.certificate(), &self.external) {
                    (Some(Ticket { user, is_loopback, .. }), ..) => {
                        let outcome = self.broker.catalog().authenticate_external(user.as_bytes(), is_loopback);
                        outcome.map_err(|refused| format!("user '{user}' of the token: {refused}"))
                    }
                    (None, Some(certificate), Some(external)) => match certificate.identity(external.identity) {
                        Some(name) => {
                            let outcome = self.broker.catalog().authenticate_external(name.as_bytes(), loopback);
                            outcome.map_err(|refused| format!("user '{name}' of the certificate: {refused}"))
                        }
                        None => Err(format!("the certificate has no name to log in by ({:?})", external.identity)),
                    },
                    _ => Err("EXTERNAL needs a certificate, and the client has shown none".to_owned()),
                }
            }
        };
        self.end_login(slot, mechanism, outcome, now);
    }

    /// Has a password checked: at once if that is quick, elsewhere if it is not.
    fn prove(&mut self, claim: Claim, now: Instant) {
        if !claim.kept.is_slow() {
            let sound = claim.kept.is(&claim.offered);
            return self.proved(&claim, sound, now);
        }
        if self.proofs.is_proven(&claim, || self.desk.random()) {
            return self.proved(&claim, true, now);
        }
        if let Some(Some(connection)) = self.connections.get_mut(claim.slot as usize) {
            connection.proving = true;
        }
        if let Some((claim, sound)) = self.proofs.ask(claim) {
            self.proved(&claim, sound, now);
        }
    }

    /// Takes in what was checked elsewhere, and hands on what is still to be.
    pub(crate) fn take_proofs(&mut self, now: Instant) {
        while let Some((claim, sound)) = self.proofs.next() {
            self.proved(&claim, sound, now);
            // It may have said more meanwhile.
            if let Some(Some(connection)) = self.connections.get_mut(claim.slot as usize)
                && connection.serial == claim.serial
            {
                connection.unparsed = true;
                self.enqueue(claim.slot);
            }
        }
    }

    fn proved(&mut self, claim: &Claim, sound: bool, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(claim.slot as usize) else { return };
        if connection.serial != claim.serial || connection.phase != Phase::Greeting {
            return;
        }
        connection.proving = false;
        let loopback = connection.link.peer().is_loopback;
        let admitted = if sound {
            self.broker.catalog().admit(claim.user, loopback)
        } else {
            Err(LoginRefused::InvalidCredentials)
        };
        let mechanism = ShortStr::new(&claim.mechanism).unwrap_or(ShortStr::EMPTY);
        self.end_login(claim.slot, mechanism, admitted.map_err(|refused| refused.to_string()), now);
    }

    fn end_login(&mut self, slot: ConnectionSlot, mechanism: ShortStr<'_>, outcome: Result<UserId, String>, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
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

    pub(crate) fn open_vhost(&mut self, slot: ConnectionSlot, name: &[u8], now: Instant) {
        let Some(Some(connection)) = self.connections.get(slot as usize) else { return };
        let Phase::LoggedIn { user } = connection.phase else { return };
        let session = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        // RabbitMQ counts before it looks whether the user may open the virtual host.
        let seat = match self.take_seat(user, name) {
            Ok(seat) => seat,
            Err(refusal) => return self.refuse(slot, 0, refusal, connection::Open::ID, now),
        };
        let vhost = match self.broker.catalog().open_vhost(user, name) {
            Ok(vhost) => vhost,
            Err(refusal) => return self.refuse(slot, 0, refusal, connection::Open::ID, now),
        };
        let carries = connection.capabilities.has(Capabilities::RDMA_CARRIER);
        if carries && !self.broker.catalog().is_carrier(user) {
            let refusal = self.broker.catalog().is_no_carrier(user);
            return self.refuse(slot, 0, refusal, connection::Open::ID, now);
        }
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        connection.phase = Phase::Open { user, vhost };
        let comes = carries || connection.capabilities.has(Capabilities::RDMA_TOKEN);
        if let Some(token) = connection.token.filter(|_| comes) {
            let name = self.broker.catalog().user_name(user).into();
            let ticket = Ticket { user: name, is_loopback: connection.link.peer().is_loopback, carries };
            self.household.tokens.expect(token, ticket, now);
        }
        connection.seat = seat;
        let capabilities = broker::ClientCapabilities {
            consumer_cancel_notify: connection.capabilities.has(Capabilities::CONSUMER_CANCEL_NOTIFY),
            connection_blocked: connection.capabilities.has(Capabilities::CONNECTION_BLOCKED),
        };
        self.broker.open_session(slot, broker::SessionLogin { session, user, vhost, capabilities });
        if let Some((out, pool)) = self.desk.writer(slot) {
            connection.inbound.open_accepted(out, pool);
        }
        self.set_timer(slot, now);
    }

    /// A connection's place in the register; none in a virtual host that is not there, which is refused elsewhere.
    fn take_seat(&self, user: UserId, vhost_name: &[u8]) -> Result<Option<Seat>, Refusal> {
        let catalog = self.broker.catalog();
        let Ok(vhost_name) = std::str::from_utf8(vhost_name) else { return Ok(None) };
        let Some(vhost) = catalog.vhost_by_name(vhost_name) else { return Ok(None) };
        let (vhost_max, user_max) =
            (catalog.vhost_limits(vhost).connections_max, catalog.user_limits(user).connections_max);
        match self.household.register.enter((vhost, vhost_max), (user, user_max)) {
            Ok(seat) => Ok(Some(seat)),
            Err(Crowded::Vhost(most)) => Err(catalog.vhost_is_crowded(user, vhost_name, most)),
            Err(Crowded::User(most)) => Err(catalog.user_is_crowded(user, most)),
        }
    }

    /// A client opens a channel, unless its user has as many as it may.
    pub(crate) fn open_channel(&mut self, slot: ConnectionSlot, channel: u16, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let (Phase::Open { user, .. }, Some(seat)) = (connection.phase, &mut connection.seat) else { return };
        let catalog = self.broker.catalog();
        if let Err(most) = seat.open_channel(catalog.user_limits(user).channels_max) {
            let refusal = catalog.user_has_its_channels(user, most);
            return self.refuse(slot, channel, refusal, (0, 0), now);
        }
        if let Some((out, pool)) = self.desk.writer(slot) {
            out.method(pool, channel, &Method::ChannelOpenOk(channel::OpenOk {}));
        }
        self.broker.open_channel(slot, channel);
    }

    /// A channel is gone.
    pub(crate) fn close_channel(&mut self, slot: ConnectionSlot, channel: u16) {
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && let Some(seat) = &mut connection.seat
        {
            seat.close_channel();
        }
        stamped::forget(&self.household, &mut self.desk, slot, Some(channel));
        self.broker.close_channel(slot, channel, &mut self.desk);
    }

    /// A session is over: it counts no more, and what it had goes.
    pub(crate) fn close_session(&mut self, slot: ConnectionSlot) {
        stamped::forget(&self.household, &mut self.desk, slot, None);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            connection.seat = None;
        }
        self.broker.close_session(slot, &mut self.desk);
    }
}
