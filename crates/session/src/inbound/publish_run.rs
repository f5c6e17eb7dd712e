//! Runs of publishes: those that differ in their bodies alone are taken by comparing bytes.
//!
//! Enters: a publish that came whole, and what is behind it in the input.  Leaves: the run that begins with it.
//!
//! Publishers repeat themselves: exchange, routing key, properties and the size of the body are often those of the message
//! before. The first of a run was decoded and validated; nothing that its likes could do wrong is left to be found.

use super::Inbound;
use crate::{
    Body, Event, Outbound, ProtocolFault,
    limits::{PUBLISH_RUN_BYTES_MAX, PUBLISH_RUN_MESSAGES_MAX},
};
use slab::Pool;
use wire::{BodyRun, frame::FRAME_END};

/// Events that pass without another look for a run, at most, where there are none.
const PAUSE_MAX: u8 = 15;

/// Whether it is worth to look for a run. Where each publish differs from the one before it, looking costs more than it saves.
#[derive(Debug, Default)]
pub(super) struct RunSearch {
    /// Events to let pass before the next look, and how many it will be after the next disappointment.
    pause: u8,
    pause_next: u8,
}

impl RunSearch {
    #[inline]
    fn is_due(&mut self) -> bool {
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    fn note(&mut self, is_found: bool) {
        if is_found {
            self.pause_next = 0;
            return;
        }
        self.pause = self.pause_next;
        self.pause_next = (self.pause_next * 2 + 1).min(PAUSE_MAX);
    }
}

impl Inbound {
    /// As [`next`](Self::next), but publishes on end that differ in their bodies alone may be one event,
    /// [`Event::PublishRun`]: `input` moves on past all of them.
    #[inline]
    pub fn next_run<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<Option<Event<'a>>, ProtocolFault> {
        // An event that is looked at is stored, and copied to where it goes: most that make no run are not.
        if self.run_search.is_due() { self.next_with_search(input, out, pool) } else { self.next(input, out, pool) }
    }

    #[inline(never)]
    fn next_with_search<'a, 'input: 'a>(
        &'a mut self,
        input: &mut &'input [u8],
        out: &mut Outbound,
        pool: &Pool,
    ) -> Result<Option<Event<'a>>, ProtocolFault> {
        let before = *input;
        let Some(event) = self.quick(input) else { return self.next_slow(input, out, pool) };
        self.repeat_heads_bytes = 0;
        match self.run_of(&event, before, input) {
            Some(run) => Ok(Some(run)),
            None => Ok(Some(event)),
        }
    }

    /// A publish that was taken from `before`, with those behind it that are like it, if there are any; `rest` is what is behind
    /// them.
    #[inline(never)]
    fn run_of<'a>(&mut self, event: &Event<'a>, before: &'a [u8], rest: &mut &'a [u8]) -> Option<Event<'a>> {
        let &Event::Publish {
            channel,
            exchange,
            routing_key,
            mandatory,
            immediate,
            properties,
            body: Body::Small(body),
        } = event
        else {
            return None;
        };
        let message_bytes = before.len() - rest.len();
        if rest.len() < message_bytes {
            return None;
        }
        // What of the message is not its body: the heads, and the end of the frame of the body if there is one.
        let heads_bytes = message_bytes - body.len() - usize::from(!body.is_empty());
        let messages = count(before, message_bytes, heads_bytes);
        self.run_search.note(messages > 1);
        if messages == 1 {
            return None;
        }
        let (run, behind) = before.split_at(messages * message_bytes);
        *rest = behind;
        let bodies = BodyRun::new(run, message_bytes, heads_bytes, body.len());
        Some(Event::PublishRun { channel, exchange, routing_key, mandatory, immediate, properties, bodies })
    }
}

/// How many messages the input begins with that are like the first.
#[inline(always)]
fn count(input: &[u8], message_bytes: usize, heads_bytes: usize) -> usize {
    let heads = &input[..heads_bytes];
    let most = PUBLISH_RUN_MESSAGES_MAX.min(PUBLISH_RUN_BYTES_MAX / message_bytes);
    let is_like = |message: &&[u8]| match (message.split_at(heads_bytes), message.last()) {
        ((its_heads, _), Some(&FRAME_END)) => is_same(its_heads, heads),
        _ => false,
    };
    1 + input.chunks_exact(message_bytes).take(most).skip(1).take_while(is_like).count()
}

/// Whether two pieces of the same length are the same. They are short, and often are: without a call and without a way out in the
/// middle this takes half of what comparing slices does.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    const AT_ONCE: usize = size_of::<u128>();
    let differ = |one: &[u8; AT_ONCE], other: &[u8; AT_ONCE]| u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other);
    let parts = one.as_chunks().0.iter().zip(other.as_chunks().0);
    let differing = parts.fold(0, |all, (one, other)| all | differ(one, other));
    // The end that makes no whole part, with some of the part before it. No head is shorter than a part.
    match (one.last_chunk(), other.last_chunk()) {
        (Some(one), Some(other)) => differing | differ(one, other) == 0,
        _ => false,
    }
}
