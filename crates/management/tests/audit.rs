//! The log has a line for each change, and no secret.

mod support;

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use support::{TestServer, basic};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What all events say, a line each.
#[derive(Clone, Default)]
struct EventLines(Arc<Mutex<Vec<String>>>);

struct LineText(String);

impl Visit for LineText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").expect("text can be written");
    }
}

impl Subscriber for EventLines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = LineText(event.metadata().target().to_owned());
        event.record(&mut line);
        self.0.lock().expect("no other thread has failed").push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_log_has_each_change_and_no_secret() {
    const SECRET: &str = "s3cret";
    let events = EventLines::default();
    tracing::subscriber::set_global_default(events.clone()).expect("it is the only one");
    let hash = catalog::Password::sha256(SECRET.as_bytes(), [1; 4]).written().expect("it is written");
    let server = TestServer::usual();
    let mut client = server.connect();
    let mut ask = |user: &str, method: &str, target: &str, body: &str| {
        client.request(method, target, &[&basic(user)], body.as_bytes()).status
    };
    let (by_hash, by_password) =
        (format!(r#"{{"password_hash":"{hash}","tags":""}}"#), format!(r#"{{"password":"{SECRET}","tags":""}}"#));
    let upstream = format!(r#"{{"value":{{"uri":"amqp://u:{SECRET}@h"}}}}"#);
    let wrong = format!(r#"{{"value":{{"url":"amqp://u:{SECRET}@h"}}}}"#);
    for (user, method, target, body, status) in [
        ("guest", "PUT", "/api/users/one", &*by_password, 201),
        ("guest", "PUT", "/api/users/two?x=s3cret", &by_hash, 201),
        ("guest", "PUT", "/api/parameters/federation-upstream/%2F/new", &upstream, 201),
        ("guest", "PUT", "/api/parameters/federation-upstream/%2F/wrong", &wrong, 400),
        ("guest", "PUT", "/api/users/a%0Aline", &by_password, 400),
        ("guest", "POST", "/api/auth/hash_password", &by_password, 200),
        ("guest", "GET", "/api/auth/hash_password/s3cret", "", 200),
        ("maker", "PUT", "/api/users/three", &by_password, 401),
        ("guest", "DELETE", "/api/queues/%2F/orders", "", 204),
    ] {
        assert_eq!(ask(user, method, target, body), status, "{method} {target}");
    }
    let form = format!("username=monitor&password={SECRET}");
    assert_eq!(server.connect().request("POST", "/api/login", &[], form.as_bytes()).status, 401);
    let login = server.connect().request("POST", "/api/login", &[], b"username=monitor&password=monitor");
    let set = login.header("set-cookie").expect("a cookie").to_owned();
    let token = set.split([';', '=']).nth(1).expect("a value");
    let cookie = format!("Cookie: harrier_session={token}");
    let headers = [&*cookie, "X-Requested-With: harrier-page"];
    assert_eq!(server.connect().request("DELETE", "/api/queues/%2F/q", &headers, b"").status, 401);
    assert_eq!(server.connect().request("DELETE", "/api/users/one", &headers, b"").status, 401);
    assert_eq!(server.connect().request("DELETE", "/api/login", &headers, b"").status, 204);
    server.stop();
    let lines = events.0.lock().expect("no other thread has failed");
    let changes: Vec<_> = lines.iter().filter(|line| line.starts_with("audit ")).collect();
    let has = |parts: &[&str]| changes.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert_eq!(changes.len(), 9, "{changes:#?}");
    for parts in [
        &["user=\"guest\"", "peer=127.0.0.1:", "method=\"PUT\"", "/api/users/{user}", r#"user=\"one\""#, "status=201"]
            [..],
        &["/api/users/{user}", r#"user=\"two\""#],
        &["/api/parameters/", r#"name=\"new\""#, "status=201"],
        &["/api/users/{user}", r#"user=\"a\\nline\""#, "status=400"],
        &["/api/parameters/", r#"name=\"wrong\""#, "status=400"],
        &["user=\"monitor\"", "method=\"POST\"", "/api/login", "status=200"],
        &["user=\"monitor\"", "method=\"DELETE\"", "/api/login", "status=204"],
        &["method=\"DELETE\"", "/api/queues/{vhost}/{name}", r#"vhost=\"/\""#, r#"name=\"orders\""#, "status=204"],
    ] {
        assert!(has(parts), "{parts:?}: {changes:#?}");
    }
    for line in lines.iter() {
        assert!(!line.contains(SECRET) && !line.contains(&hash) && !line.contains(token), "{line}");
    }
}
