//! Matching of topic binding keys, written as the specification reads, to be compared with the broker's own.

/// Whether a topic exchange routes a message with this key through a binding with that pattern.
pub fn matches(pattern: &str, key: &str) -> bool {
    matches_words(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}

/// `*` is one word, `#` is any number of them.
fn matches_words(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], []) => true,
        (["#", rest @ ..], _) => (0..=words.len()).any(|skipped| matches_words(rest, &words[skipped..])),
        (["*", rest @ ..], [_, words @ ..]) => matches_words(rest, words),
        ([word, rest @ ..], [other, words @ ..]) => word == other && matches_words(rest, words),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_by_words() {
        let check = |pattern: &str, key: &str, expect: bool| {
            assert_eq!(matches(pattern, key), expect, "{pattern:?} on {key:?}");
        };
        check("a.b", "a.b", true);
        check("a.*", "a.b", true);
        check("a.*", "a", false);
        check("a.*", "a.b.c", false);
        check("a.#", "a", true);
        check("a.#.c", "a.c", true);
        check("a.#.c", "a.b.b.c", true);
        check("#", "a.b", true);
    }
}
