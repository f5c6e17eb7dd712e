//! Listings of links and routes in aligned columns, in the format of qpid-route.

use crate::broker_address::BrokerAddress;
use client::peer;
use definitions::Json;
use std::fmt::Write;
use wire::Escaped;

/// A text member of a reply; empty if absent.
pub fn text<'a>(from: &'a Json, name: &str) -> &'a str {
    match from.get(name) {
        Some(Json::Text(text)) => text,
        _ => "",
    }
}

/// A list member of a reply; empty if absent.
pub fn list<'a>(from: &'a Json, name: &str) -> &'a [Json] {
    match from.get(name) {
        Some(Json::List(items)) => items,
        _ => &[],
    }
}

/// A Boolean member of a reply; false if absent.
pub fn flag(from: &Json, name: &str) -> bool {
    from.get(name) == Some(&Json::Bool(true))
}

fn number(from: &Json, name: &str) -> String {
    match from.get(name) {
        Some(Json::Int(number)) => number.to_string(),
        Some(Json::Float(number)) => format!("{number:.0}"),
        _ => "-".to_owned(),
    }
}

/// The links of a broker, and what has made them.
pub fn links(_at: &BrokerAddress, reply: &Json, verbose: bool) -> String {
    let mut rows = vec![vec!["Host", "Port", "Transport", "Durable", "State", "Origin", "Last Error"]];
    if verbose {
        rows[0].splice(5..5, ["For (s)", "Next try (s)", "Connections", "Broker"]);
    }
    let mut rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.into_iter().map(str::to_owned).collect()).collect();
    for link in list(reply, "links").iter().chain(list(reply, "parameter_links")) {
        let (host, port, transport) = parts(text(link, "peer"), text(link, "transport"));
        let durable = if flag(link, "durable") { "Y" } else { "N" };
        let state = match text(link, "why") {
            why if !why.is_empty() && text(link, "last_error") != why => format!("{}: {why}", text(link, "state")),
            _ => text(link, "state").to_owned(),
        };
        let mut row = vec![host, port, transport, durable.to_owned(), state];
        if verbose {
            row.extend([number(link, "state_for_s"), number(link, "next_in_s"), number(link, "connections")]);
            row.push(named(text(link, "cluster_name"), text(link, "peer_vhost")));
        }
        row.extend(["origin", "last_error"].map(|name| text(link, name).to_owned()));
        rows.push(row);
    }
    if rows.len() == 1 {
        return "No links found\n".to_owned();
    }
    table(&rows, true)
}

/// The routes of a broker, a line each: destination, source, exchange, and what is carried.
pub fn routes(at: &BrokerAddress, reply: &Json, verbose: bool) -> String {
    let mut rows = Vec::new();
    if verbose {
        let head = [
            "Destination",
            "Source",
            "Exchange",
            "What",
            "Durable",
            "Ack",
            "Credit",
            "State",
            "Messages/s",
            "Messages",
        ];
        let head =
            head.into_iter().chain(["Unacked", "Lag", "Redelivered", "Dropped", "Given up", "Bindings", "Error"]);
        rows.push(head.map(str::to_owned).collect());
    }
    for link in list(reply, "links") {
        for route in list(link, "routes") {
            let (here, there) = (at.short_name(), peer::short_name(text(link, "peer")).to_owned());
            let (dest, src) = if text(route, "direction") == "push" { (there, here) } else { (here, there) };
            let mut row = vec![dest, src, text(route, "exchange").to_owned(), carried(route)];
            if verbose {
                let durable = if flag(route, "durable") { "Y" } else { "N" };
                let state = match (flag(route, "runs"), text(link, "state")) {
                    (true, state) => state,
                    (false, "running") => "waiting",
                    (false, state) => state,
                };
                row.extend([durable, text(route, "ack")].map(str::to_owned));
                row.extend([number(route, "credit"), state.to_owned()]);
                let counts = [
                    "messages_per_s",
                    "messages",
                    "unacknowledged",
                    "lag",
                    "redelivered",
                    "dropped",
                    "given_up",
                    "bindings",
                ];
                row.extend(counts.map(|name| number(route, name)));
                row.push(text(route, "error").to_owned());
            }
            rows.push(row);
        }
    }
    table(&rows, verbose)
}

/// What a route carries, as qpid-route shows it.
pub fn carried(route: &Json) -> String {
    match (route.get("key"), route.get("queue")) {
        (Some(Json::Text(key)), _) => key.clone(),
        (_, Some(Json::Text(queue))) => format!("<queue {queue}>"),
        _ => "<dynamic>".to_owned(),
    }
}

/// A broker by its name, with its virtual host unless that is the default one.
pub fn named(cluster_name: &str, vhost: &str) -> String {
    match (cluster_name, vhost) {
        ("", _) => "-".to_owned(),
        (name, "" | "/") => name.to_owned(),
        (name, vhost) => format!("{name} ({vhost})"),
    }
}

/// Host, port and transport of a peer.
fn parts(peer: &str, transport: &str) -> (String, String, String) {
    if let Some(path) = peer.strip_prefix("amqp+unix:") {
        return (path.to_owned(), "-".to_owned(), "unix".to_owned());
    }
    let (scheme, rest) = peer.split_once("://").unwrap_or(("", peer));
    let (place, vhost) = rest.split_once('/').map_or((rest, ""), |(place, vhost)| (place, vhost));
    let (host, port) = place.rsplit_once(':').unwrap_or((place, "-"));
    let host = if vhost.is_empty() { host.to_owned() } else { format!("{host}/{vhost}") };
    let by = match (transport, scheme) {
        ("", "amqps") => "tls",
        ("", "amqp") => "tcp",
        ("", other) => other.strip_prefix("amqp+").unwrap_or(other),
        (transport, _) => transport,
    };
    (host, port.to_owned(), by.to_owned())
}

/// Rows in aligned columns; the first may be an underlined heading.
pub fn table(rows: &[Vec<String>], has_heading: bool) -> String {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| Escaped(cell).to_string()).collect::<Vec<_>>();
    let rows: Vec<_> = rows.iter().map(escaped).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect::<Vec<_>>();
        let _infallible = writeln!(out, "{}", cells.join("  ").trim_end());
        if at == 0 && has_heading {
            let _infallible = writeln!(out, "{}", "=".repeat(widths.iter().sum::<usize>() + 2 * (columns.max(1) - 1)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{links, routes};
    use crate::broker_address::BrokerAddress;
    use definitions::Json;

    const FOUND: &str = r#"{"links":[
        {"peer":"amqp://root:5672","origin":"operator","durable":true,"state":"running","why":null,"next_in_s":null,"state_for_s":61.2,
         "cluster_name":"root","peer_vhost":"/","transport":"tcp","connections":1,"last_error":null,"routes":[
            {"exchange":"amq.topic","kind":"dynamic","direction":"pull","ack":"confirm","credit":1000,"durable":true,"runs":true,
             "error":null,"messages":7000,"messages_per_s":123.4,"unacknowledged":3,"lag":null,"redelivered":0,"dropped":0,"given_up":4,"bindings":2},
            {"exchange":"orders","key":"eu.#","direction":"push","ack":"none","credit":0,"runs":false}]},
        {"peer":"amqps://other.example:5671/shop","durable":false,"state":"refused","why":"403","last_error":"403",
         "transport":"","origin":"operator","routes":[{"exchange":"x","queue":"q","direction":"pull"}]}],
        "parameter_links":[{"peer":"amqp://h:5672","origin":"shovel move of /","durable":true,"state":"running",
         "transport":"tcp","connections":1,"last_error":null,"routes":[{"exchange":"y","queue":"q"}]}]}"#;

    fn reply() -> (BrokerAddress, Json) {
        (BrokerAddress::of("amqp://leaf".to_owned()).expect("an address"), Json::read(FOUND.as_bytes()).expect("JSON"))
    }

    #[test]
    fn links_are_listed_in_columns() {
        let (at, reply) = reply();
        let expect = "\
Host                Port  Transport  Durable  State    Origin            Last Error
===================================================================================
root                5672  tcp        Y        running  operator
other.example/shop  5671  tls        N        refused  operator          403
h                   5672  tcp        Y        running  shovel move of /
";
        assert_eq!(links(&at, &reply, false), expect);
        assert!(
            links(&at, &reply, true).contains("61       -             1            root  "),
            "{}",
            links(&at, &reply, true)
        );
        assert_eq!(links(&at, &Json::Object(vec![]), true), "No links found\n");
    }

    #[test]
    fn names_of_other_brokers_cannot_control_the_terminal() {
        const HOSTILE: &str = r#"{"links":[{"peer":"amqp://ro\u001b]0;x\u0007ot","state":"refused","durable":false,
            "why":"403\nroot 5672 tcp Y running","cluster_name":"\u009b2J","transport":"tcp",
            "routes":[{"exchange":"e\r\nforged","key":"\u202ekey\u007f","error":"no\u0000ne"}]}]}"#;
        let (at, _) = reply();
        let reply = Json::read(HOSTILE.as_bytes()).expect("JSON");
        for (listed, lines, part) in [
            (links(&at, &reply, false), 3, "refused: 403\\nroot 5672 tcp Y running"),
            (links(&at, &reply, true), 3, "\\u009b2J"),
            (routes(&at, &reply, false), 1, "e\\r\\nforged  \\u202ekey\\u007f"),
            (routes(&at, &reply, true), 3, "no\\u0000ne"),
        ] {
            assert!(listed.lines().count() == lines && listed.contains(part), "{listed:?}");
            assert!(!listed.contains(|letter: char| letter != '\n' && letter.is_control()), "{listed:?}");
        }
    }

    #[test]
    fn routes_are_listed_from_destination_to_source() {
        let (at, reply) = reply();
        let expect = "\
leaf:5672  root:5672                        amq.topic  <dynamic>
root:5672  leaf:5672                        orders     eu.#
leaf:5672  amqps://other.example:5671/shop  x          <queue q>
";
        assert_eq!(routes(&at, &reply, false), expect);
        let long = routes(&at, &reply, true);
        let line = long.lines().nth(2).unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().skip(3).collect();
        assert_eq!(
            words,
            ["<dynamic>", "Y", "confirm", "1000", "running", "123", "7000", "3", "-", "0", "0", "4", "2"]
        );
        assert_eq!(routes(&at, &Json::Object(vec![]), false), "");
    }
}
