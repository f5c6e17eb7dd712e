//! Logins: what a SASL response says.
//!
//! Enters: a mechanism's name and its response.  Leaves: credentials that borrow from them, and back for clients.
//! Owns:   PLAIN (RFC 4616), AMQPLAIN (AMQP 0-8), EXTERNAL (RFC 4422 appendix A).
//! Never:  knows a user, compares a password, prints one.

use crate::{FaultScope, ProtocolFault};
use wire::{ChannelNumber, ReplyCode, ShortStr, TableRef, ValueRef};

/// Who wants to log in, and how it is proved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// A name and a password (PLAIN, AMQPLAIN).
    Password {
        /// The user's name.
        user: &'a [u8],
        password: &'a [u8],
    },
    /// The link itself proves it, as a client certificate does (EXTERNAL).
    External {
        /// Who it asks to be; empty for whoever the link says.
        identity: &'a [u8],
    },
}

impl std::fmt::Debug for Credentials<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Password { user, .. } => write!(to, "Password({}, …)", user.escape_ascii()),
            Self::External { identity } => write!(to, "External({})", identity.escape_ascii()),
        }
    }
}

/// The credentials in a response. Unknown mechanisms and malformed responses are faults that end the link in silence,
/// as RabbitMQ does before a login.
pub fn credentials<'a>(mechanism: ShortStr<'_>, response: &'a [u8]) -> Result<Credentials<'a>, ProtocolFault> {
    match mechanism.as_bytes() {
        b"PLAIN" => plain(response)
            // RabbitMQ logs the response, which may hold a password.
            .ok_or_else(|| refused(ReplyCode::SyntaxError, &format!("response of {} bytes invalid", response.len()))),
        b"AMQPLAIN" => amqplain(response)
            .ok_or_else(|| refused(ReplyCode::SyntaxError, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")),
        b"EXTERNAL" => Ok(Credentials::External { identity: response }),
        _ => Err(refused(ReplyCode::CommandInvalid, &format!("unknown authentication mechanism '{mechanism}'"))),
    }
}

fn refused(code: ReplyCode, explanation: &str) -> ProtocolFault {
    ProtocolFault {
        scope: FaultScope::Link,
        ..ProtocolFault::new(code, ChannelNumber::CONNECTION, wire::method::connection::StartOk::ID, explanation)
    }
}

/// `NUL user NUL password`. As RabbitMQ, it takes no authorisation identity in front.
fn plain(response: &[u8]) -> Option<Credentials<'_>> {
    let rest = response.strip_prefix(b"\0")?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    let (user, password) = (&rest[..end], &rest[end + 1..]);
    (!password.contains(&0)).then_some(Credentials::Password { user, password })
}

/// A table without its length: `LOGIN`, `PASSWORD`.
fn amqplain(response: &[u8]) -> Option<Credentials<'_>> {
    let table = TableRef::new(response);
    table.validate(1).ok()?;
    let text = |name| table.get(name).and_then(ValueRef::as_bytes);
    Some(Credentials::Password { user: text("LOGIN")?, password: text("PASSWORD")? })
}

/// A client's response for PLAIN.
pub fn plain_response(user: &str, password: &str) -> Vec<u8> {
    let mut response = Vec::with_capacity(2 + user.len() + password.len());
    for part in [user, password] {
        response.push(0);
        response.extend_from_slice(part.as_bytes());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::{Credentials, credentials, plain_response};
    use crate::FaultScope;
    use wire::{ShortStr, Table, Value};

    fn of<'a>(mechanism: &'static str, response: &'a [u8]) -> Result<Credentials<'a>, String> {
        credentials(ShortStr::literal(mechanism), response).map_err(|fault| {
            assert_eq!(fault.scope, FaultScope::Link);
            fault.text
        })
    }

    #[test]
    fn what_a_client_writes_a_server_reads() {
        let expect = Ok(Credentials::Password { user: b"guest", password: b"s3cret" });
        assert_eq!(of("PLAIN", &plain_response("guest", "s3cret")), expect);
        let response = Table::new().with("LOGIN", Value::text("guest")).expect("a short name");
        let response = response.with("PASSWORD", Value::text("s3cret")).expect("a short name");
        assert_eq!(of("AMQPLAIN", &response.to_bytes()), expect);
        assert_eq!(of("EXTERNAL", b""), Ok(Credentials::External { identity: b"" }));
    }

    #[test]
    fn malformed_responses_end_the_link() {
        for response in [&b""[..], b"guest", b"\0guest", b"\0a\0b\0c", b"id\0guest\0guest"] {
            assert!(of("PLAIN", response).is_err(), "{response:?}");
        }
        assert_eq!(of("PLAIN", b"guest\0s3cret"), Err("SYNTAX_ERROR - response of 12 bytes invalid".into()));
        for response in [&b""[..], b"\x05LOGIN", b"\x05LOGINS\0\0\0\x01g", b"\x05LOGINS\xff\xff\xff\xffg"] {
            assert!(of("AMQPLAIN", response).is_err(), "{response:?}");
        }
        assert_eq!(of("GSSAPI", b""), Err("COMMAND_INVALID - unknown authentication mechanism 'GSSAPI'".into()));
    }

    #[test]
    fn a_password_is_not_printed() {
        let shown = format!("{:?}", of("PLAIN", b"\0guest\0s3cret"));
        assert!(shown.contains("guest") && !shown.contains("s3cret"), "{shown}");
    }
}
