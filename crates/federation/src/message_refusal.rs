//! What the end of a channel or connection says about the messages that were sent there.
//!
//! Enters: reply code, text and method of a `close`.  Leaves: whether one message is refused, or may be.

use wire::ReplyCode;
use wire::method::basic;

/// Whether a channel was closed because of one message, whose turn comes again with the same result. Other refusals of a publish,
/// of the exchange or to the user, are true of every message, and may be temporary.
pub(crate) fn refuses_message(code: u16, text: &str, method: (u16, u16)) -> bool {
    let is_of_message = match ReplyCode::from_number(code) {
        Some(ReplyCode::ContentTooLarge | ReplyCode::PreconditionFailed) => true,
        // A topic permission is one for routing keys.
        Some(ReplyCode::AccessRefused) => text.contains("access to topic"),
        _ => false,
    };
    is_of_message && method == basic::Publish::ID
}

/// Whether a connection may have been closed because of a message: by an error that is not one of the operator, of the user's
/// rights, of the exchange or of a lack of resources, which are true of every message and may be temporary, nor of a method of the
/// setup.
pub(crate) fn suspects_messages(code: u16, method: (u16, u16)) -> bool {
    let is_of_all = matches!(
        ReplyCode::from_number(code),
        Some(
            ReplyCode::Success
                | ReplyCode::ConnectionForced
                | ReplyCode::InvalidPath
                | ReplyCode::AccessRefused
                | ReplyCode::NotFound
                | ReplyCode::ResourceLocked
                | ReplyCode::NotAllowed
                | ReplyCode::ResourceError
        )
    );
    !is_of_all && [(0, 0), basic::Publish::ID].contains(&method)
}

#[cfg(test)]
mod tests {
    use super::{refuses_message, suspects_messages};
    use wire::method::{basic, exchange};

    #[test]
    fn refusals_of_one_message_are_told_from_those_of_all() {
        let publish = basic::Publish::ID;
        for (code, text, method, expect) in [
            (406, "PRECONDITION_FAILED - message size 11 is larger than configured max size 10", publish, true),
            (406, "PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was 'b'", publish, true),
            (311, "CONTENT_TOO_LARGE", publish, true),
            (
                403,
                "ACCESS_REFUSED - access to topic 'k' in exchange 'x' in vhost '/' refused for user 'u'",
                publish,
                true,
            ),
            (403, "ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'u'", publish, false),
            (404, "NOT_FOUND - no exchange 'x' in vhost '/'", publish, false),
            (406, "PRECONDITION_FAILED - inequivalent arg", exchange::Declare::ID, false),
        ] {
            assert_eq!(refuses_message(code, text, method), expect, "{text}");
        }
    }

    #[test]
    fn a_connection_closed_for_all_messages_is_not_closed_for_one() {
        let (none, publish) = ((0, 0), basic::Publish::ID);
        for (code, method, expect) in [
            (501, none, true),
            (501, publish, true),
            (541, none, true),
            (505, publish, true),
            (311, publish, true),
            (599, none, true),
            (541, exchange::Declare::ID, false),
            (503, exchange::Declare::ID, false),
            // True of every message.
            (200, none, false),
            (320, none, false),
            (320, publish, false),
            (402, none, false),
            (403, publish, false),
            (404, publish, false),
            (405, publish, false),
            (506, publish, false),
            (530, publish, false),
        ] {
            assert_eq!(suspects_messages(code, method), expect, "{code} {method:?}");
        }
    }
}
