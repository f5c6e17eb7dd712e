//! Whether what a crate shows is wanted: a public item that nobody outside of the crate names is not to be public, and the
//! compiler then tells whether anybody uses it at all.

use std::collections::BTreeSet;

/// Items that stay public although no other crate, test or target names them, and why.
const EXCEPTIONS: [(&str, &str); 0] = [];

#[test]
fn what_is_public_is_named_by_somebody_else() {
    let unnamed = house::surface::unnamed();
    let names: BTreeSet<&str> = unnamed.iter().map(|item| item.name.as_str()).collect();
    let excepted: BTreeSet<&str> = EXCEPTIONS.iter().map(|(name, _)| *name).collect();
    let mut broken: Vec<String> = unnamed
        .iter()
        .filter(|item| !excepted.contains(item.name.as_str()))
        .map(|item| {
            format!("{}:{}: {}: nobody outside of the crate names it", item.path.display(), item.line, item.name)
        })
        .collect();
    broken.extend(excepted.difference(&names).map(|name| format!("{name}: the exception is not needed")));
    assert!(broken.is_empty(), "{} public items:\n{}", broken.len(), broken.join("\n"));
}
