//! Policies, limits, parameters and the name of the cluster.

use crate::script::Script;

#[test]
fn policies_are_checked_and_take_the_place_of_their_name() {
    Script::new().run(&[
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p%2Fq",
            r#"{"pattern":"^a","definition":{"max-length":5},"vhost":"w","name":"n"}"#,
            201,
            "",
        ),
        (
            "maker",
            "GET",
            "/api/policies/v%201/p%2Fq",
            "",
            200,
            r#""vhost":"v 1","name":"p/q","pattern":"^a","apply-to":"all","definition":{"max-length":5},"priority":0"#,
        ),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p%2Fq",
            r#"{"pattern":"^a","definition":{"max-length":6},"priority":"3","apply-to":"queues"}"#,
            204,
            "",
        ),
        (
            "maker",
            "GET",
            "/api/policies/v%201?columns=name,priority,apply-to",
            "",
            200,
            r#"[{"name":"p/q","apply-to":"queues","priority":3}]"#,
        ),
        // Those of others stay.
        ("guest", "GET", "/api/policies?columns=name", "", 200, r#"[{"name":"short"},{"name":"p/q"}]"#),
        ("guest", "GET", "/api/operator-policies?columns=name", "", 200, r#"[{"name":"op"}]"#),
        ("maker", "PUT", "/api/policies/v%201/p", r#"{"definition":{"max-length":5}}"#, 400, "key_missing: pattern"),
        ("maker", "PUT", "/api/policies/v%201/p", r#"{"pattern":""}"#, 400, "key_missing: definition"),
        ("maker", "PUT", "/api/policies/v%201/p", r#"{"pattern":"(","definition":{"max-length":5}}"#, 400, "pattern: "),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p",
            r#"{"pattern":"","definition":{"nonsense":5}}"#,
            400,
            "definition.nonsense: ",
        ),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p",
            r#"{"pattern":"","definition":{"max-length":-5}}"#,
            400,
            "definition.max-length: 0 is the least",
        ),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p",
            r#"{"pattern":"","definition":{"max-length":5},"apply-to":"some"}"#,
            400,
            "apply-to: it takes all, queues, exchanges, classic_queues, quorum_queues or streams, not 'some'",
        ),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/p",
            r#"{"pattern":"","definition":{"max-length":5},"priority":"x"}"#,
            400,
            "priority is a whole number",
        ),
        (
            "maker",
            "PUT",
            "/api/policies/%2F/p",
            r#"{"pattern":"","definition":{"max-length":5}}"#,
            401,
            "User not authorised to access virtual host",
        ),
        (
            "manager",
            "PUT",
            "/api/policies/v%201/p",
            r#"{"pattern":"","definition":{"max-length":5}}"#,
            401,
            "Not authorised for this resource",
        ),
        ("guest", "PUT", "/api/policies/none/p", r#"{"pattern":"","definition":{"max-length":5}}"#, 404, "Not Found"),
        (
            "maker",
            "PUT",
            "/api/policies/v%201/c",
            r#"{"pattern":"","definition":{"max-length":5},"apply-to":"classic_queues"}"#,
            201,
            "",
        ),
        ("maker", "GET", "/api/policies/v%201/c", "", 200, r#""apply-to":"classic_queues""#),
        ("maker", "DELETE", "/api/policies/v%201/c", "", 204, ""),
        ("maker", "DELETE", "/api/policies/v%201/p%2Fq", "", 204, ""),
        ("maker", "DELETE", "/api/policies/v%201/p%2Fq", "", 404, "Not Found"),
        ("guest", "GET", "/api/policies?columns=name", "", 200, r#"[{"name":"short"}]"#),
        ("guest", "PUT", "/api/operator-policies/%2F/o", r#"{"pattern":"","definition":{"expires":1000}}"#, 201, ""),
        ("guest", "PUT", "/api/operator-policies/%2F/o", r#"{"pattern":"","definition":{"expires":1001}}"#, 204, ""),
        (
            "guest",
            "PUT",
            "/api/operator-policies/%2F/o",
            r#"{"pattern":"","definition":{"alternate-exchange":"x"}}"#,
            400,
            "definition.alternate-exchange: ",
        ),
        (
            "maker",
            "PUT",
            "/api/operator-policies/v%201/o",
            r#"{"pattern":"","definition":{"expires":1000}}"#,
            401,
            "Not authorised",
        ),
        ("guest", "DELETE", "/api/operator-policies/%2F/short", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/operator-policies/%2F/op", "", 204, ""),
        (
            "guest",
            "GET",
            "/api/operator-policies?columns=name,definition",
            "",
            200,
            r#"[{"name":"o","definition":{"expires":1001}}]"#,
        ),
    ]);
}

#[test]
fn one_limit_changes_and_the_others_stay() {
    Script::new().run(&[
        ("guest", "PUT", "/api/vhost-limits/v%201/max-connections", r#"{"value":3}"#, 204, ""),
        ("guest", "GET", "/api/vhost-limits/v%201", "", 200, r#""value":{"max-connections":3,"max-queues":7}"#),
        ("guest", "PUT", "/api/vhost-limits/v%201/max-queue-bytes", r#"{"value":"5000000000"}"#, 204, ""),
        ("guest", "PUT", "/api/vhost-limits/v%201/max-queues", r#"{"value":-1}"#, 204, ""),
        (
            "guest",
            "GET",
            "/api/vhost-limits/v%201",
            "",
            200,
            r#""value":{"max-connections":3,"max-queue-bytes":5000000000}"#,
        ),
        ("guest", "DELETE", "/api/vhost-limits/v%201/max-connections", "", 204, ""),
        ("guest", "DELETE", "/api/vhost-limits/v%201/max-queue-bytes", "", 204, ""),
        ("guest", "GET", "/api/vhost-limits/v%201", "", 200, "[]"),
        ("guest", "DELETE", "/api/vhost-limits/v%201/max-connections", "", 204, ""),
        (
            "guest",
            "PUT",
            "/api/vhost-limits/v%201/max-frogs",
            r#"{"value":3}"#,
            400,
            "limits.max-frogs: no such limit; there are max-connections",
        ),
        ("guest", "PUT", "/api/vhost-limits/v%201/max-queues", "", 400, "key_missing: value"),
        ("guest", "PUT", "/api/vhost-limits/v%201/max-queues", r#"{"value":1.5}"#, 400, "value is a whole number"),
        ("guest", "PUT", "/api/vhost-limits/none/max-queues", r#"{"value":1}"#, 404, "Not Found"),
        ("maker", "PUT", "/api/vhost-limits/v%201/max-queues", r#"{"value":1}"#, 401, "Not authorised"),
        ("guest", "PUT", "/api/user-limits/manager/max-channels", r#"{"value":3}"#, 204, ""),
        ("guest", "PUT", "/api/user-limits/manager/max-connections", r#"{"value":0}"#, 204, ""),
        (
            "guest",
            "GET",
            "/api/user-limits/manager",
            "",
            200,
            r#"[{"user":"manager","value":{"max-connections":0,"max-channels":3}}]"#,
        ),
        ("guest", "DELETE", "/api/user-limits/manager/max-channels", "", 204, ""),
        ("guest", "GET", "/api/user-limits", "", 200, r#"[{"user":"manager","value":{"max-connections":0}}]"#),
        ("guest", "PUT", "/api/user-limits/manager/max-queues", r#"{"value":0}"#, 400, "no such limit"),
        ("guest", "PUT", "/api/user-limits/nobody/max-channels", r#"{"value":0}"#, 404, "Not Found"),
        ("guest", "DELETE", "/api/user-limits/nobody/max-channels", "", 404, "Not Found"),
    ]);
}

#[test]
fn parameters_are_checked_kept_and_cleared() {
    let mut script = Script::new();
    script.run(&[
        (
            "maker",
            "PUT",
            "/api/parameters/federation-upstream/v%201/new",
            r#"{"value":{"uri":"amqp://u:s3cret@h"},"component":"x"}"#,
            201,
            "",
        ),
        (
            "maker",
            "PUT",
            "/api/parameters/federation-upstream/v%201/new",
            r#"{"value":{"uri":["amqp://h"],"expires":5}}"#,
            204,
            "",
        ),
        (
            "maker",
            "GET",
            "/api/parameters/federation-upstream/v%201/new",
            "",
            200,
            r#""value":{"uri":["amqp://h"],"expires":5},"vhost":"v 1","component":"federation-upstream","name":"new""#,
        ),
        (
            "maker",
            "PUT",
            "/api/parameters/federation-upstream-set/v%201/s",
            r#"{"value":[{"upstream":"new"}]}"#,
            201,
            "",
        ),
        (
            "maker",
            "PUT",
            "/api/parameters/shovel/v%201/s",
            r#"{"value":{"src-uri":"amqp://","src-queue":"q","dest-uri":"amqp://h","dest-queue":"d"}}"#,
            201,
            "",
        ),
        (
            "maker",
            "PUT",
            "/api/parameters/shovel/v%201/s",
            r#"{"value":{"src-queue":"q","src-uri":"amqp://u:s3cret@h","dest-uri":1,"dest-queue":"d"}}"#,
            400,
            "Validation failed\\n\\ndest-uri should be a string or a list of strings, actually was a whole number\\n",
        ),
        ("maker", "PUT", "/api/shovels/vhost/v%201/s/pause", "", 204, ""),
        ("maker", "GET", "/api/parameters/shovel/v%201/s", "", 200, r#""user":"maker","paused":true"#),
        ("maker", "PUT", "/api/shovels/vhost/v%201/s/resume", "", 204, ""),
        ("maker", "GET", "/api/parameters/shovel/v%201/s", "", 200, r#""name":"s","user":"maker"}"#),
        ("maker", "PUT", "/api/shovels/vhost/v%201/none/pause", "", 404, "Not Found"),
        ("maker", "DELETE", "/api/shovels/vhost/v%201/none/restart", "", 404, "Not Found"),
        ("monitor", "DELETE", "/api/shovels/vhost/v%201/s", "", 401, "Not authorised"),
        ("maker", "DELETE", "/api/shovels/vhost/v%201/none", "", 404, "Not Found"),
        ("maker", "PUT", "/api/parameters/federation-upstream/v%201/new", "", 400, "key_missing: value"),
        (
            "maker",
            "PUT",
            "/api/parameters/federation-upstream/v%201/new",
            r#"{"value":{}}"#,
            400,
            r#"Validation failed\n\nKey \"uri\" not found in federation-upstream\n"#,
        ),
        ("maker", "PUT", "/api/parameters/federation-upstream/v%201/new", r#"{"value":1}"#, 400, "an object is needed"),
        (
            "maker",
            "PUT",
            "/api/parameters/federation-upstream-set/v%201/s",
            r#"{"value":[{}]}"#,
            400,
            "each entry names its upstream",
        ),
        ("maker", "PUT", "/api/parameters/nonsense/v%201/n", r#"{"value":{}}"#, 400, "component nonsense not found"),
        (
            "maker",
            "PUT",
            "/api/parameters/operator_policy/v%201/n",
            r#"{"value":{}}"#,
            400,
            "operator_policy may not be set using this method",
        ),
        (
            "maker",
            "PUT",
            "/api/parameters/vhost-limits/v%201/limits",
            r#"{"value":{}}"#,
            400,
            "vhost-limits may not be set using this method",
        ),
        ("guest", "PUT", "/api/parameters/shovel/none/s", r#"{"value":{}}"#, 404, "Not Found"),
        ("monitor", "PUT", "/api/parameters/shovel/v%201/s", r#"{"value":{}}"#, 401, "Not authorised"),
        ("maker", "DELETE", "/api/parameters/shovel/v%201/s", "", 204, ""),
        ("maker", "DELETE", "/api/parameters/shovel/v%201/s", "", 404, "Not Found"),
        // Of the same name elsewhere.
        ("maker", "DELETE", "/api/parameters/federation-upstream/v%201/up", "", 204, ""),
        (
            "guest",
            "GET",
            "/api/parameters?columns=vhost,name",
            "",
            200,
            concat!(
                r#"[{"vhost":"/","name":"up"},{"vhost":"v 1","name":"new"},{"vhost":"v 1","name":"s"},"#,
                // What RabbitMQ keeps as parameters, too.
                r#"{"vhost":"/","name":"op"},{"vhost":"v 1","name":"limits"}]"#
            ),
        ),
        ("maker", "PUT", "/api/global-parameters/h", r#"{"value":[1]}"#, 201, ""),
        ("maker", "PUT", "/api/global-parameters/h", r#"{"value":"text"}"#, 204, ""),
        ("guest", "GET", "/api/global-parameters/h", "", 200, r#"{"name":"h","value":"text"}"#),
        ("maker", "PUT", "/api/global-parameters/h", "{}", 400, "key_missing: value"),
        ("manager", "PUT", "/api/global-parameters/h", r#"{"value":1}"#, 401, "Not authorised"),
        ("maker", "DELETE", "/api/global-parameters/h", "", 204, ""),
        ("maker", "DELETE", "/api/global-parameters/h", "", 404, "Not Found"),
        ("guest", "GET", "/api/global-parameters/g", "", 200, r#"{"name":"g","value":{"a":1}}"#),
    ]);
    let long = format!(r#"{{"value":"{}"}}"#, "x".repeat(management::limits::PARAMETER_BYTES_MAX));
    script.run(&[("maker", "PUT", "/api/global-parameters/h", &long, 400, "a parameter has 16384 bytes at most")]);
    for number in 1..management::limits::PARAMETERS_KEPT_MAX {
        let (status, text) = script.ask("maker", "PUT", &format!("/api/global-parameters/{number}"), br#"{"value":1}"#);
        assert_eq!(status, 201, "{text}");
    }
    script.run(&[(
        "maker",
        "PUT",
        "/api/global-parameters/more",
        r#"{"value":1}"#,
        400,
        "1024 parameters are the most",
    )]);
    let file = r#"{"global_parameters":[{"name":"more","value":1}]}"#;
    script.run(&[("guest", "POST", "/api/definitions", file, 400, "1024 parameters are the most")]);
    script.run(&[("guest", "POST", "/api/definitions", r#"{"global_parameters":[{"name":"g","value":2}]}"#, 204, "")]);
    let long = format!(r#"{{"metadata":{long}}}"#);
    script.run(&[("guest", "PUT", "/api/vhosts/new", &long, 400, "a parameter has 16384 bytes at most")]);
}

#[test]
fn the_cluster_has_the_name_that_it_is_given() {
    let mut script = Script::new();
    script.run(&[
        ("guest", "PUT", "/api/cluster-name/", r#"{"name":"here"}"#, 204, ""),
        ("guest", "GET", "/api/cluster-name", "", 200, r#"{"name":"here"}"#),
        // Nobody has given the cluster tags; RabbitMQ 4 says so with an empty object.
        ("guest", "GET", "/api/global-parameters/cluster_tags", "", 200, r#"{"name":"cluster_tags","value":{}}"#),
        ("maker", "DELETE", "/api/global-parameters/cluster_tags", "", 204, ""),
        ("guest", "PUT", "/api/global-parameters/cluster_tags", r#"{"value":{"region":"eu"}}"#, 201, ""),
        ("guest", "GET", "/api/global-parameters/cluster_tags", "", 200, r#""value":{"region":"eu"}"#),
        ("guest", "GET", "/api/overview?columns=cluster_tags", "", 200, r#"{"cluster_tags":{"region":"eu"}}"#),
        ("maker", "DELETE", "/api/global-parameters/cluster_tags", "", 204, ""),
        ("guest", "GET", "/api/overview?columns=cluster_tags", "", 200, r#"{"cluster_tags":{}}"#),
        ("guest", "GET", "/api/global-parameters/cluster_name", "", 200, r#""value":"here""#),
        ("guest", "PUT", "/api/global-parameters/cluster_name", r#"{"value":"there"}"#, 204, ""),
        ("guest", "GET", "/api/cluster-name", "", 200, r#"{"name":"there"}"#),
        ("maker", "PUT", "/api/global-parameters/cluster_name", r#"{"value":"x"}"#, 401, "Not authorised"),
        ("maker", "DELETE", "/api/global-parameters/cluster_name", "", 401, "Not authorised"),
        ("guest", "PUT", "/api/global-parameters/cluster_name", r#"{"value":1}"#, 400, "value is a string"),
        ("guest", "DELETE", "/api/global-parameters/cluster_name", "", 204, ""),
        ("guest", "GET", "/api/cluster-name", "", 200, r#"{"name":"rabbit@localhost"}"#),
        ("guest", "PUT", "/api/cluster-name", r#"{"name":""}"#, 400, "a line of 1 to 255 bytes"),
        ("guest", "PUT", "/api/cluster-name", r#"{"name":"a\nb"}"#, 400, "a line of 1 to 255 bytes"),
        ("guest", "PUT", "/api/cluster-name", "", 400, "key_missing: name"),
        ("maker", "PUT", "/api/cluster-name", r#"{"name":"x"}"#, 401, "Not authorised"),
    ]);
}
