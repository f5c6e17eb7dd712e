//! Keys of routes: whether one message may go by both of two.
//!
//! Enters: the keys of two bindings of one exchange, and how it compares them with the key of a message.  Leaves: whether there is a
//!         key that both let through.
//! Owns:   what the types of exchanges make of keys.
//! Never:  routes a message; says no where it does not know.

/// How an exchange compares the key of a binding with that of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparing {
    /// They must be the same (`direct`).
    Equal,
    /// The binding's is a pattern of words (`topic`).
    Pattern,
    /// Not at all, or by something else (`fanout`, `headers`, what is not known).
    Otherwise,
}

impl Comparing {
    /// Of an exchange of this type; one that is not known lets through what it likes.
    pub fn of(kind: &str) -> Self {
        match kind {
            "direct" => Comparing::Equal,
            "topic" => Comparing::Pattern,
            _ => Comparing::Otherwise,
        }
    }

    /// Whether one message may go by bindings with both keys.
    pub fn may_meet(self, one: &str, other: &str) -> bool {
        match self {
            Comparing::Equal => one == other,
            Comparing::Pattern => patterns_meet(one, other),
            Comparing::Otherwise => true,
        }
    }
}

/// Whether there is a key that both patterns of a topic exchange match: `*` is one word, `#` are any number, words end at dots.
pub fn patterns_meet(one: &str, other: &str) -> bool {
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
