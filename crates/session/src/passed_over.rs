//! Contents that are too large or malformed and dropped as they come, by channel.
//!
//! Enters: what their headers announce, body frames.  Leaves: whether more of them is to come.

use wire::ChannelNumber;

/// The contents of a connection that are passed over. Most connections never have one.
#[derive(Debug, Default)]
pub(crate) struct PassedOver(Option<Box<Bodies>>);

/// Channels, each with the bytes of a body that are still to come.
#[derive(Debug, Default)]
struct Bodies(Vec<(ChannelNumber, u64)>);

/// The size of a body whose header does not give it: it lasts until the next content begins on its channel.
pub(crate) const UNKNOWN_BYTES: u64 = u64::MAX;

impl PassedOver {
    /// A body of so many bytes follows.
    pub fn begin(&mut self, channel: ChannelNumber, bytes: u64) {
        self.end(channel);
        if bytes > 0 {
            self.0.get_or_insert_default().0.push((channel, bytes));
        }
    }

    /// A body frame of such a content has come. Returns whether it was the last.
    pub fn take(&mut self, channel: ChannelNumber, frame_bytes: usize) -> bool {
        let mut bodies = self.0.iter_mut().flat_map(|bodies| &mut bodies.0);
        let Some((_, left)) = bodies.find(|(other, _)| *other == channel) else { return true };
        if *left != UNKNOWN_BYTES {
            *left = left.saturating_sub(frame_bytes as u64);
        }
        *left == 0
    }

    /// Nothing more of such a content comes on this channel.
    pub fn end(&mut self, channel: ChannelNumber) {
        if let Some(bodies) = &mut self.0 {
            bodies.0.retain(|(other, _)| *other != channel);
            if bodies.0.is_empty() {
                self.0 = None;
            }
        }
    }
}
