//! What follows from an event of a session, once it no longer borrows the receive buffer.

use crate::login::LoginRequest;
use catalog::{Refusal, ShardId};
use wire::ChannelNumber;

/// What follows from an event, once it no longer borrows the receive buffer.
pub(crate) enum EventOutcome {
    /// The next event may be carried out.
    Continue,
    /// The next event may be carried out; this one may have taken much memory for few bytes.
    Grow,
    /// The next event may be carried out, after acknowledgements: the other broker has used up a part of its credit.
    AcknowledgeEarly,
    /// The connection must wait.
    Wait,
    /// More definitions may follow; other methods must wait for their answers.
    Gather {
        channel: ChannelNumber,
    },
    Refuse {
        channel: ChannelNumber,
        refusal: Refusal,
        method: (u16, u16),
    },
    LogIn(LoginRequest),
    OpenVhost {
        vhost: Vec<u8>,
    },
    OpenChannel {
        channel: ChannelNumber,
    },
    CloseChannel {
        channel: ChannelNumber,
    },
    /// Limits and heartbeat are negotiated.
    Tuned(session::Tuning),
    UpdateSecret,
    Close,
    /// The client wants messages of a queue on another shard: its connection may go there first, and the event is presented again.
    Follow {
        to: ShardId,
    },
    /// The next event may be carried out: a federation link has carried out this one.
    Handled,
}
