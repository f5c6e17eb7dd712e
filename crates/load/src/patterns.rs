//! Routing keys and binding patterns of the topic benchmark. All patterns of a set are different.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternMatching {
    /// One pattern; the others share a prefix with it and end differently, as in the paper.
    #[default]
    One,
    /// All patterns, each in a different way; all are bound to the same queue.
    All,
    /// One pattern; nearly every word of all patterns is a wildcard.
    Wildcards,
}

impl PatternMatching {
    /// The names, the default first.
    pub const NAMES: &[&str] = &["one", "all", "wildcards"];

    pub fn named(name: &str) -> Self {
        match name {
            "all" => Self::All,
            "wildcards" => Self::Wildcards,
            _ => Self::One,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
            Self::Wildcards => "wildcards",
        }
    }
}

/// The keys and patterns of one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicPatterns {
    /// Routing keys, used in turn.
    pub keys: Vec<String>,
    /// Patterns that match every key.
    pub matching: Vec<String>,
    /// Patterns that match none.
    pub others: Vec<String>,
}

impl TopicPatterns {
    /// `count` patterns, of which as many match as `kind` says.
    pub fn new(kind: PatternMatching, count: usize, keys: usize) -> Self {
        let others = 0..count.saturating_sub(1);
        match kind {
            PatternMatching::One => Self {
                keys: (0..keys).map(|index| format!("stock.s{index}.quote")).collect(),
                matching: vec!["stock.*.quote".to_owned()],
                others: others.map(|index| format!("stock.*.d{index}")).collect(),
            },
            PatternMatching::Wildcards => Self {
                keys: (0..keys).map(|index| format!("stock.s{index}.quote")).collect(),
                matching: vec!["#.quote".to_owned()],
                others: others
                    .map(|index| match index % 4 {
                        0 => format!("#.d{index}.#"),
                        1 => format!("*.d{index}.#"),
                        2 => format!("#.*.d{index}"),
                        _ => format!("*.*.d{index}"),
                    })
                    .collect(),
            },
            PatternMatching::All => {
                // Each word may be itself or a star: as many patterns as there are subsets of the words.
                let words = count.max(2).next_power_of_two().trailing_zeros() as usize;
                let word = |place: usize| format!("w{place}");
                let pattern = |subset: usize| {
                    let part = |place: usize| if subset >> place & 1 == 1 { "*".to_owned() } else { word(place) };
                    (0..words).map(part).chain(["*".to_owned()]).collect::<Vec<_>>().join(".")
                };
                let stem = (0..words).map(word).collect::<Vec<_>>().join(".");
                Self {
                    keys: (0..keys).map(|index| format!("{stem}.s{index}")).collect(),
                    matching: (0..count.max(1)).map(pattern).collect(),
                    others: Vec::new(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A reference matcher for AMQP 0-9-1 §3.1.3.3, word by word.
    fn matches(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), _) => matches(rest, key) || (!key.is_empty() && matches(pattern, &key[1..])),
            (Some((&word, rest)), Some((&first, after))) => (word == "*" || word == first) && matches(rest, after),
            _ => false,
        }
    }

    #[test]
    fn the_requested_number_of_patterns_matches() {
        for kind in [PatternMatching::One, PatternMatching::All, PatternMatching::Wildcards] {
            assert_eq!(PatternMatching::named(kind.name()), kind);
            for count in [1, 2, 4, 64, 1_000] {
                let patterns = TopicPatterns::new(kind, count, 3);
                assert_eq!(patterns.keys.len(), 3);
                assert_eq!(patterns.matching.len() + patterns.others.len(), count, "{kind:?} {count}");
                let all: BTreeSet<&String> = patterns.matching.iter().chain(&patterns.others).collect();
                assert_eq!(all.len(), count, "{kind:?} {count}: some are the same");
                for key in &patterns.keys {
                    let key: Vec<&str> = key.split('.').collect();
                    let fits = |pattern: &String| matches(&pattern.split('.').collect::<Vec<_>>(), &key);
                    assert!(patterns.matching.iter().all(fits), "{kind:?} {count}");
                    assert!(!patterns.others.iter().any(fits), "{kind:?} {count}");
                }
            }
        }
    }
}
