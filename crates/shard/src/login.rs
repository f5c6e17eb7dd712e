//! Logins: which user a client is, by password (here or on a verifier thread), certificate or token.

use crate::connection::{Connection, ConnectionPhase};
use crate::limits::{CLIENT_PROPERTIES_BYTES_MAX, LOGGED_NAME_BYTES_MAX};
use crate::login_attempt::LoginAttempt;
use crate::login_source::LoginSource;
use crate::mailbox::ShardWaker;
use crate::password_verifier::{PasswordChecks, PasswordVerifier};
use crate::sessions::{Sessions, greeting_with_token};
use crate::shared_state::SharedState;
use crate::tokens::TokenOwner;
use broker::{ConnectionSlot, Effects};
use catalog::limits::PASSWORD_BYTES_MAX;
use catalog::{Catalog, LoginRefused, UserId};
use link::CertificateIdentity;
use session::sasl::{self, Credentials};
use session::{Capabilities, Greeting};
use std::sync::Arc;
use std::time::Instant;
use verbs::RdmaToken;
use wire::{ShortStr, TableRef};

/// How clients log in by their certificates (SASL EXTERNAL).
#[derive(Clone)]
pub struct ExternalMechanism {
    /// The greeting for connections with a certificate: it offers EXTERNAL.
    pub greeting: Arc<Greeting>,
    /// The field of a certificate that names the user.
    pub identity: CertificateIdentity,
}

/// A login as the client sent it (`connection.start-ok`).
pub(crate) struct LoginRequest {
    /// The SASL mechanism, the response and what the client says about itself, in one piece: an outcome of an event is moved for
    /// each message, and whether there is a piece to free is asked each time.
    bytes: Vec<u8>,
    mechanism_bytes: usize,
    response_bytes: usize,
    pub capabilities: Capabilities,
}

impl LoginRequest {
    #[cold]
    pub fn new(mechanism: ShortStr<'_>, response: &[u8], properties: TableRef<'_>, capabilities: Capabilities) -> Self {
        let properties = properties.as_bytes();
        let kept = if properties.len() > CLIENT_PROPERTIES_BYTES_MAX { &[] } else { properties };
        let bytes = [mechanism.as_bytes(), response, kept].concat();
        LoginRequest {
            bytes,
            mechanism_bytes: mechanism.as_bytes().len(),
            response_bytes: response.len(),
            capabilities,
        }
    }

    pub fn mechanism(&self) -> &[u8] {
        &self.bytes[..self.mechanism_bytes]
    }

    pub fn response(&self) -> &[u8] {
        &self.bytes[self.mechanism_bytes..][..self.response_bytes]
    }

    /// What the client says about itself, in wire form; empty if it is too long to be kept.
    pub fn client_properties(&self) -> &[u8] {
        &self.bytes[self.mechanism_bytes + self.response_bytes..]
    }
}

/// The logins of one shard.
#[derive(Default)]
pub(crate) struct LoginService {
    external: Option<ExternalMechanism>,
    password_checks: PasswordChecks,
}

impl LoginService {
    pub fn accept_certificates(&mut self, external: ExternalMechanism) {
        self.external = Some(external);
    }

    /// Slow passwords are verified by these threads; without them, by the shard.
    pub fn set_verifier(&mut self, verifier: Arc<PasswordVerifier>, waker: Arc<ShardWaker>) {
        self.password_checks.set_verifier(verifier, waker);
    }

    /// The greeting for a client that has shown a certificate, if certificates are accepted.
    pub fn certificate_greeting(&self, token: Option<RdmaToken>) -> Option<Arc<Greeting>> {
        Some(greeting_with_token(&self.external.as_ref()?.greeting, token))
    }

    /// Logs a client in, at once or when its password is verified.
    pub fn log_in(&mut self, sessions: &mut Sessions, slot: ConnectionSlot, request: LoginRequest, now: Instant) {
        let Some(connection) = sessions.connections.get_mut(slot) else { return };
        connection.capabilities = request.capabilities;
        connection.client_properties = request.client_properties().into();
        connection.mechanism = String::from_utf8_lossy(request.mechanism()).into();
        let is_loopback = connection.link.peer().is_loopback;
        let mechanism = ShortStr::new(request.mechanism()).unwrap_or(ShortStr::EMPTY);
        let catalog = sessions.broker.catalog();
        let outcome = match sasl::credentials(mechanism, request.response()) {
            Err(fault) => return sessions.on_client_fault(slot, &fault, now),
            Ok(Credentials::Password { user, password }) => {
                let attempt = LoginAttempt {
                    slot,
                    serial: connection.serial,
                    source: LoginSource::of(&connection.link.peer().address),
                    claim: catalog.claim(user, is_loopback),
                    user_name: logged_name(user),
                    mechanism: request.mechanism().into(),
                    // A longer one is wrong, whatever follows.
                    offered: password[..password.len().min(PASSWORD_BYTES_MAX + 1)].to_vec(),
                };
                return self.verify_password(sessions, attempt, now);
            }
            // A client may write any identity into its response: as in RabbitMQ, the certificate's alone counts.
            Ok(Credentials::External { .. }) => match connection.token_owner.take() {
                Some(owner) => (logged_name(owner.user.as_bytes()), authenticate_token_owner(catalog, &owner)),
                None => {
                    let certificate = self.external.as_ref().zip(connection.link.certificate());
                    let name = certificate
                        .map(|(external, certificate)| (external.identity, certificate.identity(external.identity)));
                    let shown = name.as_ref().and_then(|(_, name)| name.as_deref()).unwrap_or_default();
                    (logged_name(shown.as_bytes()), authenticate_certificate(catalog, name, is_loopback))
                }
            },
        };
        let (user_name, outcome) = outcome;
        finish_login(sessions, slot, (mechanism, &user_name), outcome, now);
    }

    /// Whether passwords are being verified by other threads.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        self.password_checks.are_pending()
    }

    /// When a login that waits has its turn, if nothing else happens.
    pub fn next_turn(&self) -> Option<Instant> {
        self.password_checks.next_turn()
    }

    /// Verifies a password: at once if that is quick, otherwise on a verifier thread, when its source has its turn.
    fn verify_password(&mut self, sessions: &mut Sessions, attempt: LoginAttempt, now: Instant) {
        if !self.password_checks.has_verifier() {
            let is_correct = attempt.claim.verify(&attempt.offered);
            return on_password_verified(sessions, &attempt, is_correct, now);
        }
        let shared = Arc::clone(&sessions.shared);
        let failures = &shared.login_failures;
        let is_right = attempt.claim.is_right_at_once(&attempt.offered)
            || self.password_checks.is_verified(&attempt, || sessions.effects.random());
        if is_right && !failures.is_suspect(attempt.source, now) {
            return on_password_verified(sessions, &attempt, true, now);
        }
        if attempt.claim.is_quick() && failures.interval(attempt.source, now).is_zero() {
            let is_correct = attempt.claim.verify(&attempt.offered);
            return on_password_verified(sessions, &attempt, is_correct, now);
        }
        if let Some(connection) = sessions.connections.get_mut(attempt.slot) {
            connection.is_verifying_password = true;
        }
        if let Some(refused) = self.password_checks.enqueue(attempt, failures, now) {
            refuse_login(sessions, &refused, "too many logins of this address wait", now);
        }
        self.finish_verifications(sessions, now);
    }

    /// Drops the login of a connection that is gone. If its client has left, it counts as a failed one, so that nobody
    /// guesses by leaving early; one that waited for too long has told its client nothing.
    pub fn forget(&mut self, shared: &SharedState, slot: ConnectionSlot, connection: &Connection, now: Instant) {
        if !connection.is_verifying_password {
            return;
        }
        let peer = &*connection.link.peer().address;
        let source = LoginSource::of(peer);
        if self.password_checks.remove(source, slot, connection.serial) {
            tracing::debug!(slot = slot.number(), peer, "a login was dropped with its connection");
            if connection.peer_closed {
                shared.login_failures.count(source, now);
            }
        }
    }

    /// Finishes the logins that verifier threads have decided, and submits those that waited for them.
    pub fn finish_verifications(&mut self, sessions: &mut Sessions, now: Instant) {
        let shared = Arc::clone(&sessions.shared);
        while let Some((attempt, is_correct)) = self.password_checks.next_decided(&shared.login_failures, now) {
            on_password_verified(sessions, &attempt, is_correct, now);
            // The client may have sent more meanwhile.
            if let Some(connection) = sessions.connections.get_mut(attempt.slot)
                && connection.serial == attempt.serial
            {
                connection.has_unparsed = true;
                sessions.connections.enqueue(attempt.slot);
            }
        }
    }
}

/// The user whose login gave the client its token.
fn authenticate_token_owner(catalog: &Catalog, owner: &TokenOwner) -> Result<UserId, String> {
    let TokenOwner { user, is_loopback, .. } = owner;
    let outcome = catalog.authenticate_external(user.as_bytes(), *is_loopback);
    outcome.map_err(|refused| format!("user '{user}' of the token: {refused}"))
}

/// The user whom a certificate names in the field that counts.
fn authenticate_certificate(
    catalog: &Catalog,
    certificate: Option<(CertificateIdentity, Option<String>)>,
    is_loopback: bool,
) -> Result<UserId, String> {
    match certificate {
        Some((_, Some(name))) => {
            let outcome = catalog.authenticate_external(name.as_bytes(), is_loopback);
            outcome.map_err(|refused| format!("user '{name}' of the certificate: {refused}"))
        }
        Some((identity, None)) => Err(format!("the certificate has no name to log in by ({identity:?})")),
        None => Err("EXTERNAL needs a certificate, and the client has shown none".to_owned()),
    }
}

fn on_password_verified(sessions: &mut Sessions, attempt: &LoginAttempt, is_correct: bool, now: Instant) {
    if !is_correct {
        sessions.shared.login_failures.count(attempt.source, now);
    }
    let Some(connection) = sessions.connections.get_mut(attempt.slot) else { return };
    if connection.serial != attempt.serial || connection.phase != ConnectionPhase::Greeting {
        return;
    }
    connection.is_verifying_password = false;
    let is_loopback = connection.link.peer().is_loopback;
    let admitted = if is_correct {
        sessions.broker.catalog().admit(attempt.claim.user, is_loopback)
    } else {
        Err(LoginRefused::InvalidCredentials)
    };
    let mechanism = ShortStr::new(&attempt.mechanism).unwrap_or(ShortStr::EMPTY);
    let outcome = admitted.map_err(|refused| refused.to_string());
    finish_login(sessions, attempt.slot, (mechanism, &attempt.user_name), outcome, now);
}

/// Refuses a login by password that is not verified.
fn refuse_login(sessions: &mut Sessions, attempt: &LoginAttempt, why: &str, now: Instant) {
    let Some(connection) = sessions.connections.get_mut(attempt.slot) else { return };
    if connection.serial != attempt.serial || connection.phase != ConnectionPhase::Greeting {
        return;
    }
    connection.is_verifying_password = false;
    let mechanism = ShortStr::new(&attempt.mechanism).unwrap_or(ShortStr::EMPTY);
    finish_login(sessions, attempt.slot, (mechanism, &attempt.user_name), Err(why.to_owned()), now);
}

/// The name of a user as it is logged: its beginning, if it is long.
fn logged_name(name: &[u8]) -> Box<str> {
    let shown = String::from_utf8_lossy(&name[..name.len().min(LOGGED_NAME_BYTES_MAX)]);
    if name.len() > LOGGED_NAME_BYTES_MAX { format!("{shown}…").into() } else { shown.into() }
}

fn finish_login(
    sessions: &mut Sessions,
    slot: ConnectionSlot,
    (mechanism, user): (ShortStr<'_>, &str),
    outcome: Result<UserId, String>,
    now: Instant,
) {
    let Some(connection) = sessions.connections.get_mut(slot) else { return };
    match outcome {
        Ok(user) => {
            sessions.logins.accepted += 1;
            connection.phase = ConnectionPhase::LoggedIn { user };
            if let Some((out, pool)) = sessions.effects.writer(slot) {
                connection.inbound.login_accepted(out, pool);
            }
        }
        Err(reason) => {
            sessions.logins.refused += 1;
            let peer = &*connection.link.peer().address;
            tracing::warn!(shard = sessions.options.shard.0, slot = slot.number(), peer, user, reason, "login refused");
            if let Some((out, pool)) = sessions.effects.writer(slot) {
                connection.inbound.login_refused(mechanism, &reason, out, pool);
            }
            sessions.close_after_flush(slot, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoginService;
    use crate::connection::ConnectionPhase;
    use crate::limits::LOGIN_FAILURES_FREE;
    use crate::login_source::LoginSource;
    use crate::mailbox::ShardWaker;
    use crate::password_verifier::PasswordVerifier;
    use crate::sessions::Sessions;
    use crate::test_sessions::{LoginClient, NeverAsleep, sessions};
    use crate::tokens::TokenOwner;

    #[test]
    fn a_client_logs_in_by_its_password_or_as_the_owner_of_its_token() {
        let owner = |user: &str| Some(TokenOwner { user: user.into(), is_loopback: true, is_carrier: false });
        let carrier = Some(TokenOwner { is_carrier: true, ..owner("guest").expect("an owner") });
        let mut sessions = sessions();
        let mut logins = LoginService::default();
        for (owner, mechanism, response, is_accepted) in [
            (None, "PLAIN", &b"\0guest\0guest"[..], true),
            (None, "PLAIN", b"\0guest\0wrong", false),
            (None, "PLAIN", b"\0nobody\0guest", false),
            (None, "EXTERNAL", b"", false),
            (owner("guest"), "EXTERNAL", b"", true),
            (owner("nobody"), "EXTERNAL", b"", false),
            (carrier.clone(), "EXTERNAL", b"", false),
            (carrier, "PLAIN", b"\0guest\0guest", true),
        ] {
            let mut client = LoginClient::connect(&mut sessions, owner.clone());
            let request = client.start(&mut sessions, mechanism, response);
            let now = sessions.options.epoch;
            logins.log_in(&mut sessions, client.slot, request, now);
            let phase = sessions.connections.get(client.slot).expect("it is there").phase;
            let expected = if is_accepted {
                matches!(phase, ConnectionPhase::LoggedIn { .. })
            } else {
                phase == ConnectionPhase::Leaving
            };
            assert!(expected, "{owner:?} {mechanism} {response:?}: {phase:?}");
            assert!(!logins.is_waiting());
            sessions.remove(client.slot);
        }
    }

    #[test]
    fn a_login_of_a_failing_source_waits_for_its_turn_and_is_dropped_with_its_connection() {
        let mut sessions = sessions();
        let now = sessions.options.epoch;
        let mut logins = LoginService::default();
        logins.set_verifier(PasswordVerifier::new(), ShardWaker::new(Box::new(NeverAsleep)));
        let phase = |sessions: &Sessions, slot| sessions.connections.get(slot).expect("it is there").phase;
        // No user has an Argon2 hash, so the first wrong passwords are refused at once.
        let fail = |sessions: &mut Sessions, logins: &mut LoginService| {
            let mut client = LoginClient::connect(sessions, None);
            let request = client.start(sessions, "PLAIN", b"\0guest\0wrong");
            logins.log_in(sessions, client.slot, request, now);
            client.slot
        };
        for _ in 0..=LOGIN_FAILURES_FREE {
            let slot = fail(&mut sessions, &mut logins);
            assert_eq!(phase(&sessions, slot), ConnectionPhase::Leaving);
        }
        let refused = fail(&mut sessions, &mut logins);
        assert_eq!(phase(&sessions, refused), ConnectionPhase::Leaving, "the first turn is free");
        let waiting = [fail(&mut sessions, &mut logins), fail(&mut sessions, &mut logins)];
        assert!(
            waiting
                .iter()
                .all(|&slot| phase(&sessions, slot) == ConnectionPhase::Greeting && !sessions.may_serve(slot))
        );
        assert!(logins.is_waiting() && logins.next_turn().is_some_and(|at| at > now));
        // A right password passes.
        let mut client = LoginClient::connect(&mut sessions, None);
        let request = client.start(&mut sessions, "PLAIN", b"\0guest\0guest");
        logins.log_in(&mut sessions, client.slot, request, now);
        assert!(matches!(phase(&sessions, client.slot), ConnectionPhase::LoggedIn { .. }));
        // One client leaves, which counts; another is dropped by the broker.
        let interval = |sessions: &Sessions| sessions.shared.login_failures.interval(LoginSource::Local, now);
        let before = interval(&sessions);
        for (slot, has_left) in waiting.into_iter().zip([false, true]) {
            let mut connection = sessions.remove(slot).expect("it is there");
            connection.peer_closed = has_left;
            logins.forget(&sessions.shared, slot, &connection, now);
            assert_eq!(interval(&sessions) > before, has_left);
        }
        assert!(!logins.is_waiting());
    }
}
