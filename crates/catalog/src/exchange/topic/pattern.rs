//! Patterns and keys as words, and matching one against the other without a trie.
//!
//! Enters: what is left of a pattern and of a routing key.  Leaves: the next word; whether they match.

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

/// Whether the rest of a pattern, with a `#` in front of it if `hash_first`, matches the rest of a key.
pub(super) fn matches(hash_first: bool, mut pattern: Option<&[u8]>, mut key: Option<&[u8]>) -> bool {
    // Where to go on when the last `#` has to take one more word: the pattern behind it, and the key it was tried at.
    let mut again = hash_first.then_some((pattern, key));
    loop {
        let mut pattern_rest = pattern;
        let mut key_rest = key;
        match next_word(&mut pattern_rest) {
            Some(b"#") if pattern_rest.is_none() => return true,
            Some(b"#") => {
                pattern = pattern_rest;
                again = Some((pattern, key));
                continue;
            }
            Some(word) if next_word(&mut key_rest).is_some_and(|next| word == b"*" || word == next) => {
                (pattern, key) = (pattern_rest, key_rest);
                continue;
            }
            None if key.is_none() => return true,
            _ => {}
        }
        let Some((behind, mut from)) = again else { return false };
        if next_word(&mut from).is_none() {
            return false;
        }
        (pattern, key) = (behind, from);
        again = Some((behind, from));
    }
}
