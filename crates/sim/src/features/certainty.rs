//! What a client can be certain of although answers, cuts and timeouts may be under way, and what may have happened unseen.

use super::dead_letters::number_of;
use super::shadow_model::{ShadowModel, ShadowQueue};
use crate::broker_limits::AMPLE_MEMORY_BYTES;
use crate::simulated_client::{ClientChannel, ConnectionState, PublishMode, SimulatedClient};
use crate::world::SimulatedWorld;

/// The messages of a channel that the broker may not have seen.
fn unproven_publishes(channel: &ClientChannel) -> impl Iterator<Item = &u64> {
    let plain = channel.unproven_publishes.iter().chain(channel.unconfirmed.values());
    plain.chain(&channel.staged).chain(&channel.committing)
}

/// What is certain at a moment of a run.
pub struct Certainty<'a> {
    world: &'a SimulatedWorld,
    model: &'a ShadowModel,
}

impl<'a> Certainty<'a> {
    /// At this moment.
    pub fn of(world: &'a SimulatedWorld, model: &'a ShadowModel) -> Self {
        Certainty { world, model }
    }

    /// Whether a channel is in the state that its client assumes: nothing is under way that could have ended it.
    pub fn is_certain(&self, channel: u32) -> bool {
        let found = self.world.clients.iter().find_map(|client| {
            let channel = client.channels.iter().find(|one| one.uid == channel)?;
            Some((client, channel))
        });
        found.is_some_and(|(client, channel)| {
            !self.world.is_ending
                && client.state == ConnectionState::Open
                && !client.cut
                && channel.is_idle()
                && !self.may_be_refused(channel)
                && !self.may_be_overdue(channel)
                && !self.may_be_ended(client)
        })
    }

    /// Whether a broker that is short of memory may have ended a connection: something of it may have arrived in part.
    fn may_be_ended(&self, client: &SimulatedClient) -> bool {
        let is_whole = |channel: &ClientChannel| channel.is_idle() && unproven_publishes(channel).next().is_none();
        self.world.settings.limits.memory_bytes_max < AMPLE_MEMORY_BYTES && !client.channels.iter().all(is_whole)
    }

    /// Whether a channel may have had an unsettled delivery for so long that the broker has closed it.
    pub fn may_be_overdue(&self, channel: &ClientChannel) -> bool {
        let timeout_us = self.world.settings.limits.consumer_timeout_ms * 1_000;
        timeout_us > 0 && channel.owing_since_us.is_some_and(|since_us| since_us + timeout_us <= self.world.clock.us())
    }

    /// Whether an unproven publish of a channel may have gone to a deleted exchange.
    pub fn may_be_refused(&self, channel: &ClientChannel) -> bool {
        let mut unproven = unproven_publishes(channel).filter_map(|id| self.model.messages.get(id));
        unproven.any(|message| self.model.may_be_gone(message.exchange))
            || (channel.mode == PublishMode::Tx && channel.pending.is_some())
    }

    /// Whether a message may have been returned to a queue more often than the queue's delivery limit allows.
    pub fn may_exceed_delivery_limit(&self, queue: usize, copy: u64) -> bool {
        let known = &self.model.queues[queue];
        let Some(limit) = known.traits.delivery_limit else { return false };
        known.deliveries.get(&copy).is_some_and(|delivery| delivery.times > limit)
            || self.may_have_unseen_deliveries(queue)
    }

    /// Whether a client may have received and returned messages of a queue without knowing it.
    fn may_have_unseen_deliveries(&self, queue: usize) -> bool {
        let mut channels = self.world.clients.iter().flat_map(|client| &client.channels);
        self.model.queues[queue].had_unseen_deliveries
            || channels.any(|channel| channel.may_receive_from(queue) && !self.is_certain(channel.uid))
    }

    /// Whether a message in a queue may have expired. A dead letter has no expiration of its own.
    pub fn may_have_expired(&self, queue: &ShadowQueue, copy: u64) -> bool {
        let message = &self.model.messages[&number_of(copy)];
        let own_us = message.expiration_us.filter(|_| self.model.is_original(copy));
        let life_us = queue.traits.ttl_us.into_iter().chain(own_us).min();
        life_us.is_some_and(|life_us| message.sent_us + life_us <= self.world.clock.us())
    }
}

/// Whether a queue need not have delivered a message: it had a reason to drop it, and if its dead letters go to another
/// queue, the message is there, or that queue had a reason.
pub fn is_excused(world: &SimulatedWorld, model: &mut ShadowModel, at: usize, copy: u64) -> bool {
    let queue = &model.queues[at];
    let traits = queue.traits;
    // Nobody learns that a dead letter was refused.
    let refused = traits.refuses && !model.is_original(copy);
    let overflowed = traits.length.is_some() && !traits.refuses;
    let certainty = Certainty::of(world, model);
    let dropped = refused
        || overflowed
        || certainty.may_have_expired(queue, copy)
        || certainty.may_exceed_delivery_limit(at, copy);
    if !dropped {
        return false;
    }
    let Some(dead) = traits.dead.filter(|_| !refused || traits.refuses_to_dead) else { return true };
    let copy = model.paths.copy(copy, at);
    let target = &model.queues[dead];
    target.deliveries.contains_key(&copy)
        || target.survival.has_lost(copy)
        || queue.survival.may_have_lost_letter(model.messages[&number_of(copy)].sent)
        || target.life.ending.is_some()
        || target.may_lose_messages
        || target.forgiven > 0
        || is_excused(world, model, dead, copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::shadow_model::ShadowMessage;
    use crate::settings::{Mode, Settings};

    #[test]
    fn a_message_expires_by_the_shorter_of_both_times_and_is_excused_then() {
        let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        model.queues[queue].traits.ttl_us = Some(500);
        model.messages.insert(1, ShadowMessage { expiration_us: Some(300), ..ShadowMessage::example(7) });
        assert!(!is_excused(&world, &mut model, queue, 1));
        world.pass(299);
        assert!(!is_excused(&world, &mut model, queue, 1));
        world.pass(1);
        assert!(is_excused(&world, &mut model, queue, 1));
    }

    #[test]
    fn an_expired_message_is_excused_by_its_dead_letter_that_damage_took() {
        let mut world = SimulatedWorld::new(Settings::of(Mode::Features, 1), false);
        let mut model = ShadowModel::new(true);
        let queue = model.add_queue("q".into(), None, false);
        let target = model.add_queue("dead".into(), None, false);
        (model.queues[queue].traits.ttl_us, model.queues[queue].traits.dead) = (Some(0), Some(target));
        for id in [1, 2] {
            model.messages.insert(id, ShadowMessage::example(7));
        }
        world.pass(1);
        model.queues[target].survival.lose(&[1].into());
        assert!(is_excused(&world, &mut model, queue, 1));
        assert!(!is_excused(&world, &mut model, queue, 2));
    }
}
