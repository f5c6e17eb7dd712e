//! Samples of the past beside the rates, in the answers of one object and of lists.

mod support;

use definitions::Json;
use management::limits::SAMPLED_ROWS_MAX;
use management::{
    AnswerBody, Api, ApiOptions, ApiReply, CatalogSource, LiveConnection, RatedCount, RequestHead, Viewer,
};
use support::source;

struct Asked {
    api: Api,
    source: CatalogSource,
}

impl Asked {
    fn new() -> Self {
        let mut source = source();
        source.now_ms = 1_000_000_000;
        let api = Api::new(ApiOptions::default(), &mut source);
        api.take_readings(&source);
        Self { api, source }
    }

    /// A second passes, in which everything grows by one.
    fn second(&mut self) {
        self.source.now_ms += 1_000;
        let count = |count: &mut RatedCount| count.total += 1;
        count(&mut self.source.counts.messages.publish);
        count(&mut self.source.counts.churn.queue_declared);
        count(&mut self.source.counts.io.reads.count);
        self.source.counts.waiting.ready += 1;
        self.source.counts.resources.memory_bytes += 1;
        self.source.queue_counts.values_mut().for_each(|queue| {
            queue.waiting.ready += 1;
            count(&mut queue.messages.ack);
        });
        self.source.connections.iter_mut().for_each(|of| count(&mut of.received_bytes));
        self.source.channels.iter_mut().for_each(|of| count(&mut of.messages.deliver));
        self.api.take_readings(&self.source);
    }

    fn ask(&mut self, method: &str, target: &str) -> (u16, Json) {
        let head = RequestHead { method: method.to_owned(), target: target.to_owned(), ..RequestHead::default() };
        let Ok(request) = self.api.route(&head) else { panic!("{target} leads nowhere") };
        let (user, _) = self.source.catalog.user_by_name("guest").expect("it is there");
        let viewer = Viewer::of(&self.source, user);
        let ApiReply::Now(answer) = self.api.answer(&mut self.source, &request, viewer.as_ref(), b"") else {
            panic!("{target} takes its time")
        };
        let text = match answer.body {
            AnswerBody::Text(text) => text,
            AnswerBody::Rows(mut rows) => std::iter::from_fn(|| rows.next_piece(&self.source)).flatten().collect(),
            AnswerBody::Empty => b"null".to_vec(),
            AnswerBody::Metrics(_) => panic!("{target} is no metrics"),
        };
        (answer.status, Json::read(&text).unwrap_or_else(|why| panic!("{why}: {}", text.escape_ascii())))
    }
}

fn dotted<'a>(value: &'a Json, path: &str) -> &'a Json {
    let value = if let Json::List(rows) = value { &rows[0] } else { value };
    path.split('.').try_fold(value, |value, part| value.get(part)).unwrap_or_else(|| panic!("no {path}: {value:?}"))
}

/// What is asked, a field of the kind, what its samples are after twelve seconds, and a field of another kind.
const CASES: [(&str, &str, &str, [i64; 3], &str); 9] = [
    ("overview", "lengths", "queue_totals.messages_details", [25, 20, 15], "message_stats.publish_details"),
    ("overview", "msg_rates", "message_stats.publish_details", [25, 20, 15], "queue_totals.messages_details"),
    ("overview", "node_stats", "churn_rates.queue_declared_details", [10, 5, 0], "message_stats.publish_details"),
    ("nodes/rabbit@localhost", "node_stats", "mem_used_details", [10, 5, 0], ""),
    ("nodes", "node_stats", "io_read_count_details", [10, 5, 0], ""),
    ("queues/%2F/orders", "lengths", "messages_details", [25, 20, 15], "message_stats.ack_details"),
    ("queues/%2F/orders", "msg_rates", "message_stats.ack_details", [10, 5, 0], "messages_details"),
    ("connections/127.0.0.1%3A5001%20-%3E%20127.0.0.1%3A5672", "data_rates", "recv_oct_details", [10, 5, 0], ""),
    (
        "channels/127.0.0.1%3A5000%20-%3E%20127.0.0.1%3A5672%20%281%29",
        "msg_rates",
        "message_stats.deliver_details",
        [10, 5, 0],
        "",
    ),
];

#[test]
fn each_kind_of_number_has_samples_in_its_range() {
    let mut asked = Asked::new();
    let target = |path: &str, kind: &str| format!("/api/{path}?{kind}_age=10&{kind}_incr=5");
    // Whoever looks begins the history of an object.
    for (path, kind, field, ..) in CASES {
        let (_, answer) = asked.ask("GET", &target(path, kind));
        let Json::List(samples) = dotted(dotted(&answer, field), "samples") else { panic!("a list") };
        assert_eq!(samples.len(), 1, "{path}");
    }
    (0..12).for_each(|_| asked.second());
    for (path, kind, field, values, other) in CASES {
        let (status, answer) = asked.ask("GET", &target(path, kind));
        let details = dotted(&answer, field);
        let Json::List(samples) = dotted(details, "samples") else { panic!("{path} has no samples: {details:?}") };
        let times = [1_000_010_000, 1_000_005_000, 1_000_000_000];
        let found: Vec<_> = samples.iter().map(|one| (dotted(one, "sample"), dotted(one, "timestamp"))).collect();
        let expected: Vec<_> = values.into_iter().map(Json::Int).zip(times.map(Json::Int)).collect();
        assert_eq!((status, found), (200, expected.iter().map(|(value, at)| (value, at)).collect()), "{path} {field}");
        let rate = (values[0] - values[2]) as f64 / 10.0;
        assert_eq!(
            (dotted(details, "avg"), dotted(details, "avg_rate")),
            (&Json::Float(values[1] as f64), &Json::Float(rate))
        );
        assert!(matches!(dotted(details, "rate"), Json::Float(_)));
        if !other.is_empty() {
            assert_eq!(dotted(&answer, other).get("samples"), None, "{path} {other}");
        }
        let (_, plain) = asked.ask("GET", &format!("/api/{path}"));
        assert_eq!(dotted(&plain, field).get("samples"), None);
    }
    let (_, vhost) = asked.ask("GET", "/api/vhosts/%2F?data_rates_age=10&data_rates_incr=5");
    assert!(matches!(dotted(&vhost, "recv_oct_details.samples"), Json::List(samples) if samples.len() == 3));
    let (_, vhosts) = asked.ask("GET", "/api/vhosts?data_rates_age=10&data_rates_incr=5");
    assert!(matches!(dotted(&vhosts, "recv_oct_details.samples"), Json::List(samples) if samples.len() == 3));
    let (_, exchange) = asked.ask("GET", "/api/exchanges/%2F/x?msg_rates_age=10&msg_rates_incr=5");
    assert!(
        matches!(dotted(&exchange, "message_stats.publish_in_details.samples"), Json::List(samples) if samples.len() == 1)
    );
}

/// Lists, the row that is looked at, and one of its numbers with its samples after twelve seconds.
const LISTS: [(&str, usize, &str, &str, [i64; 3]); 8] = [
    ("queues", 2, "lengths", "messages_details", [25, 20, 15]),
    ("queues/%2F", 2, "msg_rates", "message_stats.ack_details", [10, 5, 0]),
    ("queues/detailed", 2, "lengths", "messages_ready_details", [22, 17, 12]),
    ("connections", 0, "data_rates", "recv_oct_details", [10, 5, 0]),
    ("vhosts/%2F/connections", 0, "data_rates", "recv_oct_details", [10, 5, 0]),
    ("channels", 0, "msg_rates", "message_stats.deliver_details", [10, 5, 0]),
    ("exchanges", 0, "msg_rates", "message_stats.publish_in_details", [0, 0, 0]),
    ("vhosts", 0, "data_rates", "recv_oct_details", [0, 0, 0]),
];

#[test]
fn rows_of_lists_have_the_samples_of_single_objects() {
    let mut asked = Asked::new();
    let row = |answer: Json, at: usize| match answer {
        Json::List(mut rows) => rows.swap_remove(at),
        other => match dotted(&other, "items") {
            Json::List(rows) => rows[at].clone(),
            other => panic!("{other:?}"),
        },
    };
    for (path, _, kind, ..) in LISTS {
        assert_eq!(asked.ask("GET", &format!("/api/{path}?{kind}_age=10&{kind}_incr=5")).0, 200, "{path}");
    }
    (0..12).for_each(|_| asked.second());
    for (path, at, kind, field, values) in LISTS {
        for page in ["", "&page=1&page_size=5", "&sort=name"] {
            let (status, answer) = asked.ask("GET", &format!("/api/{path}?{kind}_age=10&{kind}_incr=5{page}"));
            let row = row(answer, at);
            let Json::List(samples) = dotted(dotted(&row, field), "samples") else { panic!("{path}: {row:?}") };
            let found: Vec<_> = samples.iter().map(|sample| dotted(sample, "sample").clone()).collect();
            assert_eq!((status, found), (200, values.map(Json::Int).into()), "{path} {page}");
            let rate = Json::Float((values[0] - values[2]) as f64 / 10.0);
            assert_eq!(dotted(dotted(&row, field), "avg_rate"), &rate, "{path}");
        }
        let (_, plain) = asked.ask("GET", &format!("/api/{path}"));
        assert_eq!(dotted(&row(plain, at), field).get("samples"), None, "{path}");
    }
    // Rows without numbers take the parameters and have no samples.
    for path in ["bindings", "users", "queues?disable_stats=true&lengths_age=10&lengths_incr=5"] {
        let mark = if path.contains('?') { '&' } else { '?' };
        let (status, answer) = asked.ask("GET", &format!("/api/{path}{mark}msg_rates_age=10&msg_rates_incr=5"));
        assert!(status == 200 && !answer.line().contains("samples"), "{path}: {answer:?}");
    }
}

#[test]
fn a_list_has_so_many_rows_with_samples_and_so_many_samples_in_all() {
    let mut asked = Asked::new();
    let row = asked.source.connections[0].clone();
    let many = |number| LiveConnection { name: format!("c{number:04}"), ..row.clone() };
    asked.source.connections = (0..SAMPLED_ROWS_MAX + 1).map(many).collect();
    let mut reason = |query: &str| {
        let (status, answer) = asked.ask("GET", &format!("/api/connections?{query}"));
        (status, answer.get("reason").map(|reason| reason.line()).unwrap_or_default())
    };
    let (status, why) = reason("data_rates_age=10&data_rates_incr=5");
    assert!(status == 400 && why.contains("501 rows with samples are too many: 500 are the most"), "{status} {why}");
    assert_eq!(reason("data_rates_age=10&data_rates_incr=5&page=1&page_size=500").0, 200);
    assert_eq!(reason("data_rates_age=10&data_rates_incr=5&name=c0001").0, 200);
    // A hundred samples of each row are as many as there may be.
    assert_eq!(reason("data_rates_age=99&data_rates_incr=1&page=1&page_size=500").0, 200);
    let (status, why) = reason("data_rates_age=100&data_rates_incr=1&page=1&page_size=500");
    assert!(status == 400 && why.contains("500 rows with 101 samples each are too many: 50000 samples"), "{why}");
    assert_eq!(reason("data_rates_age=100&data_rates_incr=1&page=2&page_size=500").0, 200);
}

#[test]
fn a_range_that_is_none_is_refused_with_the_reason() {
    let mut asked = Asked::new();
    for (path, query, reason) in [
        ("overview", "lengths_age=x&lengths_incr=5", "lengths_age takes a whole number of at least 1"),
        ("queues", "msg_rates_age=60&msg_rates_incr=0", "msg_rates_incr takes a whole number of at least 1"),
        (
            "nodes",
            "node_stats_age=86400&node_stats_incr=1",
            "node_stats_age=86400 in steps of 1: 1000 samples are the most",
        ),
    ] {
        let (status, answer) = asked.ask("GET", &format!("/api/{path}?{query}"));
        assert_eq!((status, dotted(&answer, "reason")), (400, &Json::text(reason)));
    }
    assert_eq!(asked.ask("GET", "/api/overview?lengths_age=60").0, 200);
}

#[test]
fn a_reset_forgets_the_past_and_no_count() {
    let mut asked = Asked::new();
    (0..12).for_each(|_| asked.second());
    let target = "/api/overview?msg_rates_age=10&msg_rates_incr=5";
    let samples = |asked: &mut Asked| {
        let (_, answer) = asked.ask("GET", target);
        let publish = dotted(&answer, "message_stats.publish").clone();
        match dotted(&answer, "message_stats.publish_details.samples") {
            Json::List(samples) => (publish, samples.len()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(samples(&mut asked), (Json::Int(27), 3));
    for (target, status) in
        [("/api/reset/rabbit@elsewhere", 404), ("/api/reset/rabbit@localhost", 204), ("/api/reset", 204)]
    {
        assert_eq!(asked.ask("DELETE", target).0, status, "{target}");
        let left = if status == 404 { 3 } else { 1 };
        asked.api.take_readings(&asked.source);
        assert_eq!(samples(&mut asked), (Json::Int(27), left), "{target}");
    }
}
