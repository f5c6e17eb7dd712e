//! Rules of operators: policies, the limits of vhosts and users, and what is wrong with one.
//!
//! Enters: policies as text.  Leaves: what queues and exchanges come under, or refusals.
//! Owns:   the words for what is wrong with a policy.

mod script;
use catalog::{
    ApplyTo, Catalog, CatalogLimits, Definition, DefinitionOutcome, Name, OverflowPolicy, Password, Permission, Policy,
    QueueFeatures, UserLimits, VhostLimits,
};
use script::{RoutingScript, table};
use std::sync::Arc;
use wire::{Table, Value};

fn policy(name: &str, pattern: &str, priority: i64, definition: &str) -> Policy {
    let definition = table(definition.split_whitespace());
    let (name, pattern) = (name.into(), pattern.into());
    Policy { vhost: "/".into(), name, pattern, apply_to: ApplyTo::All, priority, definition }
}

fn set(script: &mut RoutingScript, policies: &[Policy], operator: &[Policy]) -> Result<Vec<String>, String> {
    let definition = Definition::SetPolicies { policies: policies.into(), operator_policies: operator.into() };
    let executed = script.execute(&definition).map_err(|refusal| refusal.text)?;
    assert_eq!(executed.outcome, DefinitionOutcome::Governed);
    let name = |id| script.catalog.queue_definition(id).map(|queue| queue.name.to_string()).unwrap_or_default();
    Ok(executed.queues_changed.into_iter().map(name).collect())
}

fn features(script: &RoutingScript, queue: &str) -> QueueFeatures {
    let id = script.catalog.queue(script.vhost, queue.as_bytes()).expect("a queue");
    script.catalog.queue_definition(id).and_then(|queue| queue.features()).unwrap_or_default()
}

/// The names of the policies that count for a queue.
fn over(script: &RoutingScript, queue: &str) -> [Option<String>; 2] {
    let id = script.catalog.queue(script.vhost, queue.as_bytes()).expect("a queue");
    let effective = script.catalog.queue_definition(id).and_then(|queue| queue.policy.clone());
    let Some(effective) = effective else { return [None, None] };
    [&effective.policy, &effective.operator_policy].map(|name| name.as_ref().map(ToString::to_string))
}

#[test]
fn an_argument_wins_unless_the_number_is_greater() {
    let mut script = RoutingScript::new();
    script.run(
        "queue plain; queue own x-message-ttl=100 x-max-length=5 x-overflow=reject-publish x-dead-letter-exchange=a; \
         queue more x-message-ttl=9000; queue letters x-dead-letter-exchange=b x-dead-letter-routing-key=k",
    );
    let say = "message-ttl=1000 max-length=3 overflow=reject-publish-dlx dead-letter-exchange=x \
               dead-letter-routing-key=y expires=7000 max-length-bytes=10 queue-mode=lazy";
    let changed = set(&mut script, &[policy("p", "", 0, say)], &[]).expect("sound");
    assert_eq!(changed, ["plain", "own", "more", "letters"]);
    let all = QueueFeatures {
        message_ttl_ms: Some(1000),
        expires_ms: Some(7000),
        messages_max: Some(3),
        body_bytes_max: Some(10),
        overflow: OverflowPolicy::RejectToDeadLetters,
        dead_letter_exchange: Some(b"x".as_slice().into()),
        dead_letter_routing_key: Some(b"y".as_slice().into()),
        ..QueueFeatures::default()
    };
    assert_eq!(features(&script, "plain"), all);
    assert_eq!(features(&script, "more"), all);
    let own = QueueFeatures {
        message_ttl_ms: Some(100),
        overflow: OverflowPolicy::Reject,
        dead_letter_exchange: Some(b"a".as_slice().into()),
        ..all.clone()
    };
    assert_eq!(features(&script, "own"), own);
    let letters = features(&script, "letters");
    assert_eq!(letters.dead_letter_routing_key.as_deref(), Some(b"k".as_slice()));
    // Declared again, it is what it was declared to be.
    assert_eq!(
        script.run(
            "queue plain; queue own x-message-ttl=100 x-max-length=5 x-overflow=reject-publish x-dead-letter-exchange=a"
        ),
        ""
    );
    assert_eq!(
        script.run("queue plain x-message-ttl=1000"),
        "406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'plain' in vhost '/': received the \
         value '1000' of type 'signedint' but current is none"
    );
    assert_eq!(set(&mut script, &[policy("p", "", 0, say)], &[]), Ok(vec![]), "the same again changes nothing");
    assert_eq!(set(&mut script, &[], &[]).map(|changed| changed.len()), Ok(4));
    assert_eq!(features(&script, "plain"), QueueFeatures::default());
}

#[test]
fn one_policy_and_one_of_the_operator_count() {
    let mut script = RoutingScript::new();
    script.run("queue orders; queue orders.eu; queue bills; queue amq.gen-x server-named");
    let policies = [
        policy("low", "^orders", 1, "max-length=9 message-ttl=50"),
        policy("high", r"^orders\.", 2, "max-length=8"),
        policy("b", "bills", 3, "max-length=6"),
        policy("a", "bills", 3, "max-length=7"),
    ];
    let operator = [policy("own", "s", 0, "max-length=8 message-ttl=70"), policy("mine", "^amq", -1, "expires=5")];
    set(&mut script, &policies, &operator).expect("sound");
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(over(&script, "orders"), [some("low"), some("own")]);
    assert_eq!(over(&script, "orders.eu"), [some("high"), some("own")]);
    assert_eq!(over(&script, "bills"), [some("a"), some("own")]);
    assert_eq!(over(&script, "amq.gen-x"), [None, some("mine")]);
    let say = |queue| (features(&script, queue).messages_max, features(&script, queue).message_ttl_ms);
    assert_eq!(say("orders"), (Some(8), Some(50)));
    assert_eq!(say("orders.eu"), (Some(8), Some(70)));
    assert_eq!(say("bills"), (Some(7), Some(70)));
    // What is declared later comes under them as well.
    script.run("queue orders.us");
    assert_eq!(over(&script, "orders.us"), [some("high"), some("own")]);
    let queues = [Policy { apply_to: ApplyTo::Exchanges, ..policy("x", "", 9, "alternate-exchange=amq.fanout") }];
    set(&mut script, &queues, &[]).expect("sound");
    assert_eq!(over(&script, "orders"), [None, None]);
}

#[test]
fn what_only_other_types_know_is_for_queues_that_were_declared_as_one() {
    let mut script = RoutingScript::new();
    script.run(
        "queue classic; queue named x-queue-type=classic; queue quorum durable x-queue-type=quorum x-delivery-limit=9",
    );
    let policies = [policy("p", "", 1, "delivery-limit=3 max-length=1"), policy("q", "", 0, "max-length=2")];
    set(&mut script, &policies, &[]).expect("sound");
    let say = |queue| (features(&script, queue).messages_max, features(&script, queue).delivery_limit);
    assert_eq!([say("classic"), say("named"), say("quorum")], [(Some(2), None), (Some(2), None), (Some(1), Some(3))]);
    assert_eq!(policies[0].oddities().len(), 1);
    assert_eq!(policy("p", "", 0, "ha-mode=all").oddities(), ["ha-mode has no effect in this broker"]);
}

#[test]
fn a_policy_may_be_for_queues_of_one_type() {
    let mut script = RoutingScript::new();
    script.run("queue classic; queue quorum durable x-queue-type=quorum; exchange x topic");
    let only = |apply_to: ApplyTo, name: &str| Policy { apply_to, ..policy(name, "", 1, "max-length=5") };
    let policies = [only(ApplyTo::Streams, "a"), only(ApplyTo::ClassicQueues, "b"), only(ApplyTo::QuorumQueues, "c")];
    set(&mut script, &policies, &[only(ApplyTo::Queues, "o")]).expect("sound");
    let some = |name: &str| Some(name.to_owned());
    assert_eq!(over(&script, "classic"), [some("b"), some("o")]);
    assert_eq!(over(&script, "quorum"), [some("c"), some("o")]);
    assert_eq!(ApplyTo::parse("quorum_queues"), Some(ApplyTo::QuorumQueues));
}

#[test]
fn alternates_of_policies_change_routes_at_once() {
    let mut script = RoutingScript::new();
    script.run("queue lost; exchange rest fanout; bind rest '' lost; exchange x topic; exchange own topic alternate-exchange=amq.direct");
    assert_eq!(script.run("route x a; route own a; route amq.topic a; route '' nowhere"), "- | - | - | -");
    let rest = [policy("rest", "^(x|own|later|amq.topic)$", 0, "alternate-exchange=rest")];
    set(&mut script, &rest, &[]).expect("sound");
    assert_eq!(script.run("route x a; route own a; route amq.topic a; route '' nowhere"), "lost | - | lost | -");
    script.run("exchange later topic");
    assert_eq!(script.run("route later a; delete-exchange later; exchange later topic; route later a"), "lost | lost");
    set(&mut script, &[], &[]).expect("sound");
    assert_eq!(script.run("route x a; route later a; route amq.topic a"), "- | - | -");
}

#[test]
fn what_is_wrong_with_a_policy_is_told() {
    let mut script = RoutingScript::new();
    script.run("queue q");
    set(&mut script, &[policy("p", "q", 0, "max-length=1")], &[]).expect("sound");
    let cases = [
        (policy("p", "(", 0, "max-length=1"), false, "pattern: regex parse error"),
        (policy("p", "", 0, ""), false, "definition: it says nothing"),
        (policy("", "", 0, "max-length=1"), false, "name: a policy needs a name"),
        (
            policy("p", "", 0, "max-lenght=1"),
            false,
            "definition.max-lenght: a policy has no such key; there are message-ttl,",
        ),
        (policy("p", "", 0, "max-length=many"), false, "definition.max-length: a whole number is needed, not 'many'"),
        (policy("p", "", 0, "message-ttl=-1"), false, "definition.message-ttl: 0 is the least, not -1"),
        (policy("p", "", 0, "expires=0"), false, "definition.expires: 1 is the least, not 0"),
        (
            policy("p", "", 0, "overflow=drop"),
            false,
            "definition.overflow: it takes drop-head, reject-publish, reject-publish-dlx, not 'drop'",
        ),
        (
            policy("p", "", 0, "dead-letter-exchange=5"),
            false,
            "definition.dead-letter-exchange: a string is needed, not 5",
        ),
        (policy("p", "", 0, "queue-mode=fast"), false, "definition.queue-mode: it takes default, lazy, not 'fast'"),
        (
            policy("p", "", 0, "overflow=drop-head"),
            true,
            "definition.overflow: an operator policy cannot say that; it has message-ttl, expires, max-length, \
             max-length-bytes, delivery-limit",
        ),
    ];
    for (policy, operator, expect) in cases {
        let fault = policy.check(operator).expect_err(expect).to_string();
        assert!(fault.starts_with(expect), "{fault}");
        let (policies, operators) = if operator { (vec![], vec![policy]) } else { (vec![policy], vec![]) };
        let refusal = set(&mut script, &policies, &operators).expect_err("refused");
        assert!(refusal.starts_with("PRECONDITION_FAILED - policy '") && refusal.contains(expect), "{refusal}");
        assert_eq!(features(&script, "q").messages_max, Some(1), "what was in force stays");
    }
    let twice = [policy("p", "", 0, "max-length=1"), policy("p", "", 1, "max-length=2")];
    let refusal = set(&mut script, &twice, &[]).expect_err("refused");
    assert!(refusal.ends_with("name: there are two of the name 'p' in virtual host '/'"), "{refusal}");
    assert!(set(&mut script, &twice[..1], &twice[1..]).is_ok(), "an operator's may be called alike");
    let elsewhere = Policy { vhost: "none".into(), ..policy("p", "", 0, "max-length=1") };
    assert_eq!(set(&mut script, &[elsewhere], &[]), Err("NOT_FOUND - no vhost 'none'".to_owned()));
}

#[test]
fn patterns_that_are_searched_for_are_as_many_as_a_vhost_may_have() {
    let mut script = RoutingScript::new();
    let costly =
        |number: usize| policy(&format!("p{number}"), &format!("[ab]*a[ab]{{{}}}c", 900 + number), 0, "max-length=1");
    let of_tables = (0..100).map(|number| policy(&format!("t{number}"), "^[ab]+c", 1, "max-length=2"));
    let mut policies: Vec<Policy> = of_tables.chain((0..8).map(costly)).collect();
    set(&mut script, &policies, &[]).expect("as many as there may be");
    let refusal = set(&mut script, &policies, &[costly(8)]).expect_err("one more, although it is the operator's");
    assert!(refusal.contains("'p8': pattern: too complex: the policies of virtual host '/' have "), "{refusal}");
    policies.pop();
    set(&mut script, &policies, &[costly(8)]).expect("in the place of another");
}

#[test]
fn a_name_costs_as_much_as_it_is_long_and_patterns_are_complex() {
    let declare = |policies: &[Policy], name: &str| {
        let mut script = RoutingScript::new();
        set(&mut script, policies, &[]).expect("sound");
        script.catalog.take_work();
        script.run(&format!("queue {name}; exchange {name} topic"));
        script.catalog.take_work()
    };
    let (short, long) = ("ab", "ab".repeat(120));
    let costly = [policy("p", "[ab]*a[ab]{200}c", 0, "max-length=1")];
    let simple: Vec<Policy> = (0..8).map(|number| policy(&format!("p{number}"), "^a+c", 0, "max-length=1")).collect();
    let none = declare(&[], &long);
    assert_eq!(declare(&[], short), none);
    // Half a unit for each table, and one for 128 bytes.
    assert_eq!([declare(&simple, short), declare(&simple, &long)].map(|work| work - none), [2 * 5, 2 * 19]);
    let [little, much] = [short, &*long].map(|name| declare(&costly, name) - none);
    assert!(little < 50 && (4_000..4_400).contains(&much), "{little} and {much} units");
}

#[test]
fn a_vhost_has_as_many_queues_as_it_may() {
    let mut script = RoutingScript::new();
    let limit = |script: &mut RoutingScript, queues_max| {
        let limits = VhostLimits { queues_max, ..VhostLimits::default() };
        script.execute(&Definition::SetVhostLimits { vhost: "/".into(), limits }).map(|executed| executed.changed)
    };
    script.run("queue a; queue b");
    assert_eq!(limit(&mut script, Some(2)), Ok(true));
    assert_eq!(limit(&mut script, Some(2)), Ok(false));
    assert_eq!(
        script.run("queue a; queue c; delete-queue b; queue c; queue d"),
        "406 PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (2) is reached | removed b | 406 \
         PRECONDITION_FAILED - cannot declare queue 'd': queue limit in vhost '/' (2) is reached"
    );
    assert_eq!(limit(&mut script, Some(0)), Ok(true));
    assert_eq!(script.run("queue a; queues"), "a c", "what is there stays");
    assert_eq!(limit(&mut script, None), Ok(true));
    assert_eq!(script.run("queue d; queues"), "a c d");
    // The limit is asked about before the permissions of a dead-letter exchange, and after that to configure.
    let put = |name: &str| Definition::PutUser {
        name: name.into(),
        password: Password::Never,
        tags: vec![],
        loopback_only: false,
    };
    let permission = Permission { configure: "^m".into(), write: String::new(), read: String::new() };
    for definition in [put("u"), Definition::SetPermission { user: "u".into(), vhost: "/".into(), permission }] {
        script.execute(&definition).expect("sound");
    }
    let limits = UserLimits { connections_max: Some(3), channels_max: Some(4) };
    script.execute(&Definition::SetUserLimits { user: "u".into(), limits }).expect("sound");
    let user = script.catalog.users().find(|(_, user)| &*user.name == "u").expect("there").0;
    assert_eq!(script.catalog.user_limits(user), limits);
    script.execute(&put("u")).expect("changed");
    assert_eq!(script.catalog.user_limits(user), limits, "a new password is no new limit");
    limit(&mut script, Some(1)).expect("sound");
    let asked = |name: &str| {
        let arguments = table(["x-dead-letter-exchange=x"]);
        let declare = Definition::DeclareQueue {
            vhost: script.vhost,
            name: name.into(),
            server_named: false,
            durable: false,
            exclusive: None,
            auto_delete: false,
            arguments,
            home: catalog::ShardId(0),
        };
        script.catalog.authorize(user, &declare).expect_err("refused").text
    };
    assert!(asked("mine").contains("queue limit in vhost '/' (1) is reached"));
    assert!(asked("other").contains("access to queue 'other' in vhost '/' refused for user 'u'"));
}

#[test]
fn virtual_hosts_that_are_deleted_take_their_policies_with_them() {
    let mut catalog = Catalog::new(CatalogLimits::default());
    let mut bytes = Vec::new();
    for round in 0..40 {
        let name = Name::from(&*format!("v{round}"));
        catalog.execute(&Definition::CreateVhost { name: name.clone() }).expect("a virtual host");
        let definition = Table::new().with("dead-letter-routing-key", Value::text(&"k".repeat(250))).expect("short");
        let policy = |number: usize| Policy {
            vhost: name.clone(),
            name: (&*format!("a-policy-{number}")).into(),
            pattern: ".*".into(),
            apply_to: ApplyTo::All,
            priority: 0,
            definition: definition.clone(),
        };
        let policies: Arc<[Policy]> = (0..20).map(policy).collect();
        let set = Definition::SetPolicies { policies, operator_policies: Arc::from([]) };
        let mut executed = catalog.execute(&set).expect("policies");
        while executed.unfinished {
            executed = catalog.execute(&Definition::Finish).expect("the rest");
        }
        bytes.push(catalog.bytes());
        executed = catalog.execute(&Definition::DeleteVhost { name }).expect("there is one");
        while executed.unfinished {
            executed = catalog.execute(&Definition::Finish).expect("the rest");
        }
        assert!(catalog.bytes() + 5_000 < bytes[round], "20 policies have gone");
    }
    assert!(bytes[39] < bytes[0] + 39 * 1_000, "{} bytes grew to {}", bytes[0], bytes[39]);
}
