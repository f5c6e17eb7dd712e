//! Warns of other differences between two documents or targets that may explain a ratio.

use std::collections::BTreeMap;

use crate::document::{Document, TargetFacts};

/// Options about output, which do not affect the measurement.
const OF_NO_MATTER: [&str; 8] = ["json", "html", "format", "full", "url", "against", "report", "help"];

/// The differences between two documents.
pub(super) fn between(a: &Document, b: &Document) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: &str, a: String, b: String| {
        if a != b {
            warnings.push(format!("{what} differs: {a} in A, {b} in B"));
        }
    };
    let (here, there) = (&a.environment, &b.environment);
    differ("the processor", here.processor.clone(), there.processor.clone());
    differ("the number of processors", here.processors.to_string(), there.processors.to_string());
    differ("the kernel", here.kernel.clone(), there.kernel.clone());
    let wake = |bound_us: Option<i32>| bound_us.map_or("as it likes".to_owned(), |us| format!("within {us} us"));
    differ("how a processor wakes", wake(here.cpu_latency_us), wake(there.cpu_latency_us));
    differ("TCP congestion control", here.congestion_control.clone(), there.congestion_control.clone());
    differ("harrier's version", here.version.clone(), there.version.clone());
    differ("optimisation", here.optimised.to_string(), there.optimised.to_string());
    differ("the placement", a.placement.clone(), b.placement.clone());
    differences_of(&a.options, &b.options, "option --", &mut warnings);
    for facts in &a.targets {
        // If each side has a single target, they are compared whatever their names; the rows show what they are.
        let other = match (&a.targets[..], &b.targets[..]) {
            ([_], [other]) => Some(other),
            _ => b.target(&facts.name),
        };
        if let Some(other) = other {
            warnings.extend(between_targets(facts, other));
        }
    }
    for (name, document) in [("A", a), ("B", b)] {
        if let Some(why) = &document.cut_short {
            warnings.push(format!("{name} was cut short: {why}"));
        }
    }
    warnings
}

/// The differences between two targets' connections.
pub(super) fn between_targets(a: &TargetFacts, b: &TargetFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    if a.transport != b.transport {
        warnings.push(format!("the transport differs: {} to {}, {} to {}", a.transport, a.name, b.transport, b.name));
    }
    let mut tcp = Vec::new();
    differences_of(&a.tcp, &b.tcp, "TCP option ", &mut tcp);
    warnings.extend(tcp);
    warnings
}

fn differences_of(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>, what: &str, warnings: &mut Vec<String>) {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (here, there) = (a.get(name), b.get(name));
        if here != there && !OF_NO_MATTER.contains(&name.as_str()) {
            let shown = |value: Option<&String>| value.map_or("not given".to_owned(), |value| format!("'{value}'"));
            warnings.push(format!("{what}{name} differs: {} in A, {} in B", shown(here), shown(there)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::between;
    use crate::fixture;

    #[test]
    fn possible_explanations_of_a_ratio_are_listed() {
        let a = fixture::document();
        assert!(between(&a, &a).is_empty());
        let mut b = a.clone();
        b.environment.kernel = "6.2.0".to_owned();
        b.environment.optimised = false;
        b.environment.cpu_latency_us = Some(0);
        b.placement = "broker=0".to_owned();
        b.options.insert("runs".to_owned(), "5".to_owned());
        b.options.insert("confirms".to_owned(), "100".to_owned());
        b.options.insert("json".to_owned(), "b.json".to_owned());
        b.targets[0].tcp.insert("nodelay".to_owned(), "false".to_owned());
        b.targets[0].transport = "unix".to_owned();
        b.cut_short = Some("interrupted".to_owned());
        assert_eq!(
            between(&a, &b),
            [
                "the kernel differs: 6.1.0 in A, 6.2.0 in B",
                "how a processor wakes differs: as it likes in A, within 0 us in B",
                "optimisation differs: true in A, false in B",
                "the placement differs: any in A, broker=0 in B",
                "option --confirms differs: not given in A, '100' in B",
                "option --runs differs: '3' in A, '5' in B",
                "the transport differs: tcp to harrier, unix to harrier",
                "TCP option nodelay differs: 'true' in A, 'false' in B",
                "B was cut short: interrupted",
            ]
        );
    }
}
