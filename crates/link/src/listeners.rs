//! Listeners of one thread, as its loop has them.
//!
//! Enters: listeners, a poll.  Leaves: every link that waits at any of them.
//! Owns:   their tokens, counted down from the first.
//! Never:  places a link: who gets it is for the caller to say.

use crate::{Link, Listener};
use mio::{Registry, Token};
use std::io;

/// All that a thread listens at.
pub struct Listeners(Vec<Listener>);

impl From<Vec<Listener>> for Listeners {
    fn from(listeners: Vec<Listener>) -> Self {
        Listeners(listeners)
    }
}

impl Listeners {
    /// Reports waiting clients to `registry`: the first under this token, each further one under one less.
    ///
    /// # Errors
    /// What the system says.
    pub fn register(&mut self, registry: &Registry, first: Token) -> io::Result<()> {
        self.0.iter_mut().enumerate().try_for_each(|(at, listener)| listener.register(registry, Token(first.0 - at)))
    }

    /// Hands over every link that waits. At a listener that fails, the error, and the others go on.
    pub fn accept(&mut self, mut take: impl FnMut(io::Result<Box<dyn Link>>)) {
        for listener in &mut self.0 {
            loop {
                match listener.accept() {
                    Ok(Some(link)) => take(Ok(link)),
                    Ok(None) => break,
                    Err(error) => {
                        take(Err(error));
                        break;
                    }
                }
            }
        }
    }
}
