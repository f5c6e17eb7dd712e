//! Patterns and keys as words.
//!
//! Enters: what is left of a pattern or of a routing key.  Leaves: the next word; whether a key matches one pattern.

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

/// Whether a routing key matches a pattern. Adds the steps from word to word. Only the last `#` is tried again with a
/// word more: what those before it take makes no difference behind it.
pub(crate) fn matches(pattern: &[u8], key: &[u8], steps: &mut u64) -> bool {
    let (mut pattern, mut key) = (words_of(pattern), words_of(key));
    // Behind the last `#`: what is left of the pattern, and of the key if it has taken no more words.
    let mut again = None;
    loop {
        *steps += 1;
        let (mut pattern_rest, mut key_rest) = (pattern, key);
        match (next_word(&mut pattern_rest), next_word(&mut key_rest)) {
            (Some(b"#"), _) => {
                again = Some((pattern_rest, key));
                pattern = pattern_rest;
                continue;
            }
            (Some(wanted), Some(word)) if wanted == b"*" || wanted == word => {
                (pattern, key) = (pattern_rest, key_rest);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((behind, mut left)) = again else { return false };
        if next_word(&mut left).is_none() {
            return false;
        }
        (pattern, key, again) = (behind, left, Some((behind, left)));
    }
}
