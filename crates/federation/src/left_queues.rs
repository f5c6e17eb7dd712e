//! Queues at the other broker whose routes were removed while nobody could delete them: the link was not connected, or the route
//! had no channel.
//!
//! Enters: their names.  Leaves: their deletion, on a channel of its own.
//! Owns:   which are left, and the channel.

use crate::limits::LEFT_QUEUES_MAX;
use crate::setup_methods::delete;
use session::{Inbound, Outbound};
use slab::Pool;
use wire::{ChannelNumber, ReplyCode};

/// The queues that removed routes of a link have left at the other broker.
#[derive(Default)]
pub(crate) struct LeftQueues {
    names: Vec<Box<[u8]>>,
    /// 0: none is open.
    channel: ChannelNumber,
    given_up: Vec<GivenUpQueue>,
}

/// A queue that stays at the other broker, and why nobody deletes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GivenUpQueue {
    pub name: Box<[u8]>,
    pub why: Box<str>,
}

impl LeftQueues {
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds a queue that may be left.
    pub fn add(&mut self, name: Box<[u8]>) {
        if self.names.contains(&name) {
            return;
        }
        if self.names.len() < LEFT_QUEUES_MAX {
            self.names.push(name);
        } else {
            self.given_up.push(GivenUpQueue { name, why: "too many queues of removed routes are left".into() });
        }
    }

    /// A route wants the queue again.
    pub fn keep(&mut self, name: &[u8]) {
        self.names.retain(|left| **left != *name);
    }

    /// Nobody will delete them any more.
    pub fn give_up(&mut self, why: &str) {
        self.disconnect();
        self.given_up.extend(self.names.drain(..).map(|name| GivenUpQueue { name, why: why.into() }));
    }

    /// Those that were given up since the last call.
    pub fn take_given_up(&mut self) -> Vec<GivenUpQueue> {
        std::mem::take(&mut self.given_up)
    }

    /// The connection is gone, and the channel with it.
    pub fn disconnect(&mut self) {
        self.channel = ChannelNumber::CONNECTION;
    }

    /// Opens the channel if there is something to delete.
    pub fn open_channel(&mut self, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        if self.names.is_empty() || self.channel > ChannelNumber::CONNECTION {
            return;
        }
        match inbound.open_channel(out, pool) {
            Some(channel) => self.channel = channel,
            None => self.give_up("the other broker allows no more channels"),
        }
    }

    /// Whether the channel is this one.
    pub fn is_on(&self, channel: ChannelNumber) -> bool {
        channel > ChannelNumber::CONNECTION && channel == self.channel
    }

    /// The channel is open: deletes the queues, with them goes what is bound to them alone, and closes the channel.
    pub fn delete(&mut self, inbound: &mut Inbound, out: &mut Outbound, pool: &Pool) {
        let channel = std::mem::replace(&mut self.channel, ChannelNumber::CONNECTION);
        for name in self.names.drain(..) {
            out.method(pool, channel, &delete(&name).into());
        }
        inbound.close_channel(channel, ReplyCode::Success.number(), "Goodbye", out, pool);
    }
}

#[cfg(test)]
mod tests {
    use super::LeftQueues;
    use crate::limits::LEFT_QUEUES_MAX;

    #[test]
    fn what_is_too_much_and_what_cannot_be_deleted_is_told_once() {
        let name = |number: usize| format!("federation: {number}").into_bytes().into_boxed_slice();
        let mut left = LeftQueues::default();
        (0..=LEFT_QUEUES_MAX).for_each(|number| left.add(name(number)));
        left.add(name(0));
        let told = left.take_given_up();
        assert_eq!(told.iter().map(|queue| queue.name.clone()).collect::<Vec<_>>(), [name(LEFT_QUEUES_MAX)]);
        (1..LEFT_QUEUES_MAX).for_each(|number| left.keep(&name(number)));
        left.give_up("no route to host");
        let told = left.take_given_up();
        assert_eq!(told.iter().map(|it| (&it.name, &*it.why)).collect::<Vec<_>>(), [(&name(0), "no route to host")]);
        assert!(left.is_empty() && left.take_given_up().is_empty());
    }
}
