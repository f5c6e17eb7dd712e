//! Who may log in and who may do what.
//!
//! Enters: users and permissions.  Leaves: ids and refusals.
//! Owns:   the promises about both.

mod script;

use catalog::{
    Catalog, CatalogLimits, Definition, DefinitionOutcome, LoginRefused, Name, Password, Permission, PermissionKind,
    RefusalScope, Resource, TopicPermission, UserId, VhostId, default_definitions,
};

fn default_catalog() -> Catalog {
    let mut catalog = Catalog::new(CatalogLimits::default());
    for definition in default_definitions() {
        catalog.execute(&definition).expect("the defaults are valid");
    }
    catalog
}

fn put(catalog: &mut Catalog, name: &str, password: Password) -> UserId {
    let definition = Definition::PutUser { name: name.into(), password, tags: Vec::new(), loopback_only: false };
    match catalog.execute(&definition).map(|executed| executed.outcome) {
        Ok(DefinitionOutcome::User { id }) => id,
        other => panic!("{other:?}"),
    }
}

fn permit(catalog: &mut Catalog, user: &str, configure: &str, write: &str, read: &str) {
    let permission = Permission { configure: configure.into(), write: write.into(), read: read.into() };
    let definition = Definition::SetPermission { user: user.into(), vhost: "/".into(), permission };
    catalog.execute(&definition).expect("a permission");
}

fn vhost(catalog: &Catalog) -> VhostId {
    catalog.vhost_by_name("/").expect("the default vhost")
}

#[test]
fn what_is_put_again_as_it_is_changes_nothing() {
    let mut catalog = default_catalog();
    let user = |password: &str, tag: &str, loopback_only| Definition::PutUser {
        name: "u".into(),
        password: Password::Plain(password.as_bytes().into()),
        tags: vec![tag.into()],
        loopback_only,
    };
    let permission = |read: &str| Definition::SetPermission {
        user: "u".into(),
        vhost: "/".into(),
        permission: Permission { configure: "".into(), write: "".into(), read: read.into() },
    };
    let topics = |exchange: &str, read: &str| Definition::SetTopicPermission {
        user: "u".into(),
        vhost: "/".into(),
        exchange: exchange.into(),
        permission: TopicPermission { write: "".into(), read: read.into() },
    };
    for definition in [
        user("a", "x", false),
        user("b", "x", false),
        user("b", "y", false),
        user("b", "y", true),
        permission("a"),
        permission("b"),
        topics("e", "a"),
        topics("e", "b"),
        topics("f", "b"),
    ] {
        assert!(catalog.execute(&definition).expect("valid").changed, "{definition:?}");
        let version = catalog.version();
        assert!(!catalog.execute(&definition).expect("valid").changed, "{definition:?} again");
        assert_eq!(catalog.version(), version);
    }
}

#[test]
fn guests_come_from_loopback() {
    let catalog = default_catalog();
    let id = catalog.authenticate(b"guest", b"guest", true).expect("from loopback");
    assert_eq!(catalog.user_name(id), "guest");
    assert_eq!(catalog.authenticate(b"guest", b"guest", false), Err(LoginRefused::OnlyFromLoopback));
    // A wrong password is wrong from anywhere.
    assert_eq!(catalog.authenticate(b"guest", b"guess", false), Err(LoginRefused::InvalidCredentials));
    assert_eq!(catalog.authenticate_external(b"guest", true), Ok(id));
    assert_eq!(catalog.authenticate_external(b"guest", false), Err(LoginRefused::OnlyFromLoopback));
}

#[test]
fn passwords() {
    let mut catalog = default_catalog();
    let wrong = Err(LoginRefused::InvalidCredentials);
    put(&mut catalog, "u", Password::plain("secret"));
    put(&mut catalog, "n", Password::Never);
    put(&mut catalog, "e", Password::plain(""));
    for password in ["", "s", "secre", "Secret", "secret1", "secretsecret"] {
        assert_eq!(catalog.authenticate(b"u", password.as_bytes(), true), wrong, "{password}");
    }
    assert!(catalog.authenticate(b"u", b"secret", false).is_ok());
    assert_eq!(catalog.authenticate(b"u", &vec![b's'; 1 << 20], true), wrong);
    assert_eq!(catalog.authenticate(b"nobody", b"", true), wrong);
    assert_eq!(catalog.authenticate(b"\xff", b"", true), wrong);
    assert_eq!(catalog.authenticate(b"n", b"", true), wrong);
    assert!(catalog.authenticate_external(b"n", false).is_ok());
    assert!(catalog.authenticate(b"e", b"", true).is_ok());
    assert_eq!(catalog.authenticate(b"e", b"x", true), wrong);
    assert!(!format!("{:?}", Password::plain("secret")).contains("secret"));
    let refusal = LoginRefused::OnlyFromLoopback.refusal("PLAIN");
    assert_eq!((refusal.code.number(), refusal.scope), (403, RefusalScope::Connection));
    assert_eq!(refusal, LoginRefused::InvalidCredentials.refusal("PLAIN"), "a client learns no reason");
}

#[test]
fn vhosts_open_to_those_with_a_permission() {
    let mut catalog = default_catalog();
    let guest = catalog.authenticate(b"guest", b"guest", true).expect("guest");
    let user = put(&mut catalog, "u", Password::plain("p"));
    let text = |result: Result<VhostId, catalog::Refusal>| result.map_err(|refusal| (refusal.scope, refusal.text));
    assert_eq!(catalog.open_vhost(guest, b"/"), Ok(vhost(&catalog)));
    let refused = "NOT_ALLOWED - access to vhost '/' refused for user 'u'";
    assert_eq!(text(catalog.open_vhost(user, b"/")), Err((RefusalScope::Connection, refused.into())));
    assert_eq!(
        text(catalog.open_vhost(user, b"v")),
        Err((RefusalScope::Connection, "NOT_ALLOWED - vhost v not found".into()))
    );
    permit(&mut catalog, "u", "", "", "");
    assert!(catalog.open_vhost(user, b"/").is_ok());
    let clear = Definition::ClearPermission { user: "u".into(), vhost: "/".into() };
    assert!(catalog.execute(&clear).expect("cleared").changed);
    assert!(catalog.open_vhost(user, b"/").is_err());
}

#[test]
fn operations_ask_patterns() {
    let mut catalog = default_catalog();
    let vhost = vhost(&catalog);
    let user = put(&mut catalog, "u", Password::plain("p"));
    let check = |catalog: &mut Catalog, operation, name: &str| {
        catalog.check(user, vhost, operation, Resource::Exchange, name.as_bytes()).is_ok()
    };
    assert!(!check(&mut catalog, PermissionKind::Read, "x"), "without a permission nothing is permitted");
    permit(&mut catalog, "u", "^u-", "default|x", ".*");
    for _ in 0..2 {
        // The second time from memory.
        assert!(check(&mut catalog, PermissionKind::Configure, "u-1"));
        assert!(!check(&mut catalog, PermissionKind::Configure, "not-u-1"));
        assert!(check(&mut catalog, PermissionKind::Write, "axb"), "a pattern is looked for anywhere");
        assert!(check(&mut catalog, PermissionKind::Write, ""), "the default exchange is amq.default");
        assert!(check(&mut catalog, PermissionKind::Read, "\u{fffd}"));
    }
    let refusal =
        catalog.check(user, vhost, PermissionKind::Configure, Resource::Queue, b"q").expect_err("not permitted");
    assert_eq!(refusal.text, "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'");
    assert_eq!((refusal.code.number(), refusal.scope), (403, RefusalScope::Channel));
    // What was remembered goes with the permission.
    permit(&mut catalog, "u", "", "^$", "^x$");
    assert!(!check(&mut catalog, PermissionKind::Configure, "u-1"));
    assert!(!check(&mut catalog, PermissionKind::Write, "axb"));
    assert!(!check(&mut catalog, PermissionKind::Read, "xx"));
    catalog.execute(&Definition::DeleteUser { name: "u".into() }).expect("deleted");
    assert!(!check(&mut catalog, PermissionKind::Read, "x"));
}

#[test]
fn patterns_are_bounded() {
    let mut catalog = default_catalog();
    put(&mut catalog, "u", Password::plain("p"));
    for pattern in ["(", "a{1000}{1000}{1000}", &"a".repeat(5000)] {
        let permission = Permission { configure: pattern.into(), ..Permission::all() };
        let definition = Definition::SetPermission { user: "u".into(), vhost: "/".into(), permission };
        let refusal = catalog.execute(&definition).expect_err("no pattern to keep");
        assert!(refusal.text.starts_with("PRECONDITION_FAILED - invalid permission pattern"), "{refusal}");
    }
}

#[test]
fn a_vhost_goes_with_everything_in_it() {
    let mut catalog = default_catalog();
    let before = (catalog.queues_count(), catalog.exchanges_count(), catalog.bindings_count());
    let create = Definition::CreateVhost { name: "v".into() };
    let DefinitionOutcome::Vhost { id, created: true } = catalog.execute(&create).expect("created").outcome else {
        panic!()
    };
    assert!(!catalog.execute(&create).expect("there already").changed);
    let queue = Name::from("q");
    let declare = Definition::DeclareQueue {
        vhost: id,
        name: queue.clone(),
        server_named: false,
        durable: false,
        exclusive: None,
        auto_delete: false,
        arguments: wire::Table::new(),
        home: catalog::ShardId(3),
    };
    catalog.execute(&declare).expect("a queue");
    for (exchange, key) in [("amq.topic", "a.#"), ("amq.direct", "a"), ("amq.fanout", ""), ("amq.headers", "")] {
        let bind = Definition::BindQueue {
            vhost: id,
            exchange: exchange.into(),
            queue: queue.clone(),
            routing_key: key.as_bytes().into(),
            arguments: wire::Table::new(),
            session: None,
        };
        catalog.execute(&bind).expect("a binding");
    }
    let permission =
        Definition::SetPermission { user: "guest".into(), vhost: "v".into(), permission: Permission::all() };
    catalog.execute(&permission).expect("permitted");
    let gone = catalog.execute(&Definition::DeleteVhost { name: "v".into() }).expect("deleted");
    assert_eq!(gone.queues_removed.iter().map(|queue| queue.home.0).collect::<Vec<_>>(), [3]);
    assert_eq!((catalog.queues_count(), catalog.exchanges_count(), catalog.bindings_count()), before);
    assert!(catalog.exchange(id, b"amq.topic").is_none() && catalog.exchange(id, b"").is_none());
    assert_eq!(catalog.vhost_name(id), "");
    // A session that still has it open is refused rather than believed.
    let refusal = catalog.execute(&declare).expect_err("no vhost to declare in");
    assert_eq!(refusal.scope, RefusalScope::Connection);
    let DefinitionOutcome::Vhost { id: next, .. } = catalog.execute(&create).expect("created").outcome else {
        panic!()
    };
    assert_ne!(id, next, "an id is never reused");
}

/// What a user hears who may configure `u-…` and write `u-…` and `x…`, each as RabbitMQ 3.10.8 answers it.
#[test]
fn definitions_are_authorized_in_the_order_of_rabbitmq() {
    let mut script = script::RoutingScript::new();
    let user = put(&mut script.catalog, "u", Password::plain("p"));
    permit(&mut script.catalog, "u", "^u-", "^(u-|x)", "");
    script.run("queue u-q; exchange u-old direct alternate-exchange=zz");
    let default = "operation not permitted on the default exchange";
    let refused = |what: &str| format!("access to {what} in vhost '/' refused for user 'u'");
    for (command, expected) in [
        ("queue q", refused("queue 'q'")),
        ("queue u-new", String::new()),
        ("queue u-new x-dead-letter-exchange=zz", refused("queue 'u-new'")),
        ("queue u-q x-dead-letter-exchange=zz", String::new()),
        ("queue amq.foo", "queue name 'amq.foo' contains reserved prefix 'amq.*'".into()),
        ("queue amq.gen-1 server-named", refused("queue 'amq.gen-1'")),
        ("delete-queue q", refused("queue 'q'")),
        ("exchange x direct", refused("exchange 'x'")),
        ("exchange '' direct", default.into()),
        ("exchange amq.foo direct", refused("exchange 'amq.foo'")),
        ("exchange u-x direct alternate-exchange=zz", refused("exchange 'u-x'")),
        ("exchange u-old direct alternate-exchange=zz", String::new()),
        ("delete-exchange x", refused("exchange 'x'")),
        ("delete-exchange ''", default.into()),
        ("delete-exchange amq.direct", "deletion of system exchange 'amq.direct' in vhost '/' not allowed".into()),
        ("bind '' a u-q", default.into()),
        ("bind '' a q", refused("queue 'q'")),
        ("bind amq.direct a u-q", refused("exchange 'amq.direct'")),
        ("unbind amq.direct a u-q", refused("exchange 'amq.direct'")),
        ("bind-exchange amq.direct a u-x", refused("exchange 'amq.direct'")),
        ("bind-exchange u-x a ''", refused("exchange 'amq.default'")),
        ("bind-exchange '' a u-x", default.into()),
        ("gone 1", String::new()),
    ] {
        let definition = script.definition(&command.split_whitespace().collect::<Vec<_>>()).expect("a definition");
        let text = script.catalog.authorize(user, &definition).err().map(|refusal| refusal.text).unwrap_or_default();
        let expected = if expected.is_empty() { expected } else { format!("ACCESS_REFUSED - {expected}") };
        assert_eq!(text, expected, "{command}");
    }
}

#[test]
fn topic_permissions_cover_the_keys_of_topic_exchanges() {
    use catalog::{
        Catalog, CatalogLimits, Definition, DefinitionOutcome, Name, Password, Permission, PermissionKind,
        TopicPermission,
    };
    let mut catalog = Catalog::new(CatalogLimits::default());
    let (vhost, user) = (Name::from("/"), Name::from("ann"));
    let topics = |exchange: &str, write: &str, read: &str| Definition::SetTopicPermission {
        user: Name::from("ann"),
        vhost: Name::from("/"),
        exchange: Name::from(exchange),
        permission: TopicPermission { write: write.into(), read: read.into() },
    };
    for definition in [
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser { name: user.clone(), password: Password::Never, tags: vec![], loopback_only: false },
        Definition::SetPermission { user: user.clone(), vhost: vhost.clone(), permission: Permission::all() },
    ] {
        catalog.execute(&definition).expect("sound");
    }
    assert!(!catalog.restricts_topics());
    for definition in [topics("amq.topic", "^{username}\\.", "^b\\."), topics("amq.direct", "", "")] {
        assert_eq!(catalog.execute(&definition).expect("sound").outcome, DefinitionOutcome::Permitted);
    }
    let ann = catalog.authenticate_external(b"ann", true).expect("she is there");
    let id = catalog.open_vhost(ann, b"/").expect("hers");
    let cases = [
        ("amq.topic", PermissionKind::Write, "ann.x", true),
        ("amq.topic", PermissionKind::Write, "bob.x", false),
        ("amq.topic", PermissionKind::Read, "b.x", true),
        ("amq.topic", PermissionKind::Read, "ann.x", false),
        // Only topic exchanges have topics, and an exchange without a permission has them all.
        ("amq.direct", PermissionKind::Write, "x", true),
        ("amq.fanout", PermissionKind::Write, "x", true),
    ];
    for (exchange, operation, key, may) in cases {
        let on = catalog.exchange(id, exchange.as_bytes()).expect("predeclared");
        let outcome = catalog.check_topic(ann, on, operation, key.as_bytes());
        assert_eq!(outcome.is_ok(), may, "{exchange} {operation:?} {key}");
        if let Err(refusal) = outcome {
            let expect = format!(
                "ACCESS_REFUSED - access to topic '{key}' in exchange '{exchange}' in vhost '/' refused for user 'ann'"
            );
            assert_eq!((refusal.text, refusal.scope), (expect, catalog::RefusalScope::Channel));
        }
    }
    // RabbitMQ looks at the topic before it looks whether the queue is there.
    let bind = |key: &str| Definition::BindQueue {
        vhost: id,
        exchange: Name::from("amq.topic"),
        queue: Name::from("nothing"),
        routing_key: key.as_bytes().into(),
        arguments: wire::Table::default(),
        session: None,
    };
    assert!(catalog.authorize(ann, &bind("b.x")).is_ok());
    assert!(catalog.authorize(ann, &bind("c.x")).expect_err("not hers").text.contains("access to topic 'c.x'"));
    assert!(catalog.execute(&topics("amq.topic", "(", "")).is_err());
    let clear = Definition::ClearTopicPermission { user, vhost, exchange: Name::from("amq.topic") };
    assert!(catalog.execute(&clear).expect("sound").changed);
    assert!(catalog.authorize(ann, &bind("c.x")).is_ok());
}
