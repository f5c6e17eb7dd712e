//! Refusals: why a peer does not get what it asked for.
//!
//! Enters: what is wrong.  Leaves: reply code, scope and text as clients of RabbitMQ expect them.
//! Owns:   the wording.

use std::fmt;
use wire::ReplyCode;

/// What a name is a name of; refusals spell it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// A virtual host.
    Vhost,
    Exchange,
    Queue,
    User,
}

/// What a refusal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalScope {
    /// The channel on which the method came.
    Channel,
    /// The whole connection.
    Connection,
}

/// A refusal, ready to be sent as `channel.close` or `connection.close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reply code.
    pub code: ReplyCode,
    /// What it ends.
    pub scope: RefusalScope,
    /// The reply text, with the code's name in front: `NOT_FOUND - no queue 'q' in vhost '/'`.
    pub text: String,
}

impl Refusal {
    /// One that ends the channel. `text` is the whole reply text.
    pub fn channel(code: ReplyCode, text: impl Into<String>) -> Self {
        Self { code, scope: RefusalScope::Channel, text: text.into() }
    }

    /// One that ends the connection. `text` is the whole reply text.
    pub fn connection(code: ReplyCode, text: impl Into<String>) -> Self {
        Self { code, scope: RefusalScope::Connection, text: text.into() }
    }

    /// One whose scope is the code's own and whose text begins with the code's name (AMQP 0-9-1 §1.1).
    pub fn detail(code: ReplyCode, detail: impl fmt::Display) -> Self {
        let scope = if code.is_hard() { RefusalScope::Connection } else { RefusalScope::Channel };
        Self { code, scope, text: format!("{} - {detail}", code.name()) }
    }

    pub(crate) fn precondition(detail: impl fmt::Display) -> Self {
        Self::detail(ReplyCode::PreconditionFailed, detail)
    }

    pub(crate) fn not_found(what: ResourceName<'_>) -> Self {
        Self::detail(ReplyCode::NotFound, format_args!("no {what}"))
    }

    pub(crate) fn default_exchange() -> Self {
        Self::detail(ReplyCode::AccessRefused, "operation not permitted on the default exchange")
    }

    pub(crate) fn reserved(kind: ResourceKind, name: &str) -> Self {
        Self::detail(ReplyCode::AccessRefused, format_args!("{kind} name '{name}' contains reserved prefix 'amq.*'"))
    }

    pub(crate) fn locked(what: ResourceName<'_>) -> Self {
        Self::detail(
            ReplyCode::ResourceLocked,
            format_args!(
                "cannot obtain exclusive access to locked {what}. It could be originally declared on another \
                 connection or the exclusive property value does not match that of the original declaration."
            ),
        )
    }

    pub(crate) fn inequivalent(what: ResourceName<'_>, argument: &str, received: &str, current: &str) -> Self {
        Self::precondition(format_args!(
            "inequivalent arg '{argument}' for {what}: received {received} but current is {current}"
        ))
    }

    /// That nobody may publish to this exchange (403, channel).
    pub(crate) fn internal_exchange(name: &str, vhost: &str) -> Self {
        let what = ResourceName { kind: ResourceKind::Exchange, name, vhost };
        Self::detail(ReplyCode::AccessRefused, format_args!("cannot publish to internal {what}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

/// An exchange or queue as texts name it: `queue 'q' in vhost '/'`.
#[derive(Clone, Copy)]
pub(crate) struct ResourceName<'a> {
    pub kind: ResourceKind,
    pub name: &'a str,
    pub vhost: &'a str,
}

impl fmt::Display for ResourceName<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} '{}' in vhost '{}'", self.kind, self.name, self.vhost)
    }
}
