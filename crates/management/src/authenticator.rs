//! Who asks: by a name and a password, or by the cookie of a session that began with them.
//!
//! Enters: headers, credentials.  Leaves: a user, or a refusal that takes its time.
//! Owns:   what is remembered of logins, and the sessions. Slow passwords are verified on threads beside this one.

use crate::answer_bytes::SharedSource;
use crate::api_error::ApiError;
use crate::limits::CREDENTIALS_BYTES_MAX;
use crate::login_checks::{Credentials, LoginChecks};
use crate::login_sessions::{LoginSessions, SessionToken};
use crate::query::Query;
use crate::request_body::RequestBody;
use crate::session_cookie;
use catalog::UserId;
use hyper::header::{self, HeaderMap};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use tokio::time::sleep;

/// A user who has proved itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: UserId,
    /// By a cookie, which a browser sends by itself.
    pub is_by_cookie: bool,
}

/// What is known of logins.
pub struct Authenticator {
    source: SharedSource,
    /// Of the digests that stand for passwords.
    key: [u8; 32],
    checks: RefCell<LoginChecks>,
    sessions: RefCell<LoginSessions>,
    clock: fn() -> Instant,
}

impl Authenticator {
    pub fn new(source: SharedSource, key: [u8; 32], clock: fn() -> Instant) -> Self {
        Self { source, key, checks: RefCell::default(), sessions: RefCell::default(), clock }
    }

    /// Whether an address has failed often lately.
    pub fn is_suspect(&self, peer: IpAddr) -> bool {
        self.checks.borrow().is_suspect(peer, (self.clock)())
    }

    /// The user of a request: of its cookie, and if that is none's, of its credentials.
    ///
    /// # Errors
    /// It has neither, or a wrong password; or it cannot be had in time who may log in.
    pub async fn identify(&self, peer: SocketAddr, headers: &HeaderMap) -> Result<Identity, ApiError> {
        if let Some(user) = self.user_of_session(peer, headers)? {
            return Ok(Identity { user, is_by_cookie: true });
        }
        let header = headers.get(header::AUTHORIZATION).ok_or_else(ApiError::login_failed)?;
        let credentials = Credentials::of(header.as_bytes()).ok_or_else(ApiError::login_failed)?;
        Ok(Identity { user: self.prove(peer, &credentials).await?, is_by_cookie: false })
    }

    /// The user whose session a cookie of the request is.
    ///
    /// # Errors
    /// It cannot be had in time whether it still is the user's.
    pub fn user_of_session(&self, peer: SocketAddr, headers: &HeaderMap) -> Result<Option<UserId>, ApiError> {
        let mut sessions = self.sessions.borrow_mut();
        let tokens = session_cookie::tokens(headers);
        for owner in tokens.iter().filter_map(|token| sessions.owner(token)) {
            let name = self.source.borrow().catalog().user_name(owner).to_owned();
            self.source.borrow_mut().follow_user(name.as_bytes())?;
        }
        let source = self.source.borrow();
        let user = tokens.iter().find_map(|token| sessions.user(token, source.catalog(), (self.clock)()));
        Ok(user.and_then(|user| source.catalog().admit(Some(user), is_loopback(peer)).ok()))
    }

    /// The user of a name and a password.
    ///
    /// # Errors
    /// It is not its password, or nobody's name; or it cannot be had in time what its password is.
    pub async fn prove(&self, peer: SocketAddr, credentials: &Credentials) -> Result<UserId, ApiError> {
        self.source.borrow_mut().follow_user(&credentials.user)?;
        let claim = self.source.borrow().catalog().claim(&credentials.user, is_loopback(peer));
        let mark = claim.mark(&credentials.password, &self.key);
        let is_known = claim.user.is_some() && self.checks.borrow().is_verified(&mark);
        let is_right = if is_known || claim.is_right_at_once(&credentials.password) {
            true
        } else if claim.is_quick() {
            claim.verify(&credentials.password)
        } else {
            let (claim, password) = (claim.clone(), credentials.password.clone());
            let verified = tokio::task::spawn_blocking(move || claim.verify(&password)).await;
            verified.map_err(|_| ApiError::unavailable("passwords cannot be verified"))?
        };
        let admitted = match is_right {
            true => self.source.borrow().catalog().admit(claim.user, is_loopback(peer)).ok(),
            false => None,
        };
        self.source.borrow_mut().count_login(admitted.is_some());
        if let Some(user) = admitted {
            self.checks.borrow_mut().remember(mark);
            return Ok(user);
        }
        let user = String::from_utf8_lossy(&credentials.user[..credentials.user.len().min(128)]).into_owned();
        tracing::warn!(%peer, user, "a login to the management API was refused");
        let delay = self.checks.borrow_mut().count_failure(peer.ip(), (self.clock)());
        if !delay.is_zero() {
            sleep(delay).await;
        }
        Err(ApiError::login_failed())
    }

    /// Begins a session of a user.
    pub fn begin_session(&self, user: UserId) -> SessionToken {
        let mut source = self.source.borrow_mut();
        let token = SessionToken::new([(); 4].map(|()| source.random()));
        self.sessions.borrow_mut().begin(&token, user, source.catalog(), (self.clock)());
        token
    }

    /// Ends the sessions of a request's cookies.
    pub fn end_session(&self, headers: &HeaderMap) {
        let mut sessions = self.sessions.borrow_mut();
        session_cookie::tokens(headers).iter().for_each(|token| sessions.end(token));
    }
}

fn is_loopback(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

/// The credentials of a form, or of an object: `username` and `password`.
///
/// # Errors
/// One of them is missing, or they are too long.
pub fn credentials_of_body(body: &[u8]) -> Result<Credentials, ApiError> {
    let missing = |key: &str| ApiError::bad_request(format!("key_missing: {key}"));
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let credentials = if is_object {
        let body = RequestBody::parse(body)?;
        let bytes = |key| body.required_text(key).map(|text| text.as_bytes().to_vec());
        Credentials { user: bytes("username")?, password: bytes("password")? }
    } else {
        let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the form is not UTF-8"))?;
        let form = Query::parse(text.trim_end())?;
        let bytes = |key| form.get(key).map(|text| text.as_bytes().to_vec()).ok_or_else(|| missing(key));
        Credentials { user: bytes("username")?, password: bytes("password")? }
    };
    match credentials.user.len() + credentials.password.len() > CREDENTIALS_BYTES_MAX {
        true => Err(ApiError::bad_request(format!("credentials have {CREDENTIALS_BYTES_MAX} bytes at most"))),
        false => Ok(credentials),
    }
}

#[cfg(test)]
mod tests {
    use super::credentials_of_body;

    #[test]
    fn credentials_come_as_a_form_or_as_an_object() {
        let read = |body: &str| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let found = credentials_of_body(body.as_bytes()).map_err(|error| error.reason)?;
            Ok::<_, String>((text(&found.user), text(&found.password)))
        };
        let expected = Ok(("a b".to_owned(), "p&=+ü".to_owned()));
        assert_eq!(read("username=a+b&password=p%26%3D%2B%C3%BC"), expected);
        assert_eq!(read("password=p%26%3D%2B%C3%BC&x=1&username=a%20b\r\n"), expected);
        assert_eq!(read(r#" {"username":"a b","password":"p&=+ü","x":null}"#), expected);
        for body in [
            "",
            "username=a",
            "{}",
            r#"{"username":"a"}"#,
            r#"{"username":"a","password":7}"#,
            "username=%&password=p",
            "[1]",
        ] {
            assert!(read(body).is_err(), "{body}");
        }
        assert!(credentials_of_body(b"username=\xff&password=").is_err());
        let long = "x".repeat(5_000);
        assert!(read(&format!("username={long}&password={long}")).is_err());
        assert!(!format!("{:?}", credentials_of_body(b"username=u&password=s3cret")).contains("s3cret"));
    }
}
