//! Requests of the program itself: the same answers, the same rights, and limits of their own.

mod support;

use definitions::Json;
use management::DirectRequest;
use management::limits::{DIRECT_PAGE_ROWS_MAX, PAGE_ROWS_MAX};
use support::TestServer;

const BYTES_MAX: usize = 1 << 20;

fn request(user: &str, method: &str, target: &str, body: &str) -> DirectRequest {
    DirectRequest {
        user: user.to_owned(),
        method: method.to_owned(),
        target: target.to_owned(),
        reason: None,
        body: body.as_bytes().to_vec(),
        answer_bytes_max: BYTES_MAX,
    }
}

#[test]
fn the_answers_are_those_of_http() {
    let server = TestServer::usual();
    for (user, target) in [
        ("guest", "/api/overview"),
        ("guest", "/api/queues?columns=name,messages"),
        ("guest", "/api/exchanges"),
        ("monitor", "/api/vhosts"),
        ("manager", "/api/users"),
        ("plain", "/api/whoami"),
        ("guest", "/api/nowhere"),
        ("guest", "/api/queues?page=99"),
    ] {
        let asked = server.requests.ask(request(user, "GET", target, "")).expect("it runs");
        let over_http = server.get(user, target);
        assert_eq!((asked.status, asked.is_json), (over_http.status, true), "{user} {target}");
        assert_eq!(String::from_utf8_lossy(&asked.body), String::from_utf8_lossy(&over_http.body), "{user} {target}");
    }
    let metrics = server.requests.ask(request("guest", "GET", "/metrics", "")).expect("it runs");
    assert!(!metrics.is_json && metrics.body.starts_with(b"# "));
}

#[test]
fn a_change_is_made_with_the_rights_of_its_user() {
    let server = TestServer::usual();
    let ask = |user, method, target, body| server.requests.ask(request(user, method, target, body)).expect("it runs");
    let put = |user| ask(user, "PUT", "/api/users/new", r#"{"password":"x","tags":""}"#).status;
    assert_eq!([put("manager"), put("nobody"), put("guest"), put("guest")], [401, 401, 201, 204]);
    assert_eq!(server.get("guest", "/api/users/new").status, 200);
    let refused = ask("guest", "PUT", "/api/users/other", r#"{"password":"x"}"#);
    assert_eq!((refused.status, &*refused.body), (400, &br#"{"error":"bad_request","reason":"tags_not_present"}"#[..]));
    assert_eq!(ask("guest", "PATCH", "/api/users/new", "").status, 405);
    let gone = ask("guest", "DELETE", "/api/users/new", "");
    assert_eq!((gone.status, &*gone.body, gone.is_json), (204, &b""[..], true));
}

#[test]
fn a_long_list_comes_whole_and_one_that_is_too_long_is_refused() {
    let server = TestServer::usual();
    // More than one piece.
    for number in 0..300 {
        let made = server.requests.ask(request("guest", "PUT", &format!("/api/queues/%2F/many-{number}"), "{}"));
        assert_eq!(made.map(|answer| answer.status), Some(201));
    }
    let list = request("guest", "GET", "/api/queues/%2F?columns=name", "");
    let whole = server.requests.ask(list.clone()).expect("it runs");
    let Json::List(rows) = Json::read(&whole.body).expect("JSON") else { panic!("a list") };
    let many = rows.iter().filter(|row| matches!(row.get("name"), Some(Json::Text(name)) if name.starts_with("many-")));
    assert_eq!(many.count(), 300);
    let exact = DirectRequest { answer_bytes_max: whole.body.len(), ..list.clone() };
    assert_eq!(server.requests.ask(exact).as_ref(), Some(&whole));
    let refused = server.requests.ask(DirectRequest { answer_bytes_max: whole.body.len() - 1, ..list });
    let refused = refused.expect("it runs");
    assert_eq!((refused.status, refused.is_json), (413, true));
    assert!(String::from_utf8_lossy(&refused.body).contains("ask for fewer columns"), "{refused:?}");
}

#[test]
fn pages_are_longer_than_over_http() {
    let server = TestServer::usual();
    let page = |rows| format!("/api/queues?columns=name&page=1&page_size={rows}");
    let ask = |rows| server.requests.ask(request("guest", "GET", &page(rows), "")).expect("it runs").status;
    assert_eq!((ask(DIRECT_PAGE_ROWS_MAX), ask(DIRECT_PAGE_ROWS_MAX + 1)), (200, 400));
    let over_http = |rows| server.get("guest", &page(rows)).status;
    assert_eq!((over_http(PAGE_ROWS_MAX), over_http(DIRECT_PAGE_ROWS_MAX)), (200, 400));
}

#[test]
fn nothing_is_answered_once_the_server_has_stopped() {
    let server = TestServer::usual();
    let requests = server.requests.clone();
    server.stop();
    assert_eq!(requests.ask(request("guest", "GET", "/api/whoami", "")), None);
}
