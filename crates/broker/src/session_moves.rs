//! Sessions that leave their shard for another, with their channels, and sessions that come from one.
//!
//! A session leaves only when nothing of it is out: no consumer, no delivery that is not settled, no publish that is not confirmed,
//! no command that waits. So what moves is what a client can see of an idle connection: its channels, their modes and prefetch
//! counts, and the numbers of deliveries and publishes, which go on.

use crate::broker::Broker;
use crate::channel::Channel;
use crate::effects::Effects;
use crate::fence::{Fence, FenceId};
use crate::ids::ConnectionSlot;
use crate::mail_tally::MailTally;
use crate::session_state::SessionState;
use crate::shard_message::ShardMessage;
use catalog::{PermissionKind, SessionId, ShardId};
use wire::ChannelNumber;
use wire::method::Method;

/// Whether a session may leave its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionMobility {
    /// Something of it belongs where it is.
    Bound,
    /// Something of it is out, which will end.
    Busy,
    /// Nothing of it is out.
    Quiet,
}

/// A session on its way to another shard.
pub struct MovedSession {
    session: Box<SessionState>,
    channels: Vec<Channel>,
}

impl Broker {
    /// Whether a session may leave this shard.
    pub fn mobility(&self, slot: ConnectionSlot) -> SessionMobility {
        let Some(session) = self.sessions.get(slot) else { return SessionMobility::Bound };
        if session.owns_queues || session.is_link || session.pushes {
            return SessionMobility::Bound;
        }
        let mut mobility = SessionMobility::Quiet;
        for key in session.channels.iter() {
            match self.data.dispatcher.channels.get(key) {
                Some(channel) if channel.is_bound_here() => return SessionMobility::Bound,
                Some(channel) if channel.is_quiet() => {}
                _ => mobility = SessionMobility::Busy,
            }
        }
        let is_waiting = session.pending.is_some()
            || session.definition_batch.is_some()
            || session.deferred.is_some()
            || session.blocked_notified
            || !self.sessions.may_read(slot);
        if is_waiting { SessionMobility::Busy } else { mobility }
    }

    /// The other shard where the queue lives that a client wants messages of, if it may have them.
    #[cold]
    pub fn queue_elsewhere(
        &mut self,
        slot: ConnectionSlot,
        number: ChannelNumber,
        method: &Method<'_>,
    ) -> Option<ShardId> {
        let name = match method {
            Method::BasicConsume(consume) => consume.queue,
            Method::BasicGet(get) => get.queue,
            _ => return None,
        };
        let channel = self.data.dispatcher.channels.get(self.sessions.channel_key(slot, number)?)?;
        let name = channel.queue_name(name.as_bytes()).ok()?;
        let identity = self.sessions.identity(slot).ok()?;
        let (_, home) = self.definitions.queue_for(identity, &name, PermissionKind::Read).ok()?;
        (!self.identity.is_home(home)).then_some(home)
    }

    /// Publishes are counted for [`Broker::take_mail_tally`] from now on.
    #[inline]
    pub fn start_mail_tally(&mut self) {
        self.data.forwarder.mail_tally = MailTally { published: self.data.published, ..MailTally::default() };
    }

    /// Which publishes since [`Broker::start_mail_tally`] went to another shard.
    #[inline]
    pub fn take_mail_tally(&mut self) -> MailTally {
        let tally = std::mem::take(&mut self.data.forwarder.mail_tally);
        MailTally { published: self.data.published - tally.published, ..tally }
    }

    /// Asks all other shards to have carried out what this one has sent them, for a session that is about to go to one of them.
    pub fn ask_fence<E: Effects>(&mut self, slot: ConnectionSlot, to: ShardId, fx: &mut E) {
        let number = self.sessions.next_request();
        let others = self.identity.shards - 1;
        let Some(session) = self.sessions.get_mut(slot) else { return };
        session.fence = Some(Fence::new(number, others, to));
        let fence = FenceId { session: session.identity.session, number };
        for shard in self.identity.others() {
            fx.batch(shard).push(ShardMessage::Fence(fence));
        }
    }

    /// Whether all other shards have answered, and the one where the session is about to go knows the definitions that this one
    /// does. `None`: an answer is missing.
    pub fn fence_reached(&self, slot: ConnectionSlot) -> Option<bool> {
        let version = self.sessions.get(slot)?.fence.as_ref()?.reached()?;
        Some(version >= self.definitions.version())
    }

    /// The session stays, or asks anew.
    pub fn forget_fence(&mut self, slot: ConnectionSlot) {
        if let Some(session) = self.sessions.get_mut(slot) {
            session.fence = None;
        }
    }

    /// Takes a session that is quiet out of this shard.
    pub fn depart_session(&mut self, slot: ConnectionSlot) -> Option<MovedSession> {
        let mut session = self.sessions.depart(slot)?;
        self.data.dispatcher.channels.forget_output(slot);
        let channels = session.channels.iter().filter_map(|key| self.data.dispatcher.channels.depart(key)).collect();
        session.channels = Default::default();
        session.fence = None;
        Some(MovedSession { session, channels })
    }

    /// Adds a session that comes from another shard, under the id that it has here.
    pub fn arrive_session<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        id: SessionId,
        MovedSession { mut session, channels }: MovedSession,
        fx: &mut E,
    ) {
        session.identity.session = id;
        session.vhost_is_full = self.is_vhost_full(session.identity.vhost);
        self.sessions.arrive(slot, session);
        for channel in channels {
            let number = channel.number;
            let key = self.data.dispatcher.channels.arrive(channel, slot);
            self.sessions.attach_channel(slot, number, key);
        }
        let _one = self.sessions.notify_blocked(slot, fx);
    }
}
