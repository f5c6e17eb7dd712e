//! Why a message became a dead letter, and the name that headers have for it.

/// Why a message became a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadLetterReason {
    /// A consumer rejected it.
    Rejected,
    Expired,
    /// The queue was at its limit.
    MaxLength,
    /// It was returned too often.
    DeliveryLimit,
}

impl DeadLetterReason {
    /// Its name in the headers.
    pub const fn name(self) -> &'static str {
        match self {
            DeadLetterReason::Rejected => "rejected",
            DeadLetterReason::Expired => "expired",
            DeadLetterReason::MaxLength => "maxlen",
            DeadLetterReason::DeliveryLimit => "delivery_limit",
        }
    }
}
