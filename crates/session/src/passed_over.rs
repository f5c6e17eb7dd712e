//! Contents that are too large and dropped as they come, by channel.
//!
//! Enters: what their headers announce, body frames.  Leaves: whether a body frame is one of theirs.

use wire::ChannelNumber;

/// The contents of a connection that are passed over. Most connections never have one.
#[derive(Debug, Default)]
pub(crate) struct PassedOver(Option<Box<Bodies>>);

/// Channels, each with the bytes of a body that are still to come.
#[derive(Debug, Default)]
struct Bodies(Vec<(ChannelNumber, u64)>);

impl PassedOver {
    /// A body of so many bytes follows.
    pub fn begin(&mut self, channel: ChannelNumber, bytes: u64) {
        if bytes > 0 {
            self.0.get_or_insert_default().0.push((channel, bytes));
        }
    }

    /// Whether the body frame that follows is of such a content.
    #[inline]
    pub fn takes(&mut self, channel: ChannelNumber, frame_bytes: usize) -> bool {
        let Some(bodies) = &mut self.0 else { return false };
        let Some(at) = bodies.0.iter().position(|(other, _)| *other == channel) else { return false };
        let left = &mut bodies.0[at].1;
        *left = left.saturating_sub(frame_bytes as u64);
        if *left == 0 {
            self.end(channel);
        }
        true
    }

    /// Nothing more of such a content comes on this channel.
    #[inline]
    pub fn end(&mut self, channel: ChannelNumber) {
        if let Some(bodies) = &mut self.0 {
            bodies.0.retain(|(other, _)| *other != channel);
            if bodies.0.is_empty() {
                self.0 = None;
            }
        }
    }
}
