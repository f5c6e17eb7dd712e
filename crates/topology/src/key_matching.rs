//! Keys of routes: whether one message may go by both of two.
//!
//! Enters: the keys of two bindings of one exchange, and how it compares them with the key of a message.  Leaves: whether there is a
//!         key that both let through.
//! Owns:   what the types of exchanges make of keys.
//! Never:  routes a message; says no where it does not know.

/// How an exchange compares the key of a binding with that of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMatching {
    /// They must be the same (`direct`).
    Exact,
    /// The binding's is a pattern of words (`topic`).
    Pattern,
    /// Not at all, or by something else (`fanout`, `headers`, what is not known).
    Unknown,
}

impl KeyMatching {
    /// Of an exchange of this type; one that is not known lets through what it likes.
    pub fn of_exchange_type(kind: &str) -> Self {
        match kind {
            "direct" => KeyMatching::Exact,
            "topic" => KeyMatching::Pattern,
            _ => KeyMatching::Unknown,
        }
    }

    /// Whether one message may go by bindings with both keys.
    pub fn may_overlap(self, one: &str, other: &str) -> bool {
        match self {
            KeyMatching::Exact => one == other,
            KeyMatching::Pattern => patterns_overlap(one, other),
            KeyMatching::Unknown => true,
        }
    }
}

/// Whether there is a key that both patterns of a topic exchange match: `*` is one word, `#` are any number, words end at dots.
pub fn patterns_overlap(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    // `meets[at]`: the words of `one` looked at so far, and those of `other` up to `at`, can be the same. One row after another.
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
                // Either ends here, or takes the other's next word.
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
