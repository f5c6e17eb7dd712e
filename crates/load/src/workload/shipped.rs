//! The workloads included in the program.

/// Name and text of each.
pub const SHIPPED: [(&str, &str); 5] = [
    ("market-data", include_str!("../../workloads/market-data.toml")),
    ("order-entry", include_str!("../../workloads/order-entry.toml")),
    ("telemetry", include_str!("../../workloads/telemetry.toml")),
    ("task-queue", include_str!("../../workloads/task-queue.toml")),
    ("bulk-transfer", include_str!("../../workloads/bulk-transfer.toml")),
];

/// The text of a shipped workload.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// All shipped workloads, parsed.
#[cfg(test)]
pub fn all() -> Vec<(&'static str, super::spec::WorkloadSpec)> {
    let read = |(name, text): (&'static str, &str)| {
        (name, super::parse::parse(name, &format!("{name}.toml"), text).unwrap_or_else(|why| panic!("{why}")))
    };
    SHIPPED.into_iter().map(read).collect()
}
