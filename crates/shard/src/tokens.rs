//! Tokens: how a client that has logged in by TCP or TLS is known again when it comes over RDMA.
//!
//! Enters: who has logged in, with the token that its connection was greeted with.  Leaves: who comes with one.
//! Owns:   the tokens that wait for their client. Each is good once, and for a while.
//! Never:  lets a token in that nobody has logged in with.

use crate::limits::TOKENS_PENDING_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbs::{Doorkeeper, Token};

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenOwner {
    /// The name of the user who has logged in.
    pub user: Box<str>,
    /// Whether it did so from this machine.
    pub is_loopback: bool,
    /// Whether it brings somebody else, who has still to say who he is.
    pub is_carrier: bool,
}

struct PendingToken {
    owner: TokenOwner,
    expires_at: Instant,
    /// A port has let somebody in by it, and nobody else gets in.
    is_used: bool,
}

/// The tokens of a broker. The lock is taken when connections begin and end, and never for a message.
#[derive(Default)]
pub(crate) struct BootstrapTokens {
    pending: Mutex<HashMap<Token, PendingToken>>,
    /// How long they wait; without it none are given.
    lifetime: Option<Duration>,
}

impl BootstrapTokens {
    /// Tokens are given, and wait for so long.
    pub fn enabled(wait: Duration) -> Self {
        BootstrapTokens { lifetime: Some(wait), ..BootstrapTokens::default() }
    }

    pub fn are_enabled(&self) -> bool {
        self.lifetime.is_some()
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Token, PendingToken>> {
        // Nothing panics while it is held, and the map is whole at every moment.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client may come with this token. If there are too many, it may not, and is refused when it tries.
    pub fn insert(&self, token: Token, ticket: TokenOwner, now: Instant) {
        let Some(wait) = self.lifetime else { return };
        let mut waiting = self.pending();
        if waiting.len() >= TOKENS_PENDING_MAX {
            waiting.retain(|_, waiting| waiting.expires_at > now);
        }
        if waiting.len() < TOKENS_PENDING_MAX {
            waiting.insert(token, PendingToken { owner: ticket, expires_at: now + wait, is_used: false });
        }
    }

    /// The connection is over that the token was given to. A client that is on its way by it still arrives.
    pub fn remove_unused(&self, token: &Token) {
        let mut waiting = self.pending();
        if waiting.get(token).is_some_and(|waiting| !waiting.is_used) {
            waiting.remove(token);
        }
    }

    /// Who it is that was let in by this token. Once.
    pub fn redeem(&self, token: &Token) -> Option<TokenOwner> {
        Some(self.pending().remove(token).filter(|waiting| waiting.is_used)?.owner)
    }

    fn admit(&self, token: &Token, now: Instant) -> bool {
        match self.pending().get_mut(token) {
            Some(waiting) if waiting.expires_at > now => !std::mem::replace(&mut waiting.is_used, true),
            _ => false,
        }
    }
}

impl Doorkeeper for crate::SharedState {
    #[expect(clippy::disallowed_methods, reason = "a request for a connection comes when it comes, once in its life")]
    fn admits(&self, token: &Token) -> bool {
        self.tokens.admit(token, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "simulated time needs some instant to count from")]
    fn some_instant() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_token_is_good_once_and_for_a_while() {
        let (wait, begin) = (Duration::from_secs(30), some_instant());
        let tokens = BootstrapTokens::enabled(wait);
        let token = |number| Token([number; 16]);
        let ticket = |user: &str| TokenOwner { user: user.into(), is_loopback: false, is_carrier: false };
        tokens.insert(token(1), ticket("a"), begin);
        tokens.insert(token(2), ticket("b"), begin);
        tokens.insert(token(3), ticket("c"), begin);
        assert_eq!(tokens.redeem(&token(9)), None, "unknown");
        assert!(!tokens.admit(&token(9), begin), "unknown");
        assert!(tokens.admit(&token(1), begin + wait / 2));
        assert!(!tokens.admit(&token(1), begin + wait / 2), "used");
        tokens.remove_unused(&token(1));
        assert_eq!(tokens.redeem(&token(1)), Some(ticket("a")), "it was on its way");
        assert_eq!(tokens.redeem(&token(1)), None, "used");
        assert!(!tokens.admit(&token(2), begin + wait), "late");
        tokens.remove_unused(&token(3));
        assert!(!tokens.admit(&token(3), begin), "its connection is over");
        let none = BootstrapTokens::default();
        none.insert(token(1), ticket("a"), begin);
        assert!(!none.are_enabled() && !none.admit(&token(1), begin));
    }
}
