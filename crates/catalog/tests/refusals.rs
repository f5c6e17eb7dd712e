//! Refusals: code, scope and text, as RabbitMQ 3.10 gives them.
//!
//! Enters: scripts.  Leaves: the refusals in them.
//! Owns:   the wording that clients may look at.

mod script;
use script::{RoutingScript, check};

#[test]
fn what_is_not_there() {
    check("use q 1", "404 NOT_FOUND - no queue 'q' in vhost '/'");
    check("passive x", "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    check("bind x a q", "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    check("bind amq.direct a q", "404 NOT_FOUND - no queue 'q' in vhost '/'");
    check("bind-exchange amq.direct a x", "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    // Removing what is not there succeeds.
    check("unbind x a q; unbind amq.direct a q; unbind-exchange x a y; delete-queue q; delete-exchange x; gone 7", "");
}

#[test]
fn reserved_names() {
    check("exchange amq.x direct", "403 ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'");
    check("queue amq.q", "403 ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'");
    check(
        "queue amq.gen-1 server-named; queues; queue amq.gen-1",
        "amq.gen-1 | 403 ACCESS_REFUSED - queue name 'amq.gen-1' contains reserved prefix 'amq.*'",
    );
    // One that is there may be declared as it is.
    check("exchange amq.direct direct durable", "");
    check(
        "delete-exchange amq.direct",
        "403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    );
}

#[test]
fn the_default_exchange_is_left_alone() {
    let refused = "403 ACCESS_REFUSED - operation not permitted on the default exchange";
    for command in [
        "exchange '' direct",
        "passive ''",
        "delete-exchange ''",
        "queue q; bind '' a q",
        "queue q; unbind '' a q",
        "bind-exchange amq.direct a ''",
    ] {
        check(command, refused);
    }
}

#[test]
fn internal_exchanges() {
    check(
        "exchange x fanout internal; publish x",
        "403 ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'",
    );
    check(
        "publish amq.rabbitmq.trace",
        "403 ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
    );
    check("publish ''; publish amq.topic", "");
}

#[test]
fn unknown_types_end_the_connection() {
    check("exchange x nonsense", "connection 503 COMMAND_INVALID - unknown exchange type 'nonsense'");
    check("exchange x ''", "connection 503 COMMAND_INVALID - invalid exchange type ''");
}

#[test]
fn exchanges_declared_again() {
    let again = |second: &str, expected: &str| {
        check(&format!("exchange x topic alternate-exchange=y; exchange x {second}"), expected)
    };
    again("topic alternate-exchange=y", "");
    again("topic alternate-exchange=y other=1", "");
    let text = "406 PRECONDITION_FAILED - inequivalent arg";
    again("direct", &format!("{text} 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'topic'"));
    again(
        "topic durable",
        &format!("{text} 'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
    );
    again(
        "topic auto-delete",
        &format!("{text} 'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
    );
    again(
        "topic internal",
        &format!("{text} 'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
    );
    again(
        "topic",
        &format!(
            "{text} 'alternate-exchange' for exchange 'x' in vhost '/': received none but current is the value 'y' of type 'longstr'"
        ),
    );
    again(
        "topic alternate-exchange=z",
        &format!("{text} 'alternate-exchange' for exchange 'x' in vhost '/': received 'z' but current is 'y'"),
    );
}

#[test]
fn queues_declared_again() {
    let again = |second: &str, expected: &str| check(&format!("queue q x-message-ttl=100; queue q {second}"), expected);
    again("x-message-ttl=100", "");
    again("x-message-ttl=i64:100 other=1", "");
    again("x-message-ttl=100 x-queue-type=classic", "");
    let text = "406 PRECONDITION_FAILED - inequivalent arg";
    again(
        "durable x-message-ttl=100",
        &format!("{text} 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
    );
    again(
        "auto-delete x-message-ttl=100",
        &format!("{text} 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
    );
    again(
        "x-message-ttl=200",
        &format!("{text} 'x-message-ttl' for queue 'q' in vhost '/': received '200' but current is '100'"),
    );
    again(
        "",
        &format!(
            "{text} 'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value '100' of type 'signedint'"
        ),
    );
    again(
        "x-message-ttl=100 x-max-length=i64:5",
        &format!(
            "{text} 'x-max-length' for queue 'q' in vhost '/': received the value '5' of type 'long' but current is none"
        ),
    );
    again(
        "x-message-ttl=void",
        &format!("{text} 'x-message-ttl' for queue 'q' in vhost '/': received none but current is '100'"),
    );
    again(
        "x-message-ttl=f64:100",
        &format!("{text} 'x-message-ttl' for queue 'q' in vhost '/': received '100.0' but current is '100'"),
    );
    again("x-message-ttl=i16:100", "");
    check("queue q durable session=1; queue q session=1; queue q durable session=1", "");
}

#[test]
fn quorum_queues_are_durable_and_shared_and_have_arguments_of_their_own() {
    let declared = "queue q durable x-queue-type=quorum";
    let refused = |flags: &str, text: &str| {
        check(&format!("queue q x-queue-type=quorum {flags}"), &format!("406 PRECONDITION_FAILED - {text}"));
    };
    let property = |flags: &str, property: &str| {
        refused(flags, &format!("invalid property '{property}' for queue 'q' in vhost '/'"));
    };
    property("", "non-durable");
    property("durable auto-delete", "auto-delete");
    property("durable session=1", "exclusive-owner");
    property("auto-delete session=1", "auto-delete");
    check(
        "queue amq.gen-x server-named durable x-queue-type=quorum",
        "406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
    );
    for argument in ["x-max-priority=5", "x-queue-mode=lazy", "x-queue-version=2", "x-max-age=1h"] {
        let name = argument.split('=').next().expect("name=value");
        refused(
            &format!("durable {argument}"),
            &format!("invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"),
        );
    }
    for (argument, why) in [
        ("x-quorum-initial-group-size=0", "{value_zero,0}"),
        ("x-quorum-initial-group-size=-1", "{value_negative,-1}"),
        ("x-delivery-limit=a", "\"expected integer, got longstr\""),
        ("x-dead-letter-strategy=never", "invalid_dlx_strategy"),
        ("x-queue-leader-locator=here", "invalid_queue_locator_arg"),
        ("x-max-in-memory-length=-1", "{value_negative,-1}"),
    ] {
        let name = argument.split('=').next().expect("name=value");
        refused(&format!("durable {argument}"), &format!("invalid arg '{name}' for queue 'q' in vhost '/': {why}"));
    }
    let all = "x-delivery-limit=5 x-quorum-initial-group-size=3 x-dead-letter-strategy=at-least-once
         x-max-in-memory-length=1 x-max-in-memory-bytes=1 x-queue-leader-locator=balanced x-max-length=9
         x-overflow=reject-publish x-single-active-consumer=true x-expires=1000 x-message-ttl=5";
    check(&format!("{declared} {all}; {declared} {all}"), "");
    let text = "406 PRECONDITION_FAILED - inequivalent arg";
    check(
        &format!("{declared}; queue q durable"),
        &format!(
            "{text} 'x-queue-type' for queue 'q' in vhost '/': received none but current is the value 'quorum' of type 'longstr'"
        ),
    );
    check(
        &format!("queue q durable; {declared}"),
        &format!(
            "{text} 'x-queue-type' for queue 'q' in vhost '/': received the value 'quorum' of type 'longstr' but current is none"
        ),
    );
    check(
        &format!("{declared} x-quorum-initial-group-size=3; {declared} x-quorum-initial-group-size=5"),
        &format!("{text} 'x-quorum-initial-group-size' for queue 'q' in vhost '/': received '5' but current is '3'"),
    );
    check(
        &format!("{declared}; {declared} x-delivery-limit=5"),
        &format!(
            "{text} 'x-delivery-limit' for queue 'q' in vhost '/': received the value '5' of type 'signedint' but current is none"
        ),
    );
}

#[test]
fn locked_queues() {
    let text = "405 RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.";
    for command in
        ["use q 2", "queue q session=2", "queue q", "bind amq.direct a q session=2", "delete-queue q session=2"]
    {
        check(&format!("queue q session=1; {command}"), text);
    }
    check("queue q session=1; bind amq.direct a q session=1; unbind amq.direct a q session=2", text);
    check("queue q; queue q session=1", text);
    // Its owner may use it, and an operator may delete it.
    check("queue q session=1; use q 1; bind amq.direct a q session=1; delete-queue q", "removed q");
}

#[test]
fn exchanges_in_use() {
    check(
        "exchange x direct; queue q; bind x a q; delete-exchange x if-unused; delete-queue q; delete-exchange x if-unused; exchanges",
        "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use | removed q | ",
    );
    // To be bound to something is no use.
    check("exchange x direct; bind-exchange amq.fanout '' x; delete-exchange x if-unused; exchanges", "");
}

#[test]
fn arguments_of_the_wrong_type() {
    check(
        "exchange x direct alternate-exchange=1",
        "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    );
    check(
        "queue q x-dead-letter-exchange=1",
        "406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
    );
    let invalid = |argument: &str, why: &str| {
        let name = argument.split('=').next().expect("name=value");
        check(
            &format!("queue q {argument}"),
            &format!("406 PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': {why}"),
        );
    };
    invalid("x-message-ttl=abc", "\"expected integer, got longstr\"");
    invalid("x-message-ttl=-1", "{value_negative,-1}");
    invalid("x-message-ttl=i64:315360000001", "{value_too_large,315360000001}");
    invalid("x-expires=0", "{value_zero,0}");
    invalid("x-max-length=-5", "{value_negative,-5}");
    invalid("x-max-priority=256", "{max_value_exceeded,256}");
    invalid("x-overflow=nonsense", "invalid_overflow");
    invalid("x-overflow=1", "{unacceptable_type,signedint}");
    invalid("x-queue-mode=nonsense", "\"unsupported queue mode 'nonsense'\"");
    invalid("x-queue-version=3", "\"unsupported queue version '3'\"");
    invalid("x-single-active-consumer=1", "{unacceptable_type,signedint}");
    invalid("x-dead-letter-routing-key=k", "routing_key_but_no_dlx_defined");
    for argument in ["x-delivery-limit", "x-max-in-memory-length", "x-queue-leader-locator"] {
        check(
            &format!("queue q {argument}=1"),
            &format!(
                "406 PRECONDITION_FAILED - invalid arg '{argument}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
            ),
        );
    }
    invalid(
        "x-queue-type=stream",
        "\"unsupported queue type 'stream': declare a quorum queue, or set queue_types_as_classic\"",
    );
    check(
        "queue q x-max-age=1h",
        "406 PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_classic_queue",
    );
    check(
        "queue q x-message-ttl=i64:315360000000 x-expires=1 x-max-length=i64:0 x-max-priority=255 x-overflow=drop-head x-queue-mode=lazy x-queue-version=2
         x-single-active-consumer=true x-dead-letter-exchange=dlx x-dead-letter-routing-key=k x-queue-type=classic x-anything=1",
        "",
    );
}

#[test]
fn x_match_must_be_one_of_four() {
    check(
        "queue q; bind amq.headers '' q x-match=s:",
        "406 PRECONDITION_FAILED - Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x",
    );
    check(
        "queue q; bind amq.headers '' q x-match=some",
        "406 PRECONDITION_FAILED - Invalid x-match field value <<\"some\">>; expected all, any, all-with-x, or any-with-x",
    );
    check(
        "queue q; bind amq.headers '' q x-match=1",
        "406 PRECONDITION_FAILED - Invalid x-match field type signedint (value 1); expected longstr",
    );
    check(
        "queue q; bind amq.headers '' q x-match=void",
        "406 PRECONDITION_FAILED - Invalid x-match field type void (value undefined); expected longstr",
    );
    // Elsewhere it means nothing.
    check("queue q; bind amq.direct '' q x-match=1", "");
}

#[test]
fn limits() {
    let limits = catalog::CatalogLimits {
        queues_max: 1,
        bindings_max: 1,
        exchanges_max: 8,
        vhosts_max: 1,
        ..catalog::CatalogLimits::default()
    };
    assert_eq!(
        RoutingScript::with(limits).run(
            "queue q; queue q; queue r; bind amq.direct a q; bind amq.direct a q; bind amq.direct b q; exchange x direct; exchange x direct; exchange y direct"
        ),
        "406 PRECONDITION_FAILED - cannot declare queue 'r' in vhost '/': queue limit of 1 is reached \
         | 406 PRECONDITION_FAILED - cannot bind to exchange 'amq.direct' in vhost '/': binding limit of 1 is reached \
         | 406 PRECONDITION_FAILED - cannot declare exchange 'y' in vhost '/': exchange limit of 8 is reached"
    );
}

#[test]
fn definitions_have_a_share_of_memory_and_what_is_there_is_no_more() {
    let mut script = RoutingScript::new();
    script.run("exchange x direct; queue q; queue r; bind x a q");
    let (replicas, queue_bytes) = (2, 500);
    let share = |bytes_max| catalog::limits::DefinitionShare { bytes_max, replicas, queue_bytes };
    script.catalog.set_definition_share(share(0));
    let bytes = script.catalog.shared_definition_bytes();
    script.catalog.set_definition_share(share(bytes));
    let again = "exchange x direct; queue q; bind x a q";
    assert_eq!(script.run(again), "");
    let took = format!("definitions take {bytes} bytes, and their share of the memory limit is {bytes}");
    assert_eq!(
        script.run("exchange y direct; queue s; bind x b q; bind-exchange amq.direct c x"),
        format!(
            "connection 506 RESOURCE_ERROR - cannot declare exchange 'y' in vhost '/': {took} \
             | connection 506 RESOURCE_ERROR - cannot declare queue 's' in vhost '/': {took} \
             | connection 506 RESOURCE_ERROR - cannot bind to exchange 'x' in vhost '/': {took} \
             | connection 506 RESOURCE_ERROR - cannot bind to exchange 'amq.direct' in vhost '/': {took}"
        )
    );
    script.catalog.set_definition_share(share(bytes + 1));
    assert_eq!(script.run("queue s; delete-queue s; delete-queue r"), "removed s | removed r");
    assert!(script.catalog.shared_definition_bytes() < bytes + 1);
    assert_eq!(script.run("queue s"), "", "what was deleted leaves room");
}
