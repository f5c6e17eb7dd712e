//! The replica of the definitions that answers are made from, and what it costs to keep it.
//!
//! Enters: changes that shard 0 makes.  Leaves: a catalog, which may be a little older than the broker's while more changes come
//!         than are followed; never where a user is concerned who logs in.

use crate::management::clock::now;
use crate::management::management_limits::{RESUBSCRIPTION_PAUSE, USER_CHECK_TIMEOUT};
use catalog::{Catalog, QueueRoute, RouteQuestion, User, UserId};
use management::ApiError;
use shard::limits::DEFINITION_UPDATES_MAX;
use shard::{AdminHandle, CatalogReplica};
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// What a lost replica of the definitions is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReplicaDemand {
    None,
    /// An answer, which may be a little older.
    Reading,
    /// A change is planned with it, or was made.
    Change,
}

/// Follows the definitions of a broker.
pub struct CatalogFollower {
    operator: AdminHandle,
    replica: Box<CatalogReplica>,
    /// It gets no more changes.
    is_lost: bool,
    subscribed_at: Instant,
    /// Definitions have changed since it was last asked.
    has_changed: bool,
}

impl CatalogFollower {
    /// # Errors
    /// The broker has stopped, or there are too many replicas.
    pub fn start(operator: AdminHandle) -> io::Result<Self> {
        let replica = operator.subscribe_definitions();
        let replica = replica.ok_or_else(|| io::Error::other("the definitions are not to be had"))?;
        Ok(Self { operator, replica, is_lost: false, subscribed_at: now(), has_changed: true })
    }

    pub fn catalog(&self) -> &Catalog {
        self.replica.catalog()
    }

    pub fn find_route(&mut self, message: RouteQuestion<'_>) -> Option<Arc<QueueRoute>> {
        self.replica.find_route(message)
    }

    /// Whether definitions have changed since this was last asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Makes the changes that have come. A replica that is lost, since more of them came than wait for it, is taken anew if that is
    /// wanted: the shard that makes changes copies all definitions for it in pieces, and makes none meanwhile.
    pub fn follow(&mut self, wanted: ReplicaDemand) {
        loop {
            if self.is_lost {
                let is_due = match wanted {
                    ReplicaDemand::None => false,
                    ReplicaDemand::Reading => now().duration_since(self.subscribed_at) >= RESUBSCRIPTION_PAUSE,
                    ReplicaDemand::Change => true,
                };
                if !is_due {
                    return;
                }
                match self.operator.subscribe_definitions() {
                    Some(replica) => self.replica = replica,
                    // The broker ends.
                    None => return,
                }
                (self.is_lost, self.subscribed_at, self.has_changed) = (false, now(), true);
            }
            let applied = self.replica.apply(DEFINITION_UPDATES_MAX, |_, _| {});
            self.has_changed |= applied != Ok(0);
            match applied {
                Ok(made) if made < DEFINITION_UPDATES_MAX => return,
                Ok(_) => {}
                Err(_) => self.is_lost = true,
            }
        }
    }

    /// Makes sure that a user is here as the broker has it: its password, tags and permissions. A replica that is lost is taken anew
    /// for that only if the broker says that it has another one.
    ///
    /// # Errors
    /// The broker does not say so in time.
    pub fn follow_user(&mut self, name: &[u8]) -> Result<(), ApiError> {
        self.follow(ReplicaDemand::Reading);
        if !self.is_lost {
            return Ok(());
        }
        let Ok(name) = std::str::from_utf8(name) else { return Ok(()) };
        let known = self.catalog().user_by_name(name).map(|(id, user)| (id, user.clone()));
        let name = name.to_owned();
        let is_same = move |catalog: &Catalog| is_same(catalog.user_by_name(&name), &known);
        match self.operator.with_catalog_within(USER_CHECK_TIMEOUT, is_same) {
            Some(true) => {}
            Some(false) => self.follow(ReplicaDemand::Change),
            None => return Err(ApiError::unavailable("the broker takes too long to say who may log in")),
        }
        Ok(())
    }
}

fn is_same(now: Option<(UserId, &User)>, known: &Option<(UserId, User)>) -> bool {
    match (now, known) {
        (Some((id, user)), Some((known_id, known))) => id == *known_id && user.is_like(known),
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{CatalogFollower, ReplicaDemand};
    use catalog::{Definition, Name, Password};
    use config::{BrokerConfig, BrokerInvocation, Machine};
    use shard::limits::DEFINITION_UPDATES_MAX;
    use shard::{AdminHandle, Server};

    fn server() -> Server {
        let words = ["--listen", "127.0.0.1:0", "--shards", "2"];
        let Ok(BrokerInvocation::Run(config)) =
            BrokerConfig::load_with(words.iter().map(Into::into), [], "/nowhere".as_ref())
        else {
            panic!("the words are sound")
        };
        let (options, ..) = crate::options::options(&config, &Machine::here(), 1, "test", None).expect("sound");
        Server::start(options).expect("it starts")
    }

    fn define(operator: &AdminHandle, definitions: Vec<Definition>) {
        assert_eq!(operator.define(definitions).map(|refused| refused.len()), Some(0));
    }

    fn password(text: &str) -> Definition {
        let tags = vec![Name::from("administrator")];
        Definition::PutUser { name: Name::from("guest"), password: Password::plain(text), tags, loopback_only: false }
    }

    fn knows(follower: &CatalogFollower, text: &str) -> bool {
        follower.catalog().claim(b"guest", true).is_right_at_once(text.as_bytes())
            || follower.catalog().claim(b"guest", true).verify(text.as_bytes())
    }

    #[test]
    fn a_user_who_logs_in_is_as_the_broker_has_it_however_many_changes_come() {
        let server = server();
        let operator = server.admin();
        let mut follower = CatalogFollower::start(operator.clone()).expect("it runs");
        define(&operator, vec![password("first")]);
        follower.follow_user(b"guest").expect("in time");
        assert!(knows(&follower, "first") && !follower.is_lost);
        // More changes than wait for a replica, and then one of the user.
        let flood = |operator: &AdminHandle| {
            for _ in 0..DEFINITION_UPDATES_MAX / 32 {
                let name = |number: u32| Name::from(&*format!("v{number}"));
                define(operator, (0..64).map(|number| Definition::CreateVhost { name: name(number) }).collect());
                define(operator, (0..64).map(|number| Definition::DeleteVhost { name: name(number) }).collect());
            }
        };
        flood(&operator);
        // Whoever is as it was costs no copy of all definitions.
        follower.follow(ReplicaDemand::Reading);
        assert!(follower.is_lost, "the pause between two copies has not passed");
        follower.follow_user(b"guest").expect("in time");
        follower.follow_user(b"nobody").expect("in time");
        assert!(follower.is_lost);
        define(&operator, vec![password("second")]);
        follower.follow(ReplicaDemand::Reading);
        assert!(knows(&follower, "first"), "an answer may be older");
        follower.follow_user(b"guest").expect("in time");
        assert!(knows(&follower, "second") && !knows(&follower, "first"));
        // One that is deleted, too.
        flood(&operator);
        follower.follow(ReplicaDemand::Reading);
        define(&operator, vec![Definition::DeleteUser { name: Name::from("guest") }]);
        follower.follow(ReplicaDemand::Reading);
        assert!(follower.is_lost && follower.catalog().user_by_name("guest").is_some());
        follower.follow_user(b"guest").expect("in time");
        assert!(follower.catalog().user_by_name("guest").is_none());
        server.stop();
        server.join().expect("a good end");
        // Nobody is let in by what was known before.
        assert!(follower.follow_user(b"guest").is_err());
    }
}
