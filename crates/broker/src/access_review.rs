//! The review of consumers after permissions were taken from users: a consumer whose user may no longer read its queue
//! is cancelled.
//!
//! It proceeds by a bounded number of consumers at a time; what was not reviewed yet goes on as before.

use crate::control_plane::ControlPlane;
use crate::effects::Effects;
use crate::limits::CONSUMERS_REVIEWED_MAX;
use crate::session_state::PendingReply;
use catalog::{PermissionKind, Resource};
use queues::ConsumerKey;
use std::collections::VecDeque;
use std::ops::Range;

/// The consumers that were there when access changed, and are not reviewed yet.
#[derive(Default)]
pub(crate) struct AccessReview {
    /// The places in the table of consumers that are not looked at yet. Whoever takes one of them since has been checked.
    places: Range<usize>,
    /// Consumers that cannot be cancelled yet.
    undecided: VecDeque<ConsumerKey>,
}

impl AccessReview {
    /// Access has changed: the consumers at all places of the table are to be reviewed.
    pub fn begin(&mut self, places: usize) {
        (self.places, self.undecided) = (0..places, VecDeque::new());
    }

    pub fn is_done(&self) -> bool {
        self.places.is_empty() && self.undecided.is_empty()
    }

    /// Reviews some consumers. Returns how many were cancelled.
    pub fn proceed<E: Effects>(&mut self, control: &mut ControlPlane<'_>, fx: &mut E) -> usize {
        let mut cancelled = 0;
        let again = self.undecided.len();
        for at in 0..CONSUMERS_REVIEWED_MAX {
            let next = match at < again {
                true => self.undecided.pop_front(),
                false => match self.places.next() {
                    Some(place) => control.data.dispatcher.channels.consumers().key_at(place),
                    None => break,
                },
            };
            let Some(key) = next else { continue };
            match review(key, control) {
                ConsumerVerdict::Permitted => {}
                ConsumerVerdict::Undecided => self.undecided.push_back(key),
                ConsumerVerdict::Refused => {
                    control.revoke_consumer(key, fx);
                    cancelled += 1;
                }
            }
        }
        control.dispatch_due(fx);
        cancelled
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConsumerVerdict {
    /// It goes on, or is gone.
    Permitted,
    /// Its client awaits `basic.consume-ok`, which must come first.
    Undecided,
    Refused,
}

fn review(key: ConsumerKey, control: &mut ControlPlane<'_>) -> ConsumerVerdict {
    let Some(consumer) = control.data.dispatcher.channels.consumer(key) else { return ConsumerVerdict::Permitted };
    let Some(channel) = control.data.dispatcher.channels.get(consumer.channel).filter(|channel| !channel.closing)
    else {
        return ConsumerVerdict::Permitted;
    };
    let Some(session) = control.sessions.get(channel.slot) else { return ConsumerVerdict::Permitted };
    let (user, vhost) = (session.identity.user, session.identity.vhost);
    let catalog = &mut control.definitions.catalog;
    let Some(queue) = catalog.queue_definition(consumer.queue) else { return ConsumerVerdict::Permitted };
    let name = queue.name.clone();
    if catalog.check(user, vhost, PermissionKind::Read, Resource::Queue, name.as_bytes()).is_ok() {
        return ConsumerVerdict::Permitted;
    }
    let reply = session.pending.as_ref().map(|pending| &pending.reply);
    match reply {
        Some(PendingReply::Consuming { consumer, .. }) if *consumer == key => ConsumerVerdict::Undecided,
        _ => ConsumerVerdict::Refused,
    }
}
