//! Canned publishes: encoded once, sent again and again, with nothing new in them but what is written into their bodies.
//!
//! Enters: where each message of a batch goes, and a body.  Leaves: batches of publishes in large writes.
//! Owns:   the encoded batch, which is written again when the batch before it was sent.

use session::{BodyOut, Outbound, PublishHead};
use slab::{BlockMut, Pool, Slice};
use wire::ChannelNumber;
use wire::ShortStr;
use wire::frame::{FRAME_BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_OVERHEAD_BYTES, FrameHead};

use crate::channel::ClientChannel;
use crate::client::Client;
use crate::error::Result;
use crate::limits::CANNED_BYTES_MAX;
use crate::output::Publish;

/// A batch of publishes, ready to be sent any number of times: see `Client::can` and `Client::publish_canned`.
#[derive(Debug)]
pub struct PreparedBatch {
    channel: ClientChannel,
    /// The messages; of one whose body needs several frames, all but the frames behind the first.
    batch: Slice,
    /// Where each body begins in the batch, and what of it is there.
    bodies: Vec<BodySpan>,
    /// The frames behind the first of a body that needs several.
    rest: Vec<Slice>,
    body_bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct BodySpan {
    start: u32,
    end: u32,
    /// Where the message ends.
    message_end: u32,
}

impl PreparedBatch {
    /// Messages in the batch.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    pub fn body_bytes(&self) -> usize {
        self.body_bytes
    }
}

impl Client {
    /// Encodes a batch of publishes of the same `body`: each of `to` in turn, as often as about `batch_bytes` hold, and at
    /// least once. A body that needs several frames is one batch by itself, and only the bytes of it that the first frame
    /// holds can be written anew. `None` if the batch would be too large (`limits::CANNED_BYTES_MAX`) or has nothing in it, and
    /// for bodies that the link has fetched from their own memory: each is handed over by itself.
    ///
    /// # Errors
    /// A channel that is not open, names of more than 255 bytes.
    pub fn prepare_batch(
        &mut self,
        channel: ClientChannel,
        to: &[Publish<'_>],
        body: &[u8],
        batch_bytes: usize,
    ) -> Result<Option<PreparedBatch>> {
        self.state.channels.open(channel)?;
        if body.len() >= self.lend_from_bytes {
            return Ok(None);
        }
        let mut out = self.outbound.empty_like();
        let first_bytes = body.len().min(out.payload_bytes_max());
        let (first, others) = body.split_at(first_bytes);
        let mut once = Vec::new();
        let mut bodies = Vec::new();
        for to in to {
            let body_end = once.len() + self.encode(&mut out, channel, to, body, first, &mut once)?;
            let (start, end) = (body_end - first_bytes, body_end);
            if once.len() > CANNED_BYTES_MAX {
                return Ok(None);
            }
            bodies.push(BodySpan { start: start as u32, end: end as u32, message_end: once.len() as u32 });
        }
        if bodies.is_empty() || (!others.is_empty() && bodies.len() > 1) {
            return Ok(None);
        }
        let times = if others.is_empty() { (batch_bytes / once.len()).max(1) } else { 1 };
        let all = bodies.clone();
        for turn in 1..times {
            let by = (turn * once.len()) as u32;
            bodies.extend(all.iter().map(|place| BodySpan {
                start: place.start + by,
                end: place.end + by,
                message_end: place.message_end + by,
            }));
        }
        Ok(Some(PreparedBatch {
            channel,
            batch: self.pool.copy(&once.repeat(times)),
            bodies,
            rest: frames(&self.pool, channel.number(), others, out.payload_bytes_max()),
            body_bytes: body.len(),
        }))
    }

    /// Appends one message with the first frame of its body; says where in it that frame's payload ends.
    fn encode(
        &self,
        out: &mut Outbound,
        channel: ClientChannel,
        to: &Publish<'_>,
        body: &[u8],
        first: &[u8],
        all: &mut Vec<u8>,
    ) -> Result<usize> {
        let head = PublishHead {
            exchange: ShortStr::new(to.exchange.as_bytes())?.as_bytes(),
            routing_key: ShortStr::new(to.routing_key.as_bytes())?.as_bytes(),
            mandatory: to.mandatory,
            immediate: false,
        };
        out.publish(&self.pool, channel.number, &head, to.properties.as_bytes(), BodyOut::Copy(body));
        let bytes = out.take_bytes(&self.pool);
        // What stands behind the first frame of the body: the same bytes in further frames.
        let behind = (body.len() - first.len()).div_ceil(out.payload_bytes_max()) * FRAME_OVERHEAD_BYTES + body.len()
            - first.len();
        let bytes = &bytes[..bytes.len() - behind];
        all.extend_from_slice(bytes);
        Ok(bytes.len() - usize::from(!body.is_empty()))
    }

    /// Publishes the first `count` messages of a batch (all of it, if that is fewer), each after `write` has been given its
    /// number in the batch and its body: as it was when the batch was sent before, or as it was canned. Sends everything.
    /// The answer is the tag of the last for confirms, or 0 on a channel without them.
    ///
    /// # Errors
    /// As `publish`.
    #[inline]
    pub fn publish_prepared(
        &mut self,
        canned: &mut PreparedBatch,
        count: usize,
        mut write: impl FnMut(usize, &mut [u8]),
    ) -> Result<u64> {
        let record = self.state.channels.open(canned.channel)?;
        let count = count.min(canned.bodies.len());
        let Some(last) = count.checked_sub(1).and_then(|last| canned.bodies.get(last)) else { return Ok(0) };
        let mut tag = 0;
        if record.confirming {
            (0..count).for_each(|_| tag = record.confirms.published());
        }
        let bytes = last.message_end as usize;
        let mut batch = again(&mut canned.batch, &self.pool);
        for (number, place) in canned.bodies[..count].iter().enumerate() {
            write(number, batch.get_mut(place.start as usize..place.end as usize).unwrap_or_default());
        }
        canned.batch = batch.freeze();
        self.outbound.shared_frames(canned.batch.slice(..bytes));
        canned.rest.iter().for_each(|frame| self.outbound.shared_frames(frame.clone()));
        self.flush()?;
        Ok(tag)
    }
}

/// The batch to be written. Everything was sent, so that nobody else holds it, unless a flush failed in between.
fn again(batch: &mut Slice, pool: &Pool) -> BlockMut {
    std::mem::take(batch).into_block().unwrap_or_else(|held| {
        let mut copy = pool.block(held.len());
        copy.copy_from_slice(&held);
        copy
    })
}

/// A body's further bytes in frames. Where they are the same in each, so is their memory: little of it is better cached.
fn frames(pool: &Pool, channel: ChannelNumber, bytes: &[u8], payload_bytes_max: usize) -> Vec<Slice> {
    let mut frames: Vec<Slice> = Vec::new();
    for part in bytes.chunks(payload_bytes_max) {
        let head = FrameHead { kind: FRAME_BODY, channel, payload_bytes: part.len() as u32 }.to_bytes();
        let alike = frames.last().filter(|frame| {
            frame.len() == part.len() + FRAME_OVERHEAD_BYTES && frame[FRAME_HEAD_BYTES..].starts_with(part)
        });
        let frame = alike.cloned().unwrap_or_else(|| {
            let mut block = pool.block(part.len() + FRAME_OVERHEAD_BYTES);
            block[..FRAME_HEAD_BYTES].copy_from_slice(&head);
            block[FRAME_HEAD_BYTES..][..part.len()].copy_from_slice(part);
            block[FRAME_HEAD_BYTES + part.len()] = FRAME_END;
            block.freeze()
        });
        frames.push(frame);
    }
    frames
}
