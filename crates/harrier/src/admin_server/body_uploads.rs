//! Bodies of requests to the management API that come in pieces, by the channel that sends them.

use management::limits::BODY_BYTES_MAX;
use shard::ReplyAddress;
use std::time::Duration;

/// Bodies at one time. One more takes the place of the oldest.
const UPLOADS_MAX: usize = 4;

/// What has come of the bodies, the oldest first.
#[derive(Default)]
pub struct BodyUploads(Vec<(ReplyAddress, Vec<u8>)>);

impl BodyUploads {
    /// Bytes of one body.
    pub const BYTES_MAX: usize = BODY_BYTES_MAX;
    /// When no request has come for so long, whoever sent pieces has gone.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0 = Vec::new();
    }

    /// Adds a piece to the body of a channel. Returns its length; `None` if it is too long, and dropped.
    pub fn add(&mut self, from: ReplyAddress, piece: &[u8]) -> Option<usize> {
        let place = match self.0.iter().position(|(channel, _)| *channel == from) {
            Some(place) => place,
            None => {
                if self.0.len() == UPLOADS_MAX {
                    self.0.remove(0);
                }
                self.0.push((from, Vec::new()));
                self.0.len() - 1
            }
        };
        let body = &mut self.0[place].1;
        if body.len() + piece.len() > Self::BYTES_MAX {
            self.0.remove(place);
            return None;
        }
        body.extend_from_slice(piece);
        Some(body.len())
    }

    /// Takes the body of a channel.
    pub fn take(&mut self, from: ReplyAddress) -> Option<Vec<u8>> {
        let place = self.0.iter().position(|(channel, _)| *channel == from)?;
        Some(self.0.remove(place).1)
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyUploads, UPLOADS_MAX};
    use shard::ReplyAddress;

    fn channel(number: usize) -> ReplyAddress {
        let name = format!("amq.rabbitmq.reply-to.{:04x}{:016x}{:016x}", 0, 0x1_0000_0001_u64, number);
        ReplyAddress::parse(name.as_bytes()).expect("an address")
    }

    #[test]
    fn pieces_are_joined_by_channel_within_limits() {
        let mut uploads = BodyUploads::default();
        assert_eq!((uploads.add(channel(1), b"ab"), uploads.add(channel(2), b"x")), (Some(2), Some(1)));
        assert_eq!((uploads.add(channel(1), b"c"), uploads.take(channel(1))), (Some(3), Some(b"abc".to_vec())));
        assert_eq!(uploads.take(channel(1)), None);
        for number in 3..3 + UPLOADS_MAX {
            uploads.add(channel(number), b"y");
        }
        assert_eq!((uploads.take(channel(2)), uploads.take(channel(3))), (None, Some(b"y".to_vec())));
        let long = vec![0; BodyUploads::BYTES_MAX];
        assert_eq!(uploads.add(channel(9), &long), Some(long.len()));
        assert_eq!((uploads.add(channel(9), b"z"), uploads.take(channel(9))), (None, None));
    }
}
