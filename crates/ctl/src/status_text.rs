//! The state of a broker, from its overview and its node: as an object, and for people.

use crate::output_format::{OutputFormat, OutputRows, TableStyle};
use definitions::Json;

const MIB: f64 = 1_048_576.0;

/// Fields of the overview and of the node that make up the state.
const OVERVIEW: [&str; 7] =
    ["product_name", "product_version", "cluster_name", "node", "object_totals", "queue_totals", "listeners"];
const NODE: [&str; 17] = [
    "os_pid",
    "uptime",
    "being_drained",
    "processors",
    "mem_used",
    "mem_limit",
    "mem_alarm",
    "disk_free",
    "disk_free_limit",
    "disk_free_alarm",
    "fd_used",
    "fd_total",
    "sockets_used",
    "proc_used",
    "config_files",
    "log_files",
    "db_dir",
];

/// The state as an object.
pub fn status(overview: &Json, nodes: &Json) -> Json {
    let node = match nodes {
        Json::List(nodes) => nodes.first(),
        _ => None,
    };
    let pick = |from: Option<&Json>, key: &str| Some((key.to_owned(), from?.get(key)?.clone()));
    let of_overview = OVERVIEW.iter().filter_map(|key| pick(Some(overview), key));
    Json::Object(of_overview.chain(NODE.iter().filter_map(|key| pick(node, key))).collect())
}

/// The state for people.
pub fn text(status: &Json) -> String {
    let get = |key: &str| status.get(key).unwrap_or(&Json::Null);
    let text = |key: &str| match get(key) {
        Json::Text(text) => text.clone(),
        Json::Null => String::new(),
        other => other.line(),
    };
    let int = |value: &Json| if let Json::Int(number) = value { *number } else { 0 };
    let number = |key: &str| int(get(key));
    let mib = |key: &str| format!("{:.1} MiB", number(key) as f64 / MIB);
    let is = |key: &str| *get(key) == Json::Bool(true);
    let list = |key: &str| match get(key) {
        Json::List(items) if !items.is_empty() => {
            items.iter().map(|item| if let Json::Text(text) = item { text.clone() } else { item.line() }).collect()
        }
        _ => vec!["(none)".to_owned()],
    };
    let mut rows: Vec<(String, String)> = vec![
        ("product".into(), format!("{} {}", text("product_name"), text("product_version"))),
        ("cluster".into(), text("cluster_name")),
        ("node".into(), text("node")),
        ("process".into(), text("os_pid")),
        ("uptime".into(), format!("{} s", number("uptime") / 1000)),
        ("state".into(), if is("being_drained") { "stopping" } else { "running" }.to_owned()),
        ("state folder".into(), if text("db_dir").is_empty() { "(none)".to_owned() } else { text("db_dir") }),
        ("configuration".into(), list("config_files").join(" ")),
    ];
    let alarms = [("memory", is("mem_alarm")), ("disk", is("disk_free_alarm"))];
    let alarms: Vec<&str> = alarms.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    let alarms = if alarms.is_empty() { "(none)".to_owned() } else { alarms.join(" ") };
    rows.push(("alarms".into(), alarms));
    rows.push(("memory".into(), format!("{} of {}", mib("mem_used"), mib("mem_limit"))));
    if !text("db_dir").is_empty() {
        rows.push(("disk free".into(), format!("{}, at least {}", mib("disk_free"), mib("disk_free_limit"))));
    }
    rows.push(("open files".into(), format!("{} of {}", number("fd_used"), number("fd_total"))));
    rows.push(("threads".into(), text("proc_used")));
    for (group, keys) in [
        ("object_totals", &["connections", "channels", "consumers", "exchanges", "queues"][..]),
        ("queue_totals", &["messages", "messages_ready", "messages_unacknowledged"]),
    ] {
        for key in keys {
            let total = get(group).get(key).map_or(0, int);
            rows.push((key.replace('_', " "), total.to_string()));
        }
    }
    if let Json::List(listeners) = get("listeners") {
        for listener in listeners {
            let of = |key: &str| match listener.get(key) {
                Some(Json::Text(text)) => text.clone(),
                Some(other) => other.line(),
                None => String::new(),
            };
            rows.push(("listener".into(), format!("{} {} {}", of("protocol"), of("ip_address"), of("port"))));
        }
    }
    let rows = rows.into_iter().map(|(key, value)| vec![Json::Text(key), Json::Text(value)]).collect();
    let style = TableStyle { has_heading: false, is_aligned: true };
    OutputRows { columns: vec!["key", "value"], rows }.text(OutputFormat::Table, style)
}

#[cfg(test)]
mod tests {
    use super::{status, text};
    use definitions::Json;

    #[test]
    fn the_state_is_told_in_words() {
        let overview = r#"{"product_name":"Harrier","product_version":"1.2","cluster_name":"c\u001b","node":"rabbit@h",
            "object_totals":{"queues":3,"connections":1},"queue_totals":{"messages":7},"rates_mode":"basic",
            "listeners":[{"protocol":"amqp","ip_address":"::","port":5672}]}"#;
        let nodes =
            r#"[{"os_pid":"12","uptime":65000,"mem_used":1048576,"mem_limit":3145728,"mem_alarm":true,"db_dir":""}]"#;
        let read = |text: &str| Json::read(text.as_bytes()).expect("JSON");
        let found = status(&read(overview), &read(nodes));
        assert_eq!((found.get("uptime"), found.get("rates_mode")), (Some(&Json::Int(65_000)), None));
        let told = text(&found);
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.splitn(2, "  ").map(str::trim).collect()).collect();
        for expect in [
            ["product", "Harrier 1.2"],
            ["cluster", "c\\u001b"],
            ["uptime", "65 s"],
            ["alarms", "memory"],
            ["memory", "1.0 MiB of 3.0 MiB"],
            ["state folder", "(none)"],
            ["queues", "3"],
            ["messages", "7"],
            ["listener", "amqp :: 5672"],
        ] {
            assert!(lines.iter().any(|line| line[..] == expect[..]), "{expect:?} in {told}");
        }
    }
}
