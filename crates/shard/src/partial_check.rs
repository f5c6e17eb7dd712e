//! What connections hold of frames and messages that have not arrived whole, by user: added up while memory is low, some connections
//! with each check of memory.

use crate::connection::ConnectionPhase;
use crate::connections::Connections;
use broker::ConnectionSlot;
use catalog::UserId;
use std::collections::HashMap;

/// What the connections of one user hold.
#[derive(Default)]
struct PartialContents {
    bytes: usize,
    /// The connection with most, and how much that is.
    largest: Option<(usize, ConnectionSlot)>,
}

/// The connection with most of it, of the user with most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LargestPartial {
    pub slot: ConnectionSlot,
    user: UserId,
    bytes: usize,
}

impl LargestPartial {
    /// Whether the connection holds that still: it may have gone since it was looked at, and its slot be another's.
    pub fn is_still_there(self, connections: &Connections) -> bool {
        partial_of(connections, self.slot).is_some_and(|(user, bytes)| user == self.user && bytes >= self.bytes)
    }
}

/// What all connections hold.
pub(crate) struct PartialSums {
    pub bytes: usize,
    pub most: Option<LargestPartial>,
}

/// A check under way.
#[derive(Default)]
pub(crate) struct PartialCheck {
    /// The place at which it goes on; zero if none is under way.
    next_place: usize,
    users: HashMap<UserId, PartialContents>,
    bytes: usize,
}

impl PartialCheck {
    pub fn is_under_way(&self) -> bool {
        self.next_place > 0
    }

    /// Begins a check, or goes on with it by so many connections and channels. Returns the sums once it has looked at all of them.
    pub fn proceed(&mut self, connections: &Connections, looks_max: usize) -> Option<PartialSums> {
        let mut looks = 0;
        while self.next_place < connections.places() {
            if looks >= looks_max {
                return None;
            }
            let slot = ConnectionSlot::new(self.next_place as u32);
            self.next_place += 1;
            looks += 1 + connections.get(slot).map_or(0, |connection| connection.inbound.channels_count());
            let Some((user, bytes)) = partial_of(connections, slot).filter(|(_, bytes)| *bytes > 0) else { continue };
            let of_user = self.users.entry(user).or_default();
            of_user.bytes += bytes;
            of_user.largest = of_user.largest.max(Some((bytes, slot)));
            self.bytes += bytes;
        }
        let PartialCheck { users, bytes, .. } = std::mem::take(self);
        let most = users.into_iter().max_by_key(|(user, contents)| (contents.bytes, *user));
        let most = most
            .and_then(|(user, contents)| contents.largest.map(|(bytes, slot)| LargestPartial { slot, user, bytes }));
        Some(PartialSums { bytes, most })
    }
}

/// The user of a connection, and what it holds.
fn partial_of(connections: &Connections, slot: ConnectionSlot) -> Option<(UserId, usize)> {
    let connection = connections.get(slot)?;
    let ConnectionPhase::Open { user, .. } = connection.phase else { return None };
    Some((user, connection.partial_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{LargestPartial, PartialCheck};
    use crate::connection::ConnectionPhase;
    use crate::test_sessions::{LoginClient, sessions};
    use catalog::{UserId, VhostId};

    #[test]
    fn very_many_connections_are_added_up_with_several_checks() {
        const CONNECTIONS: usize = 150;
        let mut sessions = sessions();
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| LoginClient::connect(&mut sessions, None)).collect();
        for (number, client) in clients.iter().enumerate() {
            let connection = sessions.connections.get_mut(client.slot).expect("open");
            // The first ones are of one user, which has most, and the last ones of another, with the largest.
            let user = UserId(u32::from(number >= CONNECTIONS - 3));
            connection.phase = ConnectionPhase::Open { user, vhost: VhostId(0) };
            connection.unconsumed = vec![0; if user == UserId(1) { 100 } else { 1 + number % 7 }];
        }
        // One that has not logged in does not count.
        sessions.connections.get_mut(clients[0].slot).expect("open").phase = ConnectionPhase::Greeting;
        let mut check = PartialCheck::default();
        for _ in 0..2 {
            assert!(
                !check.is_under_way() && check.proceed(&sessions.connections, 100).is_none() && check.is_under_way()
            );
            let sums = check.proceed(&sessions.connections, 100).expect("all of them");
            let small: usize = (1..CONNECTIONS - 3).map(|number| 1 + number % 7).sum();
            assert_eq!(sums.bytes, small + 300);
            let most = sums.most.expect("there are such users");
            let slot = most.slot;
            assert_eq!(most, LargestPartial { slot, user: UserId(0), bytes: 7 });
            assert!(most.is_still_there(&sessions.connections));
            let connection = sessions.connections.get_mut(slot).expect("open");
            let rest = std::mem::replace(&mut connection.unconsumed, vec![0; 6]);
            assert!(!most.is_still_there(&sessions.connections), "it is another");
            sessions.connections.get_mut(slot).expect("open").unconsumed = rest;
        }
    }
}
