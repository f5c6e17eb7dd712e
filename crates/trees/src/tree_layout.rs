//! The layout of a planned tree: which broker is on which host, and the routes that join them.
//!
//! The root gets the first host, then level by level from left to right.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use topology::{Tree, TreeBroker};

use crate::limits::LISTED_BYTES_MAX;
use harness::failure::CommandFailure;

/// A tree with hosts for its brokers.
#[derive(Clone, Debug)]
pub(super) struct TreeLayout<'a> {
    tree: &'a Tree,
    hosts: Option<&'a [String]>,
    exchange: &'a str,
    ack: &'a str,
    transport: &'a str,
}

/// Reads hosts, one a line: the address by which `harrier route` reaches the broker; `#` begins a comment.
///
/// # Errors
/// No such file, or no hosts in it.
pub(super) fn hosts(file: &Path) -> Result<Vec<String>, CommandFailure> {
    let told = |why: String| CommandFailure::Usage(format!("{}: {why}", file.display()));
    let length = fs::metadata(file).map_err(|error| told(error.to_string()))?.len();
    if length > LISTED_BYTES_MAX {
        return Err(told(format!("it has more than {LISTED_BYTES_MAX} bytes")));
    }
    let text = fs::read_to_string(file).map_err(|error| told(error.to_string()))?;
    parse_hosts(&text).map_err(told)
}

fn parse_hosts(text: &str) -> Result<Vec<String>, String> {
    let mut hosts: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.split_whitespace().count() > 1 {
            return Err(format!("line {}: a line is one address, not '{line}'", at + 1));
        }
        if !seen.insert(line) {
            return Err(format!("line {}: '{line}' is given twice, and would have two brokers", at + 1));
        }
        hosts.push(line.to_owned());
    }
    if hosts.is_empty() { Err("it names no hosts".to_owned()) } else { Ok(hosts) }
}

impl<'a> TreeLayout<'a> {
    /// If there are hosts, there are enough for the brokers.
    pub fn new(
        tree: &'a Tree,
        hosts: Option<&'a [String]>,
        exchange: &'a str,
        transport: &'a str,
        ack: &'a str,
    ) -> Self {
        Self { tree, hosts, exchange, ack, transport }
    }

    /// The host of a broker; without hosts, its name.
    fn host(&self, broker: TreeBroker) -> String {
        let number = self.tree.number(broker) as usize;
        self.hosts.and_then(|hosts| hosts.get(number)).cloned().unwrap_or_else(|| broker.to_string())
    }

    /// The number of routes: one for each broker but the root.
    pub fn routes_count(&self) -> u32 {
        self.tree.brokers_count() - 1
    }

    /// The commands of `harrier route`, the upper routes first.
    pub fn commands(&self) -> impl Iterator<Item = String> + '_ {
        self.tree.routes().map(|route| {
            let mut options = format!("--ack {}", self.ack);
            if self.transport != "tcp" {
                let _infallible = write!(options, " --transport {}", self.transport);
            }
            let (destination, source) = (self.host(route.destination), self.host(route.source));
            format!("harrier route {options} dynamic add {destination} {source} {}", self.exchange)
        })
    }

    /// The file for `harrier route apply`.
    pub fn file(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let mut text = format!("# {}, for: harrier route", self.tree);
        if self.transport != "tcp" {
            let _infallible = write!(text, " --transport {}", self.transport);
        }
        text.push_str(" apply FILE\n");
        for broker in self.tree.brokers() {
            let (name, url) = (quoted(&broker.to_string()), quoted(&self.host(broker)));
            let _infallible = write!(text, "\n[broker.{name}]\nurl = {url}\n");
        }
        for route in self.tree.routes() {
            let [dest, src] = [route.destination, route.source].map(|broker| quoted(&broker.to_string()));
            let [exchange, ack] = [self.exchange, self.ack].map(quoted);
            let _infallible =
                write!(text, "\n[[route]]\ndest = {dest}\nsrc = {src}\nexchange = {exchange}\nack = {ack}\n");
        }
        text
    }

    /// The layout as JSON.
    pub fn document(&self) -> Value {
        let brokers: Vec<Value> =
            self.tree.brokers().map(|broker| json!({"name": broker.to_string(), "host": self.host(broker)})).collect();
        let routes = self.tree.routes().map(|route| {
            json!({"dest": route.destination.to_string(), "src": route.source.to_string(),
                "exchange": self.exchange, "ack": self.ack})
        });
        json!({"brokers": brokers, "routes": routes.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_lines() {
        assert_eq!(parse_hosts("# mine\n\n a:5672 \nb\n"), Ok(vec!["a:5672".to_owned(), "b".to_owned()]));
        for (text, why) in [
            ("", "it names no hosts"),
            ("# none\n", "it names no hosts"),
            ("a\nb c\n", "line 2: a line is one address, not 'b c'"),
            ("a\nb\na\n", "line 3: 'a' is given twice, and would have two brokers"),
        ] {
            assert_eq!(parse_hosts(text), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_root_has_the_first_host_and_each_broker_pulls_from_the_one_above() {
        let tree: Tree = "B-2B-3B-9C".parse().expect("a tree");
        let hosts: Vec<String> = ["r", "l", "m", "x", "y", "z"].map(str::to_owned).to_vec();
        let layout = TreeLayout::new(&tree, Some(&hosts), "amq.fanout", "tcp", "none");
        let commands: Vec<String> = layout.commands().collect();
        assert_eq!(commands.len() as u32, layout.routes_count());
        let ends: Vec<&str> = commands.iter().map(|line| line.split("add ").nth(1).expect("words")).collect();
        assert_eq!(ends, ["l r amq.fanout", "m r amq.fanout", "x l amq.fanout", "y l amq.fanout", "z m amq.fanout"]);
        assert!(commands.iter().all(|line| line.starts_with("harrier route --ack none dynamic add ")), "{commands:?}");
    }

    #[test]
    fn the_file_names_every_broker_and_route() {
        let tree: Tree = "B-2B-4C".parse().expect("a tree");
        let layout = TreeLayout::new(&tree, None, "a \"b\"", "rdma", "confirm");
        let broker = |name: &str| format!("\n[broker.\"{name}\"]\nurl = \"{name}\"\n");
        let route = |name: &str| {
            let more = "exchange = \"a \\\"b\\\"\"\nack = \"confirm\"\n";
            format!("\n[[route]]\ndest = \"{name}\"\nsrc = \"b0\"\n{more}")
        };
        let first = "# B-2B-4C, for: harrier route --transport rdma apply FILE\n".to_owned();
        let parts = [first, broker("b0"), broker("b1.0"), broker("b1.1"), route("b1.0"), route("b1.1")];
        assert_eq!(layout.file(), parts.concat());
        assert!(layout.commands().all(|line| line.contains("--ack confirm --transport rdma dynamic add b1.")));
    }
}
