//! What a federation plan accepts, what it refuses, and what of it survives a restart.

use federation::limits::{CREDIT_DEFAULT, HOPS_DEFAULT, LINKS_MAX, ROUTES_MAX};
use federation::{
    AckMode, FederationCommand, FederationPlan, LinkKey, LinkSpec, PlanError, RouteDirection, RouteKind, RouteSpec,
};

fn key(peer: &str) -> LinkKey {
    LinkKey::of_operator("/".into(), peer.into())
}

fn link(peer: &str) -> LinkSpec {
    LinkSpec {
        key: key(peer),
        url: format!("amqp://a:b@{peer}").into(),
        user: "guest".into(),
        durable: false,
        options: Default::default(),
    }
}

fn route(kind: RouteKind) -> RouteSpec {
    RouteSpec {
        exchange: "amq.topic".into(),
        kind,
        direction: RouteDirection::Pull,
        ack: AckMode::Confirm,
        credit: CREDIT_DEFAULT,
        hops_max: HOPS_DEFAULT,
        durable: false,
        forced: false,
        dead_letter_exchange: None,
        options: Default::default(),
    }
}

fn with_key(key: &str) -> RouteSpec {
    route(RouteKind::Static { key: key.into() })
}

/// The commands of a change, in short form.
fn outcome(commands: Result<Vec<FederationCommand>, PlanError>) -> String {
    let one = |order: &FederationCommand| match order {
        FederationCommand::AddLink(link) => format!("+{}", link.key.peer),
        FederationCommand::ChangeLink(link) => format!("~{} {}", link.key.peer, link.url),
        FederationCommand::RestartLink(key) => format!("!{}", key.peer),
        FederationCommand::RemoveLink(key) => format!("-{}", key.peer),
        FederationCommand::AddRoute(key, route) => format!("+{} {}", key.peer, route.title()),
        FederationCommand::ReturnRoute(key, route) => format!("~{} {}", key.peer, route.title()),
        FederationCommand::ChangeRoute(key, route) => format!("~{} {}", key.peer, route.title()),
        FederationCommand::RemoveRoute(key, route) => format!("-{} {}", key.peer, route.title()),
    };
    match commands {
        Ok(commands) => commands.iter().map(one).collect::<Vec<_>>().join("; "),
        Err(why) => format!("{}: {why}", why.code()),
    }
}

#[test]
fn changes_become_commands_or_are_refused_with_a_reason() {
    let mut plan = FederationPlan::default();
    let own = ["here:1".into()];
    assert_eq!(
        outcome(plan.add_link(link("here:1"), &own)),
        "to-itself: here:1 is this broker: it cannot be linked to itself"
    );
    assert_eq!(
        outcome(plan.add_route(&key("a:1"), with_key("k"))),
        "no-link: there is no link to a:1 in virtual host '/'"
    );
    assert_eq!(outcome(plan.add_link(link("a:1"), &own)), "+a:1");
    assert_eq!(outcome(plan.add_link(link("a:1"), &own)), "", "it is there");
    assert_eq!(outcome(plan.add_route(&key("a:1"), with_key("k"))), "+a:1 amq.topic(k)");
    assert_eq!(
        outcome(plan.add_route(&key("a:1"), with_key("k"))),
        "duplicate-route: duplicate route: the link to a:1 has amq.topic(k) already"
    );
    let pushed = RouteSpec { direction: RouteDirection::Push, ..with_key("k") };
    assert_eq!(
        outcome(plan.add_route(&key("a:1"), pushed)),
        "+a:1 amq.topic(k, pushed)",
        "the other direction is another route"
    );
    let dynamic = route(RouteKind::Dynamic);
    let pushed = RouteSpec { direction: RouteDirection::Push, ..dynamic.clone() };
    assert!(outcome(plan.add_route(&key("a:1"), pushed)).starts_with("not-permitted: a dynamic route is pulled"));
    assert_eq!(outcome(plan.add_route(&key("a:1"), dynamic.clone())), "+a:1 amq.topic(<dynamic>)");
    let queue = route(RouteKind::Queue { queue: "q".into() });
    assert_eq!(
        outcome(plan.remove_route(&key("a:1"), &queue, false)),
        "no-route: the link to a:1 has no route amq.topic(queue q)"
    );
    // Another login: the link reconnects.
    let other = LinkSpec { url: "amqp://c:d@a:1".into(), ..link("a:1") };
    assert_eq!(outcome(plan.add_link(other.clone(), &own)), "~a:1 amqp://c:d@a:1");
    assert_eq!(outcome(plan.add_link(other, &own)), "", "it has it");
    assert_eq!(outcome(plan.remove_route(&key("a:1"), &dynamic, true)), "-a:1 amq.topic(<dynamic>)");
    assert_eq!(outcome(plan.remove_route(&key("a:1"), &with_key("k"), false)), "-a:1 amq.topic(k)");
    let pushed = RouteSpec { direction: RouteDirection::Push, ..with_key("k") };
    assert_eq!(outcome(plan.remove_route(&key("a:1"), &pushed, true)), "-a:1 amq.topic(k, pushed); -a:1");
    assert_eq!(outcome(plan.remove_link(&key("a:1"))), "no-link: there is no link to a:1 in virtual host '/'");
}

#[test]
fn durable_routes_survive_with_their_links() {
    let mut plan = FederationPlan::default();
    for peer in ["a:1", "b:1", "c:1"] {
        plan.add_link(LinkSpec { durable: peer == "c:1", ..link(peer) }, &[]).expect("added");
    }
    plan.add_route(&key("a:1"), RouteSpec { durable: true, ..with_key("kept") }).expect("added");
    plan.add_route(&key("a:1"), with_key("lost")).expect("added");
    plan.add_route(&key("b:1"), with_key("lost")).expect("added");
    let kept = plan.durable();
    assert_eq!(outcome(Ok(kept.commands())), "+a:1; +a:1 amq.topic(kept); +c:1");
    assert_eq!(kept.durable(), kept);
    // A durable link that is added again stays durable.
    plan.add_link(link("c:1"), &[]).expect("it is there");
    assert_eq!(plan.durable(), kept);
}

#[test]
fn links_and_routes_have_limits() {
    let mut plan = FederationPlan::default();
    for at in 0..LINKS_MAX {
        plan.add_link(link(&format!("h{at}:1")), &[]).expect("below the limit");
    }
    assert_eq!(
        outcome(plan.add_link(link("more:1"), &[])),
        format!("too-many: there are {LINKS_MAX} links, and cannot be more")
    );
    for at in 0..ROUTES_MAX {
        plan.add_route(&key("h0:1"), with_key(&at.to_string())).expect("below the limit");
    }
    assert!(
        outcome(plan.add_route(&key("h0:1"), with_key("more")))
            .starts_with("too-many: the link to h0:1 has 255 routes")
    );
    plan.add_route(&key("h1:1"), with_key("more")).expect("another link has none");
}
