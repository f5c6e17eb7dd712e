//! All listeners of one thread under consecutive tokens.

use crate::{Link, Listener};
use mio::{Registry, Token};
use std::io;

/// The listeners of a thread.
pub struct Listeners(Vec<Listener>);

impl From<Vec<Listener>> for Listeners {
    fn from(listeners: Vec<Listener>) -> Self {
        Listeners(listeners)
    }
}

impl Listeners {
    /// Reports waiting connections to `registry`: the first listener under `first`, each further one under the token
    /// before.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn register(&mut self, registry: &Registry, first: Token) -> io::Result<()> {
        self.0.iter_mut().enumerate().try_for_each(|(at, listener)| listener.register(registry, Token(first.0 - at)))
    }

    /// Accepts so many waiting connections of each listener at most. The error of a listener is passed on, and the other listeners
    /// are served. Returns whether more may be waiting.
    pub fn accept(&mut self, count_max: usize, mut take: impl FnMut(io::Result<Box<dyn Link>>)) -> bool {
        let mut has_more = false;
        for listener in &mut self.0 {
            let mut left = count_max;
            has_more |= loop {
                if left == 0 {
                    break true;
                }
                left -= 1;
                match listener.accept() {
                    Ok(Some(link)) => take(Ok(link)),
                    Ok(None) => break false,
                    Err(error) => {
                        take(Err(error));
                        break false;
                    }
                }
            };
        }
        has_more
    }
}
