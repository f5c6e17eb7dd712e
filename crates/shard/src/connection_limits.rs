//! The register: how many connections and channels virtual hosts and users have, and how much waits for the former.
//!
//! Enters: connections that open a virtual host, their channels, each shard's share of what waits.  Leaves: yes or no; sums.
//! Owns:   the counts of all shards. One lock, taken when a connection opens a virtual host, and while bytes are counted.
//! Never:  is asked on the way of a message; forgets a connection that is still there.

use catalog::{UserId, VhostId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a user has.
#[derive(Default)]
struct UserCounts {
    connections: AtomicU32,
    channels: AtomicU32,
}

#[derive(Default)]
struct ConnectionCounts {
    vhosts: HashMap<VhostId, Arc<AtomicU32>>,
    users: HashMap<UserId, Arc<UserCounts>>,
    /// Entries at which those that count nothing any more are looked for.
    sweep_at: usize,
    /// What waits for a virtual host whose bytes are counted: a number a shard.
    waiting: HashMap<VhostId, Vec<u64>>,
}

/// The counts of all shards.
#[derive(Default)]
pub(crate) struct ConnectionLimits(Mutex<ConnectionCounts>);

/// Who has as many connections as it may.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// The virtual host, which may have so many.
    Vhost(u32),
    /// The user, who may have so many.
    User(u32),
}

/// A connection's entries in the register. They go with it.
pub(crate) struct Reservation {
    vhost: Arc<AtomicU32>,
    user: Arc<UserCounts>,
    channels: u32,
}

/// Entries that are kept without looking whether they still count anything.
const ENTRIES_KEPT: usize = 64;

fn add(count: &AtomicU32, most: Option<u32>) -> Result<(), u32> {
    let most = most.unwrap_or(u32::MAX);
    let more = |count: u32| (count < most).then(|| count + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop).map_err(|_| most)
}

impl ConnectionLimits {
    fn counts(&self) -> std::sync::MutexGuard<'_, ConnectionCounts> {
        // Counts are whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a connection, unless its virtual host or its user has as many as it may.
    pub fn reserve(
        &self,
        (vhost, vhost_max): (VhostId, Option<u32>),
        (user, user_max): (UserId, Option<u32>),
    ) -> Result<Reservation, LimitReached> {
        let mut books = self.counts();
        if books.vhosts.len() + books.users.len() >= books.sweep_at {
            books.vhosts.retain(|_, count| Arc::strong_count(count) > 1);
            books.users.retain(|_, holdings| Arc::strong_count(holdings) > 1);
            books.sweep_at = ENTRIES_KEPT.max(2 * (books.vhosts.len() + books.users.len()));
        }
        let vhost = Arc::clone(books.vhosts.entry(vhost).or_default());
        let user = Arc::clone(books.users.entry(user).or_default());
        drop(books);
        add(&vhost, vhost_max).map_err(LimitReached::Vhost)?;
        if let Err(most) = add(&user.connections, user_max) {
            vhost.fetch_sub(1, Ordering::Relaxed);
            return Err(LimitReached::User(most));
        }
        Ok(Reservation { vhost, user, channels: 0 })
    }

    /// Notes what waits for a virtual host on one shard. Answers what waits on all of them.
    pub fn record_queued_bytes(&self, vhost: VhostId, shard: u16, bytes: u64) -> u64 {
        let mut books = self.counts();
        let shares = books.waiting.entry(vhost).or_default();
        let at = usize::from(shard);
        if shares.len() <= at {
            shares.resize(at + 1, 0);
        }
        shares[at] = bytes;
        shares.iter().sum()
    }
}

impl Reservation {
    /// Enters a channel, unless the user has as many as it may: then how many that is.
    pub fn open_channel(&mut self, channels_max: Option<u32>) -> Result<(), u32> {
        add(&self.user.channels, channels_max)?;
        self.channels += 1;
        Ok(())
    }

    /// A channel is gone.
    pub fn close_channel(&mut self) {
        if let Some(left) = self.channels.checked_sub(1) {
            self.channels = left;
            self.user.channels.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.vhost.fetch_sub(1, Ordering::Relaxed);
        self.user.connections.fetch_sub(1, Ordering::Relaxed);
        self.user.channels.fetch_sub(self.channels, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitReached, ENTRIES_KEPT, ConnectionLimits};
    use catalog::{UserId, VhostId};

    #[test]
    fn connections_and_channels_are_counted_and_leave_with_their_seats() {
        let register = ConnectionLimits::default();
        let (vhost, user) = (VhostId(1), UserId(2));
        let enter = |vhost_max, user_max| register.reserve((vhost, vhost_max), (user, user_max));
        let mut first = enter(Some(2), Some(2)).expect("the first");
        let mut second = enter(Some(2), Some(2)).expect("the second");
        assert_eq!(enter(Some(2), None).err(), Some(LimitReached::Vhost(2)));
        assert_eq!(enter(None, Some(2)).err(), Some(LimitReached::User(2)));
        assert_eq!(enter(Some(0), Some(0)).err(), Some(LimitReached::Vhost(0)), "the virtual host is asked first");
        assert_eq!(first.open_channel(Some(2)), Ok(()));
        assert_eq!(second.open_channel(Some(2)), Ok(()));
        assert_eq!(first.open_channel(Some(2)), Err(2), "the channels of all connections count");
        second.close_channel();
        second.close_channel();
        assert_eq!(first.open_channel(Some(2)), Ok(()));
        drop(first);
        let mut third = enter(Some(2), Some(2)).expect("the first has gone, and what was refused counts nowhere");
        assert_eq!((third.open_channel(Some(2)), third.open_channel(Some(2))), (Ok(()), Ok(())));
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let register = ConnectionLimits::default();
        let stays = register.reserve((VhostId(0), None), (UserId(0), None)).expect("no limit");
        for number in 1..1000 {
            drop(register.reserve((VhostId(number), None), (UserId(number), None)).expect("no limit"));
        }
        assert!(register.counts().users.len() <= ENTRIES_KEPT);
        assert!(register.counts().users.contains_key(&UserId(0)));
        drop(stays);
        assert_eq!([register.record_queued_bytes(VhostId(1), 1, 5), register.record_queued_bytes(VhostId(1), 0, 2)], [5, 7]);
        assert_eq!(register.record_queued_bytes(VhostId(1), 1, 0), 2);
    }
}
