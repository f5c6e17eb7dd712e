//! Brokers that pull from and push to one another over sockets: messages published at one reach the consumers of another.

#[expect(dead_code, reason = "others dial over a fabric")]
mod brokers;

use brokers::{PATIENCE, TestBroker, bound, eventually, publish, pull};
use catalog::{Definition, Name, Permission};
use client::{Client, Publish, QueueOptions};
use federation::{AckMode, FederationCommand, LinkKey, LinkSpec, LinkState, RouteDirection, RouteKind, RouteSpec};
use std::time::Duration;
use wire::{Properties, RawProperties, Table, Value};

/// The next bodies.
fn bodies(client: &mut Client, many: usize) -> Vec<String> {
    (0..many)
        .map(|number| {
            let delivery = client.next_delivery(PATIENCE).expect("a connection");
            let delivery = delivery.unwrap_or_else(|| panic!("{number} of {many} came"));
            String::from_utf8(delivery.body().to_vec()).expect("text")
        })
        .collect()
}

fn nothing_more(client: &mut Client, broker: &TestBroker, exchange: &str, key: &str) {
    publish(broker, exchange, &[key], 1);
    assert_eq!(bodies(client, 1), [format!("{key} 0")], "and nothing before it");
}

fn wants(broker: &TestBroker, many: u64) {
    broker.until(&format!("{many} bindings"), |links| {
        links.iter().flat_map(|link| &link.routes).map(|route| route.bindings).sum::<u64>() == many
    });
}

fn expected(key: &str, rounds: u32) -> Vec<String> {
    (0..rounds).map(|round| format!("{key} {round}")).collect()
}

#[test]
fn a_dynamic_route_pulls_what_is_bound_and_nothing_else() {
    for (shards, ack) in [(1, AckMode::Confirm), (2, AckMode::Confirm), (2, AckMode::None)] {
        let (root, leaf) = (TestBroker::start("root", shards), TestBroker::start("leaf", shards));
        for broker in [&root, &leaf] {
            broker.declare("trades", "direct");
        }
        let (mut early, _) = bound(&leaf, "trades", "early");
        leaf.route(&root, RouteSpec { ack, ..pull("trades", RouteKind::Dynamic) });
        wants(&leaf, 1);
        publish(&root, "trades", &["early", "unwanted"], 1000);
        assert_eq!(bodies(&mut early, 1000), expected("early", 1000));
        let (mut late, _) = bound(&leaf, "trades", "late");
        wants(&leaf, 2);
        // The route tells its source of a binding, and then the source has it.
        eventually("the source knows", || source_has(&root, "late"), String::new);
        publish(&root, "trades", &["late", "early"], 10);
        assert_eq!(bodies(&mut late, 10), expected("late", 10));
        assert_eq!(bodies(&mut early, 10), expected("early", 10));
        let messages: u64 = leaf.links().iter().flat_map(|link| &link.routes).map(|route| route.messages).sum();
        assert_eq!(messages, 1020, "what nobody wants does not cross");
        nothing_more(&mut early, &leaf, "trades", "early");
        leaf.until("all is acknowledged", |links| links[0].routes[0].unacknowledged == 0);
        late.close().expect("closed");
        wants(&leaf, 1);
        eventually("the source has forgotten", || !source_has(&root, "late"), String::new);
        drop(early);
        [leaf, root].into_iter().for_each(TestBroker::stop);
    }
}

fn source_has(root: &TestBroker, key: &'static str) -> bool {
    let look = move |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("it is there");
        let exchange = catalog.exchange(vhost, b"trades").expect("it is there");
        catalog.bindings_from(exchange).any(|binding| binding.routing_key == key.as_bytes())
    };
    root.server.admin().with_catalog(look).expect("it runs")
}

/// A route goes on with a virtual host of the same name that comes after its own.
#[test]
fn a_dynamic_route_follows_the_bindings_of_a_virtual_host_that_is_made_again() {
    let (root, leaf) = (TestBroker::start("root", 1), TestBroker::start("leaf", 1));
    let (mut early, _) = bound(&leaf, "amq.topic", "early");
    leaf.route(&root, pull("amq.topic", RouteKind::Dynamic));
    wants(&leaf, 1);
    publish(&root, "amq.topic", &["early"], 10);
    assert_eq!(bodies(&mut early, 10), expected("early", 10));
    let name = || Name::from("/");
    let permission = Permission::all();
    for definition in [
        Definition::DeleteVhost { name: name() },
        Definition::CreateVhost { name: name() },
        Definition::SetPermission { user: Name::from("guest"), vhost: name(), permission },
    ] {
        leaf.server.admin().define(vec![definition]).expect("it is taken");
    }
    let (mut late, _) = bound(&leaf, "amq.topic", "late");
    let asked_for = |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("it is there");
        let exchange = catalog.exchange(vhost, b"amq.topic").expect("it is there");
        catalog.bindings_from(exchange).any(|binding| binding.routing_key == b"late")
    };
    let is_asked_for = || root.server.admin().with_catalog(asked_for).expect("it runs");
    eventually("the source is asked for it", is_asked_for, || format!("{:#?}", leaf.links()));
    publish(&root, "amq.topic", &["early", "late"], 10);
    assert_eq!(bodies(&mut late, 10), expected("late", 10));
    drop((early, late));
    [leaf, root].into_iter().for_each(TestBroker::stop);
}

#[test]
fn bindings_of_three_brokers_in_a_row_propagate_both_ways() {
    let brokers = ["a", "b", "c"].map(|name| TestBroker::start(name, 1));
    brokers.iter().for_each(|broker| broker.declare("trades", "topic"));
    let [a, b, c] = &brokers;
    for (one, other) in [(b, a), (a, b), (c, b), (b, c)] {
        one.route(other, pull("trades", RouteKind::Dynamic));
    }
    let mut consumers: Vec<_> = brokers.iter().map(|broker| bound(broker, "trades", "eu.#").0).collect();
    for broker in &brokers {
        eventually(
            "everybody wants it of everybody",
            || source_has_from(broker) == 2 + u32::from(std::ptr::eq(broker, b)),
            || format!("{}: {}", broker.name, source_has_from(broker)),
        );
    }
    for broker in &brokers {
        publish(broker, "trades", &["eu.x"], 50);
        for consumer in &mut consumers {
            assert_eq!(bodies(consumer, 50), expected("eu.x", 50), "published at {}", broker.name);
        }
    }
    for (broker, consumer) in brokers.iter().zip(&mut consumers) {
        let dropped: u64 = broker.links().iter().flat_map(|link| &link.routes).map(|route| route.dropped).sum();
        assert_eq!(dropped, 0, "what has been somewhere is not sent there");
        assert!(consumer.next_delivery(Duration::ZERO).expect("a connection").is_none(), "once is enough");
    }
    drop(consumers);
    brokers.into_iter().for_each(TestBroker::stop);
}

/// How many bindings lead from the exchange of a broker.
fn source_has_from(broker: &TestBroker) -> u32 {
    let look = |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("it is there");
        let exchange = catalog.exchange(vhost, b"trades").expect("it is there");
        catalog.bindings_from(exchange).count() as u32
    };
    broker.server.admin().with_catalog(look).expect("it runs")
}

#[test]
fn static_and_queue_routes_pull_and_push() {
    for (direction, ack) in [RouteDirection::Pull, RouteDirection::Push]
        .into_iter()
        .flat_map(|way| [(way, AckMode::Confirm), (way, AckMode::None)])
    {
        let (source, destination) = (TestBroker::start("source", 2), TestBroker::start("destination", 2));
        for broker in [&source, &destination] {
            broker.declare("trades", "direct");
        }
        let (mut client, channel) = source.client();
        client.declare_queue(channel, "orders", &QueueOptions::default()).expect("a queue");
        let (mut consumer, _) = bound(&destination, "trades", "wanted");
        let (mut ordered, _) = bound(&destination, "trades", "orders");
        let (dialling, other) = match direction {
            RouteDirection::Pull => (&destination, &source),
            RouteDirection::Push => (&source, &destination),
        };
        let fixed = RouteSpec { direction, ack, ..pull("trades", RouteKind::Static { key: "wanted".into() }) };
        let queue = RouteSpec { direction, ack, ..pull("trades", RouteKind::Queue { queue: "orders".into() }) };
        dialling.route(other, fixed.clone());
        dialling.route(other, queue.clone());
        publish(&source, "trades", &["wanted", "unwanted"], 500);
        publish(&source, "", &["orders"], 500);
        assert_eq!(bodies(&mut consumer, 500), expected("wanted", 500), "{fixed:?}");
        assert_eq!(bodies(&mut ordered, 500), expected("orders", 500), "{queue:?}");
        dialling.until("all is counted and acknowledged", |links| {
            links[0].routes.iter().all(|route| route.messages == 500 && route.unacknowledged == 0)
        });
        let admin = dialling.server.admin();
        admin.change_links(FederationCommand::RemoveRoute(dialling.key(other), fixed.clone())).expect("taken");
        eventually("what the route made at its source goes", || made(&source) == 0, || format!("{}", made(&source)));
        admin.change_links(FederationCommand::RemoveLink(dialling.key(other))).expect("taken");
        assert!(dialling.links().is_empty());
        drop((client, consumer, ordered));
        [destination, source].into_iter().for_each(TestBroker::stop);
    }
}

/// Queues and exchanges that federation has made.
fn made(broker: &TestBroker) -> usize {
    let look = |catalog: &catalog::Catalog| {
        let exchanges = catalog.exchanges().filter(|(_, exchange)| exchange.name.starts_with("federation:")).count();
        let queues = catalog.queues().filter(|(_, queue)| queue.name.starts_with("federation:")).count();
        exchanges + queues
    };
    broker.server.admin().with_catalog(look).expect("it runs")
}

#[test]
fn large_bodies_and_properties_arrive_unchanged_with_a_trace() {
    let (root, leaf) = (TestBroker::start("root", 1), TestBroker::start("leaf", 1));
    for broker in [&root, &leaf] {
        broker.declare("trades", "fanout");
    }
    let (mut consumer, _) = bound(&leaf, "trades", "");
    leaf.route(&root, pull("trades", RouteKind::Dynamic));
    let (mut client, channel) = root.client();
    for bytes in [0, 1, 4_096, 65_536, 1 << 20] {
        let body: Vec<u8> = (0..bytes).map(|at: usize| (at * 7 + (at >> 8)) as u8).collect();
        let headers = Table::new().with("colour", Value::text("red")).expect("short");
        let properties = Properties { headers: Some(headers), priority: Some(3), ..Properties::default() };
        let properties = properties.to_bytes();
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("trades", "key") };
        client.publish(channel, &to, &body).expect("published");
        client.flush().expect("sent");
        let message = consumer.next_delivery(PATIENCE).expect("a connection").expect("a message");
        assert!(message.body() == body, "{bytes} bytes came changed");
        assert_eq!((message.routing_key, message.properties.priority()), (&b"key"[..], Some(3)));
        let headers = message.properties.headers().expect("headers");
        assert!(headers.get("colour").is_some());
        let trace = catalog::trace(message.properties).expect("a trace");
        let hop = trace.iter().next().expect("a hop").expect("sound").as_table().expect("a table");
        assert_eq!(hop.get("cluster-name").and_then(|name| name.as_bytes()), Some(&b"root"[..]));
    }
    drop((client, consumer));
    [leaf, root].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_link_or_route_that_cannot_run_shows_its_error_and_is_tried_again() {
    let (root, leaf) = (TestBroker::start("root", 1), TestBroker::start("leaf", 1));
    leaf.declare("trades", "direct");
    let admin = leaf.server.admin();
    let told = |key: &LinkKey, url: &str, spec: RouteSpec, expected: &str| {
        let link = LinkSpec {
            key: key.clone(),
            url: url.into(),
            user: "guest".into(),
            durable: false,
            options: Default::default(),
        };
        admin.change_links(FederationCommand::AddLink(link)).expect("taken");
        admin.change_links(FederationCommand::AddRoute(key.clone(), spec)).expect("taken");
        leaf.until(expected, |links| {
            let errors = links.iter().flat_map(|link| {
                link.last_error.iter().chain(link.routes.iter().filter_map(|route| route.error.as_ref()))
            });
            errors.into_iter().any(|error| error.contains(expected))
        });
        let states: Vec<_> = leaf.links().into_iter().map(|link| link.state).collect();
        admin.change_links(FederationCommand::RemoveLink(key.clone())).expect("taken");
        states
    };
    let dynamic = || pull("trades", RouteKind::Dynamic);
    let key = leaf.key(&root);
    let states = told(&key, &leaf.url(), dynamic(), "to itself");
    assert!(matches!(states[..], [LinkState::Refused { .. }]), "{states:?}");
    let wrong = root.url().replace("guest:guest", "guest:wrong");
    let states = told(&key, &wrong, dynamic(), "ACCESS_REFUSED");
    assert!(matches!(states[..], [LinkState::Refused { .. }]), "{states:?}");
    told(&key, &root.url(), pull("nowhere", RouteKind::Dynamic), "no exchange 'nowhere'");
    told(&key, &root.url(), pull("trades", RouteKind::Queue { queue: "none".into() }), "no queue 'none'");
    told(&key, "amqp://guest:guest@127.0.0.1:1/%2F", dynamic(), "refused");
    [leaf, root].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_source_that_restarts_is_dialled_again_and_nothing_is_lost() {
    let leaf = TestBroker::start("leaf", 2);
    leaf.declare("trades", "direct");
    let root = TestBroker::start("root", 1);
    let address = root.server.addresses()[0].clone();
    root.declare("trades", "direct");
    let (mut consumer, _) = bound(&leaf, "trades", "key");
    leaf.route(&root, pull("trades", RouteKind::Dynamic));
    publish(&root, "trades", &["key"], 100);
    assert_eq!(bodies(&mut consumer, 100), expected("key", 100));
    root.stop();
    leaf.until("the link is down", |links| !matches!(links[0].state, LinkState::Running));
    let root = TestBroker::start_at("root", 1, &address);
    leaf.until("the link is up", |links| links[0].routes[0].is_running);
    // The source has no store: its exchange was made anew, like the one here.
    publish(&root, "trades", &["key"], 100);
    assert_eq!(bodies(&mut consumer, 100), expected("key", 100));
    assert_eq!(leaf.links()[0].connections, 2);
    drop(consumer);
    [leaf, root].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_forced_second_path_delivers_nothing_twice() {
    let brokers = ["r", "a", "b", "d"].map(|name| TestBroker::start(name, 1));
    for broker in &brokers {
        broker.declare("trades", "direct");
    }
    let [r, a, b, d] = &brokers;
    let (mut consumer, _) = bound(d, "trades", "key");
    let plain = pull("trades", RouteKind::Dynamic);
    let forced = RouteSpec { forced: true, ..plain.clone() };
    for (to, from, spec) in [(a, r, &plain), (b, r, &plain), (d, a, &plain), (d, b, &forced)] {
        to.route(from, spec.clone());
    }
    eventually("both ways are there", || source_has_from(r) >= 2, || format!("{}", source_has_from(r)));
    publish(r, "trades", &["key"], 500);
    let routes = || d.links().into_iter().flat_map(|link| link.routes).collect::<Vec<_>>();
    let sum = |count: fn(&federation::RouteStatus) -> u64| routes().iter().map(count).sum::<u64>();
    eventually("all came twice", || sum(|route| route.messages + route.dropped) == 1000, || format!("{:?}", routes()));
    assert_eq!((sum(|route| route.messages), sum(|route| route.dropped)), (500, 500));
    let mut came = bodies(&mut consumer, 500);
    came.sort_by_key(|body| body.rsplit(' ').next().and_then(|round| round.parse::<u32>().ok()));
    assert_eq!(came, expected("key", 500));
    nothing_more(&mut consumer, d, "trades", "key");
    d.until("all is acknowledged", |links| {
        links.iter().flat_map(|link| &link.routes).all(|route| route.unacknowledged == 0)
    });
    drop(consumer);
    brokers.into_iter().for_each(TestBroker::stop);
}

/// How many bindings of an exchange ask for stamps.
fn stamped(broker: &TestBroker) -> usize {
    let look = |catalog: &catalog::Catalog| {
        let vhost = catalog.vhost_by_name("/").expect("it is there");
        let exchange = catalog.exchange(vhost, b"trades").expect("it is there");
        let asks = |arguments: &Table| arguments.get(catalog::arguments::X_HARRIER_WINDOW) == Some(&Value::Bool(true));
        catalog.bindings_from(exchange).filter(|binding| binding.arguments.is_some_and(asks)).count()
    };
    broker.server.admin().with_catalog(look).expect("it runs")
}

/// Four brokers, two ways from the first to the last by these steps: to `a`, to `b`, from `a`, from `b`.
fn diamond(shards: u16, steps: [RouteSpec; 4]) {
    let brokers = ["r", "a", "b", "d"].map(|name| TestBroker::start(name, shards));
    for broker in &brokers {
        broker.declare("trades", "topic");
    }
    let [r, a, b, d] = &brokers;
    let (mut consumer, _) = bound(d, "trades", "eu.x");
    // What comes by one way alone is what a broker in the middle publishes.
    let ends = [(r, a), (r, b), (a, d), (b, d)];
    for ((from, to), spec) in ends.into_iter().zip(&steps) {
        match spec.direction {
            RouteDirection::Pull => to.route(from, spec.clone()),
            RouteDirection::Push => from.route(to, spec.clone()),
        }
    }
    let all = || brokers.iter().flat_map(|broker| broker.links()).collect::<Vec<_>>();
    let routes = || all().into_iter().flat_map(|link| link.routes).collect::<Vec<_>>();
    let told = || format!("{:#?}", all());
    eventually("all run", || routes().iter().all(|route| route.is_running), told);
    // Two ways lead from the root, and who is at the end of both has asked it for stamps.
    eventually("both ways are there", || source_has_from(r) >= 2 && stamped(r) >= 1, told);
    eventually("and from the middle", || source_has_from(a) >= 1 && source_has_from(b) >= 1, told);
    publish(r, "trades", &["eu.x"], 500);
    let over = |route: &federation::RouteStatus| route.messages + route.dropped == 500 && route.unacknowledged == 0;
    eventually("all came by both ways", || routes().iter().all(over), told);
    let mut came = bodies(&mut consumer, 500);
    came.sort_by_key(|body| body.rsplit(' ').next().and_then(|round| round.parse::<u32>().ok()));
    assert_eq!(came, expected("eu.x", 500), "{steps:?}");
    for broker in [r, a, b, d] {
        nothing_more(&mut consumer, broker, "trades", "eu.x");
    }
    drop(consumer);
    brokers.into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_forced_second_path_of_any_kinds_of_routes_delivers_nothing_twice() {
    let fixed = || pull("trades", RouteKind::Static { key: "eu.*".into() });
    let pushed = || RouteSpec { direction: RouteDirection::Push, ..fixed() };
    let dynamic = || pull("trades", RouteKind::Dynamic);
    let forced = |spec: RouteSpec| RouteSpec { forced: true, ..spec };
    // Of routes that are pulled the last one alone is forced: it asks those above it. Nobody can ask a broker that pushes.
    diamond(1, [fixed(), fixed(), fixed(), forced(fixed())]);
    diamond(2, [pushed(), forced(pushed()), pushed(), forced(pushed())]);
    diamond(1, [dynamic(), fixed(), pushed(), forced(dynamic())]);
    diamond(2, [pushed(), dynamic(), dynamic(), forced(pushed())]);
    let unkept = |spec: RouteSpec| RouteSpec { ack: AckMode::None, ..spec };
    diamond(1, [fixed(), fixed(), unkept(fixed()), unkept(forced(pushed()))]);
}

#[test]
fn a_client_that_may_not_federate_cannot_mark_messages_as_duplicates() {
    let (source, destination) = (TestBroker::start("source", 1), TestBroker::start("destination", 1));
    for broker in [&source, &destination] {
        broker.declare("trades", "topic");
    }
    let (mut consumer, _) = bound(&destination, "trades", "eu.x");
    // A link from there, so that stamps mean something here.
    source.route(&destination, pull("trades", RouteKind::Dynamic));
    let spec =
        RouteSpec { direction: RouteDirection::Push, ..pull("trades", RouteKind::Static { key: "eu.*".into() }) };
    let key = LinkKey { peer: "plain".into(), ..source.key(&destination) };
    let url = destination.url().replace("guest:guest", "plain:plain");
    let link = LinkSpec {
        key: key.clone(),
        url: url.into(),
        user: "guest".into(),
        durable: false,
        options: Default::default(),
    };
    let admin = source.server.admin();
    admin.change_links(FederationCommand::AddLink(link)).expect("taken");
    admin
        .change_links(FederationCommand::AddRoute(key.clone(), RouteSpec { forced: true, ..spec.clone() }))
        .expect("taken");
    source.until("it is told what it lacks", |links| {
        let errors = links.iter().flat_map(|link| &link.routes).filter_map(|route| route.error.as_ref());
        errors.into_iter().any(|error| error.contains("user 'plain' needs the tag 'federation'"))
    });
    // Where nothing is forced nobody must be believed.
    admin.change_links(FederationCommand::RemoveRoute(key.clone(), spec.clone())).expect("taken");
    admin.change_links(FederationCommand::AddRoute(key, spec)).expect("taken");
    source.until("it runs", |links| links.iter().flat_map(|link| &link.routes).all(|route| route.is_running));
    publish(&source, "trades", &["eu.x"], 10);
    assert_eq!(bodies(&mut consumer, 10), expected("eu.x", 10));
    // Whoever has seen a stamp could have others' messages dropped, by being there before them.
    let stamp = catalog::MessageStamp::new(7, 0, 1);
    for (login, body, comes) in
        [("plain", "first", true), ("plain", "second", true), ("guest", "third", true), ("guest", "fourth", false)]
    {
        let url = destination.url().replace("guest:guest", &format!("{login}:{login}"));
        let mut client = Client::connect(&url).expect("connects");
        let channel = client.open_channel().expect("a channel");
        let claim = Table::new().with("x-harrier-window", Value::Bool(false)).expect("short");
        let passive = client::ExchangeOptions { passive: true, arguments: claim, ..Default::default() };
        client.declare_exchange(channel, "trades", "topic", &passive).expect("it is there");
        client.confirm_select(channel).expect("confirms");
        let properties = stamp.put_on(RawProperties::EMPTY);
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("trades", "eu.x") };
        client.publish(channel, &to, body.as_bytes()).expect("published");
        client.wait_confirms(channel, 0).expect("confirmed");
        client.close().expect("closed");
        if comes {
            assert_eq!(bodies(&mut consumer, 1), [body]);
        } else {
            nothing_more(&mut consumer, &destination, "trades", "eu.x");
        }
    }
    drop(consumer);
    [destination, source].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_push_route_removed_while_its_destination_is_silent_leaves_nothing() {
    for (shards, whole) in [(1, false), (2, true)] {
        let (source, destination) = (TestBroker::start("source", shards), TestBroker::start("destination", 1));
        for broker in [&source, &destination] {
            broker.declare("trades", "direct");
        }
        let spec =
            RouteSpec { direction: RouteDirection::Push, ..pull("trades", RouteKind::Static { key: "k".into() }) };
        source.route(&destination, spec.clone());
        assert!(made(&source) > 0);
        let key = source.key(&destination);
        destination.stop();
        source.until("the link is down", |links| !matches!(links[0].state, LinkState::Running));
        publish(&source, "trades", &["k"], 10);
        let order = if whole { FederationCommand::RemoveLink(key) } else { FederationCommand::RemoveRoute(key, spec) };
        source.server.admin().change_links(order).expect("taken");
        eventually("its queue goes", || made(&source) == 0, || format!("{}", made(&source)));
        source.stop();
    }
}

#[test]
fn accepted_messages_are_not_redelivered_when_a_route_is_removed_or_a_login_changes() {
    let (source, destination) = (TestBroker::start("source", 1), TestBroker::start("destination", 1));
    destination.declare("trades", "direct");
    let (mut client, channel) = source.client();
    client.declare_queue(channel, "orders", &QueueOptions::default()).expect("a queue");
    let (mut ordered, _) = bound(&destination, "trades", "orders");
    let spec = RouteSpec { credit: 1_000, ..pull("trades", RouteKind::Queue { queue: "orders".into() }) };
    let (key, admin) = (destination.key(&source), destination.server.admin());
    for round in 0..20 {
        destination.route(&source, spec.clone());
        // Far less than a share of the credit, at once behind one another: their acknowledgements wait for more.
        for number in 0..10 {
            let body = format!("{round} {number}");
            client.publish(channel, &Publish::to("", "orders"), body.as_bytes()).expect("published");
            client.flush().expect("sent");
        }
        let came = bodies(&mut ordered, 10);
        assert_eq!(came, (0..10).map(|number| format!("{round} {number}")).collect::<Vec<_>>());
        let order = match round % 2 {
            0 => FederationCommand::RemoveRoute(key.clone(), spec.clone()),
            _ => FederationCommand::ChangeLink(LinkSpec {
                key: key.clone(),
                url: source.url().into(),
                user: "guest".into(),
                durable: false,
                options: Default::default(),
            }),
        };
        admin.change_links(order).expect("taken");
    }
    drop((client, ordered));
    [destination, source].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_link_that_an_operator_restarts_connects_again_and_loses_nothing() {
    let (source, destination) = (TestBroker::start("source", 1), TestBroker::start("destination", 2));
    for broker in [&source, &destination] {
        broker.declare("trades", "direct");
    }
    let (mut consumer, _) = bound(&destination, "trades", "k");
    destination.route(&source, pull("trades", RouteKind::Static { key: "k".into() }));
    let admin = destination.server.admin();
    let restart = || admin.change_links(FederationCommand::RestartLink(destination.key(&source))).expect("taken");
    for connections in 1..=3 {
        destination.until("it runs", |links| links[0].connections == connections && links[0].routes[0].is_running);
        publish(&source, "trades", &["k"], 10);
        assert_eq!(bodies(&mut consumer, 10), expected("k", 10));
        restart();
    }
    // Of a link that is not there nothing is done.
    let nobody = LinkKey { peer: "127.0.0.1:1".into(), ..destination.key(&source) };
    admin.change_links(FederationCommand::RestartLink(nobody)).expect("taken");
    drop(consumer);
    [destination, source].into_iter().for_each(TestBroker::stop);
}

#[test]
fn a_changed_login_reconnects_at_once_and_keeps_queued_messages() {
    let (source, destination) = (TestBroker::start("source", 1), TestBroker::start("destination", 2));
    for broker in [&source, &destination] {
        broker.declare("trades", "direct");
    }
    let (mut consumer, _) = bound(&destination, "trades", "k");
    let spec = pull("trades", RouteKind::Static { key: "k".into() });
    destination.route(&source, spec);
    publish(&source, "trades", &["k"], 10);
    assert_eq!(bodies(&mut consumer, 10), expected("k", 10));
    let admin = destination.server.admin();
    let with = |login: &str| {
        let url = source.url().replace("guest:guest", login).into();
        let link = LinkSpec {
            key: destination.key(&source),
            url,
            user: "guest".into(),
            durable: false,
            options: Default::default(),
        };
        admin.change_links(FederationCommand::ChangeLink(link)).expect("taken");
    };
    with("guest:wrong");
    destination.until("the login is refused", |links| matches!(links[0].state, LinkState::Refused { .. }));
    publish(&source, "trades", &["k"], 10);
    with("plain:plain");
    assert_eq!(bodies(&mut consumer, 10), expected("k", 10));
    destination.until("it runs", |links| links[0].routes[0].is_running && links[0].last_error.is_none());
    drop(consumer);
    [destination, source].into_iter().for_each(TestBroker::stop);
}

#[test]
fn full_queues_that_feed_one_another_block_and_show_it() {
    const MESSAGES: usize = 24;
    let brokers = ["left", "right"].map(|name| TestBroker::start_small(name, 1, 16 << 10));
    let mut publishers = Vec::new();
    for broker in &brokers {
        broker.declare("trades", "fanout");
        let (mut client, channel) = broker.client();
        client.declare_queue(channel, "feed", &QueueOptions::default()).expect("a queue");
        client.bind_queue(channel, "feed", "trades", "", &Table::new()).expect("bound");
        // More than the queue takes; what is too much waits on its way there.
        for _ in 0..MESSAGES {
            client.publish(channel, &Publish::to("trades", ""), &[0; 1 << 10]).expect("published");
        }
        client.flush().expect("sent");
        while client.blocked().is_none() {
            client.next_delivery(Duration::from_millis(1)).expect("a connection");
        }
        publishers.push(client);
    }
    let [left, right] = &brokers;
    let spec = RouteSpec { credit: 1, ..pull("trades", RouteKind::Queue { queue: "feed".into() }) };
    left.route(right, spec.clone());
    right.route(left, spec);
    // Each takes from the other only what its own queue has room for, and that gives nothing away before the other takes.
    for broker in &brokers {
        broker.until("it stands still, and says why", |links| links[0].state == LinkState::BlockedHere);
    }
    // Room in them lets everything go on, until nothing is left.
    let mut clients = [left, right].map(TestBroker::client);
    let runs = |broker: &TestBroker| broker.links()[0].state == LinkState::Running;
    eventually(
        "it goes on",
        || {
            let purged =
                clients.iter_mut().map(|(client, channel)| client.purge_queue(*channel, "feed").expect("purged"));
            purged.sum::<u32>() == 0 && brokers.iter().all(runs)
        },
        || brokers.iter().map(|broker| format!("{:#?}", broker.links())).collect(),
    );
    drop((clients, publishers));
    brokers.into_iter().for_each(TestBroker::stop);
}
