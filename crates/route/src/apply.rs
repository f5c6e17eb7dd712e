//! `harrier route apply`: compares a declared topology with the brokers, and applies the differences.
//!
//! Owns the file format. The brokers in a file get exactly the links and routes in it, in their virtual hosts. Nothing
//! changes before every broker has answered and the whole file is valid.

use crate::broker_address::BrokerAddress;
use crate::command_line::{LinkTransport, RouteOptions};
use crate::limits::FILE_BYTES_MAX;
use crate::listing::{flag, list, text};
use crate::second_path::{self, RouteEdge};
use crate::{CommandOutput, RouteFailure, begin, refused};
use admin::{AdminConnection, RequestErrorKind};
use client::peer;
use definitions::Json;
use definitions::toml_text::{self, only, tables};
use federation::{FederationPlan, LinkKey, LinkSpec, RouteDirection, RouteKind, RouteSpec, route_spec};
use secrets::secret_file;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use topology::KeyMatching;
use wire::Escaped;

/// Applies the file, or shows the differences.
pub fn apply(file: &str, options: &RouteOptions, said: &mut CommandOutput) -> Result<(), RouteFailure> {
    let declared =
        DeclaredTopology::read(file, options).map_err(|why| RouteFailure::Refused(format!("{file}: {why}")))?;
    if declared.has_login {
        said.remarks.extend(secret_file::warning(file));
    }
    let (mut asked, mut changes, mut known) = (Vec::new(), Vec::new(), HashMap::new());
    let (mut types, mut others) = (BTreeMap::new(), BTreeSet::new());
    for (name, broker) in &declared.brokers {
        let mut connection = begin(&broker.admin_address, options)?;
        let identity = (connection.server_property("cluster_name"), &broker.admin_address.url.vhost);
        if let Some(other) = identity.0.is_some().then(|| known.insert(identity, name)).flatten() {
            return refused(format!("{name} and {other} are the same broker: each needs a name of its own"));
        }
        let reply = match connection.ask("links", vec![("vhost", Json::text(&broker.admin_address.url.vhost))]) {
            // A broker of another make can be a source; it is not asked.
            Err(none) if none.kind == RequestErrorKind::NotHarrier && broker.plan.links().is_empty() => {
                connection.end();
                others.insert(name);
                continue;
            }
            answer => answer?,
        };
        broker.ask_types(&mut connection, &mut types)?;
        let mut here = broker.changes(name, &reply, &declared)?;
        let logins = broker.ask_logins(name, &reply, &declared, &here, &mut connection)?;
        here.extend(logins);
        changes.extend(here.into_iter().map(|change| (asked.len(), change)));
        asked.push(connection);
    }
    if let Err(why) =
        declared.check_single_paths(|exchange| key_matching(&types, exchange), |broker| !others.contains(broker))
    {
        asked.into_iter().for_each(AdminConnection::end);
        return refused(format!("{file}: {why}"));
    }
    // Removals come first, on whatever broker, so that additions have capacity.
    changes.sort_by_key(|(_, change)| change.adds);
    let outcome = if options.dry_run { Ok(()) } else { execute(&mut asked, &changes) };
    asked.into_iter().for_each(AdminConnection::end);
    outcome?;
    if options.json {
        let line = |change: &TopologyChange| {
            let entries = change.arguments.iter().filter(|(name, _)| *name != "url");
            let mut entries: Vec<_> = entries.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            entries.insert(0, ("command".to_owned(), Json::text(change.command)));
            entries.insert(1, ("broker".to_owned(), Json::text(&change.broker)));
            entries.insert(2, ("peer".to_owned(), Json::text(&change.peer)));
            Json::Object(entries)
        };
        let all = Json::List(changes.iter().map(|(_, change)| line(change)).collect());
        let _infallible = writeln!(said.out, "{}", all.page());
    } else if !options.quiet {
        if changes.is_empty() {
            said.out.push_str("nothing is different\n");
        }
        for (_, change) in &changes {
            let _infallible = writeln!(said.out, "{} {}", change.mark(), Escaped(&change.line));
        }
    }
    Ok(())
}

/// Whether a file is a topology, as far as can be known without its brokers.
pub fn check(file: &str, options: &RouteOptions) -> Result<(), String> {
    DeclaredTopology::read(file, options).map(drop)
}

fn execute(asked: &mut [AdminConnection], changes: &[(usize, TopologyChange)]) -> Result<(), RouteFailure> {
    for (done, (at, change)) in changes.iter().enumerate() {
        asked[*at].ask(change.command, change.arguments.clone()).map_err(|none| {
            let left = changes.len() - done;
            RouteFailure::Refused(format!("{}: {}; {done} changes are made, {left} are not", change.line, none.text))
        })?;
    }
    Ok(())
}

/// How an exchange matches keys, according to the brokers; unknown if they disagree or lack it.
fn key_matching(types: &TypesByExchange, exchange: &str) -> KeyMatching {
    match types.get(exchange).map(|types| types.iter().collect::<Vec<_>>()).as_deref() {
        Some([kind]) => KeyMatching::of_exchange_type(kind),
        _ => KeyMatching::Unknown,
    }
}

/// Exchange types reported by the brokers, by exchange name.
type TypesByExchange = BTreeMap<String, BTreeSet<String>>;

/// The content of a file.
struct DeclaredTopology {
    brokers: BTreeMap<String, DeclaredBroker>,
    /// The edges of each exchange, with the number of their route; queue routes make no second path.
    edges: Vec<(usize, Box<str>, RouteEdge<String>)>,
    /// Broker names by address.
    names: HashMap<String, String>,
    /// An address has a login.
    has_login: bool,
}

struct DeclaredBroker {
    /// The address for admin requests.
    admin_address: BrokerAddress,
    /// The address that other brokers dial.
    dial_address: BrokerAddress,
    /// Its desired links and routes.
    plan: FederationPlan,
}

struct TopologyChange {
    adds: bool,
    /// The change modifies something that exists.
    changes: bool,
    broker: String,
    peer: String,
    command: &'static str,
    arguments: Vec<(&'static str, Json)>,
    /// The line to print.
    line: String,
}

impl TopologyChange {
    fn mark(&self) -> char {
        match (self.changes, self.adds) {
            (true, _) => '~',
            (false, true) => '+',
            (false, false) => '-',
        }
    }
}

impl DeclaredTopology {
    fn read(file: &str, options: &RouteOptions) -> Result<Self, String> {
        let length = std::fs::metadata(file).map_err(|error| format!("cannot be read: {error}"))?.len();
        if length > FILE_BYTES_MAX {
            return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
        }
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
        let is_json = text.trim_start().starts_with('{');
        let said = if is_json { Json::read(text.as_bytes())? } else { toml_text::read(&text)? };
        DeclaredTopology::of(&said, options)
    }

    fn of(said: &Json, options: &RouteOptions) -> Result<Self, String> {
        only(said, &["broker", "link", "route"])?;
        let Some(Json::Object(entries)) = said.get("broker") else {
            return Err("there are no brokers: [broker.NAME] with its url".to_owned());
        };
        let (brokers, edges, names) = (BTreeMap::new(), Vec::new(), HashMap::new());
        let mut declared = DeclaredTopology { brokers, edges, names, has_login: false };
        for (name, broker) in entries {
            let place = |why: String| format!("broker {name}: {why}");
            only(broker, &["url", "dial"]).map_err(place)?;
            let entry = |key: &str| route_spec::text(broker, key).map_err(place);
            let url = entry("url")?.ok_or_else(|| place("url is missing".to_owned()))?;
            let at = BrokerAddress::read(url, LinkTransport::Tcp).map_err(place)?;
            let dialled = match entry("dial")? {
                Some(text) => BrokerAddress::read(text, options.transport).map_err(place)?,
                None => at.clone(),
            };
            declared.has_login |= [&at, &dialled].iter().any(|address| address.text.contains('@'));
            for known in [at.peer(), dialled.peer()] {
                match declared.names.insert(known, name.clone()) {
                    Some(other) if other != *name => return Err(place(format!("it is where {other} is"))),
                    _ => {}
                }
            }
            declared.brokers.insert(
                name.clone(),
                DeclaredBroker { admin_address: at, dial_address: dialled, plan: FederationPlan::default() },
            );
        }
        for (at, link) in tables(said, "link")?.iter().enumerate() {
            let place = |why: String| format!("link {}: {why}", at + 1);
            only(link, &["dest", "src", "direction", "durable"]).map_err(place)?;
            let direction = match route_spec::text(link, "direction").map_err(place)? {
                None | Some("pull") => RouteDirection::Pull,
                Some("push") => RouteDirection::Push,
                Some(other) => return Err(place(format!("direction: it is pull or push, not '{other}'"))),
            };
            let durable = route_spec::flag(link, "durable").map_err(place)? || options.durable;
            declared.link(link, direction, durable).map_err(place)?;
        }
        let mut known = vec!["dest", "src"];
        known.extend(route_spec::ENTRIES);
        for (at, said) in tables(said, "route")?.iter().enumerate() {
            let place = |why: String| format!("route {}: {why}", at + 1);
            only(said, &known).map_err(place)?;
            let mut route = route_spec::read(said).map_err(place)?;
            route.durable |= options.durable;
            route.forced |= options.force;
            let (dest, src) = ends(said).map_err(place)?;
            let (dialler, key) = declared.link(said, route.direction, route.durable).map_err(place)?;
            if !matches!(route.kind, RouteKind::Queue { .. }) {
                let key = match &route.kind {
                    RouteKind::Static { key } => Some(key.to_string()),
                    _ => None,
                };
                let (from, to, pushed) = (src.to_owned(), dest.to_owned(), route.direction == RouteDirection::Push);
                let edge = RouteEdge { from, to, key, pushed, forced: route.forced };
                declared.edges.push((at + 1, route.exchange.clone(), edge));
            }
            let broker = declared.brokers.get_mut(&dialler).ok_or_else(|| place("a broker is gone".to_owned()))?;
            broker.plan.add_route(&key, route).map_err(|why| place(why.to_string()))?;
        }
        Ok(declared)
    }

    /// Checks that the only second paths are forced ones.
    fn check_single_paths(
        &self,
        comparing: impl Fn(&str) -> KeyMatching,
        marks: impl Fn(&String) -> bool,
    ) -> Result<(), String> {
        let mut placed: BTreeMap<&str, Vec<RouteEdge<String>>> = BTreeMap::new();
        let (forced, plain): (Vec<_>, Vec<_>) = self.edges.iter().partition(|(_, _, edge)| edge.forced);
        for (number, exchange, edge) in plain.into_iter().chain(forced) {
            let placed = placed.entry(exchange).or_default();
            if let Some(wrong) = second_path::check_second_path(placed, edge, comparing(exchange), &marks) {
                let why = wrong.describe(exchange, "forced = true allows it", String::clone);
                return Err(format!("route {number}: {why}"));
            }
            placed.push(edge.clone());
        }
        Ok(())
    }

    /// Adds the link between two brokers to the plan of the one that dials, and returns which that is.
    fn link(&mut self, said: &Json, direction: RouteDirection, durable: bool) -> Result<(String, LinkKey), String> {
        let (dest, src) = ends(said)?;
        for name in [dest, src] {
            if !self.brokers.contains_key(name) {
                return Err(format!("there is no [broker.{name}]"));
            }
        }
        let (near, far) = if direction == RouteDirection::Push { (src, dest) } else { (dest, src) };
        let url = self.brokers[far].dial_address.clone();
        let own = [self.brokers[near].admin_address.peer().into(), self.brokers[near].dial_address.peer().into()];
        let Some(broker) = self.brokers.get_mut(near) else { return Err(format!("there is no [broker.{near}]")) };
        let key = LinkKey::of_operator(broker.admin_address.url.vhost.as_str().into(), url.peer().into());
        let user = broker.admin_address.url.user.as_str().into();
        let spec = LinkSpec { key: key.clone(), url: url.text.into(), user, durable, options: Default::default() };
        broker.plan.add_link(spec, &own).map_err(|why| why.to_string())?;
        Ok((near.to_owned(), key))
    }

    /// The name of the broker at an address.
    fn name(&self, peer: &str) -> String {
        self.names.get(peer).cloned().unwrap_or_else(|| peer::short_name(peer).to_owned())
    }
}

fn ends(said: &Json) -> Result<(&str, &str), String> {
    let end = |name: &str| route_spec::text(said, name)?.ok_or_else(|| format!("{name} is missing"));
    Ok((end("dest")?, end("src")?))
}

impl DeclaredBroker {
    /// Asks for the types of exchanges whose routes have keys.
    fn ask_types(&self, connection: &mut AdminConnection, types: &mut TypesByExchange) -> Result<(), RouteFailure> {
        let routes = self.plan.links().iter().flat_map(|planned| &planned.routes);
        let keyed = routes.filter(|route| matches!(route.kind, RouteKind::Static { .. }));
        for exchange in keyed.map(|route| &*route.exchange).collect::<BTreeSet<_>>() {
            let arguments =
                vec![("vhost", Json::text(&self.admin_address.url.vhost)), ("exchange", Json::text(exchange))];
            let reply = connection.ask("links", arguments)?;
            types.entry(exchange.to_owned()).or_default().insert(text(&reply, "exchange_type").to_owned());
        }
        Ok(())
    }

    /// The changes that give existing links their declared logins. Only the broker knows which they have.
    fn ask_logins(
        &self,
        name: &str,
        reply: &Json,
        declared: &DeclaredTopology,
        changes: &[TopologyChange],
        connection: &mut AdminConnection,
    ) -> Result<Vec<TopologyChange>, RouteFailure> {
        let mut logins = Vec::new();
        for planned in self.plan.links() {
            let (peer, url) = (&*planned.link.key.peer, &*planned.link.url);
            let is_there = list(reply, "links").iter().any(|link| text(link, "peer") == peer);
            if !is_there || changes.iter().any(|change| change.command == "link-add" && change.peer == peer) {
                continue;
            }
            let mut arguments = vec![("vhost", Json::text(&self.admin_address.url.vhost)), ("url", Json::text(url))];
            let tried = [&arguments[..], &[("dry_run", Json::Bool(true))]].concat();
            if !flag(&connection.ask("link-add", tried)?, "changed") {
                continue;
            }
            arguments.push(("durable", Json::Bool(planned.link.durable)));
            logins.push(TopologyChange {
                adds: true,
                changes: true,
                broker: name.to_owned(),
                peer: peer.to_owned(),
                command: "link-add",
                arguments,
                line: format!("{name}: login of the link to {}", declared.name(peer)),
            });
        }
        Ok(logins)
    }

    /// The changes that bring a broker to its plan.
    fn changes(
        &self,
        name: &str,
        reply: &Json,
        declared: &DeclaredTopology,
    ) -> Result<Vec<TopologyChange>, RouteFailure> {
        let vhost = &self.admin_address.url.vhost;
        let change = |adds, command, peer: &str, url: &str, more: Vec<(&'static str, Json)>, what: String| {
            let mut arguments = vec![("vhost", Json::text(vhost)), ("url", Json::text(url))];
            arguments.extend(more);
            let line = format!("{name}: {what}");
            TopologyChange {
                adds,
                changes: false,
                broker: name.to_owned(),
                peer: peer.to_owned(),
                command,
                arguments,
                line,
            }
        };
        let route_line = |peer: &str, route: &RouteSpec| {
            let arrow = if route.direction == RouteDirection::Push { "to" } else { "from" };
            format!("route {} {arrow} {}", route.title(), declared.name(peer))
        };
        let named = |link: &LinkSpec| format!("link to {}", declared.name(&link.key.peer));
        let mut changes = Vec::new();
        let there: Vec<_> = list(reply, "links").iter().map(|link| (text(link, "peer"), link)).collect();
        for (peer, _) in there.iter().filter(|(peer, _)| !self.plan.links().iter().any(|l| *l.link.key.peer == **peer))
        {
            let what = format!("link to {}", declared.name(peer));
            changes.push(change(false, "link-delete", peer, peer, vec![], what));
        }
        for planned in self.plan.links() {
            let (peer, url, durable) = (&*planned.link.key.peer, &*planned.link.url, planned.link.durable);
            let reply = there.iter().find(|(there, _)| *there == peer).map(|(_, link)| *link);
            let add_link =
                || change(true, "link-add", peer, url, vec![("durable", Json::Bool(durable))], named(&planned.link));
            let mut routes = Vec::new();
            match reply {
                None => changes.push(add_link()),
                Some(link) if flag(link, "durable") && !durable => {
                    changes.push(change(false, "link-delete", peer, peer, vec![], named(&planned.link)));
                    changes.push(add_link());
                }
                Some(link) => {
                    if durable && !flag(link, "durable") {
                        changes.push(add_link());
                    }
                    for route in list(link, "routes") {
                        routes.push(route_spec::read(route).or_else(refused)?);
                    }
                }
            }
            for route in routes.iter().filter(|route| !planned.routes.contains(route)) {
                changes.push(change(false, "route-delete", peer, peer, title_of(route), route_line(peer, route)));
            }
            for route in planned.routes.iter().filter(|route| !routes.contains(route)) {
                let what = route_line(peer, route);
                changes.push(change(true, "route-add", peer, url, route_spec::entries(route), what));
            }
        }
        Ok(changes)
    }
}

/// The entries that identify a route.
fn title_of(route: &RouteSpec) -> Vec<(&'static str, Json)> {
    let mut entries = route_spec::entries(route);
    entries.retain(|(name, _)| ["exchange", "key", "queue", "direction"].contains(name));
    entries
}

#[cfg(test)]
mod tests {
    use super::{DeclaredTopology, RouteOptions};
    use crate::command_line;
    use definitions::{Json, toml_text};
    use topology::KeyMatching;

    const BROKERS: &str = "[broker.a]\nurl = \"amqp://h:1\"\n[broker.b]\nurl = \"amqp://h:2\"\n[broker.c]\nurl = \"h:3\"\ndial = \"u/p@h:4\"\n";

    fn options() -> RouteOptions {
        let given = cli::parse(command_line::flat_command(), ["link", "list"]).expect("words");
        command_line::read(&given).expect("sound").options
    }

    fn route(dest: &str, src: &str, more: &str) -> String {
        format!("[[route]]\ndest = \"{dest}\"\nsrc = \"{src}\"\nexchange = \"x\"\n{more}\n")
    }

    fn read(text: &str) -> Result<DeclaredTopology, String> {
        let declared = DeclaredTopology::of(&toml_text::read(text).expect("TOML"), &options())?;
        declared.check_single_paths(|_| KeyMatching::Unknown, |_| true).map(|()| declared)
    }

    #[test]
    fn what_is_different_becomes_steps() {
        let text = format!("{BROKERS}{}{}", route("b", "a", ""), route("c", "b", "direction = \"push\"\nkey = \"k\""));
        let declared = read(&text).expect("sound");
        let lines = |name: &str, reply: &str| {
            let reply = Json::read(reply.as_bytes()).expect("JSON");
            let changes = declared.brokers[name].changes(name, &reply, &declared);
            let changes = changes.unwrap_or_else(|_| panic!("{name}"));
            changes
                .iter()
                .map(|change| format!("{}{} {}", if change.adds { '+' } else { '-' }, change.command, change.line))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            lines("b", "{}"),
            [
                "+link-add b: link to a",
                "+route-add b: route x(<dynamic>) from a",
                "+link-add b: link to c",
                "+route-add b: route x(k, pushed) to c",
            ]
        );
        let same = r#"{"links":[{"peer":"amqp://h:1","routes":[{"exchange":"x"}]},
            {"peer":"amqp://h:4","routes":[{"exchange":"x","key":"k","direction":"push"}]}]}"#;
        assert_eq!(lines("b", same), [""; 0]);
        let other = r#"{"links":[{"peer":"amqp://h:1","durable":true,"routes":[]},{"peer":"amqp://z:1"},
            {"peer":"amqp://h:4","routes":[{"exchange":"x","key":"k","direction":"push","credit":7},{"exchange":"y"}]}]}"#;
        assert_eq!(
            lines("b", other),
            [
                "-link-delete b: link to z:1",
                "-link-delete b: link to a",
                "+link-add b: link to a",
                "+route-add b: route x(<dynamic>) from a",
                "-route-delete b: route x(k, pushed) to c",
                "-route-delete b: route y(<dynamic>) from c",
                "+route-add b: route x(k, pushed) to c",
            ]
        );
        assert_eq!(lines("a", same), ["-link-delete a: link to a", "-link-delete a: link to c"]);
    }

    #[test]
    fn a_file_that_is_not_sound_is_told() {
        for (text, expect) in [
            (String::new(), "there are no brokers: [broker.NAME] with its url"),
            ("[brokers.a]\n".to_owned(), "'brokers' is not known here; there may be broker, link, route"),
            ("[broker.a]\nhost = 1\n".to_owned(), "broker a: 'host' is not known here; there may be url, dial"),
            ("[broker.a]\n".to_owned(), "broker a: url is missing"),
            ("[broker.a]\nurl = \"h:x\"\n".to_owned(), "broker a: the address: 'x' is no port"),
            ("[broker.a]\nurl = \"h\"\n[broker.b]\nurl = \"h\"\n".to_owned(), "broker b: it is where a is"),
            (format!("{BROKERS}{}", route("a", "z", "")), "route 1: there is no [broker.z]"),
            (
                format!("{BROKERS}{}", route("a", "a", "")),
                "route 1: amqp://h:1 is this broker: it cannot be linked to itself",
            ),
            (
                format!("{BROKERS}{}", route("a", "b", "kind = \"x\"")),
                "route 1: 'kind' is not known here; there may be dest, src, exchange, key, queue, direction, ack, credit, hops_max, durable, forced, dead_letter_exchange",
            ),
            (
                format!("{BROKERS}{}{}", route("a", "b", ""), route("a", "b", "credit = 5")),
                "route 2: duplicate route: the link to amqp://h:2 has x(<dynamic>) already",
            ),
            (
                format!("{BROKERS}{}{}{}", route("b", "a", ""), route("c", "b", ""), route("c", "a", "")),
                "route 3: messages of exchange 'x' would have a second path from a to c: a -> c, beside a -> b -> c (forced = true allows it)",
            ),
        ] {
            assert_eq!(read(&text).map(|_| ()), Err(expect.to_owned()));
        }
        let forced =
            format!("{BROKERS}{}{}{}", route("b", "a", ""), route("c", "b", ""), route("c", "a", "forced = true"));
        read(&forced).unwrap_or_else(|why| panic!("{why}"));
        let both = format!("{BROKERS}{}{}", route("b", "a", ""), route("a", "b", ""));
        read(&both).unwrap_or_else(|why| panic!("{why}"));
    }
}
