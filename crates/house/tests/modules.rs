//! Whether the modules of a crate have an order in which they can be read: none reaches itself through others.

use std::collections::BTreeMap;

/// Circles that are left, by crate. A new module joins none of them, and a circle that is mended leaves the list.
const CIRCLES: [(&str, &[&str]); 7] = [
    ("client", &["client", "options", "rdma", "state"]),
    ("config", &["accounts", "broker", "command_line", "environment", "file", "load", "policies"]),
    ("desim", &["scenario", "simulation", "simulation_result", "tree_topology"]),
    ("ib", &["cm", "cm_id"]),
    (
        "sim",
        &[
            "broker_links",
            "faults",
            "features",
            "federation",
            "schedule",
            "settings",
            "simulated_client",
            "tally",
            "world",
        ],
    ),
    ("slab", &["block", "pool_inner", "region", "slice"]),
    ("verbs", &["port", "verbs_link"]),
];

#[test]
fn modules_are_in_no_circles() {
    let found = house::modules::of_crates();
    assert!(found.len() > 20, "only {} crates were found", found.len());
    let listed: BTreeMap<&str, &[&str]> = CIRCLES.into_iter().collect();
    let mut broken = Vec::new();
    for (name, modules) in &found {
        let in_circles = modules.in_circles();
        let expected = listed.get(name.as_str()).copied().unwrap_or_default();
        if in_circles != expected {
            broken.push(format!("{name}: {in_circles:?}, and listed are {expected:?}"));
        }
    }
    broken.extend(listed.keys().filter(|name| !found.contains_key(**name)).map(|name| format!("{name}: is no crate")));
    assert!(broken.is_empty(), "modules that reach themselves through others:\n{}", broken.join("\n"));
}
