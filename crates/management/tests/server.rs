//! The server over real sockets: logins, slow and greedy clients, what browsers may send, compression.

mod support;

use catalog::{Definition, Name, Password};
use management::ApiOptions;
use management::limits::{SUSPECT_CONNECTIONS_MAX, ServerLimits};
use std::io::{Read, Write};
use std::time::Duration;
use support::{HttpClient, TestServer, basic, source};

#[test]
fn every_401_names_the_realm_by_which_clients_choose_credentials() {
    let server = TestServer::usual();
    let wrong = "Authorization: Basic Z3Vlc3Q6d3Jvbmc=";
    for (headers, target, error, reason) in [
        (&[][..], "/api/whoami", "not_authorized", "Login failed"),
        (&[wrong], "/api/whoami", "not_authorized", "Login failed"),
        (&["Authorization: Bearer x"], "/api/whoami", "not_authorized", "Login failed"),
        (&[&basic("nobody")], "/api/whoami", "not_authorized", "Login failed"),
        (&[&basic("plain")], "/api/whoami", "not_authorised", "Not management user"),
        (&[&basic("manager")], "/api/users", "not_authorised", "Not authorised for this resource"),
        (&[&basic("manager")], "/api/queues/%2F", "not_authorised", "User not authorised to access virtual host"),
    ] {
        let answer = server.connect().request("GET", target, headers, b"");
        let expected = format!(r#"{{"error":"{error}","reason":"{reason}"}}"#);
        assert_eq!((answer.status, answer.text()), (401, expected), "{headers:?} {target}");
        assert_eq!(answer.header("www-authenticate"), Some("Basic realm=\"RabbitMQ Management\""));
    }
    assert_eq!(server.get("guest", "/api/whoami").text(), r#"{"name":"guest","tags":["administrator"]}"#);
}

#[test]
fn a_connection_serves_one_request_after_another() {
    let server = TestServer::usual();
    let mut client = server.connect();
    for _ in 0..3 {
        let answer = client.request("GET", "/api/whoami", &[&basic("guest")], b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(client.request("GET", "/api/queues", &[], b"").status, 401);
        assert_eq!(client.request("GET", "/api/queues", &[&basic("guest")], b"").status, 200);
        assert_eq!(client.request("GET", "/api/nothing", &[&basic("guest")], b"").status, 404);
    }
    // Two at once are answered in their order.
    let one = format!("GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", basic("guest"));
    client.send(format!("{one}{one}").as_bytes());
    assert_eq!([client.answer("GET").status, client.answer("GET").status], [200, 200]);
}

#[test]
fn head_options_and_other_methods_come_from_the_table() {
    let server = TestServer::usual();
    let mut client = server.connect();
    let head = client.request("HEAD", "/api/whoami", &[&basic("guest")], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let list = client.request("HEAD", "/api/queues", &[&basic("guest")], b"");
    assert_eq!((list.status, list.body.len()), (200, 0));
    let options = client.request("OPTIONS", "/api/queues/%2F/q", &[], b"");
    assert_eq!((options.status, options.header("allow")), (200, Some("GET, HEAD, PUT, DELETE, OPTIONS")));
    let other = client.request("PATCH", "/api/overview", &[&basic("guest")], b"");
    assert_eq!((other.status, other.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(client.request("OPTIONS", "/api/nothing", &[], b"").status, 404);
}

#[test]
fn browsers_change_nothing_for_other_sites_or_by_other_names() {
    let server = TestServer::start(
        ApiOptions { hosts: vec!["broker.example".to_owned()], ..ApiOptions::default() },
        ServerLimits::default(),
        source,
    );
    let guest = basic("guest");
    for (method, headers, status) in [
        ("POST", vec!["Host: localhost:1", "Origin: http://localhost:1"], 204),
        ("POST", vec!["Host: broker.example", "Origin: https://broker.example"], 204),
        ("POST", vec!["Host: localhost:1"], 204),
        ("POST", vec!["Host: localhost:1", "Origin: http://evil.example"], 403),
        ("POST", vec!["Host: localhost:1", "Origin: null"], 403),
        ("POST", vec!["Host: evil.example"], 403),
        ("GET", vec!["Host: evil.example"], 403),
    ] {
        let headers: Vec<&str> = headers.into_iter().chain([&*guest]).collect();
        let target = if method == "GET" { "/api/whoami" } else { "/api/rebalance/queues" };
        let answer = server.connect().request(method, target, &headers, b"");
        assert_eq!(answer.status, status, "{method} {headers:?}: {}", answer.text());
    }
    let answer = server.get("guest", "/api/whoami");
    assert_eq!((answer.header("x-frame-options"), answer.header("access-control-allow-origin")), (Some("DENY"), None));
}

#[test]
fn a_path_prefix_stands_in_front_of_every_path() {
    let options = ApiOptions { path_prefix: "/mq".to_owned(), ..ApiOptions::default() };
    let server = TestServer::start(options, ServerLimits::default(), source);
    assert_eq!(server.get("guest", "/mq/api/whoami").status, 200);
    assert_eq!(server.get("guest", "/api/whoami").status, 404);
}

#[test]
fn long_bodies_are_refused_whether_or_not_they_say_how_long_they_are() {
    let limits = ServerLimits { body_bytes_max: 1_000, ..ServerLimits::default() };
    let server = TestServer::start(ApiOptions::default(), limits, source);
    let (guest, target) = (basic("guest"), "/api/auth/hash_password");
    let body = |bytes: usize| format!("{{\"password\":\"{}\"}}", "x".repeat(bytes - 15));
    let request = |bytes: usize| server.connect().request("POST", target, &[&guest], body(bytes).as_bytes());
    assert_eq!((request(1_000).status, request(1_001).status), (200, 413));
    let mut client = server.connect();
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{guest}\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{head}200\r\n{}\r\n200\r\n{}\r\n", "a".repeat(512), "a".repeat(512)).as_bytes());
    assert_eq!(client.answer("POST").status, 413);
    // Without a login no body is read.
    let mut client = server.connect();
    client.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n").as_bytes());
    assert_eq!(client.answer("POST").status, 401);
    // A client that waits for leave to send is given it.
    let mut client = server.connect();
    let text = body(100);
    let head = format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{guest}\r\nContent-Length: 100\r\n");
    client.send(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes());
    assert_eq!(client.answer("POST").status, 100);
    client.send(text.as_bytes());
    assert_eq!(client.answer("POST").status, 200);
}

#[test]
fn long_paths_and_heads_are_refused() {
    let server = TestServer::usual();
    let request =
        |target: &str, header: &str| server.connect().request("GET", target, &[&basic("guest"), header], b"").status;
    let target = |bytes: usize| format!("/api/whoami?x={}", "a".repeat(bytes - 14));
    assert_eq!([request(&target(8_192), "A: b"), request(&target(8_193), "A: b")], [200, 414]);
    // The server may close before it has read everything, so that the client is not sure to see why.
    let mut client = server.connect();
    let sent = client.stream.get_mut().write_all(format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(100_000)).as_bytes());
    let mut begin = [0; 12];
    let is_refused = client.stream.read_exact(&mut begin).is_err() || begin.ends_with(b"431");
    assert!(is_refused, "{sent:?} {}", begin.escape_ascii());
    assert_eq!(request("/api/%zz", "A: b"), 400);
}

#[test]
fn clients_that_are_too_slow_are_cut_off() {
    let limits = ServerLimits {
        head_timeout: Duration::from_millis(50),
        body_timeout: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let server = TestServer::start(ApiOptions::default(), limits, source);
    let mut client = server.connect();
    client.send(b"GET /api/whoami HTTP/1.1\r\nHost: ");
    assert!(client.is_closed(), "a head that does not end");
    assert!(server.connect().is_closed(), "a client that sends nothing");
    let mut client = server.connect();
    let head = "POST /api/auth/hash_password HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n";
    client.send(format!("{head}{}\r\n\r\n{{", basic("guest")).as_bytes());
    assert_eq!(client.answer("POST").status, 408);
}

#[test]
fn one_connection_too_many_gets_503_and_the_others_their_answers() {
    let limits = ServerLimits { connections_max: 3, ..ServerLimits::default() };
    let server = TestServer::start(ApiOptions::default(), limits, source);
    let ask = |client: &mut HttpClient| client.request("GET", "/api/whoami", &[&basic("guest")], b"").status;
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| ask(client) == 200), "they are accepted");
    let mut refused = server.connect();
    assert_eq!(refused.answer("GET").status, 503);
    assert!(refused.is_closed());
    assert!(clients.iter_mut().all(|client| ask(client) == 200));
    // A place becomes free when a client leaves; how soon the server sees that is its own affair.
    drop(clients.pop());
    let accepted = (0..10_000).any(|_| {
        let mut client = server.connect();
        client.send(format!("GET /api/whoami HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n", basic("guest")).as_bytes());
        let mut status = [0; 12];
        client.stream.read_exact(&mut status).is_ok() && status.ends_with(b"200")
    });
    assert!(accepted);
}

#[test]
fn a_slow_password_is_verified_once_and_wrong_ones_take_no_place_of_others() {
    let server = TestServer::start(ApiOptions::default(), ServerLimits::default(), || {
        let mut source = source();
        let password = Password::argon2(b"slow", b"0123456789abcdef");
        let tags = vec![Name::from("monitoring")];
        source.define([Definition::PutUser { name: Name::from("slow"), password, tags, loopback_only: false }]);
        source
    });
    for _ in 0..20 {
        assert_eq!(server.get("slow", "/api/whoami").status, 200);
    }
    // Failures of an address leave it a part of the places.
    let wrong = "Authorization: Basic c2xvdzp3cm9uZw==";
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.request("GET", "/api/whoami", &[wrong], b"").status, 401);
    }
    let mut clients: Vec<_> = (1..SUSPECT_CONNECTIONS_MAX).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|one| one.request("GET", "/api/whoami", &[&basic("slow")], b"").status == 200));
}

#[test]
fn answers_are_compressed_for_those_who_ask() {
    let server = TestServer::usual();
    for (target, header, is_compressed) in [
        ("/api/overview", "Accept-Encoding: gzip, deflate", true),
        ("/api/overview", "Accept-Encoding: identity", false),
        ("/api/overview", "Accept-Encoding: gzip;q=0", false),
        ("/api/whoami", "Accept-Encoding: gzip", false),
        ("/api/exchanges", "Accept-Encoding: br;q=1, GZIP;q=0.5", true),
        ("/metrics/detailed?family=node_metrics", "Accept-Encoding: gzip", true),
    ] {
        let plain = server.connect().request("GET", target, &[&basic("guest")], b"").body;
        let answer = server.connect().request("GET", target, &[&basic("guest"), header], b"");
        assert_eq!(answer.header("content-encoding").is_some(), is_compressed, "{target} {header}");
        let mut body = Vec::new();
        match is_compressed {
            true => _ = flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut body).expect("gzip"),
            false => body = answer.body,
        }
        assert_eq!(body, plain, "{target} {header}");
    }
}

#[test]
fn a_server_that_stops_ends_its_connections() {
    let server = TestServer::usual();
    let mut client = server.connect();
    assert_eq!(client.request("GET", "/api/whoami", &[&basic("guest")], b"").status, 200);
    server.stop();
    assert!(client.is_closed());
}
