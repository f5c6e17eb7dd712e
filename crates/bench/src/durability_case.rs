//! Transient and persistent messages side by side: each target is measured with either, in turns.

use std::collections::BTreeMap;

/// A target, and whether messages are persistent and queues durable.
pub(crate) type DurabilityCase<'a, T> = (&'a T, bool);

/// What is measured in turns: each target with transient messages, and with `--durable` with persistent ones behind that.
pub(crate) fn cases<T>(targets: &[T], is_durable: bool) -> Vec<DurabilityCase<'_, T>> {
    let kinds = if is_durable { &[false, true][..] } else { &[false] };
    kinds.iter().flat_map(|&kind| targets.iter().map(move |target| (target, kind))).collect()
}

/// Notes the parameter that distinguishes the series.
pub(crate) fn note_durable(parameters: &mut BTreeMap<String, String>, is_durable: bool) {
    if is_durable {
        parameters.insert("durable".to_owned(), "yes".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_messages_are_behind_transient_ones() {
        assert_eq!(cases(&["a", "b"], false), [(&"a", false), (&"b", false)]);
        assert_eq!(cases(&["a", "b"], true), [(&"a", false), (&"b", false), (&"a", true), (&"b", true)]);
    }
}
