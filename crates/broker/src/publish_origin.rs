//! Where a publish comes from, and by whose rights: both outlive the connection where work is deferred.

use crate::ids::{ChannelKey, ConnectionSlot, SessionIdentity};
use wire::ChannelNumber;

/// The channel of a publish.
#[derive(Clone, Copy)]
pub(crate) struct PublishOrigin {
    pub slot: ConnectionSlot,
    pub number: ChannelNumber,
    pub channel: ChannelKey,
}

/// By whose rights messages are published.
#[derive(Clone, Copy)]
pub(crate) enum Publisher {
    /// Those of the connection, which is open.
    Connection(ConnectionSlot),
    /// Those that a connection had which may be gone, and its slot another's.
    Identity(SessionIdentity),
}
