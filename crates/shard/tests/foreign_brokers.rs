//! Links to brokers that are not Harrier: one that closes the connection for a message, one whose messages are malformed.

#[expect(dead_code, reason = "others dial Harrier")]
mod brokers;
mod foreign;

use brokers::{PATIENCE, TestBroker, eventually, pull};
use client::{Client, ClientChannel, Publish, QueueOptions};
use federation::limits::CLOSED_CONNECTIONS_MAX;
use federation::{
    AckMode, FederationCommand, LinkKey, LinkSpec, LinkState, RouteDirection, RouteKind, RouteSpec, RouteStatus,
};
use foreign::{ForeignBroker, Reaction, Request, Settlement, TAG};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::frame::{FRAME_BODY, FRAME_HEADER};
use wire::method::{basic, exchange};
use wire::{ChannelNumber, DeliveryTag, Method, ReplyCode, ShortStr};

const NO_METHOD: (u16, u16) = (0, 0);

/// Has a broker dial a foreign one, with these routes.
fn join(broker: &TestBroker, foreign: &ForeignBroker, routes: &[RouteSpec]) {
    let key = LinkKey::of_operator("/".into(), "foreign".into());
    let link = LinkSpec {
        key: key.clone(),
        url: foreign.url().into(),
        user: "guest".into(),
        durable: false,
        options: Default::default(),
    };
    let admin = broker.server.admin();
    admin.change_links(FederationCommand::AddLink(link)).expect("taken");
    for route in routes {
        admin.change_links(FederationCommand::AddRoute(key.clone(), route.clone())).expect("taken");
    }
}

fn push(exchange: &str) -> RouteSpec {
    let kind = RouteKind::Static { key: "k".into() };
    RouteSpec { direction: RouteDirection::Push, dead_letter_exchange: Some("dead".into()), ..pull(exchange, kind) }
}

/// A broker that pushes messages of some exchanges.
fn source(shards: u16, exchanges: &[&str]) -> TestBroker {
    let source = TestBroker::start("source", shards);
    source.declare("dead", "fanout");
    for exchange in exchanges {
        source.declare(exchange, "direct");
    }
    source
}

fn publish(client: &mut Client, channel: ClientChannel, exchange: &str, bodies: &[&str]) {
    for body in bodies {
        client.publish(channel, &Publish::to(exchange, "k"), body.as_bytes()).expect("published");
    }
    client.flush().expect("sent");
}

fn next_body(client: &mut Client) -> String {
    let message = client.next_delivery(PATIENCE).expect("a connection").expect("a message");
    String::from_utf8(message.body().to_vec()).expect("text")
}

/// Waits until routes have given up so many messages, run, and have nothing in flight.
fn until_given_up(broker: &TestBroker, many: u64) {
    broker.until(&format!("{many} messages are given up"), |links| {
        let routes = || links.iter().flat_map(|link| &link.routes);
        routes().map(|route| route.given_up).sum::<u64>() == many
            && routes().all(|route| route.unacknowledged == 0 && route.is_running)
    });
}

/// Waits until a foreign broker has accepted these messages of an exchange, in this order apart from repetitions.
fn until_accepted(foreign: &ForeignBroker, exchange: &str, bodies: &[&str]) {
    let first_times = || {
        let mut seen = Vec::new();
        for (of, body) in &foreign.state().accepted {
            let body = String::from_utf8_lossy(body).into_owned();
            if of == exchange && !seen.contains(&body) {
                seen.push(body);
            }
        }
        seen
    };
    eventually("all are accepted", || first_times() == bodies, || format!("{:?}", first_times()));
}

fn is_bad(request: &Request<'_>) -> bool {
    matches!(request, Request::Publish { body, .. } if body.starts_with(b"bad"))
}

#[test]
fn a_message_for_which_the_destination_closes_the_connection_is_given_up() {
    let reasons = [
        (ReplyCode::InternalError, NO_METHOD),
        (ReplyCode::FrameError, basic::Publish::ID),
        (ReplyCode::PreconditionFailed, NO_METHOD),
    ];
    for (shards, (code, method)) in [(1, reasons[0]), (1, reasons[1]), (2, reasons[0]), (2, reasons[2])] {
        let foreign = ForeignBroker::start(move |_, request| match is_bad(request) {
            true => Reaction::Close(code, method),
            false => Reaction::Accept,
        });
        let source = source(shards, &["trades"]);
        let mut dead = source.dead_letters();
        join(&source, &foreign, &[push("trades")]);
        source.until("the route runs", |links| links.iter().any(|link| link.routes.iter().all(|it| it.is_running)));
        let (mut client, channel) = source.client();
        publish(&mut client, channel, "trades", &["1", "2", "bad 3", "4", "bad 5", "bad 6", "7"]);
        assert_eq!([(); 3].map(|()| next_body(&mut dead)), ["bad 3", "bad 5", "bad 6"]);
        until_given_up(&source, 3);
        until_accepted(&foreign, "trades", &["1", "2", "4", "7"]);
        // Each first met a window of many at most, and was then alone.
        let connections = foreign.state().connections;
        assert!(connections <= 1 + 3 * (CLOSED_CONNECTIONS_MAX + 1), "{connections} connections");
        // It goes on with many.
        let many: Vec<String> = (0..300).map(|number| format!("many {number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        publish(&mut client, channel, "trades", &many);
        until_accepted(&foreign, "trades", &[&["1", "2", "4", "7"][..], &many].concat());
        until_given_up(&source, 3);
        assert_eq!(foreign.state().connections, connections, "the link has not been down since");
        drop((client, dead));
        source.stop();
        foreign.stop();
    }
}

#[test]
fn other_routes_of_the_link_lose_nothing_while_one_searches() {
    // The connection is closed for a message of one route; before, nothing of the others is confirmed.
    let foreign = ForeignBroker::start(|_, request| match is_bad(request) {
        true => Reaction::Close(ReplyCode::InternalError, NO_METHOD),
        false => Reaction::Accept,
    });
    let source = source(1, &["a", "b", "c"]);
    let mut dead = source.dead_letters();
    let unconfirmed = RouteSpec { ack: AckMode::None, dead_letter_exchange: None, ..push("c") };
    join(&source, &foreign, &[push("a"), push("b"), unconfirmed]);
    source.until("the routes run", |links| {
        links.iter().any(|link| link.routes.len() == 3 && link.routes.iter().all(|route| route.is_running))
    });
    let (mut client, channel) = source.client();
    for round in 0..3 {
        for exchange in ["b", "a"] {
            let body = format!("{exchange}{round}");
            publish(&mut client, channel, exchange, &[&body]);
        }
        publish(&mut client, channel, "b", &[&format!("bad {round}")]);
        publish(&mut client, channel, "a", &[&format!("a{round}+")]);
    }
    assert_eq!([(); 3].map(|()| next_body(&mut dead)), ["bad 0", "bad 1", "bad 2"]);
    until_accepted(&foreign, "a", &["a0", "a0+", "a1", "a1+", "a2", "a2+"]);
    until_accepted(&foreign, "b", &["b0", "b1", "b2"]);
    until_given_up(&source, 3);
    // All of them send again.
    for exchange in ["a", "b", "c"] {
        publish(&mut client, channel, exchange, &["last"]);
    }
    until_accepted(&foreign, "c", &["last"]);
    until_accepted(&foreign, "a", &["a0", "a0+", "a1", "a1+", "a2", "a2+", "last"]);
    until_accepted(&foreign, "b", &["b0", "b1", "b2", "last"]);
    until_given_up(&source, 3);
    drop((client, dead));
    source.stop();
    foreign.stop();
}

#[test]
fn one_route_searches_at_a_time() {
    // As long as the bad message is not found, the destination confirms nothing of the other route.
    const FOUND: u32 = 1 + CLOSED_CONNECTIONS_MAX;
    let foreign = ForeignBroker::start(|connection, request| match request {
        request if is_bad(request) => Reaction::Close(ReplyCode::InternalError, NO_METHOD),
        Request::Publish { exchange: b"b", .. } if connection <= FOUND => Reaction::Withhold,
        _ => Reaction::Accept,
    });
    let source = source(1, &["a", "b"]);
    let mut dead = source.dead_letters();
    join(&source, &foreign, &[push("a"), push("b")]);
    source.until("the routes run", |links| {
        links.iter().any(|link| link.routes.len() == 2 && link.routes.iter().all(|route| route.is_running))
    });
    let (mut client, channel) = source.client();
    publish(&mut client, channel, "b", &["b1", "b2"]);
    publish(&mut client, channel, "a", &["bad"]);
    assert_eq!(next_body(&mut dead), "bad");
    until_accepted(&foreign, "b", &["b1", "b2"]);
    until_given_up(&source, 1);
    assert_eq!(foreign.state().connections, FOUND + 1);
    drop((client, dead));
    source.stop();
    foreign.stop();
}

#[test]
fn a_busy_route_does_not_disturb_the_search_of_another() {
    const FOUND: u32 = 1 + CLOSED_CONNECTIONS_MAX;
    let foreign = ForeignBroker::start(|_, request| match request {
        request if is_bad(request) => Reaction::Close(ReplyCode::InternalError, NO_METHOD),
        Request::Publish { exchange: b"a", .. } => Reaction::ConfirmLater,
        _ => Reaction::Accept,
    });
    let source = source(1, &["a", "b"]);
    let mut dead = source.dead_letters();
    join(&source, &foreign, &[RouteSpec { credit: 3, ..push("a") }, push("b")]);
    let is_running = |routes: &[RouteStatus]| routes.len() == 2 && routes.iter().all(|route| route.is_running);
    source.until("the routes run", |links| links.iter().any(|link| is_running(&link.routes)));
    let (mut client, channel) = source.client();
    let busy: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
    let busy: Vec<&str> = busy.iter().map(String::as_str).collect();
    publish(&mut client, channel, "a", &busy);
    publish(&mut client, channel, "b", &["bad", "b1"]);
    assert_eq!(next_body(&mut dead), "bad");
    until_accepted(&foreign, "b", &["b1"]);
    until_accepted(&foreign, "a", &busy);
    until_given_up(&source, 1);
    assert_eq!(foreign.state().connections, FOUND + 1);
    drop((client, dead));
    source.stop();
    foreign.stop();
}

#[test]
fn a_route_that_searches_on_its_own_channel_holds_up_no_other() {
    let mut has_refused = false;
    let foreign = ForeignBroker::start(move |_, request| match request {
        request if is_bad(request) && !has_refused => {
            has_refused = true;
            Reaction::CloseChannel(ReplyCode::PreconditionFailed)
        }
        Request::Publish { exchange: b"a", .. } if has_refused => Reaction::Withhold,
        _ => Reaction::Accept,
    });
    let source = source(1, &["a", "b"]);
    join(&source, &foreign, &[push("a"), push("b")]);
    let is_running = |routes: &[RouteStatus]| routes.len() == 2 && routes.iter().all(|route| route.is_running);
    source.until("the routes run", |links| links.iter().any(|link| is_running(&link.routes)));
    let (mut client, channel) = source.client();
    publish(&mut client, channel, "a", &["bad 1", "bad 2"]);
    // The first message is alone in flight, and its answer is awaited.
    source.until("the first route searches", |links| {
        let first = &links[0].routes[0];
        first.is_running && first.redelivered > 0 && first.unacknowledged == 1
    });
    publish(&mut client, channel, "b", &["b1", "b2"]);
    until_accepted(&foreign, "b", &["b1", "b2"]);
    assert_eq!(foreign.state().connections, 1);
    drop(client);
    source.stop();
    foreign.stop();
}

/// A queue whose messages are pushed to an exchange `trades`.
fn queue_route(broker: &TestBroker, queue: &str) -> RouteSpec {
    let (mut client, channel) = broker.client();
    client.declare_queue(channel, queue, &QueueOptions::default()).expect("a queue");
    let kind = RouteKind::Queue { queue: queue.into() };
    RouteSpec { direction: RouteDirection::Push, ..pull("trades", kind) }
}

fn enqueue(broker: &TestBroker, queue: &str, bodies: &[&str]) {
    let (mut client, channel) = broker.client();
    for body in bodies {
        client.publish(channel, &Publish::to("", queue), body.as_bytes()).expect("published");
    }
    client.close().expect("closed");
}

/// A destination ends so many connections as `end` decides, and accepts everything afterwards.
fn nothing_is_given_up(connections: u32, end: impl Fn(&Request<'_>) -> Option<Reaction> + Send + 'static) {
    let foreign = ForeignBroker::start(move |connection, request| {
        end(request).filter(|_| connection <= connections).unwrap_or(Reaction::Accept)
    });
    let source = source(1, &[]);
    let route = queue_route(&source, "work");
    enqueue(&source, "work", &["1", "bad 2", "3"]);
    join(&source, &foreign, &[route]);
    until_accepted(&foreign, "trades", &["1", "bad 2", "3"]);
    until_given_up(&source, 0);
    assert_eq!(foreign.state().connections, connections + 1);
    source.stop();
    foreign.stop();
}

/// More connections than a message is given up for.
const MANY: u32 = 2 * CLOSED_CONNECTIONS_MAX + 2;

#[test]
fn a_connection_that_breaks_gives_nothing_up() {
    nothing_is_given_up(MANY, |request| is_bad(request).then_some(Reaction::HangUp));
}

#[test]
fn an_operator_who_closes_connections_gives_nothing_up() {
    let forced =
        |request: &Request<'_>| is_bad(request).then_some(Reaction::Close(ReplyCode::ConnectionForced, NO_METHOD));
    nothing_is_given_up(MANY, forced);
}

#[test]
fn a_connection_that_is_closed_while_nothing_is_in_flight_gives_nothing_up() {
    nothing_is_given_up(MANY, |request| {
        let selects = matches!(request, Request::Method(Method::ConfirmSelect(_)));
        selects.then_some(Reaction::Close(ReplyCode::InternalError, NO_METHOD))
    });
}

#[test]
fn a_connection_that_is_closed_for_another_method_gives_nothing_up() {
    nothing_is_given_up(MANY, |request| {
        is_bad(request).then_some(Reaction::Close(ReplyCode::InternalError, exchange::Declare::ID))
    });
}

#[test]
fn a_message_is_not_given_up_before_its_last_connection() {
    // The first one had several in flight.
    nothing_is_given_up(CLOSED_CONNECTIONS_MAX, |request| {
        is_bad(request).then_some(Reaction::Close(ReplyCode::InternalError, NO_METHOD))
    });
}

#[test]
fn a_connection_that_is_closed_for_the_setup_of_another_route_gives_nothing_up() {
    // The second `confirm.select` of a connection is that of the second route: the first one could send by then.
    let mut selects = BTreeMap::new();
    let foreign = ForeignBroker::start(move |connection, request| match request {
        Request::Method(Method::ConfirmSelect(_)) => {
            let selects = selects.entry(connection).or_insert(0);
            *selects += 1;
            let ends = *selects == 2 && (2..=MANY).contains(&connection);
            if ends { Reaction::Close(ReplyCode::InternalError, NO_METHOD) } else { Reaction::Accept }
        }
        request if is_bad(request) && connection == 1 => Reaction::Close(ReplyCode::InternalError, NO_METHOD),
        _ => Reaction::Accept,
    });
    let source = source(1, &[]);
    let routes = ["first", "second"].map(|queue| queue_route(&source, queue));
    enqueue(&source, "first", &["bad 1", "2"]);
    join(&source, &foreign, &routes);
    until_accepted(&foreign, "trades", &["bad 1", "2"]);
    until_given_up(&source, 0);
    assert_eq!(foreign.state().connections, MANY + 1);
    source.stop();
    foreign.stop();
}

#[test]
fn a_search_ends_when_its_messages_have_left_their_queue() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let foreign = ForeignBroker::start(move |_, request| match request {
        Request::Method(Method::ConfirmSelect(_)) if down.load(Ordering::SeqCst) => Reaction::HangUp,
        request if is_bad(request) => {
            down.store(true, Ordering::SeqCst);
            Reaction::Close(ReplyCode::InternalError, NO_METHOD)
        }
        _ => Reaction::Accept,
    });
    let source = source(1, &[]);
    let routes = ["first", "second"].map(|queue| queue_route(&source, queue));
    enqueue(&source, "first", &["bad 1", "bad 2"]);
    join(&source, &foreign, &routes);
    eventually("the connection is closed", || foreign.state().connections > 1, || format!("{:?}", source.links()));
    // The first route is about to search.
    let (mut client, channel) = source.client();
    assert_eq!(client.purge_queue(channel, "first").expect("purged"), 2);
    is_down.store(false, Ordering::SeqCst);
    enqueue(&source, "second", &["good"]);
    until_accepted(&foreign, "trades", &["good"]);
    until_given_up(&source, 0);
    drop(client);
    source.stop();
    foreign.stop();
}

/// `basic.deliver` of a message with this header, and its body in one frame.
fn delivery(tag: u64, header: &[u8], body: &[u8]) -> Vec<u8> {
    let channel = ChannelNumber(1);
    let deliver = basic::Deliver {
        consumer_tag: TAG,
        delivery_tag: DeliveryTag(tag),
        redelivered: false,
        exchange: ShortStr::EMPTY,
        routing_key: ShortStr::literal("k"),
    };
    let mut bytes = Vec::new();
    wire::encode_frame(channel, &deliver.into(), &mut bytes);
    wire::frame::append(FRAME_HEADER, channel, header, &mut bytes);
    wire::frame::append(FRAME_BODY, channel, body, &mut bytes);
    bytes
}

/// A content header for a body of one byte.
fn header(class: u8, weight: u8, properties: &[u8]) -> Vec<u8> {
    [&[0, class, 0, weight, 0, 0, 0, 0, 0, 0, 0, 1], properties].concat()
}

/// A source that sends these bytes to its first consumer, and again to any other.
fn sender(bytes: Vec<u8>) -> ForeignBroker {
    ForeignBroker::start(move |_, request| match request {
        Request::Method(Method::BasicConsume(_)) => Reaction::Send(bytes.clone()),
        _ => Reaction::Accept,
    })
}

fn pull_queue(ack: AckMode, credit: u16) -> RouteSpec {
    RouteSpec { ack, credit, ..pull("trades", RouteKind::Queue { queue: "work".into() }) }
}

#[test]
fn a_malformed_message_of_the_source_is_given_up_alone() {
    let long_table = [&[0x20, 0, 0, 0, 0xff, 0xff][..], &[b'x'; 20]].concat();
    let long_header = [&[0x20, 0, 0, 0, 0xff, 0xff][..], &[b'x'; 5_000]].concat();
    let bad: Vec<Vec<u8>> = vec![
        header(60, 0, &long_table),
        header(60, 0, &long_header),
        header(60, 0, &[0, 1]),
        header(60, 0, &[0, 0, 9]),
        header(61, 0, &[0, 0]),
        header(60, 1, &[0, 0]),
        b"short".to_vec(),
    ];
    for (ack, shards) in [(AckMode::Confirm, 1), (AckMode::Confirm, 2), (AckMode::None, 1)] {
        let mut bytes = Vec::new();
        for (number, bad) in bad.iter().enumerate() {
            let number = number as u64;
            bytes.extend(delivery(2 * number + 1, bad, b"?"));
            bytes.extend(delivery(2 * number + 2, &header(60, 0, &[0, 0]), &[b'a' + number as u8]));
        }
        let foreign = sender(bytes);
        let destination = TestBroker::start("destination", shards);
        destination.declare("trades", "direct");
        let (mut consumer, _) = brokers::bound(&destination, "trades", "k");
        join(&destination, &foreign, &[pull_queue(ack, 100)]);
        for number in 0..bad.len() {
            assert_eq!(next_body(&mut consumer).as_bytes(), [b'a' + number as u8]);
        }
        until_given_up(&destination, bad.len() as u64);
        let link = &destination.links()[0];
        assert_eq!((link.connections, link.last_error.as_deref(), link.state.clone()), (1, None, LinkState::Running));
        if ack == AckMode::Confirm {
            let tags = 2 * bad.len() as u64;
            let settled = || settlements(&foreign, tags);
            let expected: (BTreeSet<u64>, BTreeSet<u64>) = (1..=tags).partition(|tag| tag.is_multiple_of(2));
            eventually("each is settled", || settled() == expected, || format!("{:?}", settled()));
        }
        drop(consumer);
        destination.stop();
        foreign.stop();
    }
}

/// The tags that were acknowledged, and those that were rejected for good.
fn settlements(foreign: &ForeignBroker, tags: u64) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut acknowledged, mut rejected) = (BTreeSet::new(), BTreeSet::new());
    for settlement in &foreign.state().settled {
        match *settlement {
            Settlement::Acknowledged { tag, multiple } => {
                let from = if multiple { 1 } else { tag };
                acknowledged.extend((from..=tag.min(tags)).filter(|tag| !rejected.contains(tag)));
            }
            Settlement::Rejected { tag, requeue } => {
                assert!(!requeue && !acknowledged.contains(&tag), "{tag} is settled otherwise");
                rejected.insert(tag);
            }
        }
    }
    (acknowledged, rejected)
}

#[test]
fn a_source_that_breaks_framing_ends_the_link() {
    let good = delivery(1, &header(60, 0, &[0, 0]), b"a");
    let mut broken = delivery(2, &header(60, 0, &[0, 1]), b"b");
    // The end of the header's frame, in front of the body's: eight bytes and one.
    let end = broken.len() - 10;
    broken[end] = 0;
    let foreign = sender([good, broken].concat());
    let destination = TestBroker::start("destination", 1);
    destination.declare("trades", "direct");
    let (mut consumer, _) = brokers::bound(&destination, "trades", "k");
    join(&destination, &foreign, &[pull_queue(AckMode::Confirm, 100)]);
    assert_eq!(next_body(&mut consumer), "a");
    destination.until("the link ends and waits", |links| matches!(links[0].state, LinkState::Refused { .. }));
    let link = &destination.links()[0];
    assert!(link.last_error.as_deref().is_some_and(|error| error.contains("invalid_frame_end_marker")), "{link:?}");
    assert_eq!(link.routes[0].given_up, 0);
    drop(consumer);
    destination.stop();
    foreign.stop();
}
