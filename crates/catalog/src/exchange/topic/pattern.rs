//! Patterns and keys as words.
//!
//! Enters: what is left of a pattern or of a routing key.  Leaves: the next word.

/// All words of a key or pattern. An empty one has no word, and not one empty word, as in RabbitMQ.
#[inline]
pub(super) fn words_of(text: &[u8]) -> Option<&[u8]> {
    (!text.is_empty()).then_some(text)
}

/// Takes the first word off. `None` as rest means that no word is left; an empty rest is one empty word.
#[inline]
pub(super) fn next_word<'a>(rest: &mut Option<&'a [u8]>) -> Option<&'a [u8]> {
    let text = (*rest)?;
    match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => {
            *rest = Some(&text[dot + 1..]);
            Some(&text[..dot])
        }
        None => {
            *rest = None;
            Some(text)
        }
    }
}
