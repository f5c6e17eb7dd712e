//! Expected routing: the queues that a message must reach, and those that it may.
//!
//! Keys and headers are matched as the specification reads; the broker's routing is compared with this.

use super::shadow_model::{
    BindingTarget, HeaderMatch, Lifetime, MessageHeaders, ModelTime, ShadowBinding, ShadowExchangeType, ShadowMessage,
    ShadowModel, VOID,
};
use crate::topic_pattern;
use std::collections::BTreeSet;

/// One view of the definitions over a span: what was surely there, or what may have visited.
#[derive(Clone, Copy)]
struct DefinitionView {
    from: ModelTime,
    to: ModelTime,
    surely: bool,
}

impl ShadowModel {
    /// The queues that a message reaches if it is routed at some moment until `to`: all that it must reach (`surely`), or all
    /// that it may.
    pub fn routes(&self, message: &ShadowMessage, to: ModelTime, surely: bool) -> BTreeSet<usize> {
        let view = DefinitionView { from: message.sent, to, surely };
        let (mut queues, mut visited) = (BTreeSet::new(), BTreeSet::new());
        self.walk(message.exchange, message, view, &mut queues, &mut visited);
        queues
    }

    fn walk(
        &self,
        exchange: usize,
        message: &ShadowMessage,
        view: DefinitionView,
        queues: &mut BTreeSet<usize>,
        visited: &mut BTreeSet<usize>,
    ) {
        if !view.includes(self, BindingTarget::Exchange(exchange)) || !visited.insert(exchange) {
            return;
        }
        let exchange_type = self.exchanges[exchange].exchange_type;
        if exchange_type == ShadowExchangeType::Default {
            let named = (0..self.queues.len()).filter(|&at| message.keys().any(|key| self.queues[at].name == *key));
            queues.extend(named.filter(|&at| view.includes(self, BindingTarget::Queue(at))));
            return;
        }
        for binding in self.matching(exchange, message, view) {
            match binding.target {
                BindingTarget::Queue(queue) => _ = queues.insert(queue),
                BindingTarget::Exchange(next) => self.walk(next, message, view, queues, visited),
            }
        }
        // The message surely goes to the alternate exchange if no binding may match, and may go there if none surely matches.
        let opposite = DefinitionView { surely: !view.surely, ..view };
        if let Some(alternate) = self.exchanges[exchange].alternate
            && self.matching(exchange, message, opposite).next().is_none()
        {
            self.walk(alternate, message, view, queues, visited);
        }
    }

    fn matching<'a>(
        &'a self,
        exchange: usize,
        message: &'a ShadowMessage,
        view: DefinitionView,
    ) -> impl Iterator<Item = &'a ShadowBinding> {
        let exchange_type = self.exchanges[exchange].exchange_type;
        self.bindings.iter().filter(move |binding| {
            binding.source == exchange
                && matches(exchange_type, binding, message)
                && view.includes(self, binding.target)
                && binding.lives.iter().any(|life| exists_in(life, view))
        })
    }
}

impl DefinitionView {
    /// Whether a queue or an exchange exists in this view.
    fn includes(self, model: &ShadowModel, target: BindingTarget) -> bool {
        match target {
            BindingTarget::Queue(queue) => exists_in(&model.queues[queue].life, self),
            BindingTarget::Exchange(exchange) if self.surely => model.is_exchange(exchange, self.from, self.to),
            BindingTarget::Exchange(exchange) => exists_in(&model.exchanges[exchange].life, self),
        }
    }
}

fn exists_in(life: &Lifetime, view: DefinitionView) -> bool {
    if view.surely { life.surely_spans(view.from, view.to) } else { life.may_overlap(view.from, view.to) }
}

fn matches(exchange_type: ShadowExchangeType, binding: &ShadowBinding, message: &ShadowMessage) -> bool {
    match exchange_type {
        ShadowExchangeType::Default => false,
        ShadowExchangeType::Direct => message.keys().any(|key| binding.key == *key),
        ShadowExchangeType::Fanout => true,
        ShadowExchangeType::Topic => message.keys().any(|key| topic_pattern::matches(&binding.key, key)),
        ShadowExchangeType::Headers => binding.headers.is_some_and(|wanted| headers_match(wanted, message.headers)),
    }
}

fn headers_match(wanted: HeaderMatch, has: MessageHeaders) -> bool {
    let counted = if wanted.with_x { 3 } else { 2 };
    let mut pairs = wanted.headers.iter().zip(has).take(counted).filter_map(|(wanted, has)| Some(((*wanted)?, has)));
    let agrees = |(wanted, has): (u8, Option<u8>)| has.is_some_and(|has| wanted == VOID || wanted == has);
    if wanted.any { pairs.any(agrees) } else { pairs.all(agrees) }
}

#[cfg(test)]
mod tests {
    use super::super::shadow_model::{HeaderMatch, MessageHeaders, VOID};
    use super::headers_match;

    #[test]
    fn headers_match_all_or_any() {
        let check = |any: bool, with_x: bool, wanted: MessageHeaders, has: MessageHeaders, expect: bool| {
            let wanted = HeaderMatch { any, with_x, headers: wanted };
            assert_eq!(headers_match(wanted, has), expect, "{wanted:?} on {has:?}");
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
