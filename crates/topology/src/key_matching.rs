//! Whether one message can match the keys of two bindings of the same exchange.
//!
//! If that is unknown, the answer is yes.

/// How an exchange matches the key of a binding with that of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMatching {
    /// Both must be equal (`direct`).
    Exact,
    /// The binding's key is a pattern of words (`topic`).
    Pattern,
    /// Not by key, or in an unknown way (`fanout`, `headers`, unknown types).
    Unknown,
}

impl KeyMatching {
    pub fn of_exchange_type(kind: &str) -> Self {
        match kind {
            "direct" => KeyMatching::Exact,
            "topic" => KeyMatching::Pattern,
            _ => KeyMatching::Unknown,
        }
    }

    /// Whether one message can match both keys.
    pub fn may_overlap(self, one: &str, other: &str) -> bool {
        match self {
            KeyMatching::Exact => one == other,
            KeyMatching::Pattern => patterns_overlap(one, other),
            KeyMatching::Unknown => true,
        }
    }
}

/// Whether some key matches both patterns of a topic exchange: `*` is one word, `#` any number of words, dots separate
/// words.
pub fn patterns_overlap(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    // `meets[at]`: the words of `one` so far, and those of `other` up to `at`, can match the same words. Computed row
    // by row.
    let mut meets = vec![false; other.len() + 1];
    meets[0] = true;
    for (at, word) in other.iter().enumerate() {
        meets[at + 1] = meets[at] && *word == "#";
    }
    for word in one {
        let mut before = meets[0];
        meets[0] &= word == "#";
        for (at, facing) in other.iter().enumerate() {
            let above = meets[at + 1];
            meets[at + 1] = match (word, *facing) {
                // Either `#` ends here, or it takes the other's next word.
                ("#", _) | (_, "#") => above || meets[at],
                ("*", _) | (_, "*") => before,
                (word, facing) => before && word == facing,
            };
            before = above;
        }
    }
    meets.last() == Some(&true)
}

/// An empty key has no words.
fn words(key: &str) -> Vec<&str> {
    if key.is_empty() { Vec::new() } else { key.split('.').collect() }
}
