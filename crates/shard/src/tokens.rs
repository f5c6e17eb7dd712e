//! Tokens: how a client that has logged in by TCP or TLS is known again when it comes over RDMA.
//!
//! Enters: who has logged in, with the token that its connection was greeted with.  Leaves: who comes with one.
//! Owns:   the tokens that wait for their client. Each is good once, and for a while.
//! Never:  lets a token in that nobody has logged in with.

use crate::limits::TOKENS_WAITING_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbs::{TokenVerifier, RdmaToken};

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The name of the user who has logged in.
    pub user: Box<str>,
    /// Whether it did so from this machine.
    pub is_loopback: bool,
    /// Whether it brings somebody else, who has still to say who he is.
    pub carries: bool,
}

struct Waiting {
    ticket: Ticket,
    until: Instant,
    /// A port has let somebody in by it, and nobody else gets in.
    is_used: bool,
}

/// The tokens of a broker. The lock is taken when connections begin and end, and never for a message.
#[derive(Default)]
pub(crate) struct Tokens {
    waiting: Mutex<HashMap<RdmaToken, Waiting>>,
    /// How long they wait; without it none are given.
    wait: Option<Duration>,
}

impl Tokens {
    /// Tokens are given, and wait for so long.
    pub fn given(wait: Duration) -> Self {
        Tokens { wait: Some(wait), ..Tokens::default() }
    }

    pub fn are_given(&self) -> bool {
        self.wait.is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RdmaToken, Waiting>> {
        // Nothing panics while it is held, and the map is whole at every moment.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client may come with this token. If there are too many, it may not, and is refused when it tries.
    pub fn expect(&self, token: RdmaToken, ticket: Ticket, now: Instant) {
        let Some(wait) = self.wait else { return };
        let mut waiting = self.waiting();
        if waiting.len() >= TOKENS_WAITING_MAX {
            waiting.retain(|_, waiting| waiting.until > now);
        }
        if waiting.len() < TOKENS_WAITING_MAX {
            waiting.insert(token, Waiting { ticket, until: now + wait, is_used: false });
        }
    }

    /// The connection is over that the token was given to. A client that is on its way by it still arrives.
    pub fn forget(&self, token: &RdmaToken) {
        let mut waiting = self.waiting();
        if waiting.get(token).is_some_and(|waiting| !waiting.is_used) {
            waiting.remove(token);
        }
    }

    /// Who it is that was let in by this token. Once.
    pub fn claim(&self, token: &RdmaToken) -> Option<Ticket> {
        Some(self.waiting().remove(token).filter(|waiting| waiting.is_used)?.ticket)
    }

    fn admit(&self, token: &RdmaToken, now: Instant) -> bool {
        match self.waiting().get_mut(token) {
            Some(waiting) if waiting.until > now => !std::mem::replace(&mut waiting.is_used, true),
            _ => false,
        }
    }
}

impl TokenVerifier for crate::SharedState {
    #[expect(clippy::disallowed_methods, reason = "a request for a connection comes when it comes, once in its life")]
    fn admits(&self, token: &RdmaToken) -> bool {
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
        let tokens = Tokens::given(wait);
        let token = |number| RdmaToken([number; 16]);
        let ticket = |user: &str| Ticket { user: user.into(), is_loopback: false, carries: false };
        tokens.expect(token(1), ticket("a"), begin);
        tokens.expect(token(2), ticket("b"), begin);
        tokens.expect(token(3), ticket("c"), begin);
        assert_eq!(tokens.claim(&token(9)), None, "unknown");
        assert!(!tokens.admit(&token(9), begin), "unknown");
        assert!(tokens.admit(&token(1), begin + wait / 2));
        assert!(!tokens.admit(&token(1), begin + wait / 2), "used");
        tokens.forget(&token(1));
        assert_eq!(tokens.claim(&token(1)), Some(ticket("a")), "it was on its way");
        assert_eq!(tokens.claim(&token(1)), None, "used");
        assert!(!tokens.admit(&token(2), begin + wait), "late");
        tokens.forget(&token(3));
        assert!(!tokens.admit(&token(3), begin), "its connection is over");
        let none = Tokens::default();
        none.expect(token(1), ticket("a"), begin);
        assert!(!none.are_given() && !none.admit(&token(1), begin));
    }
}
