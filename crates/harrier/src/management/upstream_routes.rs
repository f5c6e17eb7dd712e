//! What parameters and policies say of federated exchanges: which routes over which links.
//!
//! Enters: definitions, parameters.  Leaves: a route for each exchange and each of its upstreams, or why there is none.

use crate::management::link_end::{EndReader, LinkEnd};
use crate::management::parameter_entry::ParameterEntry;
use crate::peer::encoded;
use catalog::{Catalog, ExchangeKind, VhostId};
use definitions::UnusedSections;
use federation::{
    AckMode, LinkKey, LinkOptions, LinkOrigin, LinkSpec, RouteDirection, RouteKind, RouteOptions, RouteSpec,
};
use management::{
    ALL_UPSTREAMS, FederationUpstream, UPSTREAM, UPSTREAM_SET, UpstreamChoice, UpstreamOptions, UpstreamSetEntry,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Queues under a policy for exchanges and queues that are told to be without a link.
const REFUSED_QUEUES_MAX: usize = 1_000;

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
pub fn federated_objects(catalog: &Catalog, kept: &UnusedSections, addresses: &[String]) -> Vec<FederatedObject> {
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
    let queues = catalog.queues().filter_map(|(_, queue)| {
        let (upstreams, policy) = (vhosts.get(&queue.vhost)?, queue.policy.as_deref()?);
        let choice = UpstreamChoice::of(&policy.definition).ok().flatten()?;
        let upstream = upstreams.chosen(&choice).into_iter().next()?.upstream;
        let why = "federation has no effect on queues in this broker: a shovel moves messages of a queue".to_owned();
        Some(refused(catalog.vhost_name(queue.vhost), &upstream, (&queue.name, true), why))
    });
    objects.extend(queues.take(REFUSED_QUEUES_MAX));
    // Entries of a set that come to the same count once.
    let mut known = HashSet::new();
    objects.retain(|object| known.insert(object.identity()));
    objects
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
    kept: &'a UnusedSections,
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
        let upstream = &self.upstreams[&*entry.upstream];
        let (value, (end, user)) = match (&upstream.value, &upstream.end) {
            (Ok(value), Ok(end)) => (value, end),
            (Err(why), _) | (_, Err(why)) => return refused(vhost, &entry.upstream, (name, false), why.clone()),
        };
        let options = entry.options.clone().over(&value.options);
        let upstream_name = options.exchange.clone().unwrap_or_else(|| name.to_owned());
        let (mut urls, peer) = end.dialled();
        let other_urls = urls.split_off(1);
        let link = LinkSpec {
            key: LinkKey { vhost: vhost.into(), peer, origin: LinkOrigin::Upstream(upstream.name.into()) },
            url: urls.remove(0),
            user: (*user).into(),
            durable: true,
            options: LinkOptions { other_urls, reconnect_delay: Some(value.options.wait()) },
        };
        let is_unacknowledged = options.is_unacknowledged.unwrap_or(false);
        let route = RouteSpec {
            exchange: name.into(),
            kind: RouteKind::Dynamic,
            direction: RouteDirection::Pull,
            ack: if is_unacknowledged { AckMode::None } else { AckMode::Confirm },
            credit: options.credit(),
            hops_max: options.hops_max(),
            durable: true,
            forced: false,
            dead_letter_exchange: None,
            options: RouteOptions {
                source_exchange: Some(&*upstream_name).filter(|there| *there != name).map(Into::into),
                queue_expires: options.expires,
                message_ttl: options.message_ttl,
                ..RouteOptions::default()
            },
        };
        FederatedObject {
            vhost: vhost.to_owned(),
            upstream: upstream.name.to_owned(),
            is_of_queue: false,
            name: name.to_owned(),
            upstream_name,
            uri: end.shown(),
            route: Ok((link, route)),
        }
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
    use catalog::{AllPolicies, ApplyTo, Catalog, CatalogLimits, Name, Policy, default_definitions};
    use definitions::{Json, UnusedSections};
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
                pattern: "^amq.(topic|fanout)$".into(),
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

    fn parameters() -> UnusedSections {
        let text = r#"{"parameters":[
            {"component":"federation-upstream","vhost":"/","name":"a","value":{"uri":"amqp://h1"}},
            {"component":"federation-upstream","vhost":"/","name":"b","value":{"uri":"amqp://h2","max-hops":3}},
            {"component":"federation-upstream","vhost":"/","name":"odd","value":{"uri":"amqp://h3","colour":1}},
            {"component":"federation-upstream","vhost":"none","name":"a","value":{"uri":"amqp://h4"}},
            {"component":"federation-upstream-set","vhost":"/","name":"s","value":
                [{"upstream":"a"},{"upstream":"a","exchange":"amq.topic"},{"upstream":"a","exchange":"x"},
                 {"upstream":"none"}]}]}"#;
        UnusedSections::from_json(Json::read(text.as_bytes()).expect("JSON")).expect("sections")
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
