//! Exchanges, queues and bindings.

use crate::script::Script;

#[test]
fn exchanges_are_declared_alike_or_refused_and_deleted() {
    let mut script = Script::new();
    script.run(&[
        ("guest", "PUT", "/api/exchanges/%2F/a%2Fb", r#"{"type":"topic","durable":"true","auto_delete":false,"arguments":[]}"#, 201, ""),
        ("guest", "PUT", "/api/exchanges/%2F/a%2Fb/", r#"{"type":"topic","durable":true,"vhost":"x","name":"y","node":"z"}"#, 204, ""),
        ("guest", "GET", "/api/exchanges/%2F/a%2Fb", "", 200, r#""name":"a/b","vhost":"/","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}"#),
        ("guest", "PUT", "/api/exchanges/%2F/a%2Fb", r#"{"type":"topic"}"#, 400, "inequivalent arg 'durable' for exchange 'a/b' in vhost '/': received 'false' but current is 'true'"),
        ("guest", "PUT", "/api/exchanges/%2F/a%2Fb", r#"{"type":"fanout","durable":true}"#, 400, "inequivalent arg 'type' for exchange 'a/b' in vhost '/': received 'fanout' but current is 'topic'"),
        ("guest", "PUT", "/api/exchanges/%2F/a%252Fb", "", 201, ""),
        ("guest", "GET", "/api/exchanges/%2F/a%252Fb", "", 200, r#""name":"a%2Fb","vhost":"/","type":"direct","durable":false"#),
        ("guest", "PUT", "/api/exchanges/%2F/e", r#"{"type":"nonsense"}"#, 400, "unknown exchange type 'nonsense'"),
        ("guest", "PUT", "/api/exchanges/%2F/e", r#"{"type":1}"#, 400, "type is a string"),
        ("guest", "PUT", "/api/exchanges/%2F/e", r#"{"durable":"yes"}"#, 400, "durable is true or false"),
        ("guest", "PUT", "/api/exchanges/%2F/e", r#"{"arguments":1}"#, 400, "arguments: an object is needed"),
        ("guest", "PUT", "/api/exchanges/%2F/amq.new", "", 401, "exchange name 'amq.new' contains reserved prefix 'amq.*'"),
        ("guest", "PUT", "/api/exchanges/%2F/amq.default", "", 401, "operation not permitted on the default exchange"),
        ("guest", "PUT", "/api/exchanges/%2F/amq.topic", r#"{"type":"topic","durable":true}"#, 204, ""),
        ("guest", "PUT", "/api/exchanges/none/e", "", 404, "Not Found"),
        ("guest", "PUT", "/api/exchanges/other/e", "", 401, "access to exchange 'e' in vhost 'other' refused for user 'guest'"),
        ("manager", "PUT", "/api/exchanges/v%201/e", "", 401, "access to exchange 'e' in vhost 'v 1' refused for user 'manager'"),
        ("manager", "PUT", "/api/exchanges/%2F/e", "", 401, "User not authorised to access virtual host"),
        ("guest", "PUT", "/api/exchanges/%2F/e", r#"{"arguments":{"alternate-exchange":"x"},"internal":"true"}"#, 201, ""),
        ("guest", "GET", "/api/exchanges/%2F/e", "", 200, r#""internal":true,"arguments":{"alternate-exchange":"x"}"#),
        ("guest", "DELETE", "/api/exchanges/%2F/x?if-unused=true", "", 400, "exchange 'x' in vhost '/' in use"),
        ("guest", "DELETE", "/api/exchanges/%2F/e?if-unused=true", "", 204, ""),
        ("guest", "DELETE", "/api/exchanges/%2F/x", "", 204, ""),
        ("guest", "DELETE", "/api/exchanges/%2F/x", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/exchanges/%2F/amq.topic", "", 401, "deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
        ("guest", "DELETE", "/api/exchanges/%2F/amq.default", "", 401, "operation not permitted on the default exchange"),
        ("manager", "DELETE", "/api/exchanges/v%201/amq.topic", "", 401, "deletion of system exchange"),
    ]);
    let long = format!("/api/exchanges/%2F/{}", "e".repeat(256));
    script.run(&[("guest", "PUT", &long, "", 400, "exchange name of 256 bytes, 255 are the most")]);
}

#[test]
fn queues_are_declared_alike_or_refused_and_deleted() {
    let mut script = Script::new();
    script.run(&[
        (
            "guest",
            "PUT",
            "/api/queues/%2F/a%252Fb",
            r#"{"durable":"true","auto_delete":"false","arguments":{"x-max-length":5,"x-a":1.0}}"#,
            201,
            "",
        ),
        (
            "guest",
            "PUT",
            "/api/queues/%2F/a%252Fb",
            r#"{"durable":true,"arguments":{"x-max-length":5,"x-a":1.0}}"#,
            204,
            "",
        ),
        ("guest", "GET", "/api/queues/%2F/a%252Fb", "", 200, r#""arguments":{"x-max-length":5,"x-a":1.0}"#),
        (
            "guest",
            "PUT",
            "/api/queues/%2F/a%252Fb",
            r#"{"durable":true}"#,
            400,
            "inequivalent arg 'x-max-length' for queue 'a%2Fb' in vhost '/'",
        ),
        (
            "guest",
            "PUT",
            "/api/queues/%2F/a%252Fb",
            "",
            400,
            "inequivalent arg 'durable' for queue 'a%2Fb' in vhost '/': received 'false' but current is 'true'",
        ),
        ("guest", "PUT", "/api/queues/%2F/a%2Fb", r#"{"arguments":[]}"#, 201, ""),
        ("guest", "GET", "/api/queues/%2F/a%2Fb", "", 200, r#""name":"a/b""#),
        ("guest", "PUT", "/api/queues/%2F/new", r#"{"arguments":{"x-max-length":-1}}"#, 400, "x-max-length"),
        ("guest", "PUT", "/api/queues/%2F/amq.x", "", 401, "queue name 'amq.x' contains reserved prefix 'amq.*'"),
        ("guest", "PUT", "/api/queues/none/q", "", 404, "Not Found"),
        (
            "guest",
            "PUT",
            "/api/queues/other/q",
            "",
            401,
            "access to queue 'q' in vhost 'other' refused for user 'guest'",
        ),
        (
            "manager",
            "DELETE",
            "/api/queues/v%201/q",
            "",
            401,
            "access to queue 'q' in vhost 'v 1' refused for user 'manager'",
        ),
        ("guest", "DELETE", "/api/queues/%2F/a%2Fb", "", 204, ""),
        ("guest", "DELETE", "/api/queues/%2F/a%2Fb", "", 404, "Not Found"),
        // Whether it is empty is for its home to find out.
        ("guest", "DELETE", "/api/queues/%2F/orders?if-empty=true", "", 503, "there is no broker behind this"),
        ("guest", "DELETE", "/api/queues/%2F/orders?if-empty=false", "", 204, ""),
        // As many as the virtual host may have.
        ("guest", "PUT", "/api/permissions/v%201/guest", r#"{"configure":".*","write":".*","read":".*"}"#, 201, ""),
        ("guest", "PUT", "/api/vhost-limits/v%201/max-queues", r#"{"value":"1"}"#, 204, ""),
        (
            "guest",
            "PUT",
            "/api/queues/v%201/another",
            "",
            400,
            "cannot declare queue 'another': queue limit in vhost 'v 1' (1) is reached",
        ),
    ]);
    script.run(&[("guest", "PUT", "/api/queues/%2F/ord%0Aers", "", 400, "a name has no line breaks")]);
    let long = format!("/api/queues/%2F/{}", "q".repeat(256));
    script.run(&[("guest", "PUT", &long, "", 400, "queue name of 256 bytes, 255 are the most")]);
}

#[test]
fn a_queue_that_a_connection_has_to_itself_is_locked() {
    let mut script = Script::new();
    let vhost = script.source.catalog.vhost_by_name("/").expect("it is there");
    let (shard, slot) = (catalog::ShardId(0), catalog::ConnectionSlot::new(1));
    script.source.define([catalog::Definition::DeclareQueue {
        vhost,
        name: catalog::Name::from("own"),
        server_named: false,
        durable: false,
        exclusive: Some(catalog::SessionId { shard, slot, serial: 1 }),
        auto_delete: false,
        arguments: wire::Table::new(),
        home: shard,
    }]);
    let locked = "cannot obtain exclusive access to locked queue 'own' in vhost '/'";
    script.run(&[
        ("guest", "PUT", "/api/queues/%2F/own", "", 400, locked),
        ("guest", "DELETE", "/api/queues/%2F/own", "", 400, locked),
        ("guest", "DELETE", "/api/queues/%2F/own?if-unused=true", "", 400, locked),
        ("guest", "DELETE", "/api/queues/%2F/own/contents", "", 400, locked),
        (
            "guest",
            "POST",
            "/api/queues/%2F/own/get",
            r#"{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}"#,
            400,
            locked,
        ),
        ("guest", "POST", "/api/bindings/%2F/e/x/q/own", r#"{"routing_key":"k"}"#, 400, locked),
    ]);
}

#[test]
fn bindings_have_a_place_by_which_they_are_removed() {
    let mut script = Script::new();
    script.run(&[
        (
            "guest",
            "POST",
            "/api/bindings/%2F/e/x/q/my%20orders",
            r##"{"routing_key":"a.#","arguments":{}}"##,
            201,
            "my%20orders/a.%2523",
        ),
        (
            "guest",
            "GET",
            "/api/bindings/%2F/e/x/q/my%20orders/a.%2523",
            "",
            200,
            r##""routing_key":"a.#","arguments":{},"properties_key":"a.%23""##,
        ),
        // The same once more.
        (
            "guest",
            "POST",
            "/api/bindings/%2F/e/x/q/my%20orders/",
            r##"{"routing_key":"a.#","arguments":[]}"##,
            201,
            "my%20orders/a.%2523",
        ),
        (
            "guest",
            "GET",
            "/api/bindings/%2F/e/x/q/my%20orders?columns=routing_key",
            "",
            200,
            r##"[{"routing_key":"a.#"}]"##,
        ),
        ("guest", "POST", "/api/bindings/%2F/e/x/q/my%20orders", "", 201, "my%20orders/~"),
        ("guest", "POST", "/api/bindings/%2F/e/x/e/amq.fanout", r#"{"routing_key":"%2F"}"#, 201, "amq.fanout/%25252F"),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/e/amq.fanout/%25252F", "", 204, ""),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/e/amq.fanout/%25252F", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/q/my%20orders/a.%2523", "", 204, ""),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/q/my%20orders/~", "", 204, ""),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/q/my%20orders/~", "", 404, "Not Found"),
        ("guest", "POST", "/api/bindings/%2F/e/x/q/none", "", 404, "no queue 'none' in vhost '/'"),
        ("guest", "POST", "/api/bindings/%2F/e/none/q/orders", "", 404, "no exchange 'none' in vhost '/'"),
        ("guest", "POST", "/api/bindings/none/e/x/q/orders", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/bindings/%2F/e/none/q/orders/~", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/bindings/%2F/e/x/q/none/~", "", 404, "Not Found"),
        (
            "guest",
            "POST",
            "/api/bindings/%2F/e/amq.default/q/orders",
            "",
            401,
            "operation not permitted on the default exchange",
        ),
        (
            "guest",
            "DELETE",
            "/api/bindings/%2F/e/amq.default/q/orders/orders",
            "",
            401,
            "operation not permitted on the default exchange",
        ),
        ("guest", "POST", "/api/bindings/%2F/e/x/q/orders", r#"{"routing_key":1}"#, 400, "routing_key is a string"),
        (
            "guest",
            "POST",
            "/api/bindings/%2F/e/amq.headers/q/orders",
            r#"{"arguments":{"x-match":"some"}}"#,
            400,
            "x-match",
        ),
        (
            "manager",
            "POST",
            "/api/bindings/v%201/e/amq.topic/q/q",
            "",
            401,
            "access to queue 'q' in vhost 'v 1' refused for user 'manager'",
        ),
    ]);
    let long = format!(r#"{{"routing_key":"{}"}}"#, "k".repeat(256));
    script.run(&[("guest", "POST", "/api/bindings/%2F/e/x/q/orders", &long, 400, "routing key of 256 bytes")]);
}

#[test]
fn arguments_of_a_binding_name_it_in_any_order() {
    let mut script = Script::new();
    let path = "/api/bindings/%2F/e/amq.headers/q/orders";
    let (status, one) = script.ask("guest", "POST", path, br#"{"arguments":{"b":1,"a":{"z":[true]}}}"#);
    let (again, other) = script.ask("guest", "POST", path, br#"{"arguments":{"a":{"z":[true]},"b":1}}"#);
    assert_eq!((status, again, &one), (201, 201, &other));
    let key = one.strip_prefix("orders/").expect("it is relative to the path");
    let named = format!("{path}/{key}");
    script.run(&[
        ("guest", "GET", &named, "", 200, r#""arguments":{"a":{"z":[true]},"b":1}"#),
        ("guest", "DELETE", &named, "", 204, ""),
        ("guest", "GET", path, "", 200, "[]"),
    ]);
}

#[test]
fn topics_count_for_bindings_as_over_amqp() {
    let mut script = Script::new();
    script.run(&[
        ("guest", "PUT", "/api/permissions/v%201/manager", r#"{"configure":"","write":".*","read":".*"}"#, 204, ""),
        ("manager", "POST", "/api/bindings/v%201/e/amq.topic/q/q", r#"{"routing_key":"b.x"}"#, 201, "q/b.x"),
        (
            "manager",
            "POST",
            "/api/bindings/v%201/e/amq.topic/q/q",
            r#"{"routing_key":"c.x"}"#,
            401,
            "access to topic 'c.x' in exchange 'amq.topic' in vhost 'v 1' refused for user 'manager'",
        ),
        (
            "manager",
            "POST",
            "/api/exchanges/v%201/amq.topic/publish",
            r#"{"routing_key":"c","payload":"","payload_encoding":"string","properties":{}}"#,
            401,
            "access to topic 'c' in exchange",
        ),
    ]);
}
