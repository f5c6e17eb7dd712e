//! Sessions of browsers: who logged in by `POST /api/login`, until it logs out, stays away for long, or is another user.
//!
//! Enters: users who have proved themselves, tokens, the time.  Leaves: whose session a token is.
//! Owns:   a digest of each token. A token is known to the browser alone.

use crate::limits::{LOGIN_SESSION_IDLE_MAX, LOGIN_SESSIONS_MAX, LOGIN_SESSIONS_OF_USER_MAX};
use base64ct::{Base64UrlUnpadded, Encoding};
use catalog::{Catalog, Name, Password, UserId};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::time::Instant;

/// The secret of a session: 256 bits that nobody can guess.
#[derive(Clone, Copy)]
pub struct SessionToken([u8; 32]);

impl SessionToken {
    /// One of random numbers.
    pub fn new(random: [u64; 4]) -> Self {
        let mut bytes = [0; 32];
        for (part, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(random) {
            *part = number.to_le_bytes();
        }
        Self(bytes)
    }

    /// As a cookie has it.
    pub fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let decoded = Base64UrlUnpadded::decode(text, &mut bytes).ok()?;
        (decoded.len() == 32).then_some(Self(bytes))
    }

    /// The letters of it, all of which may be in a cookie.
    pub fn written(&self) -> String {
        Base64UrlUnpadded::encode_string(&self.0)
    }

    /// What is looked up: how long that takes says nothing of the token.
    fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

struct LoginSession {
    user: UserId,
    /// As they were at the login: a session ends when one of them changes.
    password: Password,
    tags: Vec<Name>,
    used_at: Instant,
}

impl LoginSession {
    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used_at) >= LOGIN_SESSION_IDLE_MAX
    }

    fn is_of_today(&self, catalog: &Catalog) -> bool {
        let user = catalog.user_at(self.user);
        user.is_some_and(|user| user.password == self.password && user.tags[..] == self.tags[..])
    }
}

/// The sessions that there are.
#[derive(Default)]
pub struct LoginSessions(HashMap<[u8; 32], LoginSession>);

impl LoginSessions {
    /// Begins a session. If its user has too many, or all users together, the one that was used longest ago ends.
    pub fn begin(&mut self, token: &SessionToken, user: UserId, catalog: &Catalog, now: Instant) {
        let Some(found) = catalog.user_at(user) else { return };
        self.0.retain(|_, session| !session.is_idle(now) && session.is_of_today(catalog));
        if self.0.values().filter(|session| session.user == user).count() >= LOGIN_SESSIONS_OF_USER_MAX {
            self.end_oldest(|session| session.user == user);
        }
        if self.0.len() >= LOGIN_SESSIONS_MAX {
            self.end_oldest(|_| true);
        }
        let (password, tags) = (found.password.clone(), found.tags.to_vec());
        self.0.insert(token.digest(), LoginSession { user, password, tags, used_at: now });
    }

    fn end_oldest(&mut self, is_meant: impl Fn(&LoginSession) -> bool) {
        let oldest = self.0.iter().filter(|(_, session)| is_meant(session)).min_by_key(|(_, session)| session.used_at);
        if let Some(digest) = oldest.map(|(digest, _)| *digest) {
            self.0.remove(&digest);
        }
    }

    /// Whose session it is, or was: it may have ended since.
    pub fn owner(&self, token: &SessionToken) -> Option<UserId> {
        self.0.get(&token.digest()).map(|session| session.user)
    }

    /// The user whose session it is, which is used now.
    pub fn user(&mut self, token: &SessionToken, catalog: &Catalog, now: Instant) -> Option<UserId> {
        let digest = token.digest();
        let session = self.0.get_mut(&digest)?;
        if session.is_idle(now) || !session.is_of_today(catalog) {
            self.0.remove(&digest);
            return None;
        }
        session.used_at = now;
        Some(session.user)
    }

    /// Ends a session, if it is one.
    pub fn end(&mut self, token: &SessionToken) {
        self.0.remove(&token.digest());
    }
}

#[cfg(test)]
mod tests {
    use super::{LoginSessions, SessionToken};
    use crate::catalog_source::CatalogSource;
    use crate::limits::{LOGIN_SESSION_IDLE_MAX, LOGIN_SESSIONS_MAX, LOGIN_SESSIONS_OF_USER_MAX};
    use catalog::{Definition, Name, Password, UserId};
    use std::time::{Duration, Instant};

    fn put(source: &mut CatalogSource, name: &str, password: &str, tag: &str) -> UserId {
        let (password, tags) = (Password::plain(password), vec![Name::from(tag)]);
        source.define([Definition::PutUser { name: Name::from(name), password, tags, loopback_only: false }]);
        source.catalog.user_by_name(name).expect("it is there").0
    }

    #[expect(clippy::disallowed_methods, reason = "an instant from which the test counts")]
    fn instant() -> Instant {
        Instant::now()
    }

    fn token(number: u64) -> SessionToken {
        SessionToken::new([number, 1, 2, 3])
    }

    #[test]
    fn a_token_is_written_in_letters_and_read_again() {
        let written = SessionToken::new([u64::MAX, 0, 1 << 63, 7]).written();
        assert!(
            written.len() == 43 && written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        );
        assert_eq!(SessionToken::read(&written).expect("it is one").written(), written);
        for wrong in ["", "a", &written[1..], &format!("{written}A"), &format!("{}=", &written[1..])] {
            assert!(SessionToken::read(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_session_lasts_as_long_as_it_is_used() {
        let (mut source, mut sessions, mut now) = (CatalogSource::default(), LoginSessions::default(), instant());
        let user = put(&mut source, "u", "p", "management");
        sessions.begin(&token(1), user, &source.catalog, now);
        assert_eq!(sessions.user(&token(2), &source.catalog, now), None);
        for _ in 0..3 {
            now += LOGIN_SESSION_IDLE_MAX - Duration::from_secs(1);
            assert_eq!(sessions.user(&token(1), &source.catalog, now), Some(user));
        }
        now += LOGIN_SESSION_IDLE_MAX;
        assert_eq!(sessions.user(&token(1), &source.catalog, now), None);
        sessions.begin(&token(3), user, &source.catalog, now);
        sessions.end(&token(3));
        assert_eq!(sessions.user(&token(3), &source.catalog, now), None);
        assert!(sessions.0.is_empty());
    }

    #[test]
    fn a_user_who_is_another_one_has_no_session() {
        type Change = fn(&mut CatalogSource);
        let changes: [(Change, bool); 4] = [
            (|_| (), true),
            (|source| _ = put(source, "u", "q", "management"), false),
            (|source| _ = put(source, "u", "p", "monitoring"), false),
            (
                |source| {
                    source.define([Definition::DeleteUser { name: Name::from("u") }]);
                    put(source, "u", "p", "management");
                },
                false,
            ),
        ];
        for (change, stays) in changes {
            let (mut source, mut sessions, now) = (CatalogSource::default(), LoginSessions::default(), instant());
            let user = put(&mut source, "u", "p", "management");
            sessions.begin(&token(1), user, &source.catalog, now);
            change(&mut source);
            assert_eq!(sessions.user(&token(1), &source.catalog, now).is_some(), stays);
            assert_eq!(sessions.0.len(), usize::from(stays));
        }
    }

    #[test]
    fn sessions_are_bounded_for_a_user_and_for_all() {
        let (mut source, mut sessions, now) = (CatalogSource::default(), LoginSessions::default(), instant());
        let first = put(&mut source, "0", "p", "management");
        let at = |number: u64| now + Duration::from_millis(number);
        for number in 0..=LOGIN_SESSIONS_OF_USER_MAX as u64 {
            sessions.begin(&token(number), first, &source.catalog, at(number));
        }
        assert_eq!(sessions.0.len(), LOGIN_SESSIONS_OF_USER_MAX);
        let has = |sessions: &mut LoginSessions, source: &CatalogSource, number| {
            sessions.user(&token(number), &source.catalog, at(number)).is_some()
        };
        assert!(!has(&mut sessions, &source, 0) && has(&mut sessions, &source, 1));
        for number in 100..100 + LOGIN_SESSIONS_MAX as u64 {
            let user = put(&mut source, &(number % 100).to_string(), "p", "management");
            sessions.begin(&token(number), user, &source.catalog, at(number));
        }
        assert_eq!(sessions.0.len(), LOGIN_SESSIONS_MAX);
        assert!(!has(&mut sessions, &source, 1), "those that were used longest ago end first");
        // Those that have ended make place.
        let later = now + LOGIN_SESSION_IDLE_MAX + Duration::from_secs(2);
        sessions.begin(&token(1), first, &source.catalog, later);
        assert_eq!(sessions.0.len(), 1);
    }
}
