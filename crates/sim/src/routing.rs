//! Naive routing: which queues a message must reach, and which it may.
//!
//! Enters: a message, a span of moments.  Leaves: queues.
//! Owns:   the matching of keys and headers, written as the specification reads.
//! Never:  is clever: it is what the broker's routing is held against.

use crate::model::{Binding, Headers, Kind, Message, Model, Moment, Target, VOID, Wanted};
use std::collections::BTreeSet;

/// One view of the definitions over a span: what was surely there, or what may have been.
#[derive(Clone, Copy)]
struct View {
    from: Moment,
    to: Moment,
    surely: bool,
}

impl Model {
    /// The queues that a message reaches if it is routed at some moment until `to`: all those it must reach (`surely`), or
    /// all those it may.
    pub fn reach(&self, message: &Message, to: Moment, surely: bool) -> BTreeSet<usize> {
        let view = View { from: message.sent, to, surely };
        let (mut queues, mut been) = (BTreeSet::new(), BTreeSet::new());
        self.walk(message.exchange, message, view, &mut queues, &mut been);
        queues
    }

    fn walk(
        &self,
        exchange: usize,
        message: &Message,
        view: View,
        queues: &mut BTreeSet<usize>,
        been: &mut BTreeSet<usize>,
    ) {
        if !self.exists(Target::Exchange(exchange), view) || !been.insert(exchange) {
            return;
        }
        let kind = self.exchanges[exchange].kind;
        if kind == Kind::Default {
            let named = (0..self.queues.len()).filter(|&at| message.keys().any(|key| self.queues[at].name == *key));
            queues.extend(named.filter(|&at| self.exists(Target::Queue(at), view)));
            return;
        }
        for binding in self.matching(exchange, message, view) {
            match binding.target {
                Target::Queue(queue) => _ = queues.insert(queue),
                Target::Exchange(next) => self.walk(next, message, view, queues, been),
            }
        }
        // The alternate is surely taken if nothing may match, and may be taken if nothing surely matches.
        let opposite = View { surely: !view.surely, ..view };
        if let Some(alternate) = self.exchanges[exchange].alternate
            && self.matching(exchange, message, opposite).next().is_none()
        {
            self.walk(alternate, message, view, queues, been);
        }
    }

    fn matching<'a>(&'a self, exchange: usize, message: &'a Message, view: View) -> impl Iterator<Item = &'a Binding> {
        let kind = self.exchanges[exchange].kind;
        self.bindings.iter().filter(move |binding| {
            binding.source == exchange
                && matches(kind, binding, message)
                && self.exists(binding.target, view)
                && binding.lives.iter().any(|life| lives(life, view))
        })
    }

    fn exists(&self, target: Target, view: View) -> bool {
        match target {
            Target::Queue(queue) => lives(&self.queues[queue].life, view),
            Target::Exchange(exchange) if view.surely => self.is_exchange(exchange, view.from, view.to),
            Target::Exchange(exchange) => lives(&self.exchanges[exchange].life, view),
        }
    }
}

fn lives(life: &crate::model::Life, view: View) -> bool {
    if view.surely { life.surely(view.from, view.to) } else { life.perhaps(view.from, view.to) }
}

fn matches(kind: Kind, binding: &Binding, message: &Message) -> bool {
    match kind {
        Kind::Default => false,
        Kind::Direct => message.keys().any(|key| binding.key == *key),
        Kind::Fanout => true,
        Kind::Topic => message.keys().any(|key| is_topic(&binding.key, key)),
        Kind::Headers => binding.headers.is_some_and(|wanted| headers(wanted, message.headers)),
    }
}

/// Whether a topic exchange lets a key through a binding.
pub fn is_topic(pattern: &str, key: &str) -> bool {
    topic(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}

/// `*` is one word, `#` is any number of them.
fn topic(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], []) => true,
        (["#", rest @ ..], _) => (0..=words.len()).any(|skipped| topic(rest, &words[skipped..])),
        (["*", rest @ ..], [_, words @ ..]) => topic(rest, words),
        ([word, rest @ ..], [other, words @ ..]) => word == other && topic(rest, words),
        _ => false,
    }
}

fn headers(wanted: Wanted, has: Headers) -> bool {
    let counted = if wanted.with_x { 3 } else { 2 };
    let mut pairs = wanted.headers.iter().zip(has).take(counted).filter_map(|(wanted, has)| Some(((*wanted)?, has)));
    let agrees = |(wanted, has): (u8, Option<u8>)| has.is_some_and(|has| wanted == VOID || wanted == has);
    if wanted.any { pairs.any(agrees) } else { pairs.all(agrees) }
}

#[cfg(test)]
mod tests {
    use super::{headers, topic};
    use crate::model::{Headers, VOID, Wanted};

    #[test]
    fn patterns_match_by_words() {
        let check = |pattern: &str, key: &str, expect: bool| {
            let (pattern, key): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), key.split('.').collect());
            assert_eq!(topic(&pattern, &key), expect, "{pattern:?} on {key:?}");
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

    #[test]
    fn headers_match_all_or_any() {
        let check = |any: bool, with_x: bool, wanted: Headers, has: Headers, expect: bool| {
            let wanted = Wanted { any, with_x, headers: wanted };
            assert_eq!(headers(wanted, has), expect, "{wanted:?} on {has:?}");
        };
        check(false, false, [Some(1), None, None], [Some(1), Some(2), None], true);
        check(false, false, [Some(1), Some(3), None], [Some(1), Some(2), None], false);
        check(true, false, [Some(1), Some(3), None], [Some(1), Some(2), None], true);
        check(true, false, [Some(4), Some(3), None], [Some(1), None, None], false);
        check(false, false, [Some(1), None, Some(5)], [Some(1), None, None], true);
        check(false, true, [Some(1), None, Some(5)], [Some(1), None, None], false);
        check(true, false, [None, None, Some(5)], [None, None, Some(5)], false);
        check(true, true, [None, None, Some(5)], [None, None, Some(5)], true);
        check(false, false, [Some(VOID), None, None], [Some(1), None, None], true);
        check(false, false, [Some(VOID), None, None], [None, None, None], false);
    }
}
