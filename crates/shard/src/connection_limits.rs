//! Limits of connections, channels and pinned memory: how much each virtual host and each user has, on all shards.
//!
//! A shard takes the lock when a connection opens its virtual host, never for a message, a channel or memory.

use catalog::{UserId, VhostId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Default)]
struct UserCounts {
    connections: AtomicU32,
    channels: AtomicU32,
    /// Bytes that are pinned for its connections over RDMA.
    pinned_bytes: AtomicU64,
}

#[derive(Default)]
struct ConnectionCounts {
    vhosts: HashMap<VhostId, Arc<AtomicU32>>,
    users: HashMap<UserId, Arc<UserCounts>>,
    /// So many entries make it worth while to remove those that nobody uses any more.
    sweep_at: usize,
}

/// The counts of all shards.
#[derive(Default)]
pub(crate) struct ConnectionLimits(Mutex<ConnectionCounts>);

/// Which limit of connections is reached, and how many it allows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Vhost(u32),
    User(u32),
}

/// A connection, its channels and its pinned memory, counted until this is dropped.
pub(crate) struct Reservation {
    vhost: Arc<AtomicU32>,
    user: Arc<UserCounts>,
    channels: u32,
    pinned_bytes: u64,
}

/// So many entries are kept without checking whether they are in use.
const ENTRIES_KEPT: usize = 64;

/// Adds one to a count, unless that is at its limit: then returns the limit.
fn increment(count: &AtomicU32, limit: Option<u32>) -> Result<(), u32> {
    let limit = limit.unwrap_or(u32::MAX);
    let next = |count: u32| (count < limit).then(|| count + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map(drop).map_err(|_| limit)
}

impl ConnectionLimits {
    fn counts(&self) -> std::sync::MutexGuard<'_, ConnectionCounts> {
        // Counts are whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a connection, unless its virtual host or its user has as many as it may.
    pub fn reserve(
        &self,
        (vhost, vhost_max): (VhostId, Option<u32>),
        (user, user_max): (UserId, Option<u32>),
    ) -> Result<Reservation, LimitReached> {
        let mut counts = self.counts();
        if counts.vhosts.len() + counts.users.len() >= counts.sweep_at {
            counts.vhosts.retain(|_, count| Arc::strong_count(count) > 1);
            counts.users.retain(|_, user| Arc::strong_count(user) > 1);
            counts.sweep_at = ENTRIES_KEPT.max(2 * (counts.vhosts.len() + counts.users.len()));
        }
        let vhost = Arc::clone(counts.vhosts.entry(vhost).or_default());
        let user = Arc::clone(counts.users.entry(user).or_default());
        drop(counts);
        increment(&vhost, vhost_max).map_err(LimitReached::Vhost)?;
        if let Err(limit) = increment(&user.connections, user_max) {
            vhost.fetch_sub(1, Ordering::Relaxed);
            return Err(LimitReached::User(limit));
        }
        Ok(Reservation { vhost, user, channels: 0, pinned_bytes: 0 })
    }
}

impl Reservation {
    /// Counts a channel, unless the user has as many as it may: then returns how many that is.
    pub fn open_channel(&mut self, channels_max: Option<u32>) -> Result<(), u32> {
        increment(&self.user.channels, channels_max)?;
        self.channels += 1;
        Ok(())
    }

    pub fn close_channel(&mut self) {
        if let Some(left) = self.channels.checked_sub(1) {
            self.channels = left;
            self.user.channels.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts memory that is pinned for the connection. False, and nothing is counted, if its user had more than it may then.
    pub fn pin(&mut self, bytes: u64, user_bytes_max: u64) -> bool {
        let next = |pinned: u64| pinned.checked_add(bytes).filter(|pinned| *pinned <= user_bytes_max);
        let is_pinned = self.user.pinned_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        self.pinned_bytes += if is_pinned { bytes } else { 0 };
        is_pinned
    }

    /// Some of that memory is pinned no longer.
    pub fn unpin(&mut self, bytes: u64) {
        let bytes = bytes.min(self.pinned_bytes);
        self.pinned_bytes -= bytes;
        self.user.pinned_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.vhost.fetch_sub(1, Ordering::Relaxed);
        self.user.connections.fetch_sub(1, Ordering::Relaxed);
        self.user.channels.fetch_sub(self.channels, Ordering::Relaxed);
        self.user.pinned_bytes.fetch_sub(self.pinned_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionLimits, ENTRIES_KEPT, LimitReached};
    use catalog::{UserId, VhostId};

    #[test]
    fn connections_and_channels_are_counted_and_are_released_with_their_reservations() {
        let limits = ConnectionLimits::default();
        let (vhost, user) = (VhostId(1), UserId(2));
        let reserve = |vhost_max, user_max| limits.reserve((vhost, vhost_max), (user, user_max));
        let mut first = reserve(Some(2), Some(2)).expect("the first");
        let mut second = reserve(Some(2), Some(2)).expect("the second");
        assert_eq!(reserve(Some(2), None).err(), Some(LimitReached::Vhost(2)));
        assert_eq!(reserve(None, Some(2)).err(), Some(LimitReached::User(2)));
        assert_eq!(reserve(Some(0), Some(0)).err(), Some(LimitReached::Vhost(0)), "the virtual host is checked first");
        assert_eq!(first.open_channel(Some(2)), Ok(()));
        assert_eq!(second.open_channel(Some(2)), Ok(()));
        assert_eq!(first.open_channel(Some(2)), Err(2), "the channels of all connections count");
        second.close_channel();
        second.close_channel();
        assert_eq!(first.open_channel(Some(2)), Ok(()));
        drop(first);
        let mut third = reserve(Some(2), Some(2)).expect("the first is released, and refused ones are not counted");
        assert_eq!((third.open_channel(Some(2)), third.open_channel(Some(2))), (Ok(()), Ok(())));
    }

    #[test]
    fn pinned_memory_is_counted_for_a_user_and_released_with_the_connection() {
        let limits = ConnectionLimits::default();
        let reserve = |user| limits.reserve((VhostId(1), None), (UserId(user), None)).expect("no limit");
        let [mut first, mut second, mut other] = [2, 2, 3].map(reserve);
        assert!(first.pin(60, 100) && !second.pin(41, 100) && second.pin(40, 100), "of all its connections");
        assert!(other.pin(100, 100) && !other.pin(u64::MAX, u64::MAX), "another user has a share of its own");
        first.unpin(10);
        assert!(second.pin(10, 100) && !second.pin(1, 100));
        drop(first);
        assert!(second.pin(50, 100) && !second.pin(1, 100));
        second.unpin(u64::MAX);
        assert!(second.pin(100, 100), "no more is released than was pinned");
    }

    #[test]
    fn entries_that_nobody_uses_are_removed() {
        let limits = ConnectionLimits::default();
        let stays = limits.reserve((VhostId(0), None), (UserId(0), None)).expect("no limit");
        for number in 1..1000 {
            drop(limits.reserve((VhostId(number), None), (UserId(number), None)).expect("no limit"));
        }
        assert!(limits.counts().users.len() <= ENTRIES_KEPT);
        assert!(limits.counts().users.contains_key(&UserId(0)));
        drop(stays);
    }
}
