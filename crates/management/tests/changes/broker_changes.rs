//! Changes that a broker makes: what is planned, and what is refused before it comes to that.

use crate::script::Script;
use management::{
    ConditionalDeletion, ConnectionsToClose, GetAckMode, Handler, LiveFederationLink, MessagesToGet, MessagesToPeek,
    PayloadEncoding, PlannedChange, ROUTES,
};
use wire::{ShortString, Value};

const PUBLISH: &str = "/api/exchanges/%2F/x/publish";
const GET: &str = "/api/queues/%2F/orders/get";

fn short(text: &str) -> Option<ShortString> {
    Some(ShortString::try_from(text).expect("it is short"))
}

#[test]
fn a_message_is_published_with_its_properties() {
    let mut script = Script::new();
    let body = r#"{"routing_key":"k","payload":"AAH/","payload_encoding":"base64","more":1,"properties":{"content_type":"t",
        "delivery_mode":"2","priority":7,"expiration":5000,"timestamp":12,"type":"kind","user_id":"guest","headers":{"a":1,"b":1.5},
        "message_id":"m","correlation_id":"c","reply_to":"r","app_id":"p","content_encoding":"e","cluster_id":"i","other":{}}}"#;
    let planned = script.plan("guest", "POST", PUBLISH, body, None).expect("it is planned");
    let PlannedChange::Publish(message) = planned else { panic!("{planned:?}") };
    assert_eq!((&*message.exchange, &*message.routing_key, &message.body[..]), ("x", &b"k"[..], &[0, 1, 255][..]));
    let found = &message.properties;
    assert_eq!((found.delivery_mode, found.priority, found.timestamp), (Some(2), Some(7), Some(12)));
    let texts = [
        (&found.content_type, "t"),
        (&found.content_encoding, "e"),
        (&found.correlation_id, "c"),
        (&found.reply_to, "r"),
        (&found.expiration, "5000"),
        (&found.message_id, "m"),
        (&found.kind, "kind"),
        (&found.user_id, "guest"),
        (&found.app_id, "p"),
        (&found.cluster_id, "i"),
    ];
    for (text, expected) in texts {
        assert_eq!(*text, short(expected), "{expected}");
    }
    let headers = found.headers.as_ref().expect("it has headers");
    assert!(matches!((headers.get("a"), headers.get("b")), (Some(Value::I64(1)), Some(Value::F64(_)))));
    let body = r#"{"routing_key":"","payload":"ü","payload_encoding":"string","properties":[]}"#;
    let planned = script.plan("guest", "POST", "/api/exchanges/%2F/amq.default/publish", body, None);
    let Ok(PlannedChange::Publish(message)) = planned else { panic!("{planned:?}") };
    assert_eq!((&*message.exchange, &message.body[..]), ("", "ü".as_bytes()));
    assert_eq!(message.properties, wire::Properties::default());
}

#[test]
fn what_is_no_message_or_may_not_be_published_is_refused() {
    let mut script = Script::new();
    let body = |more: &str| {
        format!(r#"{{"routing_key":"k","payload":"p","payload_encoding":"string","properties":{{{more}}}}}"#)
    };
    let (good, of_other) = (body(""), body(r#""user_id":"other""#));
    let (mode, text, headers) = (body(r#""delivery_mode":256"#), body(r#""app_id":1"#), body(r#""headers":"h""#));
    let (time, long) = (
        body(r#""timestamp":-1"#),
        format!(
            r#"{{"routing_key":"{}","payload":"","payload_encoding":"string","properties":{{}}}}"#,
            "k".repeat(256)
        ),
    );
    script.run(&[
        ("guest", "POST", PUBLISH, &good, 503, "there is no broker behind this"),
        ("guest", "POST", PUBLISH, "", 400, "key_missing: routing_key"),
        ("guest", "POST", PUBLISH, r#"{"routing_key":"k"}"#, 400, "key_missing: payload"),
        ("guest", "POST", PUBLISH, r#"{"routing_key":"k","payload":"p"}"#, 400, "key_missing: payload_encoding"),
        (
            "guest",
            "POST",
            PUBLISH,
            r#"{"routing_key":"k","payload":"p","payload_encoding":"string"}"#,
            400,
            "key_missing: properties",
        ),
        (
            "guest",
            "POST",
            PUBLISH,
            r#"{"routing_key":"k","payload":"?","payload_encoding":"base64","properties":{}}"#,
            400,
            "payload is not what base64 makes",
        ),
        (
            "guest",
            "POST",
            PUBLISH,
            r#"{"routing_key":"k","payload":"p","payload_encoding":"hex","properties":{}}"#,
            400,
            "string or base64, not 'hex'",
        ),
        ("guest", "POST", PUBLISH, &long, 400, "routing_key has 255 bytes at most"),
        (
            "guest",
            "POST",
            PUBLISH,
            &of_other,
            400,
            "user_id property set to 'other' but authenticated user was 'guest'",
        ),
        ("guest", "POST", PUBLISH, &mode, 400, "delivery_mode is a number from 0 to 255"),
        ("guest", "POST", PUBLISH, &text, 400, "app_id is a string"),
        ("guest", "POST", PUBLISH, &headers, 400, "headers: an object is needed"),
        ("guest", "POST", PUBLISH, &time, 400, "timestamp is no time"),
        ("guest", "POST", "/api/exchanges/%2F/none/publish", &good, 404, "Not Found"),
        (
            "guest",
            "POST",
            "/api/exchanges/%2F/amq.rabbitmq.trace/publish",
            &good,
            401,
            "cannot publish to internal exchange",
        ),
        (
            "manager",
            "POST",
            "/api/exchanges/v%201/amq.default/publish",
            &good,
            401,
            "access to exchange 'amq.default' in vhost 'v 1' refused for user 'manager'",
        ),
        (
            "guest",
            "POST",
            "/api/exchanges/other/amq.topic/publish",
            &good,
            401,
            "access to exchange 'amq.topic' in vhost 'other' refused for user 'guest'",
        ),
    ]);
}

#[test]
fn messages_are_got_in_a_mode() {
    let mut script = Script::new();
    let vhost = script.source.catalog.vhost_by_name("/").expect("it is there");
    for (text, ack_mode) in [
        ("ack_requeue_false", GetAckMode::Acknowledge),
        ("ack_requeue_true", GetAckMode::Requeue),
        ("reject_requeue_true", GetAckMode::Requeue),
        ("reject_requeue_false", GetAckMode::Reject),
    ] {
        let body = format!(r#"{{"count":"3","ackmode":"{text}","encoding":"auto","truncate":50}}"#);
        let planned = script.plan("guest", "POST", GET, &body, None).expect("it is planned");
        let (queue, encoding) = (catalog::Name::from("orders"), PayloadEncoding::Auto);
        let expected = MessagesToGet { vhost, queue, count: 3, ack_mode, encoding, body_bytes_max: Some(50) };
        assert!(matches!(&planned, PlannedChange::Get(found) if *found == expected), "{planned:?}");
    }
    let peek = r#"{"count":3,"ackmode":"peek","encoding":"base64"}"#;
    let planned = script.plan("guest", "POST", GET, peek, None).expect("it is planned");
    let (queue, encoding) = (catalog::Name::from("orders"), PayloadEncoding::Base64);
    let expected = MessagesToPeek { vhost, queue, count: 3, encoding, body_bytes_max: None };
    assert!(matches!(&planned, PlannedChange::Peek(found) if *found == expected), "{planned:?}");
    script.run(&[
        ("guest", "POST", GET, "", 400, "key_missing: count"),
        ("guest", "POST", GET, r#"{"count":1}"#, 400, "key_missing: ackmode"),
        ("guest", "POST", GET, r#"{"count":1,"ackmode":"ack_requeue_true"}"#, 400, "key_missing: encoding"),
        (
            "guest",
            "POST",
            GET,
            r#"{"count":1,"ackmode":"never","encoding":"auto"}"#,
            400,
            "there is no ackmode 'never'",
        ),
        (
            "guest",
            "POST",
            GET,
            r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"hex"}"#,
            400,
            "auto or base64, not 'hex'",
        ),
        ("guest", "POST", GET, r#"{"count":0}"#, 400, "count is a number from 1 to 10000"),
        ("guest", "POST", GET, r#"{"count":10001}"#, 400, "count is a number from 1 to 10000"),
        (
            "guest",
            "POST",
            GET,
            r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto","truncate":-1}"#,
            400,
            "truncate is a number of bytes",
        ),
        ("guest", "POST", "/api/queues/%2F/none/get", r#"{"count":1}"#, 404, "Not Found"),
        (
            "maker",
            "POST",
            "/api/queues/v%201/q/get",
            r#"{"count":1}"#,
            401,
            "access to queue 'q' in vhost 'v 1' refused for user 'maker'",
        ),
        (
            "maker",
            "DELETE",
            "/api/queues/v%201/q/contents",
            "",
            401,
            "access to queue 'q' in vhost 'v 1' refused for user 'maker'",
        ),
        ("guest", "DELETE", "/api/queues/%2F/none/contents", "", 404, "Not Found"),
    ]);
    let planned = script.plan("manager", "DELETE", "/api/queues/v%201/q/contents", "", None);
    assert!(matches!(planned, Ok(PlannedChange::Purge { queue, .. }) if *queue == *"q"));
}

#[test]
fn a_queue_is_deleted_on_a_condition_by_its_home() {
    let mut script = Script::new();
    for (query, unused, empty) in
        [("if-unused=true", true, false), ("if-empty=true", false, true), ("if-empty=true&if-unused=true", true, true)]
    {
        let planned = script.plan("guest", "DELETE", &format!("/api/queues/%2F/orders?{query}"), "", None);
        let Ok(PlannedChange::DeleteQueue(ConditionalDeletion { queue, if_unused, if_empty, .. })) = planned else {
            panic!("{query}: {planned:?}");
        };
        assert_eq!((&*queue, if_unused, if_empty), ("orders", unused, empty), "{query}");
    }
}

#[test]
fn queues_take_turns_on_the_shards() {
    let mut script = Script::new();
    script.source.facts.shards = 3;
    for number in 0..6 {
        script.run(&[("guest", "PUT", &format!("/api/queues/%2F/new{number}"), "", 201, "")]);
    }
    let mut counts = [0; 3];
    for (_, queue) in script.source.catalog.queues().filter(|(_, queue)| queue.name.starts_with("new")) {
        counts[usize::from(queue.home.0)] += 1;
    }
    assert_eq!(counts, [2; 3]);
}

#[test]
fn connections_links_and_counts_are_named_and_found_first() {
    let mut script = Script::new();
    script.source.federation_links.push(LiveFederationLink {
        id: "a/1".to_owned(),
        vhost: "/".to_owned(),
        ..LiveFederationLink::default()
    });
    let connection = "/api/connections/127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672";
    let mut close = |reason: Option<&str>| match script.plan("guest", "DELETE", connection, "", reason) {
        Ok(PlannedChange::CloseConnections { connections: ConnectionsToClose::Named(name), reason }) => (name, reason),
        other => panic!("{other:?}"),
    };
    let name = "127.0.0.1:5000 -> 127.0.0.1:5672".to_owned();
    assert_eq!(close(None), (name.clone(), "Closed via management plugin".to_owned()));
    assert_eq!(close(Some("go")), (name.clone(), "go".to_owned()));
    assert_eq!(close(Some(&"ü".repeat(200))), (name, "ü".repeat(100)), "it is cut between characters");
    let planned = script.plan("guest", "DELETE", "/api/connections/username/none", "", None);
    let user = catalog::Name::from("none");
    assert!(
        matches!(planned, Ok(PlannedChange::CloseConnections { connections, .. }) if connections == ConnectionsToClose::OfUser(user))
    );
    for (method, target, is_planned) in [
        ("DELETE", "/api/federation-links/vhost/%2F/a%2F1/rabbit@localhost/restart", true),
        ("DELETE", "/api/federation-links/vhost/%2F/a%2F1/rabbit@elsewhere/restart", false),
        ("DELETE", "/api/federation-links/vhost/%2F/b/rabbit@localhost/restart", false),
        ("DELETE", "/api/federation-links/vhost/other/a%2F1/rabbit@localhost/restart", false),
        ("DELETE", "/api/auth/attempts/rabbit@localhost", true),
        ("DELETE", "/api/auth/attempts/rabbit@localhost/source", true),
        ("DELETE", "/api/auth/attempts/rabbit@elsewhere", false),
        ("GET", "/api/aliveness-test/%2F", true),
        ("GET", "/api/aliveness-test/none", false),
    ] {
        let planned = script.plan("guest", method, target, "", None);
        let is_right = match (&planned, is_planned) {
            (Ok(PlannedChange::RestartFederationLink { id, .. }), true) => id == "a/1",
            (Ok(PlannedChange::ResetLoginCounts), true) => target.starts_with("/api/auth"),
            (Ok(PlannedChange::TestAliveness { .. }), true) => target.ends_with("%2F"),
            (Err(error), false) => error.status == 404,
            _ => false,
        };
        assert!(is_right, "{method} {target}: {planned:?}");
    }
}

#[test]
fn each_route_that_changes_something_is_planned() {
    use Handler as H;
    // These change nothing in the broker, or come as a file.
    let others = [
        H::Login,
        H::Logout,
        H::ResetStatistics,
        H::HashPassword,
        H::RebalanceQueues,
        H::QueueAction,
        H::FeatureFlagEnable,
        H::DefinitionsImport,
        H::DefinitionsOfVhostImport,
    ];
    let routes = ROUTES.iter().flat_map(|(_, routes)| *routes).filter(|route| !others.contains(&route.handler));
    let mut planned = 0;
    for route in routes {
        let target = route.pattern.replace("{kind}", "q").replace(['{', '}'], "");
        let status = match Script::new().plan("guest", route.method.name(), &target, "", None) {
            Ok(_) => 200,
            Err(error) => error.status,
        };
        let is_change = route.method.is_change() || route.handler == H::Aliveness;
        assert_eq!(status != 501, is_change, "{} {target}: {status}", route.method.name());
        planned += usize::from(is_change);
    }
    assert!(planned >= 40, "{planned}");
}
