//! `harrier route map`: the brokers that are reachable from one, and the flows between them; for people (in
//! qpid-route's format), for graphviz, or as JSON.

use crate::broker_address::BrokerAddress;
use crate::broker_network::{BrokerNetwork, DiscoveredFlow};
use crate::command_line::RouteOptions;
use crate::{CommandOutput, RouteFailure, refused};
use definitions::Json;
use std::collections::BTreeMap;
use std::fmt::Write;
use wire::Escaped;

/// Draws the map.
pub fn draw(from: &BrokerAddress, options: &RouteOptions, output: &mut CommandOutput) -> Result<(), RouteFailure> {
    let mut net = BrokerNetwork::new(options.timeout);
    let first = net.probe(from);
    if let Err(none) = net.outcome(first) {
        return refused(none.text.clone());
    }
    net.explore(&from.url);
    output.out = match (options.dot, options.json) {
        (true, _) => dot(&net),
        (false, true) => json(&net).page() + "\n",
        (false, false) => text(&net),
    };
    Ok(())
}

/// The flows of each exchange by their ends, with both directions combined.
fn pairs<'a>(flows: impl Iterator<Item = &'a DiscoveredFlow>) -> BTreeMap<(usize, usize), bool> {
    let mut pairs = BTreeMap::new();
    for flow in flows {
        match pairs.get_mut(&(flow.to, flow.from)) {
            Some(both) => *both = true,
            None => {
                pairs.entry((flow.from, flow.to)).or_insert(false);
            }
        }
    }
    pairs
}

fn text(net: &BrokerNetwork) -> String {
    let mut out = String::from("\nFinding linked brokers:\n");
    for (number, broker) in net.brokers() {
        let reply = match &broker.outcome {
            Some(Ok(())) => "Ok".to_owned(),
            Some(Err(none)) => none.text.clone(),
            None if broker.addresses.is_empty() => "pulls; its address is not known".to_owned(),
            None => "not asked".to_owned(),
        };
        let (place, title) = (net.location(number), net.title(number));
        let title = if title == place { String::new() } else { format!(" ({title})") };
        let _infallible = writeln!(out, "{}", Escaped(format_args!("    {place}{title}... {reply}")));
    }
    let flows: Vec<_> = net.flows().collect();
    let (dynamic, others): (Vec<_>, Vec<_>) = flows.iter().partition(|flow| flow.kind == "dynamic");
    let mut exchanges: BTreeMap<&str, Vec<&DiscoveredFlow>> = BTreeMap::new();
    for flow in dynamic {
        exchanges.entry(&flow.exchange).or_default().push(flow);
    }
    out.push_str(if exchanges.is_empty() { "\nDynamic routes:\n  none found\n" } else { "\nDynamic routes:\n" });
    for (exchange, flows) in exchanges {
        let _infallible = writeln!(out, "\n  Exchange {}:", Escaped(exchange));
        for ((from, to), both) in pairs(flows.into_iter()) {
            let arrow = if both { "<=>" } else { " =>" };
            let _infallible =
                writeln!(out, "    {} {arrow} {}", Escaped(net.location(from)), Escaped(net.location(to)));
        }
    }
    out.push_str(if others.is_empty() { "\nStatic routes:\n  none found\n\n" } else { "\nStatic routes:\n\n" });
    for flow in &others {
        let source = match flow.kind.as_str() {
            "queue" => {
                format!("{}({})", net.location(flow.from), flow.carries.trim_matches(['<', '>']).replacen(' ', "=", 1))
            }
            _ => format!("{}(ex={})", net.location(flow.from), flow.exchange),
        };
        let dest = format!("{}(ex={})", net.location(flow.to), flow.exchange);
        let ends = if flow.pushed { format!("{source} => {dest}") } else { format!("{dest} <= {source}") };
        let key = if flow.kind == "queue" { String::new() } else { format!(" key={}", flow.carries) };
        let _infallible = writeln!(out, "{}", Escaped(format_args!("  {ends}{key}")));
    }
    if !others.is_empty() {
        out.push('\n');
    }
    out
}

fn json(net: &BrokerNetwork) -> Json {
    let object = |entries: Vec<(&str, Json)>| {
        Json::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let maybe = |text: Option<&String>| text.map_or(Json::Null, |text| Json::text(text));
    let brokers = net.brokers().map(|(number, broker)| {
        let why = match &broker.outcome {
            Some(Err(none)) => Json::text(&none.text),
            _ => Json::Null,
        };
        object(vec![
            ("number", Json::Int(number as i64)),
            ("cluster_name", maybe(broker.identity.as_ref().map(|(name, _)| name))),
            ("vhost", maybe(broker.identity.as_ref().map(|(_, vhost)| vhost))),
            ("addresses", Json::List(broker.addresses.iter().map(|place| Json::text(place)).collect())),
            ("was_asked", Json::Bool(matches!(broker.outcome, Some(Ok(()))))),
            ("why_not", why),
        ])
    });
    let flows = net.flows().map(|flow| {
        object(vec![
            ("from", Json::Int(flow.from as i64)),
            ("to", Json::Int(flow.to as i64)),
            ("exchange", Json::text(&flow.exchange)),
            ("kind", Json::text(&flow.kind)),
            ("carries", Json::text(&flow.carries)),
            ("pushed", Json::Bool(flow.pushed)),
            ("runs", Json::Bool(flow.runs)),
        ])
    });
    object(vec![("brokers", Json::List(brokers.collect())), ("flows", Json::List(flows.collect()))])
}

/// A quoted string of graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", Escaped(text).to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

fn dot(net: &BrokerNetwork) -> String {
    let mut out = String::from("digraph federation {\n    rankdir=TB;\n    node [shape=box];\n");
    for (number, broker) in net.brokers() {
        let (title, place) = (net.title(number), net.location(number));
        let label = quoted(&if title == place { title } else { format!("{title}, {place}") });
        let style = if matches!(broker.outcome, Some(Ok(()))) { "" } else { ", style=dashed" };
        let _infallible = writeln!(out, "    b{number} [label={label}{style}];");
    }
    for flow in net.flows() {
        let label = quoted(&format!("{} {}", flow.exchange, flow.carries));
        let style = if flow.runs { "" } else { ", style=dashed" };
        let _infallible = writeln!(out, "    b{} -> b{} [label={label}{style}];", flow.from, flow.to);
    }
    out.push_str("}\n");
    out
}
