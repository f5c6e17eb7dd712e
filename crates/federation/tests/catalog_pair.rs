//! Binding propagation between two catalogs: what is bound downstream is bound upstream.
//!
//! Proves that a catalog's watch, a propagation and the other catalog's definitions agree.

use catalog::arguments::{X_BOUND_FROM, X_HARRIER_WINDOW};
use catalog::{
    BindingEvent, Catalog, CatalogLimits, Definition, DefinitionOutcome, ExchangeKind, Name, ShardId, VhostId, WatchId,
};
use federation::{AckMode, BindingPropagation, BrokerIdentity, RouteDirection, RouteKind, RouteSpec};
use proptest::prelude::*;
use std::collections::BTreeSet;
use wire::{Properties, RawProperties, ShortString, Table, Value};

struct FederatedCatalog {
    catalog: Catalog,
    vhost: VhostId,
}

impl FederatedCatalog {
    fn new() -> Self {
        let mut catalog = Catalog::new(CatalogLimits::default());
        let executed = catalog.execute(&Definition::CreateVhost { name: "/".into() }).expect("a first vhost");
        let DefinitionOutcome::Vhost { id: vhost, .. } = executed.outcome else { panic!("{executed:?}") };
        Self { catalog, vhost }
    }

    fn exchange(&mut self, name: &str, kind: ExchangeKind, arguments: Table) {
        let (vhost, name) = (self.vhost, Name::from(name));
        let (durable, auto_delete, internal) = (false, false, false);
        let declare = Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments };
        self.catalog.execute(&declare).expect("an exchange");
    }

    fn queue(&mut self, name: &str) {
        let declare = Definition::DeclareQueue {
            vhost: self.vhost,
            name: name.into(),
            server_named: false,
            durable: false,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(0),
        };
        self.catalog.execute(&declare).expect("a queue");
    }

    fn bind(&mut self, bind: bool, key: &str, queue: &str, arguments: Table) {
        let (vhost, exchange, queue, session) = (self.vhost, Name::from("x"), Name::from(queue), None);
        let routing_key = key.as_bytes().into();
        let definition = match bind {
            true => Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session },
            false => Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session },
        };
        self.catalog.execute(&definition).expect("there is the queue");
    }

    /// The bindings of `x`, without the arguments that propagation adds.
    fn bindings_as_text(&self) -> BTreeSet<String> {
        let id = self.catalog.exchange(self.vhost, b"x").expect("the exchange");
        let texts = self.catalog.bindings_from(id).map(|binding| {
            let named = binding.arguments.into_iter().flat_map(|table| table.iter());
            let own = named.filter(|(name, _)| *name != X_BOUND_FROM && *name != X_HARRIER_WINDOW);
            let arguments: Vec<String> = own.map(|(name, value)| format!("{name}={value:?}")).collect();
            format!("{} {}", binding.routing_key.escape_ascii(), arguments.join(","))
        });
        texts.collect()
    }
}

struct CatalogPair {
    down: FederatedCatalog,
    up: FederatedCatalog,
    watch: WatchId,
    propagation: BindingPropagation,
}

impl CatalogPair {
    fn new(kind: ExchangeKind, forced: bool) -> Self {
        let (mut down, mut up) = (FederatedCatalog::new(), FederatedCatalog::new());
        down.exchange("x", kind, Table::new());
        up.exchange("x", kind, Table::new());
        let hops = Table::new().with("x-max-hops", Value::I64(5)).expect("a short name");
        up.exchange("internal", ExchangeKind::FederationUpstream, hops);
        up.queue("pulled");
        let (vhost, exchange) = (up.vhost, Name::from("internal"));
        let bind = Definition::BindQueue {
            vhost,
            exchange,
            queue: "pulled".into(),
            routing_key: Box::default(),
            arguments: Table::new(),
            session: None,
        };
        up.catalog.execute(&bind).expect("both are there");
        let spec = RouteSpec {
            exchange: "x".into(),
            kind: RouteKind::Dynamic,
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 5,
            durable: false,
            forced,
            dead_letter_exchange: None,
            options: Default::default(),
        };
        let identity = |name: &str| BrokerIdentity { cluster_name: name.into(), vhost: "/".into() };
        let mut propagation = BindingPropagation::new(identity("down"), &spec, 1);
        propagation.begin(Some(identity("up")), 'A');
        let watch = down.catalog.watch_bindings(down.vhost, &"x".into());
        Self { down, up, watch, propagation }
    }

    /// Reads all bindings, as a route does that begins.
    fn resync(&mut self) {
        drop(self.down.catalog.take_binding_changes());
        let id = self.down.catalog.exchange(self.down.vhost, b"x").expect("the exchange");
        let bindings = self.down.catalog.bindings_from(id);
        self.propagation.resync(bindings.map(|binding| (binding.routing_key, binding.arguments)));
    }

    /// Propagates the changes.
    fn apply_changes(&mut self) {
        for change in self.down.catalog.take_binding_changes() {
            assert_eq!(change.watch, self.watch);
            match change.what {
                BindingEvent::Bound { routing_key, arguments } => {
                    self.propagation.add(&routing_key, arguments.as_deref())
                }
                BindingEvent::Unbound { routing_key, arguments } => {
                    assert!(self.propagation.remove(&routing_key, arguments.as_deref()));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Has the source carry out the requests. Returns how many there were.
    fn apply_operations(&mut self) -> usize {
        let mut count = 0;
        while let Some(operation) = self.propagation.next_operation(&mut { u64::MAX }) {
            let (vhost, source, destination) = (self.up.vhost, Name::from("x"), Name::from("internal"));
            let (routing_key, arguments) = (operation.key.into(), operation.arguments.to_table().expect("readable"));
            let definition = match operation.bind {
                true => Definition::BindExchange { vhost, source, destination, routing_key, arguments },
                false => Definition::UnbindExchange { vhost, source, destination, routing_key, arguments },
            };
            let executed = self.up.catalog.execute(&definition).expect("a binding that may be made");
            assert!(executed.changed, "nothing is requested twice, and what is withdrawn was bound: {definition:?}");
            count += 1;
        }
        count
    }

    fn is_routed(&mut self, key: &str, headers: Table) -> bool {
        let properties = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
        let id = self.up.catalog.exchange(self.up.vhost, b"x").expect("the exchange");
        let route = self.up.catalog.route(id, key.as_bytes(), RawProperties::new(&properties));
        route.queues.len() == 1
    }
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(name, value)| (ShortString::try_from(name).expect("short"), value)).collect()
}

fn arguments() -> impl Strategy<Value = Table> {
    let value = prop_oneof![Just(Value::I32(1)), Just(Value::I64(1)), Just(Value::text("one")), Just(Value::Void)];
    let name = prop_oneof![Just("a"), Just("b"), Just("x-c")];
    prop::collection::vec((name, value), 0..3).prop_map(|entries| {
        entries.into_iter().fold(Table::new(), |table, (name, value)| table.with(name, value).expect("short"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// A binding downstream, of however many queues, is one binding upstream.
    #[test]
    fn bindings_downstream_are_bound_upstream(
        steps in prop::collection::vec((0..4_u8, 0..3_u8, 0..3_u8, arguments(), any::<bool>()), 1..60),
        forced in any::<bool>(),
    ) {
        let mut federation = CatalogPair::new(ExchangeKind::Topic, forced);
        ["q0", "q1", "q2"].iter().for_each(|name| federation.down.queue(name));
        federation.resync();
        for (verb, key, queue, arguments, look) in steps {
            let (key, queue) = (["a", "a.*", "#"][usize::from(key)], format!("q{queue}"));
            federation.down.bind(verb != 0, key, &queue, arguments);
            if verb == 1 {
                let delete = Definition::DeleteQueue { vhost: federation.down.vhost, name: (*queue).into(), session: None };
                federation.down.catalog.execute(&delete).expect("it may be deleted");
                federation.down.queue(&queue);
            }
            if look {
                federation.apply_changes();
                federation.apply_operations();
                prop_assert_eq!(federation.up.bindings_as_text(), federation.down.bindings_as_text());
                prop_assert_eq!(federation.propagation.requested(), federation.down.bindings_as_text().len() as u64);
            }
        }
        federation.resync();
        federation.apply_operations();
        prop_assert_eq!(federation.up.bindings_as_text(), federation.down.bindings_as_text());
    }
}

#[test]
fn header_bindings_match_as_they_do_downstream() {
    let mut federation = CatalogPair::new(ExchangeKind::Headers, true);
    federation.down.queue("q");
    federation.resync();
    let one = || ("one", Value::I32(1));
    for (arguments, headers, expected) in [
        (table([one()]), table([one()]), true),
        (table([one()]), table([]), false),
        (table([("x-match", Value::text("any")), one()]), table([one()]), true),
        (table([("x-match", Value::text("all-with-x")), one(), ("x-two", Value::I32(2))]), table([one()]), false),
        (
            table([("x-match", Value::text("all-with-x")), one(), ("x-two", Value::I32(2))]),
            table([one(), ("x-two", Value::I32(2))]),
            true,
        ),
        // The arguments that propagation adds are not matched against messages.
        (table([("x-match", Value::text("any-with-x")), one()]), table([(X_HARRIER_WINDOW, Value::Bool(true))]), false),
    ] {
        federation.down.bind(true, "", "q", arguments.clone());
        federation.apply_changes();
        assert_eq!(federation.apply_operations(), 1);
        assert_eq!(federation.is_routed("", headers.clone()), expected, "{arguments:?} of {headers:?}");
        federation.down.bind(false, "", "q", arguments);
        federation.apply_changes();
        assert_eq!(federation.apply_operations(), 1);
        assert!(!federation.is_routed("", headers));
    }
}

#[test]
fn a_hundred_thousand_bindings_are_propagated_and_one_more_is_one_operation() {
    const BINDINGS: usize = 100_000;
    let mut federation = CatalogPair::new(ExchangeKind::Topic, false);
    federation.down.queue("q");
    federation.down.queue("r");
    for number in 0..BINDINGS {
        federation.down.bind(true, &format!("market.{number:07}.*.trade"), "q", Table::new());
    }
    // There are more changes than a watch keeps: it asks for a resync.
    let changes: Vec<BindingEvent> = federation.down.catalog.take_binding_changes().map(|change| change.what).collect();
    assert_eq!(changes, [BindingEvent::Resync]);
    federation.resync();
    assert_eq!(federation.apply_operations(), BINDINGS);
    federation.down.bind(true, "market.0000007.*.trade", "r", Table::new());
    federation.down.bind(true, "news", "r", Table::new());
    federation.apply_changes();
    assert_eq!(federation.apply_operations(), 1);
    assert!(federation.is_routed("news", Table::new()) && federation.is_routed("market.0012345.x.trade", Table::new()));
    assert_eq!(federation.up.catalog.bindings_count(), BINDINGS + 2);
}
