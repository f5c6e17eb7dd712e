//! Names of vhosts, exchanges, queues and users.
//!
//! Enters: bytes of a peer.  Leaves: shared text that is known to be short and valid UTF-8.
//! Owns:   what a name may look like.

use crate::{
    limits::NAME_BYTES_MAX,
    refusal::{Refusal, ResourceKind},
};
use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};
use wire::ReplyCode;

/// Where administrators send requests to the program that runs the broker. It looks like the name of a queue, in every vhost, and no
/// queue can have it: so there is none that anybody could declare, read, purge or delete.
pub const REQUEST_QUEUE: &str = "amq.harrier.requests";

/// A name: at most 255 bytes of UTF-8 without line breaks. Cloning shares it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// A name from a method's field. Line breaks are dropped, as RabbitMQ does. Bytes that are no UTF-8 are refused
    /// (406, channel): RabbitMQ takes them and stumbles later, where it must show them.
    pub fn new(kind: ResourceKind, bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() > NAME_BYTES_MAX {
            return Err(Refusal::detail(
                ReplyCode::PreconditionFailed,
                format!("{kind} name of {} bytes, {NAME_BYTES_MAX} are the most", bytes.len()),
            ));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Refusal::detail(
                ReplyCode::PreconditionFailed,
                format!("{kind} name '{}' is not valid UTF-8", String::from_utf8_lossy(bytes)),
            ));
        };
        if text.contains(['\r', '\n']) {
            return Ok(Self(text.replace(['\r', '\n'], "").into()));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// A name of the program itself or of its configuration. Panics over 255 bytes or with line breaks in it.
impl From<&str> for Name {
    fn from(text: &str) -> Self {
        assert!(text.len() <= NAME_BYTES_MAX && !text.contains(['\r', '\n']), "not a name: {text:?}");
        Self(text.into())
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, to)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Vhost => "vhost",
            Self::Exchange => "exchange",
            Self::Queue => "queue",
            Self::User => "user",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, ResourceKind};

    #[test]
    fn what_is_a_name() {
        assert_eq!(Name::new(ResourceKind::Queue, b"a\r\nb").map(|name| name.to_string()), Ok("ab".to_owned()));
        assert_eq!(
            Name::new(ResourceKind::Queue, &[b'x'; 256]).map_err(|refusal| refusal.text),
            Err("PRECONDITION_FAILED - queue name of 256 bytes, 255 are the most".to_owned())
        );
        assert_eq!(
            Name::new(ResourceKind::Exchange, b"a\xff").map_err(|refusal| refusal.text),
            Err("PRECONDITION_FAILED - exchange name 'a\u{fffd}' is not valid UTF-8".to_owned())
        );
    }
}
