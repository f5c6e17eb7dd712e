//! What other shards and the store answer to publishes and commits, and what clients are told then.

use crate::channel::ChannelMode;
use crate::confirms::AwaitedAnswer;
use crate::data_plane::DataPlane;
use crate::effects::Effects;
use crate::ids::{ChannelKey, PublishKey};
use crate::session_state::{PendingCommand, PendingReply};
use crate::sessions::Sessions;
use wire::method::{Method, tx};

/// The objects that an answer touches.
pub(crate) struct PublishAnswers<'a> {
    pub sessions: &'a mut Sessions,
    pub data: &'a mut DataPlane,
}

impl PublishAnswers<'_> {
    /// Another shard has accepted or refused what was sent to it.
    pub fn on_shard_answer<E: Effects>(&mut self, awaited: AwaitedAnswer, accepted: bool, fx: &mut E) {
        let publish = match awaited {
            AwaitedAnswer::Publish(publish) => publish,
            // A dead letter that its queue refuses is dropped.
            AwaitedAnswer::Source(key) => return self.data.confirms.release_source(key, fx),
        };
        if !accepted && let Some(channel) = self.data.dispatcher.channels.get_mut(publish.channel) {
            channel.confirms.refused.insert(publish.number);
        }
        self.on_answer(publish, fx);
    }

    /// A queue of another shard is closed, and has refused what was sent to it.
    pub fn on_kept<E: Effects>(&mut self, awaited: AwaitedAnswer, fx: &mut E) {
        if let AwaitedAnswer::Source(key) = awaited {
            self.data.confirms.keep_source(key);
        }
        self.on_shard_answer(awaited, false, fx);
    }

    /// A publish has one answer more.
    pub fn on_answer<E: Effects>(&mut self, publish: PublishKey, fx: &mut E) {
        let Some(channel) = self.data.dispatcher.channels.get_mut(publish.channel) else { return };
        channel.confirms.on_answer(publish.number);
        self.after_answer(publish.channel, fx);
    }

    /// The store has made everything up to this ticket durable.
    pub fn on_durable<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        while let Some(key) = self.data.confirms.next_durable(ticket) {
            if let Some(channel) = self.data.dispatcher.channels.get_mut(key) {
                if let Some(next) = channel.confirms.on_durable(ticket) {
                    self.data.confirms.await_rest(next, key);
                }
                self.after_answer(key, fx);
            }
        }
        self.data.confirms.answer_durable(ticket, fx);
    }

    /// A channel may have publishes to confirm, or a commit to answer.
    fn after_answer<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        let Some(channel) = self.data.dispatcher.channels.get_mut(key) else { return };
        match channel.mode {
            ChannelMode::Transaction(_) => self.finish_commit(key, fx),
            _ => self.data.confirms.mark_due(key, &mut channel.confirms),
        }
    }

    /// Replies to a commit once the last of its messages is in its queues.
    fn finish_commit<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        let channel = self.data.dispatcher.channels.get_mut(key);
        let Some(channel) = channel.filter(|channel| channel.confirms.is_idle()) else { return };
        let (slot, number) = (channel.slot, channel.number);
        let Some(session) = self.sessions.get_mut(slot) else { return };
        let commits =
            |pending: &mut PendingCommand| pending.channel == number && matches!(pending.reply, PendingReply::Commit);
        if session.pending.take_if(commits).is_some() {
            match channel.commit_result() {
                Ok(()) => fx.reply(slot, number, Method::TxCommitOk(tx::CommitOk {})),
                Err(refusal) => fx.refuse(slot, number, refusal, tx::Commit::ID),
            }
            fx.resume(slot);
        }
    }
}
