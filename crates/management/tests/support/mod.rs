//! A server over a catalog, and a plain client of HTTP/1.1.
#![allow(dead_code, reason = "each test uses a part")]

use catalog::{Definition, Name, Password};
use definitions::Json;
use management::{
    ApiOptions, CatalogSource, DirectRequests, HttpListener, ListenerFacts, LiveChannel, LiveConnection, LiveConsumer,
    LiveShovel, LiveShovelEnd, QueueCounts, RatedCount, ServedRoutes, ServerStopper, WaitingMessages, serve,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

/// What the tests' broker has defined.
const DEFINITIONS: &str = r#"{
"vhosts":[{"name":"/"},{"name":"v 1"},{"name":"other"}],
"users":[
 {"name":"manager","password_hash":"","tags":"management"},{"name":"maker","password_hash":"","tags":"policymaker"},
 {"name":"monitor","password_hash":"","tags":"monitoring"},{"name":"plain","password_hash":"","tags":""}],
"permissions":[
 {"user":"manager","vhost":"v 1","configure":"","write":"","read":".*"},
 {"user":"maker","vhost":"v 1","configure":"","write":"","read":""},
 {"user":"plain","vhost":"v 1","configure":".*","write":".*","read":".*"}],
"topic_permissions":[{"user":"manager","vhost":"v 1","exchange":"amq.topic","write":"^a","read":"^b"}],
"policies":[{"vhost":"/","name":"short","pattern":"^orders","definition":{"max-length":5},"priority":1}],
"parameters":[
 {"vhost":"/","component":"operator_policy","name":"op","value":{"pattern":"","definition":{"expires":60000000}}},
 {"vhost":"v 1","component":"vhost-limits","name":"limits","value":{"max-queues":7}},
 {"vhost":"/","component":"federation-upstream","name":"up","value":{"uri":"amqp://h"}},
 {"vhost":"v 1","component":"federation-upstream","name":"up","value":{"uri":"amqp://u:s3cret@h"}}],
"global_parameters":[{"name":"g","value":{"a":1}}],
"exchanges":[{"name":"x","vhost":"/","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],
"queues":[
 {"name":"orders","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-max-priority":3,"x-a":1.0}},
 {"name":"my orders","vhost":"/","durable":true,"auto_delete":false,"arguments":{}},
 {"name":"a/b%c","vhost":"/","durable":false,"auto_delete":true,"arguments":[]},
 {"name":"q","vhost":"v 1","durable":true,"auto_delete":false,"arguments":{}}],
"bindings":[
 {"source":"x","vhost":"/","destination":"orders","destination_type":"queue","routing_key":"a.%23#~","arguments":{}},
 {"source":"x","vhost":"/","destination":"orders","destination_type":"queue","routing_key":"","arguments":{"k":1}},
 {"source":"x","vhost":"/","destination":"orders","destination_type":"queue","routing_key":"","arguments":{}},
 {"source":"amq.fanout","vhost":"/","destination":"x","destination_type":"exchange","routing_key":"e","arguments":{}}]}"#;

/// A broker's definitions, some numbers, a connection, a channel and a consumer.
pub fn source() -> CatalogSource {
    let mut source = CatalogSource::default();
    let file = definitions::read(DEFINITIONS.as_bytes()).expect("the file is sound");
    file.load(&mut source.catalog, 1, |_| false).expect("the file is taken in");
    source.kept = file.kept();
    let policies = |policies: Vec<&catalog::Policy>| policies.into_iter().cloned().collect::<Vec<_>>().into();
    source.define([Definition::SetPolicies {
        policies: policies(file.policies().map(|(_, policy)| policy).collect()),
        operator_policies: policies(file.operator_policies().map(|(_, policy)| policy).collect()),
    }]);
    for (name, tag) in [("manager", "management"), ("maker", "policymaker"), ("monitor", "monitoring"), ("plain", "")] {
        let tags = [tag].into_iter().filter(|tag| !tag.is_empty()).map(Name::from).collect();
        let (name, password) = (Name::from(name), Password::sha256(name.as_bytes(), [1; 4]));
        source.define([Definition::PutUser { name, password, tags, loopback_only: false }]);
    }
    let vhost = source.catalog.vhost_by_name("/").expect("it is there");
    let queue = source.catalog.queue(vhost, b"orders").expect("it is there");
    let waiting = WaitingMessages { ready: 12, ready_rate: 1.5, unacknowledged: 3, unacknowledged_rate: 0.0 };
    let counts = QueueCounts { waiting, consumers: 1, idle_since_ms: Some(0), ..QueueCounts::default() };
    source.queue_counts.insert(queue, counts);
    source.counts.waiting = waiting;
    source.counts.global.body_sizes = vec![(64, 2), (1_024, 1)];
    source.counts.global.larger_bodies = 4;
    source.counts.messages.publish = RatedCount { total: 15, rate: 2.5 };
    let connection = "127.0.0.1:5000 -> 127.0.0.1:5672".to_owned();
    source.connections.push(LiveConnection {
        name: connection.clone(),
        user: "manager".to_owned(),
        vhost: "v 1".to_owned(),
        state: "running",
        transport: "tcp",
        ..LiveConnection::default()
    });
    source.connections.push(LiveConnection {
        name: "127.0.0.1:5001 -> 127.0.0.1:5672".to_owned(),
        user: "guest".to_owned(),
        vhost: "/".to_owned(),
        state: "running",
        transport: "tls",
        ..LiveConnection::default()
    });
    let (user, vhost_name) = ("manager".to_owned(), "v 1".to_owned());
    source.channels.push(LiveChannel {
        connection: connection.clone(),
        number: 1,
        user: user.clone(),
        vhost: vhost_name,
        ..LiveChannel::default()
    });
    source.consumers.push(LiveConsumer {
        vhost,
        queue,
        tag: "tag \"1\"".to_owned(),
        is_active: true,
        activity: "up",
        needs_ack: true,
        prefetch_count: 10,
        is_exclusive: false,
        arguments: None,
        connection,
        channel: 1,
        peer_host: "127.0.0.1".to_owned(),
        peer_port: 5_000,
        user,
    });
    let listener = |protocol, port, expires: Option<u64>| ListenerFacts {
        protocol,
        ip_address: "::".to_owned(),
        port,
        certificate_expires_s: expires,
    };
    source.facts.listeners = vec![listener("amqp", 5_672, None), listener("amqp/ssl", 5_671, Some(20 * 86_400))];
    let end = |uri: &str| LiveShovelEnd { uri: uri.to_owned(), ..LiveShovelEnd::default() };
    source.shovels.push(LiveShovel {
        vhost: "v 1".to_owned(),
        name: "s".to_owned(),
        state: "running",
        source: LiveShovelEnd { queue: Some("q".to_owned()), ..end("amqp:///v%201") },
        destination: LiveShovelEnd {
            exchange: Some("x".to_owned()),
            key: Some("k".to_owned()),
            ..end("amqp://h:5672")
        },
        ..LiveShovel::default()
    });
    source
}

/// A running server.
pub struct TestServer {
    pub address: SocketAddr,
    /// Requests without HTTP.
    pub requests: DirectRequests,
    stopper: Option<ServerStopper>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub fn start(
        options: ApiOptions,
        limits: management::limits::ServerLimits,
        source: impl FnOnce() -> CatalogSource + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let (stopper, stop) = ServerStopper::channel();
        let listeners = vec![HttpListener { listener, routes: ServedRoutes::All, tls: None }];
        let (requests, queue) = DirectRequests::channel();
        let serve =
            move || serve(listeners, queue, Box::new(source()), options, limits, stop).expect("the server runs");
        let thread = std::thread::spawn(serve);
        Self { address, requests, stopper: Some(stopper), thread: Some(thread) }
    }

    /// One with the usual definitions and limits.
    pub fn usual() -> Self {
        Self::start(ApiOptions::default(), management::limits::ServerLimits::default(), source)
    }

    pub fn connect(&self) -> HttpClient {
        HttpClient::new(self.address)
    }

    /// What a user gets; its password is its name.
    pub fn get(&self, user: &str, target: &str) -> HttpAnswer {
        self.connect().request("GET", target, &[&basic(user)], b"")
    }

    /// Stops the server, and waits for its thread.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stopper.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends without a panic");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// The header of a user whose password is its name.
pub fn basic(user: &str) -> String {
    use base64ct::{Base64, Encoding};
    format!("Authorization: Basic {}", Base64::encode_string(format!("{user}:{user}").as_bytes()))
}

/// One connection.
pub struct HttpClient {
    pub stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// With names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub fn json(&self) -> Json {
        Json::read(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.body.escape_ascii()))
    }
}

impl HttpClient {
    pub fn new(address: SocketAddr) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(address).expect("the server listens")) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Sends a request, and reads its answer.
    pub fn request(&mut self, method: &str, target: &str, headers: &[&str], body: &[u8]) -> HttpAnswer {
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        if !has_host {
            text.push_str("Host: localhost\r\n");
        }
        headers.iter().for_each(|header| text.push_str(&format!("{header}\r\n")));
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        self.send(&[text.as_bytes(), body].concat());
        self.answer(method)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the server answers");
        line.trim_end().to_owned()
    }

    /// Reads an answer.
    pub fn answer(&mut self, method: &str) -> HttpAnswer {
        let status = self.line();
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut answer = HttpAnswer { status, headers, body: Vec::new() };
        if method == "HEAD" || status == 204 || status == 100 {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(&self.line(), 16).expect("the size of a chunk");
                let mut chunk = vec![0; size];
                self.stream.read_exact(&mut chunk).expect("a chunk");
                self.line();
                if size == 0 {
                    return answer;
                }
                answer.body.extend(chunk);
            }
        }
        let length = answer.header("content-length").map_or(0, |text| text.parse().expect("a length"));
        answer.body = vec![0; length];
        self.stream.read_exact(&mut answer.body).expect("the body");
        answer
    }

    /// Whether the server has closed the connection: waits until it does or sends something.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}
