//! Files of definitions: RabbitMQ's own, what is wrong with others, and that what is written is read.

use catalog::{ApplyTo, Catalog, CatalogLimits, Definition, LoginRefused, PermissionKind, VhostLimits};
use definitions::{KeptSections, read, write};

const RABBITMQ: &[u8] = include_bytes!("data/rabbitmq-3.10.8.json");

fn load(text: &[u8]) -> Result<(Catalog, Vec<String>), String> {
    let file = read(text).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let mut catalog = Catalog::new(CatalogLimits::default());
    file.load(&mut catalog, 2, |user| user == "guest").map_err(|fault| fault.to_string())?;
    let policies = file.policies().map(|(_, policy)| policy.clone()).collect();
    let operator_policies = file.operator_policies().map(|(_, policy)| policy.clone()).collect();
    catalog.execute(&Definition::SetPolicies { policies, operator_policies }).map_err(|refusal| refusal.text)?;
    Ok((catalog, file.warnings))
}

#[test]
fn what_rabbitmq_exports_is_taken_in() {
    let (catalog, warnings) = load(RABBITMQ).expect("RabbitMQ's own");
    assert_eq!(warnings, [""; 0]);
    let shop = catalog.vhost_by_name("shop").expect("there");
    assert_eq!(catalog.vhost_limits(shop), VhostLimits { connections_max: Some(5), ..VhostLimits::default() });
    let (policy, is_operator) = catalog.policies().next().expect("one");
    assert_eq!((&*policy.vhost, &*policy.name, &*policy.pattern, policy.priority), ("shop", "ttl", "^orders", 3));
    assert_eq!((policy.apply_to, is_operator), (ApplyTo::Queues, false));
    assert_eq!(policy.definition.get("message-ttl").and_then(wire::Value::as_i64), Some(1000));
    let orders = catalog.authenticate(b"orders", b"s3cret", false).expect("RabbitMQ's hash of this password");
    assert_eq!(catalog.authenticate(b"orders", b"secret", false), Err(LoginRefused::InvalidCredentials));
    assert_eq!(catalog.authenticate(b"guest", b"guest", false), Err(LoginRefused::OnlyFromLoopback));
    catalog.open_vhost(orders, b"shop").expect("permitted");
    let root = catalog.open_vhost(orders, b"/").expect("permitted");
    let queue = catalog.queue(root, b"orders.q").expect("there");
    assert_eq!(catalog.bindings_to(queue).count(), 2);
    let topics = catalog.exchange(root, b"amq.topic").expect("predeclared");
    assert!(catalog.check_topic(orders, topics, PermissionKind::Write, b"a.x").is_ok());
    assert!(catalog.check_topic(orders, topics, PermissionKind::Write, b"b.x").is_err());
}

#[test]
fn what_is_written_is_read() {
    let (catalog, _) = load(RABBITMQ).expect("RabbitMQ's own");
    let file = read(RABBITMQ).expect("sound");
    let text = write(&catalog, &file.kept(), "0", || [1, 2, 3, 4]);
    let (again, warnings) = load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(warnings, [""; 0]);
    let same = write(&again, &read(text.as_bytes()).expect("sound").kept(), "0", || [1, 2, 3, 4]);
    assert_eq!(same, text);
    assert!(!text.contains("s3cret"));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let user = |more: &str| format!("{{\"users\": [{{\"name\": \"a\"{more}}}]}}");
    let vhost = "\"vhosts\": [{\"name\": \"/\"}]";
    let queue = |more: &str| format!("{{{vhost}, \"queues\": [{{\"vhost\": \"/\", \"name\": \"q\"{more}}}]}}");
    let policy = |more: &str| {
        format!("{{{vhost}, \"policies\": [{{\"vhost\": \"/\", \"name\": \"p\", \"pattern\": \"\"{more}}}]}}")
    };
    let operator = |value: &str| {
        let names = "\"vhost\": \"/\", \"name\": \"p\", \"component\": \"operator_policy\"";
        format!("{{{vhost}, \"parameters\": [{{{names}, \"value\": {value}}}]}}")
    };
    let cases = [
        ("".to_owned(), "this is no JSON: EOF while parsing a value at line 1 column 0"),
        ("{\n\"users\": [}".to_owned(), "this is no JSON: expected value at line 2 column 11"),
        ("[]".to_owned(), "an object is needed, not a list"),
        ("{\"users\": {}}".to_owned(), ".users: a list is needed, not an object"),
        ("{\"users\": [1]}".to_owned(), ".users[0]: an object is needed, not a whole number"),
        ("{\"usrs\": [{}]}".to_owned(), ".usrs: there is no such section"),
        (
            "{\"users\": [], \"users\": []}".to_owned(),
            "this is no JSON: the key \"users\" is there twice at line 1 column 26",
        ),
        ("{\"users\": [{}]}".to_owned(), ".users[0].name: it is missing"),
        (user(", \"name\": \"b\""), "this is no JSON: the key \"name\" is there twice at line 1 column 37"),
        (user(", \"password_hash\": 1"), ".users[0].password_hash: a string is needed, not a whole number"),
        (user(", \"password_hash\": \"AAAA\""), ".users[0].hashing_algorithm: it is missing"),
        (
            user(", \"password_hash\": \"AAAA\", \"hashing_algorithm\": \"rabbit_password_hashing_md5\""),
            ".users[0].hashing_algorithm: 'rabbit_password_hashing_md5' is not known here: \
             rabbit_password_hashing_sha256 and argon2 are",
        ),
        (
            user(", \"limits\": {\"max-chanels\": 1}"),
            ".users[0].limits.max-chanels: no such limit; there are max-connections, max-channels",
        ),
        (
            user(", \"limits\": [[\"max-channels\", \"1\"]]"),
            ".users[0].limits.max-channels: a whole number is needed, not a string",
        ),
        (user(", \"limits\": 5"), ".users[0].limits: an object is needed, or a list of pairs"),
        (policy(""), ".policies[0].definition: it is missing"),
        (
            policy(", \"definition\": {\"max-length\": -1}"),
            ".policies[0].definition.max-length: 0 is the least, not -1",
        ),
        (
            policy(", \"definition\": {\"expires\": 1}, \"apply-to\": \"rooms\""),
            ".policies[0].apply-to: it takes all, queues, exchanges, classic_queues, quorum_queues or streams, not 'rooms'",
        ),
        (
            policy(", \"definition\": {\"expires\": 1}, \"priority\": \"1\""),
            ".policies[0].priority: a whole number is needed, not a string",
        ),
        (
            operator("{\"pattern\": \"\", \"definition\": {\"alternate-exchange\": \"x\"}}"),
            ".parameters[0].value.definition.alternate-exchange: an operator policy cannot say that; it has message-ttl, expires, \
             max-length, max-length-bytes, delivery-limit",
        ),
        (operator("5"), ".parameters[0].value: an object is needed"),
        (user(", \"tags\": [1]"), ".users[0].tags: a list of strings, or a string with commas, is needed"),
        (queue(", \"durable\": \"yes\""), ".queues[0].durable: a boolean is needed, not a string"),
        (queue(", \"type\": \"stream\""), ".queues[0].type: queues are classic or quorum queues here, not stream"),
        (
            queue(", \"arguments\": {\"x-max-length\": \"many\"}"),
            ".queues[0]: PRECONDITION_FAILED - invalid arg 'x-max-length' for queue 'q' in vhost '/': \
             \"expected integer, got longstr\"",
        ),
        (
            "{\"queues\": [{\"vhost\": \"/\", \"name\": \"q\"}]}".to_owned(),
            ".queues[0].vhost: there is no virtual host '/'",
        ),
        (
            format!(
                "{{{vhost}, \"permissions\": [{{\"user\": \"a\", \"vhost\": \"/\", \"configure\": \"\", \"write\": \"\", \"read\": \"\"}}]}}"
            ),
            ".permissions[0]: NOT_FOUND - no user 'a'",
        ),
        (
            format!(
                "{{{vhost}, \"bindings\": [{{\"vhost\": \"/\", \"source\": \"x\", \"destination\": \"q\", \"destination_type\": \"stream\", \"routing_key\": \"\"}}]}}"
            ),
            ".bindings[0].destination_type: a destination is a queue or an exchange, not 'stream'",
        ),
    ];
    for (text, expect) in cases {
        assert_eq!(load(text.as_bytes()).map(drop).expect_err(expect), expect, "{text}");
    }
    // All faults at once, and what is unknown is told but no fault.
    let two = load(b"{\"users\": [{}, {\"name\": 1}]}").map(drop).expect_err("two");
    assert_eq!(two, ".users[0].name: it is missing\n.users[1].name: a string is needed, not a whole number");
    let (_, warnings) = load(b"{\"vhosts\": [{\"name\": \"/\", \"colour\": 1}]}").expect("sound");
    assert_eq!(warnings, [".vhosts[0].colour: unknown here, and ignored"]);
}

#[test]
fn exchanges_of_further_types_are_read_and_written() {
    let exchange = |name: &str, kind: &str, arguments: &str| {
        format!(
            "{{\"vhost\": \"/\", \"name\": \"{name}\", \"type\": \"{kind}\", \"durable\": true, \"auto_delete\": false, \
             \"internal\": false, \"arguments\": {{{arguments}}}}}"
        )
    };
    let file = |exchanges: [String; 2], weight: &str| {
        format!(
            "{{\"vhosts\": [{{\"name\": \"/\"}}], \"exchanges\": [{}], \"queues\": [{{\"vhost\": \"/\", \"name\": \"q\"}}], \"bindings\": \
             [{{\"vhost\": \"/\", \"source\": \"h\", \"destination\": \"q\", \"destination_type\": \"queue\", \"routing_key\": \"{weight}\"}}]}}",
            exchanges.join(", ")
        )
    };
    let hash = exchange("h", "x-consistent-hash", "\"hash-header\": \"account\"");
    let delayed = exchange("d", "x-delayed-message", "\"x-delayed-type\": \"topic\"");
    let (catalog, _) = load(file([hash.clone(), delayed], "3").as_bytes()).expect("sound");
    let text = write(&catalog, &KeptSections::default(), "0", || [1, 2, 3, 4]);
    let (again, _) = load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kinds = |catalog: &Catalog| {
        let named = catalog.exchanges().filter(|(_, exchange)| exchange.name.len() == 1);
        named.map(|(_, exchange)| format!("{} {:?}", exchange.kind, exchange.arguments)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&again), kinds(&catalog));
    let untyped = exchange("d", "x-delayed-message", "");
    for (text, expect) in [
        (
            file([hash.clone(), untyped], "3"),
            ".exchanges[1]: PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            file([hash.clone(), exchange("d", "fanout", "")], "three"),
            ".bindings[0]: PRECONDITION_FAILED - The binding key must be an integer: <<\"three\">>",
        ),
    ] {
        assert_eq!(load(text.as_bytes()).map(drop).expect_err(expect), expect);
    }
}

#[test]
fn policies_and_limits_go_in_and_out() {
    let text = br#"{
        "vhosts": [{"name": "/", "limits": [["max-connections", 9], ["max-queue-bytes", 4096]]}, {"name": "b"}],
        "users": [{"name": "u", "limits": {"max-connections": 1, "max-channels": -1}}],
        "policies": [{"vhost": "/", "name": "p", "pattern": "^a", "definition": {"max-length": 5, "ha-mode": "all"}}],
        "parameters": [
            {"vhost": "b", "component": "operator_policy", "name": "o", "value":
                {"pattern": "", "apply-to": "queues", "priority": -1, "definition": {"expires": 60000}}},
            {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 7}},
            {"vhost": "/", "component": "shovel", "name": "s", "value": {}},
            {"vhost": "/", "component": "mqtt", "name": "m", "value": {}}
        ]
    }"#;
    let (catalog, warnings) = load(text).expect("sound");
    assert_eq!(
        warnings,
        [
            ".policies[0]: ha-mode has no effect in this broker",
            ".parameters: 1 kept, but without effect in this broker"
        ]
    );
    let root = catalog.vhost_by_name("/").expect("there");
    let limits = VhostLimits { connections_max: None, queues_max: Some(7), queue_bytes_max: Some(4096) };
    assert_eq!(catalog.vhost_limits(root), limits);
    let user = catalog.users().next().expect("one").1;
    assert_eq!((user.limits.connections_max, user.limits.channels_max), (Some(1), None));
    let written = write(&catalog, &read(text).expect("sound").kept(), "0", || [1, 2, 3, 4]);
    let (again, _) = load(written.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again.vhost_limits(again.vhost_by_name("/").expect("there")), limits);
    assert!(again.policies().eq(catalog.policies()), "{written}");
    assert_eq!(again.users().next().expect("one").1.limits, user.limits);
    assert!(written.contains("\"component\": \"shovel\""), "{written}");
    let twice =
        String::from_utf8_lossy(text).replace("{\"vhost\": \"b\", \"component\"", "{\"vhost\": \"c\", \"component\"");
    assert_eq!(load(twice.as_bytes()).map(drop), Err(".parameters[0].vhost: there is no virtual host 'c'".to_owned()));
    let (_, warnings) = load(b"{\"vhosts\": [{\"name\": \"/\", \"limits\": {\"max-queues\": 1}}]}").expect("sound");
    assert!(
        warnings[0].starts_with(".vhosts[0].limits: without effect: as in RabbitMQ, the parameters say"),
        "{warnings:?}"
    );
}
