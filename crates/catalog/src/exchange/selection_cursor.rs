//! How far an exchange has come in selecting bindings for a message.

use super::consistent_hash::HashCursor;
use super::headers::HeadersCursor;
use super::topic::TopicCursor;

/// Where an exchange goes on that has not selected all bindings for a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionCursor {
    pub topic: TopicCursor,
    pub headers: HeadersCursor,
    pub hash: HashCursor,
    /// How often a headers exchange has begun anew: the binding was gone at which it had stopped.
    pub headers_restarts: u32,
    /// It has selected all of them.
    pub is_done: bool,
}

impl SelectionCursor {
    /// How often it has begun anew, since bindings had come or gone.
    pub fn restarts(&self) -> u32 {
        self.hash.restarts.wrapping_add(self.headers_restarts)
    }

    /// From the beginning.
    #[inline]
    pub fn clear(&mut self) {
        self.topic.clear();
        self.headers = HeadersCursor::Begin;
        self.hash.clear();
        self.is_done = false;
    }

    pub fn bytes(&self) -> usize {
        self.topic.bytes()
    }
}
