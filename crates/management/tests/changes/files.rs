//! Definitions files that are taken in: once, again, and with a fault.

use crate::script::Script;
use crate::support;
use definitions::Json;
use management::CatalogSource;

const NOTED: &str =
    r#"{"description":"mine","tags":["t"],"metadata":{"k":[1,2.5,null]},"default_queue_type":"quorum"}"#;

#[test]
fn an_export_that_is_taken_in_elsewhere_is_exported_alike() {
    let mut script = Script::new();
    script.run(&[
        ("guest", "PUT", "/api/vhosts/other", NOTED, 204, ""),
        ("guest", "POST", "/api/vhosts/other/deletion/protection", "", 204, ""),
        ("guest", "PUT", "/api/user-limits/plain/max-channels", r#"{"value":3}"#, 204, ""),
        ("guest", "PUT", "/api/vhost-limits/other/max-queue-bytes", r#"{"value":3}"#, 204, ""),
    ]);
    let exported = script.export();
    let mut empty = Script::over(CatalogSource::default());
    let mut versions = Vec::new();
    for _ in 0..2 {
        let (status, text) = empty.ask("guest", "POST", "/api/definitions", exported.line().as_bytes());
        assert_eq!((status, &*text), (204, ""), "{text}");
        assert_eq!(empty.export(), exported);
        versions.push(empty.source.catalog.version());
    }
    assert_eq!(versions[0], versions[1], "what is there already is not made again");
    empty.run(&[
        ("guest", "GET", "/api/vhosts/other", "", 200, r#""description":"mine","tags":["t"],"default_queue_type":"quorum","metadata":{"description":"mine","tags":["t"],"k":[1,2.5,null]}"#),
        ("guest", "DELETE", "/api/vhosts/other", "", 412, "protected"),
    ]);
    // A password hash lets the same people in.
    assert!(empty.source.catalog.authenticate(b"manager", b"manager", false).is_ok());
}

#[test]
fn a_file_adds_to_what_is_there_and_replaces_rules_of_its_names() {
    let mut script = Script::new();
    let file = r#"{"vhosts":[{"name":"new"},{"name":"/"}],
        "queues":[{"name":"q","vhost":"new","durable":true},{"name":"r","vhost":"/","durable":true}],
        "exchanges":[{"name":"e","vhost":"new","type":"fanout"}],
        "bindings":[{"source":"e","vhost":"new","destination":"q","destination_type":"queue","routing_key":"","arguments":{}}],
        "policies":[{"vhost":"/","name":"short","pattern":"x","definition":{"max-length":9}},{"vhost":"new","name":"n","pattern":"","definition":{"expires":1000}}],
        "parameters":[{"vhost":"/","component":"federation-upstream","name":"up","value":{"uri":"amqp://i"}}],
        "global_parameters":[{"name":"g","value":2},{"name":"h","value":3}]}"#;
    script.run(&[
        ("guest", "POST", "/api/definitions", file, 204, ""),
        (
            "guest",
            "GET",
            "/api/bindings/new?columns=source,destination",
            "",
            200,
            r#"{"source":"e","destination":"q"}"#,
        ),
        ("guest", "GET", "/api/queues/%2F?columns=name", "", 200, r#""r""#),
        (
            "guest",
            "GET",
            "/api/policies?columns=name,pattern",
            "",
            200,
            r#"[{"name":"short","pattern":"x"},{"name":"n","pattern":""}]"#,
        ),
        ("guest", "GET", "/api/operator-policies?columns=name", "", 200, r#"[{"name":"op"}]"#),
        (
            "guest",
            "GET",
            "/api/parameters/federation-upstream?columns=vhost,value",
            "",
            200,
            r#"[{"vhost":"/","value":{"uri":"amqp://i"}},{"vhost":"v 1","value":{"uri":"amqp://u:s3cret@h"}}]"#,
        ),
        (
            "guest",
            "GET",
            "/api/global-parameters?columns=name,value",
            "",
            200,
            r#"{"name":"g","value":2},{"name":"h","value":3}]"#,
        ),
        ("guest", "GET", "/api/users/manager", "", 200, r#""tags":["management"]"#),
    ]);
}

#[test]
fn a_file_with_a_fault_changes_nothing() {
    let mut script = Script::new();
    let (before, version) = (script.export(), script.source.catalog.version());
    for (file, why) in [
        (
            r#"{"vhosts":[{"name":"new"}],"queues":[{"name":"q","vhost":"nowhere"}]}"#,
            ".queues[0].vhost: there is no virtual host 'nowhere'",
        ),
        (
            r#"{"vhosts":[{"name":"new"}],"queues":[{"name":"orders","vhost":"/","durable":false}]}"#,
            "inequivalent arg 'durable' for queue 'orders'",
        ),
        (
            r#"{"vhosts":[{"name":"new"}],"policies":[{"vhost":"new","name":"p","pattern":"(","definition":{"expires":1000}}]}"#,
            ".policies[0].pattern",
        ),
        (
            r#"{"vhosts":[{"name":"new"}],"permissions":[{"user":"none","vhost":"/","configure":"","write":"","read":""}]}"#,
            "no user 'none'",
        ),
        (r#"{"nonsense":[{}]}"#, "there is no such section"),
    ] {
        script.run(&[("guest", "POST", "/api/definitions", file, 400, why)]);
        assert_eq!((script.export(), script.source.catalog.version()), (before.clone(), version), "{file}");
    }
    script.run(&[
        ("monitor", "POST", "/api/definitions", "{}", 401, "Not authorised"),
        ("guest", "POST", "/api/definitions/none", "{}", 404, "Not Found"),
    ]);
}

#[test]
fn a_file_goes_into_one_virtual_host() {
    let mut script = Script::new();
    let (status, file) = script.ask("guest", "GET", "/api/definitions/%2F", b"");
    assert_eq!(status, 200);
    let Json::Object(_) = Json::read(file.as_bytes()).expect("JSON") else { panic!("{file}") };
    script.run(&[
        ("guest", "POST", "/api/definitions/other", &file, 204, ""),
        ("guest", "GET", "/api/policies/other?columns=name", "", 200, r#"[{"name":"short"}]"#),
        ("guest", "GET", "/api/operator-policies/other?columns=name", "", 200, r#"[{"name":"op"}]"#),
        ("guest", "GET", "/api/parameters/federation-upstream/other?columns=name", "", 200, r#"[{"name":"up"}]"#),
        (
            "guest",
            "GET",
            "/api/queues/other?columns=name",
            "",
            200,
            r#"[{"name":"a/b%c"},{"name":"my orders"},{"name":"orders"}]"#,
        ),
    ]);
}

#[test]
fn who_may_come_from_this_machine_only_is_not_in_a_file() {
    let mut script = Script::over(support::source());
    let file = r#"{"users":[{"name":"guest","password_hash":"","tags":"administrator"},{"name":"away","password_hash":"","tags":""}]}"#;
    script.run(&[("guest", "POST", "/api/definitions", file, 204, "")]);
    let is_barred = |name: &str| script.source.catalog.user_by_name(name).expect("it is there").1.loopback_only;
    assert_eq!((is_barred("guest"), is_barred("away")), (true, false));
}
