//! Virtual hosts, users and permissions.

use crate::script::Script;

#[test]
fn virtual_hosts_are_made_described_protected_and_deleted() {
    Script::new().run(&[
        ("guest", "PUT", "/api/vhosts/a%2Fb", "", 201, ""),
        ("guest", "PUT", "/api/vhosts/a%2Fb/", "{}", 204, ""),
        (
            "guest",
            "GET",
            "/api/vhosts/a%2Fb",
            "",
            200,
            r#""name":"a/b","description":"","tags":[],"default_queue_type":"classic""#,
        ),
        // Its creator may do everything in it.
        ("guest", "GET", "/api/permissions/a%2Fb/guest", "", 200, r#""configure":".*","write":".*","read":".*""#),
        // Taken away, they do not come back.
        ("guest", "DELETE", "/api/permissions/a%2Fb/guest", "", 204, ""),
        ("guest", "PUT", "/api/vhosts/a%2Fb", "", 204, ""),
        ("guest", "GET", "/api/permissions/a%2Fb/guest", "", 404, "Not Found"),
    ]);
    let mut script = Script::new();
    script.run(&[
        (
            "guest",
            "PUT",
            "/api/vhosts/%2561",
            r#"{"description":"d","tags":"x, y","tracing":"true","metadata":{"k":1}}"#,
            201,
            "",
        ),
        ("guest", "GET", "/api/vhosts/%2561", "", 200, r#""name":"%61","description":"d","tags":["x","y"]"#),
        (
            "guest",
            "GET",
            "/api/vhosts/%2561",
            "",
            200,
            r#""metadata":{"description":"d","tags":["x","y"],"k":1},"tracing":true"#,
        ),
        ("guest", "PUT", "/api/vhosts/%2561", r#"{"tags":["z"],"default_queue_type":"quorum"}"#, 204, ""),
        (
            "guest",
            "GET",
            "/api/vhosts/%2561",
            "",
            200,
            r#""description":"d","tags":["z"],"default_queue_type":"quorum""#,
        ),
        ("guest", "PUT", "/api/vhosts/%2561", r#"{"tags":[1]}"#, 400, "tags is a list of strings"),
        ("guest", "PUT", "/api/vhosts/%2561", r#"{"metadata":1}"#, 400, "metadata is an object"),
        ("guest", "PUT", "/api/vhosts/%2561", r#"{"tracing":"maybe"}"#, 400, "tracing is true or false"),
        ("guest", "POST", "/api/vhosts/%2561/deletion/protection", "", 204, ""),
        ("guest", "GET", "/api/vhosts/%2561", "", 200, r#""protected_from_deletion":true"#),
        ("guest", "DELETE", "/api/vhosts/%2561", "", 412, "virtual host '%61' is protected from deletion"),
        ("guest", "DELETE", "/api/vhosts/%2561/deletion/protection", "", 204, ""),
        ("guest", "DELETE", "/api/vhosts/%2561", "", 204, ""),
        ("guest", "GET", "/api/vhosts/%2561", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/vhosts/%2561", "", 404, "Not Found"),
        ("guest", "POST", "/api/vhosts/none/deletion/protection", "", 404, "Not Found"),
        // Nothing of it is left for the next one of its name.
        ("guest", "PUT", "/api/vhosts/%2561", "", 201, ""),
        ("guest", "GET", "/api/vhosts/%2561", "", 200, r#""description":"","tags":[],"default_queue_type":"classic""#),
        ("guest", "DELETE", "/api/vhosts/v%201", "", 204, ""),
        ("guest", "GET", "/api/parameters/federation-upstream?columns=vhost", "", 200, r#"[{"vhost":"/"}]"#),
        ("manager", "PUT", "/api/vhosts/new", "", 401, "Not authorised for this resource"),
        ("guest", "PUT", "/api/vhosts/new", "[]", 400, "the body is an object, not a list"),
        // The one in which the user is.
        ("guest", "DELETE", "/api/vhosts/%2F", "", 204, ""),
        ("guest", "GET", "/api/vhosts/%2F", "", 404, "Not Found"),
    ]);
    let long = format!("/api/vhosts/{}", "v".repeat(256));
    script.run(&[("guest", "PUT", &long, "", 400, "name of 256 bytes, 255 are the most")]);
}

#[test]
fn users_have_a_password_a_hash_or_none() {
    let mut script = Script::new();
    let hash = catalog::Password::sha256(b"pw", [1, 2, 3, 4]).written().expect("it is written");
    let hashed =
        format!(r#"{{"password_hash":"{hash}","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["a"]}}"#);
    let shown = format!(r#""password_hash":"{hash}""#);
    script.run(&[
        ("guest", "PUT", "/api/users/u%2Fv", r#"{"password":"pw","tags":"management, policymaker"}"#, 201, ""),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, r#""tags":["management","policymaker"]"#),
        ("guest", "PUT", "/api/users/u%2Fv", &hashed, 204, ""),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, &shown),
        // The same password is not hashed anew.
        ("guest", "PUT", "/api/users/u%2Fv", r#"{"password":"pw","tags":[]}"#, 204, ""),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, &shown),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, r#""tags":[]"#),
        ("guest", "PUT", "/api/users/u%2Fv", r#"{"password_hash":"","tags":"","limits":{"max-connections":3}}"#, 204, ""),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, r#""password_hash":"","hashing_algorithm":"rabbit_password_hashing_sha256","tags":[],"limits":{"max-connections":3}"#),
        ("guest", "PUT", "/api/users/u%2Fv", r#"{"tags":null,"administrator":"true"}"#, 204, ""),
        ("guest", "GET", "/api/users/u%2Fv", "", 200, r#""tags":["administrator"]"#),
        ("guest", "PUT", "/api/users/w", r#"{"password":"pw"}"#, 400, "tags_not_present"),
        ("guest", "PUT", "/api/users/w", "", 400, "tags_not_present"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":1}"#, 400, "tags: a list of strings"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":"","password":1}"#, 400, "password is a string, not a whole number"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":"","password":"a","password_hash":"b"}"#, 400, "both_password_and_password_hash"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":"","password_hash":"b"}"#, 400, "password_hash: neither a PHC string"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":"","password_hash":"b","hashing_algorithm":"md5"}"#, 400, "hashing_algorithm: 'md5' is not known"),
        ("guest", "PUT", "/api/users/w", r#"{"tags":"","limits":{"max":1}}"#, 400, "limits.max: no such limit"),
        ("guest", "GET", "/api/users/w", "", 404, "Not Found"),
        ("monitor", "PUT", "/api/users/w", r#"{"tags":""}"#, 401, "Not authorised"),
        ("guest", "DELETE", "/api/users/u%2Fv", "", 204, ""),
        ("guest", "DELETE", "/api/users/u%2Fv", "", 404, "Not Found"),
        ("guest", "POST", "/api/users/bulk-delete", r#"{"users":["maker","nobody","plain"]}"#, 204, ""),
        ("guest", "GET", "/api/users?columns=name", "", 200, r#"[{"name":"guest"},{"name":"manager"},{"name":"monitor"}]"#),
        ("guest", "POST", "/api/users/bulk-delete", "", 400, "key_missing: users"),
        ("guest", "POST", "/api/users/bulk-delete", r#"{"users":[1]}"#, 400, "users is a list of strings"),
    ]);
    let long = format!(r#"{{"tags":"","password":"{}"}}"#, "p".repeat(4097));
    script.run(&[("guest", "PUT", "/api/users/w", &long, 400, "a password has 4096 bytes at most")]);
}

#[test]
fn a_new_password_lets_the_user_in_and_is_kept_hashed() {
    let mut script = Script::new();
    script.run(&[("guest", "PUT", "/api/users/new", r#"{"password":"pw","tags":"management"}"#, 201, "")]);
    assert!(script.source.catalog.authenticate(b"new", b"pw", false).is_ok());
    assert!(script.source.catalog.authenticate(b"new", b"", false).is_err());
    let (_, user) = script.source.catalog.user_by_name("new").expect("it is there");
    assert!(user.password.secret().is_none(), "the password is kept as it is");
    for body in [r#"{"password":"","tags":""}"#, r#"{"tags":""}"#, r#"{"password_hash":"","tags":""}"#] {
        script.run(&[("guest", "PUT", "/api/users/new", body, 204, "")]);
        assert!(script.source.catalog.authenticate(b"new", b"", false).is_err(), "{body}");
    }
}

#[test]
fn who_may_come_from_this_machine_only_stays_so() {
    let mut script = Script::new();
    let barred = |script: &Script| {
        let (_, user) = script.source.catalog.user_by_name("guest").expect("it is there");
        user.loopback_only
    };
    script.run(&[("guest", "PUT", "/api/users/guest", r#"{"password":"pw","tags":"administrator"}"#, 204, "")]);
    assert!(barred(&script));
    script.run(&[
        ("guest", "PUT", "/api/users/other", r#"{"password":"pw","tags":"administrator"}"#, 201, ""),
        // Also the user who asks goes, as in RabbitMQ.
        ("guest", "DELETE", "/api/users/guest", "", 204, ""),
        ("other", "PUT", "/api/users/guest", r#"{"password":"pw","tags":""}"#, 201, ""),
    ]);
    assert!(barred(&script), "a user of the name is one of those that the configuration lists");
}

#[test]
fn permissions_are_given_and_taken_away() {
    Script::new().run(&[
        ("guest", "PUT", "/api/permissions/other/maker", r#"{"configure":"^a","write":"","read":".*"}"#, 201, ""),
        ("guest", "PUT", "/api/permissions/other/maker", r#"{"configure":"^b","write":"","read":".*"}"#, 204, ""),
        ("guest", "GET", "/api/permissions/other/maker", "", 200, r#""configure":"^b","write":"","read":".*""#),
        ("guest", "PUT", "/api/permissions/other/maker", r#"{"configure":"^b","write":""}"#, 400, "key_missing: read"),
        (
            "guest",
            "PUT",
            "/api/permissions/other/maker",
            r#"{"configure":"(","write":"","read":""}"#,
            400,
            "invalid permission pattern '('",
        ),
        (
            "guest",
            "PUT",
            "/api/permissions/none/maker",
            r#"{"configure":"","write":"","read":""}"#,
            400,
            "vhost_or_user_not_found",
        ),
        (
            "guest",
            "PUT",
            "/api/permissions/other/none",
            r#"{"configure":"","write":"","read":""}"#,
            400,
            "vhost_or_user_not_found",
        ),
        ("maker", "PUT", "/api/permissions/other/maker", "{}", 401, "Not authorised"),
        ("guest", "DELETE", "/api/permissions/other/maker", "", 204, ""),
        ("guest", "DELETE", "/api/permissions/other/maker", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/permissions/none/maker", "", 404, "Not Found"),
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/maker",
            r#"{"exchange":"amq.topic","write":"^a","read":"b"}"#,
            201,
            "",
        ),
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/maker",
            r#"{"exchange":"amq.topic","write":"^c","read":"b"}"#,
            204,
            "",
        ),
        ("guest", "PUT", "/api/topic-permissions/other/maker", r#"{"exchange":"x","write":"^c","read":"b"}"#, 201, ""),
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/maker",
            r#"{"write":"^c","read":"b"}"#,
            400,
            "key_missing: exchange",
        ),
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/maker",
            r#"{"exchange":"x","write":"(","read":"b"}"#,
            400,
            "invalid permission pattern '('",
        ),
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/none",
            r#"{"exchange":"x","write":"","read":""}"#,
            400,
            "vhost_or_user_not_found",
        ),
        (
            "guest",
            "GET",
            "/api/topic-permissions/other/maker?columns=exchange,write",
            "",
            200,
            r#"[{"exchange":"amq.topic","write":"^c"},{"exchange":"x","write":"^c"}]"#,
        ),
        // The exchange of the path is meant, whatever the body names.
        (
            "guest",
            "PUT",
            "/api/topic-permissions/other/maker/x",
            r#"{"exchange":"y","write":"^d","read":"b"}"#,
            204,
            "",
        ),
        (
            "guest",
            "GET",
            "/api/topic-permissions/other/maker/x?columns=exchange,write",
            "",
            200,
            r#"[{"exchange":"x","write":"^d"}]"#,
        ),
        ("guest", "GET", "/api/topic-permissions/other/maker/y", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/topic-permissions/other/maker/x", "", 204, ""),
        ("guest", "DELETE", "/api/topic-permissions/other/maker/x", "", 404, "Not Found"),
        ("guest", "DELETE", "/api/topic-permissions/other/maker", "", 204, ""),
        ("guest", "DELETE", "/api/topic-permissions/other/maker", "", 404, "Not Found"),
    ]);
}
