//! Where a connection belongs, by what it has published, and its way there.

use crate::limits::MOVE_SHARE_DIVISOR;
use broker::MailTally;
use catalog::ShardId;
use std::time::Instant;

/// A connection that is about to leave its shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingMove {
    pub to: ShardId,
    /// It stays if it has not left by then.
    pub give_up_at: Instant,
    /// The other shards were asked to have carried out what this one has sent them.
    pub is_fenced: bool,
}

/// What a connection has published in the current window, and whether it is about to leave.
#[derive(Default, Debug)]
pub(crate) struct MoveState {
    to: Option<ShardId>,
    /// Those that went there, of those published.
    messages: u64,
    published: u64,
    /// It stays where it is until then.
    stays_until: Option<Instant>,
    pub pending: Option<PendingMove>,
}

impl MoveState {
    /// Whether a move may begin.
    #[inline]
    pub fn may_begin(&self, now: Instant) -> bool {
        self.pending.is_none() && self.stays_until.is_none_or(|until| now >= until)
    }

    /// The connection stays where it is for a while.
    pub fn stay_until(&mut self, until: Instant) {
        *self = MoveState { stays_until: Some(until), ..MoveState::default() };
    }

    /// The connection has published. Returns the shard to which nearly all of a whole window went.
    #[inline]
    pub fn note(&mut self, tally: MailTally, window_messages: u64) -> Option<ShardId> {
        if tally.to.is_some() && tally.to != self.to {
            (self.to, self.messages, self.published) = (tally.to, 0, 0);
        }
        self.messages += tally.messages;
        self.published += tally.published;
        if self.published < window_messages {
            return None;
        }
        let others = self.published - self.messages;
        let to = self.to.take().filter(|_| others <= self.published / MOVE_SHARE_DIVISOR);
        (self.messages, self.published) = (0, 0);
        to
    }
}

#[cfg(test)]
mod tests {
    use super::MoveState;
    use crate::test_clock::some_instant;
    use broker::MailTally;
    use catalog::ShardId;
    use std::time::Duration;

    fn tally(to: Option<u16>, messages: u64, published: u64) -> MailTally {
        MailTally { to: to.map(ShardId), messages, published }
    }

    #[test]
    fn a_window_of_messages_to_one_shard_says_where_a_connection_belongs() {
        let mut state = MoveState::default();
        assert_eq!(state.note(tally(Some(1), 60, 60), 100), None);
        assert_eq!(state.note(tally(Some(1), 40, 40), 100), Some(ShardId(1)));
        assert_eq!(state.note(tally(Some(1), 99, 99), 100), None, "the next window is another");
        assert_eq!(state.note(tally(None, 0, 1), 100), Some(ShardId(1)), "a few may go elsewhere");
        assert_eq!(state.note(tally(Some(1), 80, 100), 100), None, "too many have stayed here");
    }

    #[test]
    fn who_publishes_to_several_shards_stays() {
        let mut state = MoveState::default();
        for batch in 0..1_000 {
            assert_eq!(state.note(tally(Some(1 + batch % 2), 60, 60), 100), None);
            assert_eq!(state.note(tally(None, 0, 30), 100), None);
        }
    }

    #[test]
    fn who_has_moved_stays_for_a_while() {
        let (mut state, now) = (MoveState::default(), some_instant());
        assert!(state.may_begin(now));
        let until = now + Duration::from_secs(1);
        state.stay_until(until);
        assert!(!state.may_begin(now) && state.may_begin(until));
    }
}
