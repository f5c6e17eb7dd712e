//! Sessions of browsers over real sockets: a cookie instead of credentials, for as long as its user is the same.

mod support;

use definitions::Json;
use management::ApiOptions;
use management::limits::ServerLimits;
use support::{HttpAnswer, TestServer, basic, source};

const PAGE: &str = "X-Requested-With: harrier-page";

fn log_in(server: &TestServer, user: &str, password: &str) -> HttpAnswer {
    let body = format!("username={user}&password={password}");
    server.connect().request("POST", "/api/login", &[PAGE], body.as_bytes())
}

/// The header that a browser sends after it was told to keep a cookie.
fn cookie(answer: &HttpAnswer) -> String {
    let set = answer.header("set-cookie").unwrap_or_else(|| panic!("no cookie is set: {answer:?}"));
    format!("Cookie: a=b; {}", set.split(';').next().expect("it has a first part"))
}

#[test]
fn a_cookie_stands_for_the_user_until_it_logs_out() {
    let server = TestServer::usual();
    let answer = log_in(&server, "monitor", "monitor");
    assert_eq!((answer.status, &*answer.text()), (200, r#"{"name":"monitor","tags":["monitoring"]}"#));
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(set.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{set}");
    let cookie = cookie(&answer);
    let ask = |method: &str, target: &str, headers: &[&str]| {
        let headers: Vec<&str> = headers.iter().copied().chain([&*cookie]).collect();
        server.connect().request(method, target, &headers, b"")
    };
    assert_eq!(ask("GET", "/api/whoami", &[]).text(), r#"{"name":"monitor","tags":["monitoring"]}"#);
    assert_eq!((ask("GET", "/api/nodes", &[]).status, ask("GET", "/api/users", &[]).status), (200, 401));
    // The cookie's user asks, whatever credentials the browser remembers.
    assert_eq!(ask("GET", "/api/users", &[&basic("guest")]).status, 401);
    let end = ask("DELETE", "/api/login", &[PAGE]);
    assert_eq!((end.status, end.body.len()), (204, 0));
    assert!(
        end.header("set-cookie")
            .is_some_and(|set| set.starts_with("harrier_session=; ") && set.contains("; Max-Age=0"))
    );
    let after = ask("GET", "/api/whoami", &[]);
    assert_eq!((after.status, after.header("www-authenticate")), (401, None));
    assert_eq!(ask("GET", "/api/whoami", &[&basic("guest")]).status, 200, "an old cookie is no hindrance");
    assert_eq!(server.connect().request("DELETE", "/api/login", &[], b"").status, 204, "there is nothing to end");
}

#[test]
fn nobody_is_let_in_while_it_is_not_known_how_the_user_logs_in_now() {
    let server = TestServer::start(ApiOptions::default(), ServerLimits::default(), || {
        let mut source = source();
        source.unknown_users.push("monitor".to_owned());
        source
    });
    let answers = [server.get("monitor", "/api/whoami"), log_in(&server, "monitor", "monitor")];
    for answer in answers {
        let reason = answer.json().get("reason").map(Json::line).unwrap_or_default();
        assert!(answer.status == 503 && reason.contains("takes too long"), "{} {reason}", answer.status);
    }
    assert_eq!(server.get("manager", "/api/whoami").status, 200);
}

#[test]
fn who_is_refused_by_password_gets_no_session_and_no_question_of_the_browser() {
    let server = TestServer::usual();
    for (user, password, status, reason) in [
        ("monitor", "wrong", 401, "Login failed"),
        ("nobody", "monitor", 401, "Login failed"),
        ("plain", "plain", 401, "Not management user"),
    ] {
        let answer = log_in(&server, user, password);
        assert_eq!((answer.status, answer.json().get("reason")), (status, Some(&Json::text(reason))), "{user}");
        assert_eq!((answer.header("www-authenticate"), answer.header("set-cookie")), (None, None));
    }
    let ask = |headers: &[&str]| server.connect().request("GET", "/api/whoami", headers, b"");
    for (headers, is_asked) in [(&[][..], true), (&[PAGE], false), (&["Cookie: harrier_session=x"], false)] {
        let answer = ask(headers);
        assert_eq!((answer.status, answer.header("www-authenticate").is_some()), (401, is_asked), "{headers:?}");
    }
    for (body, status) in
        [("username=monitor", 400), ("{", 400), (r#"{"username":"monitor","password":"monitor"}"#, 200)]
    {
        assert_eq!(server.connect().request("POST", "/api/login", &[], body.as_bytes()).status, status, "{body}");
    }
    let long = vec![b'x'; 40_000];
    assert_eq!(server.connect().request("POST", "/api/login", &[], &long).status, 413);
    // Each password that was offered is counted, whichever way it came.
    let attempts = server.get("monitor", "/api/auth/attempts/rabbit@localhost").text();
    let counted = r#"[{"protocol":"http","auth_attempts":5,"auth_attempts_failed":2,"auth_attempts_succeeded":3}]"#;
    assert_eq!(attempts, counted);
}

#[test]
fn guesses_by_the_form_are_held_back_as_those_by_credentials_are() {
    let server = TestServer::usual();
    for _ in 0..=management::limits::LOGIN_FAILURES_FREE {
        assert_eq!(log_in(&server, "monitor", "wrong").status, 401);
    }
    let mut clients: Vec<_> = (0..management::limits::SUSPECT_CONNECTIONS_MAX).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.request("GET", "/api/auth", &[], b"").status == 200));
    assert_eq!(server.connect().answer("GET").status, 503, "the address has a part of the places");
}

#[test]
fn a_change_with_a_cookie_comes_from_the_page_itself() {
    let server = TestServer::usual();
    let cookie = cookie(&log_in(&server, "guest", "guest"));
    for (headers, status) in [
        (&[][..], 403),
        (&["Origin: http://evil.example"], 403),
        (&["Origin: null", PAGE], 403),
        (&["Sec-Fetch-Site: cross-site"], 403),
        (&["Sec-Fetch-Site: same-origin"], 204),
        (&["Origin: http://localhost"], 204),
        (&[PAGE], 204),
    ] {
        let headers: Vec<&str> = headers.iter().copied().chain([&*cookie]).collect();
        let answer = server.connect().request("POST", "/api/rebalance/queues", &headers, b"");
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(server.connect().request("GET", "/api/whoami", &[&cookie], b"").status, 200, "it only reads");
    }
    assert_eq!(server.connect().request("DELETE", "/api/login", &[&cookie], b"").status, 403);
}

#[test]
fn a_session_ends_with_its_user() {
    let server = TestServer::usual();
    let guest = basic("guest");
    let change = |method: &str, target: &str, body: &str| {
        server.connect().request(method, target, &[&guest], body.as_bytes()).status
    };
    for (method, body, status) in [
        ("PUT", r#"{"password":"new","tags":"monitoring"}"#, 204),
        ("PUT", r#"{"password":"new","tags":"administrator"}"#, 204),
        ("DELETE", "", 204),
    ] {
        let cookie = cookie(&match method {
            "PUT" if body.contains("monitoring") => log_in(&server, "monitor", "monitor"),
            _ => log_in(&server, "monitor", "new"),
        });
        let ask = || server.connect().request("GET", "/api/whoami", &[&cookie], b"").status;
        assert_eq!(ask(), 200);
        assert_eq!(change("PUT", "/api/users/other", r#"{"password":"x","tags":""}"#) / 100, 2);
        assert_eq!(ask(), 200, "another user has changed");
        assert_eq!(change(method, "/api/users/monitor", body), status);
        assert_eq!(ask(), 401, "{method} {body}");
    }
}

#[test]
fn a_cookie_is_for_the_paths_of_the_broker() {
    let options = ApiOptions { path_prefix: "/mq".to_owned(), ..ApiOptions::default() };
    let server = TestServer::start(options, ServerLimits::default(), source);
    let answer = server.connect().request("POST", "/mq/api/login", &[], b"username=guest&password=guest");
    assert!(answer.header("set-cookie").is_some_and(|set| set.ends_with("; Path=/mq/")), "{answer:?}");
    assert_eq!(server.connect().request("GET", "/mq/api/whoami", &[&cookie(&answer)], b"").status, 200);
}
