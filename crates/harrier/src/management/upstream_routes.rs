//! What parameters and policies say of federated exchanges and queues: which routes over which links.
//!
//! Enters: definitions, parameters.  Leaves: a route for each of them and each of its upstreams, or why there is none.

use crate::management::link_end::{EndReader, LinkEnd};
use crate::management::parameter_entry::ParameterEntry;
use catalog::{Catalog, ExchangeKind, QueueDefinition, VhostId};
use client::peer::encoded;
use definitions::KeptSections;
use federation::{
    AckMode, FederatedQueue, LinkKey, LinkOptions, LinkOrigin, LinkSpec, RouteDirection, RouteKind, RouteOptions,
    RouteSpec,
};
use management::{
    ALL_UPSTREAMS, FederationUpstream, UPSTREAM, UPSTREAM_SET, UpstreamChoice, UpstreamOptions, UpstreamSetEntry,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Federated queues of a broker, and each of their upstreams: all are looked at with each change of definitions.
const QUEUE_LINKS_MAX: usize = 16_384;
/// What a queue of the broker's own says in its arguments: it belongs to a link or a shovel.
const INTERNAL_PURPOSE: &str = "x-internal-purpose";
/// A consumer's tag is a short string.
const TAG_BYTES_MAX: usize = 255;

/// An exchange, or a queue, and one of its upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederatedObject {
    pub vhost: String,
    /// The name of the parameter.
    pub upstream: String,
    pub is_of_queue: bool,
    pub name: String,
    /// At the upstream.
    pub upstream_name: String,
    /// Without a login.
    pub uri: String,
    /// Why there is no link, if so.
    pub route: Result<(LinkSpec, RouteSpec), String>,
}

/// An upstream as it is kept.
struct KeptUpstream<'a> {
    name: &'a str,
    end: Result<(LinkEnd, &'a str), String>,
    value: Result<FederationUpstream, String>,
}

/// The upstreams and sets of one virtual host.
#[derive(Default)]
struct VhostUpstreams<'a> {
    upstreams: BTreeMap<&'a str, KeptUpstream<'a>>,
    sets: BTreeMap<&'a str, Result<Vec<UpstreamSetEntry>, String>>,
}

/// The federated exchanges of a broker that listens at these addresses.
pub fn federated_objects(catalog: &Catalog, kept: &KeptSections, addresses: &[String]) -> Vec<FederatedObject> {
    let vhosts = read_upstreams(catalog, kept, addresses);
    if vhosts.values().all(|vhost| vhost.upstreams.is_empty()) {
        return Vec::new();
    }
    let mut objects = Vec::new();
    for (_, exchange) in catalog.exchanges() {
        let Some(upstreams) = vhosts.get(&exchange.vhost) else { continue };
        let may_be = !exchange.is_default() && !exchange.internal && exchange.kind != ExchangeKind::FederationUpstream;
        let Some(policy) = exchange.policy.as_deref().filter(|_| may_be) else { continue };
        let (vhost, name) = (catalog.vhost_name(exchange.vhost), &*exchange.name);
        let chosen =
            UpstreamChoice::of(&policy.definition).map(|choice| choice.map(|choice| upstreams.chosen(&choice)));
        match chosen {
            Ok(entries) => objects
                .extend(entries.into_iter().flatten().map(|entry| upstreams.federated_exchange(vhost, name, &entry))),
            Err(why) => objects.push(refused(vhost, "", (name, false), why)),
        }
    }
    let mut queue_links = 0;
    for (_, queue) in catalog.queues().filter(|(_, queue)| may_be_federated(queue)) {
        let (Some(upstreams), Some(policy)) = (vhosts.get(&queue.vhost), queue.policy.as_deref()) else { continue };
        let (vhost, name) = (catalog.vhost_name(queue.vhost), &*queue.name);
        let entries = match UpstreamChoice::of(&policy.definition) {
            Ok(choice) => choice.map(|choice| upstreams.chosen(&choice)).unwrap_or_default(),
            Err(why) => {
                objects.push(refused(vhost, "", (name, true), why));
                continue;
            }
        };
        queue_links += entries.len();
        if queue_links > QUEUE_LINKS_MAX {
            let why = format!("queues have {QUEUE_LINKS_MAX} upstreams in all: this one and those behind it have none");
            objects.push(refused(vhost, "", (name, true), why));
            break;
        }
        objects.extend(entries.iter().map(|entry| upstreams.federated_queue(vhost, queue, entry)));
    }
    // Entries of a set that come to the same count once.
    let mut known = HashSet::new();
    objects.retain(|object| known.insert(object.identity()));
    objects
}

/// Whether a queue has links if a policy says so. One that goes with its connection has none, as in RabbitMQ.
fn may_be_federated(queue: &QueueDefinition) -> bool {
    let is_internal = queue.arguments.as_deref().is_some_and(|arguments| arguments.get(INTERNAL_PURPOSE).is_some());
    queue.exclusive.is_none() && !is_internal
}

impl FederatedObject {
    /// What tells it from others.
    pub fn identity(&self) -> String {
        let FederatedObject { vhost, upstream, is_of_queue, name, upstream_name, .. } = self;
        let escaped = [vhost, upstream, name, upstream_name].map(|part| encoded(part));
        format!("{} {is_of_queue}", escaped.join(" "))
    }
}

/// Checks whether the broker can do what a sound upstream says.
///
/// # Errors
/// An address is malformed, or leads to the virtual host of the parameter itself.
pub fn check_upstream(
    catalog: &Catalog,
    entry: &ParameterEntry<'_>,
    user: &str,
    addresses: &[String],
) -> Result<(), String> {
    let upstream = FederationUpstream::read(entry.value)?;
    let reader = EndReader { catalog, addresses, user, vhost: entry.vhost };
    end_of(&reader, &upstream, entry.vhost).map(drop)
}

fn end_of(reader: &EndReader<'_>, upstream: &FederationUpstream, vhost: &str) -> Result<LinkEnd, String> {
    match reader.read(&upstream.uris)? {
        LinkEnd::Here { vhost: other, .. } if other == vhost => {
            Err(format!("virtual host '{vhost}' of this broker cannot be its own upstream"))
        }
        end => Ok(end),
    }
}

fn read_upstreams<'a>(
    catalog: &'a Catalog,
    kept: &'a KeptSections,
    addresses: &[String],
) -> HashMap<VhostId, VhostUpstreams<'a>> {
    let mut vhosts: HashMap<VhostId, VhostUpstreams<'a>> = HashMap::new();
    for entry in ParameterEntry::of(kept, UPSTREAM) {
        let Some(id) = catalog.vhost_by_name(entry.vhost) else { continue };
        let value = FederationUpstream::read(entry.value);
        let end = value.as_ref().map_err(Clone::clone).and_then(|value| {
            let user = entry.user(catalog, entry.vhost)?;
            let reader = EndReader { catalog, addresses, user, vhost: entry.vhost };
            Ok((end_of(&reader, value, entry.vhost)?, user))
        });
        let upstream = KeptUpstream { name: entry.name, end, value };
        vhosts.entry(id).or_default().upstreams.insert(entry.name, upstream);
    }
    for entry in ParameterEntry::of(kept, UPSTREAM_SET) {
        let Some(id) = catalog.vhost_by_name(entry.vhost) else { continue };
        vhosts.entry(id).or_default().sets.insert(entry.name, UpstreamSetEntry::read_all(entry.value));
    }
    vhosts
}

impl VhostUpstreams<'_> {
    /// The upstreams that a policy chooses; none where it names what is not there.
    fn chosen(&self, choice: &UpstreamChoice) -> Vec<UpstreamSetEntry> {
        let plain = |name: &str| UpstreamSetEntry { upstream: name.to_owned(), options: UpstreamOptions::default() };
        match choice {
            UpstreamChoice::One(name) => self.upstreams.get(&**name).map(|of| plain(of.name)).into_iter().collect(),
            UpstreamChoice::Set(name) => match self.sets.get(&**name) {
                Some(Ok(entries)) => {
                    entries.iter().filter(|entry| self.upstreams.contains_key(&*entry.upstream)).cloned().collect()
                }
                Some(Err(_)) => Vec::new(),
                None if name == ALL_UPSTREAMS => self.upstreams.keys().map(|name| plain(name)).collect(),
                None => Vec::new(),
            },
            UpstreamChoice::Pattern(pattern) => {
                let names = self.upstreams.keys().filter(|name| pattern.is_in(name.as_bytes()));
                names.map(|name| plain(name)).collect()
            }
        }
    }

    fn federated_exchange(&self, vhost: &str, name: &str, entry: &UpstreamSetEntry) -> FederatedObject {
        let UpstreamLink { link, uri, options } = match self.link(vhost, entry) {
            Ok(known) => known,
            Err(why) => return refused(vhost, &entry.upstream, (name, false), why),
        };
        let upstream_name = options.exchange.clone().unwrap_or_else(|| name.to_owned());
        let route = RouteSpec {
            exchange: name.into(),
            kind: RouteKind::Dynamic,
            hops_max: options.hops_max(),
            options: RouteOptions {
                source_exchange: Some(&*upstream_name).filter(|there| *there != name).map(Into::into),
                queue_expires: options.expires,
                message_ttl: options.message_ttl,
                ..RouteOptions::default()
            },
            ..plain_route(&options)
        };
        FederatedObject {
            vhost: vhost.to_owned(),
            upstream: entry.upstream.clone(),
            is_of_queue: false,
            name: name.to_owned(),
            upstream_name,
            uri,
            route: Ok((link, route)),
        }
    }

    fn federated_queue(&self, vhost: &str, queue: &QueueDefinition, entry: &UpstreamSetEntry) -> FederatedObject {
        let name = &*queue.name;
        let UpstreamLink { link, uri, options } = match self.link(vhost, entry) {
            Ok(known) => known,
            Err(why) => return refused(vhost, &entry.upstream, (name, true), why),
        };
        let upstream_name = options.queue.clone().unwrap_or_else(|| name.to_owned());
        let tag = options.consumer_tag.clone().filter(|tag| !tag.is_empty());
        let mut consumer_tag = tag.unwrap_or_else(|| format!("federation-link-{}", entry.upstream));
        consumer_tag.truncate(consumer_tag.floor_char_boundary(TAG_BYTES_MAX));
        let federated = FederatedQueue {
            name: name.into(),
            durable: queue.is_durable(),
            auto_delete: queue.auto_delete,
            arguments: queue.arguments.as_deref().cloned().unwrap_or_default(),
            consumer_tag: consumer_tag.into(),
        };
        let route = RouteSpec {
            // To the queue itself, by the default exchange.
            exchange: "".into(),
            kind: RouteKind::Queue { queue: (*upstream_name).into() },
            options: RouteOptions {
                destination_key: Some(name.into()),
                federated_queue: Some(Box::new(federated)),
                ..RouteOptions::default()
            },
            ..plain_route(&options)
        };
        FederatedObject {
            vhost: vhost.to_owned(),
            upstream: entry.upstream.clone(),
            is_of_queue: true,
            name: name.to_owned(),
            upstream_name,
            uri,
            route: Ok((link, route)),
        }
    }

    /// The link to the upstream of an entry.
    fn link(&self, vhost: &str, entry: &UpstreamSetEntry) -> Result<UpstreamLink, String> {
        let upstream = &self.upstreams[&*entry.upstream];
        let (value, (end, user)) = match (&upstream.value, &upstream.end) {
            (Ok(value), Ok(end)) => (value, end),
            (Err(why), _) | (_, Err(why)) => return Err(why.clone()),
        };
        let (mut urls, peer) = end.dialled();
        let other_urls = urls.split_off(1);
        let link = LinkSpec {
            key: LinkKey { vhost: vhost.into(), peer, origin: LinkOrigin::Upstream(upstream.name.into()) },
            url: urls.remove(0),
            user: (*user).into(),
            durable: true,
            options: LinkOptions { other_urls, reconnect_delay: Some(value.options.wait()) },
        };
        let options = entry.options.clone().over(&value.options);
        Ok(UpstreamLink { link, uri: end.shown(), options })
    }
}

/// The link to an upstream, its address without a login, and what it says of what it federates.
struct UpstreamLink {
    link: LinkSpec,
    uri: String,
    options: UpstreamOptions,
}

/// What the routes of exchanges and queues have in common.
fn plain_route(options: &UpstreamOptions) -> RouteSpec {
    let is_unacknowledged = options.is_unacknowledged.unwrap_or(false);
    RouteSpec {
        exchange: "".into(),
        kind: RouteKind::Dynamic,
        direction: RouteDirection::Pull,
        ack: if is_unacknowledged { AckMode::None } else { AckMode::Confirm },
        credit: options.credit(),
        // Messages of queues go back and forth.
        hops_max: u16::MAX,
        durable: true,
        forced: false,
        dead_letter_exchange: None,
        options: RouteOptions::default(),
    }
}

/// One that gets no link.
fn refused(vhost: &str, upstream: &str, (name, is_of_queue): (&str, bool), why: String) -> FederatedObject {
    FederatedObject {
        vhost: vhost.to_owned(),
        upstream: upstream.to_owned(),
        is_of_queue,
        name: name.to_owned(),
        upstream_name: name.to_owned(),
        uri: String::new(),
        route: Err(why),
    }
}

#[cfg(test)]
mod tests {
    use super::federated_objects;
    use catalog::{
        AllPolicies, ApplyTo, Catalog, CatalogLimits, ConnectionSlot, Definition, Name, Policy, SessionId, ShardId,
        default_definitions,
    };
    use definitions::{Json, KeptSections};
    use wire::{Table, Value};

    fn catalog(key: &str, value: &str) -> Catalog {
        let mut catalog = Catalog::new(CatalogLimits::default());
        for definition in default_definitions() {
            catalog.execute(&definition).expect("sound");
        }
        let mut all = AllPolicies::of(&catalog);
        all.put(
            false,
            Policy {
                vhost: Name::from("/"),
                name: Name::from("p"),
                pattern: "^(amq.(topic|fanout)|q.*)$".into(),
                apply_to: ApplyTo::All,
                priority: 0,
                definition: Table::new().with(key, Value::text(value)).expect("short"),
            },
        );
        catalog.execute(&all.definition()).expect("sound");
        while catalog.has_unfinished() {
            catalog.execute(&catalog::Definition::Finish).expect("sound");
        }
        catalog
    }

    fn parameters() -> KeptSections {
        let text = r#"{"parameters":[
            {"component":"federation-upstream","vhost":"/","name":"a","value":{"uri":"amqp://h1"}},
            {"component":"federation-upstream","vhost":"/","name":"b","value":
                {"uri":"amqp://h2","max-hops":3,"queue":"at b","consumer-tag":"tag"}},
            {"component":"federation-upstream","vhost":"/","name":"odd","value":{"uri":"amqp://h3","colour":1}},
            {"component":"federation-upstream","vhost":"none","name":"a","value":{"uri":"amqp://h4"}},
            {"component":"federation-upstream-set","vhost":"/","name":"s","value":
                [{"upstream":"a"},{"upstream":"a","exchange":"amq.topic"},{"upstream":"a","exchange":"x"},
                 {"upstream":"none"}]}]}"#;
        KeptSections::from_json(Json::read(text.as_bytes()).expect("JSON")).expect("sections")
    }

    /// Upstream, exchange there, and hops or why there is no route, of `amq.topic`.
    fn of_topic(key: &str, value: &str) -> Vec<String> {
        let objects = federated_objects(&catalog(key, value), &parameters(), &[]);
        let told = objects.iter().filter(|object| object.name == "amq.topic").map(|object| {
            let end = match &object.route {
                Ok((link, route)) => format!("{} {}", link.url, route.hops_max),
                Err(why) => why.clone(),
            };
            format!("{} {} {end}", object.upstream, object.upstream_name)
        });
        told.collect()
    }

    #[test]
    fn queues_are_federated_but_for_exclusive_ones_and_those_of_links() {
        let mut catalog = catalog("federation-upstream-set", "all");
        let vhost = catalog.vhost_by_name("/").expect("a virtual host");
        let session = SessionId { shard: ShardId(0), slot: ConnectionSlot::new(1), serial: 1 };
        let internal = Table::new().with("x-internal-purpose", Value::text("federation")).expect("short");
        let typed = Table::new().with("x-queue-type", Value::text("quorum")).expect("short");
        for (name, durable, exclusive, arguments) in [
            ("q", true, None, typed.clone()),
            ("q own", false, Some(session), Table::new()),
            ("q of a link", true, None, internal),
            ("other", true, None, Table::new()),
        ] {
            let name = Name::from(name);
            let (server_named, auto_delete, home) = (false, false, ShardId(0));
            let declare = Definition::DeclareQueue {
                vhost,
                name,
                server_named,
                durable,
                exclusive,
                auto_delete,
                arguments,
                home,
            };
            catalog.execute(&declare).expect("sound");
        }
        let objects = federated_objects(&catalog, &parameters(), &[]);
        let queues: Vec<_> = objects.iter().filter(|object| object.is_of_queue).collect();
        let told: Vec<_> = queues.iter().map(|queue| (&*queue.name, &*queue.upstream, queue.route.is_ok())).collect();
        assert_eq!(told, [("q", "a", true), ("q", "b", true), ("q", "odd", false)]);
        let (_, route) = queues[1].route.as_ref().expect("a route");
        assert_eq!((route.federated_queue(), route.remote_queue(), route.credit), (Some("q"), Some("at b"), 1000));
        let federated = route.options.federated_queue.as_deref().expect("a queue");
        assert_eq!((federated.durable, &federated.arguments, &*federated.consumer_tag), (true, &typed, "tag"));
        let (_, route) = queues[0].route.as_ref().expect("a route");
        let tag = route.options.federated_queue.as_deref().map(|queue| &*queue.consumer_tag);
        assert_eq!((route.remote_queue(), tag), (Some("q"), Some("federation-link-a")));
    }

    #[test]
    fn a_policy_chooses_one_upstream_a_set_all_or_those_of_a_pattern() {
        let (a, b) = ("a amq.topic amqp://h1/%2F 1", "b amq.topic amqp://h2/%2F 3");
        let odd = "odd amq.topic Unrecognised terms colour in federation-upstream";
        assert_eq!(of_topic("federation-upstream", "a"), [a]);
        assert_eq!(of_topic("federation-upstream", "none"), [""; 0]);
        assert_eq!(of_topic("federation-upstream-set", "all"), [a, b, odd]);
        assert_eq!(of_topic("federation-upstream-set", "s"), [a, "a x amqp://h1/%2F 1"], "the same once");
        assert_eq!(of_topic("federation-upstream-set", "none"), [""; 0]);
        assert_eq!(of_topic("federation-upstream-pattern", "^.$"), [a, b]);
        assert_eq!(of_topic("alternate-exchange", "x"), [""; 0]);
    }
}
