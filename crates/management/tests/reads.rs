//! What each route answers to whom: the rows that a user sees, objects by path, lists by page, health, definitions.

mod support;

use catalog::{ConnectionSlot, Definition, Name, SessionId, ShardId};
use definitions::Json;
use management::{AlarmKind, LiveCertificate, LiveConnection, LiveTls, QueueOwner};
use std::time::Duration;
use support::{TestServer, basic};
use wire::Table;

/// The values of one field of all rows, or of the page's.
fn column(answer: &Json, field: &str) -> String {
    let rows = match answer.get("items").unwrap_or(answer) {
        Json::List(rows) => rows.iter().collect(),
        object => vec![object],
    };
    let texts = rows.iter().map(|row| match row.get(field) {
        Some(Json::Text(text)) => text.clone(),
        Some(other) => other.line(),
        None => "-".to_owned(),
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_list_has_what_the_user_may_see_in_order() {
    let server = TestServer::usual();
    for (user, path, field, expected) in [
        ("guest", "/api/queues", "name", "a/b%c, my orders, orders, q"),
        ("manager", "/api/queues", "name", "q"),
        ("monitor", "/api/queues", "name", ""),
        ("guest", "/api/queues/v%201/", "name", "q"),
        ("manager", "/api/queues/v%201", "name", "q"),
        ("guest", "/api/vhosts", "name", "/, other, v 1"),
        ("monitor", "/api/vhosts", "name", "/, other, v 1"),
        ("manager", "/api/vhosts", "name", "v 1"),
        ("manager", "/api/vhosts/v%201", "name", "v 1"),
        ("monitor", "/api/vhosts/other", "name", "other"),
        ("guest", "/api/connections", "user", "manager, guest"),
        ("monitor", "/api/connections", "user", "manager, guest"),
        ("manager", "/api/connections", "user", "manager"),
        ("maker", "/api/connections", "user", ""),
        ("monitor", "/api/vhosts/%2F/connections", "user", "guest"),
        ("guest", "/api/connections/username/manager", "user", "manager"),
        ("maker", "/api/connections/username/manager", "user", ""),
        ("manager", "/api/connections/127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672", "user", "manager"),
        ("manager", "/api/channels", "name", "127.0.0.1:5000 -> 127.0.0.1:5672 (1)"),
        ("manager", "/api/channels/127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672%20(1)", "number", "1"),
        ("guest", "/api/connections/127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672/channels", "number", "1"),
        ("guest", "/api/consumers/%2F", "consumer_tag", "tag \"1\""),
        ("manager", "/api/consumers", "consumer_tag", ""),
        (
            "guest",
            "/api/exchanges/other",
            "name",
            ", amq.direct, amq.fanout, amq.headers, amq.match, amq.rabbitmq.trace, amq.topic",
        ),
        ("guest", "/api/exchanges/%2F/x", "type", "topic"),
        ("guest", "/api/exchanges/%2F/amq.default", "type", "direct"),
        ("guest", "/api/queues/%2F/a%2Fb%25c", "durable", "false"),
        ("guest", "/api/users", "name", "guest, maker, manager, monitor, plain"),
        ("guest", "/api/users/maker", "tags", "[\"policymaker\"]"),
        ("guest", "/api/users/without-permissions", "name", "monitor"),
        ("guest", "/api/permissions/v%201/manager", "read", ".*"),
        ("guest", "/api/users/manager/permissions", "vhost", "v 1"),
        ("guest", "/api/vhosts/v%201/permissions", "user", "manager, maker, plain"),
        ("guest", "/api/topic-permissions/v%201/manager", "exchange", "amq.topic"),
        ("guest", "/api/policies/%2F/short", "priority", "1"),
        ("guest", "/api/operator-policies/%2F", "name", "op"),
        ("manager", "/api/policies", "name", ""),
        ("guest", "/api/parameters/federation-upstream/%2F/up", "value", "{\"uri\":\"amqp://h\"}"),
        ("guest", "/api/parameters", "name", "up, up, op, limits"),
        ("maker", "/api/parameters/federation-upstream", "value", "{\"uri\":\"amqp://u:***@h\"}"),
        ("guest", "/api/parameters/federation-upstream/v%201", "value", "{\"uri\":\"amqp://u:s3cret@h\"}"),
        ("guest", "/api/global-parameters", "name", "cluster_name, cluster_tags, g"),
        ("guest", "/api/global-parameters/g", "value", "{\"a\":1}"),
        ("guest", "/api/vhost-limits/v%201", "value", "{\"max-queues\":7}"),
        ("guest", "/api/vhost-limits/other", "value", ""),
        ("guest", "/api/user-limits/guest", "value", ""),
        ("guest", "/api/shovels", "name", "s"),
        ("guest", "/api/shovels/v%201", "src_queue", "q"),
        ("guest", "/api/shovels/%2F", "name", ""),
        ("guest", "/api/shovels/v%201/s", "state", "running"),
        ("guest", "/api/shovels/vhost/v%201/s", "dest_exchange_key", "k"),
        ("guest", "/api/federation-links", "name", ""),
        ("guest", "/api/stream/connections", "name", ""),
        ("guest", "/api/stream/publishers/%2F/q", "name", ""),
        ("guest", "/api/stream/consumers/%2F", "name", ""),
        ("guest", "/api/queues?name=ORD&page=1", "name", "my orders, orders"),
        ("guest", "/api/queues?name=%5Eord&use_regex=true", "name", "orders"),
        ("guest", "/api/queues?sort=messages&sort_reverse=true&page=1&page_size=1", "name", "orders"),
        ("guest", "/api/queues?page=2&page_size=3", "name", "q"),
        ("guest", "/api/queues/detailed?name=q", "name", "q"),
    ] {
        let answer = server.get(user, path);
        assert_eq!(answer.status, 200, "{user} {path}: {}", answer.text());
        assert_eq!(column(&answer.json(), field), expected, "{user} {path}");
    }
}

#[test]
fn what_is_not_there_or_not_allowed_has_its_status() {
    let server = TestServer::usual();
    for (user, path, status) in [
        ("guest", "/api/queues/nowhere", 404),
        ("manager", "/api/queues/nowhere", 401),
        ("guest", "/api/queues/%2F/nothing", 404),
        ("guest", "/api/shovels/v%201/nothing", 404),
        ("guest", "/api/shovels/vhost/%2F/s", 404),
        ("guest", "/api/exchanges/%2F/nothing", 404),
        ("guest", "/api/exchanges/%2F/nothing/bindings/source", 404),
        ("guest", "/api/users/nobody", 404),
        ("guest", "/api/users/nobody/permissions", 404),
        ("guest", "/api/user-limits/nobody", 404),
        ("guest", "/api/permissions/%2F/manager", 404),
        ("guest", "/api/topic-permissions/%2F/manager", 404),
        ("guest", "/api/policies/%2F/op", 404),
        ("guest", "/api/parameters/c/%2F/n", 404),
        ("guest", "/api/nodes/rabbit@elsewhere", 404),
        ("guest", "/api/connections/none", 404),
        ("guest", "/api/connections/none/channels", 404),
        ("manager", "/api/connections/127.0.0.1%3A5001%20-%3E%20127.0.0.1%3A5672", 404),
        ("manager", "/api/nodes", 401),
        ("monitor", "/api/nodes", 200),
        ("monitor", "/api/users", 401),
        ("monitor", "/api/parameters", 401),
        ("maker", "/api/parameters/c/%2F", 401),
        ("maker", "/api/definitions", 401),
        ("monitor", "/api/auth/attempts/rabbit@localhost", 200),
        ("guest", "/api/bindings/%2F/e/x/q/orders/none", 404),
        ("guest", "/api/queues?page=0", 400),
        ("guest", "/api/queues?page=9", 400),
        ("guest", "/api/queues?page=1&page_size=501", 400),
        ("guest", "/api/queues?name=(&use_regex=true", 400),
        ("guest", "/api/queues?page_size=501", 200),
        ("guest", "/api/parameters/federation-upstream/nowhere", 404),
        ("monitor", "/api/healthchecks/node/rabbit@localhost", 200),
        ("monitor", "/api/healthchecks/node/rabbit@elsewhere", 404),
        ("guest", "/api/health/checks/port-listener/none", 400),
        ("guest", "/api/health/checks/protocol-listener/nonsense", 400),
        ("guest", "/api/health/checks/certificate-expiration/1/eons", 400),
        ("guest", "/api/stream/publishers/nowhere", 404),
        ("guest", "/api/stream/publishers/%2F/q/more", 404),
        ("guest", "/page", 404),
    ] {
        let answer = server.get(user, path);
        assert_eq!(answer.status, status, "{user} {path}: {}", answer.text());
        if status != 200 {
            let body = answer.json();
            assert!(
                ["error", "reason"]
                    .iter()
                    .all(|key| matches!(body.get(key), Some(Json::Text(text)) if !text.is_empty()))
            );
        }
    }
}

#[test]
fn bindings_are_found_in_all_forms_by_names_that_are_escaped_once() {
    let server = TestServer::usual();
    let keys = |path: &str| column(&server.get("guest", path).json(), "properties_key");
    let all = keys("/api/bindings/%2F");
    let with_arguments = keys("/api/bindings/%2F/e/x/q/orders");
    let hashed =
        with_arguments.split(", ").find(|key| key.starts_with('~') && key.len() > 1).expect("one has arguments");
    assert_eq!(with_arguments, format!("a.%2523%23%7E, {hashed}, ~"));
    assert_eq!(all, format!("a%2Fb%25c, my%20orders, orders, e, ~, {hashed}, a.%2523%23%7E"));
    assert_eq!(keys("/api/queues/%2F/orders/bindings"), format!("orders, {with_arguments}"));
    assert_eq!(keys("/api/exchanges/%2F/x/bindings/source/"), format!("~, {hashed}, a.%2523%23%7E"));
    assert_eq!(keys("/api/exchanges/%2F/x/bindings/destination"), "e");
    assert_eq!(keys("/api/exchanges/%2F/amq.default/bindings/source"), "a%2Fb%25c, my%20orders, orders");
    assert_eq!(keys("/api/bindings/%2F/e/amq.fanout/e/x"), "e");
    assert_eq!(keys("/api/bindings/%2F/e/amq.default/q/orders"), "orders");
    // Each is found by its key, escaped once more.
    for key in with_arguments.split(", ") {
        let path = format!("/api/bindings/%2F/e/x/q/orders/{}", management::percent::encode(key.as_bytes()));
        assert_eq!(keys(&path), key, "{path}");
    }
}

#[test]
fn columns_leave_fields_out_of_any_answer() {
    let server = TestServer::usual();
    for (path, expected) in [
        (
            "/api/overview?columns=queue_totals.messages,node",
            r#"{"queue_totals":{"messages":15},"node":"rabbit@localhost"}"#,
        ),
        ("/api/queues/v%201?columns=name,arguments", r#"[{"name":"q","arguments":{}}]"#),
        ("/api/queues/%2F/orders?columns=arguments", r#"{"arguments":{"x-max-priority":3,"x-a":1.0}}"#),
        (
            "/api/queues?page=1&page_size=1&columns=name",
            r#"{"total_count":4,"item_count":1,"filtered_count":4,"page":1,"page_size":1,"page_count":4,"items":[{"name":"a/b%c"}]}"#,
        ),
    ] {
        assert_eq!(server.get("guest", path).text(), expected, "{path}");
    }
}

#[test]
fn a_connection_over_rdma_tells_its_credits_and_rendezvous() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        source.connections[1].rdma = vec![("credits_left", 3), ("rendezvous_offered", 2)];
        source
    });
    let rdma = r#"{"harrier":{"rdma":{"credits_left":3,"rendezvous_offered":2}}}"#;
    let one = server.get("guest", "/api/connections/127.0.0.1%3A5001%20-%3E%20127.0.0.1%3A5672?columns=harrier");
    assert_eq!((one.status, one.text()), (200, rdma.to_owned()));
    // Others have no such object.
    let all = server.get("guest", "/api/connections?columns=harrier&sort=name").text();
    assert_eq!(all, format!("[{{}},{rdma}]"));
}

#[test]
fn a_connection_tells_why_it_does_not_move_and_whose_it_is() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        let vhost = source.catalog.vhost_by_name("/").expect("it is there");
        let connection = &mut source.connections[1];
        connection.hold = Some("the consumers of a queue that it publishes to are behind");
        connection.held_by = source.catalog.queue(vhost, b"orders");
        source
    });
    let one = "/api/connections/127.0.0.1%3A5001%20-%3E%20127.0.0.1%3A5672?columns=harrier";
    let said =
        r#"{"harrier":{"hold":"the consumers of a queue that it publishes to are behind","held_by_queue":"orders"}}"#;
    assert_eq!(server.get("guest", one).text(), said);
}

#[test]
fn a_connection_tells_what_it_takes_how_long_it_was_held_back_and_how_far_its_client_is() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        source.round_trip = Duration::from_micros(87);
        source.now_ms = 90_000;
        source.connections[0] = LiveConnection {
            worked_us: 1_234,
            held_ms: 2_000,
            held_since_ms: Some(89_500),
            ..source.connections[0].clone()
        };
        source
    });
    let columns = "columns=cpu_us,held_ms,round_trip_us";
    let one = |port| format!("/api/connections/127.0.0.1%3A{port}%20-%3E%20127.0.0.1%3A5672?{columns}");
    let waits = server.get("guest", &one(5000)).text();
    assert_eq!(waits, r#"{"cpu_us":1234,"held_ms":2500,"round_trip_us":87}"#);
    let other = server.get("guest", &one(5001)).text();
    assert_eq!(other, r#"{"cpu_us":0,"held_ms":0,"round_trip_us":null}"#, "it is not over TCP");
    let all = server.get("guest", &format!("/api/connections?{columns}&sort=name")).text();
    assert_eq!(all, r#"[{"cpu_us":1234,"held_ms":2500},{"cpu_us":0,"held_ms":0}]"#);
}

#[test]
fn a_connection_tells_what_tls_has_agreed_on() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        let certificate =
            LiveCertificate { subject: "CN=c,O=Ö".into(), issuer: "CN=ca".into(), validity_s: (0, 4_102_444_800) };
        let words = LiveTls {
            protocol: "tlsv1.2",
            key_exchange: "ecdhe_rsa",
            cipher: "aes_128_gcm",
            hash: "aead",
            certificate: None,
        };
        source.connections[0].tls = Some(words.clone());
        source.connections[1].tls = Some(LiveTls { certificate: Some(certificate), ..words });
        source
    });
    let columns =
        "ssl_protocol,ssl_cipher,ssl_hash,ssl_key_exchange,peer_cert_subject,peer_cert_issuer,peer_cert_validity";
    let all = server.get("guest", &format!("/api/connections?columns={columns}&sort=name")).text();
    let agreed =
        r#""ssl_protocol":"tlsv1.2","ssl_cipher":"aes_128_gcm","ssl_hash":"aead","ssl_key_exchange":"ecdhe_rsa""#;
    let nobody = r#""peer_cert_subject":null,"peer_cert_issuer":null,"peer_cert_validity":null"#;
    let known = r#""peer_cert_subject":"CN=c,O=Ö","peer_cert_issuer":"CN=ca","peer_cert_validity":"1970-01-01T00:00:00Z - 2100-01-01T00:00:00Z""#;
    assert_eq!(all, format!("[{{{agreed},{nobody}}},{{{agreed},{known}}}]"));
}

#[test]
fn a_queue_tells_who_has_it_to_itself() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        let vhost = source.catalog.vhost_by_name("/").expect("it is there");
        let owner = SessionId { shard: ShardId(0), slot: ConnectionSlot::new(3), serial: 1 };
        let unknown = SessionId { serial: 2, ..owner };
        source.define([("own", owner), ("other", unknown)].map(|(name, session)| Definition::DeclareQueue {
            vhost,
            name: Name::from(name),
            server_named: false,
            durable: false,
            exclusive: Some(session),
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(0),
        }));
        let (peer_host, peer_port) = ("10.0.0.1".to_owned(), 7);
        source.queue_owners.insert(owner, QueueOwner { connection: "c".to_owned(), peer_host, peer_port });
        source.consumers[0].is_exclusive = true;
        source
    });
    let own = r#"{"owner_pid_details":{"name":"c","peer_host":"10.0.0.1","peer_port":7}}"#;
    assert_eq!(server.get("guest", "/api/queues/%2F/own?columns=owner_pid_details").text(), own);
    assert_eq!(server.get("guest", "/api/queues/%2F/other?columns=owner_pid_details").text(), "{}");
    let tag = server.get("guest", "/api/queues/%2F/orders?columns=exclusive_consumer_tag").text();
    assert_eq!(tag, r#"{"exclusive_consumer_tag":"tag \"1\""}"#);
}

#[test]
fn alarms_of_the_past_are_listed_for_who_may_see_the_node() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        source.alarms.note(AlarmKind::Memory, true, false, 1_000);
        source.alarms.note(AlarmKind::Disk, false, true, 2_000);
        source
    });
    let of = |text: &str| format!(r#"{{"resource":{text}}}"#);
    let time = |second| format!("1970-01-01T00:00:0{second}.000+00:00");
    let [disk, memory] = [
        of(&format!(r#""disk","raised_at":"{}","cleared_at":null"#, time(2))),
        of(&format!(r#""memory","raised_at":"{0}","cleared_at":"{0}""#, time(1))),
    ];
    let answer = server.get("monitor", "/api/alarms/history?columns=resource,raised_at,cleared_at");
    assert_eq!((answer.status, answer.text()), (200, format!("[{disk},{memory}]")));
    let page = server.get("guest", "/api/alarms/history?page=2&page_size=1&columns=resource,raised_at,cleared_at");
    assert!(page.text().ends_with(&format!("\"items\":[{memory}]}}")), "{}", page.text());
    assert_eq!(server.get("manager", "/api/alarms/history").status, 401);
    assert_eq!(TestServer::usual().get("monitor", "/api/alarms/history").text(), "[]");
}

#[test]
fn health_is_ok_or_says_what_is_missing() {
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = support::source();
        (source.counts.has_disk_alarm, source.counts.is_draining) = (true, true);
        source
    });
    let healthy = TestServer::usual();
    let check = |server: &TestServer, name: &str| {
        let answer = server.get("manager", &format!("/api/health/checks/{name}"));
        (answer.status, answer.text())
    };
    let failed = |more: &str| (503, format!("{{\"status\":\"failed\",{more}}}"));
    let ok = |more: &str| (200, format!("{{\"status\":\"ok\"{more}}}"));
    for (server, name, expected) in [
        (&healthy, "alarms", ok("")),
        (&healthy, "virtual-hosts", ok("")),
        (&healthy, "is-in-service", ok("")),
        (&healthy, "port-listener/5672", ok(",\"port\":5672")),
        (&healthy, "port-listener/1", failed(r#""reason":"No active listener","missing":1,"ports":[5672,5671]"#)),
        (&healthy, "protocol-listener/amqp091", ok(",\"protocol\":\"amqp091\"")),
        (&healthy, "protocol-listener/amqp,amqp%2Fssl", ok(",\"protocol\":\"amqp,amqp/ssl\"")),
        (
            &healthy,
            "protocol-listener/http",
            failed(r#""reason":"No active listener","missing":"http","protocols":["amqp","amqp/ssl"]"#),
        ),
        (
            &healthy,
            "protocol-listener/amqp,http",
            failed(r#""reason":"No active listener","missing":["http"],"protocols":["amqp","amqp/ssl"]"#),
        ),
        (&healthy, "certificate-expiration/19/days", ok("")),
        (
            &healthy,
            "certificate-expiration/1/months",
            failed(
                r#""reason":"Certificates expiring","expired":[{"node":"rabbit@localhost","protocol":"amqp/ssl","interface":"::","port":5671}]"#,
            ),
        ),
        (&healthy, "node-is-quorum-critical", ok(",\"reason\":\"single node cluster\"")),
        (&healthy, "quorum-queues-without-elected-leaders/all-vhosts/pattern/.*", ok("")),
        (
            &server,
            "local-alarms",
            failed(
                r#""reason":"There are alarms in effect in the cluster","alarms":[{"node":"rabbit@localhost","resource":"disk"}]"#,
            ),
        ),
        (&server, "ready-to-serve-clients", failed(r#""reason":"the broker is being drained""#)),
    ] {
        assert_eq!(check(server, name), expected, "{name}");
    }
}

#[test]
fn definitions_that_were_exported_are_taken_in_again() {
    let server = TestServer::usual();
    let exported = server.get("guest", "/api/definitions?download=a%22b.json");
    assert_eq!(exported.header("content-disposition"), Some("attachment; filename=\"ab.json\""));
    let other = TestServer::start(Default::default(), Default::default(), management::CatalogSource::default);
    let mut client = other.connect();
    let taken = client.request("POST", "/api/definitions", &[&basic("guest")], &exported.body);
    assert_eq!(taken.status, 204, "{}", taken.text());
    assert_eq!(other.get("guest", "/api/definitions").json(), exported.json());
    assert_eq!(other.get("guest", "/api/all-configuration/").json(), exported.json());
    // One virtual host's go into another one, without users. Policies and parameters name theirs, as RabbitMQ's do.
    let of_vhost = server.get("guest", "/api/definitions/%2F");
    assert!(!of_vhost.text().contains("\"users\""));
    for (section, is_named) in [("queues", false), ("bindings", false), ("policies", true), ("parameters", true)] {
        let entries = of_vhost.json();
        let Some(Json::List(entries)) = entries.get(section) else { panic!("{section}") };
        assert!(
            !entries.is_empty() && entries.iter().all(|entry| entry.get("vhost").is_some() == is_named),
            "{section}"
        );
    }
    let taken = client.request("POST", "/api/definitions/other", &[&basic("guest")], &of_vhost.body);
    assert_eq!(taken.status, 204, "{}", taken.text());
    assert_eq!(column(&other.get("guest", "/api/queues/other").json(), "name"), "a/b%c, my orders, orders");
    assert_eq!(column(&other.get("guest", "/api/policies/other").json(), "name"), "short");
    for (target, body, status) in [
        ("/api/definitions", &b"{"[..], 400),
        ("/api/definitions", br#"{"queues":[{"name":"q","vhost":"nowhere"}]}"#, 400),
        ("/api/definitions/nowhere", b"{}", 404),
        ("/api/definitions", b"{}", 204),
    ] {
        assert_eq!(client.request("POST", target, &[&basic("guest")], body).status, status, "{target}");
    }
}

#[test]
fn secrets_are_in_no_answer() {
    let server = TestServer::usual();
    for path in ["/api/users", "/api/users/guest", "/api/definitions"] {
        let text = server.get("guest", path).text();
        assert!(!text.contains("\"password\"") && !text.contains("\"guest:guest\""), "{path}");
        assert_eq!(text, server.get("guest", path).text(), "{path} is the same again");
    }
    let hash = server.get("guest", "/api/auth/hash_password/s3cret").json();
    let Some(Json::Text(hash)) = hash.get("ok") else { panic!("{hash:?}") };
    assert!(catalog::Password::hashed(hash).is_ok_and(|password| password.is(b"s3cret")), "{hash}");
}

#[test]
fn actions_go_to_the_source_and_small_ones_are_answered_here() {
    let server = TestServer::usual();
    let mut client = server.connect();
    for (method, path, body, status) in [
        ("PUT", "/api/queues/%2F/new", "", 201),
        ("DELETE", "/api/queues/%2F/orders/contents", "", 503),
        ("PUT", "/api/queues/%2F/new", "{", 400),
        ("POST", "/api/queues/%2F/orders/actions", r#"{"action":"sync"}"#, 204),
        ("POST", "/api/queues/%2F/orders/actions", r#"{"action":"x"}"#, 400),
        ("POST", "/api/queues/%2F/orders/actions", "", 400),
        ("POST", "/api/queues/%2F/none/actions", r#"{"action":"sync"}"#, 404),
        ("PUT", "/api/feature-flags/none/enable", "", 400),
    ] {
        let answer = client.request(method, path, &[&basic("guest")], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
}

#[test]
fn connections_of_others_are_closed_by_administrators_alone() {
    let server = TestServer::usual();
    let (own, other) = ("127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672", "127.0.0.1%3A5001%20-%3E%20127.0.0.1%3A5672");
    // 503 is what a source without a broker says of an action that has come to it.
    for (user, name, status) in [
        ("guest", own, 503),
        ("manager", own, 503),
        ("manager", other, 401),
        ("monitor", own, 401),
        ("guest", "none", 404),
        ("guest", "username/manager", 503),
        ("manager", "username/manager", 503),
        ("manager", "username/guest", 401),
    ] {
        let answer = server.connect().request("DELETE", &format!("/api/connections/{name}"), &[&basic(user)], b"");
        assert_eq!(answer.status, status, "{user} {name}: {}", answer.text());
    }
}

#[test]
fn a_long_list_comes_in_pieces_that_fit_together() {
    const QUEUES: usize = 5_000;
    let server = TestServer::start(Default::default(), Default::default(), || {
        let mut source = management::CatalogSource::default();
        let vhost = source.catalog.vhost_by_name("/").expect("it is there");
        source.define((0..QUEUES).map(|number| catalog::Definition::DeclareQueue {
            vhost,
            name: catalog::Name::from(&*format!("q{number:05}")),
            server_named: false,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: wire::Table::new(),
            home: catalog::ShardId(0),
        }));
        source
    });
    let names: Vec<_> = (0..QUEUES).map(|number| format!("q{number:05}")).collect();
    assert_eq!(column(&server.get("guest", "/api/queues").json(), "name"), names.join(", "));
    assert_eq!(column(&server.get("guest", "/api/bindings").json(), "routing_key"), names.join(", "));
    let page = server.get("guest", "/api/queues?page=10&page_size=500&disable_stats=true").json();
    assert_eq!(column(&page, "name"), names[4_500..].join(", "));
}
