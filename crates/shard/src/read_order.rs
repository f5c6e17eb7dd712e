//! Who reads first once the disk has taken some of what waits for it: those whom the others had left no room.
//!
//! A shard reads what other shards send, then its connections, then does what was left for later. Where one of them fills the
//! room at once that the disk makes, those behind it would never have a turn.

use catalog::ShardId;

/// What a shard reads, in the order of a tick.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum WorkSource {
    #[default]
    Mail,
    Connections,
    Deferred,
}

/// Who is first in the next tick in which the disk has room.
#[derive(Default)]
pub(crate) struct ReadOrder {
    source: WorkSource,
    /// The shard whose mail is first.
    sender: usize,
}

impl ReadOrder {
    /// The first source of a tick; those before it have no turn. Only one that has work is.
    pub fn first(&self, has_work: impl Fn(WorkSource) -> bool) -> WorkSource {
        if has_work(self.source) { self.source } else { WorkSource::Mail }
    }

    /// A tick that began with `first` and with room has ended. If none is left, the next source with work was left out.
    pub fn end_tick(&mut self, first: WorkSource, is_congested: bool, has_work: impl Fn(WorkSource) -> bool) {
        let left_out = [WorkSource::Connections, WorkSource::Deferred];
        let mut left_out = left_out.into_iter().filter(|source| is_congested && *source > first && has_work(*source));
        self.source = left_out.next().unwrap_or_default();
    }

    /// The shards in the order in which their mail is received.
    pub fn senders(&self, shards: usize) -> impl Iterator<Item = ShardId> + use<> {
        let first = self.sender;
        (0..shards).map(move |at| ShardId(((first + at) % shards) as u16))
    }

    /// There was no room for the mail of this shard.
    pub fn leave_out(&mut self, sender: ShardId) {
        self.sender = usize::from(sender.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{ReadOrder, WorkSource};
    use catalog::ShardId;

    #[test]
    fn who_was_left_out_is_first_when_there_is_room() {
        let (mut order, all) = (ReadOrder::default(), |_| true);
        let mut firsts = Vec::new();
        // The first always fills the disk.
        for _ in 0..4 {
            let first = order.first(all);
            firsts.push(first);
            order.end_tick(first, true, all);
        }
        assert_eq!(firsts, [WorkSource::Mail, WorkSource::Connections, WorkSource::Deferred, WorkSource::Mail]);
        let mail_alone = |source| source == WorkSource::Mail;
        assert_eq!(order.first(mail_alone), WorkSource::Mail, "whoever has nothing to do is not waited for");
        order.end_tick(WorkSource::Mail, true, all);
        order.end_tick(WorkSource::Connections, false, all);
        assert_eq!(order.first(all), WorkSource::Mail, "there was room for all");
    }

    #[test]
    fn the_mail_that_was_left_out_is_first() {
        let mut order = ReadOrder::default();
        assert!(order.senders(3).eq([0, 1, 2].map(ShardId)));
        order.leave_out(ShardId(2));
        assert!(order.senders(3).eq([2, 0, 1].map(ShardId)));
    }
}
