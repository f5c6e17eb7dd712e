//! Where messages go: each exchange type, exchanges bound to exchanges, alternates, and what goes with what.
//!
//! Enters: scripts.  Leaves: the queues that each routed message reached.
//! Owns:   the promises of routing that can be said in a line.

mod script;
use script::{RoutingScript, check};

#[test]
fn the_default_exchange_routes_by_queue_name() {
    check(
        "queue q1; route '' q1; route '' q2; queue q2; route '' q2; delete-queue q2; route '' q2",
        "q1 | - | q2 | removed q2 | -",
    );
}

#[test]
fn direct_asks_for_the_whole_key() {
    check(
        "exchange x direct; queue q1; queue q2; bind x a q1; bind x a q2; bind x b q2; bind x '' q1;
         route x a; route x b; route x ''; route x c; unbind x a q2; route x a",
        "q1 q2 | q2 | q1 | - | q1",
    );
}

#[test]
fn fanout_asks_for_nothing() {
    check(
        "exchange x fanout; route x a; queue q1; queue q2; bind x a q1; bind x b q2; bind x c q2; route x z;
         unbind x b q2; route x z; unbind x c q2; route x z",
        "- | q1 q2 | q1 q2 | q1",
    );
}

#[test]
fn topic_words() {
    check(
        "queue q1; bind amq.topic a.*.c q1; route amq.topic a.b.c; route amq.topic a.c; route amq.topic a.b.b.c",
        "q1 | - | -",
    );
    check(
        "queue q1; bind amq.topic a.#.c q1; route amq.topic a.b.c; route amq.topic a.c; route amq.topic a.b.b.c",
        "q1 | q1 | q1",
    );
    check("queue q1; bind amq.topic # q1; route amq.topic ''; route amq.topic a; route amq.topic a..b", "q1 | q1 | q1");
    check("queue q1; bind amq.topic * q1; route amq.topic ''; route amq.topic a; route amq.topic a.b", "- | q1 | -");
    check("queue q1; bind amq.topic '' q1; route amq.topic ''; route amq.topic a; route amq.topic .", "q1 | - | -");
    check("queue q1; bind amq.topic *.* q1; route amq.topic .; route amq.topic a.; route amq.topic a", "q1 | q1 | -");
    check("queue q1; bind amq.topic a. q1; route amq.topic a.; route amq.topic a; route amq.topic a.b", "q1 | - | -");
    check("queue q1; bind amq.topic #.# q1; route amq.topic ''; route amq.topic a.b.c", "q1 | q1");
    check(
        "queue q1; bind amq.topic a.#.#.b q1; route amq.topic a.b; route amq.topic a.x.y.b; route amq.topic a.b.x",
        "q1 | q1 | -",
    );
    check("queue q1; bind amq.topic a*.b q1; route amq.topic a*.b; route amq.topic ax.b", "q1 | -");
}

#[test]
fn wild_words_in_a_routing_key_are_plain_words() {
    check(
        "queue q1; queue q2; queue q3; bind amq.topic a.b q1; bind amq.topic a.* q2; bind amq.topic a.# q3;
         route amq.topic a.*; route amq.topic a.#; route amq.topic #",
        "q2 q3 | q2 q3 | -",
    );
}

#[test]
fn topic_patterns_that_share_a_beginning() {
    check(
        "queue q1; queue q2; queue q3; queue q4; bind amq.topic a.b.c.d q1; bind amq.topic a.b q2; bind amq.topic a.b.c.e q3;
         bind amq.topic a.#.e q4; route amq.topic a.b.c.d; route amq.topic a.b; route amq.topic a.b.c.e; route amq.topic a.b.c;
         unbind amq.topic a.b.c.d q1; route amq.topic a.b.c.d; route amq.topic a.b.c.e; delete-queue q4; route amq.topic a.b.c.e",
        "q1 | q2 | q3 q4 | - | - | q3 q4 | removed q4 | q3",
    );
}

#[test]
fn a_topic_queue_bound_by_several_matching_patterns_gets_one_message() {
    check("queue q1; bind amq.topic a.* q1; bind amq.topic a.# q1; bind amq.topic #.b q1; route amq.topic a.b", "q1");
}

#[test]
fn headers_all_and_any() {
    check(
        "queue q1; queue q2; bind amq.headers '' q1 a=1 b=2; bind amq.match '' q2 x-match=any a=1 b=2;
         route amq.headers k a=1 b=2; route amq.headers k a=1; route amq.match k a=1; route amq.match k c=1; route amq.headers k",
        "q1 | - | q2 | - | -",
    );
    check("queue q1; bind amq.headers '' q1; route amq.headers k; route amq.headers k a=1", "q1 | q1");
    check("queue q1; bind amq.headers '' q1 x-match=any; route amq.headers k a=1", "-");
}

#[test]
fn headers_that_begin_with_x_count_only_when_asked() {
    check(
        "queue q1; queue q2; queue q3; queue q4;
         bind amq.headers '' q1 x-match=all x-a=1; bind amq.headers '' q2 x-match=all-with-x x-a=1;
         bind amq.headers '' q3 x-match=any x-a=1; bind amq.headers '' q4 x-match=any-with-x x-a=1;
         route amq.headers k x-a=1; route amq.headers k",
        "q1 q2 q4 | q1",
    );
}

#[test]
fn header_values_compare_by_what_they_mean() {
    check(
        "queue q1; bind amq.headers '' q1 a=1; route amq.headers k a=i64:1; route amq.headers k a=i16:1;
         route amq.headers k a=f64:1; route amq.headers k a=s:1; route amq.headers k a=true; route amq.headers k a=2;
         route amq.headers k a=void; queue q2; bind amq.headers '' q2 a=void; route amq.headers k a=true; route amq.headers k b=1",
        "q1 | q1 | q1 | - | - | - | - | q2 | -",
    );
    check(
        "queue q1; bind amq.headers '' q1 a=f32:0.5; route amq.headers k a=f64:0.5; route amq.headers k a=f64:0.25",
        "q1 | -",
    );
}

#[test]
fn exchanges_bound_to_exchanges() {
    check(
        "exchange x topic; exchange y fanout; queue q1; queue q2; bind-exchange x a.# y; bind y '' q1; bind x a.b q1; bind x a.b q2;
         route x a.b; route x a.c; route x b; unbind-exchange x a.# y; route x a.c",
        "q1 q2 | q1 | - | -",
    );
}

#[test]
fn a_change_behind_a_binding_is_seen_through_it() {
    check(
        "exchange x topic; exchange y topic; queue q1; queue q2; bind-exchange x # y; bind y a q1; route x a; route x a;
         bind y a q2; route x a; delete-queue q1; route x a; delete-exchange y; route x a",
        "q1 | q1 | q1 q2 | removed q1 | q2 | -",
    );
}

#[test]
fn circles_deliver_once_and_end() {
    check(
        "exchange x fanout; exchange y fanout; queue q1; queue q2; bind-exchange x '' y; bind-exchange y '' x; bind-exchange x '' x;
         bind x '' q1; bind y '' q2; bind y '' q1; route x k; route y k",
        "q1 q2 | q1 q2",
    );
}

#[test]
fn the_alternate_exchange_takes_what_finds_no_place() {
    check(
        "exchange x direct alternate-exchange=y; queue q1; queue q2; bind x a q1; route x a; route x b; exchange y fanout;
         route x b; bind y '' q2; route x b; route x a; delete-exchange y; route x b",
        "q1 | - | - | q2 | q1 | -",
    );
    // Every exchange that a message comes by has its own alternate.
    check(
        "exchange x fanout; exchange y direct alternate-exchange=z; exchange z fanout; queue q1; bind-exchange x '' y; bind z '' q1; route x k",
        "q1",
    );
    // The default exchange takes nothing as an alternate, as in RabbitMQ.
    check("exchange x direct alternate-exchange=s:; queue q1; route x q1", "-");
    // Two that are each other's alternate end all the same.
    check("exchange x direct alternate-exchange=y; exchange y direct alternate-exchange=x; route x k", "-");
}

#[test]
fn headers_behind_a_topic_make_its_routes_depend_on_the_message() {
    check(
        "exchange x topic; queue q1; bind-exchange x a.# amq.headers; bind amq.headers '' q1 h=1;
         route x a.b h=1; route x a.b h=2; route x a.b h=1",
        "q1 | - | q1",
    );
}

#[test]
fn auto_delete_exchanges_go_with_their_last_binding() {
    check(
        "exchange x direct auto-delete; queue q1; bind x a q1; bind x b q1; unbind x a q1; exchanges; unbind x b q1; exchanges",
        "x | ",
    );
    check("exchange x direct auto-delete; queue q1; bind x a q1; delete-queue q1; exchanges", "removed q1 | ");
    // Never bound, it stays; as a mere destination, too.
    check(
        "exchange x direct auto-delete; exchange y fanout; bind-exchange y '' x; unbind-exchange y '' x; exchanges",
        "x y",
    );
    // The end of one is the end of the next.
    check(
        "exchange x fanout auto-delete; exchange y fanout auto-delete; exchange z fanout auto-delete; exchange k fanout; queue q1;
         bind-exchange x '' y; bind-exchange y '' z; bind-exchange k '' x; bind z '' q1; delete-queue q1; exchanges",
        "removed q1 | k",
    );
    check("exchange x fanout auto-delete; bind-exchange x '' x; delete-exchange x; exchanges", "");
    check("exchange x fanout auto-delete; bind-exchange x '' x; unbind-exchange x '' x; exchanges", "");
}

#[test]
fn queues_take_their_bindings_with_them() {
    check(
        "exchange x direct; queue q1; bind x a q1; bind amq.topic a q1; bindings x; delete-queue q1; bindings x; queue q1; route x a;
         bindings amq.topic",
        "a>q1 | removed q1 |  | - | ",
    );
}

#[test]
fn a_binding_is_what_it_says() {
    // Arguments in another order are the same, other arguments are not.
    check(
        "queue q1; bind amq.headers '' q1 a=1 b=2; bind amq.headers '' q1 b=2 a=1; bindings amq.headers;
         bind amq.headers '' q1 a=1; bindings amq.headers; unbind amq.headers '' q1 b=2 a=1; bindings amq.headers",
        ">q1 | >q1 >q1 | >q1",
    );
}

#[test]
fn exclusive_queues_go_with_their_session() {
    check(
        "queue q1 session=1; queue q2 session=2; queue q3; queue q4 session=1; gone 1; queues; gone 1; gone 3; queues",
        "removed q1 q4 | q2 q3 | q2 q3",
    );
}

#[test]
fn a_full_route_cache_still_routes_right() {
    let mut script =
        RoutingScript::with(catalog::CatalogLimits { cached_routes_max: 8, ..catalog::CatalogLimits::default() });
    script.run("queue q1; queue q2; bind amq.topic a.# q1; bind amq.topic *.1 q2");
    for round in 0..3 {
        for number in 0..100 {
            let expected = if number == 1 { "q1 q2" } else { "q1" };
            assert_eq!(script.run(&format!("route amq.topic a.{number}")), expected, "round {round}");
        }
    }
    script.run("unbind amq.topic a.# q1");
    assert_eq!(script.run("route amq.topic a.1; route amq.topic a.2"), "q2 | -");
}
