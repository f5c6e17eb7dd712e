//! Bodies of messages that lie one behind another, each in the same heads.
//!
//! Enters: bytes that hold nothing but such messages.  Leaves: their bodies.
//! Owns:   where in these bytes the bodies are.

/// The bodies of a run: messages of one size, whose bodies are of one size and stand at one place of each. There is one at least.
#[derive(Clone, Copy, Debug)]
pub struct BodyRun<'a> {
    messages: &'a [u8],
    message_bytes: usize,
    body_at: usize,
    body_bytes: usize,
}

impl<'a> BodyRun<'a> {
    /// The bodies of so many bytes that stand behind so many others in each message of `messages`.
    ///
    /// # Panics
    /// If there is no message, if one is not whole, or if they are too short for their bodies.
    #[inline]
    pub fn new(messages: &'a [u8], message_bytes: usize, body_at: usize, body_bytes: usize) -> Self {
        assert!(body_at + body_bytes <= message_bytes, "a body outside of its message");
        let whole = messages.len().checked_rem(message_bytes) == Some(0);
        assert!(whole && !messages.is_empty(), "a run of whole messages");
        Self { messages, message_bytes, body_at, body_bytes }
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is one at least")]
    #[inline]
    pub fn len(&self) -> usize {
        self.messages.len() / self.message_bytes
    }

    /// Bytes of each body.
    #[inline]
    pub fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Bytes of each message.
    #[inline]
    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// The first of them.
    #[inline]
    pub fn first(&self) -> &'a [u8] {
        &self.messages[self.body_at..self.body_at + self.body_bytes]
    }

    /// The bodies, in their order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (from, to) = (self.body_at, self.body_at + self.body_bytes);
        self.messages.chunks_exact(self.message_bytes).map(move |message| &message[from..to])
    }

    /// The first `n` of them, or all; `None` if `n` is zero.
    #[inline]
    pub fn take(&self, n: usize) -> Option<Self> {
        let messages = &self.messages[..self.messages.len().min(n.saturating_mul(self.message_bytes))];
        (!messages.is_empty()).then_some(Self { messages, ..*self })
    }

    /// Those behind the first `n`, if there are any.
    #[inline]
    pub fn skip(&self, n: usize) -> Option<Self> {
        let messages = self.messages.get(n.saturating_mul(self.message_bytes)..)?;
        (!messages.is_empty()).then_some(Self { messages, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::BodyRun;

    #[test]
    fn a_run_is_as_long_as_its_messages_and_is_cut_between_them() {
        let run = BodyRun::new(b"<ab><cd><ef>", 4, 1, 2);
        let bodies = |run: Option<BodyRun<'static>>| run.map(|run| run.iter().collect::<Vec<_>>());
        assert_eq!((run.len(), run.body_bytes(), run.message_bytes(), run.first()), (3, 2, 4, &b"ab"[..]));
        assert_eq!(bodies(Some(run)), Some(vec![&b"ab"[..], b"cd", b"ef"]));
        assert_eq!(bodies(run.take(2)), Some(vec![&b"ab"[..], b"cd"]));
        assert_eq!(bodies(run.skip(2)), Some(vec![&b"ef"[..]]));
        assert_eq!((bodies(run.take(9)).map(|all| all.len()), bodies(run.take(0))), (Some(3), None));
        assert!(run.skip(3).is_none() && run.skip(usize::MAX).is_none());
        let empty = BodyRun::new(b"--", 1, 1, 0);
        assert_eq!(bodies(Some(empty)), Some(vec![&b""[..], b""]));
    }

    #[test]
    #[should_panic(expected = "whole messages")]
    fn a_run_of_a_part_of_a_message_is_refused() {
        let _run = BodyRun::new(b"<ab><", 4, 1, 2);
    }
}
