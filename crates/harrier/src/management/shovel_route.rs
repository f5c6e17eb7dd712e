//! What a shovel says: which route over which link.
//!
//! Enters: definitions, parameters.  Leaves: a route, or why there is none.

use crate::management::link_end::{EndReader, LinkEnd};
use crate::management::parameter_entry::ParameterEntry;
use catalog::{Catalog, Definition, Name, ResourceKind, ShardId};
use definitions::KeptSections;
use federation::{
    AckMode, LinkKey, LinkOptions, LinkOrigin, LinkSpec, RouteDirection, RouteEnd, RouteKind, RouteOptions, RouteSpec,
    ShovelOptions,
};
use management::{DeleteAfter, LiveShovelEnd, SHOVEL, ShovelParameter, ShovelPlace};
use wire::{Table, Value};

/// The virtual host of an address that names none, as in RabbitMQ.
const DEFAULT_VHOST: &str = "/";

/// A shovel, and what it comes to.
#[derive(Clone, Debug)]
pub struct PlannedShovel {
    pub vhost: String,
    pub name: String,
    pub is_paused: bool,
    pub source: LiveShovelEnd,
    pub destination: LiveShovelEnd,
    /// Why there is no link, if so.
    pub route: Result<ShovelRoute, String>,
}

/// The route of a shovel.
#[derive(Clone, Debug)]
pub struct ShovelRoute {
    pub link: LinkSpec,
    pub route: RouteSpec,
    pub own_queue: Option<OwnQueue>,
}

/// A queue of this broker that a shovel needs.
#[derive(Clone, Debug)]
pub struct OwnQueue {
    pub vhost: String,
    pub name: String,
    /// Who declares it, durable, where there is none; `None`: nobody.
    pub user: Option<String>,
}

impl OwnQueue {
    /// What makes the queue; `None`: it is there.
    ///
    /// # Errors
    /// There is no such virtual host, the name is none, or the user may not declare it, or nobody does.
    pub fn declaration(&self, catalog: &Catalog, shards: u16) -> Result<Option<Definition>, String> {
        let vhost = catalog.vhost_by_name(&self.vhost);
        let vhost = vhost.ok_or_else(|| format!("there is no virtual host '{}'", self.vhost))?;
        if catalog.queue(vhost, self.name.as_bytes()).is_some() {
            return Ok(None);
        }
        let name = Name::new(ResourceKind::Queue, self.name.as_bytes()).map_err(|refusal| refusal.text)?;
        let missing = || format!("there is no queue '{}' in virtual host '{}'", self.name, self.vhost);
        let user = self.user.as_ref().ok_or_else(missing)?;
        let known = catalog.user_by_name(user).map(|(id, _)| id);
        let user = known.ok_or_else(|| format!("there is no user '{user}'"))?;
        let definition = Definition::DeclareQueue {
            vhost,
            name,
            server_named: false,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId((catalog.queues_count() % usize::from(shards.max(1))) as u16),
        };
        catalog.authorize(user, &definition).map_err(|refusal| refusal.text)?;
        Ok(Some(definition))
    }
}

/// The shovels of a broker that listens at these addresses.
pub fn planned_shovels(
    catalog: &Catalog,
    kept: &KeptSections,
    cluster_name: &str,
    addresses: &[String],
) -> Vec<PlannedShovel> {
    let shovels = ParameterEntry::of(kept, SHOVEL).filter(|entry| catalog.vhost_by_name(entry.vhost).is_some());
    let planned = shovels.map(|entry| {
        let value = ShovelParameter::read(entry.value);
        let place = |place: &ShovelPlace| match place.clone() {
            ShovelPlace::Queue { name, .. } => LiveShovelEnd { queue: Some(name), ..LiveShovelEnd::default() },
            ShovelPlace::Exchange { name, key } => {
                LiveShovelEnd { exchange: Some(name), key, ..LiveShovelEnd::default() }
            }
        };
        let (mut source, mut destination) = value
            .as_ref()
            .map_or_else(|_| Default::default(), |value| (place(&value.source.place), place(&value.destination.place)));
        let ends = value.as_ref().map_err(Clone::clone).and_then(|value| {
            let user = entry.user(catalog, entry.vhost)?;
            read_ends(catalog, value, user, addresses)
        });
        if let Ok((from, to)) = &ends {
            (source.uri, destination.uri) = (from.shown(), to.shown());
        }
        let route = match (&value, ends) {
            (Ok(value), Ok((from, to))) => {
                let header = value.adds_forward_headers.then(|| header(&entry, cluster_name, &source, &destination));
                shovel_route(catalog, &entry, value, (from, to), header)
            }
            (_, Err(why)) => Err(why),
            (Err(why), Ok(_)) => Err(why.clone()),
        };
        PlannedShovel {
            vhost: entry.vhost.to_owned(),
            name: entry.name.to_owned(),
            is_paused: entry.is_paused,
            source,
            destination,
            route,
        }
    });
    planned.collect()
}

/// Checks whether the broker can do what a sound shovel says.
///
/// # Errors
/// An address is malformed, or neither end is this broker.
pub fn check_shovel(
    catalog: &Catalog,
    entry: &ParameterEntry<'_>,
    user: &str,
    addresses: &[String],
) -> Result<(), String> {
    let value = ShovelParameter::read(entry.value)?;
    let (from, to) = read_ends(catalog, &value, user, addresses)?;
    shovel_route(catalog, entry, &value, (from, to), None).map(drop)
}

fn read_ends(
    catalog: &Catalog,
    shovel: &ShovelParameter,
    user: &str,
    addresses: &[String],
) -> Result<(LinkEnd, LinkEnd), String> {
    let reader = EndReader { catalog, addresses, user, vhost: DEFAULT_VHOST };
    let named = |key: &str, why: String| format!("{key}: {why}");
    let from = reader.read(&shovel.source.uris).map_err(|why| named("src-uri", why))?;
    let to = reader.read(&shovel.destination.uris).map_err(|why| named("dest-uri", why))?;
    Ok((from, to))
}

fn shovel_route(
    catalog: &Catalog,
    entry: &ParameterEntry<'_>,
    shovel: &ShovelParameter,
    ends: (LinkEnd, LinkEnd),
    forward_header: Option<Table>,
) -> Result<ShovelRoute, String> {
    let (direction, (vhost, user), other) = match ends {
        (from, LinkEnd::Here { vhost, user }) => (RouteDirection::Pull, (vhost, user), from),
        (LinkEnd::Here { vhost, user }, to) => (RouteDirection::Push, (vhost, user), to),
        (LinkEnd::There { .. }, LinkEnd::There { .. }) => {
            let why = "one end of a shovel is the broker that it belongs to: give it the address amqp:// or \
                       amqp:///VHOST, or set the shovel at one of the two brokers";
            return Err(why.to_owned());
        }
    };
    if catalog.vhost_by_name(&vhost).is_none() {
        return Err(format!("there is no virtual host '{vhost}' in this broker"));
    }
    let (mut urls, peer) = other.dialled();
    let other_urls = urls.split_off(1);
    let origin = LinkOrigin::Shovel { vhost: entry.vhost.into(), name: entry.name.into() };
    let link = LinkSpec {
        key: LinkKey { vhost: vhost.clone().into(), peer, origin },
        url: urls.remove(0),
        user: user.clone().into(),
        durable: true,
        options: LinkOptions { other_urls, reconnect_delay: Some(shovel.reconnect_delay) },
    };
    let (kind, source_exchange) = match &shovel.source.place {
        ShovelPlace::Queue { name, .. } => (RouteKind::Queue { queue: (**name).into() }, None),
        ShovelPlace::Exchange { name, key } => {
            let key = key.clone().unwrap_or_default().into();
            (RouteKind::Static { key }, Some((**name).into()))
        }
    };
    let (exchange, destination_key) = match &shovel.destination.place {
        ShovelPlace::Queue { name, .. } => ("", Some((**name).into())),
        ShovelPlace::Exchange { name, key } => (&**name, key.as_deref().map(Into::into)),
    };
    let (here, there) = match direction {
        RouteDirection::Pull => (&shovel.destination.place, &shovel.source.place),
        RouteDirection::Push => (&shovel.source.place, &shovel.destination.place),
    };
    let own_queue = match here {
        ShovelPlace::Queue { name, is_predeclared } => {
            Some(OwnQueue { vhost, name: name.clone(), user: (!is_predeclared).then_some(user) })
        }
        ShovelPlace::Exchange { .. } => None,
    };
    let options = ShovelOptions {
        vhost: entry.vhost.into(),
        name: entry.name.into(),
        declares_queue: matches!(there, ShovelPlace::Queue { is_predeclared: false, .. }),
        forward_header,
        end: match shovel.delete_after {
            DeleteAfter::Never => None,
            DeleteAfter::QueueLength => Some(RouteEnd::QueueLength),
            DeleteAfter::Messages(messages) => Some(RouteEnd::Messages(messages)),
        },
    };
    let route = RouteSpec {
        exchange: exchange.into(),
        kind,
        direction,
        ack: if shovel.is_unacknowledged { AckMode::None } else { AckMode::Confirm },
        credit: shovel.prefetch_count,
        // Its messages carry no trace.
        hops_max: u16::MAX,
        durable: true,
        forced: false,
        dead_letter_exchange: None,
        options: RouteOptions {
            source_exchange,
            destination_key,
            shovel: Some(Box::new(options)),
            ..RouteOptions::default()
        },
    };
    Ok(ShovelRoute { link, route, own_queue })
}

/// What a shovel says of itself in front of `x-shovelled`, as RabbitMQ's do.
fn header(
    entry: &ParameterEntry<'_>,
    cluster_name: &str,
    source: &LiveShovelEnd,
    destination: &LiveShovelEnd,
) -> Table {
    let own = [
        ("shovelled-by", Some(cluster_name)),
        ("shovel-type", Some("dynamic")),
        ("shovel-name", Some(entry.name)),
        ("shovel-vhost", Some(entry.vhost)),
        ("src-uri", Some(&*source.uri)),
        ("src-queue", source.queue.as_deref()),
        ("src-exchange", source.exchange.as_deref()),
        ("src-exchange-key", source.key.as_deref()),
        ("dest-uri", Some(&*destination.uri)),
        ("dest-queue", destination.queue.as_deref()),
        ("dest-exchange", destination.exchange.as_deref()),
        ("dest-exchange-key", destination.key.as_deref()),
    ];
    let said = own.into_iter().filter_map(|(key, value)| Some((key, value?)));
    said.fold(Table::new(), |table, (key, value)| table.with(key, Value::text(value)).expect("the keys are short"))
}
