//! Prometheus' text: read by a parser of its own, and by Prometheus' own checker if it is there.

mod support;

use catalog::{Definition, Name, ShardId};
use management::limits::ServerLimits;
use management::{
    ApiOptions, CatalogSource, IoCounts, IoOperation, LiveChannel, LiveFederationLink, LogCounts, NamedTotal,
    RatedCount, RdmaCounts, RuntimeCounts, ShardCounts, TimeCounts,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use support::{TestServer, source};
use wire::Table;

/// Name, labels and value of a sample.
type Sample = (String, BTreeMap<String, String>, f64);

fn parse_labels(mut text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").expect("a label has a value");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().expect("a value ends") {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "the label {name} is there twice");
        text = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
    }
    labels
}

/// Reads the text, and holds it to the rules: each family has HELP and TYPE once, in front of its samples, which stay together;
/// no sample is there twice; counters end in `_total`.
fn parse(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n'), "the last line ends");
    let (mut families, mut samples) = (BTreeMap::new(), Vec::new());
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a family has a help");
            assert!(!help.is_empty());
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a family has a type");
            assert_eq!(name, helped, "HELP comes first");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is there twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            current = name.to_owned();
        } else {
            let (head, value) = line.rsplit_once(' ').expect("a sample has a value");
            let (name, labels) = match head.split_once('{') {
                Some((name, rest)) => (name, parse_labels(rest.strip_suffix('}').expect("labels end"))),
                None => (head, BTreeMap::new()),
            };
            let family = match families.get(&current).map(String::as_str) {
                Some("histogram") => ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)),
                _ => Some(name),
            };
            assert_eq!(family, Some(&*current), "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite() && seen.insert((name.to_owned(), labels.clone())), "{line}");
            samples.push((name.to_owned(), labels, value));
        }
    }
    samples
}

fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |found: &BTreeMap<String, String>| {
        labels.iter().all(|(label, text)| found.get(*label).is_some_and(|found| found == text))
    };
    samples.iter().find(|(found, of, _)| found == name && has(of)).map(|(.., value)| *value)
}

/// What RabbitMQ's dashboards 10991 of 3.10 and of 4.3 ask for, and alerts.
const DASHBOARDS: &str = "build_info identity_info channels channels_opened_total channels_closed_total connections \
    connections_opened_total connections_closed_total consumers channel_consumers queues queues_created_total \
    queues_declared_total queues_deleted_total disk_space_available_bytes process_max_fds process_open_fds \
    process_max_tcp_sockets process_open_tcp_sockets process_resident_memory_bytes resident_memory_limit_bytes \
    queue_messages_ready queue_messages_unacked global_messages_received_total global_messages_received_confirm_total \
    global_messages_routed_total global_messages_confirmed_total global_messages_unroutable_dropped_total \
    global_messages_unroutable_returned_total global_messages_acknowledged_total \
    global_messages_delivered_consume_auto_ack_total global_messages_delivered_consume_manual_ack_total \
    global_messages_delivered_get_auto_ack_total global_messages_delivered_get_manual_ack_total \
    global_messages_get_empty_total global_messages_redelivered_total global_messages_delivered_total \
    global_publishers global_consumers erlang_uptime_seconds disk_space_available_limit_bytes \
    message_size_bytes_bucket message_size_bytes_sum message_size_bytes_count alarms_memory_used_watermark \
    alarms_free_disk_space_watermark alarms_file_descriptor_limit auth_attempts_total auth_attempts_failed_total \
    auth_attempts_succeeded_total global_messages_dead_lettered_maxlen_total \
    global_messages_dead_lettered_expired_total global_messages_dead_lettered_rejected_total \
    global_messages_dead_lettered_delivery_limit_total";

#[test]
fn every_name_of_the_dashboards_is_there_without_a_login() {
    let server = TestServer::usual();
    let answer = server.connect().request("GET", "/metrics", &[], b"");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let samples = parse(&answer.text());
    for name in DASHBOARDS.split_whitespace() {
        let name = format!("rabbitmq_{name}");
        assert!(value(&samples, &name, &[]).is_some(), "{name} is missing");
        if name.starts_with("rabbitmq_global") && !name.contains("dead_lettered") {
            assert!(value(&samples, &name, &[("protocol", "amqp091")]).is_some(), "{name} has no protocol");
        }
    }
    for (name, labels, expected) in [
        (
            "rabbitmq_identity_info",
            &[("rabbitmq_endpoint", "aggregated"), ("rabbitmq_node", "rabbit@localhost")][..],
            1.0,
        ),
        ("rabbitmq_queue_messages_ready", &[], 12.0),
        ("rabbitmq_queue_messages_unacked", &[], 3.0),
        ("rabbitmq_connections", &[], 2.0),
        ("rabbitmq_queues", &[], 4.0),
        ("rabbitmq_message_size_bytes_bucket", &[("le", "64")], 2.0),
        ("rabbitmq_message_size_bytes_bucket", &[("le", "1024")], 3.0),
        ("rabbitmq_message_size_bytes_bucket", &[("le", "+Inf")], 7.0),
        ("rabbitmq_message_size_bytes_count", &[], 7.0),
    ] {
        assert_eq!(value(&samples, name, labels), Some(expected), "{name} {labels:?}");
    }
    assert_eq!(samples.iter().filter(|(name, ..)| name == "rabbitmq_identity_info").count(), 1);
}

#[test]
fn each_object_has_its_samples_in_pieces_that_fit_together() {
    const QUEUES: usize = 3_000;
    let server = TestServer::start(ApiOptions::default(), ServerLimits::default(), || {
        let mut source = source();
        let vhost = source.catalog.vhost_by_name("v 1").expect("it is there");
        source.define([Definition::SetVhostLimits { vhost: Name::from("v 1"), limits: Default::default() }]);
        source.define((0..QUEUES).map(|number| Definition::DeclareQueue {
            vhost,
            name: Name::from(&*format!("q \"{number}\"\\")),
            server_named: false,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: Table::new(),
            home: ShardId(0),
        }));
        source.channels.push(LiveChannel { connection: "c\n".to_owned(), number: 2, ..LiveChannel::default() });
        source
    });
    let samples = parse(&server.connect().request("GET", "/metrics/per-object", &[], b"").text());
    let ready = |vhost: &str, queue: &str| {
        value(&samples, "rabbitmq_queue_messages_ready", &[("vhost", vhost), ("queue", queue)])
    };
    assert_eq!((ready("/", "orders"), ready("v 1", "q \"2999\"\\")), (Some(12.0), Some(0.0)));
    assert_eq!(samples.iter().filter(|(name, ..)| name == "rabbitmq_queue_messages_ready").count(), QUEUES + 4);
    assert_eq!(value(&samples, "rabbitmq_channel_prefetch", &[("channel", "c\n (2)")]), Some(0.0));
    // The detailed endpoint has the families and virtual hosts that are asked for.
    let target = "/metrics/detailed?vhost=%2F&family=queue_coarse_metrics&family=nothing";
    let detailed = parse(&server.connect().request("GET", target, &[], b"").text());
    let names: BTreeSet<_> = detailed.iter().map(|(name, ..)| &**name).collect();
    let expected = [
        "rabbitmq_build_info",
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_identity_info",
    ];
    assert_eq!(names, expected.into());
    assert!(detailed.iter().all(|(_, labels, _)| labels.get("vhost").is_none_or(|vhost| vhost == "/")));
}

/// The families that RabbitMQ 3.10 has, and a name of each.
const FAMILIES: [(&str, &str); 17] = [
    ("queue_coarse_metrics", "detailed_queue_messages"),
    ("queue_metrics", "detailed_queue_messages_ready_bytes"),
    ("queue_consumer_count", "detailed_queue_consumers"),
    ("connection_coarse_metrics", "detailed_connection_incoming_bytes_total"),
    ("connection_metrics", "detailed_connection_channels"),
    ("channel_metrics", "detailed_channel_acks_uncommitted"),
    ("channel_exchange_metrics", "detailed_channel_messages_published_total"),
    ("channel_queue_metrics", "detailed_channel_messages_delivered_ack_total"),
    ("channel_queue_exchange_metrics", "detailed_queue_messages_published_total"),
    ("connection_churn_metrics", "detailed_queues_declared_total"),
    ("node_coarse_metrics", "detailed_process_open_fds"),
    ("node_metrics", "detailed_process_max_fds"),
    ("node_persister_metrics", "detailed_io_sync_ops_total"),
    ("auth_attempt_metrics", "detailed_auth_attempts_total"),
    ("vhost_status", "cluster_vhost_status"),
    ("exchange_names", "cluster_exchange_name"),
    ("exchange_bindings", "cluster_exchange_bindings"),
];

#[test]
fn every_family_has_something_to_say() {
    let server = TestServer::usual();
    for (family, name) in FAMILIES {
        let target = format!("/metrics/detailed?family={family}");
        let samples = parse(&server.connect().request("GET", &target, &[], b"").text());
        assert!(value(&samples, &format!("rabbitmq_{name}"), &[]).is_some(), "{family} has no {name}");
        let others = FAMILIES.iter().filter(|(other, _)| *other != family);
        for (other, name) in others {
            assert_eq!(value(&samples, &format!("rabbitmq_{name}"), &[]), None, "{family} has what {other} has");
        }
    }
    let target = "/metrics/detailed?family=exchange_bindings&vhost=%2F";
    let samples = parse(&server.connect().request("GET", target, &[], b"").text());
    let bindings = |exchange| {
        let labels = [("vhost", "/"), ("exchange", exchange)];
        value(&samples, "rabbitmq_cluster_exchange_bindings", &labels)
    };
    assert_eq!((bindings("amq.fanout"), bindings("amq.topic")), (Some(1.0), Some(0.0)));
    assert!(samples.iter().all(|(_, labels, _)| labels.get("vhost").is_none_or(|vhost| vhost == "/")));
}

/// A source with two shards, logs, RDMA ports, a link, and times.
fn with_runtime() -> CatalogSource {
    let mut source = source();
    let times = || TimeCounts { bounds_us: &[4, 16], classes: vec![1, 2, 3], sum_us: 1_500_000 };
    let offers = NamedTotal { name: "rendezvous_offers", counts: "Rendezvous offered to peers", value: 5 };
    let shard = |busy_ns| ShardCounts {
        busy_ns,
        rounds: times(),
        mail_messages: 7,
        held_dead_letters: 8,
        dropped_dead_letters: 9,
        ..ShardCounts::default()
    };
    let log = |shard, log| LogCounts {
        shard,
        log,
        groups_written: 6,
        sync_us: 250_000,
        live_bytes: 1_000 + u64::from(shard),
        writes: times(),
        ..LogCounts::default()
    };
    source.runtime = RuntimeCounts {
        shards: vec![shard(250_000_000), shard(0)],
        delivery_latency: times(),
        rdma: Some(RdmaCounts { queue_pairs: 2, totals: vec![offers] }),
        memory: vec![("resident", 1 << 20), ("messages", 5)],
        logs: vec![log(0, "messages"), log(1, "messages"), log(1, "spill")],
    };
    let count = |total| RatedCount { total, rate: 0.0 };
    source.counts.io = IoCounts {
        reads: IoOperation { count: count(2), us: count(500_000) },
        bytes_read: count(8_192),
        writes: IoOperation { count: count(6), us: count(30) },
        bytes_written: count(1 << 40),
        syncs: IoOperation { count: count(7), us: count(2_000_000) },
    };
    source.federation_links.push(LiveFederationLink {
        id: "l1".to_owned(),
        vhost: "/".to_owned(),
        upstream: "up \"1\"".to_owned(),
        exchange: "x".to_owned(),
        status: "running",
        messages: 9,
        lag: Some(4),
        ..LiveFederationLink::default()
    });
    source
}

#[test]
fn what_this_broker_alone_tells_has_names_of_its_own() {
    let server = TestServer::start(ApiOptions::default(), ServerLimits::default(), with_runtime);
    assert_eq!(server.get("guest", "/api/nothing").status, 404);
    let read = |target: &str| parse(&server.connect().request("GET", target, &[], b"").text());
    let first = read("/metrics");
    let link = [("link", "l1"), ("vhost", "/"), ("upstream", "up \"1\""), ("exchange", "x")];
    for (name, labels, expected) in [
        ("shard_busy_seconds_total", &[("shard", "0")][..], 0.25),
        ("shard_mail_messages_total", &[("shard", "1")], 7.0),
        ("shard_dead_letters_held", &[("shard", "1")], 8.0),
        ("shard_dead_letters_dropped_total", &[("shard", "1")], 9.0),
        ("shard_round_duration_seconds_bucket", &[("shard", "1"), ("le", "0.000016")], 3.0),
        ("shard_round_duration_seconds_bucket", &[("shard", "1"), ("le", "+Inf")], 6.0),
        ("shard_round_duration_seconds_sum", &[("shard", "1")], 1.5),
        ("delivery_latency_seconds_bucket", &[("le", "0.000004")], 1.0),
        ("delivery_latency_seconds_count", &[], 6.0),
        ("memory_bytes", &[("kind", "resident")], 1_048_576.0),
        ("store_groups_written_total", &[("shard", "0"), ("log", "messages")], 6.0),
        ("store_sync_seconds_total", &[("shard", "1"), ("log", "spill")], 0.25),
        ("store_live_bytes", &[("shard", "1"), ("log", "messages")], 1_001.0),
        ("store_write_duration_seconds_bucket", &[("shard", "1"), ("log", "spill"), ("le", "0.000016")], 3.0),
        ("store_write_duration_seconds_count", &[("shard", "1"), ("log", "spill")], 6.0),
        ("federation_link_running", &link, 1.0),
        ("federation_link_messages_total", &link, 9.0),
        ("federation_link_lag", &link, 4.0),
        ("rdma_queue_pairs", &[], 2.0),
        ("rdma_rendezvous_offers_total", &[], 5.0),
        ("http_requests_total", &[("status", "4xx")], 1.0),
        ("http_request_duration_seconds_count", &[], 1.0),
        ("scrapes_total", &[], 0.0),
    ] {
        assert_eq!(value(&first, &format!("harrier_{name}"), labels), Some(expected), "{name} {labels:?}");
    }
    let second = read("/metrics/detailed?family=harrier_metrics");
    assert!(second.iter().all(|(name, ..)| name.starts_with("harrier_") || name.ends_with("_info")));
    assert_eq!(value(&second, "harrier_scrapes_total", &[]), Some(1.0));
    assert!(value(&second, "harrier_scrape_seconds_total", &[]).is_some_and(|seconds| seconds > 0.0));
    assert_eq!(value(&second, "harrier_http_request_duration_seconds_bucket", &[("le", "+Inf")]), Some(2.0));
    // What the disks do has RabbitMQ's names as well.
    let persister = read("/metrics/detailed?family=node_persister_metrics");
    for (name, expected) in [
        ("read_ops_total", 2.0),
        ("read_bytes_total", 8_192.0),
        ("read_time_seconds_total", 0.5),
        ("write_ops_total", 6.0),
        ("write_bytes_total", 1_099_511_627_776.0),
        ("write_time_seconds_total", 0.000_03),
        ("sync_ops_total", 7.0),
        ("sync_time_seconds_total", 2.0),
    ] {
        assert_eq!(value(&first, &format!("rabbitmq_io_{name}"), &[]), Some(expected), "{name}");
        assert_eq!(value(&persister, &format!("rabbitmq_detailed_io_{name}"), &[]), Some(expected), "{name}");
    }
    // Without RDMA and without a store there are no metrics of them.
    let plain = parse(&TestServer::usual().connect().request("GET", "/metrics", &[], b"").text());
    assert!(!plain.iter().any(|(name, ..)| name.starts_with("harrier_rdma") || name.starts_with("harrier_store")));
}

#[test]
fn prometheus_own_checker_finds_no_fault() {
    if Command::new("promtool").arg("--version").output().is_err() {
        println!("SKIPPED: promtool is not installed (Debian's package `prometheus` has it)");
        return;
    }
    let server = TestServer::start(ApiOptions::default(), ServerLimits::default(), with_runtime);
    for target in ["/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics&family=channel_metrics"] {
        let text = server.connect().request("GET", target, &[], b"").body;
        let mut child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool starts");
        child.stdin.take().expect("it is piped").write_all(&text).expect("promtool reads");
        let output = child.wait_with_output().expect("promtool ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{target}: {said}");
    }
}
