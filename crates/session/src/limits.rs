//! Limits of a session, and the defaults of those an operator sets.
//!
//! Leaves: constants, and `SessionLimits` for one connection.
//! Owns:   what this crate allows a peer before it is refused.

use wire::frame::{FRAME_BYTES_MIN, FRAME_OVERHEAD_BYTES};

/// A body of at least this many bytes is received straight into memory of its own. Below it, two copies cost less than the
/// calls of the system that take in one body each: at 16 KiB the broker's CPU is a third lower, at 32 KiB it is the same.
pub const LARGE_BODY_BYTES: usize = 32 * 1024;

/// The first piece of memory for a large body, and the least that growing adds, while it is the only one of its connection
/// that has memory ahead of what has come. A peer that announces much and sends little has no more than this reserved.
pub(crate) const BODY_STEP_BYTES: usize = 1 << 20;

/// How many times larger the memory of a body becomes when what has arrived fills it: what is copied in growing stays
/// below a third of the body, what is pinned without having arrived below four times what has.
pub(crate) const BODY_GROWTH: usize = 4;

/// When so much of a body has arrived its memory grows to all of it: what is moved in growing, and held twice meanwhile, is
/// no more than this. Where nothing has arrived the system provides no memory.
pub(crate) const BODY_WHOLE_BYTES: usize = 16 << 20;

/// How many times larger the memory of a body becomes that is behind another one of its connection, or whose room was
/// given back: it gets memory for the frame at hand, and never has more than twice what has arrived.
pub(crate) const BODY_GROWTH_BEHIND: usize = 2;

/// The first piece of memory for a body that a device shall write to: all of it, up to this, so that it need not grow. One
/// content of a connection at a time has that much; the others begin with [`BODY_STEP_BYTES`].
pub(crate) const BODY_LENT_STEP_BYTES: usize = 16 << 20;

/// RabbitMQ's absolute bound of a body (`MAX_MSG_SIZE`); above it the connection ends, not only the channel.
pub const BODY_BYTES_MAX: u64 = 512 << 20;

/// The body bound RabbitMQ 3.10 is configured with.
pub const MESSAGE_BYTES_MAX: u64 = 128 << 20;

/// The frame bound proposed to clients.
pub const FRAME_BYTES_MAX: u32 = 128 << 10;

/// The frame bound proposed to clients over a link that fetches bodies by itself: a body of 1 MiB is one frame, and so is
/// offered, read and done with once (decision 0016).
pub const BODY_FRAME_BYTES_MAX: u32 = (1 << 20) + 8;

/// The largest frame bound that may be configured: methods and headers are buffered whole.
pub const FRAME_BYTES_CEILING: u32 = 16 << 20;

/// The number of channels proposed to clients.
pub const CHANNEL_MAX: u16 = 2047;

/// The heartbeat proposed to clients, in seconds.
pub const HEARTBEAT_S: u16 = 60;

/// Until tuning is settled a client accepts frames of this size: a server may describe itself at length.
pub(crate) const CLIENT_GREETING_BYTES_MAX: u32 = 128 << 10;

/// How much longer than the frame bound a body frame may be: forgetting the overhead is a common mistake of clients,
/// which RabbitMQ forgives (in any frame).
pub(crate) const FRAME_FUDGE_BYTES: u32 = 8;

/// A content whose header is larger is put together in pieces, so that a peer which dribbles the body does not have us
/// read a large header again with each byte.
pub(crate) const WAITED_HEADER_BYTES_MAX: u32 = 4096;

/// The longest arguments of a method that content follows: `deliver` with its three strings.
pub(crate) const CONTENT_ARGUMENTS_BYTES_MAX: usize = 3 * 256 + 9;

/// Publishes that are one event at most, and their bytes. What makes a run cheaper than its messages is done once for each, and is
/// little of 64; who stops in its middle looks at no more than that again, and the bodies are still in the core's own cache when
/// the last of many consumers gets them.
pub(crate) const PUBLISH_RUN_MESSAGES_MAX: usize = 64;
pub(crate) const PUBLISH_RUN_BYTES_MAX: usize = 32 * 1024;

/// Frames of a large body that are written and sent at once, and their bytes, of which a single frame may have more. The heads of a
/// body of 128 MiB in frames of 4 KiB would take 1.3 MB for each of its consumers. Where so many bytes wait, what follows is sent by
/// itself, too.
pub(crate) const PIECE_FRAMES: usize = 64;
pub(crate) const PIECE_BYTES: usize = 2 << 20;

/// Class, weight and body size in a header frame.
pub(crate) const HEADER_FIXED_BYTES: usize = 12;

/// Head memory of a finished content that is kept for the next.
pub(crate) const SPARE_HEAD_BYTES_MAX: usize = 4096;

const _: () = assert!(LARGE_BODY_BYTES <= BODY_STEP_BYTES && BODY_GROWTH > 1 && BODY_GROWTH_BEHIND > 1);
const _: () = assert!(BODY_STEP_BYTES <= BODY_LENT_STEP_BYTES && BODY_STEP_BYTES <= BODY_WHOLE_BYTES);
const _: () = assert!(BODY_BYTES_MAX <= slab::BLOCK_BYTES_MAX as u64 && MESSAGE_BYTES_MAX <= BODY_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MIN <= FRAME_BYTES_MAX && FRAME_BYTES_MAX <= BODY_FRAME_BYTES_MAX);
// The first piece of memory for a body that is lent holds a frame.
const _: () =
    assert!(BODY_FRAME_BYTES_MAX <= FRAME_BYTES_CEILING && FRAME_BYTES_CEILING as usize <= BODY_LENT_STEP_BYTES);

/// What one connection may use; the first four are what a server proposes, or what a client wants at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Open channels; 0 for no limit but the protocol's 65,535.
    pub channel_max: u16,
    /// Bytes of a frame, its 8 bytes of overhead included; brought into 4,096 ..= `FRAME_BYTES_CEILING` when used.
    pub frame_bytes_max: u32,
    /// The same for frames of bodies, which nobody keeps until they are whole, if it is more: then this is what is proposed, or
    /// wanted, and all other frames keep to `frame_bytes_max` all the same.
    pub body_frame_bytes_max: u32,
    /// Seconds between heartbeats; 0 for none.
    pub heartbeat_s: u16,
    /// Bytes of a body that a channel survives; brought below `BODY_BYTES_MAX` when used.
    pub message_bytes_max: u64,
    /// Whether the owner writes `close-ok`, once what the close entails has happened, instead of the session at once.
    pub owner_answers_close: bool,
    /// Whether contents that are too large or have a malformed header are passed over, each with an event, instead of a fault that
    /// ends their channel or the connection.
    pub passes_over_contents: bool,
    /// Whether a server's owner writes `channel.open-ok`, if it lets the channel in, instead of the session at once.
    pub owner_opens_channels: bool,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            channel_max: CHANNEL_MAX,
            frame_bytes_max: FRAME_BYTES_MAX,
            body_frame_bytes_max: 0,
            heartbeat_s: HEARTBEAT_S,
            message_bytes_max: MESSAGE_BYTES_MAX,
            owner_answers_close: false,
            passes_over_contents: false,
            owner_opens_channels: false,
        }
    }
}

impl SessionLimits {
    /// What is proposed, or wanted at most; 0 for no limit.
    pub(crate) fn any_frame_bytes_max(&self) -> u32 {
        if self.frame_bytes_max == 0 { 0 } else { self.frame_bytes_max.max(self.body_frame_bytes_max) }
    }

    /// Bytes of properties that one header frame takes.
    pub fn properties_bytes_max(&self) -> usize {
        self.clamped().frame_bytes_max as usize - FRAME_OVERHEAD_BYTES - HEADER_FIXED_BYTES
    }

    pub(crate) fn clamped(mut self) -> Self {
        self.frame_bytes_max = match self.frame_bytes_max {
            0 => FRAME_BYTES_CEILING,
            bytes => bytes.clamp(FRAME_BYTES_MIN, FRAME_BYTES_CEILING),
        };
        self.body_frame_bytes_max = self.body_frame_bytes_max.min(FRAME_BYTES_CEILING);
        self.message_bytes_max = self.message_bytes_max.min(BODY_BYTES_MAX);
        self
    }
}
