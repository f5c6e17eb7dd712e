//! Regular expressions that are looked for in names: of permissions and of policies.
//!
//! Enters: an expression as it is written, then names.  Leaves: whether it is somewhere in a name, and what looking costs.
//! Owns:   the expression, compiled.

use crate::limits::{
    PATTERN_BYTES_MAX, PATTERN_COMPILED_BYTES_MAX, PATTERN_STATES_MAX, PATTERN_TABLE_BYTES_MAX, SEARCH_CACHE_BYTES_MAX,
};
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

/// An expression, ready for use.
#[derive(Clone, Debug)]
pub(crate) enum NamePattern {
    Everything,
    Nothing,
    /// As a table of transitions: a name takes one step for each of its bytes.
    Table(Box<dense::DFA<Vec<u32>>>),
    /// Its table would be too large: a byte of a name may visit each state.
    Search {
        regex: Box<Regex>,
        states: u32,
    },
}

/// The expression as an automaton without a table; an error is of its syntax or of its size.
fn automaton(written: &str, unicode: bool) -> Option<NFA> {
    let limits = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(PATTERN_COMPILED_BYTES_MAX));
    let syntax = syntax::Config::new().utf8(false).unicode(unicode);
    NFA::compiler().configure(limits).syntax(syntax).build(written).ok()
}

/// An automaton as a table, if that is small.
fn table(automaton: &NFA) -> Option<dense::DFA<Vec<u32>>> {
    let config = dense::Config::new()
        .start_kind(StartKind::Unanchored)
        // The first match is enough, whichever it is.
        .match_kind(MatchKind::All)
        .starts_for_each_pattern(false)
        .dfa_size_limit(Some(PATTERN_TABLE_BYTES_MAX))
        .determinize_size_limit(Some(PATTERN_TABLE_BYTES_MAX));
    dense::Builder::new().configure(config).build_from_nfa(automaton).ok()
}

impl NamePattern {
    /// Compiles an expression of a permission: an empty one is in no name but the empty one. Says why it is none.
    pub fn of_permission(written: &str) -> Result<Self, String> {
        match written {
            "" | "^$" => Ok(Self::Nothing),
            _ => Self::of_policy(written),
        }
    }

    /// Compiles an expression of a policy: an empty one is in every name. Says why it is none.
    ///
    /// It is over bytes and ASCII, as RabbitMQ's are, unless it cannot be without Unicode.
    pub fn of_policy(written: &str) -> Result<Self, String> {
        if written.len() > PATTERN_BYTES_MAX {
            return Err("too long".to_owned());
        }
        if let "" | ".*" | "^.*$" = written {
            return Ok(Self::Everything);
        }
        let over_bytes = automaton(written, false);
        let unicode = over_bytes.is_none();
        let automaton = over_bytes.or_else(|| automaton(written, true));
        if let Some(table) = automaton.as_ref().and_then(table) {
            return Ok(Self::Table(Box::new(table)));
        }
        let mut builder = RegexBuilder::new(written);
        builder.unicode(unicode).size_limit(PATTERN_COMPILED_BYTES_MAX).dfa_size_limit(SEARCH_CACHE_BYTES_MAX);
        let regex = builder.build().map_err(|error| error.to_string())?;
        let states =
            automaton.map_or(u32::MAX, |automaton| u32::try_from(automaton.states().len()).unwrap_or(u32::MAX));
        if states > PATTERN_STATES_MAX {
            return Err(format!("too complex: it has {states} states, and {PATTERN_STATES_MAX} are the most"));
        }
        Ok(Self::Search { regex: Box::new(regex), states })
    }

    /// Whether it is somewhere in a name.
    pub fn is_in(&self, name: &[u8]) -> bool {
        match self {
            NamePattern::Everything => true,
            NamePattern::Nothing => name.is_empty(),
            // No byte makes a table of this kind give up, which is the only error that there is.
            NamePattern::Table(table) => matches!(table.try_search_fwd(&Input::new(name).earliest(true)), Ok(Some(_))),
            NamePattern::Search { regex, .. } => regex.is_match(name),
        }
    }

    /// States that a byte of a name may visit, if it is not one of a table.
    pub fn states(&self) -> u32 {
        match self {
            NamePattern::Search { states, .. } => *states,
            NamePattern::Everything | NamePattern::Nothing | NamePattern::Table(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NamePattern;

    fn pattern(written: &str) -> NamePattern {
        NamePattern::of_policy(written).expect("an expression")
    }

    #[test]
    fn usual_expressions_are_tables_and_find_the_same() {
        let names =
            ["", "a", "orders", "orders.eu", "orders.eu.1", "my-orders", "ORDERS", "x\ny", "é", "amq.gen-1", "a_b.c"];
        let written = [
            "^orders$",
            "^(orders|payments)\\.[^.]+$",
            "orders",
            "(?i)^orders",
            "^amq\\.",
            "^\\w+\\.\\w+$",
            "\\border",
            "^.{1,60}$",
            "^[\\w.-]{1,30}$",
            "^é",
            "x.y",
            "^(?:a_|my)",
            "\\d$",
        ];
        for written in written {
            let of_bytes = regex::bytes::RegexBuilder::new(written).unicode(false).build().expect("an expression");
            let pattern = pattern(written);
            assert!(matches!(pattern, NamePattern::Table(_)), "{written}");
            for name in names {
                assert_eq!(pattern.is_in(name.as_bytes()), of_bytes.is_match(name.as_bytes()), "{written} in {name:?}");
            }
        }
    }

    #[test]
    fn what_is_only_in_unicode_is_found() {
        assert!(pattern("^[éè]$").is_in("é".as_bytes()) && !pattern("^[éè]$").is_in("e".as_bytes()));
        assert!(pattern("(?i)^É$").is_in("É".as_bytes()));
        // As RabbitMQ counts and as it sees letters: bytes.
        assert!(!pattern("^.$").is_in("é".as_bytes()) && pattern("^..$").is_in("é".as_bytes()));
        assert!(!pattern("^\\w+$").is_in("é".as_bytes()) && pattern("(?u)^\\w+$").is_in("é".as_bytes()));
    }

    #[test]
    fn one_whose_table_is_large_has_its_states_counted_and_many_are_refused() {
        let search = pattern("[ab]*a[ab]{20}c");
        assert!((20..100).contains(&search.states()), "{search:?}");
        let name = |letters: usize| format!("xa{}cx", "b".repeat(letters));
        assert!(search.is_in(name(20).as_bytes()) && !search.is_in(name(21).as_bytes()));
        let why = NamePattern::of_policy("[ab]*a(?:[ab]?){4090}c").expect_err("too many states");
        assert!(why.starts_with("too complex: it has 81"), "{why}");
        assert!(NamePattern::of_policy("(?:[ab]{900}){900}").expect_err("too large").contains("size limit"));
        assert!(NamePattern::of_policy("(").expect_err("no expression").contains("regex parse error"));
    }
}
