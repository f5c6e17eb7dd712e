//! The page, and what was made for it: where a message would go, what was changed lately.

mod support;

use definitions::Json;
use management::limits::ServerLimits;
use management::{ApiOptions, percent};
use support::{TestServer, source};

fn texts(answer: &Json, key: &str) -> Vec<String> {
    let Some(Json::List(items)) = answer.get(key) else { panic!("{key} is a list of {answer:?}") };
    let text = |item: &Json| match item {
        Json::Text(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    items.iter().map(text).collect()
}

#[test]
fn the_page_is_there_without_a_login_and_may_load_its_own_files_alone() {
    let server = TestServer::usual();
    let mut client = server.connect();
    for (path, content_type) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/app.js", "text/javascript; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let answer = client.request("GET", path, &[], b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(content_type)), "{path}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"));
    }
    for path in ["/page/none.js", "/page/..%2Fsrc%2Flib.rs", "/page/index.html", "/page"] {
        assert_eq!(client.request("GET", path, &[], b"").status, 404, "{path}");
    }
    assert_eq!(client.request("PUT", "/page/app.js", &[], b"").status, 405);
}

#[test]
fn behind_a_prefix_the_page_is_there() {
    let options = ApiOptions { path_prefix: "/broker".to_owned(), ..ApiOptions::default() };
    let server = TestServer::start(options, ServerLimits::default(), source);
    let mut client = server.connect();
    for path in ["/broker", "/broker/"] {
        let answer = client.request("GET", path, &[], b"");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && text.contains(r#"<base href="/broker/">"#), "{path}");
    }
    assert_eq!(client.request("GET", "/broker/page/app.js", &[], b"").status, 200);
    assert_eq!(client.request("GET", "/", &[], b"").status, 404);
}

#[test]
fn a_message_that_nobody_publishes_is_routed() {
    let server = TestServer::usual();
    let route = |user: &str, path: &str, query: &str| server.get(user, &format!("/api/exchanges/{path}/route?{query}"));
    let found = |path: &str, query: &str| texts(&route("guest", path, query).json(), "queues");
    let nowhere: Vec<String> = Vec::new();
    assert_eq!(found("%2F/x", "routing_key=a.%2523%23~"), ["orders"]);
    assert_eq!(found("%2F/x", "routing_key="), ["orders"], "two bindings lead there");
    assert_eq!(found("%2F/x", "routing_key=b"), nowhere);
    assert_eq!(found("%2F/amq.fanout", ""), ["orders"], "it goes on to another exchange");
    assert_eq!(found("%2F/amq.fanout", "routing_key=b"), nowhere);
    assert_eq!(found("%2F/amq.default", "routing_key=my+orders"), ["my orders"]);
    let binding = r#"{"routing_key":"","arguments":{"x-match":"all","side":"buy","lots":3}}"#;
    let made = server.connect().request(
        "POST",
        "/api/bindings/%2F/e/amq.headers/q/orders",
        &[&support::basic("guest")],
        binding.as_bytes(),
    );
    assert_eq!(made.status, 201);
    let headers = |text: &str| format!("headers={}", percent::encode(text.as_bytes()));
    assert_eq!(found("%2F/amq.headers", &headers(r#"{"side":"buy","lots":3,"x":null}"#)), ["orders"]);
    assert_eq!(found("%2F/amq.headers", &headers(r#"{"side":"buy","lots":4}"#)), nowhere);
    assert_eq!(route("guest", "%2F/amq.headers", "headers=%5B").status, 400);
    assert_eq!(route("guest", "%2F/amq.headers", "headers=1").status, 400);
    assert_eq!(route("guest", "%2F/x", &format!("routing_key={}", "k".repeat(256))).status, 400);
    assert_eq!(route("guest", "%2F/none", "").status, 404);
    assert_eq!(route("manager", "%2F/x", "").status, 401, "it has no permission there");
}

#[test]
fn administrators_see_who_changed_what() {
    let server = TestServer::usual();
    let mut client = server.connect();
    let guest = support::basic("guest");
    assert_eq!(client.request("PUT", "/api/vhosts/new", &[&guest], b"").status, 201);
    assert_eq!(client.request("DELETE", "/api/queues/%2F/none", &[&guest], b"").status, 404);
    let log = server.get("guest", "/api/audit").json();
    let Some(Json::List(events)) = log.get("events") else { panic!("{log:?}") };
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            let text = |key: &str| event.get(key).cloned().unwrap_or(Json::Null).line();
            (text("user"), text("action"), text("names"), text("status"))
        })
        .collect();
    let line = |action: &str, names: &str, status: &str| {
        let quoted = |text: &str| Json::text(text).line();
        (quoted("guest"), quoted(action), quoted(names), status.to_owned())
    };
    assert_eq!(
        told,
        [
            line("DELETE /api/queues/{vhost}/{name}", r#"vhost="/" name="none""#, "404"),
            line("PUT /api/vhosts/{vhost}", r#"vhost="new""#, "201"),
        ]
    );
    assert_eq!(server.get("monitor", "/api/audit").status, 401);
}
