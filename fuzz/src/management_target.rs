//! The target `management`: anybody may ask for any path with any query and any body.
//!
//! Enters: the method, the path with its query, and a body.
//! Leaves: nothing, or a panic.
//! Owns:   what must hold of each answer.
//!
//! No answer is the server's own fault (500), every error says what it is, what is said to be JSON is JSON, reading changes
//! nothing, and what is not open is answered to nobody who has not logged in. Names are decoded once: what was matched, escaped
//! again, is matched again. A change that is refused changes nothing, and what a PUT has created is there when it comes again.

use catalog::Definition;
use definitions::Json;
use management::{
    Answer, AnswerBody, Api, ApiOptions, ApiReply, CatalogSource, HttpMethod, RequestHead, RoutedRequest, Source,
    percent,
};

/// Pieces of one answer, each of which has rows or is the last one.
const PIECES_MAX: usize = 1_000;

/// The users who ask, in the order of the byte that names them.
const USERS: [&str; 2] = ["guest", "monitor"];

/// What is there to be changed and deleted.
const DEFINITIONS: &str = r#"{
"vhosts":[{"name":"v"}],
"users":[{"name":"monitor","password_hash":"","tags":"monitoring"}],
"permissions":[{"user":"monitor","vhost":"v","configure":".*","write":".*","read":".*"}],
"topic_permissions":[{"user":"monitor","vhost":"v","exchange":"amq.topic","write":"^a","read":"^b"}],
"policies":[{"vhost":"/","name":"p","pattern":"^q","definition":{"max-length":5}}],
"parameters":[{"vhost":"/","component":"operator_policy","name":"o","value":{"pattern":"","definition":{"expires":60000}}},
 {"vhost":"/","component":"shovel","name":"s","value":{}}],
"global_parameters":[{"name":"g","value":1}],
"exchanges":[{"name":"x","vhost":"/","type":"topic"},{"name":"h","vhost":"/","type":"headers"}],
"queues":[{"name":"a/b","vhost":"/","arguments":{"x-max-length":5}}],
"bindings":[{"source":"x","vhost":"/","destination":"a/b","destination_type":"queue","routing_key":"k.#","arguments":{}},
 {"source":"x","vhost":"/","destination":"h","destination_type":"exchange","routing_key":"","arguments":{}}]}"#;

/// A catalog with something of each kind.
fn source() -> CatalogSource {
    let mut source = CatalogSource::default();
    let file = definitions::read(DEFINITIONS.as_bytes()).expect("the file is sound");
    file.load(&mut source.catalog, 1, |_| false).expect("the file is taken in");
    source.define([Definition::SetPolicies {
        policies: file.policies().map(|(_, policy)| policy.clone()).collect(),
        operator_policies: file.operator_policies().map(|(_, policy)| policy.clone()).collect(),
    }]);
    source.kept = file.kept();
    source
}

/// Panics if an answer breaks a promise.
pub fn check(bytes: &[u8]) {
    let [user, bytes @ ..] = bytes else { return };
    let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (line, body) = (&bytes[..line_end], bytes.get(line_end + 1..).unwrap_or_default());
    let Ok(line) = std::str::from_utf8(line) else { return };
    let (method, target) = line.split_once(' ').unwrap_or(("GET", line));
    let mut source = source();
    let api = Api::new(ApiOptions::default(), &mut source);
    let content_type = (user & 2 != 0).then(|| "multipart/form-data; boundary=b".to_owned());
    let head = RequestHead {
        method: method.to_owned(),
        target: target.to_owned(),
        host: Some("localhost".to_owned()),
        content_type,
        ..RequestHead::default()
    };
    match api.route(&head) {
        Err(answer) => check_answer(answer, &source),
        Ok(request) => {
            check_names(&api, &head, &request);
            check_request(&api, &mut source, &request, USERS[usize::from(user & 1)], body);
        }
    }
}

fn check_request(api: &Api, source: &mut CatalogSource, request: &RoutedRequest, user: &str, body: &[u8]) {
    let version = source.catalog.version();
    if !request.needs_login() {
        let ApiReply::Now(answer) = api.answer(source, request, None, body) else { panic!("an open route acts") };
        return check_answer(answer, source);
    }
    let refused = api.answer(source, request, None, body);
    assert!(matches!(refused, ApiReply::Now(Answer { status: 401, .. })), "nobody is answered who has not logged in");
    let (id, _) = source.catalog().user_by_name(user).expect("the user is there");
    match api.admit(source, request, id) {
        Err(error) => check_answer(Answer::of_error(&error), source),
        Ok(viewer) => {
            let ask = |source: &mut CatalogSource| match api.answer(source, request, Some(&viewer), body) {
                ApiReply::Now(answer) => answer,
                ApiReply::Later(mut outcome) => {
                    Answer::of_outcome(outcome.try_recv().expect("the source answers at once"))
                }
            };
            let answer = ask(source);
            let status = answer.status;
            if !request.is_change() || status >= 400 {
                assert_eq!(source.catalog.version(), version, "reading changes nothing, and no more does a refusal");
            }
            check_answer(answer, source);
            if request.matched.route.method == HttpMethod::Put && status == 201 {
                let again = ask(source);
                assert_eq!(again.status, 204, "what was created is there: {again:?}");
            }
        }
    }
}

/// The names of the path, escaped, lead to the same route with the same names.
fn check_names(api: &Api, head: &RequestHead, request: &RoutedRequest) {
    let parts = request.matched.route.pattern.split('/').map(|part| {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => percent::encode(request.matched.at(name).as_bytes()),
            None => part.to_owned(),
        }
    });
    let target = parts.collect::<Vec<_>>().join("/");
    if target.len() > management::limits::TARGET_BYTES_MAX {
        return;
    }
    let again = api.route(&RequestHead { target, ..head.clone() }).unwrap_or_else(|answer| panic!("{answer:?}"));
    assert!(std::ptr::eq(again.matched.route, request.matched.route));
    for name in ["vhost", "name", "user", "source", "destination", "props", "pattern"] {
        assert_eq!(again.matched.get(name), request.matched.get(name));
    }
}

fn check_answer(answer: Answer, source: &CatalogSource) {
    let known = [200, 201, 204, 400, 401, 403, 404, 405, 412, 414, 503];
    assert!(known.contains(&answer.status), "{answer:?}");
    let mut text = Vec::new();
    match answer.body {
        AnswerBody::Empty => return,
        // The page and its files.
        AnswerBody::Text(body) if answer.headers.iter().any(|(name, _)| *name == "content-type") => {
            return assert!(answer.status == 200 && std::str::from_utf8(&body).is_ok());
        }
        AnswerBody::Text(body) => text = body,
        AnswerBody::Rows(mut rows) => {
            let pieces = std::iter::from_fn(|| rows.next_piece(source)).take(PIECES_MAX);
            pieces.for_each(|piece| text.extend(piece));
            assert!(rows.next_piece(source).is_none(), "a list ends");
        }
        AnswerBody::Metrics(mut metrics) => {
            let pieces = std::iter::from_fn(|| metrics.next_piece(source)).take(PIECES_MAX);
            pieces.for_each(|piece| text.extend(piece));
            assert!(metrics.next_piece(source).is_none(), "metrics end");
            return assert!(text.ends_with(b"\n") && std::str::from_utf8(&text).is_ok());
        }
    }
    let json = Json::read(&text).unwrap_or_else(|why| panic!("{why}: {}", text.escape_ascii()));
    if answer.status >= 400 && json.get("status").is_none() {
        let has = |key| matches!(json.get(key), Some(Json::Text(text)) if !text.is_empty());
        assert!(has("error") && has("reason"), "{json:?}");
    }
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let sample = |name: &str, user: u8, text: &str| (name.to_owned(), [&[user], text.as_bytes()].concat());
    vec![
        sample("page", 0, "GET /"),
        sample("page-file", 0, "GET /page/app.js"),
        sample("audit", 0, "GET /api/audit"),
        sample("route", 0, "GET /api/exchanges/%2F/amq.topic/route?routing_key=a.b&headers=%7B%22k%22:1%7D"),
        sample("overview", 0, "GET /api/overview?columns=node,queue_totals.messages"),
        sample(
            "exchanges",
            0,
            "GET /api/exchanges/%2F/?page=1&page_size=3&name=%5Eamq&use_regex=true&sort=type&sort_reverse=true",
        ),
        sample("exchange", 0, "GET /api/exchanges/%2f/amq.default"),
        sample("binding", 0, "GET /api/bindings/%2F/e/amq.fanout/q/a%252Fb/~"),
        sample("users", 1, "GET /api/users"),
        sample("nodes", 1, "GET /api/nodes/rabbit%40localhost/memory"),
        sample("vhosts", 1, "GET /api/vhosts?sort=messages_details.rate"),
        sample("health", 1, "GET /api/health/checks/protocol-listener/amqp,http"),
        sample("certificates", 1, "GET /api/health/checks/certificate-expiration/4294967295/years"),
        sample("metrics", 0, "GET /metrics/detailed?family=queue_coarse_metrics&vhost=%2F"),
        sample("options", 0, "OPTIONS /api/queues/%2F/q"),
        sample("declare", 0, "PUT /api/queues/%2F/q\n{\"durable\":\"true\",\"arguments\":[]}"),
        sample("action", 0, "POST /api/queues/%2F/q/actions\n{\"action\":\"sync\"}"),
        sample(
            "exchange-put",
            0,
            "PUT /api/exchanges/%2F/e\n{\"type\":\"x-consistent-hash\",\"arguments\":{\"hash-header\":\"h\"}}",
        ),
        sample("exchange-delete", 0, "DELETE /api/exchanges/%2F/x?if-unused=true"),
        sample("queue-delete", 0, "DELETE /api/queues/%2F/a%2Fb?if-empty=false"),
        sample("bind", 0, "POST /api/bindings/%2F/e/h/q/a%2Fb\n{\"arguments\":{\"x-match\":\"any\",\"a\":[1.5]}}"),
        sample("unbind", 0, "DELETE /api/bindings/%2F/e/x/q/a%2Fb/k.%2523"),
        sample("unbind-exchange", 0, "DELETE /api/bindings/%2F/e/x/e/h/~"),
        sample("vhost", 0, "PUT /api/vhosts/w\n{\"tags\":\"a,b\",\"metadata\":{\"k\":1},\"tracing\":\"true\"}"),
        sample("vhost-delete", 0, "DELETE /api/vhosts/v"),
        sample("protect", 0, "POST /api/vhosts/v/deletion/protection"),
        sample("user", 0, "PUT /api/users/u\n{\"password\":\"p\",\"tags\":[\"a\"],\"limits\":{\"max-channels\":1}}"),
        sample("user-hash", 0, "PUT /api/users/monitor\n{\"password_hash\":\"\",\"tags\":\"\"}"),
        sample("bulk-delete", 0, "POST /api/users/bulk-delete\n{\"users\":[\"monitor\"]}"),
        sample("permission", 0, "PUT /api/permissions/v/guest\n{\"configure\":\"^a\",\"write\":\"\",\"read\":\".*\"}"),
        sample(
            "topic-permission",
            0,
            "PUT /api/topic-permissions/v/guest\n{\"exchange\":\"x\",\"write\":\"a\",\"read\":\"b\"}",
        ),
        sample("topics", 0, "DELETE /api/topic-permissions/v/monitor"),
        sample(
            "policy",
            0,
            "PUT /api/policies/%2F/n\n{\"pattern\":\"^a\",\"definition\":{\"expires\":1},\"priority\":\"2\",\"apply-to\":\"queues\"}",
        ),
        sample(
            "operator-policy",
            0,
            "PUT /api/operator-policies/%2F/o\n{\"pattern\":\"\",\"definition\":{\"max-length\":1}}",
        ),
        sample("limit", 0, "PUT /api/vhost-limits/v/max-queues\n{\"value\":\"1\"}"),
        sample("user-limit", 0, "DELETE /api/user-limits/monitor/max-channels"),
        sample("parameter", 0, "PUT /api/parameters/federation-upstream/v/u\n{\"value\":{\"uri\":[\"amqp://h\"]}}"),
        sample("global-parameter", 0, "PUT /api/global-parameters/n\n{\"value\":null}"),
        sample("cluster-name", 0, "PUT /api/cluster-name\n{\"name\":\"c\"}"),
        sample(
            "publish",
            1,
            "POST /api/exchanges/v/amq.topic/publish\n{\"routing_key\":\"a\",\"payload\":\"AA==\",\"payload_encoding\":\"base64\",\
             \"properties\":{\"priority\":1,\"headers\":{\"a\":1},\"timestamp\":2,\"user_id\":\"monitor\"}}",
        ),
        sample(
            "get",
            0,
            "POST /api/queues/%2F/a%2Fb/get\n{\"count\":1,\"ackmode\":\"ack_requeue_true\",\"encoding\":\"auto\",\"truncate\":\"5\"}",
        ),
        sample("hash", 0, "POST /api/auth/hash_password\n{\"password\":\"p\"}"),
        sample(
            "import",
            0,
            "POST /api/definitions\n{\"vhosts\":[{\"name\":\"v\"}],\"queues\":[{\"name\":\"q\",\"vhost\":\"v\"}]}",
        ),
        sample("import-vhost", 0, "POST /api/definitions/%2F\n{\"queues\":[{\"name\":\"q\"}],\"policies\":[]}"),
        sample(
            "upload",
            2,
            "POST /api/definitions\n--b\r\nContent-Disposition: form-data; filename=\"f\"\r\n\r\n{}\r\n--b--",
        ),
    ]
}
