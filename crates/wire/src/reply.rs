//! Reply codes: the numbers with which `close` and `return` say why.
//!
//! Enters: a number.  Leaves: its name and severity.
//! Owns:   the list of AMQP 0-9-1 §1.1 as RabbitMQ uses it.

use std::fmt;

macro_rules! reply_codes {
    ($( $(#[$doc:meta])* $variant:ident = $number:literal $name:literal $severity:ident, )*) => {
        /// A reply code (AMQP 0-9-1 §1.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum ReplyCode {
            $( $(#[$doc])* $variant = $number, )*
        }

        impl ReplyCode {
            /// Every code, in the order of their numbers.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $( $number => Some(Self::$variant), )*
                    _ => None,
                }
            }

            /// The name as it begins reply texts: `NOT_FOUND`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Whether it ends the connection; the others end a channel at most.
            pub const fn is_hard(self) -> bool {
                match self { $( Self::$variant => reply_codes!(@ $severity), )* }
            }
        }
    };
    (@ hard) => { true };
    (@ soft) => { false };
}

reply_codes! {
    /// All is well; an orderly close.
    Success = 200 "SUCCESS" soft,
    /// The content is larger than the receiver accepts.
    ContentTooLarge = 311 "CONTENT_TOO_LARGE" soft,
    /// A mandatory message reached no queue.
    NoRoute = 312 "NO_ROUTE" soft,
    /// An immediate message found no consumer.
    NoConsumers = 313 "NO_CONSUMERS" soft,
    /// An operator closes the connection.
    ConnectionForced = 320 "CONNECTION_FORCED" hard,
    /// The virtual host is unknown.
    InvalidPath = 402 "INVALID_PATH" hard,
    /// Not permitted to this user.
    AccessRefused = 403 "ACCESS_REFUSED" soft,
    /// The entity does not exist.
    NotFound = 404 "NOT_FOUND" soft,
    /// Another connection has the entity to itself.
    ResourceLocked = 405 "RESOURCE_LOCKED" soft,
    /// A precondition of the method does not hold.
    PreconditionFailed = 406 "PRECONDITION_FAILED" soft,
    /// A frame is malformed.
    FrameError = 501 "FRAME_ERROR" hard,
    /// A field of a frame is malformed.
    SyntaxError = 502 "SYNTAX_ERROR" hard,
    /// A method makes no sense where it stands.
    CommandInvalid = 503 "COMMAND_INVALID" hard,
    /// The channel is not open, or opened twice.
    ChannelError = 504 "CHANNEL_ERROR" hard,
    /// A frame came that nobody awaited.
    UnexpectedFrame = 505 "UNEXPECTED_FRAME" hard,
    /// The server lacks the means.
    ResourceError = 506 "RESOURCE_ERROR" hard,
    /// Forbidden by rule rather than by permission.
    NotAllowed = 530 "NOT_ALLOWED" hard,
    /// The server does not know how.
    NotImplemented = 540 "NOT_IMPLEMENTED" hard,
    /// The server's own fault.
    InternalError = 541 "INTERNAL_ERROR" hard,
}

impl ReplyCode {
    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for ReplyCode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ReplyCode;

    #[test]
    fn every_number_leads_back_to_its_code_and_nothing_else_does() {
        for number in 0..=u16::MAX {
            match ReplyCode::from_number(number) {
                Some(code) => assert_eq!(code.number(), number),
                None => assert!(!ReplyCode::ALL.iter().any(|code| code.number() == number)),
            }
        }
        assert_eq!(ReplyCode::ALL.len(), 19);
        assert!(ReplyCode::ALL.is_sorted_by_key(|code| code.number()));
    }

    #[test]
    fn severities_are_those_of_the_specification() {
        let hard: Vec<u16> = ReplyCode::ALL.iter().filter(|code| code.is_hard()).map(|code| code.number()).collect();
        assert_eq!(hard, [320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541]);
        assert_eq!(ReplyCode::NotFound.to_string(), "NOT_FOUND");
    }
}
