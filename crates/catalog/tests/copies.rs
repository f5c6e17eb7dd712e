//! Copies of a catalog that are made in pieces.
//!
//! Enters: definitions of every kind, some of them gone again.  Leaves: a copy that goes on as the catalog does.
//! Owns:   the promise that replicas outside of the shards give the same ids.

mod script;

use catalog::{
    CatalogCopy, Definition, DefinitionOutcome, ExchangeId, Name, Password, Permission, QueueId, TopicPermission,
};
use script::RoutingScript;

/// So many that tables have several segments.
const STEPS: u32 = 6_000;

const EXCHANGES: [(&str, &str); 6] = [
    ("direct", "direct"),
    ("all", "fanout"),
    ("topic", "topic"),
    ("headers", "headers"),
    ("hash", "x-consistent-hash"),
    ("late", "x-delayed-message x-delayed-type=s:topic"),
];

/// Numbers that are the same for each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

/// A command: mostly something is added.
fn command(numbers: &mut Numbers) -> String {
    let (exchange, _) = EXCHANGES[numbers.below(6) as usize];
    let queue = numbers.below(1_500);
    let words = ["a", "b", "*", "#", "long-word"];
    let mut word = || words[numbers.below(5) as usize];
    let pattern = format!("{}.{}.{}", word(), word(), word());
    let (key, arguments) = match exchange {
        "hash" => (format!("{}", 1 + numbers.below(40)), String::new()),
        "headers" => (String::from("''"), format!("x-match=s:any h{}={}", numbers.below(30), numbers.below(5))),
        _ => (format!("{pattern}.{}", numbers.below(300)), String::new()),
    };
    match numbers.below(20) {
        0..4 => format!("queue q{queue} x-max-length={}", numbers.below(9)),
        4 => format!("queue own{queue} session={}", numbers.below(50)),
        5 => format!("gone {}", numbers.below(50)),
        6 => format!("delete-queue q{queue}"),
        7 => format!("unbind {exchange} {key} q{queue} {arguments}"),
        8 => format!("exchange x{} topic alternate-exchange=s:all", numbers.below(90)),
        9 => format!("bind-exchange topic {pattern} x{}", numbers.below(90)),
        10 if numbers.below(10) == 0 => format!("delete-exchange x{}", numbers.below(90)),
        _ => format!("bind {exchange} {key} q{queue} {arguments}"),
    }
}

fn operators(script: &mut RoutingScript) {
    let vhost: Name = "/".into();
    let pattern = |text: &str| String::from(text);
    for number in 0..20 {
        let name = Name::from(&*format!("user-{number}"));
        let password = Password::plain(&format!("secret-{number}"));
        let definitions = [
            Definition::PutUser {
                name: name.clone(),
                password,
                tags: vec!["policymaker".into()],
                loopback_only: false,
            },
            Definition::SetPermission { user: name.clone(), vhost: vhost.clone(), permission: Permission::all() },
            Definition::SetTopicPermission {
                user: name.clone(),
                vhost: vhost.clone(),
                exchange: "topic".into(),
                permission: TopicPermission { write: pattern("^a"), read: pattern(".*") },
            },
        ];
        for definition in &definitions {
            script.execute(definition).expect("an operator's");
        }
        if number % 3 == 0 {
            script.execute(&Definition::DeleteUser { name }).expect("an operator's");
        }
    }
    for name in ["v1", "v2", "v3"] {
        script.execute(&Definition::CreateVhost { name: name.into() }).expect("an operator's");
    }
    script.execute(&Definition::DeleteVhost { name: "v2".into() }).expect("an operator's");
}

fn finish(script: &mut RoutingScript) {
    while script.catalog.has_unfinished() {
        script.execute(&Definition::Finish).expect("the rest");
    }
}

fn ids(script: &RoutingScript) -> (Vec<QueueId>, Vec<ExchangeId>, Vec<String>) {
    let catalog = &script.catalog;
    let users = catalog.users().map(|(id, user)| format!("{id:?} {} {:?}", user.name, user.permissions().count()));
    let vhosts = catalog.vhosts().map(|(id, name)| format!("{id:?} {name:?}"));
    (
        catalog.queues().map(|(id, _)| id).collect(),
        catalog.exchanges().map(|(id, _)| id).collect(),
        users.chain(vhosts).collect(),
    )
}

/// What a message finds, and which bindings there are.
fn questions(script: &mut RoutingScript, numbers: &mut Numbers) -> String {
    let keys = ["a.b.long-word", "a.b.a", "b"];
    let mut answers = String::new();
    for (exchange, _) in EXCHANGES {
        for key in keys {
            let key = format!("{key}.{}", numbers.below(300));
            answers += &script.run(&format!("route {exchange} {key} h{}={}", numbers.below(30), numbers.below(5)));
            answers += "\n";
        }
        answers += &script.run(&format!("bindings {exchange}"));
    }
    answers
}

#[test]
fn a_copy_that_is_made_in_pieces_goes_on_as_the_catalog_does() {
    let mut script = RoutingScript::new();
    let mut numbers = Numbers(7);
    for (name, kind) in EXCHANGES {
        assert_eq!(script.run(&format!("exchange {name} {kind}")), "");
    }
    operators(&mut script);
    for _ in 0..STEPS {
        script.run(&command(&mut numbers));
        finish(&mut script);
    }
    let topic = Name::from("topic");
    let watch = script.catalog.watch_bindings(script.vhost, &topic);
    let mut copies = Vec::new();
    for (bytes, pieces_min) in [(1, 1_000), (64 << 10, 6), (usize::MAX, 1)] {
        let mut copy = CatalogCopy::new(&script.catalog);
        let mut pieces = 1;
        while !copy.proceed(&script.catalog, bytes) {
            pieces += 1;
            // Messages and federation go on meanwhile.
            if pieces % 100 == 1 {
                script.run(&format!("route topic a.b.{}", numbers.below(300)));
                let name = Name::from(&*format!("x{}", numbers.below(90)));
                script.catalog.watch_bindings(script.vhost, &name);
            }
        }
        assert!(pieces >= pieces_min, "{pieces} pieces of {bytes} bytes");
        copies.push(RoutingScript { catalog: copy.into_catalog(), vhost: script.vhost });
    }
    let before = ids(&script);
    assert!(before.0.len() > 500 && before.1.len() > 60 && before.2.len() > 10, "{} queues", before.0.len());
    for copy in &mut copies {
        assert_eq!(ids(copy), before);
        assert_eq!(copy.catalog.version(), script.catalog.version());
    }
    // The same definitions have the same outcomes, with the same ids, although the copies know nothing of earlier messages.
    for round in 0..300 {
        let commands: Vec<String> = (0..5).map(|_| command(&mut numbers)).collect();
        let expected: Vec<String> = commands.iter().map(|command| script.run(command)).collect();
        finish(&mut script);
        let asked = numbers.0;
        let answers = (round % 20 == 0).then(|| questions(&mut script, &mut Numbers(asked)));
        for copy in &mut copies {
            for (command, expected) in commands.iter().zip(&expected) {
                assert_eq!(&copy.run(command), expected, "{command}");
            }
            finish(copy);
            assert_eq!(answers, answers.as_ref().map(|_| questions(copy, &mut Numbers(asked))));
        }
    }
    let after = ids(&script);
    assert!(copies.iter().all(|copy| ids(copy) == after && !copy.catalog.has_binding_changes()));
    assert!(script.catalog.has_binding_changes(), "only the catalog was watched");
    script.catalog.unwatch_bindings(watch);
}

#[test]
fn nothing_is_copied_while_definitions_are_unfinished() {
    let mut script = RoutingScript::new();
    script.run("queue q");
    let copy = CatalogCopy::new(&script.catalog);
    script.run("queue r");
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut copy = copy;
        copy.proceed(&script.catalog, usize::MAX)
    }));
    assert!(changed.is_err(), "the catalog has changed");
    let outcome = script.execute(&Definition::CreateVhost { name: "v".into() }).expect("new").outcome;
    assert!(matches!(outcome, DefinitionOutcome::Vhost { created: true, .. }));
}
