//! Bootstrap tokens: a client that has logged in over TCP or TLS shows one to connect again over RDMA without a
//! password.
//!
//! Each token is valid once, and for a limited time.

use crate::limits::TOKENS_PENDING_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbs::{RdmaToken, TokenVerifier};

/// The user whose login gave a client its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenOwner {
    pub user: Box<str>,
    /// Whether the user logged in from this machine.
    pub is_loopback: bool,
    /// Whether the user brings another client, which still has to log in.
    pub is_carrier: bool,
}

struct PendingToken {
    owner: TokenOwner,
    expires_at: Instant,
    /// A port has admitted a connection by it, and admits no other.
    is_used: bool,
}

/// The tokens of a broker. The lock is taken when connections begin and end, never for a message.
#[derive(Default)]
pub(crate) struct BootstrapTokens {
    pending: Mutex<HashMap<RdmaToken, PendingToken>>,
    /// How long a token is valid; `None` if the broker gives none.
    lifetime: Option<Duration>,
}

impl BootstrapTokens {
    /// Tokens that are valid for this long.
    pub fn enabled(lifetime: Duration) -> Self {
        BootstrapTokens { lifetime: Some(lifetime), ..BootstrapTokens::default() }
    }

    pub fn are_enabled(&self) -> bool {
        self.lifetime.is_some()
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<RdmaToken, PendingToken>> {
        // Nothing panics while the lock is held, and the map is whole at every moment.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a client connect by this token. Beyond [`TOKENS_PENDING_MAX`] the token is dropped, and the client refused
    /// later.
    pub fn insert(&self, token: RdmaToken, owner: TokenOwner, now: Instant) {
        let Some(lifetime) = self.lifetime else { return };
        let mut pending = self.pending();
        if pending.len() >= TOKENS_PENDING_MAX {
            pending.retain(|_, token| token.expires_at > now);
        }
        if pending.len() < TOKENS_PENDING_MAX {
            pending.insert(token, PendingToken { owner, expires_at: now + lifetime, is_used: false });
        }
    }

    /// Revokes a token because the connection that it was given to is closed. A client that was admitted already still
    /// connects.
    pub fn remove_unused(&self, token: &RdmaToken) {
        let mut pending = self.pending();
        if pending.get(token).is_some_and(|token| !token.is_used) {
            pending.remove(token);
        }
    }

    /// The owner of the token by which a connection was admitted, once.
    pub fn redeem(&self, token: &RdmaToken) -> Option<TokenOwner> {
        Some(self.pending().remove(token).filter(|token| token.is_used)?.owner)
    }

    fn admit(&self, token: &RdmaToken, now: Instant) -> bool {
        match self.pending().get_mut(token) {
            Some(token) if token.expires_at > now => !std::mem::replace(&mut token.is_used, true),
            _ => false,
        }
    }
}

impl TokenVerifier for crate::SharedState {
    #[expect(clippy::disallowed_methods, reason = "called once a connection, when its request arrives")]
    fn admits(&self, token: &RdmaToken) -> bool {
        self.tokens.admit(token, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::some_instant;

    #[test]
    fn a_token_is_valid_once_and_for_its_lifetime() {
        let (lifetime, start) = (Duration::from_secs(30), some_instant());
        let tokens = BootstrapTokens::enabled(lifetime);
        let token = |number| RdmaToken([number; 16]);
        let owner = |user: &str| TokenOwner { user: user.into(), is_loopback: false, is_carrier: false };
        tokens.insert(token(1), owner("a"), start);
        tokens.insert(token(2), owner("b"), start);
        tokens.insert(token(3), owner("c"), start);
        assert_eq!(tokens.redeem(&token(9)), None, "unknown");
        assert!(!tokens.admit(&token(9), start), "unknown");
        assert!(tokens.admit(&token(1), start + lifetime / 2));
        assert!(!tokens.admit(&token(1), start + lifetime / 2), "used");
        tokens.remove_unused(&token(1));
        assert_eq!(tokens.redeem(&token(1)), Some(owner("a")), "it was admitted before");
        assert_eq!(tokens.redeem(&token(1)), None, "used");
        assert!(!tokens.admit(&token(2), start + lifetime), "late");
        tokens.remove_unused(&token(3));
        assert!(!tokens.admit(&token(3), start), "its connection is closed");
        let none = BootstrapTokens::default();
        none.insert(token(1), owner("a"), start);
        assert!(!none.are_enabled() && !none.admit(&token(1), start));
    }
}
